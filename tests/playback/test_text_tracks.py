"""Text tracks as players get them: listed, one WebVTT segment each, and waited for while they are made."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest
from msgspec.structs import replace

from app.media.plan import TextTrack
from app.media.source import TICKS_PER_S
from app.media.text import WEBVTT_BEAT, WEBVTT_HEAD, Cue, format_webvtt, parse_webvtt
from app.playback.addresses import PieceAddress, format_text_piece, parse_address
from app.playback.gateway import Gateway, GatewayTimings
from app.playback.memory import MemoryFilmSource
from app.playback.playlists import format_auto_master, format_master, format_media
from app.playback.source import FilmLayout, film_layout
from tests.playback.films import MEDIA, make_plan

CUES = (Cue(start_ticks=TICKS_PER_S, end_ticks=2 * TICKS_PER_S, text="Hello"),)
BODY = format_webvtt(CUES).encode()


def track(name: str, label: str, language: str = "", *, is_default: bool = False, is_forced: bool = False) -> TextTrack:
    return TextTrack(
        name=name, codec="subrip", label=label, language=language, is_default=is_default, is_forced=is_forced
    )


@pytest.fixture
def layout() -> FilmLayout:
    english = track("t0", 'En"glish', "en", is_default=True)
    german = track("t1", "Deutsch", "de", is_forced=True)
    deaf = replace(track("t2", "Deutsch", is_default=True), is_hearing_impaired=True)
    return film_layout(replace(make_plan(), text=(english, german, deaf)))


@pytest.fixture
async def source(layout: FilmLayout) -> MemoryFilmSource:
    source = MemoryFilmSource()
    source.add_film(MEDIA, layout)
    return source


@pytest.fixture
async def gateway(source: MemoryFilmSource) -> AsyncIterator[Gateway]:
    server = Gateway(source, timings=GatewayTimings(beat_s=0.02))
    await server.start()
    yield server
    await server.close()


@pytest.fixture
async def root(gateway: Gateway, layout: FilmLayout) -> str:
    master = (await gateway.open_session(MEDIA)).master
    return master.removesuffix("master.m3u8") + layout.plan_hash


def test_text_tracks_are_listed_with_what_is_known_of_them(layout: FilmLayout) -> None:
    text = format_master(layout)
    lines = [one for one in text.splitlines() if "TYPE=SUBTITLES" in one]
    assert len({one.split('NAME="')[1].split('"')[0] for one in lines}) == 3
    assert [one.count("DEFAULT=YES") for one in lines] == [1, 0, 0]
    assert [one.count("FORCED=YES") for one in lines] == [0, 1, 0]
    assert ['LANGUAGE="' in one for one in lines] == [True, True, False]
    assert ["transcribes-spoken-dialog" in one for one in lines] == [False, False, True]
    variants = [one for one in text.splitlines() if one.startswith("#EXT-X-STREAM-INF")]
    assert all(one.endswith(',SUBTITLES="text"') for one in variants)


def test_the_desktop_player_draws_text_itself(layout: FilmLayout) -> None:
    assert "SUBTITLES" not in format_auto_master(layout)


def test_a_track_that_could_not_be_made_is_not_offered(layout: FilmLayout) -> None:
    text = format_master(replace(layout, lacking=frozenset({"t0", "t1"})))
    assert text.count("TYPE=SUBTITLES") == 1
    assert "SUBTITLES" not in format_master(replace(layout, lacking=frozenset({"t0", "t1", "t2"})))


def test_a_text_track_is_one_segment_as_long_as_the_film(layout: FilmLayout) -> None:
    assert format_media(layout, "t0") == (
        "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-INDEPENDENT-SEGMENTS\n#EXT-X-TARGETDURATION:17\n#EXT-X-MEDIA-SEQUENCE:0\n"
        "#EXT-X-PLAYLIST-TYPE:VOD\n#EXTINF:16.666678,\n0.vtt\n#EXT-X-ENDLIST\n"
    )


def test_the_address_of_a_text_track_is_read_back() -> None:
    address = parse_address(format_text_piece("0123456789abcdef", "t0"))
    assert address == PieceAddress(plan_hash="0123456789abcdef", name="t0", number=0, is_text=True)


async def test_a_made_track_is_served_as_webvtt(
    root: str, source: MemoryFilmSource, client: aiohttp.ClientSession
) -> None:
    await source.put(MEDIA, "t0", 0, BODY)
    async with client.get(root + "/t0/0.vtt") as answer:
        assert answer.headers["Content-Type"] == "text/vtt; charset=utf-8"
        assert await answer.read() == BODY


async def test_a_track_in_the_making_is_waited_for_as_well_formed_webvtt(
    root: str, source: MemoryFilmSource, client: aiohttp.ClientSession
) -> None:
    async with client.get(root + "/t0/0.vtt") as answer:
        begun = await answer.content.readexactly(len(WEBVTT_HEAD + WEBVTT_BEAT))
        assert begun.decode() == WEBVTT_HEAD + WEBVTT_BEAT
        await source.put(MEDIA, "t0", 0, BODY)
        whole = (begun + await answer.read()).decode()
    assert whole.count("WEBVTT") == 1
    assert parse_webvtt(whole) == CUES


async def test_a_seek_does_not_close_the_wait_for_text(
    gateway: Gateway, root: str, source: MemoryFilmSource, client: aiohttp.ClientSession
) -> None:
    token = root.split("/")[3]
    async with client.get(root + "/t0/0.vtt") as answer:
        await answer.content.readexactly(len(WEBVTT_HEAD))
        await gateway.seek(token, 15_000)
        await source.put(MEDIA, "t0", 0, BODY)
        assert parse_webvtt((await answer.read()).decode()) == CUES


@pytest.mark.parametrize("piece", ["t0/1.vtt", "t0/0.m4s", "t0/init.mp4", "720/0.vtt", "a0/0.vtt", "t9/0.vtt"])
async def test_other_pieces_of_text_are_404(root: str, client: aiohttp.ClientSession, piece: str) -> None:
    async with client.get(f"{root}/{piece}") as answer:
        assert answer.status == 404
