"""Shards as files: absent or whole after kill -9 and on a full disk; leftovers and strays."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.core.errors import ErrorCode, ExpectedError
from app.storage.cipher import name_of
from app.storage.disk_store import DiskShardStore
from app.storage.durable import write_durably

DATA = b"sealed bytes"
NAME = name_of(DATA)

WRITER = """
    import os, sys
    from pathlib import Path
    from app.storage.cipher import name_of
    from app.storage.disk_store import DiskShardStore

    store = DiskShardStore(Path(sys.argv[1]))
    print("ready", flush=True)
    while True:
        data = os.urandom(300_000)
        store.put(name_of(data), data)
        print(name_of(data), flush=True)
"""


def write_until_killed(folder: Path, lines: int) -> list[str]:
    """Let a process write shards; kill it with SIGKILL after ``lines`` lines and return the names it told."""
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), str(folder)], stdout=subprocess.PIPE, text=True
    ) as process:
        if process.stdout is None:
            pytest.fail("no output to read")
        told = [process.stdout.readline() for _ in range(lines)]
        process.send_signal(signal.SIGKILL)
        told += process.stdout.readlines()
    return [line.strip() for line in told[1:] if line.endswith("\n")]


@pytest.mark.parametrize("lines", [1, 4, 9])
def test_a_writer_killed_at_any_moment_leaves_only_whole_shards(tmp_path: Path, lines: int) -> None:
    told = write_until_killed(tmp_path, lines)
    store = DiskShardStore(tmp_path)
    names = list(store.names())
    assert set(told) <= set(names)
    assert all(name_of(store.get(name)) == name for name in names)
    assert list((tmp_path / "incoming").iterdir()) == []
    assert store.strays() == []


def test_a_half_written_shard_is_swept_at_start_and_never_seen(tmp_path: Path) -> None:
    store = DiskShardStore(tmp_path)
    (tmp_path / "incoming" / "0011.part").write_bytes(b"half")
    assert list(store.names()) == []
    assert store.strays() == []
    DiskShardStore(tmp_path)
    assert not (tmp_path / "incoming" / "0011.part").exists()


def test_a_shard_lies_in_the_folder_of_its_first_two_digits(disk: DiskShardStore, tmp_path: Path) -> None:
    disk.put(NAME, DATA)
    assert (tmp_path / "vault" / NAME[:2] / NAME).read_bytes() == DATA


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_s6_a_full_disk_is_told_and_leaves_nothing_half_written(disk: DiskShardStore, tmp_path: Path) -> None:
    disk.put(NAME, DATA)
    large = os.urandom(200_000)
    with file_size_limit(100_000), pytest.raises(ExpectedError) as caught:
        disk.put(name_of(large), large)
    assert caught.value.code == ErrorCode.DISK_FULL
    assert list((tmp_path / "vault" / "incoming").iterdir()) == []
    assert list(disk.names()) == [NAME]
    assert disk.put(name_of(large), large)


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, ErrorCode.DISK_FULL),
        (errno.EDQUOT, ErrorCode.DISK_FULL),
        (errno.EROFS, ErrorCode.READ_ONLY),
        (errno.EACCES, ErrorCode.READ_ONLY),
    ],
)
def test_a_failing_sync_is_a_failed_put(
    disk: DiskShardStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: ErrorCode
) -> None:
    def failing(_descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        with pytest.raises(ExpectedError) as caught:
            disk.put(NAME, DATA)
    assert caught.value.code == code
    assert list((tmp_path / "vault" / "incoming").iterdir()) == []
    assert disk.put(NAME, DATA)


def test_an_unreadable_sector_counts_as_damage(disk: DiskShardStore, tmp_path: Path) -> None:
    disk.put(NAME, DATA)
    path = tmp_path / "vault" / NAME[:2] / NAME
    path.unlink()
    path.mkdir()  # reading it fails with an error of the file system
    with pytest.raises(ExpectedError) as caught:
        disk.get(NAME)
    assert caught.value.code == ErrorCode.DAMAGED_SHARD
    assert disk.strays() == [f"{NAME[:2]}/{NAME}"]


STRAYS = ("note.txt", "ab/holiday.mp4", f"ab/cd{'0' * 62}", "ab/deeper/film.mkv", "zz/film.mkv", f"cd/{'CD' * 32}")


def test_every_stray_file_is_found_and_can_be_set_aside(disk: DiskShardStore, tmp_path: Path) -> None:
    disk.put(NAME, DATA)
    folder = tmp_path / "vault"
    for stray in STRAYS:
        (folder / stray).parent.mkdir(parents=True, exist_ok=True)
        (folder / stray).write_bytes(b"someone's film")
    (folder / "ab" / ("ab" + "1" * 62)).symlink_to(folder / "note.txt")
    found = disk.strays()
    expected = {"note.txt", "zz", "ab/holiday.mp4", f"ab/cd{'0' * 62}", "ab/deeper", f"cd/{'CD' * 32}"}
    assert set(found) == expected | {f"ab/ab{'1' * 62}"}
    for stray in found:
        disk.set_stray_aside(stray)
    assert disk.strays() == []
    assert (folder / "quarantine" / "note.txt").read_bytes() == b"someone's film"
    assert list(disk.names()) == [NAME]
    assert disk.drop_quarantined(before_ms=10**14) > 0
    assert disk.quarantined() == []


def test_strays_of_the_same_name_do_not_push_each_other_out(disk: DiskShardStore, tmp_path: Path) -> None:
    folder = tmp_path / "vault"
    for content in (b"first", b"second"):
        (folder / "film").mkdir()
        (folder / "film" / "part").write_bytes(content)
        (folder / "note.txt").write_bytes(content + b" note")
        disk.set_stray_aside("film")
        disk.set_stray_aside("note.txt")
    kept = {path.read_bytes() for path in (folder / "quarantine").rglob("*") if path.is_file()}
    assert kept == {b"first", b"second", b"first note", b"second note"}


def test_setting_aside_what_is_gone_is_harmless(disk: DiskShardStore) -> None:
    disk.set_stray_aside("never-was")
    assert disk.quarantined() == []


def test_a_vault_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ExpectedError):
        DiskShardStore(tmp_path / "file" / "vault")


def test_a_durable_write_replaces_the_old_file_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "value"
    write_durably(path, b"old")
    with file_size_limit(100), pytest.raises(ExpectedError):
        write_durably(path, b"n" * 1000)
    assert path.read_bytes() == b"old"
    write_durably(path, b"new")
    assert path.read_bytes() == b"new"
    assert [one.name for one in tmp_path.iterdir()] == ["value"]


def test_the_room_on_the_disk_is_told(disk: DiskShardStore) -> None:
    space = disk.space()
    assert 0 < space.free_bytes <= space.total_bytes
