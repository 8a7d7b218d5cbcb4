"""What is shown of jobs and tasks, derived from their rows; the drawings are in the package docstring.

Rules that decide everything here:

* an outcome counts when its epoch is above ``void`` and its round was not cancelled; a full film always counts, so
  that a cancel that arrives late cannot destroy it (it puts the film into the Trash);
* a lease is live until it has an end or an outcome, its round is cancelled, or its epoch is void;
* attempts are the ends *died* and *transient* of this round; three of them, or one *permanent*, and the task failed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

from app.core.errors import ErrorInfo, ExpectedError
from app.core.ids import task_id_of
from app.media.film import PublishStage
from app.queue.rows import End, EndRank, JobRow, LeaseFlag, TaskRow
from app.queue.targets import INDEX_SPEC, TaskKind, find_target, is_publish, is_vital, plan_hash_in, rank_of

MAX_ATTEMPTS = 3
FIRST_BACKOFF_S = 5.0
BACKOFF_GROWTH = 6.0
STALE_AFTER_S = 45.0
MAX_STALE_AFTER_S = 30 * 60.0

_COUNTED = frozenset({EndRank.DIED, EndRank.TRANSIENT})


class TaskState(StrEnum):
    """What a task is shown as."""

    AVAILABLE = "available"
    LEASED = "leased"
    COMPLETED = "completed"
    FAILED = "failed"
    FALLBACK_STARTED = "fallback_started"
    CANCELLED = "cancelled"


class JobState(StrEnum):
    """What a job is shown as."""

    QUEUED = "queued"
    PROCESSING = "processing"
    PAUSED = "paused"
    DONE = "done"
    ERROR = "error"
    CANCELLED = "cancelled"


TASK_MOVES: frozenset[tuple[TaskState, str, TaskState]] = frozenset(
    {
        (TaskState.AVAILABLE, "claim", TaskState.LEASED),
        (TaskState.AVAILABLE, "claim", TaskState.FALLBACK_STARTED),
        (TaskState.LEASED, "complete", TaskState.COMPLETED),
        (TaskState.LEASED, "end", TaskState.AVAILABLE),
        (TaskState.LEASED, "end", TaskState.FAILED),
        (TaskState.FALLBACK_STARTED, "complete", TaskState.COMPLETED),
        (TaskState.FALLBACK_STARTED, "end", TaskState.AVAILABLE),
        (TaskState.FALLBACK_STARTED, "end", TaskState.FAILED),
        (TaskState.COMPLETED, "void", TaskState.AVAILABLE),
        (TaskState.AVAILABLE, "cancel", TaskState.CANCELLED),
        (TaskState.LEASED, "cancel", TaskState.CANCELLED),
        (TaskState.FALLBACK_STARTED, "cancel", TaskState.CANCELLED),
        (TaskState.COMPLETED, "cancel", TaskState.CANCELLED),
        (TaskState.FAILED, "cancel", TaskState.CANCELLED),
        (TaskState.CANCELLED, "retry", TaskState.AVAILABLE),
        (TaskState.FAILED, "retry", TaskState.AVAILABLE),
    }
)
"""All that can happen to a task on one device; held against the drawing and against the stores by tests."""

JOB_MOVES: frozenset[tuple[JobState, str, JobState]] = frozenset(
    {
        (JobState.QUEUED, "claim", JobState.PROCESSING),
        (JobState.PROCESSING, "end", JobState.QUEUED),
        (JobState.PROCESSING, "end", JobState.ERROR),
        (JobState.PROCESSING, "complete", JobState.QUEUED),
        (JobState.PROCESSING, "complete", JobState.DONE),
        (JobState.QUEUED, "pause", JobState.PAUSED),
        (JobState.PROCESSING, "pause", JobState.PAUSED),
        (JobState.PAUSED, "resume", JobState.QUEUED),
        (JobState.PAUSED, "resume", JobState.PROCESSING),
        (JobState.PAUSED, "end", JobState.ERROR),
        (JobState.PAUSED, "complete", JobState.DONE),
        (JobState.QUEUED, "cancel", JobState.CANCELLED),
        (JobState.PROCESSING, "cancel", JobState.CANCELLED),
        (JobState.PAUSED, "cancel", JobState.CANCELLED),
        (JobState.ERROR, "cancel", JobState.CANCELLED),
        (JobState.CANCELLED, "retry", JobState.QUEUED),
        (JobState.ERROR, "retry", JobState.QUEUED),
        (JobState.ERROR, "retry", JobState.PROCESSING),
        (JobState.PAUSED, "retry", JobState.QUEUED),
        (JobState.PAUSED, "retry", JobState.PROCESSING),
        (JobState.DONE, "void", JobState.QUEUED),
        (JobState.DONE, "void", JobState.PAUSED),
    }
)
"""All that can happen to a job on one device."""


class JobStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown of a job."""

    state: JobState
    reason: str | None = None
    error: ErrorInfo | None = None
    warnings: tuple[str, ...] = ()


