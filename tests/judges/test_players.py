"""Real players on a small ladder: they judge the gateway here, and these tests judge the judges."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest
from aiohttp import web
from msgspec.structs import replace

from app.media.plan import TextTrack
from app.media.source import TICKS_PER_S
from app.media.text import Cue, format_webvtt
from app.playback.gateway import Gateway, GatewayTimings, PlayerAddresses
from app.playback.memory import MemoryFilmSource
from app.playback.source import INIT_NUMBER, film_layout
from tests.judges import ffmpeg_judge, hlsjs_judge, qt_judge
from tests.judges.ffmpeg_judge import play_after_seek, play_with_ffmpeg, probe_with_ffprobe
from tests.judges.hlsjs_judge import ChooseText, Fill, Look, Play, Seek, Step, SwitchLevel, play_with_hlsjs
from tests.judges.ladder import Ladder, make_ladder, put_ladder, put_segments
from tests.judges.qt_judge import PlayOn, SeekTo, Stall, play_with_qt
from tests.judges.seen import check_beeps, check_every_frame_once, check_frames_in_order, numbers_of, require_judge

pytestmark = [pytest.mark.judge, pytest.mark.slow]

MEDIA = "cd" * 16
BORDERS_S = (0, 1, 3, 5, 6)
FPS = 24
COUNT = BORDERS_S[-1] * FPS
WIDE, NARROW = "360", "180"


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """A film behind a gateway, with a player's addresses."""

    source: MemoryFilmSource
    gateway: Gateway
    addresses: PlayerAddresses


@pytest.fixture(scope="module")
def ladder() -> Ladder:
    return make_ladder(borders_s=BORDERS_S, fps=FPS)


@pytest.fixture
async def stage(ladder: Ladder) -> AsyncIterator[Stage]:
    source = MemoryFilmSource()
    source.add_film(MEDIA, ladder.layout)
    gateway = Gateway(source, timings=GatewayTimings(beat_s=0.2))
    await gateway.start()
    yield Stage(source=source, gateway=gateway, addresses=await gateway.open_session(MEDIA))
    await gateway.close()


@pytest.fixture
async def film(stage: Stage, ladder: Ladder) -> Stage:
    """Return a stage on which everything is made."""
    await put_ladder(stage.source, MEDIA, ladder)
    return stage


@pytest.fixture
async def alternating(stage: Stage, ladder: Ladder) -> Stage:
    """Return a stage on which each segment is made in one rendition only, in turn."""
    for piece in ladder.pieces:
        await stage.source.put(MEDIA, piece.name, INIT_NUMBER, piece.init)
        for number, data in enumerate(piece.segments):
            if piece.name not in {WIDE, NARROW} or piece.name == (WIDE, NARROW)[number % 2]:
                await stage.source.put(MEDIA, piece.name, number, data)
    return stage


@pytest.fixture
def _ffmpeg() -> None:
    require_judge(ffmpeg_judge.missing_tool())


@pytest.fixture
def _hlsjs() -> None:
    require_judge(hlsjs_judge.missing_tool())


@pytest.fixture
def _qt() -> None:
    require_judge(qt_judge.missing_tool())


