"""Frames on the direct channel's stream: one byte of kind, three of length (big-endian), then the body.

No I/O: bytes are written where ``FrameDecoder.room`` points, and ``wrote`` gives the frame that they complete. A length
that its kind does not allow ends the connection before memory is taken for it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from app.sync.channel import MAX_MESSAGE_BYTES, MAX_REASON_BYTES, bad_message

HEADER_BYTES: Final = 4


class FrameKind(IntEnum):
    """What a frame is; numbers on the wire, never reused."""

    MESSAGE = 0
    PING = 1
    CLOSE = 2
    WELCOME = 3


_LIMITS: Final = {
    FrameKind.MESSAGE: MAX_MESSAGE_BYTES,
    FrameKind.PING: 0,
    FrameKind.CLOSE: MAX_REASON_BYTES,
    FrameKind.WELCOME: 64,
}


class Frame(NamedTuple):
    """One frame, whole."""

    kind: FrameKind
    body: bytes


def encode_header(kind: FrameKind, length: int) -> bytes:
    """Return the four bytes before a body of ``length`` bytes."""
    return kind.to_bytes(1, "big") + length.to_bytes(HEADER_BYTES - 1, "big")


class FrameDecoder:
    """Cuts a stream into frames."""

    def __init__(self) -> None:
        self._header = bytearray(HEADER_BYTES)
        self._kind: FrameKind | None = None
        self._target = self._header
        self._filled = 0

    def room(self) -> memoryview:
        """Return where the next bytes of the stream go; never empty."""
        return memoryview(self._target)[self._filled :]

    def wrote(self, count: int) -> Frame | None:
        """Take note of ``count`` bytes written into ``room``; returns the frame that is whole now.

        Raises ``ChannelClosedError`` for a kind or length that does not exist.
        """
        self._filled += count
        if self._filled < len(self._target):
            return None
        if self._kind is None:
            self._kind, length = _read_header(self._header)
            self._target, self._filled = bytearray(length), 0
            if length:
                return None
        return self._take(self._kind)

    def _take(self, kind: FrameKind) -> Frame:
        frame = Frame(kind, bytes(self._target))
        self._target, self._filled, self._kind = self._header, 0, None
        return frame


def _read_header(header: bytearray) -> tuple[FrameKind, int]:
    try:
        kind = FrameKind(header[0])
    except ValueError:
        raise bad_message(f"a frame of kind {header[0]}") from None
    length = int.from_bytes(header[1:], "big")
    if length > _LIMITS[kind]:
        raise bad_message(f"{length} bytes where {_LIMITS[kind]} are the most")
    return kind, length
