"""A film source in memory: for tests, and as the reference of what ``FilmSource`` promises."""

from __future__ import annotations

import asyncio

from app.core.errors import ErrorCode, ExpectedError
from app.playback.source import INIT_NUMBER, FilmLayout, StillKind

PieceKey = tuple[str, str, int]
"""(media id, rendition or track, segment number)."""


class MemoryFilmSource:
    """Films whose pieces are put in by hand, at once or later."""

    def __init__(self) -> None:
        self._layouts: dict[str, FilmLayout] = {}
        self._pieces: dict[PieceKey, bytes] = {}
        self._stills: dict[PieceKey, bytes] = {}
        self._failures: dict[PieceKey, ExpectedError] = {}
        self._paused: set[str] = set()
        self._changed = asyncio.Condition()
        self.wanted: list[PieceKey] = []
        """Pieces that were asked for before they existed, in the order of asking."""

    def add_film(self, media_id: str, layout: FilmLayout) -> None:
        """Make a film known, or give it another layout."""
        self._layouts[media_id] = layout

    def put_still(self, media_id: str, kind: StillKind, number: int, data: bytes) -> None:
        """Add a poster or sheet."""
        self._stills[media_id, kind, number] = data

    async def put(self, media_id: str, name: str, number: int, data: bytes) -> None:
        """Add a piece and wake who waits for it."""
        async with self._changed:
            self._pieces[media_id, name, number] = data
            self._changed.notify_all()

    async def fail(self, media_id: str, name: str, number: int, error: ExpectedError) -> None:
        """Let a piece raise ``error``, also for who waits already."""
        async with self._changed:
            self._failures[media_id, name, number] = error
            self._changed.notify_all()

    async def set_paused(self, media_id: str, *, paused: bool) -> None:
        """Pause or resume the making of a film; who waits is told not-done."""
        async with self._changed:
            (self._paused.add if paused else self._paused.discard)(media_id)
            self._changed.notify_all()

    async def layout(self, media_id: str) -> FilmLayout:
        if media_id not in self._layouts:
            raise ExpectedError(
                ErrorCode.NO_SUCH_ID, f"There is no film with the id “{media_id}”; list the library first."
            )
        return self._layouts[media_id]

    async def init_section(self, media_id: str, name: str) -> bytes:
        return await self._piece(media_id, name, INIT_NUMBER)

    async def segment(self, media_id: str, name: str, number: int) -> bytes:
        return await self._piece(media_id, name, number)

    async def is_made(self, media_id: str, name: str, number: int) -> bool:
        await self._check(media_id, name, number)
        return (media_id, name, number) in self._pieces

    async def is_paused(self, media_id: str) -> bool:
        await self.layout(media_id)
        return media_id in self._paused

    async def still(self, media_id: str, kind: StillKind, number: int) -> bytes:
        layout = await self.layout(media_id)
        try:
            return self._stills[media_id, kind, number]
        except KeyError:
            code = ErrorCode.NO_SUCH_ID if layout.has_stills else ErrorCode.NOT_DONE
            raise ExpectedError(code, f"There is no {kind} {number} of this film (yet); try again later.") from None

    async def _check(self, media_id: str, name: str, number: int) -> None:
        layout = await self.layout(media_id)
        if not layout.has_piece(name, number):
            raise ExpectedError(
                ErrorCode.NO_SUCH_ID, f"This film has no piece {name}/{number}; load its playlist again."
            )

    async def _piece(self, media_id: str, name: str, number: int) -> bytes:
        await self._check(media_id, name, number)
        key = (media_id, name, number)
        if key not in self._pieces:
            self.wanted.append(key)
        async with self._changed:
            await self._changed.wait_for(lambda: self._is_settled(key))
        if key in self._failures:
            raise self._failures[key]
        if key not in self._pieces:
            raise ExpectedError(ErrorCode.NOT_DONE, "This film is paused; resume its job to go on watching.")
        return self._pieces[key]

    def _is_settled(self, key: PieceKey) -> bool:
        return key in self._pieces or key in self._failures or key[0] in self._paused
