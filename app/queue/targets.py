"""The names of tasks, which tasks a plan needs, and which of them must wait for which.

::

    index                          probe, ladder, borders: the plan
    video/<plan>/<set>/<chunk>     a set of renditions of one chunk
    audio/<plan>/<track>           a whole sound track
    text/<plan>/<track>            a whole text track, as WebVTT
    stills/<plan>                  poster and trickplay sheets
    publish/<plan>/<stage>         the film: quick (a passthrough set, with sound), then full

    index ─► video, audio, text, stills    (all at once)
    video of the quick set, audio ─► publish/quick
    all video, audio, and text and stills (or their failure) ─► publish/full

The hash of the plan is in every target after ``index``, so that tasks of two plans never mix.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import StrEnum
from functools import lru_cache

import msgspec

from app.core.encoding import decode_canonical, encode_canonical
from app.core.errors import BugError, ErrorCode, ExpectedError
from app.media.film import PublishStage
from app.media.plan import Plan, RenditionKind, RenditionSet, plan_hash

LAST_NUMBER = 2**31
_PLAN = r"(?P<plan>[0-9a-f]{16})"
_NAME = r"[A-Za-z0-9._-]+"
_PATTERNS = (
    re.compile(r"(?P<kind>index)"),
    re.compile(rf"(?P<kind>video)/{_PLAN}/(?P<name>{_NAME})/(?P<chunk>0|[1-9][0-9]{{0,8}})"),
    re.compile(rf"(?P<kind>audio)/{_PLAN}/(?P<name>{_NAME})"),
    re.compile(rf"(?P<kind>text)/{_PLAN}/(?P<name>{_NAME})"),
    re.compile(rf"(?P<kind>stills)/{_PLAN}"),
    re.compile(rf"(?P<kind>publish)/{_PLAN}/(?P<name>quick|full)"),
)


class TaskKind(StrEnum):
    """What kind of work a task is."""

    INDEX = "index"
    VIDEO = "video"
    AUDIO = "audio"
    TEXT = "text"
    STILLS = "stills"
    PUBLISH = "publish"


class ResourceClass(StrEnum):
    """What a task keeps busy."""

    HEAVY = "heavy"
    """A decoder and encoders: all the cores there are."""
    LIGHT = "light"
    """One core or mostly the disk."""
    INLINE = "inline"
    """Nothing worth counting."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A target taken apart."""

    kind: TaskKind
    plan: str = ""
    """Hash of the plan; empty for ``index``."""
    name: str = ""
    """Set, track or publish stage."""
    chunk: int = 0
    """For ``video``."""


class TaskSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A task to be put into the queue."""

    kind: TaskKind
    target: str


class TextInput(msgspec.Struct, frozen=True, kw_only=True):
    """Where the text of a track is, as the source has it: a small file in the vault."""

    track: str
    capability: str


class IndexResult(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of ``index``."""

    plan_hash: str
    plan: Plan
    text: tuple[TextInput, ...] = ()
    """What the ``text`` tasks are done from; not part of the plan, whose name must be the same on every device."""


class _IndexHead(msgspec.Struct, frozen=True, kw_only=True):
    plan_hash: str


INDEX_SPEC = TaskSpec(kind=TaskKind.INDEX, target="index")


def encode_index_result(plan: Plan, text: tuple[TextInput, ...] = ()) -> str:
    """Return the value with which an ``index`` task is completed."""
    return encode_canonical(IndexResult(plan_hash=plan_hash(plan), plan=plan, text=text)).decode()


def decode_index_result(value: str) -> Plan:
    """Return the plan in the outcome of ``index``; raises ``ExpectedError`` bad-message when there is none."""
    return decode_canonical(value, IndexResult).plan


def decode_text_inputs(value: str) -> tuple[TextInput, ...]:
    """Return what ``text`` tasks are done from; raises ``ExpectedError`` bad-message when ``value`` is no outcome."""
    return decode_canonical(value, IndexResult).text


def plan_hash_in(value: str) -> str:
    """Return the plan's hash in the outcome of ``index``; raises ``ExpectedError`` bad-message when there is none."""
    return decode_canonical(value, _IndexHead).plan_hash


def format_target(target: Target) -> str:
    """Return the target as text; raises ``BugError`` when a name in it would not fit an address."""
    parts = {
        TaskKind.INDEX: (),
        TaskKind.VIDEO: (target.plan, target.name, str(target.chunk)),
        TaskKind.AUDIO: (target.plan, target.name),
        TaskKind.TEXT: (target.plan, target.name),
        TaskKind.STILLS: (target.plan,),
        TaskKind.PUBLISH: (target.plan, target.name),
    }[target.kind]
    text = "/".join((target.kind, *parts))
    if find_target(text) is None:
        raise BugError(f"not a target: {text}")
    return text


@lru_cache(maxsize=8192)
def find_target(text: str) -> Target | None:
    """Return the target taken apart, or None when this version does not know such a task."""
    for pattern in _PATTERNS:
        match = pattern.fullmatch(text)
        if match:
            found = match.groupdict()
            return Target(
                kind=TaskKind(found["kind"]),
                plan=found.get("plan", ""),
                name=found.get("name", ""),
                chunk=int(found.get("chunk", 0)),
            )
    return None


