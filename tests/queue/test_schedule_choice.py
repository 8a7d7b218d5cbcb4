"""What this device does next."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from app.core.clock import ManualClock
from app.media.plan import Plan, plan_hash
from app.queue.machine import index_task_id
from app.queue.memory_store import MemoryJobStore
from app.queue.rows import JobParams, JobRow, TaskRow
from app.queue.schedule import Candidate, Decision, candidate_of, choose_task
from app.queue.targets import ResourceClass, TaskKind, encode_index_result, tasks_of_plan

FREE = {ResourceClass.HEAVY: 1, ResourceClass.LIGHT: 1, ResourceClass.INLINE: 1}


class Bench:
    """A store with jobs, and their open tasks as candidates."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.store = MemoryJobStore(device="d", boot=1, clock=ManualClock())

    def add(self, *, indexed: bool = True) -> JobRow:
        content = f"f{len(self.store.job_ids())}"
        job = self.store.add_job(
            kind="hls", params=JobParams(profile="default"), fingerprint=content, size_bytes=1, name="x", now_ms=1
        )
        if indexed:
            index = index_task_id(job)
            value = encode_index_result(self.plan)
            self.store.complete(index, self.store.claim(index), value=value, next_tasks=tasks_of_plan(self.plan))
        return job

    def task(self, job: JobRow, part: str) -> TaskRow:
        return next(task for task in self.store.tasks(job.id) if part in task.target)

    def complete(self, job: JobRow, part: str) -> None:
        task = self.task(job, part)
        self.store.complete(task.id, self.store.claim(task.id), value="{}")

    def candidates(self) -> list[Candidate]:
        jobs = {job.id: job for job in self.store.jobs()}
        rows = self.store.all_open_tasks()
        done = {
            (task.job_id, task.target)
            for job_id in jobs
            for task in self.store.tasks(job_id)
            if task.outcome is not None
        }
        return [
            candidate_of(
                jobs[task.job_id],
                task,
                plan=None if task.kind == TaskKind.INDEX else self.plan,
                completed={target for job_id, target in done if job_id == task.job_id},
            )
            for task in rows
        ]

    def choose(self, *, wanted: frozenset[str] = frozenset(), free: dict[ResourceClass, int] | None = None) -> str:
        free = FREE if free is None else free
        decision = choose_task(self.candidates(), wanted=wanted, free=free, now_s=0.0)
        return self.store.task(decision.task_id).target if decision.task_id else f"nothing: {decision.reason}"

    def chosen_job(self) -> str:
        decision = choose_task(self.candidates(), wanted=(), free=FREE, now_s=0.0)
        assert decision.task_id is not None
        return self.store.task(decision.task_id).job_id


def test_what_somebody_waits_to_watch_goes_first(plan: Plan) -> None:
    bench = Bench(plan)
    job = bench.add()
    bench.add(indexed=False)
    wanted = bench.task(job, "ladder/2")
    assert bench.choose() == "index"
    assert bench.choose(wanted=frozenset({wanted.id})) == wanted.target


def test_a_job_is_done_in_the_order_that_makes_it_playable_soon(plan: Plan) -> None:
    bench = Bench(plan)
    job, name = bench.add(), plan_hash(plan)
    made = []
    while not (target := bench.choose()).startswith("nothing"):
        made.append(target.replace(name, "P"))
        bench.complete(job, target)
    assert made == [
        "video/P/copy/0", "video/P/ladder/0", "audio/P/a0", "stills/P", "video/P/copy/1", "video/P/ladder/1",
        "video/P/copy/2", "publish/P/quick", "video/P/ladder/2", "publish/P/full",
    ]  # fmt: skip


def test_a_taken_resource_holds_up_only_what_needs_it(plan: Plan) -> None:
    bench = Bench(plan)
    job = bench.add()
    bench.complete(job, "copy/0")
    assert "ladder/0" in bench.choose()
    assert "audio/" in bench.choose(free={ResourceClass.HEAVY: 0, ResourceClass.LIGHT: 1})
    assert bench.choose(free={}) == "nothing: It waits until work that runs now is done."


def test_priority_goes_before_the_order_of_adding(plan: Plan) -> None:
    bench = Bench(plan)
    first, second = bench.add(indexed=False), bench.add(indexed=False)
    assert bench.chosen_job() == first.id
    bench.store.set_priority(second.id, 1)
    assert bench.chosen_job() == second.id


def test_the_first_chunk_of_each_job_goes_before_the_second_of_any(plan: Plan) -> None:
    bench = Bench(plan)
    first, second = bench.add(), bench.add()
    for part in ("copy/0", "ladder/0", "audio/"):
        bench.complete(first, part)
    assert bench.chosen_job() == second.id


def test_a_resting_task_is_left_alone_until_its_moment(plan: Plan) -> None:
    bench = Bench(plan)
    bench.add(indexed=False)
    resting = [replace(one, resting_until_s=7.0) for one in bench.candidates()]
    words = "It will be tried again in 5 s."
    assert choose_task(resting, wanted=(), free=FREE, now_s=2.0) == Decision(
        reason=words, look_again_at_s=7.0, reasons={resting[0].job_id: words}
    )
    assert choose_task(resting, wanted=(), free=FREE, now_s=7.0).task_id == resting[0].task_id


def test_nothing_to_do_is_said(plan: Plan) -> None:
    assert Bench(plan).choose() == "nothing: There is nothing to do."


def test_publishing_says_what_it_waits_for(plan_maker: Callable[..., Plan]) -> None:
    plan = plan_maker(chunks=1, passthrough=False)
    bench = Bench(plan)
    bench.add()
    waiting = [one for one in bench.candidates() if one.target.kind is TaskKind.PUBLISH]
    decision = choose_task(waiting, wanted=(), free=FREE, now_s=0.0)
    assert decision.reason == f"It waits for video/{plan_hash(plan)}/ladder/0."
