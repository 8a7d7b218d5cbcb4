"""One replica among others: gives its changes away, takes those of peers. See ``feed`` for the rules.

Taking never refuses: what a peer says is merged, and what this version cannot read, or what came without its job, is
set aside with a line in the log and looked at again when the program is started or the job arrives. Rows and the
peer's cursor change in one transaction, so that after a crash the peer is asked again for exactly what is missing.

Not stored are tasks of removed jobs, and, once a film is finished, tasks that it does not need.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence

import msgspec

from app.core.errors import ExpectedError
from app.queue.fact_writer import FactWriter, says_about_film
from app.queue.feed import (
    Applied,
    Changes,
    FeedCursor,
    FeedRow,
    Generation,
    RowKind,
    read_job,
    read_task,
    start_of,
)
from app.queue.leases import free_dropped
from app.queue.machine import attempts
from app.queue.merge import merge_job, merge_task
from app.queue.row_table import AsideRow, FedRow, JobFacts, RowTable
from app.queue.rows import JobRow, Lease, Register, TaskRow, encode_value
from app.queue.targets import TaskKind

_log = logging.getLogger(__name__)

REMEMBERED_GENERATIONS = 1000
"""Whoever was away for more starts of this device than that is told everything again, which harms nothing."""


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """What became of rows, and what the store must do about it."""

    applied: Applied
    failed: tuple[tuple[JobRow, TaskRow], ...]
    """Tasks whose attempts grew: they rest here too."""


class Replica:
    """The rows of one device as others see them."""

    def __init__(
        self,
        rows: RowTable,
        facts: FactWriter,
        *,
        device: str,
        boot: int,
        issued: Collection[str],
        held: Collection[tuple[str, str]],
        draw_id: Callable[[], str],
    ) -> None:
        """Open a generation, before anything else is written.

        ``issued`` are the tokens of this life, ``held`` the tasks and tokens of its leases; both live on.
        """
        self._rows = rows
        self._facts = facts
        self._device = device
        self._boot = boot
        self._issued = issued
        self._held = held
        with rows.transaction():
            self._generation = draw_id()
            rows.open_generation(Generation(id=self._generation, starts_after=rows.feed_number()))
            rows.keep_generations(REMEMBERED_GENERATIONS)
        self._generations = rows.generations()
        self._take_aside(rows.aside())

    # Giving

    def cursor(self) -> FeedCursor:
        """Return the cursor of somebody who has everything."""
        return FeedCursor(generation=self._generation, number=self._rows.feed_number())

    def changes_since(self, cursor: FeedCursor | None, *, limit: int) -> Changes:
        """Return the first ``limit`` changes after ``cursor``, each task after its job."""
        fed = self._rows.fed(after=start_of(cursor, self._generations), limit=limit)
        more = len(fed) == limit
        end = FeedCursor(generation=self._generation, number=fed[-1].number) if more else self.cursor()
        return Changes(rows=tuple(self._with_jobs(fed)), cursor=end, more=more)

    def _with_jobs(self, fed: Sequence[FedRow]) -> Iterable[FeedRow]:
        sent: set[str] = set()
        for row in fed:
            job = self._rows.job(row.job_id) if row.kind is RowKind.TASK and row.job_id not in sent else None
            if job is not None:
                yield FeedRow(kind=RowKind.JOB, document=encode_value(job).decode())
            sent.add(row.job_id)
            yield FeedRow(kind=row.kind, document=row.document)

    def rows_about(self, task_ids: Iterable[str], job_ids: Iterable[str] = ()) -> tuple[FeedRow, ...]:
        """Return all that a claimant of these tasks must know: jobs first, then tasks, then films that make them moot.

        ``job_ids`` are the jobs of tasks that may be forgotten here.
        """
        found = {task_id: task for task_id in task_ids if (task := self._rows.task(task_id)) is not None}
        names = dict.fromkeys((*job_ids, *(task.job_id for task in found.values())))
        jobs = [job for name in names if (job := self._rows.job(name)) is not None]
        for job in jobs:
            films = (task for task in self._rows.tasks(job.id, kind=TaskKind.PUBLISH) if says_about_film(task))
            found |= {task.id: task for task in films}
        return (
            *(FeedRow(kind=RowKind.JOB, document=encode_value(job).decode()) for job in jobs),
            *(FeedRow(kind=RowKind.TASK, document=encode_value(task).decode()) for task in found.values()),
        )

    # Taking

    def take(
        self, rows: Iterable[FeedRow], *, peer: str, peer_cursor: FeedCursor | None, since: FeedCursor | None
    ) -> Taken:
        """Merge rows of a peer; move its cursor if the rows are what follows from where it stands."""
        batch = _Batch(peer)
        batch.read(rows)
        with self._rows.transaction():
            self._take(batch)
            if peer_cursor is not None and self._rows.peer_cursor(peer) == since:
                self._rows.put_peer_cursor(peer, peer_cursor)
        return batch.taken()

    def _take(self, batch: _Batch) -> None:
        for job in batch.jobs:
            self._take_job(batch, job)
        waiting = [one for job_id in batch.new_jobs for one in self._rows.aside(job_id=job_id)]
        batch.read(one.row for one in waiting)
        for task in batch.tasks:
            self._take_task(batch, task)
        for job_id, before in batch.facts_before.items():
            self._settle(batch, job_id, before)
        for one in waiting:
            self._rows.drop_aside(one)
        for aside in batch.aside:
            kept = self._rows.set_aside(aside)
            _log.warning("a row of %s is %s: %s", aside.peer, "set aside" if kept else "dropped", aside.reason)

    def _take_aside(self, kept: Sequence[AsideRow]) -> None:
        """Try again what an earlier version, or an earlier moment, could not take."""
        batch = _Batch("an earlier life")
        now_readable = [one for one in kept if _is_readable(one.row)]
        batch.read(one.row for one in now_readable)
        batch.tasks = [task for task in batch.tasks if self._has_job(batch, task)]
        if not batch.jobs and not batch.tasks:
            return
        taken = {task.id for task in batch.tasks} | {job.id for job in batch.jobs}
        with self._rows.transaction():
            self._take(batch)
            for one in now_readable:
                if _row_in(one.row).id in taken:
                    self._rows.drop_aside(one)

    def _has_job(self, batch: _Batch, task: TaskRow) -> bool:
        return self._rows.job(task.job_id) is not None or any(job.id == task.job_id for job in batch.jobs)

    def _take_job(self, batch: _Batch, job: JobRow) -> None:
        known = self._rows.job(job.id)
        merged = job if known is None else merge_job(known, job)
        batch.touch(job.id, self._rows.job_facts(job.id))
        if known is None:
            batch.new_jobs.append(job.id)
        if _says_news_of(self._device, job, known):
            batch.own_news.append(job.id)
        if merged == known:
            return
        if merged.removed:
            self._rows.delete_tasks(job.id)
            self._rows.put_progress(job.id, 0, 0)
        self._facts.put_job(merged)
        batch.changed.add(job.id)

    def _take_task(self, batch: _Batch, task: TaskRow) -> None:
        job, facts = self._job_of(batch, task)
        if job is None:
            batch.put_aside(task, "its job is not known here")
            return
        if job.removed or (facts is not None and facts.done and not says_about_film(task)):
            return
        batch.touch(job.id, facts)
        known = self._rows.task(task.id)
        merged = task if known is None else merge_task(known, task)
        merged = free_dropped(merged, lambda token: token in self._issued and (task.id, token) not in self._held)
        if self._is_own_news(job, task, known):
            batch.own_news.append(task.id)
        if merged != known:
            self._store_task(batch, job, known, merged)
        if says_about_film(merged):
            self._facts.refresh(job)
            batch.unsettled.discard(job.id)
            batch.job_at_hand = None
            if merged.void > (known.void if known else 0):
                batch.lost_films.add(job.id)

    def _store_task(self, batch: _Batch, job: JobRow, known: TaskRow | None, merged: TaskRow) -> None:
        if known is None:
            self._facts.add_task(job, merged)
        else:
            self._facts.swap_task(job, known, merged)
        batch.unsettled.add(job.id)
        batch.changed.add(job.id)
        if attempts(job, merged) > (attempts(job, known) if known else 0):
            batch.failed.append((job, merged))

    def _job_of(self, batch: _Batch, task: TaskRow) -> tuple[JobRow | None, JobFacts | None]:
        """Return a task's job and its facts; rows of one job mostly come together, so that the last one is kept."""
        at_hand = batch.job_at_hand
        if at_hand is not None and at_hand[0].id == task.job_id:
            return at_hand
        job, facts = self._rows.job(task.job_id), self._rows.job_facts(task.job_id)
        batch.job_at_hand = None if job is None else (job, facts)
        return job, facts

    def _settle(self, batch: _Batch, job_id: str, before: JobFacts | None) -> None:
        """Make the job's rows what its facts ask for: compact after the film, complete before."""
        job = self._rows.job(job_id)
        if job is None or job.removed:
            return
        if job_id in batch.unsettled:
            self._facts.refresh(job)
        facts = self._rows.job_facts(job_id)
        if facts is None:
            return
        if job_id in batch.lost_films:
            self._facts.tell_again(job_id)
        if facts.done:
            self._facts.compact(job_id)
        elif self._facts.complete(job, had_plan=before.plan if before and not before.done else ""):
            batch.changed.add(job_id)

    def _is_own_news(self, job: JobRow, task: TaskRow, known: TaskRow | None) -> bool:
        """Whether the task shows a lease of this device that it cannot have forgotten.

        What was finished once is forgotten here; a film, or the word that one was lost, tells of that.
        """
        lease = task.lease
        if lease is None or lease.device != self._device or not _is_beyond(lease, known.lease if known else None):
            return False
        if lease.boot > self._boot or (lease.boot == self._boot and lease.token not in self._issued):
            return True
        return lease.boot < self._boot and not any(
            map(says_about_film, self._rows.tasks(job.id, kind=TaskKind.PUBLISH))
        )


