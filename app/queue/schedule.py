"""What this device does next: a pure choice among open tasks, or the reason why there is nothing to do.

Order: what somebody waits to watch; index; what makes a job playable (first chunk, sound, quick stage); then by the
job's priority, the order of adding, the order in the film. A task whose resource is taken, or that
had better be done elsewhere (``app.queue.pool``), does not hold up others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from app.core.errors import ErrorInfo
from app.media.plan import Plan
from app.queue.abilities import Abilities
from app.queue.pool import Needs, Peer, Refusal, why_not
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

ALONE = Abilities(works=True, speed=1, memory_bytes=2**53 - 1, free_bytes=2**53 - 1)
"""What a device can do that compares itself with nobody."""


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
    needs: Needs = Needs()


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What to do next."""

    task_id: str | None = None
    reason: str | None = None
    """Why there is nothing to do, in words."""
    look_again_at_s: float | None = None
    """Monotonic moment at which waiting alone changes the answer."""
    trouble: ErrorInfo | None = None
    """What is wrong with this device, when that is the reason."""
    reasons: Mapping[str, str] = {}
    """Job → why its next task is not begun, in words."""


def candidate_of(
    job: JobRow,
    task: TaskRow,
    *,
    plan: Plan | None,
    completed: Collection[str] = (),
    failed: Collection[str] = (),
    resting_until_s: float | None = None,
    needs: Needs | None = None,
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
        needs=needs or Needs(),
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
    me: Abilities = ALONE,
    peers: Sequence[Peer] = (),
) -> Decision:
    """Return the task to claim now, or why there is none.

    ``wanted`` are the ids of tasks that somebody waits to watch, ``free`` how many tasks of each class may be begun,
    ``me`` what this device can do, ``peers`` the other devices that can be heard.
    """
    reasons: dict[str, str] = {}
    moments: list[float] = []
    trouble: ErrorInfo | None = None
    for one in sorted(candidates, key=lambda candidate: order_of(candidate, wanted)):
        refusal = _why_not_now(one, wanted=wanted, free=free, now_s=now_s, me=me, peers=peers)
        if refusal is None:
            return Decision(task_id=one.task_id)
        reasons.setdefault(one.job_id, refusal.reason)
        if refusal.code is not None and trouble is None:
            trouble = ErrorInfo(code=refusal.code, message=refusal.reason)
        if refusal.for_s is not None:
            moments.append(now_s + refusal.for_s)
    reason = next(iter(reasons.values()), "There is nothing to do.")
    return Decision(reason=reason, look_again_at_s=min(moments, default=None), trouble=trouble, reasons=reasons)


def _why_not_now(
    candidate: Candidate,
    *,
    wanted: Collection[str],
    free: Mapping[ResourceClass, int],
    now_s: float,
    me: Abilities,
    peers: Sequence[Peer],
) -> Refusal | None:
    until_s = candidate.resting_until_s
    if until_s is not None and until_s > now_s:
        left_s = until_s - now_s
        return Refusal(reason=f"It will be tried again in {max(1, round(left_s))} s.", for_s=left_s)
    if candidate.missing:
        return Refusal(reason=f"It waits for {candidate.missing[0]}.")
    if free.get(candidate.resource, 0) <= 0:
        return Refusal(reason="It waits until work that runs now is done.")
    needs = candidate.needs
    if candidate.task_id in wanted:
        needs = msgspec.structs.replace(needs, is_wanted=True)
    return why_not(needs, me, peers)