def is_cancelled(job: JobRow) -> bool:
    """Whether the owner does not want this job to be done."""
    return job.removed or job.cancelled_round >= job.round


def outcome_counts(job: JobRow, task: TaskRow) -> bool:
    """Whether the task has a result that is wanted and not lost."""
    outcome = task.outcome
    if outcome is None or outcome.epoch <= task.void:
        return False
    return outcome.round > job.cancelled_round or _publishes(task, PublishStage.FULL)


def _publishes(task: TaskRow, stage: PublishStage) -> bool:
    target = find_target(task.target)
    return target is not None and is_publish(target, stage)


def is_over(task: TaskRow) -> bool:
    """Whether the task's latest lease has an end or an outcome, or there never was one."""
    lease = task.lease
    if lease is None:
        return True
    key = (lease.epoch, lease.token)
    outcome = task.outcome
    return any((end.epoch, end.token) == key for end in task.ends) or (
        outcome is not None and (outcome.epoch, outcome.token) == key
    )


def is_live(job: JobRow, task: TaskRow) -> bool:
    """Whether somebody has the right to do the task now.

    Not under a lease up to ``void``: of two claims of one epoch, made out of touch, one may have been completed and its
    result lost before the other is heard of, whose result could not count any more.
    """
    lease = task.lease
    if lease is None or job.removed or lease.round <= job.cancelled_round or lease.epoch <= task.void:
        return False
    return not is_over(task)


def _ends_of_round(job: JobRow, task: TaskRow) -> list[End]:
    done = (task.outcome.epoch, task.outcome.token) if task.outcome else None
    return [end for end in task.ends if end.round == job.round and (end.epoch, end.token) != done]


def attempts(job: JobRow, task: TaskRow) -> int:
    """Return how many tries of this round went wrong."""
    return sum(end.rank in _COUNTED for end in _ends_of_round(job, task))


def last_trouble(job: JobRow, task: TaskRow) -> End | None:
    """Return the end that says what went wrong in this round: a permanent one, else the latest that counts."""
    ends = _ends_of_round(job, task)
    permanent = [end for end in ends if end.rank is EndRank.PERMANENT]
    counted = [end for end in ends if end.rank in _COUNTED]
    return next(reversed(permanent or counted), None)


def is_spent(job: JobRow, task: TaskRow) -> bool:
    """Whether the task may not be tried again in this round."""
    trouble = last_trouble(job, task)
    return trouble is not None and (trouble.rank is EndRank.PERMANENT or attempts(job, task) >= MAX_ATTEMPTS)


def held_state(job: JobRow, task: TaskRow) -> TaskState:
    """Return the task's state without regard to a cancelled job."""
    if outcome_counts(job, task):
        return TaskState.COMPLETED
    if task.lease is not None and is_live(job, task):
        earlier = any(end.epoch < task.lease.epoch for end in task.ends)
        return TaskState.FALLBACK_STARTED if earlier else TaskState.LEASED
    return TaskState.FAILED if is_spent(job, task) else TaskState.AVAILABLE


def task_state(job: JobRow, task: TaskRow) -> TaskState:
    """Return what the task is shown as."""
    state = held_state(job, task)
    return TaskState.CANCELLED if is_cancelled(job) and state is not TaskState.COMPLETED else state


def backoff_s(failed_attempts: int) -> float:
    """Return how long a task rests on this device after its attempts so far."""
    return FIRST_BACKOFF_S * BACKOFF_GROWTH ** (failed_attempts - 1) if failed_attempts > 0 else 0.0


def stale_after_s(job: JobRow, task: TaskRow) -> float:
    """Return how long a holder may be silent: it doubles each time one was given up while it was alive."""
    wronged = sum(end.fenced and end.rank is EndRank.FREED for end in _ends_of_round(job, task))
    return min(STALE_AFTER_S * 2.0 ** min(wronged, 30), MAX_STALE_AFTER_S)


def index_task_id(job: JobRow) -> str:
    """Return the id of the job's ``index`` task."""
    return task_id_of(job_id=job.id, kind=INDEX_SPEC.kind, target=INDEX_SPEC.target, fingerprint=job.fingerprint)


def accepted_plan(job: JobRow, index: TaskRow | None) -> str:
    """Return the hash of the plan that the job's tasks follow; empty while there is none."""
    if index is None or index.outcome is None or not outcome_counts(job, index):
        return ""
    try:
        return plan_hash_in(index.outcome.value)
    except ExpectedError:
        return ""  # written by a version that plans otherwise; the job waits for a device that knows


