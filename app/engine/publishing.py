"""The ``publish`` task: proof of the film from the facts that workers measured, and the film itself. Pure.

No media is read or moved here: each worker has read back what it made. What is proved: every chunk of every set and
every track is there, made for this plan, begins and ends at its borders, and was decoded in part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from app.core.encoding import decode_canonical
from app.core.errors import ErrorCode, ExpectedError
from app.media.film import (
    ChunkRef,
    Film,
    PublishStage,
    RenditionFacts,
    RenditionRate,
    StillsResult,
    TaskResult,
    TrackRef,
)
from app.media.plan import Plan, RenditionSet, plan_hash
from app.media.source import TICKS_PER_S
from app.queue.targets import Target, TaskKind, format_target, quick_set


def build_film(*, plan: Plan, media_id: str, stage: PublishStage, outcomes: Mapping[str, str]) -> Film:
    """Return the film.

    ``outcomes`` are the values of completed tasks by target. Raises ``ExpectedError`` result-lost when one is missing
    or does not prove what it must.
    """
    early = quick_set(plan)
    sets = (early,) if stage is PublishStage.QUICK and early is not None else plan.sets
    name = plan_hash(plan)
    video: list[ChunkRef] = []
    facts: list[RenditionFacts] = []
    warnings = list(plan.warnings)
    for one in sets:
        for chunk in plan.chunks:
            target = Target(kind=TaskKind.VIDEO, plan=name, name=one.name, chunk=chunk.number)
            result = _result(outcomes, target)
            _prove_chunk(plan, one, chunk.number, result)
            video.append(ChunkRef(set=one.name, chunk=chunk.number, bundle=result.bundle))
            facts += result.facts
            warnings += result.warnings
    audio: list[TrackRef] = []
    for track in plan.audio:
        result = _result(outcomes, Target(kind=TaskKind.AUDIO, plan=name, name=track.name))
        _prove(result.facts, {track.name}, 0, plan.duration_ticks, what=f"track {track.name}")
        audio.append(TrackRef(track=track.name, bundle=result.bundle))
        facts += result.facts
        warnings += result.warnings
    text, text_bytes, untold = _text(plan, outcomes, name)
    if stage is PublishStage.FULL:
        warnings += untold
    damaged = _damaged_pictures(facts)
    if damaged:
        warnings.append(f"The source is damaged in places: {damaged} of its pictures could not be decoded cleanly.")
    return Film(
        media_id=media_id,
        stage=stage,
        plan=plan,
        video=tuple(video),
        audio=tuple(audio),
        stills=_stills(outcomes, name),
        rates=_rates(facts),
        size_bytes=sum(one.size_bytes for one in facts) + text_bytes,
        warnings=tuple(dict.fromkeys(warnings)),
        text=text,
    )


def _result(outcomes: Mapping[str, str], target: Target) -> TaskResult:
    text = format_target(target)
    if text not in outcomes:
        raise ExpectedError(ErrorCode.RESULT_LOST, f"The result of {text} is not here; retry the job to make it again.")
    return decode_canonical(outcomes[text], TaskResult)


def _text(plan: Plan, outcomes: Mapping[str, str], name: str) -> tuple[tuple[TrackRef, ...], int, list[str]]:
    """Return the text tracks that are there, their size, and what to say of the others: a film is one without them."""
    refs: list[TrackRef] = []
    warnings: list[str] = []
    size = 0
    for track in plan.text:
        target = format_target(Target(kind=TaskKind.TEXT, plan=name, name=track.name))
        if target not in outcomes:
            warnings.append(f"The subtitles “{track.label}” could not be made.")
            continue
        result = decode_canonical(outcomes[target], TaskResult)
        refs.append(TrackRef(track=track.name, bundle=result.bundle))
        size += sum(one.size_bytes for one in result.facts)
        warnings += result.warnings
    return tuple(refs), size, warnings


def _stills(outcomes: Mapping[str, str], plan: str) -> StillsResult | None:
    text = format_target(Target(kind=TaskKind.STILLS, plan=plan))
    return decode_canonical(outcomes[text], StillsResult) if text in outcomes else None


def _prove_chunk(plan: Plan, one: RenditionSet, number: int, result: TaskResult) -> None:
    start, end = plan.chunk_ticks(plan.chunks[number])
    what = f"chunk {number} of set {one.name}"
    _prove(result.facts, set(one.renditions), start, end, what=what)
    if len({facts.frames for facts in result.facts}) > 1:
        raise _not_proved(what, "its renditions have different numbers of pictures")


def _prove(facts: tuple[RenditionFacts, ...], names: set[str], start: int, end: int, *, what: str) -> None:
    if len(facts) != len(names) or {one.name for one in facts} != names:
        raise _not_proved(what, "it has other renditions than planned")
    for one in facts:
        if (one.first_ticks, one.end_ticks) != (start, end):
            raise _not_proved(what, f"it covers {one.first_ticks} to {one.end_ticks}, not {start} to {end}")
        if one.frames <= 0 or one.checked_frames <= 0:
            raise _not_proved(what, "nothing of it was decoded to check it")


def _not_proved(what: str, why: str) -> ExpectedError:
    return ExpectedError(ErrorCode.RESULT_LOST, f"The result of {what} is not right ({why}); retry the job.")


def _damaged_pictures(facts: list[RenditionFacts]) -> int:
    """Return how many pictures were damaged; every rendition of a set saw the same ones."""
    seen: Counter[str] = Counter()
    for one in facts:
        seen[one.name] += one.decode_errors
    return max(seen.values(), default=0)


def _rates(facts: list[RenditionFacts]) -> tuple[RenditionRate, ...]:
    rates = []
    for name in dict.fromkeys(one.name for one in facts):
        own = [one for one in facts if one.name == name]
        length = max(1, sum(one.end_ticks - one.first_ticks for one in own))
        size = sum(one.size_bytes for one in own)
        rates.append(
            RenditionRate(
                name=name, peak=max(one.peak_rate for one in own), average=round(size * 8 * TICKS_PER_S / length)
            )
        )
    return tuple(rates)


def published_plan(film: Film) -> Plan:
    """Return the plan as far as it is published: all of it, or what the quick stage holds."""
    if film.stage is PublishStage.FULL:
        return film.plan
    there = {one.set for one in film.video}
    sets = tuple(one for one in film.plan.sets if one.name in there)
    names = {name for one in sets for name in one.renditions}
    values = {name: getattr(film.plan, name) for name in film.plan.__struct_fields__}
    kept = tuple(one for one in film.plan.renditions if one.name in names)
    return Plan(**{**values, "sets": sets, "renditions": kept})
