"""The vault's index: which shards are here, how large, when last written or hit, when last read.

Notes are taken in memory, under the lock, and written down in batches: a note costs no disk write of its own. That
is safe because the files are the truth (the index is rebuilt from them after a process that did not end properly)
and because the collector writes the notes down in the very transaction in which it decides (S5)::

    writer      lock {in flight += name} · put(name): absent? write it · lock {note(name); in flight -= name}
    collector   lock {notes → rows · rows old enough, not in flight, not spared → delete file and row}

When the writer says first that the shard is in flight, the collector spares it, and later finds it fresh. When the
collector comes first, the writer looks at the store afterwards, finds the shard gone and writes it again. Either way
the writer's shard is there.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from app.core.database import Database
from app.storage.schema import VAULT_MIGRATIONS
from app.storage.shard_store import ShardStat, ShardStore
from app.storage.shared_database import SharedDatabase

_BATCH = 256
_MOST_USED = 65_536
_HIT_KEEPS_MS = 10 * 60 * 1000

_UPSERT = """
    INSERT INTO shards (name, size, last_written_ms, last_used_ms) VALUES (?, ?, ?, ?)
    ON CONFLICT (name) DO UPDATE SET size = excluded.size, last_written_ms = excluded.last_written_ms,
        last_used_ms = max(last_used_ms, excluded.last_used_ms)
"""


class _Note(msgspec.Struct, frozen=True, kw_only=True):
    size: int
    written_ms: int


class IndexTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over the index."""

    shards: int
    size_bytes: int


