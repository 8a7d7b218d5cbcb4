"""What running tasks have sealed so far: a local table, served from at once and turned into a bundle at the end.

::

    segment sealed ──note──► row ──find──► player          (while the task runs)
                              ├──take──► entries of the bundle ── task completed ──drop──► (gone)
                              └── lease ended without an outcome ──drop──► (gone; shards are collected later)

Rows belong to a lease: (task, epoch, token). They are live roots of collection as long as they are here.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from app.core.database import Row
from app.media.film import BundleEntry
from app.storage.schema import VAULT_MIGRATIONS
from app.storage.shared_database import SharedDatabase


class LeaseKey(msgspec.Struct, frozen=True, kw_only=True):
    """The lease under which something was made."""

    task_id: str
    epoch: int
    token: str


class MadeSegment(msgspec.Struct, frozen=True, kw_only=True):
    """One piece that a running task made."""

    lease: LeaseKey
    job_id: str
    plan: str
    """Hash of the plan it belongs to."""
    name: str
    """Rendition or track name; ``poster`` and ``sheet`` for stills."""
    number: int
    """Segment number; -1 for the init section."""
    capability: str
    size_bytes: int
    duration_ticks: int = 0

    @property
    def entry(self) -> BundleEntry:
        """The piece as it stands in a bundle."""
        return BundleEntry(
            name=self.name,
            number=self.number,
            capability=self.capability,
            size_bytes=self.size_bytes,
            duration_ticks=self.duration_ticks,
        )


_LEASE_IS = "task_id = ? AND epoch = ? AND token = ?"


class SegmentTable:
    """Pieces of running tasks on this device. May be used from several threads."""

    def __init__(self, database: SharedDatabase) -> None:
        database.migrate(VAULT_MIGRATIONS)
        self._database = database

    def note(self, *segments: MadeSegment) -> None:
        """Remember pieces, durably and together; noting one again replaces it."""
        with self._database.transaction() as database:
            for one in segments:
                database.execute(
                    "INSERT OR REPLACE INTO made_segments (task_id, epoch, token, name, number, job_id, plan, "
                    "capability, size_bytes, duration_ticks) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        one.lease.task_id,
                        one.lease.epoch,
                        one.lease.token,
                        one.name,
                        one.number,
                        one.job_id,
                        one.plan,
                        one.capability,
                        one.size_bytes,
                        one.duration_ticks,
                    ),
                )

    def find(self, *, job_id: str, plan: str, name: str, number: int) -> MadeSegment | None:
        """Return the piece of a job's plan, of the newest lease when several made it, or None."""
        row = self._database.row(
            "SELECT * FROM made_segments WHERE job_id = ? AND plan = ? AND name = ? AND number = ? "
            "ORDER BY epoch DESC, token DESC LIMIT 1",
            (job_id, plan, name, number),
        )
        return None if row is None else _segment_of(row)

    def numbers(self, *, job_id: str, plan: str, name: str) -> frozenset[int]:
        """Return which segment numbers of a rendition or track running tasks have made."""
        rows = self._database.rows(
            "SELECT DISTINCT number FROM made_segments WHERE job_id = ? AND plan = ? AND name = ?",
            (job_id, plan, name),
        )
        return frozenset(int(row["number"]) for row in rows)

    def take(self, lease: LeaseKey) -> tuple[BundleEntry, ...]:
        """Return what a lease made, by name and number, as the entries of its bundle; the rows stay until dropped."""
        rows = self._database.rows(
            f"SELECT * FROM made_segments WHERE {_LEASE_IS} ORDER BY name, number",  # noqa: S608 (a constant)
            (lease.task_id, lease.epoch, lease.token),
        )
        return tuple(_segment_of(row).entry for row in rows)

    def drop(self, lease: LeaseKey) -> int:
        """Forget what a lease made (it ended, or its bundle stands in an outcome); return how many pieces."""
        with self._database.transaction() as database:
            return database.execute(
                f"DELETE FROM made_segments WHERE {_LEASE_IS}",  # noqa: S608 (a constant)
                (lease.task_id, lease.epoch, lease.token),
            )

    def drop_job(self, job_id: str) -> int:
        """Forget what all tasks of a job made; return how many pieces."""
        with self._database.transaction() as database:
            return database.execute("DELETE FROM made_segments WHERE job_id = ?", (job_id,))

    def keep_only(self, leases: Iterable[LeaseKey]) -> int:
        """Forget what all other leases made; at start, and after a sweep. Return how many pieces went."""
        kept = {(one.task_id, one.epoch, one.token) for one in leases}
        with self._database.transaction() as database:
            rows = database.rows("SELECT DISTINCT task_id, epoch, token FROM made_segments")
            ended = [key for row in rows if (key := (row["task_id"], row["epoch"], row["token"])) not in kept]
            return sum(
                database.execute(f"DELETE FROM made_segments WHERE {_LEASE_IS}", key)  # noqa: S608 (a constant)
                for key in ended
            )

    def of_job(self, job_id: str) -> tuple[str, ...]:
        """Return the capabilities of what the running tasks of a job made."""
        rows = self._database.rows("SELECT DISTINCT capability FROM made_segments WHERE job_id = ?", (job_id,))
        return tuple(str(row["capability"]) for row in rows)

    def capabilities(self) -> tuple[str, ...]:
        """Return the capabilities of all pieces: live roots of collection."""
        rows = self._database.rows("SELECT DISTINCT capability FROM made_segments")
        return tuple(str(row["capability"]) for row in rows)


def _segment_of(row: Row) -> MadeSegment:
    return MadeSegment(
        lease=LeaseKey(task_id=row["task_id"], epoch=row["epoch"], token=row["token"]),
        job_id=row["job_id"],
        plan=row["plan"],
        name=row["name"],
        number=row["number"],
        capability=row["capability"],
        size_bytes=row["size_bytes"],
        duration_ticks=row["duration_ticks"],
    )
