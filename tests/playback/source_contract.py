"""What every ``FilmSource`` must do; subclass ``FilmSourceContract`` and give it a ``stage`` fixture.

The stage holds one film in the making, with at least three segments of one rendition of which none is made yet.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

import pytest

from app.core.errors import ErrorCode, ExpectedError
from app.playback.source import INIT_NUMBER, FilmSource


class FilmStage(Protocol):
    """A source, and the hand that makes its film."""

    source: FilmSource
    media_id: str
    name: str

    async def make(self, number: int, data: bytes) -> None:
        """Let a piece come into being."""
        ...

    async def pause(self) -> None:
        """Pause the film's job."""
        ...


class FilmSourceContract:
    """One suite for the memory and the real source."""

    async def test_a_missing_segment_is_waited_for(self, stage: FilmStage) -> None:
        assert not await stage.source.is_made(stage.media_id, stage.name, 1)
        waiting = asyncio.ensure_future(stage.source.segment(stage.media_id, stage.name, 1))
        await asyncio.sleep(0)
        assert not waiting.done()
        await stage.make(1, b"one")
        assert await asyncio.wait_for(waiting, 5) == b"one"
        assert await stage.source.is_made(stage.media_id, stage.name, 1)

    async def test_an_init_section_has_a_number_of_its_own(self, stage: FilmStage) -> None:
        assert not await stage.source.is_made(stage.media_id, stage.name, INIT_NUMBER)
        await stage.make(INIT_NUMBER, b"init")
        assert await stage.source.is_made(stage.media_id, stage.name, INIT_NUMBER)
        assert await stage.source.init_section(stage.media_id, stage.name) == b"init"

    async def test_a_wait_can_be_cancelled_without_harm(self, stage: FilmStage) -> None:
        waiting = asyncio.ensure_future(stage.source.segment(stage.media_id, stage.name, 2))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await stage.make(2, b"two")
        assert await stage.source.segment(stage.media_id, stage.name, 2) == b"two"

    async def test_a_pause_ends_waits_with_not_done(self, stage: FilmStage) -> None:
        waiting = asyncio.ensure_future(stage.source.segment(stage.media_id, stage.name, 0))
        await asyncio.sleep(0)
        assert not await stage.source.is_paused(stage.media_id)
        await stage.pause()
        assert await stage.source.is_paused(stage.media_id)
        with pytest.raises(ExpectedError) as caught:
            await asyncio.wait_for(waiting, 5)
        assert caught.value.code is ErrorCode.NOT_DONE

    @pytest.mark.parametrize(
        ("media_id", "name", "number"), [("0" * 32, "", 0), ("", "nothing", 0), ("", "", 1_000_000), ("", "", -2)]
    )
    async def test_what_is_not_there_is_no_such_id(
        self, stage: FilmStage, media_id: str, name: str, number: int
    ) -> None:
        with pytest.raises(ExpectedError) as caught:
            await stage.source.segment(media_id or stage.media_id, name or stage.name, number)
        assert caught.value.code is ErrorCode.NO_SUCH_ID
