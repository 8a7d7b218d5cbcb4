"""Jobs and tasks in SQLite.

::

    jobs           one row per job, tombstones too: the document, and derived columns to find it by
    tasks          one row per task: the document, derived columns, and the lease that a compare-and-set compares
    ready_tasks    the tasks that may be claimed, in the order of doing: an index that SQLite could not make itself,
                   because its order is that of jobs and its content depends on both tables
    job_progress   the highest progress of the present round; of this device only
    feed           the number of each row's latest change; numbers are never used twice (AUTOINCREMENT)
    feed_generations, feed_cursors, feed_aside
                   lives of the engine; up to where peers' rows are here; peers' rows that cannot be taken yet

The document is the row; everything else can be computed again from the documents.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from typing import Any

import sqlite_utils

from app.core.clock import Clock
from app.core.database import Database, Migrations
from app.core.errors import ErrorCode, ExpectedError
from app.core.ids import new_id
from app.queue.feed import FeedCursor, FeedRow, Generation, RowKind
from app.queue.machine import TaskState
from app.queue.row_store import RowJobStore
from app.queue.row_table import (
    MAX_ASIDE,
    AsideRow,
    FedRow,
    Glance,
    JobFacts,
    JobPart,
    PlainTask,
    TaskFacts,
    Twin,
    lease_key,
)
from app.queue.rows import JobRow, Lease, R, TaskRow, decode_row, encode_value
from app.queue.targets import TaskKind

migrations = Migrations("queue")

_ADDING = "added_at, added_number, id"
_IS_TRASHED = "wanted = 0 OR (done = 1 AND document ->> '$.cancelled_round' >= document ->> '$.round')"
"""Of jobs with a film: put into the Trash, or cancelled elsewhere while it was being published."""


@migrations()
def create_jobs(tables: sqlite_utils.Database) -> None:
    """Jobs and their progress."""
    jobs = tables.table("jobs")
    jobs.create(
        {
            "id": str,
            "document": str,
            "media_id": str,
            "fingerprint": str,
            "profile": str,
            "priority": int,
            "removed": int,
            "added_at": int,
            "added_device": str,
            "added_number": int,
            "plan": str,
            "film_task": str,
            "done": int,
            "runnable": int,
        },
        pk="id",
        not_null={"document", "plan", "film_task", "done", "runnable", "removed"},
    )
    jobs.create_index(["removed", "added_at", "added_number", "id"], index_name="jobs_adding")
    jobs.create_index(["added_device", "added_number"], index_name="jobs_number")
    jobs.create_index(["media_id"], index_name="jobs_media")
    jobs.create_index(["fingerprint", "profile", "id"], index_name="jobs_content")
    tables.table("job_progress").create({"job_id": str, "round": int, "milli": int}, pk="job_id")


@migrations()
def create_tasks(tables: sqlite_utils.Database) -> None:
    """Tasks, and those of them that may be claimed."""
    tasks = tables.table("tasks")
    tasks.create(
        {
            "id": str,
            "job_id": str,
            "document": str,
            "kind": str,
            "target": str,
            "fingerprint": str,
            "state": str,
            "known": int,
            "vital": int,
            "plan": str,
            "rank": int,
            "number": int,
            "epoch": int,
            "token": str,
            "device": str,
            "boot": int,
        },
        pk="id",
        not_null={"job_id", "document", "state", "epoch", "token", "device", "boot"},
        foreign_keys=[("job_id", "jobs", "id")],
    )
    tasks.create_index(["job_id", "rank", "number", "target"], index_name="tasks_order")
    tasks.create_index(["job_id", "kind", "rank", "number", "target"], index_name="tasks_kind")
    tasks.create_index(["job_id", "state"], index_name="tasks_state")
    ready = tables.table("ready_tasks")
    order = ["rank", "urgency", "added_at", "added_number", "job_id", "number", "target"]
    columns = dict.fromkeys(order, int) | {"job_id": str, "target": str}
    ready.create({"task_id": str, **columns}, pk="task_id")
    ready.create_index(order, index_name="ready_order")
    ready.create_index(["job_id"], index_name="ready_job")
    tables.execute("CREATE INDEX tasks_leased ON tasks (id) WHERE state IN ('leased', 'fallback_started')")


@migrations()
def feed_rows(tables: sqlite_utils.Database) -> None:
    """Give all rows numbers in the feed, and note which jobs are wanted."""
    tables.execute(
        "CREATE TABLE feed "
        "(number INTEGER PRIMARY KEY AUTOINCREMENT, row_id TEXT NOT NULL UNIQUE, job_id TEXT NOT NULL)"
    )
    tables.execute("INSERT INTO feed (row_id, job_id) SELECT id, id FROM jobs ORDER BY added_at, added_number, id")
    tables.execute("INSERT INTO feed (row_id, job_id) SELECT id, job_id FROM tasks ORDER BY job_id, rank, number")
    tables.execute("CREATE INDEX feed_job ON feed (job_id)")
    tables.table("feed_generations").create({"position": int, "id": str, "starts_after": int}, pk="position")
    tables.table("feed_cursors").create({"peer": str, "generation": str, "number": int}, pk="peer")
    aside = tables.table("feed_aside")
    aside.create(
        {"id": int, "kind": str, "document": str, "job_id": str, "peer": str, "reason": str},
        pk="id",
        not_null={"kind", "document", "job_id"},
    )
    aside.create_index(["job_id"], index_name="aside_job")
    tables.execute("ALTER TABLE jobs ADD COLUMN wanted INTEGER NOT NULL DEFAULT 1")
    tables.execute(
        "UPDATE jobs SET wanted = 0 WHERE removed OR document ->> '$.trashed.value' "
        "OR (NOT done AND document ->> '$.cancelled_round' >= document ->> '$.round')"
    )


def rename_device(database: Database, old: str, new: str) -> None:
    """Let all rows name the device ``new`` instead of ``old``; for a replica that nobody else has ever seen.

    An id is 32 random hex digits, so wherever they stand in a document they are that id. Doing it twice does no harm.
    """
    database.migrate(migrations)
    with database.transaction():
        for sql in _RENAME:
            database.execute(sql, (old, new))


_RENAME = (
    """
    UPDATE jobs SET document = replace(document, ?1, ?2),
                    added_device = CASE added_device WHEN ?1 THEN ?2 ELSE added_device END
    """,
    """
    UPDATE tasks SET document = replace(document, ?1, ?2), device = CASE device WHEN ?1 THEN ?2 ELSE device END
    """,
    "UPDATE feed_aside SET document = replace(document, ?1, ?2)",
)


@migrations()
def long_histories(tables: sqlite_utils.Database) -> None:
    """Make pages of the queue and of the library, and the films of a job, cheap to find among very many rows."""
    order = "(added_at, added_number, id)"
    tables.execute(f"CREATE INDEX jobs_unfinished ON jobs {order} WHERE removed = 0 AND wanted = 1 AND done = 0")
    tables.execute(f"CREATE INDEX jobs_finished ON jobs {order} WHERE removed = 0 AND (wanted = 0 OR done = 1)")
    tables.execute(f"CREATE INDEX jobs_films ON jobs {order} WHERE removed = 0 AND film_task != ''")
    tables.execute(
        f"CREATE INDEX jobs_trashed ON jobs {order} WHERE removed = 0 AND film_task != '' AND ({_IS_TRASHED})"
    )
    tables.execute("DROP INDEX tasks_kind")
    tables.execute("CREATE INDEX tasks_publish ON tasks (job_id, rank, number, target) WHERE kind = 'publish'")


_PUT_JOB = """
INSERT INTO jobs (id, document, media_id, fingerprint, profile, priority, removed, added_at, added_device,
                  added_number, plan, film_task, done, runnable, wanted)