class ShardIndex:
    """Rows of shards on this device. One per vault."""

    def __init__(self, database: SharedDatabase) -> None:
        database.migrate(VAULT_MIGRATIONS)
        self._database = database
        self._written: dict[str, _Note] = {}
        self._used: dict[str, int] = {}
        self._hits: dict[str, int] = {}
        self._in_flight: Counter[str] = Counter()
        self._collecting: set[str] | None = None
        self._one_collector = threading.Lock()

    @contextmanager
    def writing(self, name: str) -> Iterator[None]:
        """Keep ``name`` from being collected while it is put; must begin before the writer looks at the store."""
        with self._database.lock:
            self._in_flight[name] += 1
        try:
            yield
        finally:
            with self._database.lock:
                self._in_flight[name] -= 1
                if not self._in_flight[name]:
                    del self._in_flight[name]

    def note_written(self, name: str, *, size: int, now_ms: int, is_hit: bool) -> None:
        """Say that ``name`` was put, inside ``writing``.

        ``is_hit`` says that it was there already: two files share it now, so that removing one must not take it.
        """
        with self._database.lock:
            self._written[name] = _Note(size=size, written_ms=now_ms)
            if is_hit:
                self._hits[name] = now_ms
                self._forget_old_hits(now_ms)
            if self._collecting is not None:
                self._collecting.add(name)
            if len(self._written) >= _BATCH:
                self.flush()

    def note_used(self, name: str, *, now_ms: int) -> None:
        """Say that ``name`` was read. Written down with the next batch of writes: reading must work on a full disk."""
        with self._database.lock:
            if len(self._used) < _MOST_USED or name in self._used:
                self._used[name] = now_ms

    def flush(self) -> None:
        """Write all notes down, durably."""
        with self._database.lock:
            if self._written or self._used:
                with self._database.transaction() as database:
                    self._write_notes(database)
                self._forget_notes()

    def start(self, store: ShardStore) -> None:
        """Rebuild the rows when the last process did not end properly (or the database is new); mark them in use."""
        if self._database.row("SELECT 1 FROM vault_state WHERE key = 'index' AND value = 'whole'") is None:
            self.rebuild(store)
        self._mark("in use")

    def close(self) -> None:
        """Write all notes down and remember that the rows are whole."""
        self.flush()
        self._mark("whole")

    def rebuild(self, store: ShardStore) -> None:
        """Make the rows say what the files say; known times are kept, unknown ones are the files' own."""
        self.flush()
        gone = {bytes(row["name"]) for row in self._database.rows("SELECT name FROM shards")}
        batch: list[tuple[str, ShardStat]] = []
        for name in store.names():
            stat = store.stat(name)
            if stat is not None:
                gone.discard(bytes.fromhex(name))
                batch.append((name, stat))
            if len(batch) == _BATCH:
                self._insert_found(batch)
                batch = []
        self._insert_found(batch)
        self._delete_gone(gone, store)

    def totals(self) -> IndexTotals:
        """Return how much is here, what is only noted included."""
        with self._database.lock:
            row = self._database.row("SELECT count(*) AS shards, coalesce(sum(size), 0) AS size FROM shards") or {}
            fresh = [note.size for name, note in self._written.items() if not self._has_row(name)]
        return IndexTotals(shards=row["shards"] + len(fresh), size_bytes=row["size"] + sum(fresh))

    def knows(self, name: str) -> bool:
        """Return whether ``name`` was put or found by this index, or is being put now."""
        with self._database.lock:
            noted = name in self._in_flight or name in self._written
            return (
                noted or self._database.row("SELECT 1 FROM shards WHERE name = ?", (bytes.fromhex(name),)) is not None
            )

    def set_aside_unknown(self, name: str, store: ShardStore) -> bool:
        """Quarantine ``name`` unless the index knows it; a writer that comes now waits and then writes it anew."""
        with self._database.lock:
            if self.knows(name):
                return False
            store.quarantine(name)
            return True

    @contextmanager
    def collection(self) -> Iterator[None]:
        """Inside, what is noted is spared by ``delete_unused`` whatever its time. One at a time."""
        with self._one_collector:
            with self._database.lock:
                self._collecting = set()
            try:
                yield
            finally:
                with self._database.lock:
                    self._collecting = None

    def older_than(self, cutoff_ms: int, *, after: str | None, limit: int) -> list[str]:
        """Return up to ``limit`` names last written at or before ``cutoff_ms``, rising, behind ``after``."""
        rows = self._database.rows(
            "SELECT name FROM shards WHERE name > ? AND last_written_ms <= ? ORDER BY name LIMIT ?",
            (bytes.fromhex(after or ""), cutoff_ms, limit),
        )
        return [bytes(row["name"]).hex() for row in rows]

    def delete_unused(self, names: list[str], *, cutoff_ms: int, now_ms: int, store: ShardStore) -> tuple[int, int]:
        """Delete those of ``names`` that are still old enough and not spared; return (shards, bytes) given back.

        One transaction under the lock: notes are written down first, so that a write or hit which came before wins.
        """
        shards = size = 0
        with self._database.lock:
            with self._database.transaction() as database:
                self._write_notes(database)
                for name in names:
                    if not self._is_spared(name, now_ms) and _is_old(database, name, cutoff_ms):
                        freed = store.delete(name)
                        database.execute("DELETE FROM shards WHERE name = ?", (bytes.fromhex(name),))
                        shards += freed > 0
                        size += freed
            self._forget_notes()
        return shards, size

    def _has_row(self, name: str) -> bool:
        return self._database.row("SELECT 1 FROM shards WHERE name = ?", (bytes.fromhex(name),)) is not None

    def _is_spared(self, name: str, now_ms: int) -> bool:
        noted_since_start = self._collecting is not None and name in self._collecting
        hit_lately = name in self._hits and self._hits[name] > now_ms - _HIT_KEEPS_MS
        return name in self._in_flight or noted_since_start or hit_lately

    def _forget_old_hits(self, now_ms: int) -> None:
        if len(self._hits) > 16 * _BATCH:
            self._hits = {one: at for one, at in self._hits.items() if at > now_ms - _HIT_KEEPS_MS}

    def _write_notes(self, database: Database) -> None:
        for name, note in self._written.items():
            database.execute(_UPSERT, (bytes.fromhex(name), note.size, note.written_ms, note.written_ms))
        for name, used_ms in self._used.items():
            database.execute(
                "UPDATE shards SET last_used_ms = max(last_used_ms, ?) WHERE name = ?", (used_ms, bytes.fromhex(name))
            )

    def _forget_notes(self) -> None:
        self._written.clear()
        self._used.clear()

    def _mark(self, state: str) -> None:
        with self._database.transaction() as database:
            database.upsert("vault_state", {"key": "index", "value": state}, key="key")

    def _insert_found(self, found: list[tuple[str, ShardStat]]) -> None:
        if not found:
            return
        with self._database.transaction() as database:
            for name, stat in found:
                database.execute(
                    "INSERT INTO shards (name, size, last_written_ms, last_used_ms) VALUES (?, ?, ?, ?) "
                    "ON CONFLICT (name) DO UPDATE SET size = excluded.size",
                    (bytes.fromhex(name), stat.size, stat.written_ms, stat.written_ms),
                )

    def _delete_gone(self, gone: set[bytes], store: ShardStore) -> None:
        with self._database.lock, self._database.transaction() as database:
            for name in gone:
                if store.stat(name.hex()) is None:
                    database.execute("DELETE FROM shards WHERE name = ?", (name,))


def _is_old(database: Database, name: str, cutoff_ms: int) -> bool:
    row = database.row("SELECT last_written_ms FROM shards WHERE name = ?", (bytes.fromhex(name),))
    return row is not None and int(row["last_written_ms"]) <= cutoff_ms
