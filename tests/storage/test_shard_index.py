"""The index: notes in batches, rebuilt after a bad end, untouched by reading."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.core.clock import ManualClock
from app.storage.cipher import VaultKey, name_of
from app.storage.disk_store import DiskShardStore
from app.storage.index import ShardIndex
from app.storage.shard_store import MemoryShardStore
from app.storage.shared_database import SharedDatabase
from app.storage.vault import Vault


def rows(shared: SharedDatabase) -> dict[str, tuple[int, int, int]]:
    found = shared.rows("SELECT * FROM shards")
    return {bytes(row["name"]).hex(): (row["size"], row["last_written_ms"], row["last_used_ms"]) for row in found}


def test_notes_are_written_down_in_batches_and_counted_before(
    shared: SharedDatabase, key: VaultKey, clock: ManualClock
) -> None:
    vault = Vault(store=MemoryShardStore(wall_ms=clock.wall_ms), index=ShardIndex(shared), key=key, clock=clock)
    for number in range(300):
        vault.write_bytes(number.to_bytes(4, "big"))
        assert vault.usage().shards == number + 1
    assert len(rows(shared)) == 256
    vault.write_bytes(bytes(4))
    assert vault.usage().shards == 300
    assert vault.usage().size_bytes == 300 * 20
    vault.flush()
    assert len(rows(shared)) == 300


def test_reading_writes_nothing_until_the_next_batch(vault: Vault, shared: SharedDatabase, clock: ManualClock) -> None:
    capability = vault.write_bytes(b"film")
    written_ms = clock.wall_ms()
    vault.flush()
    clock.advance(60)
    vault.read_all(capability)
    (name,) = vault.shards_of(capability)
    assert rows(shared)[name] == (20, written_ms, written_ms)
    vault.flush()
    assert rows(shared)[name] == (20, written_ms, written_ms + 60_000)


def test_a_failed_put_leaves_no_row_and_no_hold(shared: SharedDatabase) -> None:
    index = ShardIndex(shared)
    with pytest.raises(OSError, match="full"), index.writing("ab" * 32):
        raise OSError("full")
    assert not index.knows("ab" * 32)
    assert index.totals().shards == 0


def test_a_clean_end_spares_the_next_start_the_look_at_every_file(
    disk: DiskShardStore, shared: SharedDatabase, tmp_path: Path
) -> None:
    index = ShardIndex(shared)
    index.start(disk)
    index.close()
    foreign = b"put here behind our back"
    path = tmp_path / "vault" / name_of(foreign)[:2] / name_of(foreign)
    path.parent.mkdir()
    path.write_bytes(foreign)
    clean = ShardIndex(shared)
    clean.start(disk)
    assert not clean.knows(name_of(foreign))
    after_a_crash = ShardIndex(shared)
    after_a_crash.start(disk)
    assert after_a_crash.knows(name_of(foreign))


def test_rebuilding_forgets_what_is_gone_and_keeps_known_times(
    vault: Vault, shared: SharedDatabase, clock: ManualClock
) -> None:
    kept, gone = vault.write_bytes(b"kept"), vault.write_bytes(b"gone")
    vault._raw.delete(next(iter(vault.shards_of(gone))))
    vault.rebuild_index()
    assert rows(shared) == {next(iter(vault.shards_of(kept))): (20, clock.wall_ms(), clock.wall_ms())}


def test_what_is_being_put_is_known_and_not_set_aside(shared: SharedDatabase) -> None:
    index = ShardIndex(shared)
    store = MemoryShardStore(wall_ms=ManualClock().wall_ms)
    store.put("ab" * 32, b"bytes")
    with index.writing("ab" * 32), index.writing("ab" * 32):
        assert not index.set_aside_unknown("ab" * 32, store)
    assert index.set_aside_unknown("ab" * 32, store)
    assert store.quarantined() == ["ab" * 32]
