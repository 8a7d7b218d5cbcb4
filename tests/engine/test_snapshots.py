"""From rows to what is shown: progress, rate and time left, actions, titles; and the meter of rates."""

from __future__ import annotations

import msgspec
import pytest

from app.core.clock import ManualClock
from app.core.encoding import encode_canonical
from app.core.errors import ErrorCode
from app.engine.api import JobSnapshot
from app.engine.rates import RateMeter
from app.engine.snapshots import LiveTask, job_snapshot, live_tasks, read_job, running_milli, title_of
from app.media.film import TaskResult
from app.media.plan import Chunk, Plan, plan_hash
from app.queue.memory_store import MemoryJobStore, MemoryRowTable
from app.queue.needs import weight_of
from app.queue.rows import EndRank, JobParams, JobRow
from app.queue.targets import encode_index_result, parse_target, tasks_of_plan
from tests.playback.films import make_plan

DONE = encode_canonical(TaskResult(bundle="b")).decode()


@pytest.fixture
def plan() -> Plan:
    chunks = (Chunk(number=0, first_segment=0, end_segment=1), Chunk(number=1, first_segment=1, end_segment=4))
    return msgspec.structs.replace(make_plan(), chunks=chunks)


@pytest.fixture
def store(clock: ManualClock) -> MemoryJobStore:
    return MemoryJobStore(device="d", boot=1, clock=clock, rows=MemoryRowTable())


def add_job(store: MemoryJobStore, name: str = "film.mp4") -> JobRow:
    return store.add_job(
        kind="hls", params=JobParams(profile="default"), fingerprint="f", size_bytes=9, name=name, now_ms=5
    )


def complete(store: MemoryJobStore, job: JobRow, target: str, value: str = DONE) -> None:
    (task,) = (one for one in store.tasks(job.id) if one.target == target)
    store.complete(task.id, store.claim(task.id), value=value)


@pytest.fixture
def job(store: MemoryJobStore, plan: Plan) -> JobRow:
    """Return a job whose index is accepted."""
    row = add_job(store)
    (index,) = store.tasks(row.id)
    store.complete(index.id, store.claim(index.id), value=encode_index_result(plan), next_tasks=tasks_of_plan(plan))
    return row


def shown(
    store: MemoryJobStore, job: JobRow, live: dict[str, LiveTask] | None = None, rate_x: float | None = None
) -> JobSnapshot:
    view = read_job(store, store.job(job.id))
    milli = store.note_progress(job.id, running_milli(view, live or {}))
    return job_snapshot(
        view,
        milli=milli,
        rate_x=rate_x,
        reason="Nothing works.",
        source="/film",
        live=live or {},
        tasks=store.tasks(job.id),
    )


def test_progress_is_unknown_before_the_index(store: MemoryJobStore) -> None:
    snapshot = shown(store, add_job(store))
    assert (snapshot.progress, snapshot.duration_s, snapshot.playable) == (None, None, False)
    assert (snapshot.state, snapshot.reason, snapshot.source) == ("queued", "Nothing works.", "/film")


def test_progress_weighs_film_seconds_by_pixels(store: MemoryJobStore, job: JobRow, plan: Plan) -> None:
    name = plan_hash(plan)
    assert shown(store, job).progress == 0
    weights = {spec.target: weight_of(parse_target(spec.target), plan) for spec in tasks_of_plan(plan)}
    whole = sum(weights.values())
    assert weights[f"stills/{name}"] == weights[f"publish/{name}/full"] == 0
    complete(store, job, f"video/{name}/all/0")
    assert shown(store, job).progress == pytest.approx(weights[f"video/{name}/all/0"] / whole, abs=0.002)
    complete(store, job, f"audio/{name}/a0")
    complete(store, job, f"video/{name}/all/1")
    assert shown(store, job).progress == 0.999


