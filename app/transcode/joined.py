"""Recordings that were joined end to end: the clock restarts in the middle, and one time line is made of the parts.

Transport and program streams and Flash recordings carry a clock. Where it jumps (back by more than a second, or ahead
of everything by more than ten), the part that follows is moved so that it begins where the one before ended. All
streams of a part move by the same amount, so sound and picture stay together. Whoever reads such a source reads all its
streams from the start, so that index, picture and sound come to the same decisions.

Other containers may hold a long rest (a camera that only films what moves); there only a jump of more than an hour
ahead is taken for a damaged time stamp, which would otherwise make a film of days.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from app.media.source import TICKS_PER_S
from app.transcode.opening import from_ticks, read_packets, to_ticks

_BACK_TICKS = TICKS_PER_S
_AHEAD_TICKS = 10 * TICKS_PER_S
_REST_TICKS = 3600 * TICKS_PER_S
CLOCKED_FORMATS = {"mpegts", "mpeg", "flv"}
"""Containers whose clock restarts when recordings are joined."""


class JoinedClock:
    """Moves the times of a source's packets onto one line. Pure; times in ticks."""

    def __init__(self, *, ahead: int = _AHEAD_TICKS) -> None:
        """``ahead``: by how much a packet may be later than everything before it."""
        self._ahead = ahead
        self._shifts: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._newest = 0
        self.joins = 0
        """How often the clock jumped."""

    @property
    def newest_shift(self) -> int:
        """By how much the part that is being read is moved."""
        return self._newest

    def shift(self, stream: int, time: int, duration: int) -> int:
        """Return by how much a packet of ``stream`` is moved that is decoded at ``time``."""
        shift = self._shifts.get(stream, self._newest)
        if not self._fits(stream, time + shift):
            shift = self._newest
            if not self._fits(stream, time + shift):
                shift = self._newest = max(self._ends.values()) - time
                self.joins += 1
        self._shifts[stream] = shift
        self._ends[stream] = time + shift + duration
        return shift

    def _fits(self, stream: int, time: int) -> bool:
        end = self._ends.get(stream)
        return end is None or end - _BACK_TICKS <= time <= max(self._ends.values()) + self._ahead


def clock_of(container: Any) -> JoinedClock:
    """Return a clock that knows what jumps mean in the container's format."""
    return JoinedClock(ahead=_AHEAD_TICKS if container.format.name in CLOCKED_FORMATS else _REST_TICKS)


def joined_packets(container: Any, wanted: Any) -> Iterator[Any]:
    """Yield the packets of stream ``wanted`` with their times moved; reads all picture and sound streams."""
    clock = clock_of(container)
    for packet in read_packets(container, [*container.streams.video, *container.streams.audio]):
        if packet.size:
            move(packet, shift_of(clock, packet))
        if packet.stream_index == wanted.index:
            yield packet  # at the end an empty one too, which makes the decoder give its last frames


def shift_of(clock: JoinedClock, packet: Any) -> int:
    """Return by how much ``packet`` is moved."""
    time = packet.dts if packet.dts is not None else packet.pts
    if time is None:
        return 0
    base = packet.time_base
    return clock.shift(packet.stream_index, to_ticks(time, base), to_ticks(packet.duration or 0, base))


def move(packet: Any, shift: int) -> None:
    """Move a packet's times by ``shift`` ticks."""
    if not shift:
        return
    step = from_ticks(shift, packet.time_base)
    if packet.pts is not None:
        packet.pts += step
    if packet.dts is not None:
        packet.dts += step
