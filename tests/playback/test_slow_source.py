"""What is made, but far away: a peer's vault behind a slow link."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest

from app.playback.answers import FREE_BOX
from app.playback.gateway import Gateway, GatewayTimings
from app.playback.memory import MemoryFilmSource
from app.playback.source import FilmLayout, FilmSource, StillKind
from tests.playback.films import MEDIA

BODY = b"720" * 1000


class FarFilmSource:
    """A source whose segments come when the way is opened, or ``delay_s`` after they were asked for."""

    def __init__(self, near: FilmSource) -> None:
        self._near = near
        self.way = asyncio.Event()
        self.delay_s = 0.0

    async def layout(self, media_id: str) -> FilmLayout:
        return await self._near.layout(media_id)

    async def init_section(self, media_id: str, name: str) -> bytes:
        return await self._near.init_section(media_id, name)

    async def segment(self, media_id: str, name: str, number: int) -> bytes:
        await self.way.wait()
        await asyncio.sleep(self.delay_s)
        return await self._near.segment(media_id, name, number)

    async def is_made(self, media_id: str, name: str, number: int) -> bool:
        return await self._near.is_made(media_id, name, number)

    async def is_paused(self, media_id: str) -> bool:
        return await self._near.is_paused(media_id)

    async def still(self, media_id: str, kind: StillKind, number: int) -> bytes:
        return await self._near.still(media_id, kind, number)


@pytest.fixture
def far(source: MemoryFilmSource) -> FarFilmSource:
    return FarFilmSource(source)


@pytest.fixture
async def gateway(far: FarFilmSource, source: MemoryFilmSource) -> AsyncIterator[Gateway]:
    await source.put(MEDIA, "720", 1, BODY)
    server = Gateway(far, timings=GatewayTimings(beat_s=0.01))
    await server.start()
    yield server
    await server.close()


@pytest.fixture
async def token(gateway: Gateway) -> str:
    return (await gateway.open_session(MEDIA)).token


@pytest.fixture
def root(gateway: Gateway, token: str, layout: FilmLayout) -> str:
    return f"http://127.0.0.1:{gateway.port}/{token}/{layout.plan_hash}/"


async def test_a_slow_read_of_what_is_made_is_kept_alive(
    far: FarFilmSource, root: str, client: aiohttp.ClientSession
) -> None:
    async with client.get(root + "720/1.m4s") as answer:
        assert await answer.content.readexactly(16) == FREE_BOX
        far.way.set()
        assert (await answer.read()).endswith(BODY)


async def test_a_pause_does_not_cut_the_read_of_what_is_made(
    far: FarFilmSource, source: MemoryFilmSource, root: str, client: aiohttp.ClientSession
) -> None:
    await source.set_paused(MEDIA, paused=True)
    async with client.get(root + "720/1.m4s") as answer:
        assert await answer.content.readexactly(48) == FREE_BOX * 3
        far.way.set()
        assert (await answer.read()).endswith(BODY)


async def test_a_seek_cuts_the_slow_read_it_leaves_behind(
    gateway: Gateway, token: str, root: str, client: aiohttp.ClientSession
) -> None:
    async with client.get(root + "720/1.m4s") as answer:
        await answer.content.readexactly(16)
        await gateway.seek(token, 15_000)
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()


async def test_a_first_segment_that_did_not_come_at_once_is_served_low(
    far: FarFilmSource, source: MemoryFilmSource, root: str, client: aiohttp.ClientSession
) -> None:
    await source.put(MEDIA, "360", 1, b"360" * 100_000)
    far.delay_s = 0.1
    far.way.set()
    async with client.get(root + "auto/1.m4s") as answer:
        assert (await answer.read()).endswith(b"360")
