"""The contract of ``JobStore``, run on the memory and the SQLite implementation alike."""

# ruff: noqa: S106 (fencing tokens are no passwords)

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from app.core.clock import ManualClock
from app.core.errors import BugError, ErrorCode, ExpectedError, StaleError
from app.core.ids import media_id_of
from app.media.film import PublishStage
from app.media.plan import Plan, plan_hash
from app.queue.machine import JobState, TaskState, index_task_id, job_status, task_state
from app.queue.row_store import RowJobStore
from app.queue.rows import EndRank, JobParams, JobRow, LeaseFlag, TaskRow
from app.queue.store import JobStore
from app.queue.targets import INDEX_SPEC, TaskKind, encode_index_result, tasks_of_plan

StoreMaker = Callable[..., RowJobStore]


def add(store: JobStore, *, fingerprint: str = "f1", name: str = "film.mp4", now_ms: int = 1000) -> JobRow:
    return store.add_job(
        kind="hls",
        params=JobParams(profile="default"),
        fingerprint=fingerprint,
        size_bytes=5,
        name=name,
        now_ms=now_ms,
    )


def index(store: JobStore, job: JobRow, plan: Plan) -> None:
    task_id = index_task_id(job)
    store.complete(task_id, store.claim(task_id), value=encode_index_result(plan), next_tasks=tasks_of_plan(plan))


def task_of(store: JobStore, job: JobRow, kind: TaskKind, name: str = "") -> TaskRow:
    return next(task for task in store.tasks(job.id) if task.kind == kind and name in task.target)


def finish(store: JobStore, task: TaskRow) -> None:
    store.complete(task.id, store.claim(task.id), value='{"made":1}')


def publish(store: JobStore, job: JobRow, stage: PublishStage = PublishStage.FULL) -> TaskRow:
    task = task_of(store, job, TaskKind.PUBLISH, stage)
    finish(store, task)
    return task


def fail(store: JobStore, task_id: str, rank: EndRank = EndRank.TRANSIENT) -> None:
    store.end(task_id, store.claim(task_id), rank=rank, code=ErrorCode.WORKER_CRASHED, message="It crashed.")


def state(store: JobStore, job: JobRow) -> JobState:
    return job_status(store.job(job.id), store.tasks(job.id)).state


def task_is(store: JobStore, task_id: str) -> TaskState:
    task = store.task(task_id)
    return task_state(store.job(task.job_id), task)


