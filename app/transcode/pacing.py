"""Which picture is shown when: borders are kept, gaps are held, too many pictures a second are thinned. Pure.

::

    source      p0      p1  p2                    p3 (ends)
    borders     |---------------|---------------|---------------|
    output      p0      p1  p2  P2              P2   p3         |      P: a repeated picture that opens a segment
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from app.media.source import TICKS_PER_S
from app.transcode.decode import Picture

NEAR_TICKS = TICKS_PER_S // 1000
"""A picture within a millisecond of a border is the border's picture (containers round time stamps)."""


class Shown(msgspec.Struct, frozen=True):
    """A picture as the encoder gets it."""

    frame: object
    ticks: int
    opens_segment: bool
    aspect: float = 1.0
    """Width of a pixel by its height."""


class Pacer:
    """Arranges the pictures of one chunk; counts what it repeats and drops."""

    def __init__(self, borders: Sequence[int], *, shortest_step: int) -> None:
        """``borders``: the chunk's segment starts and its end; ``shortest_step``: the least distance of pictures."""
        self._starts = list(borders[:-1])
        self._end = borders[-1]
        self._shortest = shortest_step
        self.repeated = 0
        self.dropped = 0

    def pace(self, pictures: Iterator[Picture]) -> Iterator[Shown]:
        """Yield what is shown in the chunk: first at its start, rising, before its end, one opening each segment."""
        held: Picture | None = None
        place = 0
        last = self._starts[0] - self._shortest
        for picture in pictures:
            while place < len(self._starts) and picture.ticks > self._starts[place] + NEAR_TICKS:
                source = held or picture
                self.repeated += 1
                last = self._starts[place]
                yield Shown(source.frame, last, opens_segment=True, aspect=source.aspect)
                place += 1
            if picture.ticks >= self._end - NEAR_TICKS:
                held = held or picture
                break
            if place < len(self._starts) and abs(picture.ticks - self._starts[place]) <= NEAR_TICKS:
                last = self._starts[place]
                yield Shown(picture.frame, last, opens_segment=True, aspect=picture.aspect)
                place += 1
            elif place == 0:
                pass
            elif picture.ticks - last < self._shortest:
                self.dropped += 1
            else:
                last = picture.ticks
                yield Shown(picture.frame, last, opens_segment=False, aspect=picture.aspect)
            held = picture
        if held is not None:
            for start in self._starts[place:]:
                self.repeated += 1
                yield Shown(held.frame, start, opens_segment=True, aspect=held.aspect)
