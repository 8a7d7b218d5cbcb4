"""Rows put away and found again, by key and by facts derived from them; knows nothing of what they mean.

``RowJobStore`` decides, a ``RowTable`` keeps. Facts are recomputed by the decider whenever a row changes. The table
gives each changed row its next number in the feed, so that no decider can forget it.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import Protocol

import msgspec

from app.queue.feed import FeedCursor, FeedRow, Generation, RowKind
from app.queue.machine import TaskState
from app.queue.rows import JobRow, Lease, TaskRow

MAX_ASIDE = 1000
"""How many rows that cannot be taken yet are kept; each is bounded in size too."""


class TaskFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is searched for in task rows."""

    state: TaskState
    """Without regard to the job's own state, so never *cancelled*."""
    known: bool
    """Whether this version can do such a task."""
    vital: bool
    plan: str
    rank: int
    number: int
    """Place in the order of doing, within ``rank``."""


class JobFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is searched for in job rows."""

    plan: str = ""
    """Hash of the accepted plan."""
    film_task: str = ""
    """The task whose outcome can be played: ``publish``, else the accepted ``index``."""
    done: bool = False
    runnable: bool = True
    """Whether tasks of the job may be claimed."""
    wanted: bool = True
    """Whether it is neither removed, nor in the Trash, nor cancelled before it was done: what a twin steps back for."""


class JobPart(StrEnum):
    """Which jobs a page is of; tombstones are in none."""

    ALL = "all"
    """In the order of adding."""
    UNFINISHED = "unfinished"
    """What is to be done or needs somebody, in the order of adding."""
    FINISHED = "finished"
    """What is done, given up or in the Trash, newest first."""
    FILMS = "films"
    """What has a ``film_task``, newest first."""
    TRASHED = "trashed"
    """Those of them that are in the Trash, newest first."""

    @property
    def is_newest_first(self) -> bool:
        """Whether the part is read from its end."""
        return self in {JobPart.FINISHED, JobPart.FILMS, JobPart.TRASHED}


class PlainTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task of which there is nothing to tell but whether it is completed."""

    id: str
    target: str
    completed: bool


class Glance(msgspec.Struct, frozen=True, kw_only=True):
    """What must be read of a job's tasks to show how it stands: of most of them, very little."""

    telling: tuple[TaskRow, ...]
    """``index``, ``publish``, and whatever was tried and is not completed."""
    plain: tuple[PlainTask, ...]
    """The others of the job's content: completed, or never begun."""


class Twin(msgspec.Struct, frozen=True, kw_only=True):
    """Another wanted job of the same content and profile."""

    id: str
    done: bool


class FedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row with its place in the feed."""

    number: int
    kind: RowKind
    id: str
    job_id: str
    document: str


class AsideRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of a peer that this version cannot take yet."""

    row: FeedRow
    job_id: str = ""
    """Of the job that it waits for; empty when it could not be read."""
    peer: str
    reason: str


def lease_key(lease: Lease | None) -> tuple[int, str, str, int]:
    """Return what a compare-and-set compares."""
    return (lease.epoch, lease.token, lease.device, lease.boot) if lease else (0, "", "", 0)


