"""Which open tasks there are for this device to choose from, with all that the choice depends on."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping
from functools import cached_property

from app.core.errors import ExpectedError
from app.engine.kernel import Kernel
from app.engine.performing import find_source
from app.media.plan import Plan
from app.queue.machine import TaskState, held_state, is_cancelled, outcome_counts, tasks_that_count
from app.queue.needs import needs_of
from app.queue.rows import JobRow, TaskRow
from app.queue.schedule import Candidate, candidate_of
from app.queue.store import JobStore
from app.queue.targets import Target, TaskKind, decode_index_result, find_target
from app.storage.opening import Storage

_MOST = 256
_CACHED_PLANS = 32


class Plans:
    """Plans of the jobs that are worked on, decoded once."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Plan] = OrderedDict()

    def of_task(self, store: JobStore, job: JobRow, target: Target | None) -> Plan | None:
        """Return the plan that a task is of; None for ``index``, and when it is not the one that the job follows."""
        name = target.plan if target is not None else ""
        if not name:
            return None
        plan = self._known.get(name)
        if plan is None:
            index = store.accepted_index(job.id)
            if index is None or store.accepted_plan_hash(job.id) != name:
                return None
            plan = self._known[name] = decode_index_result(index.value)
            while len(self._known) > _CACHED_PLANS:
                self._known.popitem(last=False)
        return plan


class TaskChoices:
    """Reads the candidates; remembers since when it has seen each of them."""

    def __init__(self, kernel: Kernel, plans: Plans) -> None:
        self._kernel = kernel
        self._plans = plans
        self._seen_s: dict[str, float] = {}

    async def read(self, *, wanted: Collection[str], running_jobs: Collection[str], now_s: float) -> list[Candidate]:
        """Return the open tasks that matter now; ``wanted`` are ids of tasks that somebody waits for."""
        found = await self._kernel.queue(lambda store: _open_tasks(store, wanted))
        sources = await self._kernel.store(lambda storage: _jobs_with_source(storage, [job for job, _ in found]))
        self._seen_s = {task.id: self._seen_s.get(task.id, now_s) for _, task in found}
        open_jobs = {task.job_id for _, task in found if task.kind != TaskKind.PUBLISH} | set(running_jobs)
        return await self._kernel.queue(
            lambda store: self._candidates(store, found, sources=sources, open_jobs=open_jobs, now_s=now_s)
        )

    def _candidates(
        self,
        store: JobStore,
        found: list[tuple[JobRow, TaskRow]],
        *,
        sources: Collection[str],
        open_jobs: Collection[str],
        now_s: float,
    ) -> list[Candidate]:
        contexts: dict[str, _JobContext] = {}
        candidates = []
        for job, task in found:
            context = contexts.setdefault(job.id, _JobContext(store, job))
            target = find_target(task.target)
            plan = self._plans.of_task(store, job, target)
            if target is None or (plan is None and target.kind is not TaskKind.INDEX):
                continue
            if target.kind is TaskKind.PUBLISH and target.name == "full" and job.id in open_jobs:
                continue
            publishes = target.kind is TaskKind.PUBLISH
            candidates.append(
                candidate_of(
                    job,
                    task,
                    plan=plan,
                    completed=context.completed if publishes else (),
                    failed=context.failed if publishes else (),
                    resting_until_s=store.resting_until_s(task.id),
                    needs=needs_of(
                        job,
                        target,
                        plan,
                        undone=context.undone,
                        has_source=job.id in sources,
                        open_s=now_s - self._seen_s[task.id],
                    ),
                )
            )
        return candidates


class _JobContext:
    """What is known of all tasks of one job, read when it is needed."""

    def __init__(self, store: JobStore, job: JobRow) -> None:
        self._store = store
        self._job = job

    @cached_property
    def _tasks(self) -> tuple[TaskRow, ...]:
        return tasks_that_count(self._job, self._store.tasks(self._job.id))

    @cached_property
    def completed(self) -> set[str]:
        return {task.target for task in self._tasks if outcome_counts(self._job, task)}

    @cached_property
    def failed(self) -> set[str]:
        return {
            task.target
            for task in self._tasks
            if task.target not in self.completed and held_state(self._job, task) is TaskState.FAILED
        }

    @cached_property
    def undone(self) -> tuple[Target, ...]:
        targets = (find_target(task.target) for task in self._tasks if task.target not in self.completed)
        return tuple(target for target in targets if target is not None)


def _open_tasks(store: JobStore, wanted: Collection[str]) -> list[tuple[JobRow, TaskRow]]:
    tasks = {task.id: task for task in store.all_open_tasks(limit=_MOST)}
    for task_id in set(wanted) - set(tasks):
        try:
            tasks[task_id] = store.task(task_id)
        except ExpectedError:
            continue
    jobs: dict[str, JobRow] = {}
    found = []
    for task in tasks.values():
        job = jobs.setdefault(task.job_id, store.job(task.job_id)) if task.job_id not in jobs else jobs[task.job_id]
        rests = job.paused.value or job.trashed.value or is_cancelled(job)
        if not rests and held_state(job, task) is TaskState.AVAILABLE:
            found.append((job, task))
    return found


def _jobs_with_source(storage: Storage, jobs: list[JobRow]) -> frozenset[str]:
    unique: Mapping[str, JobRow] = {job.id: job for job in jobs}
    return frozenset(job_id for job_id, job in unique.items() if find_source(storage, job) is not None)
