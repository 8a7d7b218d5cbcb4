"""What this device does next: a pure choice among open tasks, or the reason why there is nothing to do.

Order: what somebody waits to watch; index; what makes a job playable (first chunk, sound, quick stage); then by the
job's priority, the order of adding, the order in the film. A task whose resource is taken does not hold up others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from app.media.plan import Plan
from app.queue.rows import JobRow, TaskRow
from app.queue.targets import (
    ResourceClass,
    Target,
    TaskKind,
    TaskSpec,
    missing_for,
    parse_target,
    rank_of,
    resource_of,
)


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """An open task, and what the choice depends on."""

    task_id: str
    job_id: str
    target: Target
    resource: ResourceClass
    priority: int
    added: tuple[int, int]
    """Orders jobs by adding."""
    weight: int = 0
    """Of the task's set; of one chunk the lighter set goes first."""
    missing: tuple[str, ...] = ()
    """Targets that must be completed before."""
    resting_until_s: float | None = None
    """Monotonic moment before which the task is not tried again."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What to do next."""

    task_id: str | None = None
    reason: str | None = None
    """Why there is nothing to do, in words."""
    look_again_at_s: float | None = None
    """Monotonic moment at which waiting alone changes the answer."""


def candidate_of(
    job: JobRow,
    task: TaskRow,
    *,
    plan: Plan | None,
    completed: Collection[str] = (),
    failed: Collection[str] = (),
    resting_until_s: float | None = None,
) -> Candidate:
    """Return ``task`` as a candidate; ``completed`` and ``failed`` are targets of its job.

    ``plan`` may be None for ``index`` only. Raises ``ExpectedError`` bad-message for a task of a newer version.
    """
    target = parse_target(task.target)
    spec = TaskSpec(kind=target.kind, target=task.target)
    return Candidate(
        task_id=task.id,
        job_id=job.id,
        target=target,
        resource=resource_of(target, plan),
        priority=job.priority.value,
        added=(job.added.at_ms, job.added.number),
        weight=plan.set_named(target.name).weight if plan and target.kind is TaskKind.VIDEO else 0,
        missing=missing_for(spec, plan, completed, failed=failed) if plan else (),
        resting_until_s=resting_until_s,
    )


def order_of(candidate: Candidate, wanted: Collection[str]) -> tuple[object, ...]:
    """Return the sort key: what is smaller is done first."""
    rank, number = rank_of(candidate.target)
    return (
        candidate.task_id not in wanted,
        rank,
        -candidate.priority,
        candidate.added,
        candidate.job_id,
        number,
        candidate.weight,
        candidate.task_id,
    )


def choose_task(
    candidates: Iterable[Candidate],
    *,
    wanted: Collection[str],
    free: Mapping[ResourceClass, int],
    now_s: float,
) -> Decision:
    """Return the task to claim now, or why there is none.

    ``wanted`` are the ids of tasks that somebody waits to watch, ``free`` how many tasks of each class may be begun.
    """
    known = list(candidates)
    awake = [one for one in known if one.resting_until_s is None or one.resting_until_s <= now_s]
    ready = [one for one in awake if not one.missing]
    startable = [one for one in ready if free.get(one.resource, 0) > 0]
    if startable:
        return Decision(task_id=min(startable, key=lambda one: order_of(one, wanted)).task_id)
    moments = [one.resting_until_s for one in known if one.resting_until_s is not None and one.resting_until_s > now_s]
    return Decision(reason=_reason(known, awake, ready, now_s), look_again_at_s=min(moments, default=None))


def _reason(known: Sequence[Candidate], awake: Sequence[Candidate], ready: Sequence[Candidate], now_s: float) -> str:
    if not known:
        return "There is nothing to do."
    if ready:
        return "It waits until work that runs now is done."
    if awake:
        return f"It waits for {awake[0].missing[0]}."
    moments = (one.resting_until_s for one in known if one.resting_until_s is not None)
    return f"It will be tried again in {max(1, round(min(moments) - now_s))} s."