VALUES (:id, :document, :media_id, :fingerprint, :profile, :priority, :removed, :added_at, :added_device,
        :added_number, :plan, :film_task, :done, :runnable, :wanted)
ON CONFLICT (id) DO UPDATE SET
    document = :document, fingerprint = :fingerprint, profile = :profile, priority = :priority, removed = :removed,
    added_at = :added_at, added_device = :added_device, added_number = :added_number, plan = :plan,
    film_task = :film_task, done = :done, runnable = :runnable, wanted = :wanted
"""

_FEED = "INSERT OR REPLACE INTO feed (row_id, job_id) VALUES (?, ?)"

_FED = """
SELECT feed.number, feed.row_id, feed.job_id, coalesce(jobs.document, tasks.document) AS document
FROM feed LEFT JOIN jobs ON jobs.id = feed.row_id LEFT JOIN tasks ON tasks.id = feed.row_id
WHERE feed.number > ? ORDER BY feed.number LIMIT ?
"""

_ADD_TASK = """
INSERT INTO tasks (id, job_id, document, kind, target, fingerprint, state, known, vital, plan, rank, number,
                   epoch, token, device, boot)
VALUES (:id, :job_id, :document, :kind, :target, :fingerprint, :state, :known, :vital, :plan, :rank, :number,
        :epoch, :token, :device, :boot)
