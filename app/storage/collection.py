"""Collection: giving back the space of shards that no live root reaches (S5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from app.core.errors import ExpectedError
from app.storage.index import ShardIndex
from app.storage.reach import GetShard, reached
from app.storage.shard_store import MissingShardError, ShardStore

GRACE_MS = 24 * 60 * 60 * 1000
QUARANTINE_MS = 30 * 24 * 60 * 60 * 1000

_BATCH = 128


class CollectReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a collection did."""

    shards: int = 0
    freed_bytes: int = 0
    blocked_by: tuple[str, ...] = ()
    """Live roots that could not be read to the end; nothing was removed, for they might reach anything."""


def collect(
    *,
    store: ShardStore,
    index: ShardIndex,
    get: GetShard,
    live: Iterable[str],
    removed: Iterable[str],
    now_ms: int,
    grace_ms: int,
    others: bool,
) -> CollectReport:
    """Delete what no root of ``live`` reaches: at once what ``removed`` reaches, the rest after ``grace_ms``.

    With ``others`` there are other devices, and a shard that was never here is no reason to stop: it is there.
    """
    with index.collection():
        kept, blocked = _reached_by(get, live, is_elsewhere=lambda name: others and not index.knows(name))
        if blocked:
            return CollectReport(blocked_by=blocked)
        gone = _names_of_removed(get, removed) - kept
        shards, size = _delete(index, store, _in_batches(gone), cutoff_ms=now_ms, now_ms=now_ms)
        index.flush()
        cutoff_ms = now_ms - grace_ms
        old_shards, old_size = _delete(
            index, store, _unreached(index, kept, cutoff_ms), cutoff_ms=cutoff_ms, now_ms=now_ms
        )
        dropped = store.drop_quarantined(before_ms=now_ms - QUARANTINE_MS)
    return CollectReport(shards=shards + old_shards, freed_bytes=size + old_size + dropped)


def _delete(
    index: ShardIndex, store: ShardStore, batches: Iterable[list[str]], *, cutoff_ms: int, now_ms: int
) -> tuple[int, int]:
    shards = size = 0
    for names in batches:
        deleted, freed = index.delete_unused(names, cutoff_ms=cutoff_ms, now_ms=now_ms, store=store)
        shards, size = shards + deleted, size + freed
    return shards, size


def _reached_by(
    get: GetShard, live: Iterable[str], *, is_elsewhere: Callable[[str], bool]
) -> tuple[set[bytes], tuple[str, ...]]:
    names: set[bytes] = set()
    blocked: list[str] = []
    for root in live:
        errors: list[ExpectedError] = []
        names.update(bytes.fromhex(shard.name) for shard in reached(get, root, on_error=errors.append))
        if not all(isinstance(error, MissingShardError) and is_elsewhere(error.name) for error in errors):
            blocked.append(root)
    return names, tuple(blocked)


def _names_of_removed(get: GetShard, removed: Iterable[str]) -> set[bytes]:
    return {bytes.fromhex(shard.name) for root in removed for shard in reached(get, root, on_error=_nothing_to_reach)}


def _nothing_to_reach(_error: ExpectedError) -> None:
    """Ignore what a removed root no longer reaches; its remains go after the grace period."""


def _in_batches(names: Iterable[bytes]) -> Iterator[list[str]]:
    ordered = [name.hex() for name in sorted(names)]
    for start in range(0, len(ordered), _BATCH):
        yield ordered[start : start + _BATCH]


def _unreached(index: ShardIndex, kept: set[bytes], cutoff_ms: int) -> Iterator[list[str]]:
    after: str | None = None
    while old := index.older_than(cutoff_ms, after=after, limit=_BATCH):
        after = old[-1]
        unreached = [name for name in old if bytes.fromhex(name) not in kept]
        if unreached:
            yield unreached