class _Batch:
    """Rows of a peer on their way in."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.jobs: list[JobRow] = []
        self.tasks: list[TaskRow] = []
        self.aside: list[AsideRow] = []
        self.new_jobs: list[str] = []
        self.facts_before: dict[str, JobFacts | None] = {}
        self.changed: set[str] = set()
        self.failed: list[tuple[JobRow, TaskRow]] = []
        self.own_news: list[str] = []
        self.lost_films: set[str] = set()
        self.unsettled: set[str] = set()
        """Jobs whose facts are older than their tasks."""
        self.job_at_hand: tuple[JobRow, JobFacts | None] | None = None

    def read(self, rows: Iterable[FeedRow]) -> None:
        for row in rows:
            try:
                found = _row_in(row)
            except ExpectedError as error:
                self.aside.append(AsideRow(row=row, peer=self.peer, reason=error.message))
                continue
            if isinstance(found, JobRow):
                self.jobs.append(found)
            else:
                self.tasks.append(found)

    def put_aside(self, task: TaskRow, reason: str) -> None:
        row = FeedRow(kind=RowKind.TASK, document=encode_value(task).decode())
        self.aside.append(AsideRow(row=row, job_id=task.job_id, peer=self.peer, reason=reason))

    def touch(self, job_id: str, facts: JobFacts | None) -> None:
        self.facts_before.setdefault(job_id, facts)

    def taken(self) -> Taken:
        applied = Applied(
            changed=frozenset(self.changed),
            set_aside=tuple(aside.reason for aside in self.aside),
            own_news=tuple(self.own_news),
        )
        return Taken(applied=applied, failed=tuple(self.failed))


def _row_in(row: FeedRow) -> JobRow | TaskRow:
    return read_job(row.document) if row.kind is RowKind.JOB else read_task(row.document)


def _is_readable(row: FeedRow) -> bool:
    try:
        _row_in(row)
    except ExpectedError:
        return False
    return True


def _is_beyond(lease: Lease, known: Lease | None) -> bool:
    if known is None:
        return True
    order = (lease.epoch, lease.device, lease.boot, lease.token, lease.beat)
    return order > (known.epoch, known.device, known.boot, known.token, known.beat)


def _says_news_of(device: str, shown: JobRow, known: JobRow | None) -> bool:
    """Whether ``shown`` has a statement of ``device`` that ``known`` lacks; jobs are never forgotten."""
    if known is None:
        return shown.added.device == device
    pairs: tuple[tuple[Register[object], Register[object]], ...] = (
        (shown.source, known.source),  # type: ignore[assignment]  # registers of any value: only stamps are compared
        (shown.paused, known.paused),
        (shown.priority, known.priority),
        (shown.trashed, known.trashed),
    )
    return any(new.device == device and new.stamp > old.stamp for new, old in pairs)
