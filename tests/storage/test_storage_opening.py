"""A whole data directory: opening, reopening, and no plaintext of media anywhere on disk."""

# ruff: noqa: S106 (the tokens of leases are no passwords)

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.core.clock import ManualClock
from app.core.database import Database
from app.core.errors import ErrorCode, ExpectedError
from app.core.paths import DataDir
from app.media.film import Bundle, BundleEntry
from app.storage.opening import Storage, open_storage
from app.storage.segments import LeaseKey, MadeSegment
from app.storage.source import look_at
from app.storage.source_shards import write_source_manifest

MARKER = b"a frame that nobody else may see"


@contextmanager
def opened(root: Path) -> Iterator[Storage]:
    data = DataDir(root=root)
    root.mkdir(exist_ok=True)
    database = Database(data.database)
    try:
        storage = open_storage(data, database, clock=ManualClock())
        yield storage
        storage.close()
    finally:
        database.close()


def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as storage:
        capability = storage.vault.write_bytes(MARKER)
        usage = storage.vault.usage()
    with opened(tmp_path / "data") as storage:
        assert storage.vault.read_all(capability) == MARKER
        assert storage.vault.write_bytes(MARKER) == capability
        assert storage.vault.usage() == usage
        assert storage.vault.verify([capability]).clean
        assert storage.space().total_bytes > 0


def test_a_lost_database_leaves_every_film_readable(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as storage:
        capability = storage.vault.write_bytes(MARKER)
    for path in (tmp_path / "data").glob("hearthreel.db*"):
        path.unlink()
    with opened(tmp_path / "data") as storage:
        assert storage.vault.usage().shards == 1
        assert storage.vault.read_all(capability) == MARKER


def test_a_vault_whose_keys_are_gone_is_not_opened_with_new_ones(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as storage:
        storage.vault.write_bytes(MARKER)
    for path in (tmp_path / "data" / "keys").iterdir():
        path.unlink()
    with pytest.raises(ExpectedError) as caught, opened(tmp_path / "data"):
        pass
    assert caught.value.code == ErrorCode.NOT_FOUND


def test_s1_no_plaintext_of_media_is_ever_on_disk(tmp_path: Path) -> None:
    source = tmp_path / "source.mp4"
    source.write_bytes(MARKER * 200_000)
    raw = os.fsencode(source)
    with opened(tmp_path / "data") as storage:
        vault = storage.vault
        segment = vault.write_bytes(MARKER * 10, pad=True)
        entry = BundleEntry(name="720", number=0, capability=segment, size_bytes=320)
        vault.write_bundle(Bundle(entries=(entry,)))
        vault.write_stream(io.BytesIO(MARKER * 200_000))
        write_source_manifest(vault, raw, seen=look_at(raw))
        lease = LeaseKey(task_id="task", epoch=1, token="token")
        storage.segments.note(
            MadeSegment(lease=lease, job_id="j", plan="p", name="720", number=0, capability=segment, size_bytes=320)
        )
        while_open = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
        assert not [path for path in while_open if MARKER[:20] in path.read_bytes()]
    closed = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
    assert len(closed) > 8
    assert not [path for path in closed if MARKER[:20] in path.read_bytes()]
    assert MARKER[:20] in source.read_bytes()


def test_a_database_of_a_newer_version_asks_for_an_update(tmp_path: Path) -> None:
    with opened(tmp_path / "data"):
        pass
    database = Database(DataDir(root=tmp_path / "data").database)
    with database.transaction():
        database.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES ('vault', 'from_the_future', '')"
        )
    database.close()
    with pytest.raises(ExpectedError) as caught, opened(tmp_path / "data"):
        pass
    assert caught.value.code == ErrorCode.DATA_TOO_NEW


def test_the_index_lives_beside_another_connection_to_the_same_file(tmp_path: Path) -> None:
    with opened(tmp_path / "data") as storage:
        other = Database(DataDir(root=tmp_path / "data").database)
        with other.transaction():
            other.execute("CREATE TABLE jobs (id TEXT)")
        capability = storage.vault.write_bytes(MARKER)
        storage.vault.flush()
        assert other.row("SELECT count(*) AS n FROM shards") == {"n": 1}
        other.close()
        assert storage.vault.read_all(capability) == MARKER