def test_what_runs_counts_in_part(store: MemoryJobStore, job: JobRow) -> None:
    (task,) = (one for one in store.tasks(job.id) if one.target.endswith("/all/1"))
    store.claim(task.id)
    snapshots = [shown(store, job, {task.id: LiveTask(milli=milli, rate_x=None)}) for milli in (0, 250, 500)]
    assert [one.state for one in snapshots] == ["processing"] * 3
    progress = [one.progress or 0 for one in snapshots]
    assert progress == sorted(set(progress))
    assert [one.progress for one in snapshots[2].tasks if one.id == task.id] == [0.5]


def test_progress_never_falls_when_work_is_lost(store: MemoryJobStore, job: JobRow) -> None:
    (task,) = (one for one in store.tasks(job.id) if one.target.endswith("/all/1"))
    lease = store.claim(task.id)
    before = shown(store, job, {task.id: LiveTask(milli=900, rate_x=None)}).progress
    store.end(task.id, lease, rank=EndRank.PERMANENT, code=ErrorCode.DAMAGED_SOURCE, message="It is broken.")
    failed = shown(store, job)
    assert (failed.state, failed.reason, failed.progress) == ("error", "It is broken.", before)
    store.retry_job(job.id)
    assert (shown(store, job).progress or 0) < (before or 0)


def test_the_time_left_follows_from_the_rate(store: MemoryJobStore, job: JobRow, plan: Plan) -> None:
    snapshot = shown(store, job, rate_x=4.0)
    assert snapshot.eta_s == pytest.approx(plan.duration_ticks / 90_000 / 4, abs=0.1)
    assert shown(store, job, rate_x=None).eta_s is None


def test_actions_are_those_that_make_sense(store: MemoryJobStore, job: JobRow) -> None:
    seen = {}
    seen["queued"] = shown(store, job).actions
    store.pause_job(job.id)
    seen["paused"] = shown(store, job).actions
    store.cancel_job(job.id)
    seen["cancelled"] = shown(store, job).actions
    assert seen == {
        "queued": ("pause", "cancel", "remove"),
        "paused": ("resume", "cancel", "remove"),
        "cancelled": ("retry", "remove"),
    }


def test_a_job_with_a_plan_can_be_played_while_it_is_wanted(store: MemoryJobStore, job: JobRow) -> None:
    assert shown(store, job).playable
    store.pause_job(job.id)
    assert shown(store, job).playable
    store.cancel_job(job.id)
    assert not shown(store, job).playable


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("film.mp4", "film"),
        ("film.part2.mkv", "film.part2"),
        ("no ending", "no ending"),
        (".mp4", ".mp4"),
        ("Mr. Robinson", "Mr. Robinson"),
        ("dots...mp4", "dots.."),
        ("x.", "x."),
    ],
)
def test_a_title_is_the_name_without_its_ending(store: MemoryJobStore, name: str, title: str) -> None:
    assert title_of(add_job(store, name)) == title


def test_live_tasks_are_named_by_their_ids() -> None:
    assert live_tasks([("a", 5, None), ("b", 7, 2.0)]) == {
        "a": LiveTask(milli=5, rate_x=None),
        "b": LiveTask(milli=7, rate_x=2.0),
    }


# Rates


def test_a_rate_is_film_seconds_per_second_over_the_last_moments(clock: ManualClock) -> None:
    meter = RateMeter(clock)
    assert meter.rate("job", 0.0) is None
    clock.advance(0.5)
    assert meter.rate("job", 1.0) is None
    clock.advance(1.5)
    assert meter.rate("job", 4.0) == 2.0
    for second in range(60):
        clock.advance(1)
        rate = meter.rate("job", 4.0 + 5 * (second + 1))
    assert rate == 5.0
    assert meter.rate("other", 3.0) is None


def test_a_rate_begins_anew_when_progress_does(clock: ManualClock) -> None:
    meter = RateMeter(clock)
    meter.rate("job", 0.0)
    clock.advance(5)
    assert meter.rate("job", 50.0) == 10.0
    clock.advance(5)
    assert meter.rate("job", 0.0) is None
    clock.advance(5)
    assert meter.rate("job", 5.0) == 1.0


def test_a_job_that_stands_still_has_no_rate(clock: ManualClock) -> None:
    meter = RateMeter(clock)
    meter.rate("job", 1.0)
    clock.advance(5)
    assert meter.rate("job", 1.0) is None
