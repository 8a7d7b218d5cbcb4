"""Names of tasks, and which of them a plan needs and waits for."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from app.core.errors import BugError, ErrorCode, ExpectedError
from app.media.plan import Plan, TextTrack, plan_hash
from app.queue.targets import (
    ResourceClass,
    Target,
    TaskKind,
    TaskSpec,
    TextInput,
    decode_index_result,
    decode_text_inputs,
    encode_index_result,
    format_target,
    is_vital,
    missing_for,
    parse_target,
    plan_hash_in,
    rank_of,
    resource_of,
    tasks_of_plan,
)

PLAN = st.text("0123456789abcdef", min_size=16, max_size=16)
NAME = st.text("abcXYZ019._-", min_size=1, max_size=8)
targets = st.one_of(
    st.just(Target(kind=TaskKind.INDEX)),
    st.builds(Target, kind=st.just(TaskKind.VIDEO), plan=PLAN, name=NAME, chunk=st.integers(0, 10**9 - 1)),
    st.builds(Target, kind=st.just(TaskKind.AUDIO), plan=PLAN, name=NAME),
    st.builds(Target, kind=st.just(TaskKind.TEXT), plan=PLAN, name=NAME),
    st.builds(Target, kind=st.just(TaskKind.STILLS), plan=PLAN),
    st.builds(Target, kind=st.just(TaskKind.PUBLISH), plan=PLAN, name=st.sampled_from(["quick", "full"])),
)


@given(targets)
def test_a_target_survives_its_text(target: Target) -> None:
    assert parse_target(format_target(target)) == target


@pytest.mark.parametrize(
    "text",
    [
        "",
        "index/",
        "index\n",
        "video/0123456789abcdef/a/01",
        "video/0123456789abcdef/a/-1",
        "video/0123456789abcdef/a/٣",
        "video/0123456789abcdef/../etc/1",
        "video/0123456789ABCDEF/a/1",
        "video/0123456789abcdef/a",
        "publish/0123456789abcdef/half",
        "text/0123456789abcdef",
    ],
)
def test_what_is_no_target_is_refused(text: str) -> None:
    with pytest.raises(ExpectedError) as caught:
        parse_target(text)
    assert caught.value.code is ErrorCode.BAD_MESSAGE


def test_a_name_that_does_not_fit_an_address_is_a_bug() -> None:
    with pytest.raises(BugError):
        format_target(Target(kind=TaskKind.AUDIO, plan="0123456789abcdef", name="a/b"))


def test_a_plan_needs_each_set_of_each_chunk_each_track_stills_and_both_stages(plan: Plan) -> None:
    name = plan_hash(plan)
    assert [spec.target for spec in tasks_of_plan(plan)] == [
        *(f"video/{name}/{one}/{chunk}" for chunk in range(3) for one in ("copy", "ladder")),
        f"audio/{name}/a0",
        f"stills/{name}",
        f"publish/{name}/quick",
        f"publish/{name}/full",
    ]


def test_there_is_no_quick_stage_when_nothing_is_quicker(plan_maker: Callable[..., Plan]) -> None:
    plan = plan_maker(passthrough=False)
    assert [spec.target for spec in tasks_of_plan(plan) if spec.kind is TaskKind.PUBLISH] == [
        f"publish/{plan_hash(plan)}/full"
    ]


def spec_of(plan: Plan, part: str) -> TaskSpec:
    return next(spec for spec in tasks_of_plan(plan) if part in spec.target)


def test_only_publishing_waits_for_others(plan: Plan) -> None:
    for spec in tasks_of_plan(plan):
        assert bool(missing_for(spec, plan, ())) == (spec.kind is TaskKind.PUBLISH)


def test_the_quick_stage_waits_for_its_set_and_the_sound(plan: Plan) -> None:
    name = plan_hash(plan)
    quick = spec_of(plan, "/quick")
    wanted = {f"audio/{name}/a0", *(f"video/{name}/copy/{number}" for number in range(3))}
    assert set(missing_for(quick, plan, ())) == wanted
    assert missing_for(quick, plan, wanted) == ()


def test_the_full_stage_waits_for_everything_but_goes_on_without_stills_that_failed(plan: Plan) -> None:
    full, stills = spec_of(plan, "/full"), spec_of(plan, "stills/").target
    rest = {spec.target for spec in tasks_of_plan(plan) if spec.kind in {TaskKind.VIDEO, TaskKind.AUDIO}}
    assert missing_for(full, plan, rest) == (stills,)
    assert missing_for(full, plan, rest | {stills}) == ()
    assert missing_for(full, plan, rest, failed={stills}) == ()
    audio = spec_of(plan, "audio/").target
    assert missing_for(full, plan, rest - {audio}, failed={stills, audio}) == (audio,)


def test_only_previews_and_the_quick_stage_can_be_done_without(plan: Plan) -> None:
    spared = [spec.target for spec in tasks_of_plan(plan) if not is_vital(parse_target(spec.target))]
    assert spared == [spec_of(plan, "stills/").target, spec_of(plan, "/quick").target]


def test_text_is_waited_for_but_can_be_done_without(plan: Plan) -> None:
    with_text = replace(plan, text=(TextTrack(name="t0", codec="subrip", label="English"),))
    text, full = spec_of(with_text, "text/").target, spec_of(with_text, "/full")
    rest = {spec.target for spec in tasks_of_plan(with_text) if spec.kind is not TaskKind.PUBLISH} - {text}
    assert missing_for(full, with_text, rest) == (text,)
    assert missing_for(full, with_text, rest, failed={text}) == ()
    assert text not in missing_for(spec_of(with_text, "/quick"), with_text, ())
    assert resource_of(parse_target(text), with_text) is ResourceClass.LIGHT
    assert not is_vital(parse_target(text))


def test_what_text_is_made_from_survives_the_outcome_of_index(plan: Plan) -> None:
    inputs = (TextInput(track="t0", capability="somewhere"),)
    value = encode_index_result(plan, inputs)
    assert decode_text_inputs(value) == inputs
    assert plan_hash_in(value) == plan_hash(plan)


def test_copying_is_light_and_encoding_is_heavy(plan: Plan, plan_maker: Callable[..., Plan]) -> None:
    def resource(one: Plan, part: str) -> ResourceClass:
        return resource_of(parse_target(spec_of(one, part).target), one)

    assert resource(plan, "/copy/1") is ResourceClass.LIGHT
    assert resource(plan, "/ladder/1") is ResourceClass.HEAVY
    assert resource(plan_maker(copied=False), "/copy/1") is ResourceClass.HEAVY
    assert resource(plan, "audio/") is ResourceClass.LIGHT
    assert resource(plan, "stills/") is ResourceClass.LIGHT
    assert resource(plan, "/full") is ResourceClass.INLINE
    assert resource_of(Target(kind=TaskKind.INDEX), None) is ResourceClass.LIGHT


def test_a_job_becomes_playable_before_the_rest_is_made(plan: Plan) -> None:
    specs = sorted(tasks_of_plan(plan), key=lambda spec: (rank_of(parse_target(spec.target)), spec.target))
    kinds = [(spec.kind, parse_target(spec.target).chunk) for spec in specs]
    assert kinds[:4] == [(TaskKind.VIDEO, 0), (TaskKind.VIDEO, 0), (TaskKind.AUDIO, 0), (TaskKind.PUBLISH, 0)]
    assert [chunk for kind, chunk in kinds[4:] if kind is TaskKind.VIDEO] == [1, 1, 2, 2]
    assert specs[-1].target.endswith("/full")


def test_the_plan_survives_the_outcome_of_index(plan: Plan) -> None:
    value = encode_index_result(plan)
    assert decode_index_result(value) == plan
    assert plan_hash_in(value) == plan_hash(plan)
