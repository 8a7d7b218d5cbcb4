"""Every picture of a source once, in order, at its time: whatever the container, the codec and the way in."""

from __future__ import annotations

import io
import struct
from itertools import pairwise
from pathlib import Path

import av
import pytest

from app.media.plan import Plan, RenditionKind
from app.media.source import TICKS_PER_S
from app.transcode.nal import IDR_SLICE, ParameterSets, unit_type
from tests.transcode.lab import (
    Shot,
    ffmpeg,
    index,
    make_pictures,
    pictures,
    probe_packets,
    segments,
    shots,
    steps,
    transcode,
    write_film,
)

COUNT = 360
X264 = ("-c:v", "libx264", "-preset", "veryfast", "-crf", "16", "-pix_fmt", "yuv420p")
COPY = ("-c", "copy")
ANNEX_B = ("-bsf:v", "h264_mp4toannexb")

COPIES: dict[str, tuple[str, ...]] = {
    "ts.ts": COPY,
    "matroska.mkv": COPY,
    "flash.flv": COPY,
    "h264.avi": (*COPY, *ANNEX_B),
    "raw.h264": ("-an", *COPY, *ANNEX_B),
    "clock near its end.ts": (*COPY, "-output_ts_offset", "95438"),
    "clock at ten seconds.ts": (*COPY, "-output_ts_offset", "10", "-muxdelay", "0"),
    "fragments.mp4": (*COPY, "-movflags", "frag_keyframe+empty_moov+delay_moov"),
}
ENCODES: dict[str, tuple[str, ...]] = {
    "pyramid.mp4": (*X264, "-x264-params", "keyint=45:bframes=6:b-pyramid=normal:ref=5:open-gop=0"),
    "open.mp4": (*X264, "-x264-params", "keyint=50:min-keyint=25:bframes=3:open-gop=1:scenecut=0"),
    "open.ts": (*X264, "-x264-params", "keyint=50:min-keyint=25:bframes=3:open-gop=1:scenecut=0"),
    "open.mkv": (*X264, "-x264-params", "keyint=50:min-keyint=25:bframes=3:open-gop=1:scenecut=0"),
    "one keyframe.mp4": (*X264, "-g", "9999", "-sc_threshold", "0"),
    "close keyframes.mp4": (
        *X264,
        "-force_key_frames",
        "expr:eq(n,60)+eq(n,61)+eq(n,62)+eq(n,240)+eq(n,242)",
        "-x264-params",
        "keyint=600:min-keyint=1:scenecut=0:bframes=3",
    ),
    "open hevc.mp4": (
        "-c:v",
        "libx265",
        "-preset",
        "ultrafast",
        "-x265-params",
        "log-level=none:open-gop=1:keyint=50:bframes=3:qp=18",
    ),
    "dvd.mpg": ("-c:v", "mpeg2video", "-q:v", "2", "-bf", "2", "-g", "15", "-c:a", "mp2", "-f", "dvd"),
    "xvid.avi": ("-c:v", "mpeg4", "-q:v", "2", "-bf", "2", "-vtag", "XVID", "-c:a", "mp2"),
    "windows.wmv": ("-c:v", "wmv2", "-q:v", "3", "-c:a", "wmav2"),
}
MILLISECONDS = {"matroska.mkv", "flash.flv", "open.mkv", "windows.wmv"}
"""Containers that round times to milliseconds."""


def best_shots(path: Path) -> tuple[Plan, list[Shot]]:
    plan, data = transcode(path)
    return plan, shots(data)


def assert_all_kept(name: str, seen: list[Shot]) -> None:
    assert [shot.number for shot in seen] == list(range(COUNT))
    slack = TICKS_PER_S // 1000 if name in MILLISECONDS else 1
    for shot in seen:
        assert abs(shot.ticks - (shot.number or 0) * 3000) <= slack, shot
    assert seen[0].ticks == 0


@pytest.mark.parametrize("name", COPIES)
def test_a_film_in_any_container_keeps_every_picture(film: Path, shelf: Path, name: str) -> None:
    path = shelf / f"copy of {name}"
    ffmpeg("-i", film, *COPIES[name], path)
    _, seen = best_shots(path)
    assert_all_kept(name, seen)


