"""Collection: only what no live root reaches, only after its grace, never under a writer's hands."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.core.clock import ManualClock
from app.core.database import Database
from app.core.errors import ErrorCode, ExpectedError
from app.media.film import Bundle, BundleEntry
from app.storage.cipher import VaultKey
from app.storage.collection import GRACE_MS
from app.storage.disk_store import DiskShardStore
from app.storage.index import ShardIndex
from app.storage.shard_store import MemoryShardStore
from app.storage.shared_database import SharedDatabase
from app.storage.vault import Vault

DAY_S = 24 * 3600


def is_here(vault: Vault, capability: str) -> bool:
    try:
        vault.read_all(capability)
    except ExpectedError as error:
        if error.code == ErrorCode.MISSING_SHARD:
            return False
        raise
    return True


def test_s5_only_what_no_live_root_reaches_goes(small_vault: Vault, clock: ManualClock) -> None:
    kept = small_vault.write_bytes(b"k" * 35 + b"shared piece")
    gone = small_vault.write_bytes(os.urandom(200))
    clock.advance(2 * DAY_S)
    report = small_vault.collect([kept], now_ms=clock.wall_ms())
    assert report.shards > 20
    assert report.freed_bytes > 200
    assert is_here(small_vault, kept)
    assert not is_here(small_vault, gone)
    assert small_vault.usage().shards == len(small_vault.shards_of(kept))


def test_s5_nothing_goes_within_its_grace(vault: Vault, clock: ManualClock) -> None:
    young = vault.write_bytes(b"young")
    clock.advance(DAY_S - 1)
    assert vault.collect([], now_ms=clock.wall_ms()).shards == 0
    assert is_here(vault, young)
    clock.advance(1)
    assert vault.collect([], now_ms=clock.wall_ms()).shards == 1
    assert not is_here(vault, young)


def test_s5_a_deduplicated_hit_restarts_the_grace(vault: Vault, clock: ManualClock) -> None:
    content = vault.write_bytes(b"content")
    clock.advance(2 * DAY_S)
    assert vault.write_bytes(b"content") == content
    assert vault.collect([], now_ms=clock.wall_ms()).shards == 0
    clock.advance(DAY_S)
    assert vault.collect([], now_ms=clock.wall_ms()).shards == 1


def test_a_bundle_keeps_its_entries_and_what_only_an_old_bundle_held_goes(vault: Vault, clock: ManualClock) -> None:
    segments = [vault.write_bytes(f"segment {number}".encode()) for number in range(3)]
    bundles = [
        vault.write_bundle(
            Bundle(
                entries=tuple(
                    BundleEntry(name="720", number=number, capability=capability, size_bytes=9)
                    for number, capability in enumerate(chosen)
                )
            )
        )
        for chosen in (segments[:2], segments[1:])
    ]
    clock.advance(2 * DAY_S)
    vault.collect([bundles[0]], now_ms=clock.wall_ms())
    assert [is_here(vault, segment) for segment in segments] == [True, True, False]


def test_an_explicit_removal_gives_the_space_back_at_once_and_nothing_else(vault: Vault, clock: ManualClock) -> None:
    shared = vault.write_bytes(b"shared")
    own = vault.write_bytes(b"own")
    fresh = vault.write_bytes(b"being made")
    clock.advance(3600)
    report = vault.collect([shared], removed=[own, shared], now_ms=clock.wall_ms())
    assert report.shards == 1
    assert [is_here(vault, one) for one in (shared, own, fresh)] == [True, False, True]


def test_a_removal_spares_what_another_file_hit_a_moment_ago(vault: Vault, clock: ManualClock) -> None:
    removed = vault.write_bytes(b"same content")
    clock.advance(3600)
    vault.write_bytes(b"same content")  # a running task, whose row is not written yet
    clock.advance(1)
    assert vault.collect([], removed=[removed], now_ms=clock.wall_ms()).shards == 0
    clock.advance(DAY_S)
    assert vault.collect([], now_ms=clock.wall_ms()).shards == 1


def test_a_removed_root_that_is_damaged_does_not_stop_the_removal(small_vault: Vault, clock: ManualClock) -> None:
    removed = small_vault.write_bytes(os.urandom(95))
    small_vault._raw.delete(next(iter(small_vault.leaves(removed))).entry.name)
    assert small_vault.collect([], removed=["nonsense", removed], now_ms=clock.wall_ms()).shards > 5


def test_no_grace_removes_what_nothing_reaches_now(vault: Vault, clock: ManualClock) -> None:
    gone = vault.write_bytes(b"just written")
    assert vault.collect([], now_ms=clock.wall_ms(), grace_ms=0).shards == 1
    assert not is_here(vault, gone)


def test_what_is_written_after_the_collection_began_stays_even_without_grace(vault: Vault, clock: ManualClock) -> None:
    before = vault.write_bytes(b"before")
    made: list[str] = []

    def live() -> Iterator[str]:  # asked for once the collection has begun
        made.append(vault.write_bytes(b"meanwhile"))
        yield from ()

    assert vault.collect(live(), now_ms=clock.wall_ms(), grace_ms=0).shards == 1
    assert [is_here(vault, one) for one in (before, *made)] == [False, True]


@pytest.mark.parametrize("root", ["nonsense", "hr2.AAAA"])
def test_a_root_that_cannot_be_read_blocks_the_collection(vault: Vault, clock: ManualClock, root: str) -> None:
    vault.write_bytes(b"unreached")
    clock.advance(2 * DAY_S)
    report = vault.collect([root], now_ms=clock.wall_ms())
    assert report.blocked_by == (root,)
    assert report.shards == 0
    assert vault.usage().shards == 1


def test_a_root_with_a_lost_manifest_keeps_what_it_may_have_reached(small_vault: Vault, clock: ManualClock) -> None:
    content = os.urandom(95)
    root = small_vault.write_bytes(content)
    manifests = small_vault.shards_of(root) - {leaf.entry.name for leaf in small_vault.leaves(root)}
    small_vault._raw.delete(min(manifests))
    clock.advance(2 * DAY_S)
    assert small_vault.collect([root], now_ms=clock.wall_ms()).blocked_by == (root,)
    assert small_vault.write_bytes(content) == root
    assert small_vault.read_all(root) == content


def test_the_collector_leaves_a_live_root_with_lost_content_alone(small_vault: Vault, clock: ManualClock) -> None:
    root = small_vault.write_bytes(os.urandom(95))
    lost, *rest = [leaf.entry.name for leaf in small_vault.leaves(root)]
    small_vault._raw.delete(lost)
    clock.advance(2 * DAY_S)
    report = small_vault.collect([root], now_ms=clock.wall_ms())
    assert report.blocked_by == ()
    assert all(small_vault._raw.stat(name) for name in rest)


def test_what_was_quarantined_goes_after_thirty_days(vault: Vault, tmp_path: Path) -> None:
    vault.write_bytes(b"bad")
    (name,) = [path.name for path in (tmp_path / "vault").rglob("*") if len(path.name) == 64]
    vault._raw.quarantine(name)
    moved_ms = (tmp_path / "vault" / "quarantine" / name).stat().st_mtime_ns // 1_000_000
    vault.collect([], now_ms=moved_ms + 29 * GRACE_MS)
    assert vault._raw.quarantined() == [name]
    vault.collect([], now_ms=moved_ms + 31 * GRACE_MS)
    assert vault._raw.quarantined() == []


class InterruptedStore(MemoryShardStore):
    """Lets something happen right before or right after a put has looked at what is here."""

    before: Callable[[], None] | None = None
    after: Callable[[], None] | None = None

    def put(self, name: str, data: bytes) -> bool:
        if self.before:
            self.before()
        is_new = super().put(name, data)
        if self.after:
            self.after()
        return is_new


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("as_removal", [True, False])
def test_s5_a_collection_in_the_middle_of_a_hit_never_takes_the_shard(
    shared: SharedDatabase, key: VaultKey, clock: ManualClock, moment: str, *, as_removal: bool
) -> None:
    store = InterruptedStore(wall_ms=clock.wall_ms)
    vault = Vault(store=store, index=ShardIndex(shared), key=key, clock=clock)
    old = vault.write_bytes(b"content")
    clock.advance(2 * DAY_S)
    removed = [old] if as_removal else []
    setattr(store, moment, lambda: vault.collect([], removed=removed, now_ms=clock.wall_ms(), grace_ms=0))
    vault.write_bytes(b"content")
    store.before = store.after = None
    assert is_here(vault, old)


class WatchingStore(MemoryShardStore):
    """Lets something happen while the collector deletes its first shard."""

    on_delete: Callable[[], None] | None = None

    def delete(self, name: str) -> int:
        then, self.on_delete = self.on_delete, None
        if then:
            then()
        return super().delete(name)


def test_s5_a_writer_that_comes_while_the_collector_deletes_writes_again(
    shared: SharedDatabase, key: VaultKey, clock: ManualClock
) -> None:
    store = WatchingStore(wall_ms=clock.wall_ms)
    vault = Vault(store=store, index=ShardIndex(shared), key=key, clock=clock)
    contents = [bytes([number]) * 100 for number in range(20)]
    capabilities = [vault.write_bytes(content) for content in contents]
    clock.advance(2 * DAY_S)
    writer = threading.Thread(target=lambda: [vault.write_bytes(content) for content in contents])
    store.on_delete = writer.start
    vault.collect([], now_ms=clock.wall_ms())
    writer.join()
    assert all(is_here(vault, capability) for capability in capabilities)
    assert vault.usage().shards == 20


def test_s5_writers_and_collectors_at_once_lose_nothing_that_was_written_again(
    vault: Vault, clock: ManualClock
) -> None:
    contents = [bytes([number]) * 50 for number in range(200)]
    capabilities = [vault.write_bytes(content) for content in contents]
    clock.advance(2 * DAY_S)
    done = threading.Event()

    def collect_all_the_time() -> None:
        while not done.is_set():
            vault.collect([], now_ms=clock.wall_ms())

    def write(part: int) -> None:
        for content in contents[part:100:3]:
            vault.write_bytes(content)

    collector = threading.Thread(target=collect_all_the_time)
    writers = [threading.Thread(target=write, args=(part,)) for part in range(3)]
    for thread in (*writers, collector):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    collector.join()
    vault.collect([], now_ms=clock.wall_ms())
    assert [is_here(vault, one) for one in capabilities] == [True] * 100 + [False] * 100


def test_a_crash_of_the_process_forgets_no_shard(tmp_path: Path, key: VaultKey, clock: ManualClock) -> None:
    """Notes that were only in memory are found again in the files, with the files' own times."""
    for _start in range(2):  # no close: the process was killed
        database = Database(tmp_path / "index.db")
        vault = Vault(
            store=DiskShardStore(tmp_path / "vault"), index=ShardIndex(SharedDatabase(database)), key=key, clock=clock
        )
        capability = vault.write_bytes(b"content")
        assert vault.usage().shards == 1
        database.close()
    database = Database(tmp_path / "index.db")
    vault = Vault(
        store=DiskShardStore(tmp_path / "vault"), index=ShardIndex(SharedDatabase(database)), key=key, clock=clock
    )
    (name,) = vault.shards_of(capability)
    assert vault.usage().shards == 1
    file_ms = (tmp_path / "vault" / name[:2] / name).stat().st_mtime_ns // 1_000_000
    assert vault.collect([], now_ms=file_ms + GRACE_MS - 1).shards == 0
    assert vault.collect([], now_ms=file_ms + GRACE_MS).shards == 1
    database.close()


