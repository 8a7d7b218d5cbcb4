"""Films, sources and gateways for the playback tests."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from app.media.film import StillsInfo
from app.media.plan import Plan
from app.playback.gateway import Gateway, GatewayTimings
from app.playback.memory import MemoryFilmSource
from app.playback.source import FilmLayout, film_layout

ROOT = str(Path(__file__).resolve().parents[2])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

from tests.playback.films import MEDIA, make_plan  # noqa: E402 (needs the path above)


@pytest.fixture
def plan() -> Plan:
    return make_plan()


@pytest.fixture
def layout(plan: Plan) -> FilmLayout:
    stills = StillsInfo(interval_ticks=900_000, columns=5, rows=5, tile_width=160, tile_height=90, count=2)
    return film_layout(plan, stills=stills)


@pytest.fixture
def source(layout: FilmLayout) -> MemoryFilmSource:
    memory = MemoryFilmSource()
    memory.add_film(MEDIA, layout)
    return memory


@pytest.fixture
async def gateway(source: MemoryFilmSource) -> AsyncIterator[Gateway]:
    server = Gateway(source, timings=GatewayTimings(beat_s=0.01, limit_s=5.0))
    await server.start()
    yield server
    await server.close()


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session:
        yield session
