"""The memory source keeps the contract of film sources."""

from __future__ import annotations

import pytest

from app.core.errors import ErrorCode, ExpectedError
from app.media.film import RenditionRate
from app.playback.memory import MemoryFilmSource
from app.playback.source import FilmLayout, FilmSource, StillKind, film_layout
from tests.playback.films import MEDIA, make_plan
from tests.playback.source_contract import FilmSourceContract, FilmStage


class MemoryStage:
    def __init__(self, source: MemoryFilmSource) -> None:
        self.source: FilmSource = source
        self._memory = source
        self.media_id = MEDIA
        self.name = "720"

    async def make(self, number: int, data: bytes) -> None:
        await self._memory.put(MEDIA, self.name, number, data)

    async def pause(self) -> None:
        await self._memory.set_paused(MEDIA, paused=True)


class TestMemoryFilmSource(FilmSourceContract):
    @pytest.fixture
    def stage(self, source: MemoryFilmSource) -> FilmStage:
        return MemoryStage(source)


async def test_asking_for_a_missing_piece_is_noted_as_wanted(source: MemoryFilmSource) -> None:
    await source.set_paused(MEDIA, paused=True)
    with pytest.raises(ExpectedError):
        await source.segment(MEDIA, "720", 2)
    assert source.wanted == [(MEDIA, "720", 2)]


async def test_a_still_that_does_not_exist_yet_is_not_done(source: MemoryFilmSource) -> None:
    source.add_film("x", film_layout(make_plan()))
    with pytest.raises(ExpectedError) as caught:
        await source.still("x", StillKind.POSTER, 0)
    assert caught.value.code is ErrorCode.NOT_DONE


def test_measured_rates_replace_planned_ones() -> None:
    measured = RenditionRate(name="360", peak=5, average=4)
    layout = film_layout(make_plan(), measured=[measured])
    assert layout.rate("360") == measured
    assert layout.rate("720").peak == 3_000_000
    assert layout.rate("a0").peak == 160_000


def test_a_layout_knows_its_names(layout: FilmLayout) -> None:
    assert layout.has("720")
    assert layout.has("a0")
    assert not layout.has("auto")
    with pytest.raises(KeyError):
        layout.rate("auto")