def test_a_root_that_lies_on_another_device_stops_collection_only_where_there_is_none(
    small_vault: Vault, clock: ManualClock
) -> None:
    """What was here and is gone is a loss, and stops it with other devices too."""
    elsewhere = small_vault.write_bytes(b"e" * 60)
    for name in small_vault.shards_of(elsewhere):
        small_vault._raw.delete(name)
    small_vault.rebuild_index()
    lost = small_vault.write_bytes(os.urandom(60))
    gone = small_vault.write_bytes(os.urandom(60))
    clock.advance(2 * DAY_S)
    assert small_vault.collect([elsewhere, lost], now_ms=clock.wall_ms()).blocked_by == (elsewhere,)
    assert small_vault.verify([elsewhere]).missing
    report = small_vault.collect([elsewhere, lost], now_ms=clock.wall_ms(), others=True)
    assert (report.blocked_by, is_here(small_vault, gone)) == ((), False)
    assert small_vault.verify([elsewhere, lost], others=True).clean
    for name in small_vault.shards_of(lost):
        small_vault._raw.delete(name)
    assert small_vault.collect([lost], now_ms=clock.wall_ms(), others=True).blocked_by == (lost,)
    assert small_vault.verify([lost], others=True).affected == (lost,)


def test_a_shard_from_another_device_is_kept_only_if_it_is_the_one_that_was_asked_for(
    small_vault: Vault, clock: ManualClock
) -> None:
    capability = small_vault.write_bytes(b"x" * 50)
    shards = {name: small_vault.give_shard(name) for name in small_vault.shards_of(capability)}
    for name in shards:
        small_vault._raw.delete(name)
    small_vault.rebuild_index()
    assert not is_here(small_vault, capability)
    first = next(iter(shards))
    with pytest.raises(ExpectedError) as caught:
        small_vault.take_shard(first, shards[first] + b"!")
    assert caught.value.code is ErrorCode.DAMAGED_SHARD
    while missing := small_vault.missing_of(capability):
        for name in missing:
            small_vault.take_shard(name, shards[name])
    assert small_vault.read_all(capability) == b"x" * 50
    assert small_vault.collect([], now_ms=clock.wall_ms()).shards == 0  # its grace begins with its arrival
