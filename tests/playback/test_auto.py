"""The auto playlist's pieces: which rendition's bytes they are."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from app.playback.adaptation import MeasuredRate
from app.playback.answers import FREE_BOX
from app.playback.gateway import Gateway
from app.playback.memory import MemoryFilmSource
from app.playback.source import INIT_NUMBER, FilmLayout
from tests.playback.films import MEDIA, until


class AutoViewer:
    """A player of the auto playlist."""

    def __init__(self, gateway: Gateway, client: aiohttp.ClientSession, layout: FilmLayout, token: str) -> None:
        self.session = gateway._sessions[token]
        self._client = client
        self._root = f"http://127.0.0.1:{gateway.port}/{token}/{layout.plan_hash}/auto/"

    async def read(self, piece: str) -> bytes:
        """Return the bytes of a piece, without what was sent while waiting."""
        async with self._client.get(self._root + piece) as answer:
            body = await answer.read()
            while body.startswith(FREE_BOX):
                body = body.removeprefix(FREE_BOX)
            return body

    def set_rate(self, bits_per_s: float) -> None:
        self.session.rate = MeasuredRate(fast=bits_per_s, slow=bits_per_s)


@pytest.fixture
async def viewer(gateway: Gateway, client: aiohttp.ClientSession, layout: FilmLayout) -> AutoViewer:
    return AutoViewer(gateway, client, layout, (await gateway.open_session(MEDIA)).token)


async def put_both(source: MemoryFilmSource, number: int) -> None:
    for name in ("720", "360"):
        await source.put(MEDIA, name, number, name.encode() * 100)


async def test_a_fast_source_gives_the_best_from_the_second_segment_at_the_latest(
    viewer: AutoViewer, source: MemoryFilmSource
) -> None:
    for number in (0, 1):
        await source.put(MEDIA, "720", number, b"720" * 100_000)
        await source.put(MEDIA, "360", number, b"360" * 100_000)
    await viewer.read("0.m4s")
    assert (await viewer.read("1.m4s")).startswith(b"720")
    assert viewer.session.rate is not None


async def test_a_slow_source_gives_what_it_bears(viewer: AutoViewer, source: MemoryFilmSource) -> None:
    await put_both(source, 1)
    viewer.set_rate(2_000_000)
    assert (await viewer.read("1.m4s")).startswith(b"360")


async def test_what_is_made_comes_before_what_is_better(viewer: AutoViewer, source: MemoryFilmSource) -> None:
    await source.put(MEDIA, "360", 1, b"360")
    viewer.set_rate(1e9)
    assert await viewer.read("1.m4s") == b"360"
    assert source.wanted == []


async def test_of_what_is_made_while_waiting_the_best_is_served(viewer: AutoViewer, source: MemoryFilmSource) -> None:
    viewer.set_rate(1e9)
    reading = asyncio.ensure_future(viewer.read("2.m4s"))
    await until(lambda: bool(source.wanted))
    assert source.wanted == [(MEDIA, "360", 2)]
    await source.put(MEDIA, "720", 2, b"720")
    await source.put(MEDIA, "360", 2, b"360")
    assert await reading == b"720"


async def test_waiting_for_work_is_not_measured(viewer: AutoViewer, source: MemoryFilmSource) -> None:
    reading = asyncio.ensure_future(viewer.read("2.m4s"))
    await until(lambda: bool(source.wanted))
    await source.put(MEDIA, "360", 2, b"360")
    assert await reading == b"360"
    assert viewer.session.rate is None


async def test_the_init_section_stays_the_same_one(viewer: AutoViewer, source: MemoryFilmSource) -> None:
    await source.put(MEDIA, "720", INIT_NUMBER, b"init of 720")
    assert await viewer.read("init.mp4") == b"init of 720"
    await source.put(MEDIA, "360", INIT_NUMBER, b"init of 360")
    assert await viewer.read("init.mp4") == b"init of 720"


async def test_a_missing_init_section_is_waited_for(viewer: AutoViewer, source: MemoryFilmSource) -> None:
    reading = asyncio.ensure_future(viewer.read("init.mp4"))
    await until(lambda: bool(source.wanted))
    await source.put(MEDIA, "360", INIT_NUMBER, b"init of 360")
    assert await reading == b"init of 360"
