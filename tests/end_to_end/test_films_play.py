"""What the encoder made, judged by real players: every frame once, in order, at its time; sound within 20 ms."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.end_to_end.conftest import Premiere
from tests.end_to_end.shows import COUNT, FPS, SECONDS, Show
from tests.judges import ffmpeg_judge, hlsjs_judge, qt_judge
from tests.judges.ffmpeg_judge import play_after_seek, play_with_ffmpeg, probe_with_ffprobe
from tests.judges.hlsjs_judge import Look, Play, Seek, SwitchLevel, play_with_hlsjs
from tests.judges.qt_judge import PlayOn, QtStep, SeekTo, play_with_qt
from tests.judges.seen import (
    FrameSeen,
    check_beeps,
    check_every_frame_once,
    check_frames_in_order,
    numbers_of,
    require_judge,
)

pytestmark = [pytest.mark.judge, pytest.mark.slow]


LOOKED_AT = (598, 60, 59, 240, 419, 1)


def check_looks(frames: Sequence[FrameSeen]) -> None:
    """Raise AssertionError unless a paused player shows the wanted frames, or their neighbours.

    Chromium takes a sample's duration, which is the distance of decode times, for how long its picture is shown; so a
    moment can belong to two pictures or to none. What it shows while it plays is exact.
    """
    shown = [one.number for one in frames]
    assert len(shown) == len(LOOKED_AT)
    for wanted, number in zip(LOOKED_AT, shown, strict=True):
        assert number is not None
        assert abs(number - wanted) <= 1, shown


def _without_stutter(beeps: Sequence[float]) -> list[float]:
    """Return beeps without those that a player which ran dry in the middle of a beep began again."""
    return [one for before, one in zip((-1.0, *beeps), beeps, strict=False) if one - before > 0.1]


def check_after_seek(frames: Sequence[FrameSeen], *, to_s: float) -> None:
    """Raise AssertionError unless all frames come in order to the end, without holes once the player has caught up."""
    check_frames_in_order(frames, fps=FPS)
    first = frames[0].number
    assert first is not None
    assert first <= to_s * FPS
    settled = first + FPS
    check_every_frame_once([one for one in frames if (one.number or 0) >= settled], first=settled, end=COUNT, fps=FPS)


@pytest.fixture
def _ffmpeg() -> None:
    require_judge(ffmpeg_judge.missing_tool())


@pytest.fixture
def _hlsjs() -> None:
    require_judge(hlsjs_judge.missing_tool())


@pytest.fixture
def _qt() -> None:
    require_judge(qt_judge.missing_tool())


@pytest.fixture(params=["copied", "encoded"])
def show(request: pytest.FixtureRequest) -> Show:
    """Return each of the two finished films in turn."""
    found: Show = request.getfixturevalue(request.param)
    return found


# Finished films


@pytest.mark.usefixtures("_ffmpeg")
async def test_ffmpeg_sees_every_frame_of_every_rendition_once(show: Show) -> None:
    facts = await asyncio.to_thread(probe_with_ffprobe, show.player.master)
    assert float(facts["format"]["duration"]) == pytest.approx(SECONDS, abs=0.05)
    sizes = {(one["width"], one["height"]) for one in facts["streams"] if one["codec_type"] == "video"}
    assert sizes == {(1280, 720), (854, 480), (640, 360)}
    for variant in range(len(sizes)):
        report = await asyncio.to_thread(play_with_ffmpeg, show.player.master, variant=variant)
        check_every_frame_once(report.frames, end=COUNT, fps=FPS)
        check_beeps(report.beeps, seconds=range(SECONDS))
        assert report.messages == ""


@pytest.mark.usefixtures("_ffmpeg")
async def test_ffmpeg_goes_to_the_keyframe_before_any_moment(show: Show) -> None:
    for seek_s, url in ((0.5, show.player.auto), (7.9, show.player.master), (14.0, show.player.auto)):
        report = await asyncio.to_thread(play_after_seek, url, seek_s=seek_s)
        first = report.frames[0].number
        assert first is not None
        assert seek_s - 6.1 <= first / FPS <= seek_s
        check_every_frame_once(report.frames, first=first, end=COUNT, fps=FPS)


@pytest.mark.usefixtures("_hlsjs")
async def test_hlsjs_switches_renditions_and_seeks_exactly(show: Show) -> None:
    look = Look(at_s=tuple((number + 0.5) / FPS for number in LOOKED_AT))
    steps: list[hlsjs_judge.Step] = [
        *(Play(until_s=1.0), SwitchLevel(index=0), Play(until_s=3.5), Seek(to_s=12.6), SwitchLevel(index=1)),
        *(Play(until_s=15.5), look),
    ]
    report = await play_with_hlsjs(show.player.master, steps, start_level=2)
    before = [one for one in report.frames if one.time_s < 10]
    after = [one for one in report.frames if one.time_s >= 10]
    check_frames_in_order(before, fps=FPS)
    check_frames_in_order(after, fps=FPS)
    check_beeps(report.beeps, seconds=[0, 1, 2, 3, 13, 14, 15])
    assert len(set(report.widths)) >= 2
    check_looks(report.looked)
    assert report.duration_s == pytest.approx(SECONDS, abs=0.05)
    assert report.serious_faults == ()


@pytest.mark.usefixtures("_qt")
async def test_qt_plays_and_seeks_exactly(show: Show) -> None:
    steps: list[QtStep] = [PlayOn(until_s=3.0), SeekTo(to_s=13.0, tell=show.seek_address(13.0)), PlayOn()]
    report = await play_with_qt(show.player.auto, steps)
    assert (report.errors, report.timed_out, report.audio_tracks) == ((), False, 1)
    before = [one for one in report.frames if one.time_s < 8]
    after = [one for one in report.frames if one.time_s >= 8]
    check_every_frame_once(before, end=len(before), fps=FPS)
    check_after_seek(after, to_s=13.0)
    heard = [one for one in report.beeps if one > 13]
    check_beeps(heard, seconds=range(14, SECONDS) if heard[0] > 13.5 else range(13, SECONDS))


# Films in the making, played from the moment that there is a plan


@pytest.mark.usefixtures("_ffmpeg")
@pytest.mark.parametrize("kind", ["copied_film", "encoded_film"])
async def test_ffmpeg_waits_for_what_is_in_the_making(
    premiere: Premiere, request: pytest.FixtureRequest, kind: str
) -> None:
    async with premiere(request.getfixturevalue(kind)) as show:
        assert await show.state() in {"queued", "processing"}
        report = await asyncio.to_thread(play_with_ffmpeg, show.player.auto)
        check_every_frame_once(report.frames, end=COUNT, fps=FPS)
        check_beeps(report.beeps, seconds=range(SECONDS))


@pytest.mark.usefixtures("_hlsjs")
async def test_hlsjs_sees_every_frame_of_a_film_in_the_making(premiere: Premiere, encoded_film: Path) -> None:
    async with premiere(encoded_film) as show:
        assert await show.state() in {"queued", "processing"}
        report = await play_with_hlsjs(show.player.master, [Play()])
        check_frames_in_order(report.frames, fps=FPS)
        untold = set(range(COUNT)) - set(numbers_of(report.frames))
        passed_over = report.missed + COUNT // 20  # beside the encoders a busy browser does not tell of each one
        assert len(untold) <= passed_over, "frames were not there"
        check_beeps(_without_stutter(report.beeps), seconds=range(SECONDS))
        assert report.serious_faults == ()


@pytest.mark.usefixtures("_qt")
async def test_qt_seeks_in_a_film_in_the_making(premiere: Premiere, copied_film: Path) -> None:
    async with premiere(copied_film) as show:
        assert await show.state() in {"queued", "processing"}
        steps: list[QtStep] = [PlayOn(until_s=1.0), SeekTo(to_s=15.0, tell=show.seek_address(15.0)), PlayOn()]
        report = await play_with_qt(show.player.auto, steps)
        assert (report.errors, report.timed_out) == ((), False)
        before = [one for one in report.frames if one.time_s < 8]
        after = [one for one in report.frames if one.time_s >= 8]
        check_every_frame_once(before, end=len(before), fps=FPS)
        check_after_seek(after, to_s=15.0)
