"""The drawings, the tables and the stores say the same; and no walk leads to where nothing is drawn."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
from msgspec.structs import replace

import app.queue
from app.core.clock import ManualClock
from app.core.database import Database
from app.core.errors import ErrorCode, HearthreelError
from app.media.film import PublishStage
from app.media.plan import Plan, plan_hash
from app.queue.fact_writer import task_facts
from app.queue.machine import (
    JOB_MOVES,
    TASK_MOVES,
    JobState,
    JobStatus,
    TaskState,
    backoff_s,
    index_task_id,
    is_trashed,
    job_status,
    stale_after_s,
    task_error,
    task_state,
    tasks_that_count,
)
from app.queue.memory_store import MemoryJobStore, MemoryRowTable
from app.queue.merge import merge_job
from app.queue.row_store import RowJobStore
from app.queue.row_table import RowTable
from app.queue.rows import End, EndRank, JobParams, JobRow, Lease, LeaseFlag, TaskRow
from app.queue.sqlite_store import SqliteJobStore, SqliteRowTable
from app.queue.targets import (
    TaskKind,
    TaskSpec,
    encode_index_result,
    missing_for,
    parse_target,
    tasks_of_plan,
)

Moves = set[tuple[str, str, str]]
STATES = {str(state) for state in (*TaskState, *JobState)}


def drawn_moves(text: str) -> Moves:
    moves = set()
    for line in text.splitlines():
        words = line.split()
        if len(words) > 2 and words[0] in STATES and words[1].startswith("--"):
            moves.add((words[0], words[1].strip("->"), words[2]))
    return moves


def plain(moves: frozenset[tuple[TaskState, str, TaskState]] | frozenset[tuple[JobState, str, JobState]]) -> Moves:
    return {(str(before), event, str(after)) for before, event, after in moves}


def test_the_drawing_shows_what_the_tables_say() -> None:
    tasks, jobs = (app.queue.__doc__ or "").split("A job::")
    assert drawn_moves(tasks) == plain(TASK_MOVES)
    assert drawn_moves(jobs) == plain(JOB_MOVES)


SEEDS = (161, 398, 39, 9, 128, *range(400))
"""Walks until every move has been made; the first few are known to make rare ones."""


class Walk:
    """One job and whatever may happen to it, chosen at random; remembers how states changed."""

    def __init__(self, store: RowJobStore, rows: RowTable, plan: Plan, clock: ManualClock, seed: int) -> None:
        self.store, self.rows, self.plan, self.clock = store, rows, plan, clock
        self.random = random.Random(seed)  # noqa: S311 (a walk, not a secret)
        self.leases: dict[str, Lease] = {}
        self.task_moves: Moves = set()
        self.job_moves: Moves = set()
        self.job_id = store.add_job(
            kind="hls", params=JobParams(profile="default"), fingerprint="f1", size_bytes=1, name="x", now_ms=1
        ).id

    @property
    def job(self) -> JobRow:
        return self.store.job(self.job_id)

    def status(self) -> JobStatus:
        return job_status(self.job, self.store.tasks(self.job_id))

    def states(self) -> dict[str, str]:
        job = self.job
        return {task.id: str(task_state(job, task)) for task in tasks_that_count(job, self.store.tasks(job.id))}

    def step(self) -> None:
        event, act = self.random.choice((*self.choices(), ("wait", lambda: self.clock.advance(1000))))
        before, job_before = self.states(), str(self.status().state)
        try:
            act()
        except HearthreelError:
            assert (self.states(), str(self.status().state)) == (before, job_before), f"refused {event}"
            return
        after, job_after = self.states(), str(self.status().state)
        self.task_moves |= {
            (before[one], event, after[one]) for one in before.keys() & after.keys() if before[one] != after[one]
        }
        if job_before != job_after:
            self.job_moves.add((job_before, event, job_after))

    def choices(self) -> Iterator[tuple[str, Callable[[], object]]]:
        tasks = list(self.store.tasks(self.job_id))
        startable = [task for task in tasks if not self.missing(task)]
        for task in self.random.sample(startable, min(3, len(startable))):
            yield "claim", lambda task=task: self.claim(task)  # type: ignore[misc]
        for task_id in list(self.leases):
            yield "end", lambda task_id=task_id: self.end(task_id)  # type: ignore[misc]
            yield "complete", lambda task_id=task_id: self.complete(task_id)  # type: ignore[misc]
        intents: tuple[tuple[str, float, Callable[[], object]], ...] = (
            ("pause", 0.3, lambda: self.store.pause_job(self.job_id)),
            ("resume", 0.3, lambda: self.store.resume_job(self.job_id)),
            ("cancel", 0.05, lambda: self.store.cancel_job(self.job_id)),
            ("retry", 0.3, lambda: self.store.retry_job(self.job_id)),
            ("void", 0.3, lambda: self.store.raise_void(self.random.choice((tasks[-1], tasks[-1], *tasks)).id)),
        )
        yield from ((event, act) for event, chance, act in intents if self.random.random() < chance)

    def missing(self, task: TaskRow) -> tuple[str, ...]:
        done = {other.target for other in self.store.tasks(self.job_id) if self.is_done(other)}
        return missing_for(TaskSpec(kind=TaskKind(task.kind), target=task.target), self.plan, done)

    def is_done(self, task: TaskRow) -> bool:
        return task_state(self.job, task) is TaskState.COMPLETED

    def claim(self, task: TaskRow) -> None:
        self.leases[task.id] = self.store.claim(task.id)

    def end(self, task_id: str) -> None:
        rank = self.random.choice(tuple(EndRank))
        lease = self.leases.pop(task_id)
        self.store.end(task_id, lease, rank=rank, code=ErrorCode.WORKER_CRASHED, message="It crashed.")

    def fail(self, task_id: str) -> None:
        lease = self.leases.pop(task_id)
        self.store.end(task_id, lease, rank=EndRank.TRANSIENT, code=ErrorCode.WORKER_CRASHED, message="It crashed.")

    def complete(self, task_id: str) -> None:
        is_index = task_id == index_task_id(self.job)
        value = encode_index_result(self.plan) if is_index else "{}"
        specs = tasks_of_plan(self.plan) if is_index else ()
        self.store.complete(task_id, self.leases.pop(task_id), value=value, next_tasks=specs)

    def complete_everything(self) -> None:
        while tasks := [task for task in self.store.all_open_tasks() if not self.missing(task)]:
            self.claim(tasks[0])
            self.complete(tasks[0].id)

    def check_facts(self) -> None:
        """Hold what is stored beside the documents against what they say."""
        job, tasks, status = self.job, self.store.tasks(self.job_id), self.status()
        facts = self.rows.job_facts(job.id)
        assert facts is not None
        assert facts.runnable == (status.state in {JobState.QUEUED, JobState.PROCESSING})
        assert facts.done == (status.state is JobState.DONE)
        counting = tasks_that_count(job, tasks) if facts.runnable else ()
        free = [task for task in counting if task_state(job, task) is TaskState.AVAILABLE]
        assert list(self.store.all_open_tasks()) == free
        assert [task.id for task in self.store.live_leases()] == sorted(
            task.id for task in tasks if task_facts(job, task).state in {TaskState.LEASED, TaskState.FALLBACK_STARTED}
        )


def memory_walk(plan: Plan, seed: int) -> Walk:
    rows, clock = MemoryRowTable(), ManualClock()
    return Walk(MemoryJobStore(device="d", boot=1, clock=clock, rows=rows), rows, plan, clock, seed)


def test_walks_make_exactly_the_drawn_moves(plan_maker: Callable[..., Plan]) -> None:
    plan = plan_maker(chunks=1, passthrough=False)
    task_moves: Moves = set()
    job_moves: Moves = set()
    for seed in SEEDS:
        walk = memory_walk(plan, seed)
        for _ in range(150):
            walk.step()
        task_moves |= walk.task_moves
        job_moves |= walk.job_moves
        if len(task_moves | job_moves) >= len(TASK_MOVES) + len(JOB_MOVES):
            break
    assert task_moves == plain(TASK_MOVES)
    assert job_moves == plain(JOB_MOVES)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_what_is_stored_for_searching_is_always_what_the_rows_say(kind: str, seed: int, plan: Plan) -> None:
    clock = ManualClock()
    if kind == "memory":
        walk = memory_walk(plan, seed)
    else:
        database = Database(None)
        store = SqliteJobStore(database=database, device="d", boot=1, clock=clock)
        walk = Walk(store, SqliteRowTable(database), plan, clock, seed)
    for _ in range(60):
        walk.step()
        walk.check_facts()
    if kind == "sqlite":
        database.close()


def test_q5_whatever_happens_a_job_comes_to_rest(plan_maker: Callable[..., Plan]) -> None:
    plan = plan_maker(chunks=1, passthrough=False)
    for seed in range(10):
        walk = memory_walk(plan, seed)
        for _ in range(40):
            walk.step()
        walk.leases = {task.id: task.lease for task in walk.store.live_leases() if task.lease}
        walk.store.resume_job(walk.job_id)
        for _ in range(200):
            for task_id in list(walk.leases):
                walk.fail(task_id)
            walk.clock.advance(10_000)
            for task in walk.store.all_open_tasks():
                walk.claim(task)
            if not walk.leases:
                break
        assert walk.status().state in {JobState.ERROR, JobState.DONE, JobState.CANCELLED}


def late_cancel(walk: Walk) -> JobRow:
    """Return a job that is published here and was cancelled on another device meanwhile."""
    elsewhere = replace(walk.job, cancelled_round=walk.job.round)
    walk.complete_everything()
    return merge_job(walk.job, elsewhere)


def test_q6_a_cancel_that_arrives_after_publishing_puts_the_film_into_the_trash(plan: Plan) -> None:
    walk = memory_walk(plan, 1)
    merged = late_cancel(walk)
    tasks = walk.store.tasks(walk.job_id)
    assert job_status(merged, tasks).state is JobState.DONE
    assert is_trashed(merged, tasks)
    with walk.rows.transaction():
        walk.store._put(merged)
    assert [(entry.stage, entry.trashed) for entry in walk.store.library()] == [(PublishStage.FULL, True)]
    walk.store.restore_job(walk.job_id)
    assert [(entry.stage, entry.trashed) for entry in walk.store.library()] == [(PublishStage.FULL, False)]
    assert walk.status().state is JobState.DONE


def _task(**fields: object) -> TaskRow:
    task = TaskRow(id="t", job_id="j", kind="index", target="index", fingerprint="f1")
    return replace(task, **fields)


def _end(epoch: int, rank: EndRank, **fields: object) -> End:
    rest: dict[str, object] = {"round": 1, "code": "internal", "message": f"end {epoch}", "device": "d"} | fields
    return End(epoch=epoch, token=f"t{epoch}", rank=rank, **rest)  # type: ignore[arg-type]


def test_the_error_shown_is_the_permanent_one_else_the_latest(plan: Plan) -> None:
    job = memory_walk(plan, 1).job
    ends = (_end(1, EndRank.PERMANENT), _end(2, EndRank.TRANSIENT), _end(3, EndRank.FREED))
    error = task_error(job, _task(ends=ends))
    assert error is not None
    assert error.message == "end 1"
    error = task_error(job, _task(ends=ends[1:]))
    assert error is not None
    assert error.message == "end 2"
    assert task_error(replace(job, round=2), _task(ends=ends)) is None


def test_the_rest_after_a_failure_grows() -> None:
    waits = [backoff_s(number) for number in range(4)]
    assert waits[0] == 0
    assert all(first < second for first, second in pairwise(waits))


def test_a_holder_that_was_wronged_gets_more_time_up_to_half_an_hour(plan: Plan) -> None:
    job = memory_walk(plan, 1).job
    ends = tuple(_end(epoch, EndRank.FREED, fenced=True) for epoch in range(40))
    assert [stale_after_s(job, _task(ends=ends[:number])) for number in (0, 1, 2, 40)] == [45, 90, 180, 1800]
    assert stale_after_s(job, _task(ends=(_end(1, EndRank.FREED),))) == 45


def test_a_frozen_job_says_why_it_does_not_get_on(plan: Plan) -> None:
    walk = memory_walk(plan, 1)
    index = index_task_id(walk.job)
    walk.store.beat(index, walk.store.claim(index), progress_milli=1, flag=LeaseFlag.FROZEN)
    status = walk.status()
    assert status.state is JobState.PROCESSING
    assert status.reason is not None


def test_a_job_that_failed_once_says_that_it_will_be_tried_again(plan: Plan) -> None:
    walk = memory_walk(plan, 1)
    walk.claim(walk.store.task(index_task_id(walk.job)))
    walk.fail(index_task_id(walk.job))
    assert walk.status().reason == "It will be tried again (attempt 2 of 3): It crashed."


def test_a_plan_of_a_version_that_plans_otherwise_is_waited_for(plan: Plan) -> None:
    walk = memory_walk(plan, 1)
    walk.claim(walk.store.task(index_task_id(walk.job)))
    walk.complete(index_task_id(walk.job))
    rows = [replace(task, outcome=task.outcome and replace(task.outcome, value='{"plan":2}')) for task in
            walk.store.tasks(walk.job_id)]  # fmt: skip
    assert [task.target for task in tasks_that_count(walk.job, rows)] == ["index"]
    assert job_status(walk.job, rows).state is JobState.QUEUED


def test_tasks_of_two_plans_never_mix(plan: Plan, plan_maker: Callable[..., Plan]) -> None:
    walk = memory_walk(plan, 1)
    walk.claim(walk.store.task(index_task_id(walk.job)))
    walk.complete(index_task_id(walk.job))
    walk.store.put_tasks(walk.job_id, tasks_of_plan(plan_maker(chunks=7)))
    counting = tasks_that_count(walk.job, walk.store.tasks(walk.job_id))
    assert {parse_target(task.target).plan for task in counting} == {"", plan_hash(plan)}