ON CONFLICT (id) DO NOTHING
"""

_SWAP_TASK = """
UPDATE tasks SET document = :document, state = :state, known = :known, vital = :vital, plan = :plan, rank = :rank,
                 number = :number, epoch = :epoch, token = :token, device = :device, boot = :boot
WHERE id = :id AND epoch = :old_epoch AND token = :old_token AND device = :old_device AND boot = :old_boot
"""

_MAKE_READY = """
INSERT INTO ready_tasks (task_id, rank, urgency, added_at, added_number, job_id, number, target)
SELECT tasks.id, tasks.rank, -jobs.priority, jobs.added_at, jobs.added_number, jobs.id, tasks.number, tasks.target
FROM tasks JOIN jobs ON jobs.id = tasks.job_id
WHERE tasks.state = 'available' AND tasks.known AND jobs.runnable AND tasks.plan IN ('', jobs.plan)
  AND tasks.fingerprint = jobs.fingerprint
"""

_READY_COLUMNS = ("fingerprint", "priority", "added_at", "added_number", "plan", "runnable")


_IS_PLAIN = "kind NOT IN ('index', 'publish') AND (state = 'completed' OR (state = 'available' AND epoch = 0))"
_GLANCE = f"""
SELECT id, target, state = 'completed' AS completed, CASE WHEN {_IS_PLAIN} THEN NULL ELSE document END AS document
FROM tasks WHERE job_id = ? AND (fingerprint = ? OR NOT ({_IS_PLAIN})) ORDER BY rank, number, target
"""  # noqa: S608 (fixed words)

_OPEN_WORK = """
SELECT 1 FROM jobs CROSS JOIN tasks ON tasks.job_id = jobs.id
WHERE jobs.id = ? AND tasks.state IN ('available', 'leased', 'fallback_started') AND tasks.kind != 'publish'
  AND tasks.known AND tasks.plan IN ('', jobs.plan) AND tasks.fingerprint = jobs.fingerprint
