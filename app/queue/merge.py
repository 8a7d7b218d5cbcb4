"""Two replicas of one row become one: the join of a lattice, field by field.

It never refuses a value and reads no clock; refusing stale writers is the business of ``leases``. Every choice ends
with the encoded value, so that two devices decide alike whatever they were shown, and in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from app.core.errors import BugError
from app.queue.rows import JobParams, JobRow, Kept, Lease, Outcome, Register, TaskRow, encode_value, join_ends

K = TypeVar("K", bound=Kept)


def _higher(a: K, b: K, key: Callable[[K], tuple[Any, ...]]) -> K:
    return a if a == b else max(a, b, key=lambda one: (*key(one), encode_value(one)))


def _higher_or_none(a: K | None, b: K | None, key: Callable[[K], tuple[Any, ...]]) -> K | None:
    if a is None or b is None:
        return b if a is None else a
    return _higher(a, b, key)


def _plain(_value: Kept) -> tuple[Any, ...]:
    return ()


def _params_key(params: JobParams) -> tuple[Any, ...]:
    return (not params.options,)


def _register_key(register: Register[Any]) -> tuple[Any, ...]:
    return register.value is None, register.stamp, register.device


def _lease_key(lease: Lease) -> tuple[Any, ...]:
    return lease.epoch, lease.device, lease.boot, lease.token, lease.beat


def _outcome_key(outcome: Outcome) -> tuple[Any, ...]:
    return outcome.epoch, outcome.token


def merge_extra(a: Kept, b: Kept) -> tuple[tuple[str, str], ...]:
    """Return the unknown fields of both; of two values of one field the higher text."""
    return tuple(dict(sorted((*a.extra, *b.extra))).items())


def merge_job(a: JobRow, b: JobRow) -> JobRow:
    """Return what is known of a job when ``a`` and ``b`` are; raises ``BugError`` for rows of two jobs."""
    if a.id != b.id:
        raise BugError(f"rows of two jobs cannot be merged: {a.id} and {b.id}")
    return JobRow(
        extra=merge_extra(a, b),
        schema=max(a.schema, b.schema),
        id=a.id,
        kind=max(a.kind, b.kind),
        params=_higher(a.params, b.params, _params_key),
        source=_higher(a.source, b.source, _register_key),
        added=_higher(a.added, b.added, _plain),
        round=max(a.round, b.round),
        cancelled_round=max(a.cancelled_round, b.cancelled_round),
        paused=_higher(a.paused, b.paused, _register_key),
        priority=_higher(a.priority, b.priority, _register_key),
        trashed=_higher(a.trashed, b.trashed, _register_key),
        removed=a.removed or b.removed,
    )


def merge_task(a: TaskRow, b: TaskRow) -> TaskRow:
    """Return what is known of a task when ``a`` and ``b`` are; raises ``BugError`` for rows of two tasks."""
    if a.id != b.id:
        raise BugError(f"rows of two tasks cannot be merged: {a.id} and {b.id}")
    return TaskRow(
        extra=merge_extra(a, b),
        schema=max(a.schema, b.schema),
        id=a.id,
        job_id=max(a.job_id, b.job_id),
        kind=max(a.kind, b.kind),
        target=max(a.target, b.target),
        fingerprint=max(a.fingerprint, b.fingerprint),
        lease=_higher_or_none(a.lease, b.lease, _lease_key),
        ends=join_ends((*a.ends, *b.ends)),
        outcome=_higher_or_none(a.outcome, b.outcome, _outcome_key),
        void=max(a.void, b.void),
    )
