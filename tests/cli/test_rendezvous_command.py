"""``hearthreel rendezvous``, as a program and as it is typed."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from app.sync.rendezvous import open_rendezvous
from tests.cli.typed import LIMIT_S, start, typist


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals are sent as on POSIX systems")
async def test_a_hosted_rendezvous_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    process = start(tmp_path, "--json", "rendezvous", "--host", "127.0.0.1", "--port", "0")
    try:
        assert process.stdout is not None
        port = json.loads(process.stdout.readline())["port"]
        async with open_rendezvous(f"ws://127.0.0.1:{port}") as link:
            await link.listen([bytes(16)])
            process.send_signal(signal.SIGTERM)
            output, errors = process.communicate(timeout=LIMIT_S)
        assert (process.returncode, output, errors) == (0, "", "")
        assert os.listdir(tmp_path) == [], "it keeps nothing"  # noqa: PTH208 (a test may block)
    finally:
        process.kill()
        process.communicate()


def test_a_certificate_without_its_key_is_a_usage_error(tmp_path: Path) -> None:
    said = typist(tmp_path)("rendezvous", "--certificate", "c.pem", code=2)
    assert "belong together" in said.errors


def test_files_that_are_no_certificate_are_said(tmp_path: Path) -> None:
    for name in ("c.pem", "k.pem"):
        (tmp_path / name).write_bytes(b"nonsense")
    said = typist(tmp_path)(
        "rendezvous", "--certificate", tmp_path / "c.pem", "--key", tmp_path / "k.pem", "--port", "0", code=1
    )
    assert said.errors.startswith("bad-setting: ")
