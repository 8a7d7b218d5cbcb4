"""What only a file can suffer: a killed writer, damage, a full or read-only disk, a newer version, many rows."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.core.clock import ManualClock
from app.core.database import Database
from app.core.errors import BugError, ErrorCode, ExpectedError, StaleError
from app.media.plan import Plan
from app.queue.fact_writer import task_facts
from app.queue.machine import index_task_id
from app.queue.memory_store import MemoryJobStore
from app.queue.row_table import JobFacts
from app.queue.rows import JobParams
from app.queue.sqlite_store import SqliteJobStore, SqliteRowTable, _job_columns, _task_columns, migrations
from app.queue.targets import encode_index_result, tasks_of_plan

ADDER = """
import sys
from pathlib import Path
from app.core.clock import SystemClock
from app.core.database import Database
from app.queue.rows import JobParams
from app.queue.sqlite_store import SqliteJobStore

clock = SystemClock()
store = SqliteJobStore(database=Database(Path(sys.argv[1])), device="d", boot=int(sys.argv[2]), clock=clock)
store.end_forgotten_leases()
for number in range(100_000):
    job = store.add_job(kind="hls", params=JobParams(profile="default"), name="x", size_bytes=1,
                        fingerprint=f"{sys.argv[2]}-{number}", now_ms=clock.wall_ms())
    task, = store.tasks(job.id)
    print(job.id, flush=True)
    store.claim(task.id)
