"""The store of jobs and tasks over any ``RowTable``: each method is one transaction of load, decide, swap.

Kept in memory only: the tokens of this process's leases (a lease of this device whose token is not among them is from
an earlier life), and when a task may be tried again (monotonic; no decision compares clocks of two devices).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from app.core.clock import Clock
from app.core.encoding import decode_canonical
from app.core.errors import BugError, ErrorCode, ExpectedError, StaleError
from app.core.ids import MIN_PREFIX_LENGTH, new_id, resolve_id_prefix
from app.media.film import PublishStage
from app.queue import intent, leases
from app.queue.fact_writer import FactWriter, says_about_film
from app.queue.feed import Applied, Changes, FeedCursor, FeedRow
from app.queue.machine import (
    TaskState,
    accepted_plan,
    attempts,
    backoff_s,
    held_state,
    index_task_id,
    is_cancelled,
    is_live,
    outcome_counts,
    published_task,
)
from app.queue.replica import Replica
from app.queue.row_table import Glance, JobFacts, JobPart, RowTable
from app.queue.rows import (
    Added,
    EndRank,
    JobParams,
    JobRow,
    Lease,
    LeaseFlag,
    Outcome,
    Register,
    Source,
    TaskRow,
    clean_text,
)
from app.queue.store import LibraryEntry
from app.queue.targets import INDEX_SPEC, TaskKind, TaskSpec, find_target, plan_hash_in


class RowJobStore:
    """A ``JobStore`` for device ``device`` in its life number ``boot``."""

    def __init__(
        self, *, rows: RowTable, device: str, boot: int, clock: Clock, draw_id: Callable[[], str] = new_id
    ) -> None:
        """Open the store; ``draw_id`` gives unguessable ids, and the same ones again only to a simulation."""
        self._rows = rows
        self._facts = FactWriter(rows)
        self._device = device
        self._boot = boot
        self._clock = clock
        self._draw_id = draw_id
        self._tokens: set[tuple[str, str]] = set()
        self._issued: set[str] = set()
        self._replica = Replica(
            rows, self._facts, device=device, boot=boot, issued=self._issued, held=self._tokens, draw_id=draw_id
        )
        self._resting: dict[str, float] = {}
        self._changed: set[str] = set()

    # Jobs

    def add_job(
        self, *, kind: str, params: JobParams, fingerprint: str, size_bytes: int, name: str, now_ms: int
    ) -> JobRow:
        source: Source | None = Source(fingerprint=fingerprint, size_bytes=size_bytes, name=clean_text(name))
        with self._rows.transaction():
            number = self._rows.last_number(self._device) + 1
            job = JobRow(
                id=self._draw_id(),
                kind=kind,
                params=params,
                source=Register(value=source, stamp=max(0, now_ms), device=self._device),
                added=Added(at_ms=max(0, now_ms), device=self._device, number=number),
            )
            self._facts.put_job(job)
            self._facts.add_spec(job, INDEX_SPEC)
        self._changed.add(job.id)
        return job

    def find_live_job(self, *, fingerprint: str, profile: str) -> JobRow | None:
        return self._rows.job_of_content(fingerprint, profile)

    def job(self, job_id: str) -> JobRow:
        return _present(self._rows.job(job_id), job_id)

    def jobs(self) -> tuple[JobRow, ...]:
        return self._rows.jobs()

    def job_ids(self) -> tuple[str, ...]:
        return self._rows.job_ids()

    def job_page(self, part: JobPart, *, after: str | None = None, limit: int) -> tuple[JobRow, ...]:
        return tuple(job for job, _ in self._rows.job_page(part, after=after, limit=limit))

    def resolve_job(self, prefix: str) -> str:
        return resolve_id_prefix(prefix, _like(prefix, self._rows.ids_like))

    def resolve_media(self, prefix: str) -> str:
        return resolve_id_prefix(prefix, _like(prefix, self._rows.media_ids_like))

    def job_id_of_media(self, media_id: str) -> str:
        job = self._rows.job_by_media_id(media_id)
        return job.id if job is not None else _present(None, media_id).id

    def job_by_media_id(self, media_id: str) -> JobRow:
        return _present(self._rows.job_by_media_id(media_id), media_id)

    # Tasks

    def tasks(self, job_id: str) -> tuple[TaskRow, ...]:
        return self._rows.tasks(job_id)

    def glance(self, job: JobRow) -> Glance:
        return self._rows.glance(job)

    def task(self, task_id: str) -> TaskRow:
        task = self._rows.task(task_id)
        if task is None:
            raise ExpectedError(ErrorCode.NO_SUCH_ID, f"There is no task with the id “{task_id}”.")
        return task

    def all_open_tasks(self, *, limit: int | None = None) -> tuple[TaskRow, ...]:
        return self._rows.open_tasks(limit)

    def live_leases(self) -> tuple[TaskRow, ...]:
        return self._rows.leased_tasks()

    def version_of(self, job_id: str) -> tuple[int, int]:
        return self._rows.version_of(job_id)

    def has_open_work(self, job_id: str) -> bool:
        return self._rows.has_open_work(job_id)

    def accepted_index(self, job_id: str) -> Outcome | None:
        job = self.job(job_id)
        index = self._rows.task(index_task_id(job))
        return index.outcome if index and accepted_plan(job, index) else None

    def accepted_plan_hash(self, job_id: str) -> str | None:
        self.job(job_id)
        facts = self._rows.job_facts(job_id)
        return facts.plan or None if facts else None

    def put_tasks(self, job_id: str, specs: Iterable[TaskSpec]) -> int:
        with self._rows.transaction():
            added = self._put_tasks(self.job(job_id), specs)
        if added:
            self._changed.add(job_id)
        return added

    def _put_tasks(self, job: JobRow, specs: Iterable[TaskSpec]) -> int:
        facts = self._rows.job_facts(job.id)
        if facts is None or facts.done:
            return 0
        return sum(self._facts.add_spec(job, spec) for spec in specs)

    # Leases

    def claim(self, task_id: str) -> Lease:
        with self._rows.transaction():
            job, task = self._writable(task_id)
            self._check_claimable(job, task)
            token = self._draw_id()
            self._issued.add(token)
            claimed = leases.claim_task(job, task, device=self._device, boot=self._boot, token=token)
            self._facts.swap_task(job, task, claimed)
        self._tokens.add((task_id, token))
        self._changed.add(job.id)
        return _lease_of(claimed)

    def _check_claimable(self, job: JobRow, task: TaskRow) -> None:
        facts, target = self._rows.job_facts(job.id), find_target(task.target)
        if facts is None or not facts.runnable:
            raise StaleError("the job is not to be worked on")
        if target is None or target.plan not in {"", facts.plan} or task.fingerprint != job.fingerprint:
            raise StaleError("the task is of another plan")
        if self.resting_until_s(task.id) is not None:
            raise StaleError("the task rests after a failed attempt")

    def beat(self, task_id: str, lease: Lease, *, progress_milli: int, flag: LeaseFlag = LeaseFlag.RUNNING) -> Lease:
        with self._rows.transaction():
            job, task = self._wanted(task_id, lease)
            beaten = leases.beat_lease(job, task, lease, progress_milli=progress_milli, flag=flag)
            self._facts.swap_task(job, task, beaten)
        self._changed.add(job.id)
        return _lease_of(beaten)

    def end(self, task_id: str, lease: Lease, *, rank: EndRank, code: ErrorCode, message: str) -> TaskRow:
        with self._rows.transaction():
            job, task = self._held(task_id, lease)
            ended = leases.end_lease(task, lease, rank=rank, code=code, message=message)
            self._facts.swap_task(job, task, ended)
            self._facts.refresh(job)
        self._let_rest(job, ended, rank)
        self._forget(job, task_id, lease)
        return ended

    def end_fenced(self, task_id: str, lease: Lease) -> TaskRow:
        with self._rows.transaction():
            job, task = self._held(task_id, lease)
            ended = leases.free_fenced(task, lease)
            self._facts.swap_task(job, task, ended)
            self._facts.refresh(job)
        self._forget(job, task_id, lease)
        return ended

    def complete(self, task_id: str, lease: Lease, *, value: str, next_tasks: Iterable[TaskSpec] = ()) -> TaskRow:
        with self._rows.transaction():
            job, task = self._wanted(task_id, lease)
            _check_value(task, value)
            completed = leases.complete_task(job, task, lease, value=value)
            self._facts.swap_task(job, task, completed)
            self._put_tasks(job, next_tasks)
            self._facts.refresh(job)
        self._forget(job, task_id, lease)
        return completed

    def holds(self, task_id: str, lease: Lease) -> bool:
        task, token = self._rows.task(task_id), (task_id, lease.token)
        job = self._rows.job(task.job_id) if task else None
        if task is None or job is None or task.lease is None or token not in self._tokens or self._is_done(job):
            return False
        return task.lease.token == lease.token and is_live(job, task) and not outcome_counts(job, task)

    def give_up(self, task_id: str, lease: Lease) -> bool:
        try:
            with self._rows.transaction():
                job, task = self._held(task_id, lease)
                self._facts.swap_task(job, task, leases.give_up_lease(task, lease))
                self._facts.refresh(job)
        finally:
            self._tokens.discard((task_id, lease.token))
        self._changed.add(job.id)
        return leases.was_fenced(task, lease)

    def reclaim(self, task_id: str, lease: Lease, *, rank: EndRank, code: ErrorCode, message: str) -> TaskRow:
        with self._rows.transaction():
            job, task = self._writable(task_id)
            if (task_id, lease.token) in self._tokens:
                raise BugError("a process reclaims no lease of its own")
            reclaimed = leases.reclaim_lease(
                job, task, lease, device=self._device, rank=rank, code=code, message=message
            )
            self._facts.swap_task(job, task, reclaimed)
            self._facts.refresh(job)
        self._rest(job, reclaimed)
        self._changed.add(job.id)
        return reclaimed

    def resting_until_s(self, task_id: str) -> float | None:
        until = self._resting.get(task_id)
        return until if until is not None and until > self._clock.monotonic_s() else None

    def end_forgotten_leases(self) -> int:
        forgotten = [task for task in self._rows.leased_tasks() if self._is_forgotten(task)]
        for task in forgotten:
            self._end_forgotten(task)
        return len(forgotten)

    def _is_forgotten(self, task: TaskRow) -> bool:
        lease = task.lease
        return lease is not None and lease.device == self._device and (task.id, lease.token) not in self._tokens

    def _end_forgotten(self, task: TaskRow) -> None:
        with self._rows.transaction():
            job = self.job(task.job_id)
            self._facts.swap_task(job, task, leases.end_forgotten(task))
            self._facts.refresh(job)
        self._changed.add(task.job_id)

    def raise_void(self, task_id: str) -> TaskRow:
        task = self.task(task_id)
        with self._rows.transaction():
            job = self.job(task.job_id)
            voided = self._raise_void(job, task_id)
            self._facts.refresh(job)
            self._facts.add_missing_index(job)
        self._changed.add(job.id)
        return voided

    def _raise_void(self, job: JobRow, task_id: str) -> TaskRow:
        task = self.task(task_id)
        if task.job_id != job.id:
            raise BugError(f"task {task_id} is not of job {job.id}")
        if task.kind == TaskKind.INDEX:
            raise BugError("the result of index is in its row and cannot be lost")
        voided = leases.void_outcome(task)
        self._facts.swap_task(job, task, voided)
        if voided != task and says_about_film(voided):
            self._facts.tell_again(job.id)
        return voided

    # Intent

    def pause_job(self, job_id: str) -> JobRow:
        with self._rows.transaction():
            job = self._unfinished(job_id, "paused")
            return self._put(intent.set_paused(job, True, now_ms=self._clock.wall_ms(), device=self._device))

    def resume_job(self, job_id: str) -> JobRow:
        with self._rows.transaction():
            job = self.job(job_id)
            return self._put(intent.set_paused(job, False, now_ms=self._clock.wall_ms(), device=self._device))

    def set_priority(self, job_id: str, priority: int) -> JobRow:
        with self._rows.transaction():
            job = self.job(job_id)
            return self._put(intent.set_priority(job, priority, now_ms=self._clock.wall_ms(), device=self._device))

    def cancel_job(self, job_id: str) -> JobRow:
        with self._rows.transaction():
            return self._put(intent.cancel(self._unfinished(job_id, "cancelled")))

    def retry_job(
        self,
        job_id: str,
        *,
        fingerprint: str | None = None,
        size_bytes: int | None = None,
        void: Iterable[str] = (),
    ) -> JobRow:
        with self._rows.transaction():
            for task_id in void:
                self._raise_void(self.job(job_id), task_id)
            self._facts.refresh(self.job(job_id))
            job = self._with_content(self._unfinished(job_id, "tried again"), fingerprint, size_bytes)
            retried = self._put(intent.retry(job, now_ms=self._clock.wall_ms(), device=self._device))
            self._facts.add_missing_index(retried)
        for task in self._rows.tasks(job_id):
            self._resting.pop(task.id, None)
        return retried

    def _with_content(self, job: JobRow, fingerprint: str | None, size_bytes: int | None) -> JobRow:
        if fingerprint is None or fingerprint == job.fingerprint:
            return job
        facts = self._rows.job_facts(job.id)
        if facts is not None and facts.plan:
            raise ExpectedError(
                ErrorCode.SOURCE_CHANGED,
                f"“{job.name}” is no longer the file that this job began with; remove the job and add the file anew.",
            )
        now_ms = self._clock.wall_ms()
        return intent.set_content(
            job, fingerprint=fingerprint, size_bytes=size_bytes, now_ms=now_ms, device=self._device
        )

    def trash_job(self, job_id: str) -> JobRow:
        with self._rows.transaction():
            job = self.job(job_id)
            return self._put(intent.set_trashed(job, True, now_ms=self._clock.wall_ms(), device=self._device))

    def restore_job(self, job_id: str) -> JobRow:
        with self._rows.transaction():
            now_ms, job = self._clock.wall_ms(), self.job(job_id)
            restored = intent.set_trashed(job, False, now_ms=now_ms, device=self._device)
            facts = self._rows.job_facts(job_id)
            if facts is not None and facts.done and is_cancelled(restored):
                restored = intent.retry(restored, now_ms=now_ms, device=self._device)
            return self._put(restored)

    def remove_job(self, job_id: str) -> JobRow:
        with self._rows.transaction():
            now_ms = self._clock.wall_ms()
            tombstone = intent.remove(self.job(job_id), now_ms=now_ms, device=self._device)
            self._rows.delete_tasks(job_id)
            self._rows.put_progress(job_id, 0, 0)
            return self._put(tombstone)

    def compact_job(self, job_id: str) -> int:
        with self._rows.transaction():
            self.job(job_id)
            facts = self._rows.job_facts(job_id)
            if facts is None or not facts.done:
                raise ExpectedError(ErrorCode.NOT_DONE, "The film is not finished yet; wait for it, or cancel the job.")
            return self._facts.compact(job_id)

    # Replication

    def feed_cursor(self) -> FeedCursor:
        return self._replica.cursor()

    def changes_since(self, cursor: FeedCursor | None, *, limit: int = 500) -> Changes:
        return self._replica.changes_since(cursor, limit=limit)

    def known_peers(self) -> tuple[str, ...]:
        return self._rows.known_peers()

    def peer_cursor(self, peer: str) -> FeedCursor | None:
        return self._rows.peer_cursor(peer)

    def rows_about(self, task_ids: Iterable[str], *, job_ids: Iterable[str] = ()) -> tuple[FeedRow, ...]:
        return self._replica.rows_about(task_ids, job_ids)

    def apply_rows(
        self,
        rows: Iterable[FeedRow],
        *,
        from_peer: str,
        peer_cursor: FeedCursor | None = None,
        since: FeedCursor | None = None,
    ) -> Applied:
        taken = self._replica.take(rows, peer=from_peer, peer_cursor=peer_cursor, since=since)
        for job, task in taken.failed:
            self._rest(job, task)
        self._changed |= taken.applied.changed
        return taken.applied

    def twin_of(self, job_id: str) -> JobRow | None:
        job = self.job(job_id)
        facts = self._rows.job_facts(job_id)
        if facts is None or facts.done or not facts.wanted:
            return None
        twins = self._rows.twins(job)
        first = next((twin for twin in twins if twin.done), next((twin for twin in twins if twin.id < job_id), None))
        return self.job(first.id) if first else None

    # Films and progress

    def published(self, job_id: str) -> tuple[PublishStage, Outcome] | None:
        film = published_task(self.job(job_id), self._rows.tasks(job_id, kind=TaskKind.PUBLISH))
        return (film[0], film[1].outcome) if film and film[1].outcome else None

    def library(self) -> tuple[LibraryEntry, ...]:
        return tuple(_library_entry(*film) for film in self._rows.films())

    def library_page(self, *, after: str | None = None, limit: int) -> tuple[LibraryEntry, ...]:
        return self._entries(JobPart.FILMS, after=after, limit=limit)

    def trash_page(self, *, after: str | None = None, limit: int) -> tuple[LibraryEntry, ...]:
        return self._entries(JobPart.TRASHED, after=after, limit=limit)

    def _entries(self, part: JobPart, *, after: str | None, limit: int) -> tuple[LibraryEntry, ...]:
        page = self._rows.job_page(part, after=after, limit=limit)
        return tuple(entry for job, facts in page if (entry := self._library_entry(job, facts)) is not None)

    def library_entry(self, job_id: str) -> LibraryEntry | None:
        job, facts = self.job(job_id), self._rows.job_facts(job_id)
        return self._library_entry(job, facts) if facts is not None else None

    def _library_entry(self, job: JobRow, facts: JobFacts) -> LibraryEntry | None:
        task = self._rows.task(facts.film_task) if facts.film_task else None
        return _library_entry(job, facts, task) if task is not None else None

    def note_progress(self, job_id: str, milli: int) -> int:
        job = self.job(job_id)
        return self.note_progress_of([(job, milli)])[job_id]

    def note_progress_of(self, jobs: Iterable[tuple[JobRow, int]]) -> dict[str, int]:
        reached = [(job, min(max(milli, 0), 1000), self.progress_of(job)) for job, milli in jobs]
        news = [(job, milli) for job, milli, highest in reached if milli > highest]
        if news:
            with self._rows.transaction():
                for job, milli in news:
                    self._put_progress(job, milli)
        return {job.id: max(milli, highest) for job, milli, highest in reached}

    def _put_progress(self, read: JobRow, milli: int) -> None:
        job = self._rows.job(read.id)
        if job is not None and not job.removed and job.round == read.round:
            self._rows.put_progress(job.id, job.round, milli)
            self._changed.add(job.id)

    def progress_of(self, job: JobRow) -> int:
        noted_round, milli = self._rows.progress(job.id)
        return milli if noted_round == job.round else 0

    def progress(self, job_id: str) -> int:
        return self.progress_of(self.job(job_id))

    def take_changed(self) -> frozenset[str]:
        changed = frozenset(self._changed)
        self._changed.clear()
        return changed

    # Inside a transaction

    def _writable(self, task_id: str) -> tuple[JobRow, TaskRow]:
        task = self._rows.task(task_id)
        job = self._rows.job(task.job_id) if task else None
        if task is None or job is None or job.removed:
            raise StaleError("the task is gone")
        return job, task

    def _held(self, task_id: str, lease: Lease) -> tuple[JobRow, TaskRow]:
        if (task_id, lease.token) not in self._tokens or lease.device != self._device:
            raise StaleError("the lease is not of this process")
        return self._writable(task_id)

    def _wanted(self, task_id: str, lease: Lease) -> tuple[JobRow, TaskRow]:
        job, task = self._held(task_id, lease)
        if self._is_done(job):
            raise StaleError("the film is finished, perhaps by another plan")
        return job, task

    def _is_done(self, job: JobRow) -> bool:
        facts = self._rows.job_facts(job.id)
        return facts is not None and facts.done

    def _put(self, job: JobRow) -> JobRow:
        self._facts.put_job(job)
        self._changed.add(job.id)
        return job

    def _unfinished(self, job_id: str, what: str) -> JobRow:
        job, facts = self.job(job_id), self._rows.job_facts(job_id)
        if facts is not None and facts.done:
            raise ExpectedError(
                ErrorCode.ALREADY_DONE, f"“{job.name}” is done and cannot be {what}; remove the film to be rid of it."
            )
        return job

    def _let_rest(self, job: JobRow, task: TaskRow, rank: EndRank) -> None:
        if rank in {EndRank.DIED, EndRank.TRANSIENT}:
            self._rest(job, task)

    def _rest(self, job: JobRow, task: TaskRow) -> None:
        if held_state(job, task) is TaskState.AVAILABLE:
            now_s = self._clock.monotonic_s()
            self._resting = {task_id: until for task_id, until in self._resting.items() if until > now_s}
            self._resting[task.id] = now_s + backoff_s(attempts(job, task))

    def _forget(self, job: JobRow, task_id: str, lease: Lease) -> None:
        self._tokens.discard((task_id, lease.token))
        self._changed.add(job.id)


def _present(job: JobRow | None, asked: str) -> JobRow:
    if job is None or job.removed:
        raise ExpectedError(
            ErrorCode.NO_SUCH_ID, f"There is nothing with the id “{asked}” here; list what there is first."
        )
    return job


def _like(prefix: str, find: Callable[[str], tuple[str, ...]]) -> tuple[str, ...]:
    """Return the ids that begin with what a person typed; too short a beginning fits none, unless it is a whole id."""
    return find(prefix.lower()) if len(prefix) >= MIN_PREFIX_LENGTH else ()


def _lease_of(task: TaskRow) -> Lease:
    if task.lease is None:
        raise BugError(f"task {task.id} was just leased and has no lease")
    return task.lease


def _check_value(task: TaskRow, value: str) -> None:
    try:
        if task.kind == TaskKind.INDEX:
            plan_hash_in(value)
        else:
            decode_canonical(value, object)
    except ExpectedError as error:
        raise BugError(f"{task.kind} was completed with a value that is none: {error}") from error


def _library_entry(job: JobRow, facts: JobFacts, task: TaskRow) -> LibraryEntry:
    if task.outcome is None or not outcome_counts(job, task):
        raise BugError(f"the film of job {job.id} has no outcome")
    target = find_target(task.target)
    published = target is not None and target.kind is TaskKind.PUBLISH
    return LibraryEntry(
        job=job,
        stage=PublishStage(target.name) if target is not None and published else None,
        outcome=task.outcome,
        trashed=job.trashed.value or (facts.done and is_cancelled(job)),
    )
