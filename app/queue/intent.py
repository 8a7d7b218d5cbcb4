"""The moves of a job: what the owner wants, as new rows. Pure; the clock's reading is an argument.

``round`` and ``cancelled_round`` only grow. *paused*, *priority*, *trashed* and *source* are registers; a write's
stamp exceeds every stamp of the row that its writer has seen, so that the last one who knew the others wins, whatever
the clocks say.
"""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec.structs import replace

from app.core.errors import ErrorCode, ExpectedError
from app.queue.rows import MAX_NUMBER, JobParams, JobRow, Register, Source

LATEST_CLOCK_MS = 7_258_118_400_000
"""Year 2200: a clock beyond it is wrong and must not push stamps out of reach."""
MAX_PRIORITY = 1000

V = TypeVar("V")


def next_stamp(job: JobRow, now_ms: int) -> int:
    """Return the stamp of a write at ``now_ms``: the clock's reading, but above all stamps of the row."""
    registers: tuple[Register[Any], ...] = (job.source, job.paused, job.priority, job.trashed)
    highest = max(register.stamp for register in registers)
    return min(max(min(now_ms, LATEST_CLOCK_MS), highest + 1), MAX_NUMBER)


def _written(job: JobRow, register: Register[V], value: V, *, now_ms: int, device: str) -> Register[V]:
    if register.value == value:
        return register
    return replace(register, value=value, stamp=next_stamp(job, now_ms), device=device)


def set_paused(job: JobRow, value: bool, *, now_ms: int, device: str) -> JobRow:  # noqa: FBT001 (a register's value)
    """Return the job, paused or going on."""
    return replace(job, paused=_written(job, job.paused, value, now_ms=now_ms, device=device))


def set_trashed(job: JobRow, value: bool, *, now_ms: int, device: str) -> JobRow:  # noqa: FBT001 (a register's value)
    """Return the job, put into the Trash or taken out of it."""
    return replace(job, trashed=_written(job, job.trashed, value, now_ms=now_ms, device=device))


def set_priority(job: JobRow, value: int, *, now_ms: int, device: str) -> JobRow:
    """Return the job with another priority; raises ``ExpectedError`` bad-setting when it is out of range."""
    if not -MAX_PRIORITY <= value <= MAX_PRIORITY:
        raise ExpectedError(
            ErrorCode.BAD_SETTING, f"A priority lies between -{MAX_PRIORITY} and {MAX_PRIORITY}; 0 is usual."
        )
    return replace(job, priority=_written(job, job.priority, value, now_ms=now_ms, device=device))


def cancel(job: JobRow) -> JobRow:
    """Return the job, unwanted in this round."""
    return replace(job, cancelled_round=max(job.cancelled_round, job.round))


def retry(job: JobRow, *, now_ms: int, device: str) -> JobRow:
    """Return the job in a new round, with all its attempts, and not paused."""
    return set_paused(replace(job, round=job.round + 1), value=False, now_ms=now_ms, device=device)


def set_content(job: JobRow, *, fingerprint: str, size_bytes: int | None, now_ms: int, device: str) -> JobRow:
    """Return the job with its source read again."""
    old = job.source.value
    if old is None:
        return job
    size = old.size_bytes if size_bytes is None else size_bytes
    source: Source | None = replace(old, fingerprint=fingerprint, size_bytes=size)
    return replace(job, source=_written(job, job.source, source, now_ms=now_ms, device=device))


def remove(job: JobRow, *, now_ms: int, device: str) -> JobRow:
    """Return the job's tombstone, which says nothing about what the file was."""
    source = _written(job, job.source, None, now_ms=now_ms, device=device)
    return replace(job, removed=True, source=source, params=JobParams(profile=job.params.profile, options=""))