"""


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "queue.db")
    yield database
    database.close()


def open_store(database: Database, *, boot: int = 1) -> SqliteJobStore:
    return SqliteJobStore(database=database, device="d", boot=boot, clock=ManualClock())


def add(store: SqliteJobStore, fingerprint: str = "f1") -> str:
    return store.add_job(
        kind="hls", params=JobParams(profile="default"), fingerprint=fingerprint, size_bytes=1, name="x", now_ms=1
    ).id


def code_of(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(ExpectedError) as caught:
        call()
    return caught.value.code


def killed_adder(path: Path, boot: int, lines: int) -> list[str]:
    """Return the ids that a process printed before it was killed, after about ``lines`` of them."""
    command = [sys.executable, "-c", ADDER, str(path), str(boot)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        printed = [process.stdout.readline().strip() for _ in range(lines)]
        os.kill(process.pid, signal.SIGKILL)
        printed += [line.strip() for line in process.stdout if line.endswith("\n")]
    assert process.returncode == -signal.SIGKILL
    return printed


@pytest.mark.slow
def test_q3_every_job_that_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    chance = random.Random(9)  # noqa: S311 (where to kill, not a secret)
    printed: list[str] = []
    for boot in range(1, 6):
        printed += killed_adder(tmp_path / "queue.db", boot, chance.randrange(1, 60))
    database = Database(tmp_path / "queue.db")
    store = open_store(database, boot=6)
    ids = set(store.job_ids())
    assert set(printed) <= ids
    assert len(ids) - len(printed) <= 5, "at most one unacknowledged job for each kill"
    assert all([task.target for task in store.tasks(job_id)] == ["index"] for job_id in ids)
    store.end_forgotten_leases()
    assert store.live_leases() == ()
    assert len(store.all_open_tasks()) == len(ids)
    assert database.check() is None
    database.close()


def test_a_file_that_is_no_database_is_left_untouched(tmp_path: Path) -> None:
    path = tmp_path / "queue.db"
    path.write_bytes(b"this is a diary, not a database " * 200)
    before = path.read_bytes()
    assert code_of(lambda: open_store(Database(path))) is ErrorCode.DATABASE_DAMAGED
    assert path.read_bytes() == before


def test_a_damaged_page_has_its_code(tmp_path: Path) -> None:
    path = tmp_path / "queue.db"
    database = Database(path)
    store = open_store(database)
    for number in range(200):
        add(store, f"f{number}")
    database.close()
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xa5" * (len(data) - 4096)
    path.write_bytes(data)
    assert code_of(lambda: open_store(Database(path)).jobs()) is ErrorCode.DATABASE_DAMAGED


def test_a_damaged_row_has_its_code(database: Database) -> None:
    store = open_store(database)
    job_id = add(store)
    with database.transaction():
        database.execute("UPDATE jobs SET document = substr(document, 1, 40)")
    assert code_of(lambda: store.job(job_id)) is ErrorCode.DATABASE_DAMAGED
    assert code_of(store.jobs) is ErrorCode.DATABASE_DAMAGED


def test_a_newer_database_is_not_touched(database: Database) -> None:
    open_store(database)
    with database.transaction():
        database.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES ('queue', 'of_tomorrow', '')"
        )
    assert code_of(lambda: open_store(database)) is ErrorCode.DATA_TOO_NEW


def test_a_database_of_the_time_before_there_was_a_feed_is_fed_whole(database: Database, plan: Plan) -> None:
    source = MemoryJobStore(device="d", boot=1, clock=ManualClock())
    plain, cancelled, trashed = (
        source.add_job(
            kind="hls", params=JobParams(profile="default"), fingerprint=name, size_bytes=1, name=name, now_ms=1
        )
        for name in ("f1", "f2", "f3")
    )
    source.cancel_job(cancelled.id)
    source.trash_job(trashed.id)
    source.complete(
        index_task_id(plain), source.claim(index_task_id(plain)), value=encode_index_result(plan),
        next_tasks=tasks_of_plan(plan),
    )  # fmt: skip
    migrations.apply(database._tables, stop_before="feed_rows")
    with database.transaction():
        for job in source.jobs():
            insert(database, "jobs", _job_columns(job, source._rows.job_facts(job.id) or JobFacts()))
            for task in source.tasks(job.id):
                insert(database, "tasks", _task_columns(task, task_facts(job, task)))
    store = open_store(database)
    assert set(store.changes_since(None).rows) == set(source.changes_since(None).rows)
    wanted = {job.id: facts.wanted for job in store.jobs() if (facts := store._rows.job_facts(job.id))}
    assert wanted == {plain.id: True, cancelled.id: False, trashed.id: False}


def insert(database: Database, table: str, columns: dict[str, Any]) -> None:
    columns = {name: value for name, value in columns.items() if name != "wanted"}
    names = ", ".join(columns)
    marks = ", ".join(f":{name}" for name in columns)
    database.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", columns)  # noqa: S608 (our own names)


def test_migrating_twice_does_nothing(database: Database) -> None:
    job_id = add(open_store(database))
    assert open_store(database).job_ids() == (job_id,)


def test_a_database_that_cannot_be_written_acknowledges_nothing(database: Database) -> None:
    store = open_store(database)
    kept = add(store)
    database._connection.execute("PRAGMA query_only = ON")
    assert code_of(lambda: add(store)) is ErrorCode.READ_ONLY
    database._connection.execute("PRAGMA query_only = OFF")
    assert store.job_ids() == (kept,)


def test_a_full_disk_acknowledges_nothing_and_work_goes_on_after(database: Database) -> None:
    store = open_store(database)
    kept = [add(store)]
    pages = database.row("PRAGMA page_count")
    assert pages is not None
    database.rows(f"PRAGMA max_page_count = {pages['page_count']}")
    assert code_of(lambda: kept.extend(add(store, f"g{number}") for number in range(500))) is ErrorCode.DISK_FULL
    assert store.job_ids() == tuple(kept)
    database.rows("PRAGMA max_page_count = 1000000")
    kept.append(add(store, "last"))
    assert store.job_ids() == tuple(kept)
    assert len(store.all_open_tasks()) == len(kept)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_has_its_code(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        assert code_of(lambda: Database(tmp_path / "queue.db")) is ErrorCode.READ_ONLY
    finally:
        tmp_path.chmod(0o700)


def test_q2_a_row_that_changed_under_the_writer_is_not_overwritten(database: Database) -> None:
    store = open_store(database)
    add(store)
    (task,) = store.all_open_tasks()
    lease = store.claim(task.id)
    before = store.task(task.id)
    with database.transaction():
        database.execute("UPDATE tasks SET epoch = 2, token = 'other', device = 'e' WHERE id = ?", (task.id,))
    with pytest.raises(StaleError):
        store.beat(task.id, lease, progress_milli=1)
    assert store.task(task.id) == before


def test_a_write_outside_a_transaction_is_a_bug(database: Database) -> None:
    store, rows = open_store(database), SqliteRowTable(database)
    job = store.job(add(store))
    facts = rows.job_facts(job.id)
    assert facts is not None
    with pytest.raises(BugError):
        rows.put_job(job, facts)


def test_nothing_that_happens_often_reads_a_whole_table(database: Database, plan: Plan) -> None:
    store = open_store(database)
    seen: list[str] = []
    database._connection.set_trace_callback(seen.append)
    job = store.job(add(store))
    index = index_task_id(job)
    store.beat(index, store.claim(index), progress_milli=1)
    (leased,) = store.live_leases()
    assert leased.lease is not None
    store.complete(index, leased.lease, value=encode_index_result(plan), next_tasks=tasks_of_plan(plan))
    store.all_open_tasks(limit=5)
    store.find_live_job(fingerprint="f1", profile="default")
    store.job_by_media_id(job.media_id)
    store.tasks(job.id)
    store.published(job.id)
    store.note_progress(job.id, 5)
    cursor = store.feed_cursor()
    store.pause_job(job.id)
    changes = store.changes_since(cursor, limit=5)
    store.changes_since(None, limit=5)
    store.apply_rows(changes.rows, from_peer="e", peer_cursor=changes.cursor, since=store.peer_cursor("e"))
    store.rows_about([index])
    store.twin_of(job.id)
    store.remove_job(job.id)
    database._connection.set_trace_callback(None)
    statements = [sql for sql in seen if sql.lstrip().startswith(("SELECT", "UPDATE", "DELETE", "INSERT"))]
    assert len(statements) > 40
    plans = {row["detail"] for sql in statements for row in database.rows(f"EXPLAIN QUERY PLAN {sql}")}
    assert {detail for detail in plans if detail.startswith("SCAN")} <= {
        "SCAN CONSTANT ROW",
        "SCAN ready USING INDEX ready_order",  # read up to the limit
        "SCAN tasks USING INDEX tasks_leased",  # holds live leases only
        "SCAN sqlite_sequence",  # SQLite's own, one row for each numbered table
    }
    assert not {detail for detail in plans if "TEMP B-TREE" in detail}
