"""Text as a source has it, with its times moved onto the film's line: what ``index`` keeps for the ``text`` tasks.

One pass over a source gives the packets of all its text tracks, so that no task has to read 30 GB for 100 KB of text;
a file beside the source is brought into the same form. What the bytes mean is found out later, in a child of its own.
"""

from __future__ import annotations

from typing import Any

import msgspec

from app.core.errors import ErrorCode, ExpectedError
from app.media.scan import TextScan
from app.transcode.joined import JoinedClock
from app.transcode.opening import from_ticks, to_ticks

MAX_TRACK_BYTES = 16 << 20
MAX_CUE_BYTES = 16 << 10
MAX_TRACK_CUES = 100_000


class RawCue(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The bytes of one cue and when it is shown."""

    start_ticks: int
    end_ticks: int
    """The same as the start where the source does not say."""
    data: bytes


class RawText(msgspec.Struct, frozen=True, kw_only=True):
    """A whole track."""

    codec: str
    header: bytes = b""
    """What stands before the cues: the styles of ASS."""
    cues: tuple[RawCue, ...]


def encode_raw_text(text: RawText) -> bytes:
    """Return the bytes of ``text``."""
    return msgspec.msgpack.encode(text)


def decode_raw_text(data: bytes) -> RawText:
    """Return the track in ``data``; raises ``ExpectedError`` bad-message."""
    try:
        return msgspec.msgpack.decode(data, type=RawText)
    except msgspec.DecodeError as error:
        raise ExpectedError(ErrorCode.BAD_MESSAGE, f"The text of a subtitle track cannot be read: {error}.") from error


class TextGatherer:
    """Gathers one text track while all packets of a source pass by."""

    def __init__(self, stream: Any, codec: str) -> None:
        context = stream.codec_context
        self.index: int = stream.index
        self._codec = codec
        self._time_base = stream.time_base
        self._header = bytes(context.extradata or b"") if context is not None else b""
        self._cues: list[RawCue] = []
        self._size = 0
        self._is_too_large = False

    def take(self, packet: Any, clock: JoinedClock | None) -> None:
        """Take a packet; ``clock`` says how far the part it belongs to is moved."""
        data = bytes(packet)
        if packet.pts is None or self._is_too_large or not any(data):
            return
        if len(data) > MAX_CUE_BYTES:
            return
        shift = from_ticks(clock.newest_shift, self._time_base) if clock is not None else 0
        start = packet.pts + shift
        end = start + max(0, packet.duration or 0)
        cue = RawCue(start_ticks=to_ticks(start, self._time_base), end_ticks=to_ticks(end, self._time_base), data=data)
        self._cues.append(cue)
        self._size += len(data)
        if self._size > MAX_TRACK_BYTES or len(self._cues) > MAX_TRACK_CUES:
            self._is_too_large = True
            self._cues.clear()

    def scan(self) -> TextScan:
        """Return the facts for the plan."""
        return TextScan(index=self.index, cues=len(self._cues), is_too_large=self._is_too_large)

    def raw_text(self, origin_ticks: int) -> RawText:
        """Return the track, counted from the film's start."""
        moved = (
            RawCue(start_ticks=one.start_ticks - origin_ticks, end_ticks=one.end_ticks - origin_ticks, data=one.data)
            for one in self._cues
        )
        return RawText(codec=self._codec, header=self._header, cues=tuple(moved))
