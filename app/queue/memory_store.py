"""Jobs and tasks in memory: for tests and simulations, and to hold the SQLite store against."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from app.core.clock import Clock
from app.core.errors import BugError
from app.queue.machine import TaskState
from app.queue.row_store import RowJobStore
from app.queue.row_table import JobFacts, TaskFacts, lease_key
from app.queue.rows import JobRow, Lease, TaskRow

_LEASED = frozenset({TaskState.LEASED, TaskState.FALLBACK_STARTED})


class MemoryRowTable:
    """A ``RowTable`` of dictionaries."""

    def __init__(self) -> None:
        self._jobs: dict[str, tuple[JobRow, JobFacts]] = {}
        self._tasks: dict[str, tuple[TaskRow, TaskFacts]] = {}
        self._progress: dict[str, tuple[int, int]] = {}
        self._in_transaction = False

    @contextmanager
    def transaction(self) -> Iterator[None]:
        if self._in_transaction:
            raise BugError("transactions do not nest")
        before = dict(self._jobs), dict(self._tasks), dict(self._progress)
        self._in_transaction = True
        try:
            yield
        except BaseException:
            self._jobs, self._tasks, self._progress = before
            raise
        finally:
            self._in_transaction = False

    def _check_writable(self) -> None:
        if not self._in_transaction:
            raise BugError("writes go through transaction()")

    def job(self, job_id: str) -> JobRow | None:
        found = self._jobs.get(job_id)
        return found[0] if found else None

    def job_facts(self, job_id: str) -> JobFacts | None:
        found = self._jobs.get(job_id)
        return found[1] if found else None

    def jobs(self) -> tuple[JobRow, ...]:
        return tuple(sorted((job for job, _ in self._jobs.values() if not job.removed), key=_adding))

    def job_ids(self) -> tuple[str, ...]:
        return tuple(job.id for job in self.jobs())

    def job_by_media_id(self, media_id: str) -> JobRow | None:
        return next((job for job, _ in self._jobs.values() if job.media_id == media_id), None)

    def job_of_content(self, fingerprint: str, profile: str) -> JobRow | None:
        matches = (job for job in self.jobs() if (job.fingerprint, job.profile) == (fingerprint, profile))
        return min(matches, key=lambda job: job.id, default=None)

    def last_number(self, device: str) -> int:
        return max((job.added.number for job, _ in self._jobs.values() if job.added.device == device), default=0)

    def put_job(self, job: JobRow, facts: JobFacts) -> None:
        self._check_writable()
        self._jobs[job.id] = (job, facts)

    def task(self, task_id: str) -> TaskRow | None:
        found = self._tasks.get(task_id)
        return found[0] if found else None

    def _placed(self, pairs: Iterable[tuple[TaskRow, TaskFacts]]) -> tuple[TaskRow, ...]:
        return tuple(task for task, _ in sorted(pairs, key=lambda pair: (pair[1].rank, pair[1].number, pair[0].target)))

    def tasks(self, job_id: str, *, kind: str | None = None) -> tuple[TaskRow, ...]:
        return self._placed(
            pair for pair in self._tasks.values() if pair[0].job_id == job_id and kind in {None, pair[0].kind}
        )

    def add_task(self, task: TaskRow, facts: TaskFacts) -> bool:
        self._check_writable()
        if task.id in self._tasks:
            return False
        self._tasks[task.id] = (task, facts)
        return True

    def swap_task(self, task: TaskRow, facts: TaskFacts, *, expected: Lease | None) -> bool:
        self._check_writable()
        found = self._tasks.get(task.id)
        if found is None or lease_key(found[0].lease) != lease_key(expected):
            return False
        self._tasks[task.id] = (task, facts)
        return True

    def delete_tasks(self, job_id: str, *, keep: Collection[str] = ()) -> int:
        self._check_writable()
        doomed = [task.id for task, _ in self._tasks.values() if task.job_id == job_id and task.id not in keep]
        for task_id in doomed:
            del self._tasks[task_id]
        return len(doomed)

    def has_failed_vital(self, job_id: str, *, plan: str, fingerprint: str) -> bool:
        return any(
            task.job_id == job_id and task.fingerprint == fingerprint
            for task, facts in self._tasks.values()
            if facts.vital and facts.state is TaskState.FAILED and facts.plan in {"", plan}
        )

    def open_tasks(self, limit: int | None) -> tuple[TaskRow, ...]:
        found = []
        for task, facts in self._tasks.values():
            job, job_facts = self._jobs[task.job_id]
            current = facts.plan in {"", job_facts.plan} and task.fingerprint == job.fingerprint
            if facts.state is TaskState.AVAILABLE and facts.known and job_facts.runnable and current:
                order = (facts.rank, -job.priority.value, *_adding(job), facts.number, task.target)
                found.append((order, task))
        return tuple(task for _, task in sorted(found, key=lambda pair: pair[0])[:limit])

    def leased_tasks(self) -> tuple[TaskRow, ...]:
        found = (task for task, facts in self._tasks.values() if facts.state in _LEASED)
        return tuple(sorted(found, key=lambda task: task.id))

    def films(self) -> tuple[tuple[JobRow, JobFacts, TaskRow], ...]:
        pairs = (self._jobs[job_id] for job_id in self.job_ids())
        return tuple((job, facts, self._tasks[facts.film_task][0]) for job, facts in pairs if facts.film_task)

    def progress(self, job_id: str) -> tuple[int, int]:
        return self._progress.get(job_id, (0, 0))

    def put_progress(self, job_id: str, noted_round: int, milli: int) -> None:
        self._check_writable()
        self._progress[job_id] = (noted_round, milli)


def _adding(job: JobRow) -> tuple[int, int, str]:
    return job.added.at_ms, job.added.number, job.id


class MemoryJobStore(RowJobStore):
    """A ``JobStore`` that is gone when the process ends."""

    def __init__(self, *, device: str, boot: int, clock: Clock, rows: MemoryRowTable | None = None) -> None:
        super().__init__(rows=rows or MemoryRowTable(), device=device, boot=boot, clock=clock)
