"""What doing a task takes: work, room, memory, and how much of the source it reads. Pure estimates from the plan."""

from __future__ import annotations

import msgspec

from app.media.plan import Plan, ticks_to_s
from app.media.source import TICKS_PER_S
from app.queue.pool import Needs
from app.queue.rows import JobRow
from app.queue.targets import ResourceClass, Target, TaskKind, find_target, resource_of

_SOUND_WEIGHT = 40
"""A sound track costs about as much as a picture of 40 thousand pixels."""
_CHILD_BYTES = 64 << 20
_BYTES_PER_PIXEL = 270
"""Memory of a child, by pixels of its largest rendition; measured with the default ladder."""
_STILLS_BYTES = 32 << 20
_TEXT_BYTES = 16 << 20
"""A text track; it is made from what the device that read the source keeps of it, so where that is, or from there."""


def weight_of(target: Target, plan: Plan) -> int:
    """Return a task's share of the work: film ticks times thousands of pixels."""
    if target.kind is TaskKind.VIDEO:
        start, end = plan.chunk_ticks(plan.chunks[target.chunk])
        return (end - start) * max(1, plan.set_named(target.name).weight)
    if target.kind is TaskKind.AUDIO:
        return plan.duration_ticks * _SOUND_WEIGHT
    return 0


class Weights:
    """``weight_of`` for the thousands of tasks of one plan: what is the same for many is looked up once."""

    def __init__(self, plan: Plan, name: str) -> None:
        """Prepare for ``plan``, whose hash is ``name``."""
        self._plan = plan
        self._name = name
        self._sets = {one.name: max(1, one.weight) for one in plan.sets}
        borders = plan.borders
        self._lengths = [borders[one.end_segment] - borders[one.first_segment] for one in plan.chunks]

    def of(self, text: str) -> int:
        """Return the weight of the task with target ``text``; 0 if it is of another plan or not known."""
        target = find_target(text)
        if target is None or target.plan != self._name:
            return 0
        if target.kind is TaskKind.VIDEO and target.name in self._sets and target.chunk < len(self._lengths):
            return self._lengths[target.chunk] * self._sets[target.name]
        return weight_of(target, self._plan)


def needs_of(
    job: JobRow, target: Target, plan: Plan | None, *, undone_weight: int, has_source: bool, open_s: float = 0.0
) -> Needs:
    """Return what doing ``target`` takes; ``undone_weight`` is that of all the job's tasks without a result.

    ``plan`` may be None for ``index`` only.
    """
    if target.kind is TaskKind.PUBLISH:
        return Needs(open_s=open_s)
    is_index = plan is None or target.kind is TaskKind.INDEX
    common = Needs(has_source=has_source, source_at=job.added.device, only_at_source=is_index, open_s=open_s)
    if plan is None or is_index:
        return common
    if target.kind is TaskKind.TEXT:
        return msgspec.structs.replace(common, disk_bytes=_TEXT_BYTES)
    start, end = _range_of(target, plan)
    is_heavy = resource_of(target, plan) is ResourceClass.HEAVY
    return msgspec.structs.replace(
        common,
        work=weight_of(target, plan) / TICKS_PER_S if is_heavy else 0.0,
        job_work=undone_weight / TICKS_PER_S if is_heavy else 0.0,
        source_bytes=job.size_bytes * (end - start) // max(1, plan.duration_ticks),
        disk_bytes=_disk_bytes(target, plan, ticks_to_s(end - start)),
        memory_bytes=_memory_bytes(target, plan) if is_heavy else 0,
    )


def _range_of(target: Target, plan: Plan) -> tuple[int, int]:
    if target.kind is TaskKind.VIDEO:
        return plan.chunk_ticks(plan.chunks[target.chunk])
    return 0, plan.duration_ticks


def _disk_bytes(target: Target, plan: Plan, seconds: float) -> int:
    if target.kind is TaskKind.VIDEO:
        rates = sum(plan.rendition(name).max_rate for name in plan.set_named(target.name).renditions)
        return round(rates * seconds / 8)
    if target.kind is TaskKind.AUDIO:
        return round(plan.track(target.name).bit_rate * seconds / 8)
    return _STILLS_BYTES


def _memory_bytes(target: Target, plan: Plan) -> int:
    renditions = (plan.rendition(name) for name in plan.set_named(target.name).renditions)
    return _CHILD_BYTES + _BYTES_PER_PIXEL * max(one.width * one.height for one in renditions)