LIMIT 1
"""

_AFTER_HEX = "g"
"""Sorts behind every id that begins alike."""
_IDS_LIKE = "SELECT id FROM jobs WHERE id >= ? AND id < ? AND +removed = 0 ORDER BY id"
_MEDIA_IDS_LIKE = "SELECT media_id FROM jobs WHERE media_id >= ? AND media_id < ? AND +removed = 0 ORDER BY media_id"

_PARTS = {
    JobPart.ALL: ("jobs_adding", "removed = 0"),
    JobPart.UNFINISHED: ("jobs_unfinished", "removed = 0 AND wanted = 1 AND done = 0"),
    JobPart.FINISHED: ("jobs_finished", "removed = 0 AND (wanted = 0 OR done = 1)"),
    JobPart.FILMS: ("jobs_films", "removed = 0 AND film_task != ''"),
    JobPart.TRASHED: (
        "jobs_trashed",
        f"removed = 0 AND film_task != '' AND ({_IS_TRASHED})",
    ),
}
"""The index of each part, which SQLite would not choose by itself, and what it holds, word for word."""


def page_query(part: JobPart, *, after: str | None, limit: int) -> tuple[str, tuple[Any, ...]]:
    """Return the query for a page of jobs, and its parameters."""
    index, condition = _PARTS[part]
    turn, beyond = (" DESC", "<") if part.is_newest_first else ("", ">")
    last = f"(SELECT {_ADDING} FROM jobs WHERE id = ?)"  # noqa: S608 (fixed words)
    follows = f"AND ({_ADDING}) {beyond} {last}" if after is not None else ""
    order = f"added_at{turn}, added_number{turn}, id{turn}"
    sql = (
        "SELECT document, plan, film_task, done, runnable, wanted "  # noqa: S608 (fixed words)
        f"FROM jobs INDEXED BY {index} WHERE {condition} {follows} ORDER BY {order} LIMIT ?"
    )
    return sql, ((limit,) if after is None else (after, limit))


class SqliteRowTable:
    """A ``RowTable`` in a ``Database``."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.migrate(migrations)

    def transaction(self) -> AbstractContextManager[object]:
        return self._database.transaction()

    def _decoded(self, document: str, kind: type[R]) -> R:
        try:
            return decode_row(document, kind)
        except ExpectedError as error:
            raise ExpectedError(
                ErrorCode.DATABASE_DAMAGED,
                f"A row of the queue cannot be read ({error}). Restore a backup of the data directory, or move its "
                "database away to start with an empty queue; your films and sources stay where they are.",
            ) from error

    def _one_job(self, sql: str, *parameters: Any) -> JobRow | None:
        row = self._database.row(sql, parameters)
        return self._decoded(row["document"], JobRow) if row else None

    def _some_tasks(self, sql: str, *parameters: Any) -> tuple[TaskRow, ...]:
        return tuple(self._decoded(row["document"], TaskRow) for row in self._database.rows(sql, parameters))

    def job(self, job_id: str) -> JobRow | None:
        return self._one_job("SELECT document FROM jobs WHERE id = ?", job_id)

    def job_facts(self, job_id: str) -> JobFacts | None:
        row = self._database.row("SELECT plan, film_task, done, runnable, wanted FROM jobs WHERE id = ?", (job_id,))
        return _job_facts(row) if row else None

    def jobs(self) -> tuple[JobRow, ...]:
        rows = self._database.rows(f"SELECT document FROM jobs WHERE removed = 0 ORDER BY {_ADDING}")  # noqa: S608
        return tuple(self._decoded(row["document"], JobRow) for row in rows)

    def job_ids(self) -> tuple[str, ...]:
        rows = self._database.rows(f"SELECT id FROM jobs WHERE removed = 0 ORDER BY {_ADDING}")  # noqa: S608
        return tuple(row["id"] for row in rows)

    def job_page(self, part: JobPart, *, after: str | None, limit: int) -> tuple[tuple[JobRow, JobFacts], ...]:
        sql, values = page_query(part, after=after, limit=limit)
        rows = self._database.rows(sql, values)
        return tuple((self._decoded(row["document"], JobRow), _job_facts(row)) for row in rows)

    def ids_like(self, prefix: str) -> tuple[str, ...]:
        rows = self._database.rows(_IDS_LIKE, (prefix, prefix + _AFTER_HEX))
        return tuple(row["id"] for row in rows)

    def media_ids_like(self, prefix: str) -> tuple[str, ...]:
        rows = self._database.rows(_MEDIA_IDS_LIKE, (prefix, prefix + _AFTER_HEX))
        return tuple(row["media_id"] for row in rows)

    def job_by_media_id(self, media_id: str) -> JobRow | None:
        return self._one_job("SELECT document FROM jobs WHERE media_id = ?", media_id)

    def job_of_content(self, fingerprint: str, profile: str) -> JobRow | None:
        sql = "SELECT document FROM jobs WHERE fingerprint = ? AND profile = ? AND removed = 0 ORDER BY id LIMIT 1"
        return self._one_job(sql, fingerprint, profile)

    def last_number(self, device: str) -> int:
        row = self._database.row("SELECT max(added_number) AS number FROM jobs WHERE added_device = ?", (device,))
        return int(row["number"] or 0) if row else 0

    def twins(self, job: JobRow) -> tuple[Twin, ...]:
        rows = self._database.rows(
            "SELECT id, done FROM jobs WHERE fingerprint = ? AND profile = ? AND wanted AND id != ? ORDER BY id",
            (job.fingerprint, job.profile, job.id),
        )
        return tuple(Twin(id=row["id"], done=bool(row["done"])) for row in rows)

    def put_job(self, job: JobRow, facts: JobFacts) -> None:
        columns = _job_columns(job, facts)
        wanted = ", ".join(("document", *_READY_COLUMNS))
        before = self._database.row(f"SELECT {wanted} FROM jobs WHERE id = ?", (job.id,))  # noqa: S608 (fixed words)
        if before is None or before["document"] != columns["document"]:
            self.feed_again(job.id, job_id=job.id)
        self._database.execute(_PUT_JOB, columns)
        if before is not None and any(before[name] != columns[name] for name in _READY_COLUMNS):
            self._database.execute("DELETE FROM ready_tasks WHERE job_id = ?", (job.id,))
            self._database.execute(f"{_MAKE_READY} AND jobs.id = ?", (job.id,))

    def task(self, task_id: str) -> TaskRow | None:
        return next(iter(self._some_tasks("SELECT document FROM tasks WHERE id = ?", task_id)), None)

    def tasks(self, job_id: str, *, kind: str | None = None) -> tuple[TaskRow, ...]:
        order = "ORDER BY rank, number, target"
        if kind is None:
            return self._some_tasks(f"SELECT document FROM tasks WHERE job_id = ? {order}", job_id)  # noqa: S608
        of_kind = f"kind = '{TaskKind(kind)}'"  # as a word, not a parameter, so that the index of publish is used
        return self._some_tasks(f"SELECT document FROM tasks WHERE job_id = ? AND {of_kind} {order}", job_id)  # noqa: S608

    def glance(self, job: JobRow) -> Glance:
        rows = self._database.rows(_GLANCE, (job.id, job.fingerprint))
        telling, plain = [], []
        for row in rows:
            document = row["document"]
            if document is not None:
                telling.append(self._decoded(document, TaskRow))
            else:
                plain.append(PlainTask(id=row["id"], target=row["target"], completed=bool(row["completed"])))
        return Glance(telling=tuple(telling), plain=tuple(plain))

    def add_task(self, task: TaskRow, facts: TaskFacts) -> bool:
        if self._database.execute(_ADD_TASK, _task_columns(task, facts)) == 0:
            return False
        self.feed_again(task.id, job_id=task.job_id)
        if facts.state is TaskState.AVAILABLE:
            self._database.execute(f"{_MAKE_READY} AND tasks.id = ?", (task.id,))
        return True

    def swap_task(self, task: TaskRow, facts: TaskFacts, *, expected: Lease | None) -> bool:
        epoch, token, device, boot = lease_key(expected)
        old = {"old_epoch": epoch, "old_token": token, "old_device": device, "old_boot": boot}
        columns = _task_columns(task, facts)
        stored = self._database.row("SELECT document FROM tasks WHERE id = ?", (task.id,))
        is_news = stored is None or stored["document"] != columns["document"]
        if self._database.execute(_SWAP_TASK, columns | old) == 0:
            return False
        if is_news:
            self.feed_again(task.id, job_id=task.job_id)
        self._database.execute("DELETE FROM ready_tasks WHERE task_id = ?", (task.id,))
        if facts.state is TaskState.AVAILABLE:
            self._database.execute(f"{_MAKE_READY} AND tasks.id = ?", (task.id,))
        return True

    def delete_tasks(self, job_id: str, *, keep: Collection[str] = ()) -> int:
        marks = ", ".join("?" for _ in keep)
        doomed = f"SELECT 1 FROM tasks WHERE job_id = ? AND id NOT IN ({marks}) LIMIT 1"  # noqa: S608 (marks only)
        if self._database.row(doomed, (job_id, *keep)) is None:
            return 0
        self._database.execute("DELETE FROM ready_tasks WHERE job_id = ?", (job_id,))
        fed = f"DELETE FROM feed WHERE job_id = ? AND row_id NOT IN (?{', ?' * len(keep)})"  # noqa: S608 (marks only)
        self._database.execute(fed, (job_id, job_id, *keep))
        sql = f"DELETE FROM tasks WHERE job_id = ? AND id NOT IN ({marks})"  # noqa: S608 (marks only)
        deleted = self._database.execute(sql, (job_id, *keep))
        self._database.execute(f"{_MAKE_READY} AND jobs.id = ?", (job_id,))
        return deleted

    def has_failed_vital(self, job_id: str, *, plan: str, fingerprint: str) -> bool:
        sql = (
            "SELECT 1 FROM tasks WHERE job_id = ? AND state = 'failed' AND vital AND plan IN ('', ?) "
            "AND fingerprint = ? LIMIT 1"
        )
        return self._database.row(sql, (job_id, plan, fingerprint)) is not None

    def version_of(self, job_id: str) -> tuple[int, int]:
        sql = "SELECT coalesce(max(number), 0) AS latest, count(*) AS rows FROM feed WHERE job_id = ?"
        row = self._database.row(sql, (job_id,))
        return (row["latest"], row["rows"]) if row else (0, 0)

    def has_open_work(self, job_id: str) -> bool:
        return self._database.row(_OPEN_WORK, (job_id,)) is not None

    def open_tasks(self, limit: int | None) -> tuple[TaskRow, ...]:
        sql = (
            "SELECT tasks.document FROM ready_tasks AS ready CROSS JOIN tasks ON tasks.id = ready.task_id "
            "ORDER BY ready.rank, ready.urgency, ready.added_at, ready.added_number, ready.job_id, ready.number, "
            "ready.target LIMIT ?"
        )
        return self._some_tasks(sql, -1 if limit is None else limit)

    def leased_tasks(self) -> tuple[TaskRow, ...]:
        return self._some_tasks("SELECT document FROM tasks WHERE state IN ('leased', 'fallback_started') ORDER BY id")

    def films(self) -> tuple[tuple[JobRow, JobFacts, TaskRow], ...]:
        rows = self._database.rows(
            "SELECT jobs.document AS job, film_of.document AS task, jobs.plan, film_task, done, "
            "runnable, wanted "
            "FROM jobs CROSS JOIN tasks AS film_of ON film_of.id = jobs.film_task WHERE jobs.removed = 0 "
            "ORDER BY jobs.added_at, jobs.added_number, jobs.id"
        )
        return tuple(
            (self._decoded(row["job"], JobRow), _job_facts(row), self._decoded(row["task"], TaskRow)) for row in rows
        )

    def progress(self, job_id: str) -> tuple[int, int]:
        row = self._database.row("SELECT round, milli FROM job_progress WHERE job_id = ?", (job_id,))
        return (row["round"], row["milli"]) if row else (0, 0)

    def put_progress(self, job_id: str, noted_round: int, milli: int) -> None:
        if (noted_round, milli) == (0, 0):
            self._database.execute("DELETE FROM job_progress WHERE job_id = ?", (job_id,))
            return
        self._database.execute(
            "INSERT INTO job_progress (job_id, round, milli) VALUES (?, ?, ?) "
            "ON CONFLICT (job_id) DO UPDATE SET round = excluded.round, milli = excluded.milli",
            (job_id, noted_round, milli),
        )

    def feed_number(self) -> int:
        row = self._database.row("SELECT seq FROM sqlite_sequence WHERE name = 'feed'")
        return int(row["seq"]) if row else 0

    def fed(self, *, after: int, limit: int) -> tuple[FedRow, ...]:
        rows = self._database.rows(_FED, (after, limit))
        return tuple(
            FedRow(
                number=row["number"],
                kind=RowKind.JOB if row["row_id"] == row["job_id"] else RowKind.TASK,
                id=row["row_id"],
                job_id=row["job_id"],
                document=row["document"],
            )
            for row in rows
        )

    def feed_again(self, row_id: str, *, job_id: str) -> None:
        self._database.execute(_FEED, (row_id, job_id))

    def generations(self) -> tuple[Generation, ...]:
        rows = self._database.rows("SELECT id, starts_after FROM feed_generations ORDER BY position")
        return tuple(Generation(id=row["id"], starts_after=row["starts_after"]) for row in rows)

    def open_generation(self, generation: Generation) -> None:
        values = (generation.id, generation.starts_after)
        self._database.execute("INSERT INTO feed_generations (id, starts_after) VALUES (?, ?)", values)

    def known_peers(self) -> tuple[str, ...]:
        return tuple(str(row["peer"]) for row in self._database.rows("SELECT peer FROM feed_cursors ORDER BY peer"))

    def keep_generations(self, number: int) -> None:
        latest = "SELECT position FROM feed_generations ORDER BY position DESC LIMIT ?"
        self._database.execute(f"DELETE FROM feed_generations WHERE position NOT IN ({latest})", (number,))  # noqa: S608

    def peer_cursor(self, peer: str) -> FeedCursor | None:
        row = self._database.row("SELECT generation, number FROM feed_cursors WHERE peer = ?", (peer,))
        return FeedCursor(generation=row["generation"], number=row["number"]) if row else None

    def put_peer_cursor(self, peer: str, cursor: FeedCursor) -> None:
        self._database.execute(
            "INSERT OR REPLACE INTO feed_cursors (peer, generation, number) VALUES (?, ?, ?)",
            (peer, cursor.generation, cursor.number),
        )

    def set_aside(self, aside: AsideRow) -> bool:
        self.drop_aside(aside)
        kept = self._database.row("SELECT count(*) AS number FROM feed_aside")
        if kept is not None and kept["number"] >= MAX_ASIDE:
            return False
        self._database.execute(
            "INSERT INTO feed_aside (kind, document, job_id, peer, reason) VALUES (?, ?, ?, ?, ?)",
            (aside.row.kind, aside.row.document, aside.job_id, aside.peer, aside.reason),
        )
        return True

    def aside(self, *, job_id: str | None = None) -> tuple[AsideRow, ...]:
        where, values = ("", ()) if job_id is None else ("WHERE job_id = ?", (job_id,))
        rows = self._database.rows(f"SELECT * FROM feed_aside {where} ORDER BY id", values)  # noqa: S608 (fixed words)
        return tuple(
            AsideRow(
                row=FeedRow(kind=RowKind(row["kind"]), document=row["document"]),
                job_id=row["job_id"],
                peer=row["peer"],
                reason=row["reason"],
            )
            for row in rows
        )

    def drop_aside(self, aside: AsideRow) -> None:
        values = (aside.row.kind, aside.row.document)
        self._database.execute("DELETE FROM feed_aside WHERE kind = ? AND document = ?", values)


