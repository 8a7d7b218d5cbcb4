"""The seam of the queue: where jobs and tasks are kept. Two implementations, memory and SQLite, one contract suite.

All methods are synchronous and belong to one thread. A write is durable when its method returns. ``StaleError`` and
``ExpectedError`` mean that nothing was changed. Removed jobs are as good as absent everywhere here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

from app.core.errors import ErrorCode
from app.media.film import PublishStage
from app.queue.feed import Applied, Changes, FeedCursor, FeedRow
from app.queue.row_table import Glance, JobPart
from app.queue.rows import EndRank, JobParams, JobRow, Lease, LeaseFlag, Outcome, TaskRow
from app.queue.targets import TaskSpec


class LibraryEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A job that can be played: published, or with its index accepted."""

    job: JobRow
    stage: PublishStage | None
    """How much of it is published; None while it is only being made."""
    outcome: Outcome
    """The film; while ``stage`` is None, the index."""
    trashed: bool


class JobStore(Protocol):
    """Jobs and tasks of one data directory, seen by the one process that works on it."""

    def add_job(
        self, *, kind: str, params: JobParams, fingerprint: str, size_bytes: int, name: str, now_ms: int
    ) -> JobRow:
        """Write a new job and its ``index`` task."""
        ...

    def find_live_job(self, *, fingerprint: str, profile: str) -> JobRow | None:
        """Return the job of that content, whatever its state; of several the one with the lowest id."""
        ...

    def job(self, job_id: str) -> JobRow:
        """Return a job; raises ``ExpectedError`` no-such-id."""
        ...

    def jobs(self) -> tuple[JobRow, ...]:
        """Return all jobs in the order of adding."""
        ...

    def job_ids(self) -> tuple[str, ...]:
        """Return the ids of all jobs in the order of adding."""
        ...

    def job_page(self, part: JobPart, *, after: str | None = None, limit: int) -> tuple[JobRow, ...]:
        """Return the first ``limit`` jobs of a part that follow job ``after``, which may be gone meanwhile."""
        ...

    def resolve_job(self, prefix: str) -> str:
        """Return the one job id that begins so; raises ``ExpectedError`` no-such-id or ambiguous-id."""
        ...

    def resolve_media(self, prefix: str) -> str:
        """Return the one media id that begins so; raises ``ExpectedError`` no-such-id or ambiguous-id."""
        ...

    def job_id_of_media(self, media_id: str) -> str:
        """Return the job of a film, be it removed meanwhile; raises ``ExpectedError`` no-such-id."""
        ...

    def job_by_media_id(self, media_id: str) -> JobRow:
        """Return the job that makes a film; raises ``ExpectedError`` no-such-id."""
        ...

    def tasks(self, job_id: str) -> tuple[TaskRow, ...]:
        """Return all task rows of a job, index first, then in the order of doing; those of lost plans too."""
        ...

    def glance(self, job: JobRow) -> Glance:
        """Return what is needed to show how a job stands, without reading each of thousands of tasks."""
        ...

    def task(self, task_id: str) -> TaskRow:
        """Return a task; raises ``ExpectedError`` no-such-id."""
        ...

    def all_open_tasks(self, *, limit: int | None = None) -> tuple[TaskRow, ...]:
        """Return tasks that nobody holds of jobs that are to be worked on, in the order of doing.

        Tasks that rest after a failed attempt, and tasks that wait for others, are among them.
        """
        ...

    def version_of(self, job_id: str) -> tuple[int, int]:
        """Return what is another value whenever the job or one of its tasks changed, came or went."""
        ...

    def has_open_work(self, job_id: str) -> bool:
        """Whether anything but ``publish`` is still to be made for the job's plan, held by somebody or not."""
        ...

    def accepted_index(self, job_id: str) -> Outcome | None:
        """Return the outcome of ``index`` that the job follows; None too once its rows were compacted."""
        ...

    def accepted_plan_hash(self, job_id: str) -> str | None:
        """Return the hash of the plan that the job follows."""
        ...

    def put_tasks(self, job_id: str, specs: Iterable[TaskSpec]) -> int:
        """Add the tasks that are not there yet; return how many. None is added to a job that is done."""
        ...

    def claim(self, task_id: str) -> Lease:
        """Lease a task to this process.

        Raises ``StaleError`` when it cannot be claimed: held, completed, failed, resting, unknown, of another plan,
        or its job is paused, cancelled, failed, in the Trash, done or removed.
        """
        ...

    def beat(self, task_id: str, lease: Lease, *, progress_milli: int, flag: LeaseFlag = LeaseFlag.RUNNING) -> Lease:
        """Give a sign of life; raises ``StaleError`` when the work is to be dropped."""
        ...

    def end(self, task_id: str, lease: Lease, *, rank: EndRank, code: ErrorCode, message: str) -> TaskRow:
        """End a lease without a result; raises ``StaleError`` when it is over already."""
        ...

    def holds(self, task_id: str, lease: Lease) -> bool:
        """Whether this process may go on under ``lease``; False once a better claim or the owner's wish came in."""
        ...

    def give_up(self, task_id: str, lease: Lease) -> bool:
        """Note that a lease which is over was its living holder's; return whether others had given it up for dead.

        Said even if nobody did so far: word of its death may still be on its way. Raises ``StaleError`` when the task
        is gone.
        """
        ...

    def reclaim(self, task_id: str, lease: Lease, *, rank: EndRank, code: ErrorCode, message: str) -> TaskRow:
        """Give up somebody else's lease; raises ``StaleError`` when it is over, or gave a sign of life since.

        ``lease`` as it was seen. *died* for a silent holder, *transient* for one that makes no progress.
        """
        ...

    def end_fenced(self, task_id: str, lease: Lease) -> TaskRow:
        """Note that a lease of this process was given up by others while it was alive."""
        ...

    def complete(self, task_id: str, lease: Lease, *, value: str, next_tasks: Iterable[TaskSpec] = ()) -> TaskRow:
        """Accept a result and put the tasks that follow from it; raises ``StaleError`` when it is not wanted."""
        ...

    def resting_until_s(self, task_id: str) -> float | None:
        """Return the monotonic moment at which a task may be tried again; None when it does not rest."""
        ...

    def pause_job(self, job_id: str) -> JobRow:
        """Pause a job; raises ``ExpectedError`` already-done."""
        ...

    def resume_job(self, job_id: str) -> JobRow:
        """Let a paused job go on."""
        ...

    def set_priority(self, job_id: str, priority: int) -> JobRow:
        """Say how urgent a job is, -1000 to 1000; raises ``ExpectedError`` bad-setting."""
        ...

    def cancel_job(self, job_id: str) -> JobRow:
        """Give a job up; raises ``ExpectedError`` already-done."""
        ...

    def retry_job(
        self,
        job_id: str,
        *,
        fingerprint: str | None = None,
        size_bytes: int | None = None,
        void: Iterable[str] = (),
    ) -> JobRow:
        """Begin a new round, with results of the tasks ``void`` counted as lost.

        Raises ``ExpectedError`` already-done, and source-changed when the fingerprint is not the one that the
        accepted plan was made for.
        """
        ...

    def trash_job(self, job_id: str) -> JobRow:
        """Put a job into the Trash; it rests there."""
        ...

    def restore_job(self, job_id: str) -> JobRow:
        """Take a job out of the Trash."""
        ...

    def remove_job(self, job_id: str) -> JobRow:
        """Forget a job for ever; return its tombstone."""
        ...

    def raise_void(self, task_id: str) -> TaskRow:
        """Say that the present result of a task is lost, so that it is made again; not for ``index``.

        A finished film is made again when its ``publish`` task is void; its rows may have been compacted, then all
        of it is made again.
        """
        ...

    def compact_job(self, job_id: str) -> int:
        """Delete the task rows that a finished film does not need, return how many; raises not-done."""
        ...

    def end_forgotten_leases(self) -> int:
        """End the leases of this device's earlier lives; return how many there were. Called once at start."""
        ...

    def live_leases(self) -> tuple[TaskRow, ...]:
        """Return the tasks that somebody holds now."""
        ...

    def published(self, job_id: str) -> tuple[PublishStage, Outcome] | None:
        """Return the film of a job and how much of it is published."""
        ...

    def library(self) -> tuple[LibraryEntry, ...]:
        """Return all jobs that can be played, those in the Trash too, in the order of adding."""
        ...

    def trash_page(self, *, after: str | None = None, limit: int) -> tuple[LibraryEntry, ...]:
        """Return the first ``limit`` entries in the Trash that follow job ``after``, newest first."""
        ...

    def library_page(self, *, after: str | None = None, limit: int) -> tuple[LibraryEntry, ...]:
        """Return the first ``limit`` entries that follow job ``after``, newest first."""
        ...

    def library_entry(self, job_id: str) -> LibraryEntry | None:
        """Return a job as it stands in the library; None while there is nothing to play."""
        ...

    def note_progress(self, job_id: str, milli: int) -> int:
        """Note how much of a job is done, in thousandths; return the highest noted in this round."""
        ...

    def note_progress_of(self, jobs: Iterable[tuple[JobRow, int]]) -> dict[str, int]:
        """Note the progress of jobs as they were read, together; return the highest of each one's round."""
        ...

    def progress_of(self, job: JobRow) -> int:
        """Return the highest progress of the round of a job as it was read, whether or not it is still there."""
        ...

    def progress(self, job_id: str) -> int:
        """Return the highest progress of this round, in thousandths."""
        ...

    def take_changed(self) -> frozenset[str]:
        """Return the ids of the jobs that changed since this was asked last; removed ones too."""
        ...

    def twin_of(self, job_id: str) -> JobRow | None:
        """Return the job of the same content and profile for which this one steps back; None when it is to run.

        A finished one goes first, then the one with the lower id.
        """
        ...

    def feed_cursor(self) -> FeedCursor:
        """Return the cursor of somebody who has every row."""
        ...

    def changes_since(self, cursor: FeedCursor | None, *, limit: int = 500) -> Changes:
        """Return the first changes after a cursor that this replica gave out; None and unknown ones mean all."""
        ...

    def known_peers(self) -> tuple[str, ...]:
        """Return the devices that rows came from, ever."""
        ...

    def peer_cursor(self, peer: str) -> FeedCursor | None:
        """Return the cursor with which to ask ``peer`` for more."""
        ...

    def apply_rows(
        self,
        rows: Iterable[FeedRow],
        *,
        from_peer: str,
        peer_cursor: FeedCursor | None = None,
        since: FeedCursor | None = None,
    ) -> Applied:
        """Merge rows of a peer and note ``peer_cursor``, both or nothing; never refuses a row.

        The cursor is noted only if the one noted before is ``since``, to which the rows are the answer: an answer that
        comes late, twice or to an earlier life must not skip anything. Rows sent unasked have no cursor.
        """
        ...

    def rows_about(self, task_ids: Iterable[str], *, job_ids: Iterable[str] = ()) -> tuple[FeedRow, ...]:
        """Return what is known of tasks, with their jobs and films: the answer to a claim."""
        ...
