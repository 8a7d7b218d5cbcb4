"""Typing commands: in this process (fast) or as a program of its own (signals, several at once)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from click.testing import CliRunner

from app.cli import Context, cli

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 180.0


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What a command said and how it ended."""

    code: int
    output: str
    errors: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Standard output as JSON objects, one a line; anything else there fails the test."""
        rows = [json.loads(line) for line in self.output.splitlines()]
        assert all(isinstance(row, dict) for row in rows), self.output
        return rows

    @property
    def row(self) -> dict[str, Any]:
        """The only JSON object."""
        (row,) = self.rows
        return row


Type = Callable[..., Said]


def typist(root: Path) -> Type:
    """Return a function that types a command for the data directory ``root`` and wants its exit code to be ``code``."""

    def type_in(*words: str | Path, code: int = 0) -> Said:
        arguments = ["--data-dir", str(root), *map(str, words)]
        result = CliRunner().invoke(cli, arguments, obj=Context())
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        said = Said(code=result.exit_code, output=result.stdout, errors=result.stderr)
        assert said.code == code, said
        return said

    return type_in


def command(root: Path, *words: str | bytes | Path) -> list[str | bytes]:
    """Return the argument list of the program itself."""
    return [sys.executable, "-m", "app", "--data-dir", str(root), *(os.fsencode(word) for word in words)]


def run(root: Path, *words: str | bytes | Path, code: int = 0) -> Said:
    """Run the program to its end."""
    done = subprocess.run(command(root, *words), cwd=ROOT, capture_output=True, timeout=LIMIT_S, check=False)
    said = Said(
        code=done.returncode,
        output=done.stdout.decode(),
        errors=done.stderr.decode(errors="replace"),
    )
    assert said.code == code, said
    return said


def start(root: Path, *words: str | Path) -> subprocess.Popen[str]:
    """Start the program; its output can be read line by line."""
    return subprocess.Popen(
        command(root, *words), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )
