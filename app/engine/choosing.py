"""Which open tasks there are for this device to choose from, with all that the choice depends on."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping
from functools import cached_property

from app.core.errors import ExpectedError
from app.engine.kernel import Kernel
from app.engine.performing import find_source
from app.media.film import PublishStage
from app.media.plan import Plan
from app.queue.machine import TaskState, held_state, is_cancelled, outcome_counts, tasks_that_count
from app.queue.needs import Weights, needs_of
from app.queue.row_table import Glance
from app.queue.rows import JobRow, TaskRow
from app.queue.schedule import Candidate, candidate_of
from app.queue.store import JobStore
from app.queue.targets import Target, TaskKind, decode_index_result, find_target, is_publish
from app.storage.opening import Storage

FEW = 24
"""How many open tasks are read first: almost always these hold one that can be begun."""
MOST = 256
_CACHED_PLANS = 256
"""One for each task that is read, or all would be decoded again for each choice. A long film's takes some 60 kB."""


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
        self._known.move_to_end(name)
        return plan


class TaskChoices:
    """Reads the candidates; remembers since when it has seen each of them."""

    def __init__(self, kernel: Kernel, plans: Plans) -> None:
        self._kernel = kernel
        self._plans = plans
        self._seen_s: dict[str, float] = {}
        self._undone: OrderedDict[str, tuple[tuple[int, int], int]] = OrderedDict()
        """Job → (version, weight of what is left to do of it)."""
        self.has_read_all = False
        """Whether there were no more open tasks than were read last."""

    async def read(
        self, *, wanted: Collection[str], running_jobs: Collection[str], now_s: float, most: int = MOST
    ) -> list[Candidate]:
        """Return the first open tasks in the order of doing; ``wanted`` are ids of tasks that somebody waits for."""
        found, self.has_read_all = await self._kernel.queue(lambda store: _open_tasks(store, wanted, most))
        sources = await self._kernel.store(lambda storage: _jobs_with_source(storage, [job for job, _ in found]))
        seen_s = {task.id: self._seen_s.get(task.id, now_s) for _, task in found}
        self._seen_s = seen_s if self.has_read_all or most >= MOST else self._seen_s | seen_s
        return await self._kernel.queue(
            lambda store: self._candidates(store, found, sources=sources, running_jobs=running_jobs, now_s=now_s)
        )

    def _candidates(
        self,
        store: JobStore,
        found: list[tuple[JobRow, TaskRow]],
        *,
        sources: Collection[str],
        running_jobs: Collection[str],
        now_s: float,
    ) -> list[Candidate]:
        contexts: dict[str, _JobContext] = {}
        candidates = []
        for job, task in found:
            target = find_target(task.target)
            plan = self._plans.of_task(store, job, target)
            context = contexts.setdefault(job.id, _JobContext(store, job, plan))
            if target is None or (plan is None and target.kind is not TaskKind.INDEX):
                continue
            if is_publish(target, PublishStage.FULL) and (job.id in running_jobs or context.has_open_work):
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
                        undone_weight=self._undone_weight(store, context) if target.kind is TaskKind.VIDEO else 0,
                        has_source=job.id in sources,
                        open_s=now_s - self._seen_s[task.id],
                    ),
                )
            )
        return candidates

    def _undone_weight(self, store: JobStore, context: _JobContext) -> int:
        job_id, version = context.job.id, store.version_of(context.job.id)
        known = self._undone.get(job_id)
        if known is None or known[0] != version:
            known = self._undone[job_id] = version, context.undone_weight
            while len(self._undone) > MOST:
                self._undone.popitem(last=False)
        return known[1]


class _JobContext:
    """What is known of all tasks of one job, read when it is needed; of most of them no more than a glance."""

    def __init__(self, store: JobStore, job: JobRow, plan: Plan | None) -> None:
        self._store = store
        self.job = job
        self._plan = plan

    @cached_property
    def has_open_work(self) -> bool:
        return self._store.has_open_work(self.job.id)

    @cached_property
    def _glance(self) -> Glance:
        return self._store.glance(self.job)

    @cached_property
    def _told(self) -> tuple[TaskRow, ...]:
        return tasks_that_count(self.job, self._glance.telling)

    @cached_property
    def completed(self) -> set[str]:
        told = {task.target for task in self._told if outcome_counts(self.job, task)}
        return told | {one.target for one in self._glance.plain if one.completed}

    @cached_property
    def failed(self) -> set[str]:
        return {task.target for task in self._told if held_state(self.job, task) is TaskState.FAILED}

    @cached_property
    def undone_weight(self) -> int:
        if self._plan is None:
            return 0
        weights = Weights(self._plan, self._store.accepted_plan_hash(self.job.id) or "")
        told = (task.target for task in self._told if not outcome_counts(self.job, task))
        plain = (one.target for one in self._glance.plain if not one.completed)
        return sum(map(weights.of, (*told, *plain)))


def _open_tasks(store: JobStore, wanted: Collection[str], most: int) -> tuple[list[tuple[JobRow, TaskRow]], bool]:
    tasks = {task.id: task for task in store.all_open_tasks(limit=most)}
    is_all = len(tasks) < most
    for task_id in set(wanted) - set(tasks):
        try:
            tasks[task_id] = store.task(task_id)
        except ExpectedError:
            continue
    jobs: dict[str, JobRow] = {}
    found = []
    for task in tasks.values():
        job = jobs.get(task.job_id) or jobs.setdefault(task.job_id, store.job(task.job_id))
        rests = job.paused.value or job.trashed.value or is_cancelled(job)
        if not rests and held_state(job, task) is TaskState.AVAILABLE:
            found.append((job, task))
    return found, is_all


def _jobs_with_source(storage: Storage, jobs: list[JobRow]) -> frozenset[str]:
    unique: Mapping[str, JobRow] = {job.id: job for job in jobs}
    return frozenset(job_id for job_id, job in unique.items() if find_source(storage, job) is not None)
