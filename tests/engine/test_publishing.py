"""The proof that stands before every film: each single fact that does not fit must refuse it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from app.core.encoding import encode_canonical
from app.core.errors import ErrorCode, ExpectedError
from app.engine.publishing import build_film, published_plan
from app.media.film import Film, PublishStage, RenditionFacts, StillsInfo, StillsResult, TaskResult
from app.media.plan import Chunk, Plan, RenditionKind, RenditionSet, plan_hash
from tests.playback.films import make_plan, make_rendition

MEDIA = "ab" * 16
INFO = StillsInfo(interval_ticks=900_000, columns=5, rows=5, tile_width=160, tile_height=90, count=2)


@pytest.fixture
def plan() -> Plan:
    """Two sets, of which one can be published early, and two chunks."""
    pictures = (
        make_rendition("720", kind=RenditionKind.PASSTHROUGH),
        make_rendition("360", width=640, height=360, max_rate=800_000),
    )
    chunks = (Chunk(number=0, first_segment=0, end_segment=1), Chunk(number=1, first_segment=1, end_segment=4))
    sets = (
        RenditionSet(name="copy", renditions=("720",), weight=0),
        RenditionSet(name="ladder", renditions=("360",), weight=230),
    )
    return replace(make_plan(renditions=pictures), chunks=chunks, sets=sets)


def facts_of(plan: Plan, name: str, first: int, end: int) -> RenditionFacts:
    size = 1000 if name == "720" else 400
    return RenditionFacts(
        name=name,
        frames=(end - first) // plan.frame_ticks,
        first_ticks=first,
        end_ticks=end,
        size_bytes=size,
        peak_rate=size * 8,
        checked_frames=30,
    )


def results_of(plan: Plan) -> dict[str, TaskResult]:
    """Return right results of all tasks that a film needs, by target."""
    name = plan_hash(plan)
    results = {
        f"video/{name}/{one.name}/{chunk.number}": TaskResult(
            bundle=f"bundle {one.name} {chunk.number}",
            facts=tuple(facts_of(plan, rendition, *plan.chunk_ticks(chunk)) for rendition in one.renditions),
        )
        for one in plan.sets
        for chunk in plan.chunks
    }
    for track in plan.audio:
        facts = (facts_of(plan, track.name, 0, plan.duration_ticks),)
        results[f"audio/{name}/{track.name}"] = TaskResult(bundle=f"bundle {track.name}", facts=facts)
    return results


def encoded(results: dict[str, TaskResult]) -> dict[str, str]:
    return {target: encode_canonical(result).decode() for target, result in results.items()}


def build(plan: Plan, results: dict[str, TaskResult], *, stage: PublishStage = PublishStage.FULL) -> Film:
    return build_film(plan=plan, media_id=MEDIA, stage=stage, outcomes=encoded(results))


def test_a_film_holds_every_chunk_and_track_by_value(plan: Plan) -> None:
    film = build(plan, results_of(plan))
    assert [(one.set, one.chunk, one.bundle) for one in film.video] == [
        *((name, chunk, f"bundle {name} {chunk}") for name in ("copy", "ladder") for chunk in (0, 1)),
    ]
    assert [(one.track, one.bundle) for one in film.audio] == [("a0", "bundle a0")]
    assert (film.media_id, film.plan, film.stills) == (MEDIA, plan, None)
    assert film.size_bytes == 2 * 1000 + 2 * 400 + 400


def test_rates_are_measured_over_the_whole_film(plan: Plan) -> None:
    film = build(plan, results_of(plan))
    rates = {one.name: one for one in film.rates}
    assert rates["720"].peak == 8000
    assert rates["720"].average == round(2000 * 8 * 90_000 / plan.duration_ticks)


def test_stills_are_part_of_the_film_when_there_are_any(plan: Plan) -> None:
    stills = {f"stills/{plan_hash(plan)}": encode_canonical(StillsResult(bundle="pictures", info=INFO)).decode()}
    outcomes = encoded(results_of(plan)) | stills
    film = build_film(plan=plan, media_id=MEDIA, stage=PublishStage.FULL, outcomes=outcomes)
    assert film.stills == StillsResult(bundle="pictures", info=INFO)


def test_the_quick_stage_needs_only_its_set_and_the_sound(plan: Plan) -> None:
    results = {target: one for target, one in results_of(plan).items() if "/ladder/" not in target}
    film = build(plan, results, stage=PublishStage.QUICK)
    assert {one.set for one in film.video} == {"copy"}
    shown = published_plan(film)
    assert [one.name for one in shown.renditions] == ["720"]
    assert [one.name for one in shown.sets] == ["copy"]
    assert shown.borders == plan.borders
    full = build(plan, results_of(plan))
    assert published_plan(full) is full.plan


def _targets(plan: Plan) -> list[str]:
    return list(results_of(plan))


@pytest.mark.parametrize("place", range(5))
def test_a_missing_result_refuses_the_film(plan: Plan, place: int) -> None:
    results = results_of(plan)
    del results[_targets(plan)[place]]
    with pytest.raises(ExpectedError) as caught:
        build(plan, results)
    assert caught.value.code is ErrorCode.RESULT_LOST


@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "1080"},
        {"frames": 0},
        {"checked_frames": 0},
        {"first_ticks": 90_000},
        {"first_ticks": -90_000},
        {"end_ticks": 90_000 * 100},
        {"end_ticks": 1},
    ],
    ids=str,
)
def test_each_wrong_fact_refuses_the_film(plan: Plan, place: int, wrong: dict[str, Any]) -> None:
    results = results_of(plan)
    target = _targets(plan)[place]
    (fact,) = results[target].facts
    results[target] = replace(results[target], facts=(replace(fact, **wrong),))
    with pytest.raises(ExpectedError) as caught:
        build(plan, results)
    assert caught.value.code is ErrorCode.RESULT_LOST


@pytest.mark.parametrize("place", range(5))
def test_facts_that_are_missing_or_doubled_refuse_the_film(plan: Plan, place: int) -> None:
    results = results_of(plan)
    target = _targets(plan)[place]
    for facts in ((), results[target].facts * 2):
        with pytest.raises(ExpectedError):
            build(plan, results | {target: replace(results[target], facts=facts)})


def test_renditions_of_one_set_must_have_the_same_pictures(plan: Plan) -> None:
    both = replace(plan, sets=(RenditionSet(name="all", renditions=("720", "360"), weight=900),))
    results = results_of(both)
    build(both, results)
    target = f"video/{plan_hash(both)}/all/1"
    first, second = results[target].facts
    results[target] = replace(results[target], facts=(first, replace(second, frames=second.frames - 1)))
    with pytest.raises(ExpectedError, match="different numbers of pictures"):
        build(both, results)


def test_a_result_that_is_none_refuses_the_film(plan: Plan) -> None:
    outcomes = encoded(results_of(plan))
    for broken in ("", "{}", "null", '{"bundle": 1}'):
        with pytest.raises(ExpectedError) as caught:
            build_film(
                plan=plan, media_id=MEDIA, stage=PublishStage.FULL, outcomes=outcomes | {_targets(plan)[0]: broken}
            )
        assert caught.value.code is ErrorCode.BAD_MESSAGE


def test_results_of_another_plan_do_not_count(plan: Plan) -> None:
    other = replace(plan, fingerprint="other")
    with pytest.raises(ExpectedError) as caught:
        build(plan, results_of(other))
    assert caught.value.code is ErrorCode.RESULT_LOST


def test_damage_and_warnings_are_told_once(plan: Plan) -> None:
    results = results_of(plan)
    for target, result in results.items():
        facts = tuple(replace(one, decode_errors=2) for one in result.facts)
        results[target] = replace(result, facts=facts, warnings=("It was cut short.",))
    film = build(replace(plan, warnings=()), results)
    assert film.warnings[0] == "It was cut short."
    assert len(film.warnings) == 2
    assert "4 of its pictures" in film.warnings[1]
