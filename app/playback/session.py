"""What the gateway remembers of one player: its film, its measured rate, its waiting requests, its last seek."""

from __future__ import annotations

import asyncio

from app.playback.adaptation import MeasuredRate
from app.playback.source import INIT_NUMBER

SEEK_WINDOW_S = 5.0
"""How long after a seek requests for other missing segments are taken for leftovers of the old place."""


class PlayerSession:
    """One open player. Lives on the gateway's event loop; ``now`` is the loop's time in seconds."""

    def __init__(self, *, token: str, media_id: str) -> None:
        self.token = token
        self.media_id = media_id
        self.rate: MeasuredRate | None = None
        self.auto_init: str | None = None
        """The rendition whose init section the auto playlist got; it must stay the same one."""
        self._waits: dict[asyncio.Future[bytes], int] = {}
        self._seek_target = INIT_NUMBER
        self._seek_ends_at = 0.0
        self._arrived: set[str] = set()
        """Renditions and tracks that were asked for the segment of the last seek."""

    @property
    def waiting(self) -> tuple[int, ...]:
        """Numbers of the segments that are waited for."""
        return tuple(self._waits.values())

    def begin_wait(self, fetch: asyncio.Future[bytes], number: int) -> None:
        """Remember a request that waits for segment ``number``; cancelling ``fetch`` closes it."""
        self._waits[fetch] = number
        fetch.add_done_callback(self._forget)

    def _forget(self, fetch: asyncio.Future[bytes]) -> None:
        del self._waits[fetch]
        if not fetch.cancelled():
            fetch.exception()  # seen: when the player is gone, nobody else asks for it

    def seek(self, target: int, *, now: float) -> None:
        """Close all waits but those for segment ``target`` and for init sections."""
        self._seek_target = target
        self._seek_ends_at = now + SEEK_WINDOW_S
        self._arrived.clear()
        for fetch, number in tuple(self._waits.items()):
            if number not in {target, INIT_NUMBER}:
                fetch.cancel()

    def is_left_behind(self, name: str, number: int, *, now: float) -> bool:
        """Whether a request for the segment ``number``, if it is missing, belongs to the place a seek just left.

        FFmpeg, when its wait is closed, asks for the next segment before it looks at the seek, and would hang in that
        wait instead (QMediaPlayer was seen to, for good). For each rendition and track the
        first request for the target ends the seek.
        """
        if number == self._seek_target:
            self._arrived.add(name)
        return number != INIT_NUMBER and name not in self._arrived and now < self._seek_ends_at

    def end(self) -> None:
        """Close all waits."""
        for fetch in tuple(self._waits):
            fetch.cancel()
