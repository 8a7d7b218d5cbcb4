"""Plans: what is copied, what is encoded, where the film begins and ends, what a person is warned of."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from app.core.encoding import decode_canonical, encode_canonical
from app.core.errors import ErrorCode, ExpectedError
from app.media.plan import AudioKind, Plan, RenditionKind, plan_hash
from app.media.planning import make_plan
from app.media.scan import Keyframe
from app.media.source import SourceInfo
from tests.media.sources import CODECS, FRAME_TICKS, audio, audio_scan, plan_of, scan, seconds, video


def is_copied(plan: Plan) -> bool:
    return plan.renditions[0].kind is RenditionKind.PASSTHROUGH


def test_a_plain_h264_film_is_copied_and_gets_lower_rungs() -> None:
    plan = plan_of()
    assert [(one.name, one.kind) for one in plan.renditions] == [
        ("1080", RenditionKind.PASSTHROUGH),
        ("720", RenditionKind.ENCODE),
        ("480", RenditionKind.ENCODE),
        ("360", RenditionKind.ENCODE),
    ]
    assert [(one.name, one.renditions) for one in plan.sets] == [("copy", ("1080",)), ("ladder", ("720", "480", "360"))]
    assert plan.renditions[0].codecs == CODECS
    assert plan.warnings == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"codec": "hevc"},
        {"profile": "High 10"},
        {"profile": "High 4:4:4 Predictive"},
        {"pixel_format": "yuv422p"},
        {"pixel_format": "yuvj420p"},
        {"interlaced": True},
        {"rotation": 90},
        {"mirrored": True},
        {"sample_aspect": (64, 45)},
        {"width": 1919},
        {"height": 1079},
        {"transfer": "smpte2084"},
        {"transfer": "arib-std-b67"},
        {"frame_rate": (120, 1)},
    ],
    ids=str,
)
def test_a_picture_that_players_do_not_take_as_it_is_must_be_encoded(changes: dict[str, Any]) -> None:
    plan = plan_of(picture=video(**changes))
    assert not is_copied(plan)
    assert not any(chunk.copied for chunk in plan.chunks)


@pytest.mark.parametrize(
    "changes",
    [{"is_copyable": False}, {"entry": "order"}, {"peak_rate": 90_000_000}, {"peak_rate": 0}],
    ids=str,
)
def test_packets_that_cannot_be_used_as_they_are_must_be_encoded(changes: dict[str, Any]) -> None:
    assert not is_copied(plan_of(packets=scan(**changes)))


def test_a_film_without_a_codecs_string_must_be_encoded() -> None:
    assert not is_copied(plan_of(codecs=""))


def test_almost_square_pixels_do_not_hinder_copying() -> None:
    assert is_copied(plan_of(picture=video(sample_aspect=(3201, 3200))))


def test_borders_of_a_copied_film_lie_on_idr_pictures_only() -> None:
    keys = tuple(
        Keyframe(pts=pts, is_idr=pts % seconds(4) == 0, position=-1) for pts in range(0, seconds(60), seconds(1))
    )
    plan = plan_of(packets=scan(keyframes=keys))
    assert is_copied(plan)
    assert all(border % seconds(4) == 0 for border in plan.borders[:-1])


def test_an_open_gop_film_with_hardly_any_idr_is_encoded_and_may_be_cut_at_any_keyframe() -> None:
    keys = tuple(Keyframe(pts=pts, is_idr=pts == 0, position=-1) for pts in range(0, seconds(60), seconds(5)))
    plan = plan_of(packets=scan(keyframes=keys))
    assert not is_copied(plan)
    assert set(plan.borders[2:-1]) <= {key.pts for key in keys}, "after the short first segment"


def test_a_film_that_is_mostly_copyable_is_copied_but_for_the_rest() -> None:
    keys = tuple(Keyframe(pts=pts, is_idr=True, position=-1) for pts in range(0, seconds(80), seconds(2)))
    plan = plan_of(packets=scan(length_s=100, keyframes=keys))
    assert is_copied(plan)
    for chunk in plan.chunks:
        begin, end = plan.chunk_ticks(chunk)
        assert chunk.copied == (end <= seconds(80)), (begin, end)


def test_a_film_that_is_mostly_not_copyable_is_encoded() -> None:
    keys = tuple(Keyframe(pts=pts, is_idr=True, position=-1) for pts in range(0, seconds(50), seconds(2)))
    assert not is_copied(plan_of(packets=scan(length_s=100, keyframes=keys)))


def test_the_first_time_stamp_becomes_0() -> None:
    for start in (seconds(10), -seconds(3), 2**33):
        plan = plan_of(packets=scan(start_ticks=start))
        assert plan.origin_ticks == start
        assert plan.borders[0] == 0
        assert plan.duration_ticks == seconds(60)


def test_late_sound_does_not_move_the_picture() -> None:
    plan = plan_of(packets=scan(audio=(audio_scan(begin_s=3),)), sound=(audio(),))
    assert plan.origin_ticks == 0
    assert plan.audio[0].kind is AudioKind.ENCODE


def test_sound_that_begins_before_the_picture_begins_the_film() -> None:
    packets = scan(start_ticks=seconds(1.5), audio=(audio_scan(begin_s=0, end_s=61.5),))
    plan = plan_of(packets=packets, sound=(audio(),))
    assert plan.origin_ticks == 0
    assert not plan.chunks[0].copied
    assert plan.duration_ticks == seconds(61.5)


def test_the_delay_of_a_sound_encoder_does_not_move_the_picture() -> None:
    packets = scan(start_ticks=2000, audio=(audio_scan(begin_s=0),))
    assert plan_of(packets=packets, sound=(audio(),)).origin_ticks == 2000


def test_sound_that_lasts_longer_makes_the_film_longer() -> None:
    plan = plan_of(packets=scan(audio=(audio_scan(end_s=75),)), sound=(audio(),))
    assert plan.duration_ticks == seconds(75)


def test_a_little_more_sound_does_not() -> None:
    plan = plan_of(packets=scan(audio=(audio_scan(end_s=60.04),)), sound=(audio(),))
    assert plan.duration_ticks == seconds(60)


def test_aac_that_fits_is_copied_at_its_own_rate() -> None:
    track = plan_of(
        packets=scan(audio=(audio_scan(),)), sound=(audio(sample_rate=44_100, language="und", bit_rate=128_000),)
    ).audio[0]
    assert (track.kind, track.sample_rate, track.bit_rate) == (AudioKind.COPY, 44_100, 128_000)
    assert track.language == ""


@pytest.mark.parametrize(
    ("stream", "packets"),
    [
        ({"codec": "ac3"}, {}),
        ({"profile": "HE-AAC"}, {}),
        ({"channels": 6}, {}),
        ({"channels": 1}, {}),
        ({"sample_rate": 22_050}, {}),
        ({}, {"is_continuous": False}),
        ({}, {"has_own_header": False}),
        ({}, {"begin_s": 0.03}),
        ({}, {"end_s": 50}),
    ],
    ids=str,
)
def test_sound_that_does_not_fit_is_encoded_as_aac_at_48_khz(stream: dict[str, Any], packets: dict[str, Any]) -> None:
    plan = plan_of(packets=scan(audio=(audio_scan(**packets),)), sound=(audio(**stream),))
    track = plan.audio[0]
    assert (track.kind, track.sample_rate, track.channels) == (AudioKind.ENCODE, 48_000, 2)


def test_sound_of_a_damaged_film_is_decoded_not_copied() -> None:
    plan = plan_of(packets=scan(is_cut=True, audio=(audio_scan(),)), sound=(audio(),))
    assert plan.audio[0].kind is AudioKind.ENCODE


def test_a_declared_track_without_packets_is_left_out() -> None:
    assert plan_of(sound=(audio(),)).audio == ()


def test_every_track_has_a_name_of_its_own_and_exactly_one_is_the_default() -> None:
    streams = (
        audio(1, language="eng"),
        audio(2, language="eng"),
        audio(3, title='Director\'s "cut"', is_default=True),
        audio(4, language="und"),
    )
    plan = plan_of(packets=scan(audio=tuple(audio_scan(stream.index) for stream in streams)), sound=streams)
    assert [track.name for track in plan.audio] == ["a0", "a1", "a2", "a3"]
    assert len({track.label for track in plan.audio}) == 4
    assert all('"' not in track.label for track in plan.audio)
    assert [track.is_default for track in plan.audio] == [False, False, True, False]


def test_labels_stay_unique_when_a_title_looks_like_a_numbered_one() -> None:
    streams = (audio(1, title="A (3)"), audio(2, title="A"), audio(3, title="A"))
    plan = plan_of(packets=scan(audio=tuple(audio_scan(stream.index) for stream in streams)), sound=streams)
    assert len({track.label for track in plan.audio}) == 3


def test_filters_stand_in_the_order_in_which_they_are_applied() -> None:
    picture = video(interlaced=True, mirrored=True, rotation=270, transfer="smpte2084")
    assert plan_of(picture=picture).filters == ("deinterlace", "flip", "turn-270", "tonemap-pq")
    assert plan_of().filters == ()


def test_fields_become_pictures_up_to_60_a_second() -> None:
    assert plan_of(picture=video(interlaced=True, frame_rate=(25, 1))).frame_rate == (50, 1)
    assert plan_of(picture=video(interlaced=True, frame_rate=(30000, 1001))).frame_rate == (60000, 1001)


def test_a_fast_film_is_thinned_to_60() -> None:
    plan = plan_of(picture=video(frame_rate=(240, 1)))
    assert (plan.frame_rate, plan.frame_ticks) == ((60, 1), 1500)


def test_an_untold_rate_is_the_usual_distance_of_pictures() -> None:
    plan = plan_of(picture=video(frame_rate=(0, 1)))
    assert plan.frame_rate[0] / plan.frame_rate[1] == pytest.approx(30)


def test_one_picture_is_a_film() -> None:
    packets = scan(shown=(0,), keyframes=(Keyframe(pts=0, is_idr=True, position=0),))
    plan = plan_of(picture=video(frame_rate=(0, 1)), packets=packets)
    assert plan.borders == (0, FRAME_TICKS)
    assert plan.segment_count == len(plan.chunks) == 1


def test_a_film_that_ends_before_its_header_says_so_is_warned_of() -> None:
    (warning,) = plan_of(packets=scan(declared_ticks=seconds(100))).warnings
    assert "60 s of 100 s" in warning


def test_a_cut_film_without_a_declared_length_is_warned_of() -> None:
    (warning,) = plan_of(packets=scan(is_cut=True)).warnings
    assert "damaged or cut" in warning


def test_colours_that_cannot_be_converted_must_not_be_published() -> None:
    with pytest.raises(ExpectedError) as caught:
        plan_of(picture=video(dolby_vision_profile=5))
    assert caught.value.code is ErrorCode.NO_DECODER
    assert "Dolby Vision" in caught.value.message


def test_a_time_stamp_gone_wild_must_not_make_a_film_of_days() -> None:
    with pytest.raises(ExpectedError) as caught:
        plan_of(packets=scan(shown=(0, 3000, seconds(200 * 3600))))
    assert caught.value.code is ErrorCode.DAMAGED_SOURCE


def test_repaired_times_are_warned_of() -> None:
    (warning,) = plan_of(packets=scan(repaired=7)).warnings
    assert warning.startswith("7 pictures")


def test_a_rounded_header_is_no_damage() -> None:
    assert plan_of(packets=scan(declared_ticks=seconds(60.9))).warnings == ()


def test_passthrough_of_a_film_that_fits_is_one_rendition() -> None:
    plan = plan_of(profile="passthrough")
    assert [one.kind for one in plan.renditions] == [RenditionKind.PASSTHROUGH]
    assert plan.warnings == ()


def test_passthrough_of_a_film_that_does_not_fit_is_one_encoded_rendition_and_a_warning() -> None:
    plan = plan_of(picture=video(codec="vp9"), profile="passthrough")
    assert [one.kind for one in plan.renditions] == [RenditionKind.ENCODE]
    assert "encoded once" in plan.warnings[0]


def test_a_source_that_cannot_be_entered_is_one_chunk() -> None:
    plan = plan_of(packets=scan(entry="order", keyframes=()))
    assert (len(plan.chunks), plan.entry) == (1, "order")


def test_a_transport_stream_is_entered_one_keyframe_early_by_position() -> None:
    plan = plan_of(packets=scan(entry="byte"))
    assert len(plan.entries) == len(plan.chunks)
    for chunk, (ticks, position) in zip(plan.chunks, plan.entries, strict=True):
        begin = plan.borders[chunk.first_segment]
        assert ticks == max(0, begin - seconds(2))
        assert position == 1000 + ticks


def test_a_film_without_a_picture_is_refused() -> None:
    with pytest.raises(ExpectedError) as caught:
        plan_of(packets=scan(shown=()))
    assert caught.value.code is ErrorCode.NO_VIDEO


def test_a_huge_picture_is_refused_before_it_is_decoded() -> None:
    with pytest.raises(ExpectedError) as caught:
        plan_of(picture=video(width=16_000, height=9_000))
    assert caught.value.code is ErrorCode.TOO_LARGE
    assert "16000 by 9000" in caught.value.message


def test_every_rendition_must_be_in_exactly_one_set() -> None:
    plan = plan_of()
    made = [name for one in plan.sets for name in one.renditions]
    assert sorted(made) == sorted(one.name for one in plan.renditions)


def test_the_same_source_must_give_the_same_plan_to_the_last_byte() -> None:
    """The golden value changes with ``PLANNER_VERSION`` only: tasks and addresses of older jobs hang on it."""
    packets = scan(length_s=20, audio=(audio_scan(end_s=20),))
    plan, again = (plan_of(packets=packets, sound=(audio(language="eng", is_default=True),)) for _ in range(2))
    assert encode_canonical(plan) == encode_canonical(again)
    assert decode_canonical(encode_canonical(plan), Plan) == plan
    assert plan_hash(plan) == "742bc5a22b1c11b0"


def test_any_change_of_what_is_made_changes_the_hash() -> None:
    plan = plan_of()
    changed = [
        msgspec.structs.replace(plan, fingerprint="other"),
        msgspec.structs.replace(plan, borders=(*plan.borders[:-1], plan.borders[-1] + 1)),
        msgspec.structs.replace(plan, filters=("flip",)),
        msgspec.structs.replace(plan, origin_ticks=1),
    ]
    assert len({plan_hash(one) for one in (plan, *changed)}) == 5


def test_a_source_without_a_video_stream_is_refused() -> None:
    with pytest.raises(ExpectedError) as caught:
        make_plan(info=SourceInfo(container="mov", size_bytes=1), scan=scan(), profile="default", fingerprint="f")
    assert caught.value.code is ErrorCode.NO_VIDEO