@asynccontextmanager
async def seek_address(stage: Stage) -> AsyncIterator[Callable[[float], str]]:
    """Serve addresses that tell the gateway of a seek, as the player's window does through the engine."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        await stage.gateway.seek(stage.addresses.token, int(request.path.removeprefix("/")))
        return web.Response()

    runner = web.ServerRunner(web.Server(handle, access_log=None), shutdown_timeout=0.5)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield lambda to_s: f"http://127.0.0.1:{runner.addresses[0][1]}/{round(to_s * 1000)}"
    await runner.cleanup()


async def make_when_wanted(stage: Stage, ladder: Ladder) -> None:
    """Add what is asked for 0.6 to 1.2 s later, as an encoder would; runs until cancelled.

    The real time that passes is the point: the players must bear it.
    """
    pieces = {one.name: one for one in ladder.pieces}
    made = due = 0
    while True:
        for _, name, number in stage.source.wanted[made:due]:
            piece = pieces[name]
            await stage.source.put(MEDIA, name, number, piece.init if number == INIT_NUMBER else piece.segments[number])
        made, due = due, len(stage.source.wanted)
        await asyncio.sleep(0.6)


@pytest.fixture
async def in_the_making(stage: Stage, ladder: Ladder) -> AsyncIterator[Stage]:
    """Yield a stage on which nothing is made before it is asked for."""
    maker = asyncio.ensure_future(make_when_wanted(stage, ladder))
    yield stage
    maker.cancel()


@pytest.mark.usefixtures("_ffmpeg")
@pytest.mark.parametrize("variant", [0, 1])
async def test_ffmpeg_sees_every_frame_of_each_rendition_once(film: Stage, variant: int) -> None:
    report = await asyncio.to_thread(play_with_ffmpeg, film.addresses.master, variant=variant)
    check_every_frame_once(report.frames, end=COUNT, fps=FPS)
    check_beeps(report.beeps, seconds=range(BORDERS_S[-1]))
    assert report.messages == ""


@pytest.mark.usefixtures("_ffmpeg")
async def test_ffmpeg_sees_every_frame_once_when_renditions_alternate(alternating: Stage) -> None:
    report = await asyncio.to_thread(play_with_ffmpeg, alternating.addresses.auto)
    check_every_frame_once(report.frames, end=COUNT, fps=FPS)
    check_beeps(report.beeps, seconds=range(BORDERS_S[-1]))


@pytest.mark.usefixtures("_ffmpeg")
@pytest.mark.parametrize("seek_s", [4.2, 3.0, 0.5, 5.9])
@pytest.mark.parametrize("is_auto", [True, False])
async def test_ffmpeg_seeks_to_the_segment_that_holds_the_moment(film: Stage, seek_s: float, is_auto: bool) -> None:  # noqa: FBT001
    url = film.addresses.auto if is_auto else film.addresses.master
    report = await asyncio.to_thread(play_after_seek, url, seek_s=seek_s)
    start_s = max(border for border in BORDERS_S if border <= seek_s)
    check_every_frame_once(report.frames, first=start_s * FPS, end=COUNT, fps=FPS)


@pytest.mark.usefixtures("_ffmpeg")
async def test_ffmpeg_waits_for_what_is_in_the_making(in_the_making: Stage) -> None:
    report = await asyncio.to_thread(play_with_ffmpeg, in_the_making.addresses.auto)
    check_every_frame_once(report.frames, end=COUNT, fps=FPS)
    check_beeps(report.beeps, seconds=range(BORDERS_S[-1]))


@pytest.mark.usefixtures("_ffmpeg")
async def test_ffprobe_reads_length_and_streams(film: Stage) -> None:
    facts = await asyncio.to_thread(probe_with_ffprobe, film.addresses.master)
    assert float(facts["format"]["duration"]) == pytest.approx(BORDERS_S[-1], abs=0.05)
    widths = {one["width"] for one in facts["streams"] if one["codec_type"] == "video"}
    assert widths == {640, 320}
    assert [one["codec_name"] for one in facts["streams"] if one["codec_type"] == "audio"] == ["aac"]


@pytest.mark.usefixtures("_hlsjs")
async def test_hlsjs_sees_every_frame_once(film: Stage) -> None:
    report = await play_with_hlsjs(film.addresses.master, [Play(), Fill(end=COUNT, fps=FPS)])
    check_frames_in_order(report.frames, fps=FPS)
    assert set(numbers_of(report.frames)) | set(numbers_of(report.looked)) == set(range(COUNT))
    check_beeps(report.beeps, seconds=range(BORDERS_S[-1]))
    assert report.duration_s == pytest.approx(BORDERS_S[-1], abs=0.05)
    assert report.serious_faults == ()


@pytest.mark.usefixtures("_hlsjs")
async def test_hlsjs_switches_renditions_and_seeks(film: Stage) -> None:
    look = Look(at_s=tuple((number + 0.5) / FPS for number in (100, 3, 143, 72)))
    steps: list[hlsjs_judge.Step] = [
        *(Play(until_s=0.5), SwitchLevel(index=0), Play(until_s=3.5), Seek(to_s=1.7), Play(until_s=2.5), look)
    ]
    report = await play_with_hlsjs(film.addresses.master, steps, start_level=1)
    check_frames_in_order(report.frames[: 3 * FPS], fps=FPS)
    check_beeps(report.beeps, seconds=[0, 1, 2, 3, 2])
    assert {640, 320} <= set(report.widths)
    assert numbers_of(report.looked) == [100, 3, 143, 72]
    assert report.serious_faults == ()


@pytest.mark.usefixtures("_hlsjs")
async def test_hlsjs_waits_for_what_is_in_the_making(in_the_making: Stage) -> None:
    impatient = {"maxTimeToFirstByteMs": 500, "maxLoadTimeMs": 20_000, "timeoutRetry": None, "errorRetry": None}
    steps: list[hlsjs_judge.Step] = [Play(), Fill(end=COUNT, fps=FPS)]
    url = in_the_making.addresses.master
    report = await play_with_hlsjs(url, steps, fragLoadPolicy={"default": impatient})
    check_frames_in_order(report.frames, fps=FPS)
    assert set(numbers_of(report.frames)) | set(numbers_of(report.looked)) == set(range(COUNT))
    assert report.serious_faults == ()


@pytest.mark.usefixtures("_qt")
async def test_qt_sees_every_frame_once_when_renditions_alternate(alternating: Stage) -> None:
    report = await play_with_qt(alternating.addresses.auto, [PlayOn()])
    check_every_frame_once(report.frames, end=COUNT, fps=FPS)
    check_beeps(report.beeps, seconds=range(BORDERS_S[-1]))
    assert set(report.widths) == {640, 320}
    assert report.duration_s == pytest.approx(BORDERS_S[-1], abs=0.05)
    assert (report.errors, report.audio_tracks) == ((), 1)


@pytest.mark.usefixtures("_qt")
async def test_qt_seeks_forward_and_back(film: Stage) -> None:
    steps: list[qt_judge.QtStep] = [
        *(PlayOn(until_s=0.5), SeekTo(to_s=3.7), PlayOn(until_s=4.5), SeekTo(to_s=1.7), PlayOn(until_s=2.5))
    ]
    report = await play_with_qt(film.addresses.auto, steps)
    for start_s, end_s in [(0, 1), (3, 5), (1, 3)]:
        check_frames_in_order([one for one in report.frames if start_s <= one.time_s < end_s], fps=FPS)
    assert set(range(12)) | set(range(90, 108)) | set(range(42, 60)) <= set(numbers_of(report.frames))
    check_beeps(report.beeps, seconds=[0, 2, 4])
    assert not report.timed_out


@pytest.mark.usefixtures("_qt")
@pytest.mark.parametrize("to_s", [5.5, 0.5])
async def test_qt_seeks_away_from_a_segment_that_does_not_come(stage: Stage, ladder: Ladder, to_s: float) -> None:
    await put_ladder(stage.source, MEDIA, ladder, [0, 3])
    async with seek_address(stage) as tell:
        steps: list[qt_judge.QtStep] = [
            *(Stall(quiet_s=0.5), SeekTo(to_s=to_s, tell=tell(to_s)), PlayOn(until_s=to_s + 0.3))
        ]
        report = await play_with_qt(stage.addresses.auto, steps, limit_s=20)
    assert not report.timed_out
    assert report.frames[-1].number == pytest.approx((to_s + 0.3) * FPS, abs=2)
    assert report.errors == ()


@pytest.mark.usefixtures("_qt")
async def test_qt_waits_for_what_is_in_the_making(in_the_making: Stage) -> None:
    report = await play_with_qt(in_the_making.addresses.auto, [PlayOn()])
    check_every_frame_once(report.frames, end=COUNT, fps=FPS)
    assert report.errors == ()


async def test_the_judges_notice_a_missing_segment(film: Stage, ladder: Ladder) -> None:
    """A judge that cannot say no is no judge."""
    require_judge(ffmpeg_judge.missing_tool())
    for piece in ladder.pieces:
        await film.source.put(MEDIA, piece.name, 1, piece.segments[2])
    await put_segments(film.source, MEDIA, ladder, [0])
    report = await asyncio.to_thread(play_with_ffmpeg, film.addresses.auto)
    with pytest.raises(AssertionError, match=r"came after|missing"):
        check_every_frame_once(report.frames, end=COUNT, fps=FPS)


@pytest.fixture
async def with_text(film: Stage, ladder: Ladder) -> Stage:
    """Return a stage whose film has two text tracks, of which the second one is not made yet."""
    tracks = (
        TextTrack(name="t0", codec="subrip", label="English", language="en"),
        TextTrack(name="t1", codec="subrip", label="Deutsch", language="de"),
    )
    plan = replace(ladder.layout.plan, text=tracks)
    layout = film_layout(plan, measured=ladder.layout.rates, is_complete=True)
    film.source.add_film(MEDIA, layout)
    await film.source.put(MEDIA, "t0", 0, text_of("Hello <i>you</i> &amp; me", "last"))
    return film


def text_of(*words: str) -> bytes:
    """Return a text track whose nth text is shown from second n + 0.5 for a second."""
    cues = [
        Cue(start_ticks=number * TICKS_PER_S + 45_000, end_ticks=(number + 1) * TICKS_PER_S + 45_000, text=text)
        for number, text in enumerate(words)
    ]
    return format_webvtt(cues).encode()


@pytest.mark.usefixtures("_hlsjs")
async def test_hlsjs_shows_text_at_its_time_and_waits_for_what_is_being_made(with_text: Stage) -> None:
    async def make_later() -> None:
        while (MEDIA, "t1", 0) not in with_text.source.wanted:  # noqa: ASYNC110 (a plain list tells nobody)
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)  # the time that passes is the point: the player must bear it
        await with_text.source.put(MEDIA, "t1", 0, text_of("Hallo", "zwei", "drei"))

    making = asyncio.ensure_future(make_later())
    steps: list[Step] = [Play(until_s=0.5), ChooseText(index=0, cues=2), ChooseText(index=1, cues=3), Play(until_s=2.5)]
    report = await play_with_hlsjs(with_text.addresses.master, steps, renderTextTracksNatively=True)
    await making
    assert report.serious_faults == ()
    english, german = report.text
    assert (english.name, english.language) == ("English", "en")
    assert [(one.start_s, one.end_s, one.text) for one in english.cues] == [
        (0.5, 1.5, "Hello <i>you</i> &amp; me"),
        (1.5, 2.5, "last"),
    ]
    assert [(one.start_s, one.text) for one in german.cues] == [(0.5, "Hallo"), (1.5, "zwei"), (2.5, "drei")]