class RowTable(Protocol):
    """Job and task rows with their facts."""

    def transaction(self) -> AbstractContextManager[object]:
        """Make all changes inside durable together, or none. Not nestable."""
        ...

    def job(self, job_id: str) -> JobRow | None:
        """Return a job row, tombstones too."""
        ...

    def job_facts(self, job_id: str) -> JobFacts | None:
        """Return the facts of a job."""
        ...

    def jobs(self) -> tuple[JobRow, ...]:
        """Return the rows that are no tombstones, in the order of adding."""
        ...

    def job_ids(self) -> tuple[str, ...]:
        """Return the ids of ``jobs()``."""
        ...

    def job_page(self, part: JobPart, *, after: str | None, limit: int) -> tuple[tuple[JobRow, JobFacts], ...]:
        """Return the first ``limit`` jobs of a part that follow job ``after``, wherever that is now.

        ``after`` may have become a tombstone or gone to another part: what counts is when it was added. An unknown one
        is followed by nothing.
        """
        ...

    def ids_like(self, prefix: str) -> tuple[str, ...]:
        """Return the ids of jobs that begin so; of no tombstones."""
        ...

    def media_ids_like(self, prefix: str) -> tuple[str, ...]:
        """Return the media ids of jobs that begin so; of no tombstones."""
        ...

    def job_by_media_id(self, media_id: str) -> JobRow | None:
        """Return the job of a film, tombstones too."""
        ...

    def job_of_content(self, fingerprint: str, profile: str) -> JobRow | None:
        """Return the job with the lowest id of that content that is no tombstone."""
        ...

    def last_number(self, device: str) -> int:
        """Return the highest number of a job that was added on ``device``, tombstones too; 0 when there is none."""
        ...

    def twins(self, job: JobRow) -> tuple[Twin, ...]:
        """Return the other wanted jobs of the content and profile of ``job``, by id."""
        ...

    def put_job(self, job: JobRow, facts: JobFacts) -> None:
        """Insert or replace a job row."""
        ...

    def task(self, task_id: str) -> TaskRow | None:
        """Return a task row."""
        ...

    def tasks(self, job_id: str, *, kind: str | None = None) -> tuple[TaskRow, ...]:
        """Return the tasks of a job by (rank, number, target), perhaps of one kind only."""
        ...

    def glance(self, job: JobRow) -> Glance:
        """Return what there is to tell of a job's tasks, by (rank, number, target)."""
        ...

    def add_task(self, task: TaskRow, facts: TaskFacts) -> bool:
        """Insert a task unless there is one of that id; return whether it was new."""
        ...

    def swap_task(self, task: TaskRow, facts: TaskFacts, *, expected: Lease | None) -> bool:
        """Replace a task if its lease is (epoch, token, device, boot) of ``expected``; return whether it was."""
        ...

    def delete_tasks(self, job_id: str, *, keep: Collection[str] = ()) -> int:
        """Delete a job's tasks except ``keep``; return how many."""
        ...

    def has_failed_vital(self, job_id: str, *, plan: str, fingerprint: str) -> bool:
        """Whether a vital task of ``index`` or of that plan, and of that content, has failed."""
        ...

    def version_of(self, job_id: str) -> tuple[int, int]:
        """Return the number of the latest change of the job or its tasks, and how many rows they are."""
        ...

    def has_open_work(self, job_id: str) -> bool:
        """Whether a task of the job's plan, other than ``publish``, is available or leased."""
        ...

    def open_tasks(self, limit: int | None) -> tuple[TaskRow, ...]:
        """Return the available tasks that may be claimed, by (rank, priority, adding, number)."""
        ...

    def leased_tasks(self) -> tuple[TaskRow, ...]:
        """Return tasks in the states *leased* and *fallback_started*."""
        ...

    def films(self) -> tuple[tuple[JobRow, JobFacts, TaskRow], ...]:
        """Return jobs with a ``film_task``, no tombstones, in the order of adding."""
        ...

    def progress(self, job_id: str) -> tuple[int, int]:
        """Return (round, thousandths) as noted last; (0, 0) when nothing was."""
        ...

    def put_progress(self, job_id: str, noted_round: int, milli: int) -> None:
        """Note progress; round 0 and thousandths 0 forget it."""
        ...

    def feed_number(self) -> int:
        """Return the number that was given out last; never falls, whatever is deleted."""
        ...

    def fed(self, *, after: int, limit: int) -> tuple[FedRow, ...]:
        """Return the first ``limit`` rows with numbers above ``after``, in order."""
        ...

    def feed_again(self, row_id: str, *, job_id: str) -> None:
        """Give a row the next number although it did not change."""
        ...

    def generations(self) -> tuple[Generation, ...]:
        """Return the generations of the feed in the order of opening."""
        ...

    def open_generation(self, generation: Generation) -> None:
        """Add a generation."""
        ...

    def known_peers(self) -> tuple[str, ...]:
        """Return the devices that have a cursor here, in order."""
        ...

    def keep_generations(self, number: int) -> None:
        """Forget all generations but the latest ``number``."""
        ...

    def peer_cursor(self, peer: str) -> FeedCursor | None:
        """Return up to where the rows of ``peer`` are here."""
        ...

    def put_peer_cursor(self, peer: str, cursor: FeedCursor) -> None:
        """Note up to where the rows of ``peer`` are here."""
        ...

    def set_aside(self, aside: AsideRow) -> bool:
        """Keep a row that cannot be taken yet, once; return False when too many are kept already."""
        ...

    def aside(self, *, job_id: str | None = None) -> tuple[AsideRow, ...]:
        """Return the rows that were set aside, perhaps only those that wait for one job."""
        ...

    def drop_aside(self, aside: AsideRow) -> None:
        """Forget a row that was set aside."""
        ...