def _job_facts(row: dict[str, Any]) -> JobFacts:
    return JobFacts(
        plan=row["plan"],
        film_task=row["film_task"],
        done=bool(row["done"]),
        runnable=bool(row["runnable"]),
        wanted=bool(row["wanted"]),
    )


def _job_columns(job: JobRow, facts: JobFacts) -> dict[str, Any]:
    return {
        "id": job.id,
        "document": encode_value(job).decode(),
        "media_id": job.media_id,
        "fingerprint": job.fingerprint,
        "profile": job.profile,
        "priority": job.priority.value,
        "removed": int(job.removed),
        "added_at": job.added.at_ms,
        "added_device": job.added.device,
        "added_number": job.added.number,
        "plan": facts.plan,
        "film_task": facts.film_task,
        "done": int(facts.done),
        "runnable": int(facts.runnable),
        "wanted": int(facts.wanted),
    }


def _task_columns(task: TaskRow, facts: TaskFacts) -> dict[str, Any]:
    epoch, token, device, boot = lease_key(task.lease)
    return {
        "id": task.id,
        "job_id": task.job_id,
        "document": encode_value(task).decode(),
        "kind": task.kind,
        "target": task.target,
        "fingerprint": task.fingerprint,
        "state": str(facts.state),
        "known": int(facts.known),
        "vital": int(facts.vital),
        "plan": facts.plan,
        "rank": facts.rank,
        "number": facts.number,
        "epoch": epoch,
        "token": token,
        "device": device,
        "boot": boot,
    }


class SqliteJobStore(RowJobStore):
    """A ``JobStore`` in a database, which it migrates; raises ``ExpectedError`` data-too-new and the door's others."""

    def __init__(
        self, *, database: Database, device: str, boot: int, clock: Clock, draw_id: Callable[[], str] = new_id
    ) -> None:
        super().__init__(rows=SqliteRowTable(database), device=device, boot=boot, clock=clock, draw_id=draw_id)