def code_of(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(ExpectedError) as caught:
        call()
    return caught.value.code


# Jobs


def test_an_added_job_is_found_in_every_way(store: JobStore) -> None:
    job = add(store)
    assert store.job(job.id) == job
    assert store.jobs() == (job,)
    assert store.job_ids() == (job.id,)
    assert store.job_by_media_id(media_id_of(job.id)) == job
    assert store.find_live_job(fingerprint="f1", profile="default") == job
    assert store.find_live_job(fingerprint="f1", profile="passthrough") is None
    assert [task.target for task in store.tasks(job.id)] == ["index"]
    assert state(store, job) is JobState.QUEUED


def test_jobs_come_in_the_order_of_adding_within_one_millisecond_too(store: JobStore) -> None:
    added = [add(store, fingerprint=f"f{number}").id for number in range(20)]
    assert store.job_ids() == tuple(added)
    assert [task.job_id for task in store.all_open_tasks()] == added
    assert [task.job_id for task in store.all_open_tasks(limit=3)] == added[:3]


def test_what_is_not_there_has_a_code(store: JobStore) -> None:
    assert code_of(lambda: store.job("nothing")) is ErrorCode.NO_SUCH_ID
    assert code_of(lambda: store.job_by_media_id("nothing")) is ErrorCode.NO_SUCH_ID
    assert code_of(lambda: store.task("nothing")) is ErrorCode.NO_SUCH_ID
    assert code_of(lambda: store.raise_void("nothing")) is ErrorCode.NO_SUCH_ID
    assert code_of(lambda: store.pause_job("nothing")) is ErrorCode.NO_SUCH_ID
    with pytest.raises(StaleError):
        store.claim("nothing")


def test_a_name_that_is_no_text_can_be_stored(store: JobStore) -> None:
    job = add(store, name="caf\udce9.mp4")
    assert store.job(job.id).name == "caf?.mp4"


def test_an_added_job_is_there_for_the_next_life_of_the_device(store_maker: StoreMaker) -> None:
    job = add(store_maker(boot=1))
    assert store_maker(boot=2).jobs() == (job,)


# Leases


def test_a_live_lease_cannot_be_taken_over(store: JobStore) -> None:
    job = add(store)
    lease = store.claim(index_task_id(job))
    assert (lease.epoch, lease.device, lease.boot, lease.round) == (1, "dev-a", 1, 1)
    with pytest.raises(StaleError):
        store.claim(index_task_id(job))
    assert state(store, job) is JobState.PROCESSING
    assert store.all_open_tasks() == ()
    assert [task.id for task in store.live_leases()] == [index_task_id(job)]


def test_a_beat_counts_up_and_progress_never_falls(store: JobStore) -> None:
    task_id = index_task_id(add(store))
    lease = store.beat(task_id, store.claim(task_id), progress_milli=400)
    lease = store.beat(task_id, lease, progress_milli=300, flag=LeaseFlag.FROZEN)
    assert (lease.beat, lease.progress, lease.flag) == (2, 400, LeaseFlag.FROZEN)
    assert store.beat(task_id, lease, progress_milli=5000).progress == 1000


def test_q2_a_write_with_an_old_epoch_token_or_holder_changes_nothing(store_maker: StoreMaker) -> None:
    store, other = store_maker(), store_maker(device="dev-b")
    task_id = index_task_id(add(store))
    old = store.claim(task_id)
    store.end(task_id, old, rank=EndRank.FREED, code=ErrorCode.CANCELLED, message="Released.")
    new = store.claim(task_id)
    before = store.task(task_id)
    for writer, lease in ((store, old), (other, new), (store_maker(boot=2), new)):
        with pytest.raises(StaleError):
            writer.beat(task_id, lease, progress_milli=1)
        with pytest.raises(StaleError):
            writer.end(task_id, lease, rank=EndRank.DIED, code=ErrorCode.INTERNAL, message="")
        with pytest.raises(StaleError):
            writer.complete(task_id, lease, value="{}")
    assert store.task(task_id) == before


def test_q2_a_forged_lease_of_the_right_token_but_another_epoch_is_refused(store: JobStore) -> None:

    task_id = index_task_id(add(store))
    lease = store.claim(task_id)
    for forged in (
        replace(lease, epoch=lease.epoch + 1),
        replace(lease, boot=lease.boot + 1),
        replace(lease, token="other"),
    ):
        with pytest.raises(StaleError):
            store.beat(task_id, forged, progress_milli=1)


def test_a_lease_that_is_over_cannot_end_or_complete_again(store: JobStore, plan: Plan) -> None:
    task_id = index_task_id(add(store))
    lease = store.claim(task_id)
    store.complete(task_id, lease, value=encode_index_result(plan))
    with pytest.raises(StaleError):
        store.complete(task_id, lease, value=encode_index_result(plan))
    with pytest.raises(StaleError):
        store.end(task_id, lease, rank=EndRank.PERMANENT, code=ErrorCode.INTERNAL, message="")
    assert task_is(store, task_id) is TaskState.COMPLETED


def test_q5_three_failed_attempts_are_an_error_and_each_waits_longer(store: JobStore, clock: ManualClock) -> None:
    job = add(store)
    task_id = index_task_id(job)
    waits = []
    for _ in range(2):
        fail(store, task_id)
        until = store.resting_until_s(task_id)
        assert until is not None
        waits.append(until - clock.monotonic_s())
        with pytest.raises(StaleError):
            store.claim(task_id)
        clock.advance(waits[-1] - 0.01)
        with pytest.raises(StaleError):
            store.claim(task_id)
        clock.advance(0.02)
    assert 0 < waits[0] < waits[1]
    assert state(store, job) is JobState.QUEUED
    fail(store, task_id)
    status = job_status(store.job(job.id), store.tasks(job.id))
    assert status.state is JobState.ERROR
    assert status.error is not None
    assert (status.error.code, status.error.message) == ("worker-crashed", "It crashed.")
    clock.advance(1e6)
    with pytest.raises(StaleError):
        store.claim(task_id)
    assert store.all_open_tasks() == ()


def test_a_later_lease_is_a_fallback_and_its_reason_stays(store: JobStore, clock: ManualClock) -> None:
    task_id = index_task_id(add(store))
    fail(store, task_id)
    clock.advance(100)
    assert store.claim(task_id).epoch == 2
    assert task_is(store, task_id) is TaskState.FALLBACK_STARTED
    assert [(end.rank, end.device) for end in store.task(task_id).ends] == [(EndRank.TRANSIENT, "dev-a")]


def test_bad_input_fails_at_once(store: JobStore) -> None:
    job = add(store)
    fail(store, index_task_id(job), EndRank.PERMANENT)
    assert task_is(store, index_task_id(job)) is TaskState.FAILED
    assert state(store, job) is JobState.ERROR


def test_a_freed_lease_costs_nothing_however_often(store: JobStore) -> None:
    job = add(store)
    for _ in range(10):
        fail(store, index_task_id(job), EndRank.FREED)
    assert task_is(store, index_task_id(job)) is TaskState.AVAILABLE
    assert store.resting_until_s(index_task_id(job)) is None


def test_a_lease_that_was_given_up_while_its_holder_lived_costs_nothing(store: JobStore) -> None:
    task_id = index_task_id(add(store))
    lease = store.claim(task_id)
    store.end_fenced(task_id, lease)
    assert [(end.rank, end.fenced) for end in store.task(task_id).ends] == [(EndRank.FREED, True)]
    with pytest.raises(StaleError):
        store.end_fenced(task_id, lease)
    assert store.claim(task_id).epoch == 2


def test_q5_a_lease_of_an_earlier_life_ends_at_start(store_maker: StoreMaker) -> None:
    job = add(store_maker(boot=1))
    task_id = index_task_id(job)
    store_maker(boot=1).claim(task_id)
    later = store_maker(boot=2)
    assert state(later, job) is JobState.PROCESSING
    assert later.end_forgotten_leases() == 1
    assert state(later, job) is JobState.QUEUED
    assert later.end_forgotten_leases() == 0
    assert later.claim(task_id).epoch == 2


def test_a_lease_of_this_life_or_of_another_device_is_not_forgotten(store_maker: StoreMaker) -> None:
    store, other = store_maker(), store_maker(device="dev-b")
    first, second = add(store), add(store, fingerprint="f2")
    store.claim(index_task_id(first))
    other.claim(index_task_id(second))
    assert store.end_forgotten_leases() == 0


def test_q5_a_task_that_kills_its_device_fails_at_last_but_power_cuts_do_not(store_maker: StoreMaker) -> None:
    job = add(store_maker(boot=0))
    task_id = index_task_id(job)
    ranks = []
    for boot in range(1, 20):
        store = store_maker(boot=boot)
        store.end_forgotten_leases()
        if task_is(store, task_id) is TaskState.FAILED:
            break
        store.claim(task_id)
    ranks = [end.rank for end in store.task(task_id).ends]
    assert ranks == [EndRank.FREED] * 4 + [EndRank.DIED] * 3
    assert state(store, job) is JobState.ERROR


# Plans


def test_the_tasks_of_the_plan_come_with_the_accepted_index(store: JobStore, plan: Plan) -> None:
    job = add(store)
    assert store.accepted_index(job.id) is None
    index(store, job, plan)
    accepted = store.accepted_index(job.id)
    assert accepted is not None
    assert accepted.value == encode_index_result(plan)
    assert store.accepted_plan_hash(job.id) == plan_hash(plan)
    assert {task.target for task in store.tasks(job.id)} == {"index"} | {one.target for one in tasks_of_plan(plan)}
    assert store.put_tasks(job.id, tasks_of_plan(plan)) == 0


def test_tasks_of_another_plan_are_kept_but_not_offered(
    store: JobStore, plan: Plan, plan_maker: Callable[..., Plan]
) -> None:
    job = add(store)
    index(store, job, plan)
    stranger = tasks_of_plan(plan_maker(chunks=1))
    assert store.put_tasks(job.id, stranger) == len(stranger)
    assert {task.target for task in store.all_open_tasks()} == {one.target for one in tasks_of_plan(plan)}
    foreign = next(task for task in store.tasks(job.id) if task.target == stranger[0].target)
    with pytest.raises(StaleError):
        store.claim(foreign.id)


def test_open_tasks_come_in_the_order_of_doing(store: JobStore, plan: Plan) -> None:
    first = add(store)
    index(store, first, plan)
    second = add(store, fingerprint="f2")
    name = plan_hash(plan)
    open_targets = [task.target for task in store.all_open_tasks()]
    assert open_targets[:5] == [
        "index",
        f"video/{name}/copy/0",
        f"video/{name}/ladder/0",
        f"audio/{name}/a0",
        f"publish/{name}/quick",
    ]
    assert open_targets[-1] == f"publish/{name}/full"
    assert store.all_open_tasks()[0].job_id == second.id


def test_a_job_of_higher_priority_goes_first(store: JobStore) -> None:
    low, high = add(store), add(store, fingerprint="f2")
    store.set_priority(high.id, 5)
    assert [task.job_id for task in store.all_open_tasks()] == [high.id, low.id]
    store.set_priority(low.id, 6)
    assert [task.job_id for task in store.all_open_tasks()] == [low.id, high.id]
    assert code_of(lambda: store.set_priority(low.id, 1001)) is ErrorCode.BAD_SETTING


def test_an_index_without_a_plan_in_it_is_a_bug(store: JobStore) -> None:
    task_id = index_task_id(add(store))
    lease = store.claim(task_id)
    with pytest.raises(BugError):
        store.complete(task_id, lease, value='{"no":"plan"}')
    with pytest.raises(BugError):
        store.complete(task_id, lease, value="not json")
    assert task_is(store, task_id) is TaskState.LEASED


def test_previews_may_fail_without_failing_the_job(store: JobStore, plan: Plan) -> None:
    job = add(store)
    index(store, job, plan)
    fail(store, task_of(store, job, TaskKind.STILLS).id, EndRank.PERMANENT)
    status = job_status(store.job(job.id), store.tasks(job.id))
    assert status.state is JobState.QUEUED
    assert status.warnings == ("There are no preview pictures: It crashed.",)
    assert store.all_open_tasks() != ()


def test_a_failed_chunk_stops_the_job_and_retry_keeps_what_is_made(store: JobStore, plan: Plan) -> None:
    job = add(store)
    index(store, job, plan)
    made, broken = task_of(store, job, TaskKind.VIDEO, "copy/1"), task_of(store, job, TaskKind.VIDEO, "copy/2")
    finish(store, made)
    fail(store, broken.id, EndRank.PERMANENT)
    assert state(store, job) is JobState.ERROR
    assert store.all_open_tasks() == ()
    store.retry_job(job.id)
    assert state(store, job) is JobState.QUEUED
    assert task_is(store, made.id) is TaskState.COMPLETED
    assert store.claim(broken.id).round == 2


# Intent


def test_q6_pause_wins_over_progress(store: JobStore, plan: Plan) -> None:
    job = add(store)
    task_id = index_task_id(job)
    lease = store.claim(task_id)
    store.pause_job(job.id)
    assert state(store, job) is JobState.PAUSED
    lease = store.beat(task_id, lease, progress_milli=500, flag=LeaseFlag.PAUSED)
    assert state(store, job) is JobState.PAUSED
    store.complete(task_id, lease, value=encode_index_result(plan), next_tasks=tasks_of_plan(plan))
    assert state(store, job) is JobState.PAUSED
    assert store.all_open_tasks() == ()
    with pytest.raises(StaleError):
        store.claim(task_of(store, job, TaskKind.AUDIO).id)
    store.resume_job(job.id)
    assert state(store, job) is JobState.QUEUED
    store.claim(task_of(store, job, TaskKind.AUDIO).id)


def test_q6_cancel_wins_over_progress(store: JobStore, plan: Plan) -> None:
    job = add(store)
    task_id = index_task_id(job)
    lease = store.claim(task_id)
    store.cancel_job(job.id)
    assert state(store, job) is JobState.CANCELLED
    with pytest.raises(StaleError):
        store.beat(task_id, lease, progress_milli=1)
    with pytest.raises(StaleError):
        store.complete(task_id, lease, value=encode_index_result(plan))
    store.end(task_id, lease, rank=EndRank.FREED, code=ErrorCode.CANCELLED, message="Cancelled.")
    assert state(store, job) is JobState.CANCELLED
    assert task_is(store, task_id) is TaskState.CANCELLED
    with pytest.raises(StaleError):
        store.claim(task_id)


def test_results_of_a_cancelled_round_do_not_count_after_retry(store: JobStore, plan: Plan) -> None:
    job = add(store)
    index(store, job, plan)
    store.cancel_job(job.id)
    assert store.accepted_index(job.id) is None
    assert store.library() == ()
    store.retry_job(job.id)
    assert state(store, job) is JobState.QUEUED
    assert [task.target for task in store.all_open_tasks()] == ["index"]
    index(store, job, plan)
    assert task_is(store, index_task_id(job)) is TaskState.COMPLETED


def test_a_retry_while_the_old_round_still_runs_lets_the_task_be_claimed_anew(store: JobStore) -> None:
    job = add(store)
    old = store.claim(index_task_id(job))
    store.cancel_job(job.id)
    store.retry_job(job.id)
    new = store.claim(index_task_id(job))
    assert (new.epoch, new.round) == (2, 2)
    with pytest.raises(StaleError):
        store.beat(index_task_id(job), old, progress_milli=1)


def test_q6_a_done_job_can_be_neither_cancelled_nor_paused_nor_retried(store: JobStore, plan: Plan) -> None:
    job = add(store)
    index(store, job, plan)
    publish(store, job)
    assert state(store, job) is JobState.DONE
    for refused in (store.cancel_job, store.pause_job, store.retry_job):
        assert code_of(lambda refused=refused: refused(job.id)) is ErrorCode.ALREADY_DONE  # type: ignore[misc]
    assert store.all_open_tasks() == ()


def test_retry_reads_the_source_again_until_a_plan_is_accepted(store: JobStore, plan: Plan) -> None:
    job = add(store)
    fail(store, index_task_id(job), EndRank.PERMANENT)
    retried = store.retry_job(job.id, fingerprint="f2", size_bytes=9)
    assert (retried.fingerprint, retried.size_bytes, retried.round) == ("f2", 9, 2)
    assert store.find_live_job(fingerprint="f2", profile="default") == retried
    assert store.find_live_job(fingerprint="f1", profile="default") is None
    assert state(store, job) is JobState.QUEUED
    assert [task.fingerprint for task in store.all_open_tasks()] == ["f2"]
    index(store, retried, plan)
    assert code_of(lambda: store.retry_job(job.id, fingerprint="f3")) is ErrorCode.SOURCE_CHANGED
    assert store.job(job.id) == retried
    assert store.retry_job(job.id, fingerprint="f2").round == 3


def test_retry_lets_a_paused_job_go_on_and_clears_the_rest_after_a_failure(store: JobStore) -> None:
    job = add(store)
    fail(store, index_task_id(job))
    store.pause_job(job.id)
    store.retry_job(job.id)
    assert store.claim(index_task_id(job)).round == 2


def test_stamps_rise_even_when_the_clock_goes_back(store: JobStore, clock: ManualClock) -> None:
    job = add(store, now_ms=clock.wall_ms())
    paused = store.pause_job(job.id)
    clock.advance(-3600)
    resumed = store.resume_job(job.id)
    raised = store.set_priority(job.id, 3)
    assert job.source.stamp < paused.paused.stamp < resumed.paused.stamp < raised.priority.stamp


def test_a_clock_far_in_the_future_does_not_put_stamps_out_of_reach(store: JobStore, clock: ManualClock) -> None:
    job = add(store)
    clock.advance(1e15)
    paused = store.pause_job(job.id)
    clock.advance(-1e15)
    assert store.resume_job(job.id).paused.stamp == paused.paused.stamp + 1


# The film


def test_the_full_film_counts_more_than_the_quick_one(store: JobStore, plan: Plan) -> None:
    job = add(store)
    assert store.published(job.id) is None
    index(store, job, plan)
    assert [(entry.job.id, entry.stage) for entry in store.library()] == [(job.id, None)]
    publish(store, job, PublishStage.QUICK)
    film = store.published(job.id)
    assert film is not None
    assert film[0] is PublishStage.QUICK
    assert state(store, job) is JobState.QUEUED
    publish(store, job)
    film = store.published(job.id)
    assert film is not None
    assert film[0] is PublishStage.FULL
    (entry,) = store.library()
    assert (entry.stage, entry.outcome, entry.trashed) == (PublishStage.FULL, film[1], False)


def test_compacting_keeps_the_film_and_nothing_else_comes_back(store: JobStore, plan: Plan) -> None:
    job = add(store)
    index(store, job, plan)
    assert code_of(lambda: store.compact_job(job.id)) is ErrorCode.NOT_DONE
    film = publish(store, job)
    assert store.compact_job(job.id) == len(tasks_of_plan(plan))
    assert [task.id for task in store.tasks(job.id)] == [film.id]
    assert store.put_tasks(job.id, [INDEX_SPEC, *tasks_of_plan(plan)]) == 0
    assert state(store, job) is JobState.DONE
    assert [entry.stage for entry in store.library()] == [PublishStage.FULL]


def test_q5_a_lost_film_is_made_again_from_its_index_on(store: JobStore, plan: Plan) -> None:
    job = add(store)
    index(store, job, plan)
    film = publish(store, job)
    store.compact_job(job.id)
    store.raise_void(film.id)
    assert store.published(job.id) is None
    assert state(store, job) is JobState.QUEUED
    assert [task.target for task in store.all_open_tasks()] == ["index"]
    index(store, job, plan)
    assert publish(store, job).id == film.id
    assert store.task(film.id).outcome != film.outcome
    assert state(store, job) is JobState.DONE


def test_q5_a_lost_chunk_is_made_again(store: JobStore, plan: Plan) -> None:
    job = add(store)
    index(store, job, plan)
    chunk = task_of(store, job, TaskKind.VIDEO, "copy/1")
    finish(store, chunk)
    store.raise_void(chunk.id)
    assert task_is(store, chunk.id) is TaskState.AVAILABLE
    assert store.claim(chunk.id).epoch == 2


def test_retry_can_say_what_was_lost(store: JobStore, plan: Plan) -> None:
    job = add(store)
    index(store, job, plan)
    chunk = task_of(store, job, TaskKind.VIDEO, "copy/1")
    finish(store, chunk)
    film = publish(store, job)
    store.retry_job(job.id, void=[film.id, chunk.id])
    assert state(store, job) is JobState.QUEUED
    assert task_is(store, chunk.id) is TaskState.AVAILABLE
    assert task_is(store, film.id) is TaskState.AVAILABLE


def test_a_refused_retry_changes_nothing(store: JobStore, plan: Plan) -> None:
    job = add(store)
    index(store, job, plan)
    chunk = task_of(store, job, TaskKind.VIDEO, "copy/1")
    finish(store, chunk)
    before = store.tasks(job.id), store.job(job.id)
    with pytest.raises(ExpectedError):
        store.retry_job(job.id, void=[chunk.id, "nothing"])
    assert (store.tasks(job.id), store.job(job.id)) == before


def test_a_film_in_the_trash_rests_and_can_be_restored(store: JobStore, plan: Plan) -> None:
    job = add(store)
    index(store, job, plan)
    store.trash_job(job.id)
    assert store.all_open_tasks() == ()
    assert state(store, job) is JobState.CANCELLED
    assert [entry.trashed for entry in store.library()] == [True]
    assert store.find_live_job(fingerprint="f1", profile="default") is not None
    store.restore_job(job.id)
    assert [entry.trashed for entry in store.library()] == [False]
    publish(store, job)
    store.trash_job(job.id)
    assert state(store, job) is JobState.DONE
    assert [entry.trashed for entry in store.library()] == [True]


def test_a_cancelled_job_stays_cancelled_when_it_leaves_the_trash(store: JobStore) -> None:
    job = add(store)
    store.cancel_job(job.id)
    store.trash_job(job.id)
    store.restore_job(job.id)
    assert state(store, job) is JobState.CANCELLED


def test_a_removed_job_is_gone_for_good(store: JobStore, plan: Plan) -> None:
    job, other = add(store, name="secret.mp4"), add(store, fingerprint="f2")
    index(store, job, plan)
    audio = task_of(store, job, TaskKind.AUDIO)
    lease = store.claim(audio.id)
    tombstone = store.remove_job(job.id)
    assert (tombstone.removed, tombstone.name, tombstone.fingerprint) == (True, "", "")
    assert code_of(lambda: store.job(job.id)) is ErrorCode.NO_SUCH_ID
    assert code_of(lambda: store.put_tasks(job.id, [INDEX_SPEC])) is ErrorCode.NO_SUCH_ID
    assert code_of(lambda: store.job_by_media_id(job.media_id)) is ErrorCode.NO_SUCH_ID
    assert (store.job_ids(), store.tasks(job.id), store.library()) == ((other.id,), (), ())
    assert store.find_live_job(fingerprint="f1", profile="default") is None
    with pytest.raises(StaleError):
        store.complete(audio.id, lease, value="{}")
    assert add(store).added.number == 3


# Progress and changes


def test_progress_never_falls_within_a_round(store_maker: StoreMaker) -> None:
    store = store_maker()
    job = add(store)
    assert store.progress(job.id) == 0
    assert store.note_progress(job.id, 300) == 300
    assert store.note_progress(job.id, 200) == 300
    assert store_maker(boot=2).progress(job.id) == 300
    assert store.note_progress(job.id, 2000) == 1000
    store.cancel_job(job.id)
    store.retry_job(job.id)
    assert store.progress(job.id) == 0
    assert store.note_progress(job.id, 10) == 10


def test_every_change_names_its_job_once(store: JobStore, plan: Plan) -> None:
    job = add(store)
    assert store.take_changed() == {job.id}
    assert store.take_changed() == frozenset()
    task_id = index_task_id(job)
    lease = store.claim(task_id)
    changes: list[Callable[[], object]] = [
        lambda: store.beat(task_id, lease, progress_milli=1),
        lambda: store.complete(task_id, lease, value=encode_index_result(plan)),
        lambda: store.put_tasks(job.id, tasks_of_plan(plan)),
        lambda: store.note_progress(job.id, 5),
        lambda: store.pause_job(job.id),
        lambda: store.resume_job(job.id),
        lambda: store.set_priority(job.id, 1),
        lambda: store.raise_void(task_of(store, job, TaskKind.AUDIO).id),
        lambda: store.cancel_job(job.id),
        lambda: store.retry_job(job.id),
        lambda: store.trash_job(job.id),
        lambda: store.restore_job(job.id),
        lambda: store.remove_job(job.id),
    ]
    store.take_changed()
    for change in changes:
        change()
        assert store.take_changed() == {job.id}
