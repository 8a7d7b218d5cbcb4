"""Scrubbing: reading every shard and saying what is damaged, missing or does not belong here."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from app.core.errors import ErrorCode, ExpectedError
from app.storage.index import ShardIndex
from app.storage.reach import GetShard, reached
from app.storage.shard_store import MissingShardError, VerifyingStore

ScrubProgress = Callable[[float], None]
"""Told the share done, from 0 to 1; may raise to stop."""


class ScrubReport(msgspec.Struct, frozen=True, kw_only=True):
    """What scrubbing found. Shards by name, strays by relative file name."""

    shards: int
    size_bytes: int
    damaged: tuple[str, ...]
    """Reached shards whose bytes do not fit their name."""
    missing: tuple[str, ...]
    """Reached shards that are not here."""
    stray: tuple[str, ...]
    """Files that are no shards, and shards that nothing reaches and the index does not know."""
    unreached_bytes: int
    """What nothing reaches any more; it goes with the next collection after its grace period."""
    affected: tuple[str, ...]
    """Live roots that lost something."""
    repaired: tuple[str, ...] = ()
    """What was set aside: damaged shards and strays."""

    @property
    def clean(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.damaged or self.missing or self.stray or self.affected)


def scrub(
    *,
    store: VerifyingStore,
    index: ShardIndex,
    live: Iterable[str],
    progress: ScrubProgress,
    repair: bool,
    others: bool,
) -> ScrubReport:
    """Check everything in ``store`` and what the roots ``live`` need; without ``repair`` nothing is changed.

    With ``others`` there are other devices: a shard that the index does not know was never here, and is not missing.
    """

    def is_elsewhere(name: str) -> bool:
        return others and not index.knows(name)

    roots = tuple(live)
    needed, unreadable = _needed(store.peek, roots, is_elsewhere)
    scan = _Scan(store=store, index=index, needed=needed)
    scan.run(progress)
    absent = (name.hex() for name in needed if store.stat(name.hex()) is None)
    missing = tuple(sorted(name for name in absent if not is_elsewhere(name)))
    bad = {*scan.damaged, *missing}
    affected = tuple(root for root in roots if root in unreadable or _touches(store.peek, root, bad))
    stray_files = tuple(store.strays())
    return ScrubReport(
        shards=scan.shards,
        size_bytes=scan.size_bytes,
        damaged=tuple(scan.damaged),
        missing=missing,
        stray=(*stray_files, *scan.stray),
        unreached_bytes=scan.unreached_bytes,
        affected=affected,
        repaired=_repair(store, index, scan, stray_files) if repair else (),
    )


def _needed(get: GetShard, roots: tuple[str, ...], is_elsewhere: Callable[[str], bool]) -> tuple[set[bytes], set[str]]:
    """Return the names that must be in the vault, and the roots that could not be read to the end."""
    needed: set[bytes] = set()
    unreadable: set[str] = set()
    for root in roots:
        errors: list[ExpectedError] = []
        walk = reached(get, root, on_error=errors.append)
        needed.update(bytes.fromhex(shard.name) for shard in walk if not shard.by_reference)
        if not all(isinstance(error, MissingShardError) and is_elsewhere(error.name) for error in errors):
            unreadable.add(root)
    return needed, unreadable


def _touches(get: GetShard, root: str, bad: set[str]) -> bool:
    if not bad:
        return False
    errors: list[ExpectedError] = []
    return any(shard.name in bad and not shard.by_reference for shard in reached(get, root, on_error=errors.append))


class _Scan:
    """One pass over all shards that are here."""

    def __init__(self, *, store: VerifyingStore, index: ShardIndex, needed: set[bytes]) -> None:
        self._store = store
        self._index = index
        self._needed = needed
        self.shards = 0
        self.size_bytes = 0
        self.unreached_bytes = 0
        self.damaged: list[str] = []
        self.stray: list[str] = []

    def run(self, progress: ScrubProgress) -> None:
        expected = max(1, self._index.totals().shards)
        for number, name in enumerate(self._store.names(), start=1):
            self._look_at(name)
            progress(min(1.0, number / expected))
        progress(1.0)

    def _look_at(self, name: str) -> None:
        stat = self._store.stat(name)
        if stat is None:
            return
        is_needed = bytes.fromhex(name) in self._needed
        is_whole = self.is_whole(name)
        self.shards += 1
        self.size_bytes += stat.size
        if is_needed and not is_whole:
            self.damaged.append(name)
        elif not is_needed and not (is_whole and self._index.knows(name)):
            self.stray.append(name)
        elif not is_needed:
            self.unreached_bytes += stat.size

    def is_whole(self, name: str) -> bool:
        """Return whether the bytes of ``name`` fit; a shard that is gone does no harm here."""
        try:
            self._store.peek(name)
        except ExpectedError as error:
            if error.code == ErrorCode.MISSING_SHARD:
                return True  # collected a moment ago
            if error.code == ErrorCode.DAMAGED_SHARD:
                return False
            raise
        return True


def _repair(store: VerifyingStore, index: ShardIndex, scan: _Scan, stray_files: tuple[str, ...]) -> tuple[str, ...]:
    damaged = [name for name in scan.damaged if store.set_aside_if_bad(name)]
    strays = [name for name in scan.stray if store.set_aside_if_bad(name) or index.set_aside_unknown(name, store)]
    for stray in stray_files:
        store.set_stray_aside(stray)
    index.rebuild(store)
    return (*damaged, *strays, *stray_files)
