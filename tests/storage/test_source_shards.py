"""Sources by reference: a manifest without a second copy, shards sealed when asked for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.core.clock import ManualClock
from app.core.errors import BugError, ErrorCode, ExpectedError
from app.storage.cipher import SHARD_BYTES, name_of
from app.storage.source import look_at
from app.storage.source_shards import SourceShards, write_source_manifest
from app.storage.vault import Vault

CONTENT = bytes(range(251)) * 40_000  # about 10 MB: three shards


@pytest.fixture
def film(tmp_path: Path) -> bytes:
    path = tmp_path / "film.mp4"
    path.write_bytes(CONTENT)
    return os.fsencode(path)


def written(vault: Vault, path: bytes) -> str:
    return write_source_manifest(vault, path, seen=look_at(path))


def test_s3_a_source_is_hashed_without_being_touched_or_copied(vault: Vault, film: bytes) -> None:
    before = os.stat(film)  # noqa: PTH116 (bytes paths)
    capability = written(vault, film)
    after = os.stat(film)  # noqa: PTH116 (bytes paths)
    assert (before.st_mtime_ns, before.st_size, before.st_ino) == (after.st_mtime_ns, after.st_size, after.st_ino)
    assert vault.length(capability) == len(CONTENT)
    assert vault.usage().shards == 1
    assert vault.usage().size_bytes < 1000


def test_sealed_shards_are_those_that_a_stored_copy_has(vault: Vault, film: bytes) -> None:
    shards = SourceShards(vault, written(vault, film), film)
    stored = vault.write_bytes(CONTENT)
    assert {leaf.entry.name for leaf in vault.leaves(stored)} == set(shards.names())
    for name in shards.names():
        sealed = shards.seal(name)
        assert name_of(sealed) == name
        assert vault._raw.get(name) == sealed


def test_a_shard_of_something_else_is_missing(vault: Vault, film: bytes) -> None:
    shards = SourceShards(vault, written(vault, film), film)
    with pytest.raises(ExpectedError) as caught:
        shards.seal("ab" * 32)
    assert caught.value.code == ErrorCode.MISSING_SHARD


def test_a_changed_source_gives_no_shard_from_where_it_changed(vault: Vault, film: bytes) -> None:
    shards = SourceShards(vault, written(vault, film), film)
    first, *_rest, last = shards.names()
    with open(film, "r+b") as file:  # noqa: PTH123 (bytes paths)
        file.seek(SHARD_BYTES * 2 + 5)
        file.write(b"changed")
    assert name_of(shards.seal(first)) == first
    with pytest.raises(ExpectedError) as caught:
        shards.seal(last)
    assert caught.value.code == ErrorCode.SOURCE_CHANGED


def test_a_source_cut_short_or_gone_is_told(vault: Vault, film: bytes) -> None:
    shards = SourceShards(vault, written(vault, film), film)
    last = shards.names()[-1]
    os.truncate(film, SHARD_BYTES)
    with pytest.raises(ExpectedError) as caught:
        shards.seal(last)
    assert caught.value.code == ErrorCode.SOURCE_CHANGED
    os.unlink(film)  # noqa: PTH108 (bytes paths)
    with pytest.raises(ExpectedError) as caught:
        shards.seal(last)
    assert caught.value.code == ErrorCode.NOT_FOUND


def test_a_source_that_is_not_what_was_seen_is_refused(vault: Vault, film: bytes) -> None:
    seen = look_at(film)
    os.utime(film, ns=(0, 0))
    with pytest.raises(ExpectedError) as caught:
        write_source_manifest(vault, film, seen=seen)
    assert caught.value.code == ErrorCode.SOURCE_CHANGED


def test_only_a_source_by_reference_can_be_sealed_from_a_file(vault: Vault, film: bytes) -> None:
    with pytest.raises(BugError):
        SourceShards(vault, vault.write_bytes(b"film"), film)


def test_a_source_by_reference_is_neither_missing_nor_collected(vault: Vault, film: bytes, clock: ManualClock) -> None:
    capability = written(vault, film)
    clock.advance(48 * 3600)
    assert vault.verify([capability]).clean
    assert vault.collect([capability], now_ms=clock.wall_ms()).shards == 0
    assert vault.collect([], now_ms=clock.wall_ms()).shards == 1


def test_a_small_source_by_reference_stores_nothing_and_is_clean(vault: Vault, tmp_path: Path) -> None:
    (tmp_path / "small.mp4").write_bytes(b"small film")
    path = os.fsencode(tmp_path / "small.mp4")
    capability = written(vault, path)
    assert vault.usage().shards == 0
    assert vault.verify([capability]).clean
    assert [name_of(SourceShards(vault, capability, path).seal(name)) for name in vault.shards_of(capability)] == list(
        vault.shards_of(capability)
    )
