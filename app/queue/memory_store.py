"""Jobs and tasks in memory: for tests and simulations, and to hold the SQLite store against."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from app.core.clock import Clock
from app.core.errors import BugError
from app.core.ids import new_id
from app.queue.feed import FeedCursor, FeedRow, Generation, RowKind
from app.queue.machine import TaskState, is_cancelled
from app.queue.row_store import RowJobStore
from app.queue.row_table import (
    MAX_ASIDE,
    AsideRow,
    FedRow,
    Glance,
    JobFacts,
    JobPart,
    PlainTask,
    TaskFacts,
    Twin,
    lease_key,
)
from app.queue.rows import JobRow, Lease, TaskRow, encode_value
from app.queue.targets import TaskKind

_LEASED = frozenset({TaskState.LEASED, TaskState.FALLBACK_STARTED})
_OPEN = _LEASED | {TaskState.AVAILABLE}


class MemoryRowTable:
    """A ``RowTable`` of dictionaries."""

    def __init__(self) -> None:
        self._jobs: dict[str, tuple[JobRow, JobFacts]] = {}
        self._tasks: dict[str, tuple[TaskRow, TaskFacts]] = {}
        self._progress: dict[str, tuple[int, int]] = {}
        self._feed: dict[str, tuple[int, str]] = {}
        """Row → its number, and its job."""
        self._last_number = 0
        self._generations: tuple[Generation, ...] = ()
        self._cursors: dict[str, FeedCursor] = {}
        self._aside: dict[FeedRow, AsideRow] = {}
        self._in_transaction = False

    @contextmanager
    def transaction(self) -> Iterator[None]:
        if self._in_transaction:
            raise BugError("transactions do not nest")
        before = self._copied()
        self._in_transaction = True
        try:
            yield
        except BaseException:
            self.__dict__.update(before)
            raise
        finally:
            self._in_transaction = False

    def _copied(self) -> dict[str, Any]:
        return {name: dict(value) if isinstance(value, dict) else value for name, value in self.__dict__.items()}

    def copy(self) -> MemoryRowTable:
        """Return the same rows once more, as a backup has them."""
        twin = MemoryRowTable()
        twin.__dict__.update(self._copied())
        return twin

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

    def job_page(self, part: JobPart, *, after: str | None, limit: int) -> tuple[tuple[JobRow, JobFacts], ...]:
        backwards = part.is_newest_first
        found = [pair for pair in self._jobs.values() if _is_in(part, *pair)]
        found.sort(key=lambda pair: _adding(pair[0]), reverse=backwards)
        if after is not None:
            passed = self.job(after)
            if passed is None:
                return ()
            end = _adding(passed)
            found = [pair for pair in found if (_adding(pair[0]) < end if backwards else _adding(pair[0]) > end)]
        return tuple(found[:limit])

    def ids_like(self, prefix: str) -> tuple[str, ...]:
        return tuple(sorted(job_id for job_id in self.job_ids() if job_id.startswith(prefix)))

    def media_ids_like(self, prefix: str) -> tuple[str, ...]:
        return tuple(sorted(job.media_id for job in self.jobs() if job.media_id.startswith(prefix)))

    def job_by_media_id(self, media_id: str) -> JobRow | None:
        return next((job for job, _ in self._jobs.values() if job.media_id == media_id), None)

    def job_of_content(self, fingerprint: str, profile: str) -> JobRow | None:
        matches = (job for job in self.jobs() if (job.fingerprint, job.profile) == (fingerprint, profile))
        return min(matches, key=lambda job: job.id, default=None)

    def last_number(self, device: str) -> int:
        return max((job.added.number for job, _ in self._jobs.values() if job.added.device == device), default=0)

    def twins(self, job: JobRow) -> tuple[Twin, ...]:
        content = (job.fingerprint, job.profile)
        found = [
            Twin(id=other.id, done=facts.done)
            for other, facts in self._jobs.values()
            if facts.wanted and other.id != job.id and (other.fingerprint, other.profile) == content
        ]
        return tuple(sorted(found, key=lambda twin: twin.id))

    def put_job(self, job: JobRow, facts: JobFacts) -> None:
        self._check_writable()
        if self.job(job.id) != job:
            self.feed_again(job.id, job_id=job.id)
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

    def glance(self, job: JobRow) -> Glance:
        telling, plain = [], []
        for task in self.tasks(job.id):
            state = self._tasks[task.id][1].state
            if _is_plain(task, state):
                if task.fingerprint == job.fingerprint:
                    completed = state is TaskState.COMPLETED
                    plain.append(PlainTask(id=task.id, target=task.target, completed=completed))
            else:
                telling.append(task)
        return Glance(telling=tuple(telling), plain=tuple(plain))

    def add_task(self, task: TaskRow, facts: TaskFacts) -> bool:
        self._check_writable()
        if task.id in self._tasks:
            return False
        self.feed_again(task.id, job_id=task.job_id)
        self._tasks[task.id] = (task, facts)
        return True

    def swap_task(self, task: TaskRow, facts: TaskFacts, *, expected: Lease | None) -> bool:
        self._check_writable()
        found = self._tasks.get(task.id)
        if found is None or lease_key(found[0].lease) != lease_key(expected):
            return False
        if found[0] != task:
            self.feed_again(task.id, job_id=task.job_id)
        self._tasks[task.id] = (task, facts)
        return True

    def delete_tasks(self, job_id: str, *, keep: Collection[str] = ()) -> int:
        self._check_writable()
        doomed = [task.id for task, _ in self._tasks.values() if task.job_id == job_id and task.id not in keep]
        for task_id in doomed:
            del self._tasks[task_id], self._feed[task_id]
        return len(doomed)

    def has_failed_vital(self, job_id: str, *, plan: str, fingerprint: str) -> bool:
        return any(
            task.job_id == job_id and task.fingerprint == fingerprint
            for task, facts in self._tasks.values()
            if facts.vital and facts.state is TaskState.FAILED and facts.plan in {"", plan}
        )

    def version_of(self, job_id: str) -> tuple[int, int]:
        numbers = [number for number, of in self._feed.values() if of == job_id]
        return max(numbers, default=0), len(numbers)

    def has_open_work(self, job_id: str) -> bool:
        job, facts = self._jobs[job_id]
        return any(
            task.job_id == job_id
            and task_facts.known
            and task_facts.state in _OPEN
            and task_facts.plan in {"", facts.plan}
            and task.fingerprint == job.fingerprint
            and task.kind != TaskKind.PUBLISH
            for task, task_facts in self._tasks.values()
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
        if (noted_round, milli) == (0, 0):
            del self._progress[job_id]

    def feed_number(self) -> int:
        return self._last_number

    def fed(self, *, after: int, limit: int) -> tuple[FedRow, ...]:
        later = sorted((number, row_id, job_id) for row_id, (number, job_id) in self._feed.items() if number > after)
        return tuple(self._fed_row(*found) for found in later[:limit])

    def _fed_row(self, number: int, row_id: str, job_id: str) -> FedRow:
        is_job = row_id == job_id
        row = self._jobs[row_id][0] if is_job else self._tasks[row_id][0]
        kind = RowKind.JOB if is_job else RowKind.TASK
        return FedRow(number=number, kind=kind, id=row_id, job_id=job_id, document=encode_value(row).decode())

    def feed_again(self, row_id: str, *, job_id: str) -> None:
        self._check_writable()
        self._last_number += 1
        self._feed[row_id] = (self._last_number, job_id)

    def generations(self) -> tuple[Generation, ...]:
        return self._generations

    def open_generation(self, generation: Generation) -> None:
        self._check_writable()
        self._generations = (*self._generations, generation)

    def known_peers(self) -> tuple[str, ...]:
        return tuple(sorted(self._cursors))

    def keep_generations(self, number: int) -> None:
        self._check_writable()
        self._generations = self._generations[-number:]

    def peer_cursor(self, peer: str) -> FeedCursor | None:
        return self._cursors.get(peer)

    def put_peer_cursor(self, peer: str, cursor: FeedCursor) -> None:
        self._check_writable()
        self._cursors[peer] = cursor

    def set_aside(self, aside: AsideRow) -> bool:
        self._check_writable()
        if aside.row not in self._aside and len(self._aside) >= MAX_ASIDE:
            return False
        self._aside[aside.row] = aside
        return True

    def aside(self, *, job_id: str | None = None) -> tuple[AsideRow, ...]:
        return tuple(one for one in self._aside.values() if job_id in {None, one.job_id})

    def drop_aside(self, aside: AsideRow) -> None:
        self._check_writable()
        self._aside.pop(aside.row, None)


def _is_plain(task: TaskRow, state: TaskState) -> bool:
    if task.kind in {TaskKind.INDEX, TaskKind.PUBLISH}:
        return False
    return state is TaskState.COMPLETED or (state is TaskState.AVAILABLE and lease_key(task.lease)[0] == 0)


def _is_in(part: JobPart, job: JobRow, facts: JobFacts) -> bool:
    is_unfinished = facts.wanted and not facts.done
    match part:
        case JobPart.UNFINISHED:
            return is_unfinished and not job.removed
        case JobPart.FINISHED:
            return not is_unfinished and not job.removed
        case JobPart.FILMS:
            return bool(facts.film_task) and not job.removed
        case JobPart.TRASHED:
            is_trashed = not facts.wanted or (facts.done and is_cancelled(job))
            return bool(facts.film_task) and is_trashed and not job.removed
        case JobPart.ALL:
            return not job.removed


def _adding(job: JobRow) -> tuple[int, int, str]:
    return job.added.at_ms, job.added.number, job.id


class MemoryJobStore(RowJobStore):
    """A ``JobStore`` that is gone when the process ends."""

    def __init__(
        self,
        *,
        device: str,
        boot: int,
        clock: Clock,
        rows: MemoryRowTable | None = None,
        draw_id: Callable[[], str] = new_id,
    ) -> None:
        super().__init__(rows=rows or MemoryRowTable(), device=device, boot=boot, clock=clock, draw_id=draw_id)
