"""The contract of the change feed, run on the memory and the SQLite implementation alike."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from app.core.clock import ManualClock
from app.core.database import Database
from app.core.errors import BugError, ErrorCode, StaleError
from app.media.film import PublishStage
from app.media.plan import Plan
from app.queue.fact_writer import FactWriter
from app.queue.feed import Applied, FeedCursor, FeedRow, Generation, RowKind, start_of
from app.queue.machine import (
    STALE_AFTER_S,
    JobState,
    TaskState,
    attempts,
    index_task_id,
    job_status,
    stale_after_s,
    task_state,
)
from app.queue.memory_store import MemoryJobStore, MemoryRowTable
from app.queue.row_store import RowJobStore
from app.queue.rows import EndRank, JobParams, JobRow, Lease, Register, TaskRow, encode_value
from app.queue.sqlite_store import SqliteJobStore
from app.queue.targets import TaskKind, encode_index_result, tasks_of_plan


class Devices:
    """Replicas that exchange rows by hand; each can be started again on the rows it has."""

    def __init__(self, kind: str, folder: Path, clock: ManualClock) -> None:
        self.kind, self.folder, self.clock = kind, folder, clock
        self.tables: dict[str, MemoryRowTable] = {}
        self.databases: list[Database] = []

    def start(self, name: str, *, boot: int = 1, rows: MemoryRowTable | None = None) -> RowJobStore:
        if self.kind == "memory":
            table = self.tables.setdefault(name, MemoryRowTable()) if rows is None else rows
            return MemoryJobStore(device=name, boot=boot, clock=self.clock, rows=table)
        database = Database(self.folder / f"{name}.db")
        self.databases.append(database)
        return SqliteJobStore(database=database, device=name, boot=boot, clock=self.clock)


@pytest.fixture(params=["memory", "sqlite"])
def devices(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[Devices]:
    made = Devices(request.param, tmp_path, clock)
    yield made
    for database in made.databases:
        database.close()


@pytest.fixture
def a(devices: Devices) -> RowJobStore:
    return devices.start("a")


@pytest.fixture
def b(devices: Devices) -> RowJobStore:
    return devices.start("b")


def add(store: RowJobStore, fingerprint: str = "f1") -> JobRow:
    return store.add_job(
        kind="hls", params=JobParams(profile="default"), fingerprint=fingerprint, size_bytes=5, name="x", now_ms=1000
    )


def pull(here: RowJobStore, there: RowJobStore, *, limit: int = 500) -> Applied:
    """Let ``here`` ask ``there`` for everything new; return what became of the last answer."""
    while True:
        since = here.peer_cursor(there._device)
        changes = there.changes_since(since, limit=limit)
        applied = here.apply_rows(changes.rows, from_peer=there._device, peer_cursor=changes.cursor, since=since)
        if not changes.more:
            return applied


def exchange(*stores: RowJobStore) -> None:
    """Let all ask all until nobody learns anything."""
    pairs = [(one, other) for one in stores for other in stores if one is not other]
    while sum(len(pull(one, other).changed) for one, other in pairs):
        pass


def rows_of(store: RowJobStore) -> set[bytes]:
    changes = store.changes_since(None, limit=100_000)
    return {row.document.encode() for row in changes.rows}


def state(store: RowJobStore, job: JobRow) -> JobState:
    return job_status(store.job(job.id), store.tasks(job.id)).state


def index(store: RowJobStore, job: JobRow, plan: Plan) -> None:
    task_id = index_task_id(job)
    store.complete(task_id, store.claim(task_id), value=encode_index_result(plan), next_tasks=tasks_of_plan(plan))


def task_of(store: RowJobStore, job: JobRow, kind: TaskKind, name: str = "") -> TaskRow:
    return next(task for task in store.tasks(job.id) if task.kind == kind and name in task.target)


def finish(store: RowJobStore, task: TaskRow, value: str = '{"made":1}') -> None:
    store.complete(task.id, store.claim(task.id), value=value)


def publish(store: RowJobStore, job: JobRow) -> TaskRow:
    task = task_of(store, job, TaskKind.PUBLISH, PublishStage.FULL)
    finish(store, task)
    store.compact_job(job.id)
    return store.task(task.id)


def fed(row: JobRow | TaskRow) -> FeedRow:
    kind = RowKind.JOB if isinstance(row, JobRow) else RowKind.TASK
    return FeedRow(kind=kind, document=encode_value(row).decode())


def changed_ids(store: RowJobStore, cursor: FeedCursor) -> list[str]:
    return [row.document for row in store.changes_since(cursor).rows]


# What is fed


def test_every_change_of_a_row_is_fed_once(a: RowJobStore, plan: Plan) -> None:
    job = add(a)
    cursor = a.feed_cursor()
    assert changed_ids(a, cursor) == []
    index(a, job, plan)
    audio = task_of(a, job, TaskKind.AUDIO)
    changes: list[Callable[[], object]] = [
        lambda: a.beat(audio.id, a.claim(audio.id), progress_milli=5),
        lambda: a.raise_void(audio.id) if a.task(audio.id).outcome else a.set_priority(job.id, 3),
        lambda: a.pause_job(job.id),
        lambda: a.cancel_job(job.id),
        lambda: a.retry_job(job.id),
    ]
    for change in changes:
        cursor = a.feed_cursor()
        change()
        documents = changed_ids(a, cursor)
        assert documents
        assert len(documents) <= 2, "the row, and its job before it"


def test_what_changes_nothing_is_not_fed(a: RowJobStore, b: RowJobStore, plan: Plan) -> None:
    job = add(a)
    index(a, job, plan)
    exchange(a, b)
    cursors = a.feed_cursor(), b.feed_cursor()
    a.resume_job(job.id)
    a.note_progress(job.id, 400)
    b.apply_rows(a.changes_since(None).rows, from_peer="a")
    a.apply_rows(b.changes_since(None).rows, from_peer="b")
    assert (a.feed_cursor(), b.feed_cursor()) == cursors


def test_a_refused_write_is_not_fed(a: RowJobStore) -> None:
    job = add(a)
    a.claim(index_task_id(job))
    cursor = a.feed_cursor()
    with pytest.raises(StaleError):
        a.claim(index_task_id(job))
    assert a.feed_cursor() == cursor


def test_an_answer_comes_in_pieces_and_each_task_after_its_job(a: RowJobStore, b: RowJobStore, plan: Plan) -> None:
    jobs = [add(a, f"f{number}") for number in range(3)]
    for job in jobs:
        index(a, job, plan)
        a.set_priority(job.id, 7)
    known: set[str] = set()
    for row in a.changes_since(None, limit=4).rows:
        if row.kind is RowKind.JOB:
            known.add(row.document)
        else:
            assert known
    pull(b, a, limit=4)
    assert rows_of(a) == rows_of(b)
    assert b.jobs() == a.jobs()


def test_rows_pass_through_third_devices(devices: Devices, plan: Plan) -> None:
    a, b, c = devices.start("a"), devices.start("b"), devices.start("c")
    job = add(a)
    index(a, job, plan)
    pull(b, a)
    pull(c, b)
    assert rows_of(c) == rows_of(a)
    finish(c, task_of(c, job, TaskKind.AUDIO))
    pull(b, c)
    pull(a, b)
    assert a.task(task_of(a, job, TaskKind.AUDIO).id) == c.task(task_of(c, job, TaskKind.AUDIO).id)


def test_what_was_learned_from_peers_is_there_after_a_restart(devices: Devices) -> None:
    a, b = devices.start("a"), devices.start("b")
    job = add(a)
    pull(b, a)
    again = devices.start("b", boot=2)
    assert again.jobs() == (job,)
    assert again.peer_cursor("a") == b.peer_cursor("a") == a.feed_cursor()


# Generations and cursors


def test_a_cursor_is_answered_from_the_start_of_the_generation_that_followed_its_own() -> None:
    opened = (Generation(id="x", starts_after=0), Generation(id="y", starts_after=40))
    assert start_of(None, opened) == 0
    assert start_of(FeedCursor(generation="gone", number=30), opened) == 0
    assert start_of(FeedCursor(generation="x", number=30), opened) == 30
    assert start_of(FeedCursor(generation="x", number=60), opened) == 40
    assert start_of(FeedCursor(generation="y", number=60), opened) == 60


def test_every_start_opens_a_generation_before_it_writes(devices: Devices) -> None:
    first = devices.start("a")
    add(first)
    before = first.feed_cursor()
    second = devices.start("a", boot=2)
    assert second.feed_cursor().number == before.number
    assert second.feed_cursor().generation != before.generation
    assert second.changes_since(before).rows == ()


def test_q8_what_a_device_writes_after_it_was_restored_from_a_backup_is_not_skipped(clock: ManualClock) -> None:
    rows = MemoryRowTable()
    a, b = MemoryJobStore(device="a", boot=1, clock=clock, rows=rows), MemoryJobStore(device="b", boot=1, clock=clock)
    kept = add(a, "f1")
    backup = rows.copy()
    lost_here = [add(a, f"g{number}") for number in range(5)]
    pull(b, a)
    restored = MemoryJobStore(device="a", boot=2, clock=clock, rows=backup)
    fresh = add(restored, "f2")
    assert restored.feed_cursor().number < b.peer_cursor("a").number  # type: ignore[union-attr]
    exchange(restored, b)
    expected = {kept.id, fresh.id, *(job.id for job in lost_here)}
    assert set(b.job_ids()) == set(restored.job_ids()) == expected


def test_numbers_are_not_used_twice_when_the_latest_rows_are_deleted(a: RowJobStore, b: RowJobStore) -> None:
    job, other = add(a, "f1"), add(a, "f2")
    pull(b, a)
    a.remove_job(other.id)
    pull(b, a)
    before = a.feed_cursor().number
    a.pause_job(job.id)
    assert a.feed_cursor().number > before
    pull(b, a)
    assert b.job(job.id).paused.value


def test_a_late_or_doubled_answer_moves_no_cursor_and_harms_nothing(a: RowJobStore, b: RowJobStore) -> None:
    add(a, "f1")
    early = a.changes_since(None)
    pull(b, a)
    add(a, "f2")
    pull(b, a)
    now = b.peer_cursor("a")
    b.apply_rows(early.rows, from_peer="a", peer_cursor=early.cursor, since=None)
    assert b.peer_cursor("a") == now


# What is shown of one's own


def test_q8_a_restored_device_is_told_that_it_was(clock: ManualClock) -> None:
    rows = MemoryRowTable()
    a, b = MemoryJobStore(device="a", boot=1, clock=clock, rows=rows), MemoryJobStore(device="b", boot=1, clock=clock)
    job = add(a, "f1")
    backup = rows.copy()
    lost = add(a, "f2")
    a.pause_job(job.id)
    a.claim(index_task_id(lost))
    pull(b, a)
    restored = MemoryJobStore(device="a", boot=2, clock=clock, rows=backup)
    assert set(pull(restored, b).own_news) == {job.id, lost.id, index_task_id(lost)}
    assert pull(restored, b).own_news == ()


def test_a_device_that_only_forgot_a_finished_film_was_not_restored(devices: Devices, plan: Plan) -> None:
    a, b = devices.start("a"), devices.start("b")
    job = add(a)
    index(a, job, plan)
    finish(a, task_of(a, job, TaskKind.AUDIO))
    pull(b, a)
    film = publish(a, job)
    a.raise_void(film.id)
    again = devices.start("a", boot=2)
    for store in (a, again):
        assert pull(store, b).own_news == ()


# Tombstones, finished films


def test_a_removed_job_does_not_come_back(devices: Devices, plan: Plan) -> None:
    a, b, c = devices.start("a"), devices.start("b"), devices.start("c")
    job = add(a, "secret content")
    exchange(a, b, c)
    index(c, job, plan)
    a.remove_job(job.id)
    exchange(a, b)
    exchange(a, b, c)
    for store in (a, b, c):
        assert (store.job_ids(), store.tasks(job.id), store.all_open_tasks()) == ((), (), ())
        assert b"secret" not in b"".join(rows_of(store))


def test_the_film_alone_travels_once_it_is_published(a: RowJobStore, b: RowJobStore, plan: Plan) -> None:
    job = add(a)
    index(a, job, plan)
    pull(b, a)
    chunk = task_of(b, job, TaskKind.VIDEO)
    lease = b.claim(chunk.id)
    film = publish(a, job)
    exchange(a, b)
    assert a.tasks(job.id) == b.tasks(job.id) == (film,)
    assert state(b, job) is JobState.DONE
    with pytest.raises(StaleError):
        b.beat(chunk.id, lease, progress_milli=1)


def test_q5_a_film_that_is_lost_everywhere_is_made_again_everywhere(a: RowJobStore, b: RowJobStore, plan: Plan) -> None:
    job = add(a)
    index(a, job, plan)
    film = publish(a, job)
    exchange(a, b)
    a.raise_void(film.id)
    exchange(a, b)
    assert state(b, job) is JobState.QUEUED
    index(b, job, plan)
    again = publish(b, job)
    exchange(a, b)
    assert a.tasks(job.id) == b.tasks(job.id) == (again,)
    assert again.outcome != film.outcome


def test_q1_two_films_of_two_plans_come_to_one(
    a: RowJobStore, b: RowJobStore, plan: Plan, plan_maker: Callable[..., Plan]
) -> None:
    job = add(a)
    pull(b, a)
    for store, one in ((a, plan), (b, plan_maker(chunks=5))):
        index(store, job, one)
        publish(store, job)
    exchange(a, b)
    assert a.published(job.id) == b.published(job.id)
    film = a.published(job.id)
    assert film is not None
    (winner,) = (task for task in a.tasks(job.id) if task.outcome == film[1])
    a.raise_void(winner.id)
    exchange(a, b)
    assert a.published(job.id) == b.published(job.id) != film
    assert state(a, job) is state(b, job) is JobState.DONE


def forget_and_meet(devices: Devices, plan: Plan) -> tuple[RowJobStore, ...]:
    """Return three devices after one of them finished, forgot and lost a film of which another still has the pieces."""
    a, b, c = devices.start("a"), devices.start("b"), devices.start("c")
    job = add(a)
    exchange(a, b, c)
    index(c, job, plan)
    exchange(a, b, c)
    finish(b, task_of(b, job, TaskKind.AUDIO), '{"made":"by b"}')
    exchange(a, b, c)
    film = publish(a, job)
    a.raise_void(film.id)
    assert [task.target for task in a.tasks(job.id)] == ["index", film.target]
    exchange(a, b, c)
    return a, b, c


def test_q1_what_one_forgot_with_a_finished_film_and_another_still_knows_is_told_again(
    devices: Devices, plan: Plan
) -> None:
    a, b, c = forget_and_meet(devices, plan)
    assert rows_of(a) == rows_of(b) == rows_of(c)
    (job,) = a.jobs()
    assert task_of(a, job, TaskKind.AUDIO).outcome is not None


def test_q1_without_telling_again_devices_would_differ_for_ever(
    devices: Devices, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FactWriter, "tell_again", lambda _facts, _job_id: None)
    a, b, _ = forget_and_meet(devices, plan)
    assert rows_of(a) != rows_of(b)


def test_q1_what_was_forgotten_with_a_film_is_told_again_though_the_job_is_cancelled(
    devices: Devices, plan: Plan
) -> None:
    a, b = devices.start("a"), devices.start("b")
    job = add(a)
    index(a, job, plan)
    exchange(a, b)
    finish(b, task_of(b, job, TaskKind.AUDIO))
    film = publish(a, job)
    pull(a, b)
    a.raise_void(film.id)
    a.cancel_job(job.id)
    exchange(a, b)
    assert rows_of(a) == rows_of(b)


def test_the_tasks_of_an_accepted_index_are_there_even_if_their_rows_are_not(
    a: RowJobStore, b: RowJobStore, plan: Plan
) -> None:
    job = add(a)
    index(a, job, plan)
    b.apply_rows((fed(a.job(job.id)), fed(a.task(index_task_id(job)))), from_peer="a")
    assert [task.id for task in b.tasks(job.id)] == [task.id for task in a.tasks(job.id)]
    assert b.all_open_tasks() == a.all_open_tasks()


def test_a_retry_elsewhere_opens_failed_tasks_here(a: RowJobStore, b: RowJobStore) -> None:
    job = add(a)
    index_id = index_task_id(job)
    a.end(index_id, a.claim(index_id), rank=EndRank.PERMANENT, code=ErrorCode.NO_VIDEO, message="No picture.")
    exchange(a, b)
    assert state(b, job) is JobState.ERROR
    assert b.all_open_tasks() == ()
    a.retry_job(job.id)
    pull(b, a)
    assert state(b, job) is JobState.QUEUED
    assert [task.id for task in b.all_open_tasks()] == [index_id]


def test_a_failure_elsewhere_lets_the_task_rest_here_too(a: RowJobStore, b: RowJobStore, clock: ManualClock) -> None:
    job = add(a)
    index_id = index_task_id(job)
    pull(b, a)
    a.end(index_id, a.claim(index_id), rank=EndRank.TRANSIENT, code=ErrorCode.WORKER_CRASHED, message="It crashed.")
    pull(b, a)
    with pytest.raises(StaleError):
        b.claim(index_id)
    clock.advance(5.1)
    assert b.claim(index_id).epoch == 2


# Twins


def test_of_two_jobs_of_one_content_the_lower_id_runs(a: RowJobStore, b: RowJobStore) -> None:
    low, high = sorted((add(a), add(b)), key=lambda job: job.id)
    exchange(a, b)
    for store in (a, b):
        assert [task.job_id for task in store.all_open_tasks()] == [low.id]
        assert store.twin_of(low.id) is None
        assert store.twin_of(high.id) == low
        with pytest.raises(StaleError):
            store.claim(index_task_id(high))
        assert job_status(high, store.tasks(high.id), twin=low).reason is not None
    a.cancel_job(low.id)
    pull(b, a)
    assert [task.job_id for task in b.all_open_tasks()] == [high.id]
    a.retry_job(low.id)
    pull(b, a)
    a.remove_job(low.id)
    pull(b, a)
    assert [task.job_id for task in b.all_open_tasks()] == [high.id]


def test_a_job_steps_back_for_a_finished_film_whatever_their_ids(a: RowJobStore, b: RowJobStore, plan: Plan) -> None:
    low, high = sorted((add(a), add(b)), key=lambda job: job.id)
    maker = a if high.id in a.job_ids() else b
    index(maker, high, plan)
    publish(maker, high)
    exchange(a, b)
    for store in (a, b):
        assert store.all_open_tasks() == ()
        twin = store.twin_of(low.id)
        assert twin is not None
        assert (twin.id, store.twin_of(high.id)) == (high.id, None)


# Leases of others


def test_a_lease_of_another_device_cannot_be_taken_over_until_it_is_reclaimed(a: RowJobStore, b: RowJobStore) -> None:
    job = add(a)
    index_id = index_task_id(job)
    lease = a.claim(index_id)
    pull(b, a)
    with pytest.raises(StaleError):
        b.claim(index_id)
    reclaimed = reclaim(b, index_id, lease)
    assert [(end.rank, end.fenced) for end in reclaimed.ends] == [(EndRank.DIED, False)]
    pull(a, b)
    assert not a.holds(index_id, lease)
    with pytest.raises(StaleError):
        a.beat(index_id, lease, progress_milli=1)
    assert a.give_up(index_id, lease)
    exchange(a, b)
    for store in (a, b):
        assert [(end.rank, end.fenced) for end in store.task(index_id).ends] == [(EndRank.FREED, True)]


def reclaim(store: RowJobStore, task_id: str, lease: Lease) -> TaskRow:
    return store.reclaim(
        task_id, lease, rank=EndRank.DIED, code=ErrorCode.ENGINE_GONE, message="Its device fell silent."
    )


def test_q2_a_lease_that_gave_a_sign_of_life_or_is_over_is_not_reclaimed(a: RowJobStore, b: RowJobStore) -> None:
    index_id = index_task_id(add(a))
    lease = a.claim(index_id)
    pull(b, a)
    beaten = a.beat(index_id, lease, progress_milli=1)
    pull(b, a)
    before = b.task(index_id)
    with pytest.raises(StaleError):
        reclaim(b, index_id, lease)
    assert b.task(index_id) == before
    reclaim(b, index_id, beaten)
    before = b.task(index_id)
    with pytest.raises(StaleError):
        reclaim(b, index_id, beaten)
    assert b.task(index_id) == before
    with pytest.raises(StaleError):
        reclaim(b, "nothing", beaten)


def test_a_process_does_not_reclaim_its_own_lease(a: RowJobStore) -> None:
    index_id = index_task_id(add(a))
    lease = a.claim(index_id)
    with pytest.raises(BugError):
        reclaim(a, index_id, lease)
    assert a.holds(index_id, lease)


def test_a_lease_of_a_life_that_this_device_does_not_remember_costs_no_attempt(clock: ManualClock) -> None:
    rows = MemoryRowTable()
    a, b = MemoryJobStore(device="a", boot=1, clock=clock, rows=rows), MemoryJobStore(device="b", boot=1, clock=clock)
    job = add(a)
    backup = rows.copy()
    lease = a.claim(index_task_id(job))
    pull(b, a)
    restored = MemoryJobStore(device="a", boot=2, clock=clock, rows=backup)
    pull(restored, b)
    assert not restored.holds(index_task_id(job), lease)
    assert [end.rank for end in reclaim(restored, index_task_id(job), lease).ends] == [EndRank.FREED]


def test_a_claim_that_lost_to_a_better_one_costs_nothing_even_if_its_holder_is_called_dead_later(
    devices: Devices,
) -> None:
    a, b, c = devices.start("a"), devices.start("b"), devices.start("c")
    job = add(a)
    index_id = index_task_id(job)
    exchange(a, b, c)
    leases = {"a": a.claim(index_id), "b": b.claim(index_id)}
    pull(c, a)
    exchange(a, b)
    assert a.task(index_id) == b.task(index_id)
    assert not a.holds(index_id, leases["a"])
    assert b.holds(index_id, leases["b"])
    assert not a.give_up(index_id, leases["a"])
    reclaim(c, index_id, leases["a"])
    exchange(a, b, c)
    for store in (a, b, c):
        task = store.task(index_id)
        assert [(end.rank, end.fenced) for end in task.ends] == [(EndRank.FREED, False)]
        assert (attempts(job, task), stale_after_s(job, task)) == (0, STALE_AFTER_S)
    assert b.holds(index_id, leases["b"])


def test_work_on_a_film_that_another_plan_finished_is_stale(
    a: RowJobStore, b: RowJobStore, plan: Plan, plan_maker: Callable[..., Plan]
) -> None:
    job = add(a)
    pull(b, a)
    index(a, job, plan)
    a.raise_void(publish(a, job).id)
    index(a, job, plan)
    again = task_of(a, job, TaskKind.PUBLISH, PublishStage.FULL)
    lease = a.claim(again.id)
    index(b, job, plan_maker(chunks=5))
    publish(b, job)
    pull(a, b)
    assert state(a, job) is JobState.DONE
    assert a.task(again.id).lease == lease
    assert not a.holds(again.id, lease)
    with pytest.raises(StaleError):
        a.beat(again.id, lease, progress_milli=1)
    with pytest.raises(StaleError):
        a.complete(again.id, lease, value="{}")


def test_a_lease_that_was_forgotten_with_its_row_and_comes_back_with_it_is_freed(devices: Devices, plan: Plan) -> None:
    a, b, c = devices.start("a"), devices.start("b"), devices.start("c")
    job = add(a)
    index(a, job, plan)
    exchange(a, b, c)
    audio = task_of(b, job, TaskKind.AUDIO)
    lease = b.claim(audio.id)
    exchange(b, c)
    film = publish(a, job)
    pull(b, a)
    with pytest.raises(StaleError):
        b.give_up(audio.id, lease)
    a.raise_void(film.id)
    exchange(a, c)
    reclaim(c, audio.id, lease)
    exchange(a, b, c)
    for store in (a, b, c):
        assert [end.rank for end in store.task(audio.id).ends] == [EndRank.FREED]
        assert attempts(job, store.task(audio.id)) == 0


def test_work_that_began_before_a_result_of_its_epoch_was_lost_is_stale(
    a: RowJobStore, b: RowJobStore, plan: Plan
) -> None:
    job = add(a)
    index(a, job, plan)
    pull(b, a)
    audio = task_of(a, job, TaskKind.AUDIO)
    lease = b.claim(audio.id)
    finish(a, audio)
    a.raise_void(audio.id)
    exchange(a, b)
    assert a.task(audio.id).lease == lease
    assert not b.holds(audio.id, lease)
    with pytest.raises(StaleError):
        b.complete(audio.id, lease, value="{}")
    assert a.claim(audio.id).epoch == 2


def test_the_answer_to_a_claim_tells_of_the_film_that_makes_it_moot(a: RowJobStore, b: RowJobStore, plan: Plan) -> None:
    job = add(a)
    index(a, job, plan)
    pull(b, a)
    audio = task_of(b, job, TaskKind.AUDIO)
    lease = b.claim(audio.id)
    publish(a, job)
    a.apply_rows(b.rows_about([audio.id]), from_peer="b")
    b.apply_rows(a.rows_about([audio.id], job_ids=[job.id]), from_peer="a")
    assert state(b, job) is JobState.DONE
    assert not b.holds(audio.id, lease)


# Rows that cannot be taken


def broken_rows(job: JobRow, task: TaskRow) -> list[FeedRow]:
    far = 2**52
    lease = Lease(epoch=far, device="x", boot=1, token="x", round=1)  # noqa: S106 (no password)
    return [
        FeedRow(kind=RowKind.JOB, document="{"),
        FeedRow(kind=RowKind.JOB, document="[" * 50_000),
        FeedRow(kind=RowKind.JOB, document='{"id":"' + "x" * 5_000_000 + '"}'),
        FeedRow(kind=RowKind.TASK, document=encode_value(job).decode()),
        fed(replace(job, id="j")),
        fed(replace(job, round=far)),
        fed(replace(job, source=Register(value=None, stamp=5, device="x"))),
        fed(replace(job, paused=Register(value=True, stamp=far, device="x"))),
        fed(replace(task, id="0" * 32)),
        fed(replace(task, target="audio/x/y")),
        fed(replace(task, lease=lease)),
        fed(replace(task, void=far)),
    ]


def test_q8_rows_that_cannot_be_are_set_aside_with_a_word_and_harm_nothing(
    a: RowJobStore, b: RowJobStore, caplog: pytest.LogCaptureFixture
) -> None:
    job = add(a)
    task = a.task(index_task_id(job))
    exchange(a, b)
    before = rows_of(b)
    broken = broken_rows(job, task)
    good = fed(add(a, "f2"))
    with caplog.at_level(logging.WARNING):
        applied = b.apply_rows((*broken, good), from_peer="a", peer_cursor=a.feed_cursor(), since=b.peer_cursor("a"))
    assert len(applied.set_aside) == len(broken)
    assert len(caplog.records) == len(broken)
    assert before <= rows_of(b)
    assert len(b.job_ids()) == 2
    assert b.peer_cursor("a") == a.feed_cursor()
    assert b.claim(task.id).epoch == 1


def test_a_kind_of_a_newer_version_is_kept_and_passed_on_but_not_offered(devices: Devices) -> None:
    a, b, c = devices.start("a"), devices.start("b"), devices.start("c")
    job = replace(add(a), id="ab" * 16, kind="render", extra=(("dream", '{"of":1}'),))
    a.apply_rows((fed(job),), from_peer="z")
    pull(b, a)
    pull(c, b)
    assert c.job(job.id) == job
    assert c.tasks(job.id) == ()


def test_a_task_waits_for_its_job(a: RowJobStore, b: RowJobStore, devices: Devices, plan: Plan) -> None:
    job = add(a)
    index(a, job, plan)
    rows = [fed(task) for task in a.tasks(job.id)]
    assert len(b.apply_rows(rows, from_peer="a").set_aside) == len(rows)
    assert b.apply_rows((fed(job),), from_peer="a").set_aside == ()
    assert b.tasks(job.id) == a.tasks(job.id)
    again = devices.start("b", boot=2)
    assert again._rows.aside() == ()


def test_what_an_older_version_set_aside_is_taken_when_it_can_be_read(devices: Devices) -> None:
    a, b = devices.start("a"), devices.start("b")
    job = add(a)
    rows = (fed(job), fed(a.task(index_task_id(job))))
    b.apply_rows(rows[1:], from_peer="a")
    (aside,) = b._rows.aside()
    with b._rows.transaction():
        b._rows.set_aside(replace(aside, row=rows[0], job_id=""))
    again = devices.start("b", boot=2)
    assert again.jobs() == (job,)
    assert again._rows.aside() == ()
    assert task_state(job, again.task(index_task_id(job))) is TaskState.AVAILABLE


def test_what_is_set_aside_is_bounded(a: RowJobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("memory_store", "sqlite_store"):
        monkeypatch.setattr(f"app.queue.{module}.MAX_ASIDE", 3)
    rows = [FeedRow(kind=RowKind.JOB, document=f'{{"id":{number}}}') for number in range(5)]
    a.apply_rows(rows, from_peer="b")
    a.apply_rows(rows[:1], from_peer="b")
    assert len(a._rows.aside()) <= 3


def test_a_replica_knows_which_devices_its_rows_came_from(a: RowJobStore, b: RowJobStore) -> None:
    assert a.known_peers() == ()
    add(b)
    exchange(a, b)
    assert (a.known_peers(), b.known_peers()) == (("b",), ("a",))