@pytest.mark.slow
@pytest.mark.parametrize("name", ENCODES)
def test_a_film_of_any_codec_keeps_every_picture(film: Path, shelf: Path, name: str) -> None:
    path = shelf / name
    ffmpeg("-i", film, *ENCODES[name], path)
    plan, seen = best_shots(path)
    assert_all_kept(name, seen)
    assert plan.warnings == ()


@pytest.mark.slow
def test_an_open_gop_film_is_never_cut_at_a_picture_that_refers_back(film: Path, shelf: Path) -> None:
    path = shelf / "long open.mp4"
    options = "keyint=50:min-keyint=25:bframes=3:open-gop=1:scenecut=0"
    ffmpeg("-stream_loop", "1", "-i", film, "-an", *X264, "-x264-params", options, path)
    plan, data = transcode(path)
    assert plan.renditions[0].kind is RenditionKind.ENCODE
    assert len(plan.chunks) >= 2
    assert [shot.number for shot in shots(data)] == [*range(COUNT), *range(COUNT)]


def test_packets_of_a_passthrough_rendition_must_be_those_of_the_source(film: Path) -> None:
    _, data = transcode(film, "passthrough")
    with av.open(str(film)) as source:
        sets = ParameterSets(source.streams.video[0].codec_context.extradata)
        theirs = [sets.split(bytes(packet)) for packet in source.demux(source.streams.video[0]) if packet.size]
    ours = [[unit for unit in units if unit_type(unit) not in {7, 8}] for units in units_of(data)]
    assert ours == [[unit for unit in units if unit_type(unit) not in {7, 8}] for units in theirs]


def sample_durations(segment: bytes) -> list[int]:
    """Return the durations of all samples, as the segment's ``trun`` box says them."""
    place = segment.index(b"trun") + 8
    (count,) = struct.unpack_from(">I", segment, place)
    return [struct.unpack_from(">I", segment, place + 8 + 16 * number)[0] for number in range(count)]


def units_of(data: bytes) -> list[list[bytes]]:
    """Return the H.264 units of every sample of a joined rendition, in decode order."""
    with av.open(io.BytesIO(data), "r") as container:
        sets = ParameterSets(container.streams.video[0].codec_context.extradata)
        return [sets.split(bytes(packet)) for packet in container.demux(container.streams.video[0]) if packet.size]


@pytest.mark.parametrize("kind", [RenditionKind.PASSTHROUGH, RenditionKind.ENCODE])
def test_every_segment_begins_at_its_border_with_an_idr_and_lasts_until_the_next(
    film: Path, shelf: Path, kind: RenditionKind
) -> None:
    path = film
    if kind is RenditionKind.ENCODE:
        path = shelf / "borders.mkv"
        ffmpeg("-i", film, "-an", "-c:v", "mpeg4", "-q:v", "3", "-bf", "2", path)
    _, plan = index(path)
    assert plan.renditions[0].kind is kind
    best = plan.renditions[0].name
    work = make_pictures(path, plan, plan.set_of(best).name)
    made = segments(work, best)
    assert sorted(made) == list(range(plan.segment_count))
    init = work.reporter.bytes_of(best)[: -sum(len(data) for data in made.values())]
    for number, data in made.items():
        first = units_of(init + data)[0]
        assert [unit_type(unit) for unit in first if unit_type(unit) in {7, 8, IDR_SLICE}][:3] == [7, 8, IDR_SLICE]
        assert shots(init + data)[0].ticks == plan.borders[number]
        assert sum(sample_durations(data)) == plan.borders[number + 1] - plan.borders[number]


def test_ffprobe_sees_rising_decode_times_no_negative_offset_and_no_hole(film: Path, tmp_path: Path) -> None:
    for profile in ("default", "passthrough"):
        plan, data = transcode(film, profile)
        packets = probe_packets(data, tmp_path / "joined.mp4")
        assert len(packets) == COUNT
        assert all(packet["pts"] >= packet["dts"] >= 0 for packet in packets)
        assert all(a["dts"] < b["dts"] for a, b in pairwise(packets))
        assert sorted(packet["pts"] for packet in packets) == list(range(0, COUNT * 3000, 3000))
        assert max(packet["pts"] + packet["duration"] for packet in packets) == plan.duration_ticks
        keys = {packet["pts"] for packet in packets if "K" in packet["flags"]}
        assert set(plan.borders[:-1]) <= keys


