"""Reads the pieces that players ask for, and picks the rendition where the gateway adapts itself."""

from __future__ import annotations

import asyncio

from app.core.errors import ErrorCode, ExpectedError
from app.playback.adaptation import Offer, choose_rendition, next_rate
from app.playback.addresses import AUTO, PieceAddress
from app.playback.session import PlayerSession
from app.playback.source import INIT_NUMBER, FilmLayout, FilmSource

_AT_ONCE_S = 0.05
"""A first segment that comes within this may be replaced by a better one without the viewer noticing."""


class PieceReader:
    """Reads pieces of a film for a session, whose measured rate it keeps up to date."""

    def __init__(self, source: FilmSource) -> None:
        self._source = source

    async def is_made(self, session: PlayerSession, layout: FilmLayout, piece: PieceAddress) -> bool:
        """Whether ``read`` would answer without waiting for work."""
        if piece.name != AUTO:
            return await self._source.is_made(session.media_id, piece.name, piece.number)
        if piece.number == INIT_NUMBER and session.auto_init is not None:
            return await self._source.is_made(session.media_id, session.auto_init, piece.number)
        return (await self._choose(session, layout, piece.number)).is_made

    async def read(self, session: PlayerSession, layout: FilmLayout, piece: PieceAddress) -> bytes:
        """Return the piece, waiting until it is made; raises like ``FilmSource.segment``."""
        if piece.name != AUTO:
            data = await self._read(session, piece.name, piece.number)
        elif piece.number == INIT_NUMBER:
            data = await self._fetch_auto_init(session, layout)
        else:
            data = await self._fetch_auto_segment(session, layout, piece.number)
        check_plan(await self._source.layout(session.media_id), piece.plan_hash, piece.name)
        return data

    async def _fetch_auto_init(self, session: PlayerSession, layout: FilmLayout) -> bytes:
        if session.auto_init is None:
            session.auto_init = (await self._choose(session, layout, INIT_NUMBER)).name
        return await self._read(session, session.auto_init, INIT_NUMBER)

    async def _fetch_auto_segment(self, session: PlayerSession, layout: FilmLayout, number: int) -> bytes:
        """Fetch the rendition of choice, and choose once more when the first choice was made knowing little.

        That is so when the segment had to be made (better ones may have been finished with it), and for the first
        segment of all (only now something is measured; a better one is fetched only if this one came at once).
        """
        choice = await self._choose(session, layout, number)
        is_first = session.rate is None
        started_at = asyncio.get_running_loop().time()
        data = await self._read_measured(session, choice, number)
        came_at_once = asyncio.get_running_loop().time() - started_at <= _AT_ONCE_S
        if choice.is_made and not (is_first and came_at_once):
            return data
        better = await self._choose(session, layout, number)
        if better.name == choice.name or not better.is_made:
            return data
        return await self._read_measured(session, better, number)

    async def _read_measured(self, session: PlayerSession, choice: Offer, number: int) -> bytes:
        loop = asyncio.get_running_loop()
        started_at = loop.time()
        data = await self._read(session, choice.name, number)
        if choice.is_made:
            session.rate = next_rate(session.rate, size_bytes=len(data), duration_s=loop.time() - started_at)
        return data

    async def _read(self, session: PlayerSession, name: str, number: int) -> bytes:
        if number == INIT_NUMBER:
            return await self._source.init_section(session.media_id, name)
        return await self._source.segment(session.media_id, name, number)

    async def _choose(self, session: PlayerSession, layout: FilmLayout, number: int) -> Offer:
        offers = [
            Offer(
                name=one.name,
                peak=layout.rate(one.name).peak,
                is_made=await self._source.is_made(session.media_id, one.name, number),
                work=layout.plan.set_of(one.name).weight,
            )
            for one in layout.plan.renditions
        ]
        return choose_rendition(offers, session.rate)


def check_plan(layout: FilmLayout, plan_hash: str | None, name: str) -> None:
    """Raise ``ExpectedError`` no-such-id unless ``name`` is of the film's present plan."""
    if plan_hash != layout.plan_hash or not (name == AUTO or layout.has(name)):
        raise ExpectedError(ErrorCode.NO_SUCH_ID, "The film was planned anew; load its playlist again.")


def check_piece(layout: FilmLayout, piece: PieceAddress) -> None:
    """Raise ``ExpectedError`` no-such-id unless the film has ``piece`` under its present plan."""
    check_plan(layout, piece.plan_hash, piece.name)
    if piece.is_text != layout.is_text(piece.name) or (piece.is_text and piece.number):
        raise ExpectedError(ErrorCode.NO_SUCH_ID, "The film has no such piece; load its playlist again.")
    if piece.number >= layout.plan.segment_count:
        raise ExpectedError(ErrorCode.NO_SUCH_ID, f"The film has {layout.plan.segment_count} segments.")