def parse_target(text: str) -> Target:
    """Return the target taken apart; raises ``ExpectedError`` bad-message for anything else."""
    target = find_target(text)
    if target is None:
        raise ExpectedError(ErrorCode.BAD_MESSAGE, f"“{text}” is no task that this version knows; update it.")
    return target


def spec_of(target: Target) -> TaskSpec:
    """Return ``target`` as a task to be put into the queue."""
    return TaskSpec(kind=target.kind, target=format_target(target))


def is_vital(target: Target) -> bool:
    """Whether there is no full film without this task."""
    return target.kind not in {TaskKind.STILLS, TaskKind.TEXT} and not is_publish(target, PublishStage.QUICK)


def is_publish(target: Target, stage: PublishStage) -> bool:
    """Whether this is the publishing of ``stage``."""
    return target.kind is TaskKind.PUBLISH and target.name == stage


def rank_of(target: Target) -> tuple[int, int]:
    """Return (class, number): index, then what makes a job playable, then the rest in order."""
    match target.kind:
        case TaskKind.INDEX:
            return 0, 0
        case TaskKind.VIDEO:
            return (1, 0) if target.chunk == 0 else (2, target.chunk)
        case TaskKind.AUDIO:
            return 1, 1
        case TaskKind.TEXT | TaskKind.STILLS:
            return 2, 0
        case TaskKind.PUBLISH:
            return (1, 2) if target.name == PublishStage.QUICK else (2, LAST_NUMBER)


def quick_set(plan: Plan) -> RenditionSet | None:
    """Return the set that can be published early: only passthrough, while others take longer."""
    if len(plan.sets) < 2:
        return None
    return next((one for one in plan.sets if _is_passthrough(plan, one)), None)


def _is_passthrough(plan: Plan, one: RenditionSet) -> bool:
    return all(plan.rendition(name).kind is RenditionKind.PASSTHROUGH for name in one.renditions)


def _video_specs(plan: Plan, sets: Collection[RenditionSet]) -> tuple[TaskSpec, ...]:
    name = plan_hash(plan)
    return tuple(
        spec_of(Target(kind=TaskKind.VIDEO, plan=name, name=one.name, chunk=chunk.number))
        for chunk in plan.chunks
        for one in sets
    )


def _audio_specs(plan: Plan) -> tuple[TaskSpec, ...]:
    name = plan_hash(plan)
    return tuple(spec_of(Target(kind=TaskKind.AUDIO, plan=name, name=track.name)) for track in plan.audio)


def _text_specs(plan: Plan) -> tuple[TaskSpec, ...]:
    name = plan_hash(plan)
    return tuple(spec_of(Target(kind=TaskKind.TEXT, plan=name, name=track.name)) for track in plan.text)


def tasks_of_plan(plan: Plan) -> tuple[TaskSpec, ...]:
    """Return all tasks after ``index``."""
    name = plan_hash(plan)
    stages = (PublishStage.QUICK, PublishStage.FULL) if quick_set(plan) else (PublishStage.FULL,)
    return (
        *_video_specs(plan, plan.sets),
        *_audio_specs(plan),
        *_text_specs(plan),
        spec_of(Target(kind=TaskKind.STILLS, plan=name)),
        *(spec_of(Target(kind=TaskKind.PUBLISH, plan=name, name=stage)) for stage in stages),
    )


def needs_of(target: Target, plan: Plan) -> tuple[str, ...]:
    """Return the targets that must be settled before ``target``, beside the accepted index."""
    if target.kind is not TaskKind.PUBLISH:
        return ()
    if target.name == PublishStage.FULL:
        specs = tuple(one for one in tasks_of_plan(plan) if one.kind is not TaskKind.PUBLISH)
    else:
        early = quick_set(plan)
        specs = (*_video_specs(plan, (early,) if early else ()), *_audio_specs(plan))
    return tuple(one.target for one in specs)


def missing_for(
    spec: TaskSpec, plan: Plan, completed: Collection[str], *, failed: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the targets that ``spec`` still waits for.

    ``failed`` holds targets that will not come in this round; what the film can do without is then not waited for.
    """
    return tuple(
        needed
        for needed in needs_of(parse_target(spec.target), plan)
        if needed not in completed and (needed not in failed or is_vital(parse_target(needed)))
    )


def resource_of(target: Target, plan: Plan | None) -> ResourceClass:
    """Return what doing ``target`` keeps busy; ``plan`` may be missing only for ``index``."""
    if target.kind is TaskKind.PUBLISH:
        return ResourceClass.INLINE
    if target.kind is not TaskKind.VIDEO:
        return ResourceClass.LIGHT
    if plan is None:
        raise BugError(f"{target} without its plan")
    copied = all(chunk.copied for chunk in plan.chunks if chunk.number == target.chunk)
    return ResourceClass.LIGHT if copied and _is_passthrough(plan, plan.set_named(target.name)) else ResourceClass.HEAVY