@pytest.mark.slow
def test_a_chunk_made_alone_is_the_chunk_made_in_turn(film: Path, shelf: Path) -> None:
    path = shelf / "alone.ts"
    ffmpeg("-i", film, "-c:v", "mpeg2video", "-q:v", "3", "-bf", "2", "-g", "12", "-an", path)
    _, plan = index(path)
    in_turn = segments(make_pictures(path, plan, "ladder"), plan.renditions[0].name)
    for chunk in reversed(plan.chunks):
        work = make_pictures(path, plan, "ladder", [chunk.number])
        alone = segments(work, plan.renditions[0].name)
        assert sorted(alone) == list(range(chunk.first_segment, chunk.end_segment))
        init = work.reporter.bytes_of(plan.renditions[0].name)[: -sum(map(len, alone.values()))]
        for number, data in alone.items():
            assert shots(init + data) == shots(init + in_turn[number])


@pytest.mark.slow
def test_every_rung_of_a_ladder_shows_every_picture_at_the_same_time(shelf: Path) -> None:
    source = write_film(shelf / "for a ladder.mp4", seconds=1, size=(854, 480))
    path = shelf / "ladder.mkv"
    ffmpeg("-i", source, "-an", "-c:v", "mpeg4", "-q:v", "2", path)
    _, plan = index(path)
    work = make_pictures(path, plan, "ladder")
    assert [one.name for one in plan.renditions] == ["480", "360"]
    for rung in plan.renditions:
        data = work.reporter.bytes_of(rung.name)
        frames = pictures(data)
        assert {(frame.width, frame.height) for frame in frames} == {(rung.width, rung.height)}
        seen = shots(data)
        assert [shot.number for shot in seen] == list(range(30))
        assert all(abs(shot.ticks - (shot.number or 0) * 3000) <= TICKS_PER_S // 1000 for shot in seen)
        assert f"avc1.6400{frames_level(data):02x}" == rung.codecs


def frames_level(data: bytes) -> int:
    """Return the H.264 level that the parameter sets in the init section say."""
    with av.open(io.BytesIO(data), "r") as container:
        return int(ParameterSets(container.streams.video[0].codec_context.extradata).codecs[-2:], 16)


def test_facts_say_what_was_made(film: Path) -> None:
    _, plan = index(film)
    work = make_pictures(film, plan, "copy")
    assert sum(facts.frames for facts in work.facts) == COUNT
    for chunk, facts in zip(plan.chunks, work.facts, strict=True):
        assert (facts.first_ticks, facts.end_ticks) == plan.chunk_ticks(chunk)
        assert facts.checked_frames > 0
        assert facts.size_bytes == sum(len(segments(work, facts.name)[n]) for n in _numbers(plan, chunk.number))
    assert work.reporter.milli[-1] == 1000


def _numbers(plan: Plan, chunk: int) -> range:
    return range(plan.chunks[chunk].first_segment, plan.chunks[chunk].end_segment)


def test_variable_frame_rate_keeps_each_pictures_own_time(film: Path, shelf: Path) -> None:
    path = shelf / "vfr.mp4"
    ffmpeg("-i", film, "-an", "-vf", "select='lt(t,2)+not(mod(n,7))'", "-vsync", "vfr", *X264, path)
    for profile in ("default", "passthrough"):
        plan, data = transcode(path, profile)
        seen = shots(data)
        assert all(shot.ticks == (shot.number or 0) * 3000 for shot in seen)
        assert {3000, 21_000} <= steps([shot.ticks for shot in seen])
        assert plan.duration_ticks - seen[-1].ticks <= 21_000


def test_a_trimmed_clip_shows_no_picture_from_before_its_edit(film: Path, shelf: Path) -> None:
    path = shelf / "trimmed.mp4"
    ffmpeg("-ss", "1.3", "-i", film, "-c", "copy", path)
    _, seen = best_shots(path)
    assert [shot.number for shot in seen] == list(range(39, COUNT))
    assert [shot.ticks for shot in seen] == [(n - 39) * 3000 for n in range(39, COUNT)]


def test_late_pictures_stay_late_when_the_sound_begins_first(film: Path, shelf: Path) -> None:
    path = shelf / "late pictures.mkv"
    ffmpeg("-itsoffset", "1.5", "-i", film, "-i", film, "-map", "0:v", "-map", "1:a", "-c", "copy", path)
    plan, seen = best_shots(path)
    late = round(1.5 * TICKS_PER_S)
    assert (seen[0].ticks, seen[0].number) == (0, 0), "the first picture is shown until it moves"
    assert [shot.number for shot in seen[1:]] == list(range(COUNT))
    assert abs(seen[1].ticks - late) <= 0.03 * TICKS_PER_S
    assert plan.duration_ticks == pytest.approx(late + COUNT * 3000, abs=0.03 * TICKS_PER_S)


def test_one_picture_is_a_film_of_one_segment(film: Path, shelf: Path) -> None:
    for name in ("one.mp4", "one.webm"):
        path = shelf / name
        codec = X264 if name == "one.mp4" else ("-c:v", "libvpx", "-b:v", "1M")
        ffmpeg("-i", film, "-an", *codec, "-frames:v", "1", path)
        plan, seen = best_shots(path)
        assert [(shot.ticks, shot.number) for shot in seen] == [(0, 0)]
        assert 0 < plan.duration_ticks <= TICKS_PER_S


def test_one_picture_a_second_has_segments_of_the_usual_length(shelf: Path) -> None:
    path = write_film(shelf / "slow.mp4", seconds=30, fps=1, gop=999)
    plan, seen = best_shots(path)
    assert [shot.number for shot in seen] == list(range(30))
    assert max(steps(plan.borders)) <= 8 * TICKS_PER_S


@pytest.mark.slow
def test_slow_motion_is_thinned_to_60_a_second_and_keeps_its_length(shelf: Path) -> None:
    path = write_film(shelf / "fast.mp4", seconds=1, fps=240)
    plan, seen = best_shots(path)
    assert [shot.number for shot in seen] == list(range(0, 240, 4))
    assert [shot.ticks for shot in seen] == list(range(0, TICKS_PER_S, 1500))
    assert plan.duration_ticks == TICKS_PER_S


@pytest.mark.slow
def test_pictures_that_are_never_shown_leave_no_trace(film: Path, shelf: Path) -> None:
    path = shelf / "hidden.webm"
    hidden = ("-auto-alt-ref", "1", "-lag-in-frames", "25", "-arnr-maxframes", "7", "-cpu-used", "4", "-b:v", "1M")
    for number, target in (("1", ("-f", "null", "-")), ("2", (str(path),))):
        log = ("-pass", number, "-passlogfile", shelf / "hidden")
        ffmpeg("-i", film, "-t", "3", "-an", "-c:v", "libvpx", *hidden, *log, *target)
    with av.open(str(path)) as source:
        assert sum(packet.size > 0 for packet in source.demux(video=0)) > 90
    plan, seen = best_shots(path)
    assert [shot.number for shot in seen] == list(range(90))
    assert plan.warnings == ()


def test_an_avi_with_empty_places_is_not_played_twice_as_fast(film: Path, shelf: Path) -> None:
    path = shelf / "empty places.avi"
    ffmpeg("-i", film, "-an", "-r", "120", *X264, path)
    plan, seen = best_shots(path)
    assert plan.entry == "order"
    assert_all_kept("", seen)
    assert plan.warnings == ()


def test_pictures_after_a_pause_in_an_avi_come_after_it(film: Path, shelf: Path) -> None:
    path = shelf / "pause.avi"
    ffmpeg("-i", film, "-an", "-vf", "select='not(between(n,100,160))'", "-vsync", "vfr", *X264, "-bf", "0", path)
    plan, seen = best_shots(path)
    assert plan.entry == "order"
    assert [shot.number for shot in seen if shot.number != 99] == [*range(99), *range(161, COUNT)]
    assert all(shot.ticks == (shot.number or 0) * 3000 for shot in seen if shot.number != 99)


def test_a_change_of_size_keeps_every_picture_in_the_size_of_the_rendition(shelf: Path) -> None:
    for number, size in enumerate(("320x180", "240x240")):
        source = f"testsrc=s={size}:r=25:d=4"
        offset = ("-muxdelay", "0", "-output_ts_offset", str(4 * number))
        ffmpeg("-f", "lavfi", "-i", source, *X264, "-bf", "0", "-g", "25", *offset, shelf / f"size{number}.ts")
    path = shelf / "size changes.ts"
    path.write_bytes(b"".join((shelf / f"size{number}.ts").read_bytes() for number in range(2)))
    plan, data = transcode(path)
    frames = pictures(data)
    assert plan.renditions[0].kind is RenditionKind.ENCODE
    assert {(frame.width, frame.height) for frame in frames} == {(320, 180)}
    assert len(frames) == 200
