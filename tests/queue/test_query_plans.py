"""The hot questions never read a whole table, however long the history is; and the file grows with the library only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.core.clock import ManualClock
from app.core.database import Database
from app.core.errors import ErrorCode
from app.media.plan import Plan
from app.queue.machine import index_task_id
from app.queue.memory_store import MemoryJobStore
from app.queue.row_table import JobPart
from app.queue.rows import EndRank, JobRow
from app.queue.sqlite_store import SqliteJobStore
from app.queue.targets import TaskKind
from tests.queue.test_job_store_contract import add, finish, index, publish, task_of

_ALLOWED = (
    "SCAN jobs USING INDEX jobs_",  # the first page of a part: read from its end, in order, until the page is full
    "SCAN tasks USING INDEX tasks_leased",  # holds only what somebody does now
    "SCAN ready USING INDEX ready_order",  # read in order, until there are enough
    "SCAN ready USING COVERING INDEX ready_order",
    "SCAN feed_generations",  # at most a thousand, at start
    "SCAN feed_aside",  # at most a thousand
    "SCAN sqlite_sequence",
    "SCAN CONSTANT ROW",
)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "queue.db")
    yield database
    database.close()


@pytest.fixture
def store(database: Database) -> SqliteJobStore:
    return SqliteJobStore(database=database, device="d", boot=1, clock=ManualClock())


@contextmanager
def noted(database: Database) -> Iterator[list[str]]:
    """Note the statements that are run."""
    statements: list[str] = []
    database._connection.set_trace_callback(statements.append)
    try:
        yield statements
    finally:
        database._connection.set_trace_callback(None)


def steps_of(database: Database, statement: str) -> list[str]:
    if not statement.lstrip().startswith(("SELECT", "UPDATE", "INSERT", "DELETE")):
        return []
    return [str(row["detail"]) for row in database.rows(f"EXPLAIN QUERY PLAN {statement}")]


def complaints(database: Database, statements: list[str]) -> list[tuple[str, str]]:
    """Return the steps that read or sort what may be very long."""
    return [
        (step, statement)
        for statement in statements
        for step in steps_of(database, statement)
        if (step.startswith("SCAN") and not step.startswith(_ALLOWED)) or "TEMP B-TREE" in step
    ]


def fill(store: SqliteJobStore, plan: Plan) -> None:
    for number in range(12):
        job = add(store, fingerprint=f"f{number}")
        if number % 3 == 0:
            index(store, job, plan)
        if number % 6 == 0:
            publish(store, job)
            store.compact_job(job.id)
        if number % 5 == 0:
            store.trash_job(job.id)


def look_at(store: SqliteJobStore, job: JobRow) -> None:
    for part in JobPart:
        page = store.job_page(part, limit=3)
        store.job_page(part, after=page[0].id if page else job.id, limit=3)
    store.library_page(limit=3)
    store.trash_page(limit=3)
    store.library_entry(job.id)
    store.glance(job)
    store.version_of(job.id)
    store.note_progress_of([(job, 77)])
    store.progress(job.id)
    store.resolve_job(job.id[:8])
    store.resolve_media(job.media_id[:8])
    store.job_by_media_id(job.media_id)
    store.find_live_job(fingerprint="new", profile="default")
    store.twin_of(job.id)
    store.published(job.id)
    store.accepted_index(job.id)


def test_the_hot_questions_read_no_whole_table(database: Database, store: SqliteJobStore, plan: Plan) -> None:
    fill(store, plan)
    rows = store.changes_since(None).rows
    other = MemoryJobStore(device="other", boot=1, clock=ManualClock())
    other_job = add(other, fingerprint="theirs")
    index(other, other_job, plan)
    with noted(database) as statements:
        job = add(store, fingerprint="new")
        task_id = index_task_id(job)
        store.all_open_tasks(limit=20)
        lease = store.claim(task_id)
        lease = store.beat(task_id, lease, progress_milli=10)
        store.holds(task_id, lease)
        store.live_leases()
        store.end_forgotten_leases()
        store.end(task_id, lease, rank=EndRank.FREED, code=ErrorCode.CANCELLED, message="later")
        index(store, job, plan)
        finish(store, task_of(store, job, TaskKind.VIDEO))
        store.has_open_work(job.id)
        store.raise_void(task_of(store, job, TaskKind.VIDEO).id)
        look_at(store, job)
        store.set_priority(job.id, 4)
        store.pause_job(job.id)
        store.resume_job(job.id)
        store.retry_job(job.id)
        store.changes_since(store.feed_cursor())
        store.changes_since(None, limit=5)
        store.rows_about([task_id], job_ids=[job.id])
        store.apply_rows(rows, from_peer="other")
        store.apply_rows(other.changes_since(None).rows, from_peer="other")
        publish(store, job)
        store.compact_job(job.id)
        store.trash_job(job.id)
        store.restore_job(job.id)
        store.remove_job(job.id)
    assert len(statements) > 100
    assert complaints(database, statements) == []


def test_a_query_that_reads_a_whole_table_is_complained_of(database: Database, store: SqliteJobStore) -> None:
    add(store)
    with noted(database) as statements:
        database.rows("SELECT document FROM tasks WHERE state = 'failed'")
        database.rows("SELECT id FROM jobs WHERE removed = 0 ORDER BY priority")
    found = [step for step, _ in complaints(database, statements)]
    assert any(step.startswith("SCAN tasks") for step in found)
    assert any("TEMP B-TREE" in step for step in found)


def test_the_file_grows_with_the_library_and_not_with_its_history(
    database: Database, store: SqliteJobStore, plan: Plan
) -> None:
    def used_bytes() -> int:
        row = database.row(
            "SELECT (page_count - freelist_count) * page_size AS used "
            "FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
        )
        assert row is not None
        return int(row["used"])

    def live_through(number: int) -> None:
        job = add(store, fingerprint=f"f{number}")
        index(store, job, plan)
        store.note_progress(job.id, 500)
        for task in store.tasks(job.id):
            if task.kind not in {TaskKind.INDEX, TaskKind.PUBLISH}:
                finish(store, task)
        publish(store, job)
        store.compact_job(job.id)
        store.trash_job(job.id)
        store.remove_job(job.id)

    for number in range(20):
        live_through(number)
    before = used_bytes()
    for number in range(20, 120):
        live_through(number)
    assert used_bytes() - before < 100 * 2048, "a tombstone, with its place in the indexes and the feed"
    counts = {
        table: (database.row(f"SELECT count(*) AS number FROM {table}") or {})["number"]  # noqa: S608 (our tables)
        for table in ("jobs", "tasks", "ready_tasks", "job_progress", "feed", "feed_aside")
    }
    assert counts == {"jobs": 120, "tasks": 0, "ready_tasks": 0, "job_progress": 0, "feed": 120, "feed_aside": 0}
