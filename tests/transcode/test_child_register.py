"""Orphans: a sweep ends what an earlier engine left, and never a stranger that has got its number."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from app.transcode.register import ChildEntry, ChildRegister


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-S", "-E", "-c", "import time; time.sleep(600)"]) as process:
        yield process
        process.kill()


def test_a_sweep_ends_the_child_that_an_earlier_engine_left(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    path = tmp_path / "children.json"
    ChildRegister(path).add(sleeper.pid)
    assert ChildRegister(path).sweep() == 1
    assert sleeper.wait(5) < 0
    assert ChildRegister(path).sweep() == 0


def test_a_sweep_ends_a_stopped_child(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    path = tmp_path / "children.json"
    ChildRegister(path).add(sleeper.pid)
    psutil.Process(sleeper.pid).suspend()
    assert ChildRegister(path).sweep() == 1
    assert sleeper.wait(5) < 0


def test_a_sweep_must_not_end_another_process_with_the_same_number(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    path = tmp_path / "children.json"
    started_s = psutil.Process(sleeper.pid).create_time() - 60
    path.write_bytes(msgspec.json.encode([ChildEntry(pid=sleeper.pid, started_s=started_s)]))
    assert ChildRegister(path).sweep() == 0
    assert sleeper.poll() is None


def test_a_child_that_ended_is_forgotten(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    path = tmp_path / "children.json"
    register = ChildRegister(path)
    register.add(sleeper.pid)
    register.remove(sleeper.pid)
    assert path.read_bytes() == b"[]"


def test_a_sweep_keeps_the_children_of_this_engine(tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
    path = tmp_path / "children.json"
    path.write_bytes(b"[]")
    register = ChildRegister(path)
    register.sweep()
    register.add(sleeper.pid)
    assert str(sleeper.pid).encode() in path.read_bytes()


@pytest.mark.parametrize("left", [b"", b"{", b'[{"pid": "x"}]', b"\xff"])
def test_a_damaged_list_is_an_empty_one(tmp_path: Path, left: bytes) -> None:
    path = tmp_path / "children.json"
    path.write_bytes(left)
    assert ChildRegister(path).sweep() == 0


def test_without_a_file_nothing_is_kept(sleeper: subprocess.Popen[bytes]) -> None:
    register = ChildRegister(None)
    register.add(sleeper.pid)
    assert register.sweep() == 0
    assert sleeper.poll() is None
