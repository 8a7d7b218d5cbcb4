"""The moves of a task: claim, beat, end, complete, void. Rows in, rows out; randomness is an argument.

A move by somebody whose lease is not the task's present one raises ``StaleError`` and there is no new row. Nothing of
this is done in ``merge``: refusing belongs to the writer's own replica.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from app.core.errors import ErrorCode, StaleError
from app.queue.machine import TaskState, held_state, is_cancelled, is_over, outcome_counts
from app.queue.rows import End, EndRank, JobRow, Lease, LeaseFlag, Outcome, TaskRow, clean_text, join_ends

FORGOTTEN_BEFORE_DEATH = 4
"""How many ends of leases that nobody remembers cost nothing, per task and round."""


def next_epoch(task: TaskRow) -> int:
    """Return an epoch above all that the task has seen."""
    seen = [task.void, *(end.epoch for end in task.ends)]
    seen += [part.epoch for part in (task.lease, task.outcome) if part is not None]
    return max(seen) + 1


def claim_task(job: JobRow, task: TaskRow, *, device: str, boot: int, token: str) -> TaskRow:
    """Return the task, leased to ``device``; raises ``StaleError`` when it cannot be claimed."""
    if is_cancelled(job) or job.paused.value or job.trashed.value:
        raise StaleError("the job is not to be worked on")
    state = held_state(job, task)
    if state is not TaskState.AVAILABLE:
        raise StaleError(f"the task is {state}")
    lease = Lease(epoch=next_epoch(task), device=device, boot=boot, token=token, round=job.round)
    return replace(task, lease=lease)


def _is_same(one: Lease, other: Lease) -> bool:
    return (one.epoch, one.token, one.device, one.boot) == (other.epoch, other.token, other.device, other.boot)


def _held_lease(task: TaskRow, lease: Lease) -> Lease:
    held = task.lease
    if held is None or not _is_same(held, lease) or is_over(task):
        raise StaleError("the lease is over")
    return held


def _wanted_lease(job: JobRow, task: TaskRow, lease: Lease) -> Lease:
    held = _held_lease(task, lease)
    if held.round <= job.cancelled_round or job.removed:
        raise StaleError("the job is cancelled")
    if held.epoch <= task.void:
        raise StaleError("the work began before a result of it was lost")
    if outcome_counts(job, task):
        raise StaleError("the task is completed")
    return held


def beat_lease(job: JobRow, task: TaskRow, lease: Lease, *, progress_milli: int, flag: LeaseFlag) -> TaskRow:
    """Return the task after a sign of life; raises ``StaleError`` when the work is to be dropped.

    Progress never falls within a lease.
    """
    held = _wanted_lease(job, task, lease)
    progress = max(held.progress, min(max(progress_milli, 0), 1000))
    return replace(task, lease=replace(held, beat=held.beat + 1, flag=flag, progress=progress))


def end_lease(task: TaskRow, lease: Lease, *, rank: EndRank, code: ErrorCode, message: str) -> TaskRow:
    """Return the task with its lease ended; raises ``StaleError`` when it is not the holder who speaks."""
    held = _held_lease(task, lease)
    return _with_end(task, held, rank=rank, code=code, message=message, fenced=False)


def free_fenced(task: TaskRow, lease: Lease) -> TaskRow:
    """Return the task with the note that ``lease`` was given up while its holder was alive."""
    message = "The work was given up by other devices, while this one was still at it."
    return _with_end(task, lease, rank=EndRank.FREED, code=ErrorCode.CANCELLED, message=message, fenced=True)


def _with_end(task: TaskRow, lease: Lease, *, rank: EndRank, code: ErrorCode, message: str, fenced: bool) -> TaskRow:
    end = End(
        epoch=lease.epoch,
        token=lease.token,
        round=lease.round,
        rank=rank,
        code=str(code),
        message=clean_text(message),
        device=lease.device,
        fenced=fenced,
    )
    return replace(task, ends=join_ends((*task.ends, end)))


def was_fenced(task: TaskRow, lease: Lease) -> bool:
    """Whether others gave ``lease`` up for dead, as far as is known here."""
    key = (lease.epoch, lease.token)
    return any((end.epoch, end.token) == key and end.rank is EndRank.DIED for end in task.ends)


def give_up_lease(task: TaskRow, lease: Lease) -> TaskRow:
    """Return the task with the word that the holder of ``lease`` lives, though the lease is over.

    A lease that lost to a better claim, too: a third device may have taken its holder for dead, and that is only heard
    of later, when nobody remembers the lease. Only who is known to have been taken for dead is given more time.
    """
    if was_fenced(task, lease):
        return free_fenced(task, lease)
    message = "It was dropped: another device had the better claim, or it was not wanted any more."
    return _with_end(task, lease, rank=EndRank.FREED, code=ErrorCode.CANCELLED, message=message, fenced=False)


def free_dropped(task: TaskRow, is_dropped: Callable[[str], bool]) -> TaskRow:
    """Return the task with the word of this process that leases which it dropped were no deaths.

    Needed when a row comes back that was forgotten here with a finished film: then there was no row to say it in.
    ``is_dropped`` tells it by token, of leases of this very process alone.
    """
    if task.lease is not None and not is_over(task) and is_dropped(task.lease.token):
        task = give_up_lease(task, task.lease)
    wronged = [end for end in task.ends if end.rank is EndRank.DIED and is_dropped(end.token)]
    freed = tuple(replace(end, rank=EndRank.FREED, code=str(ErrorCode.CANCELLED)) for end in wronged)
    return replace(task, ends=join_ends((*task.ends, *freed))) if freed else task


def reclaim_lease(
    job: JobRow, task: TaskRow, seen: Lease, *, device: str, rank: EndRank, code: ErrorCode, message: str
) -> TaskRow:
    """Return the task with somebody's lease given up; raises ``StaleError`` when it moved since it was ``seen``.

    A lease that this ``device`` itself held in a life it does not remember costs no attempt, as at a start.
    """
    held = _wanted_lease(job, task, seen)
    if held.beat != seen.beat:
        raise StaleError("the lease is alive")
    if held.device == device and rank is EndRank.DIED:
        return end_forgotten(task)
    return _with_end(task, held, rank=rank, code=code, message=message, fenced=False)


def complete_task(job: JobRow, task: TaskRow, lease: Lease, *, value: str) -> TaskRow:
    """Return the task with its result; raises ``StaleError`` when it is not wanted from this holder any more."""
    held = _wanted_lease(job, task, lease)
    outcome = Outcome(epoch=held.epoch, token=held.token, round=held.round, value=value)
    return replace(task, outcome=outcome)


def void_outcome(task: TaskRow) -> TaskRow:
    """Return the task without its present result, which is lost."""
    return replace(task, void=max(task.void, task.outcome.epoch)) if task.outcome else task


def end_forgotten(task: TaskRow) -> TaskRow:
    """Return the task with its lease ended, whose holder was this device in an earlier life.

    The first few of a round are free, so that power cuts do not fail a job; later ones count as attempts, so that a
    chunk that kills its device does.
    """
    lease = task.lease
    if lease is None or is_over(task):
        return task
    before = sum(end.code == ErrorCode.ENGINE_GONE and end.round == lease.round for end in task.ends)
    rank = EndRank.FREED if before < FORGOTTEN_BEFORE_DEATH else EndRank.DIED
    message = (
        "The program ended while it was at work on this; that happened too often."
        if rank is EndRank.DIED
        else ("The program ended while it was at work on this.")
    )
    return _with_end(task, lease, rank=rank, code=ErrorCode.ENGINE_GONE, message=message, fenced=False)
