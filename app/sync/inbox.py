"""What has arrived on a channel and was not received yet, bounded so that a slow reader slows its peer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from app.sync.channel import ChannelClosedError

INBOX_BYTES: Final = 8 * 1024 * 1024
"""From here on the transport stops reading."""
_MESSAGE_OVERHEAD: Final = 100


class Inbox:
    """Messages in order, then the error that ended them."""

    def __init__(self, *, on_room: Callable[[], None] = lambda: None, most_bytes: int = INBOX_BYTES) -> None:
        """``on_room`` is called when a full inbox has room again."""
        self._messages: deque[bytes] = deque()
        self._held_bytes = 0
        self._most_bytes = most_bytes
        self._on_room = on_room
        self._ended: ChannelClosedError | None = None
        self._changed = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """Whether the transport should stop reading; what is put nevertheless is kept."""
        return self._held_bytes >= self._most_bytes

    @property
    def ended(self) -> ChannelClosedError | None:
        """Why nothing more arrives; None while something may."""
        return self._ended

    def put(self, message: bytes) -> None:
        """Add a message; what comes after the end is dropped."""
        if self._ended is None:
            self._messages.append(message)
            self._held_bytes += len(message) + _MESSAGE_OVERHEAD
            self._changed.set()

    def end(self, error: ChannelClosedError) -> None:
        """Say why nothing more arrives; what has arrived is still received. Only the first reason counts."""
        self._ended = self._ended or error
        self._changed.set()

    def discard(self, error: ChannelClosedError) -> None:
        """End, and forget what has arrived."""
        self._messages.clear()
        self._held_bytes = 0
        self._ended = self._ended or error
        self._changed.set()

    async def receive(self) -> bytes:
        """Return the next message; raises why it ended when there is none any more."""
        while not self._messages:
            if self._ended is not None:
                raise self._ended.again()
            self._changed.clear()
            await self._changed.wait()
        return self._take()

    def _take(self) -> bytes:
        was_full = self.is_full
        message = self._messages.popleft()
        self._held_bytes -= len(message) + _MESSAGE_OVERHEAD
        if was_full and not self.is_full:
            self._on_room()
        return message
