"""Where the sources of jobs are on this device, and whether they still are what was added."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from app.core.database import Row
from app.core.errors import ErrorCode, ExpectedError
from app.storage.schema import VAULT_MIGRATIONS
from app.storage.shared_database import SharedDatabase
from app.storage.source import SourceStat, fingerprint, look_at


class SourceState(StrEnum):
    """What this device says about a job's source."""

    PRESENT = "present"
    CHANGED = "changed"
    GONE = "gone"


class KnownSource(msgspec.Struct, frozen=True, kw_only=True):
    """A source on this device."""

    job_id: str
    fingerprint: str
    path: bytes
    """As the file system spells it (``os.fsencode``), absolute."""
    seen: SourceStat
    """The last look at which the file had this fingerprint."""
    capability: str | None = None
    """Its manifest, once it is made."""


class SourceLedger:
    """The table of sources. Local: paths and inode numbers mean nothing elsewhere. May be used from several threads."""

    def __init__(self, database: SharedDatabase) -> None:
        database.migrate(VAULT_MIGRATIONS)
        self._database = database

    def remember(self, source: KnownSource) -> None:
        """Write down, durably, where a job's source is; replaces what was known for the job."""
        with self._database.transaction() as database:
            database.execute(
                "INSERT OR REPLACE INTO sources (job_id, fingerprint, path, size_bytes, mtime_ns, inode, capability) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    source.job_id,
                    source.fingerprint,
                    source.path,
                    source.seen.size_bytes,
                    source.seen.mtime_ns,
                    source.seen.inode,
                    source.capability,
                ),
            )

    def find(self, job_id: str) -> KnownSource | None:
        """Return the source of a job, None when this device does not hold it."""
        row = self._database.row("SELECT * FROM sources WHERE job_id = ?", (job_id,))
        return None if row is None else _source_of(row)

    def find_some(self, job_ids: Sequence[str]) -> dict[str, KnownSource]:
        """Return the sources of some jobs by job, of those that this device holds."""
        marks = ", ".join("?" * len(job_ids))
        rows = self._database.rows(f"SELECT * FROM sources WHERE job_id IN ({marks})", job_ids)  # noqa: S608 (marks)
        return {row["job_id"]: _source_of(row) for row in rows}

    def find_by_fingerprint(self, fingerprint_hex: str) -> tuple[KnownSource, ...]:
        """Return all sources with this content."""
        rows = self._database.rows("SELECT * FROM sources WHERE fingerprint = ? ORDER BY job_id", (fingerprint_hex,))
        return tuple(_source_of(row) for row in rows)

    def forget(self, job_id: str) -> None:
        """Forget the source of a job; the file is not touched."""
        with self._database.transaction() as database:
            database.execute("DELETE FROM sources WHERE job_id = ?", (job_id,))

    def capabilities(self) -> tuple[str, ...]:
        """Return the capabilities of all source manifests: live roots of collection."""
        rows = self._database.rows("SELECT DISTINCT capability FROM sources WHERE capability IS NOT NULL")
        return tuple(str(row["capability"]) for row in rows)

    def state(self, source: KnownSource) -> SourceState:
        """Return whether the file still is what was added: by a look, and by its content when the look differs.

        A file that was touched or moved back but has the same content is present, and the new look is remembered.
        Raises ``ExpectedError`` unreadable when the file is there but cannot be read.
        """
        try:
            seen = look_at(source.path)
            if seen == source.seen:
                return SourceState.PRESENT
            same = seen.size_bytes == source.seen.size_bytes and fingerprint(source.path) == source.fingerprint
        except ExpectedError as error:
            return _state_of_error(error)
        if not same:
            return SourceState.CHANGED
        self._remember_look(source, seen)
        return SourceState.PRESENT

    def _remember_look(self, source: KnownSource, seen: SourceStat) -> None:
        with self._database.transaction() as database:
            database.execute(
                "UPDATE sources SET mtime_ns = ?, inode = ? WHERE job_id = ? AND fingerprint = ? AND path = ?",
                (seen.mtime_ns, seen.inode, source.job_id, source.fingerprint, source.path),
            )


def _state_of_error(error: ExpectedError) -> SourceState:
    if error.code == ErrorCode.NOT_FOUND:
        return SourceState.GONE
    if error.code in {ErrorCode.EMPTY, ErrorCode.STILL_CHANGING}:
        return SourceState.CHANGED
    raise error


def _source_of(row: Row) -> KnownSource:
    return KnownSource(
        job_id=row["job_id"],
        fingerprint=row["fingerprint"],
        path=bytes(row["path"]),
        seen=SourceStat(size_bytes=row["size_bytes"], mtime_ns=row["mtime_ns"], inode=row["inode"]),
        capability=row["capability"],
    )