def tasks_that_count(job: JobRow, tasks: Iterable[TaskRow]) -> tuple[TaskRow, ...]:
    """Return the tasks of the job's source and accepted plan, ``index`` first, in order."""
    known = {task.id: task for task in tasks if task.fingerprint == job.fingerprint}
    plan = accepted_plan(job, known.get(index_task_id(job)))
    placed = [(target, task) for task in known.values() if (target := find_target(task.target)) is not None]
    placed.sort(key=lambda pair: (rank_of(pair[0]), pair[1].target))
    return tuple(task for target, task in placed if target.plan in {"", plan})


def published_task(job: JobRow, tasks: Iterable[TaskRow]) -> tuple[PublishStage, TaskRow] | None:
    """Return the task whose outcome is the job's film, full rather than quick, and its stage."""
    films = [
        (stage is PublishStage.FULL, task.outcome.epoch, task.outcome.token, stage, task)
        for task in tasks
        for stage in PublishStage
        if task.outcome and _publishes(task, stage) and outcome_counts(job, task)
    ]
    best = max(films, key=lambda film: film[:3], default=None)
    return (best[3], best[4]) if best else None


def is_done(job: JobRow, tasks: Iterable[TaskRow]) -> bool:
    """Whether the whole film is there."""
    film = published_task(job, tasks)
    return film is not None and film[0] is PublishStage.FULL


def is_trashed(job: JobRow, tasks: Iterable[TaskRow]) -> bool:
    """Whether the film is in the Trash: put there, or cancelled elsewhere while it was being published."""
    return job.trashed.value or (is_cancelled(job) and is_done(job, tasks))


def job_status(job: JobRow, tasks: Sequence[TaskRow], *, twin: JobRow | None = None) -> JobStatus:
    """Return what is shown of a job; ``tasks`` are all its rows, ``twin`` is the job for which it steps back."""
    counting = tasks_that_count(job, tasks)
    warnings = tuple(_warnings(job, counting))
    if is_done(job, tasks):
        return JobStatus(state=JobState.DONE, warnings=warnings)
    if is_cancelled(job):
        return JobStatus(state=JobState.CANCELLED)
    if job.trashed.value:
        return JobStatus(state=JobState.CANCELLED, reason="It is in the Trash; restore it to go on.")
    failed = next((task for task in counting if _is_needed(task) and held_state(job, task) is TaskState.FAILED), None)
    if failed is not None:
        error = _error_of(job, failed)
        return JobStatus(state=JobState.ERROR, reason=error.message if error else None, error=error, warnings=warnings)
    if job.paused.value:
        return JobStatus(state=JobState.PAUSED, warnings=warnings)
    return _going_on(job, counting, warnings, twin)


def _is_needed(task: TaskRow) -> bool:
    target = find_target(task.target)
    return target is not None and is_vital(target)


def task_error(job: JobRow, task: TaskRow) -> ErrorInfo | None:
    """Return why the task failed, or what went wrong at its latest try; None once it is completed."""
    return None if outcome_counts(job, task) else _error_of(job, task)


def _error_of(job: JobRow, task: TaskRow) -> ErrorInfo | None:
    trouble = last_trouble(job, task)
    return ErrorInfo(code=trouble.code, message=trouble.message) if trouble else None


def _warnings(job: JobRow, tasks: Iterable[TaskRow]) -> Iterable[str]:
    for task in tasks:
        error = _error_of(job, task)
        if error is None or held_state(job, task) is not TaskState.FAILED:
            continue
        if task.kind == TaskKind.STILLS:
            yield f"There are no preview pictures: {error.message}"
        elif task.kind == TaskKind.TEXT:
            yield f"A subtitle track could not be made: {error.message}"


def _going_on(job: JobRow, tasks: Iterable[TaskRow], warnings: tuple[str, ...], twin: JobRow | None) -> JobStatus:
    live = [task.lease for task in tasks if task.lease is not None and is_live(job, task)]
    if live:
        frozen = all(lease.flag is LeaseFlag.FROZEN for lease in live)
        reason = "It rests while its computer is busy with something else." if frozen else None
        return JobStatus(state=JobState.PROCESSING, reason=reason, warnings=warnings)
    reason = f"The same film is made as “{twin.name}” already; remove one of the two." if twin else None
    return JobStatus(state=JobState.QUEUED, reason=reason or _retry_reason(job, tasks), warnings=warnings)


def _retry_reason(job: JobRow, tasks: Iterable[TaskRow]) -> str | None:
    for task in tasks:
        trouble = last_trouble(job, task)
        if trouble is not None and held_state(job, task) is TaskState.AVAILABLE:
            return f"It will be tried again (attempt {attempts(job, task) + 1} of {MAX_ATTEMPTS}): {trouble.message}"
    return None
