"""Opening a data directory: lock, device, settings, database; what is refused, and that it leaves nothing held."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from app.core.database import Database
from app.core.device import Device, start_device
from app.core.errors import ErrorCode, ExpectedError
from app.core.paths import DataDir
from app.core.settings import SETTINGS, SettingsFile
from app.engine import api
from app.engine.folders import expand_paths
from app.engine.lock import Endpoint, EngineLock, read_endpoint
from tests.engine.stage import engine_on

ID = "0123456789abcdef" * 2


async def refusal_of(root: Path) -> ExpectedError:
    """Return why no engine starts on ``root``."""
    with pytest.raises(ExpectedError) as caught:
        async with engine_on(root, work=False):
            pass
    return caught.value


def put(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)


def set_aside(root: Path) -> None:
    root.rename(root.with_name("aside"))


@contextmanager
def unwritable(folder: Path) -> Iterator[None]:
    folder.chmod(0o500)
    try:
        yield
    finally:
        folder.chmod(0o700)


async def test_a_data_directory_has_one_engine(root: Path) -> None:
    async with engine_on(root, work=False):
        assert (await refusal_of(root)).code is ErrorCode.ENGINE_RUNNING
    async with engine_on(root, work=False):
        pass


async def test_an_engine_that_ends_takes_its_endpoint_away(root: Path) -> None:
    data = DataDir(root=root)
    lock = EngineLock(data)
    lock.acquire()
    lock.publish(Endpoint(port=1, token="t", pid=2))  # noqa: S106 (a made-up token)
    assert read_endpoint(data) == Endpoint(port=1, token="t", pid=2)  # noqa: S106
    lock.release()
    assert read_endpoint(data) is None


def test_the_endpoint_of_a_killed_engine_is_taken_away(root: Path) -> None:
    root.mkdir()
    data = DataDir(root=root)
    data.endpoint.write_bytes(msgspec.json.encode(Endpoint(port=1, token="t", pid=2)))  # noqa: S106
    lock = EngineLock(data)
    lock.acquire()
    assert read_endpoint(data) is None
    lock.release()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"port": "x"}', b"\xff\xfe"])
def test_an_endpoint_that_cannot_be_read_is_none(root: Path, content: bytes) -> None:
    root.mkdir()
    DataDir(root=root).endpoint.write_bytes(content)
    assert read_endpoint(DataDir(root=root)) is None


def test_a_killed_process_gives_its_lock_back(root: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from app.core.paths import DataDir; "
        "from app.engine.lock import EngineLock; lock = EngineLock(DataDir(root=Path(sys.argv[1]))); lock.acquire(); "
        "print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(ExpectedError) as caught:
            EngineLock(DataDir(root=root)).acquire()
        assert caught.value.code is ErrorCode.ENGINE_RUNNING
        other.kill()
    lock = EngineLock(DataDir(root=root))
    lock.acquire()
    lock.release()


# Device


def test_a_device_keeps_its_id_and_counts_its_starts(tmp_path: Path) -> None:
    path = tmp_path / "device.json"
    first, second = start_device(path, id=ID, key="aa"), start_device(path, id=ID, key="aa")
    assert (first.boot, second.boot) == (1, 2)
    assert (first.id, first.name) == (second.id, second.name)
    assert (first.id, first.key, first.former) == (ID, "aa", "")
    assert msgspec.json.decode(path.read_bytes(), type=Device) == second


@pytest.mark.parametrize("content", [b"", b"{", b'{"id": 3}', b"\xff", b'{"id": "\xff\xff", "name": "x", "boot": 1}'])
async def test_a_damaged_device_file_is_told_and_left_alone(root: Path, content: bytes) -> None:
    put(DataDir(root=root).device, content)
    assert (await refusal_of(root)).code is ErrorCode.DATABASE_DAMAGED
    assert DataDir(root=root).device.read_bytes() == content
    DataDir(root=root).device.unlink()
    async with engine_on(root, work=False):
        pass


async def test_what_lies_in_the_way_of_the_device_file_is_told(root: Path) -> None:
    DataDir(root=root).device.with_suffix(".tmp").mkdir(parents=True)
    assert "device" in (await refusal_of(root)).message


# Settings


def test_what_is_not_in_the_file_has_its_default(tmp_path: Path) -> None:
    settings = SettingsFile(tmp_path / "settings.json")
    assert settings.all() == {name: one.default for name, one in SETTINGS.items()}
    settings.set("profile", "passthrough")
    assert settings.get("profile") == "passthrough"
    assert SettingsFile(tmp_path / "settings.json").get("profile") == "passthrough"


def test_names_of_other_versions_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text('{"later.thing": [1], "vault.copies": 4}')
    settings = SettingsFile(path)
    settings.set("worker.enabled", "off")
    assert msgspec.json.decode(path.read_bytes()) == {
        "later.thing": [1],
        "vault.copies": 4,
        "worker.enabled": False,
    }
    assert "later.thing" not in settings.all()


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("worker.enabled", "yes", True),
        ("worker.enabled", " OFF ", False),
        ("vault.copies", "20", 20),
        ("vault.quota", "500G", 500_000_000_000),
        ("vault.quota", "1.5 GiB", 1_500_000_000),
        ("vault.quota", "0", 0),
        ("listen.port", "65535", 65535),
        ("profile", "default", "default"),
    ],
)
def test_settings_are_typed_as_people_do(tmp_path: Path, name: str, text: str, value: object) -> None:
    settings = SettingsFile(tmp_path / "settings.json")
    settings.set(name, text)
    assert settings.get(name) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("worker.enabled", "maybe"),
        ("worker.enabled", ""),
        ("vault.copies", "0"),
        ("vault.copies", "1.5"),
        ("vault.quota", "-1"),
        ("vault.quota", "much"),
        ("vault.quota", "nan"),
        ("vault.quota", "inf"),
        ("listen.port", "65536"),
        ("profile", "best"),
        ("no.such", "1"),
    ],
)
def test_what_does_not_fit_changes_nothing(tmp_path: Path, name: str, text: str) -> None:
    settings = SettingsFile(tmp_path / "settings.json")
    with pytest.raises(ExpectedError) as caught:
        settings.set(name, text)
    assert caught.value.code is ErrorCode.BAD_SETTING
    assert not (tmp_path / "settings.json").exists()


def test_a_settings_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "settings.tmp").mkdir()
    with pytest.raises(ExpectedError, match=r"settings\.json"):
        SettingsFile(tmp_path / "settings.json").set("vault.copies", "3")


async def test_a_damaged_settings_file_is_told_and_nothing_stays_held(root: Path) -> None:
    settings = DataDir(root=root).settings
    put(settings, b"{broken")
    error = await refusal_of(root)
    assert error.code is ErrorCode.BAD_SETTING
    assert str(settings) in error.message
    assert settings.read_bytes() == b"{broken"
    settings.unlink()
    async with engine_on(root, work=False):
        pass


# Database


def _overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b"not a database at all" * 400),
        lambda path: _overwrite(path, 100, os.urandom(4000)),
        lambda path: _overwrite(path, 4096, os.urandom(4096 * 3)),
        lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    ],
    ids=["foreign", "first page", "later pages", "cut"],
)
async def test_a_damaged_database_is_told_and_left_as_it_is(library_root: Path, damage: Callable[[Path], None]) -> None:
    database = DataDir(root=library_root).database
    damage(database)
    before = database.read_bytes()
    assert (await refusal_of(library_root)).code is ErrorCode.DATABASE_DAMAGED
    assert database.read_bytes() == before
    set_aside(library_root)
    async with engine_on(library_root, work=False) as engine:
        assert await engine.call(api.ListJobs()) == ()


async def test_a_newer_database_is_not_touched(library_root: Path) -> None:
    database = sqlite3.connect(DataDir(root=library_root).database)
    (table,) = (
        name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'") if "migr" in name
    )
    (known,) = database.execute(f"SELECT migration_set FROM {table} LIMIT 1").fetchone()  # noqa: S608 (its own name)
    columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
    values = {"migration_set": known, "name": "step of tomorrow", "applied_at": "2100-01-01"}
    names = [name for name in columns if name in values]
    database.execute(
        f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})",  # noqa: S608
        [values[name] for name in names],
    )
    database.commit()
    database.close()
    error = await refusal_of(library_root)
    assert error.code is ErrorCode.DATA_TOO_NEW
    assert "update" in error.message


@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="everything can be written by root")
async def test_a_data_directory_that_cannot_be_written_is_read_only(library_root: Path) -> None:
    with unwritable(library_root):
        assert (await refusal_of(library_root)).code is ErrorCode.READ_ONLY


async def test_a_file_in_the_place_of_the_data_directory_is_told(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(ExpectedError):
        async with engine_on(tmp_path / "data", work=False):
            pass


def test_a_database_of_tests_is_sound(tmp_path: Path) -> None:
    """The damage above is seen because it is there, not because a check always says so."""
    database = Database(tmp_path / "x.db")
    assert database.check() is None
    database.close()


# Folders


def test_folders_are_walked_in_order_and_files_taken_as_they_are(tmp_path: Path) -> None:
    for name in ("b.mkv", "a.MP4", "notes.txt", ".hidden.mp4", "deeper/c.webm", ".git/d.mp4", "deeper/e.srt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    found = [Path(os.fsdecode(one)).relative_to(tmp_path) for one in expand_paths([os.fsencode(tmp_path)])]
    assert [str(one) for one in found] == ["a.MP4", "b.mkv", "deeper/c.webm"]
    named = os.fsencode(tmp_path / "notes.txt")
    assert list(expand_paths([named, os.fsencode(tmp_path / "not there.mp4")])) == [
        named,
        os.fsencode(tmp_path / "not there.mp4"),
    ]


def test_names_that_are_no_text_are_walked_too(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/bad\xff\xfename.mp4"
    Path(os.fsdecode(name)).touch()
    assert list(expand_paths([os.fsencode(tmp_path)])) == [name]


def test_a_circle_of_links_is_walked_once(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").touch()
    (tmp_path / "loop").symlink_to(tmp_path)
    assert len(list(expand_paths([os.fsencode(tmp_path)]))) == 1
