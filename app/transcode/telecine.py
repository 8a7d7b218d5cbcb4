"""Film that was spread over the fields of video (telecine, 24 to 30 pictures a second), and the way back.

::

    film        A       B       C       D          four pictures
    video       A/A     B/B     B/C     C/D   D/D  five, two of them of fields of two pictures
    matched     A       B       B       C     D    fields put together again: one picture twice
    made        A         B         C         D    the double dropped, the others evenly in time

Fields are put together by FFmpeg's ``fieldmatch``; which of five neighbours is the double is decided here, because a
chunk that is entered anywhere must come to the same decision: a cycle of five begins where the film's time says so,
never where the chunk happened to begin.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from app.media.plan import Plan
from app.media.source import TICKS_PER_S
from app.media.telecine import CYCLE, kept_times, source_step
from app.transcode.decode import Picture
from app.transcode.picture import SourceFilter

TELECINE_PICTURES = 46
"""How many neighbouring pictures tell whether a film is telecined."""
_MATCH = (("fieldmatch", "order=auto:mode=pc_n:combmatch=sc"), ("bwdif", "mode=send_frame:deint=interlaced"))
"""Puts the fields of one picture together again, a picture for each; what stays combed is deinterlaced."""
_LEAST_MOTION = 0.4
"""Mean difference of neighbours (of 255) below which a stretch says nothing."""
_DOUBLE = 0.35
"""A double differs from the picture before it by less than this share of what others do."""
_MOST_CYCLES = 0.8
_GRAIN = 4
"""Every fourth pixel and row is compared."""


class Untelecine:
    """Turns telecined pictures into those of the film."""

    def __init__(self, plan: Plan) -> None:
        self._step = source_step(plan.frame_rate)

    def run(self, pictures: Iterator[Picture]) -> Iterator[Picture]:
        """Yield the film's pictures; needs a whole cycle before what is used."""
        cycle: list[_Matched] = []
        last: Any = None
        for picture in SourceFilter(_MATCH).run(pictures):
            look = _look(picture.frame)
            matched = _Matched(
                picture=picture,
                place=round(picture.ticks / self._step),
                change=_difference(last, look) if last is not None else float("inf"),
            )
            last = look
            if cycle and matched.place // CYCLE != cycle[0].place // CYCLE:
                yield from self._without_double(cycle)
                cycle = []
            cycle.append(matched)
        yield from self._without_double(cycle)

    def _without_double(self, cycle: Sequence[_Matched]) -> Iterator[Picture]:
        """Yield the pictures of a whole cycle but the double; one that is not whole stays as it is."""
        if len(cycle) != CYCLE:
            yield from (one.picture for one in cycle)
            return
        double = min(range(CYCLE), key=lambda n: cycle[n].change)
        kept = [one.picture for n, one in enumerate(cycle) if n != double]
        times = kept_times(cycle[0].place // CYCLE, self._step)
        for picture, ticks in zip(kept, times, strict=True):
            yield Picture(picture.frame, ticks, picture.aspect)


class _Matched(msgspec.Struct, frozen=True, kw_only=True):
    """A picture of matched fields: its place in the film's count of video pictures, how much changed since the last."""

    picture: Picture
    place: int
    change: float


def _look(frame: Any) -> Any:
    """Return a coarse copy of a picture's brightness."""
    import numpy as np  # noqa: PLC0415 (numpy doubles the start time of a child)

    plane = frame.planes[0]
    depth = frame.format.components[0].bits
    kind = np.uint16 if depth > 8 else np.uint8
    rows = np.frombuffer(plane, kind).reshape(frame.height, -1)[::_GRAIN, : frame.width : _GRAIN]
    return rows.astype(np.int16) >> max(0, depth - 8)


def _difference(a: Any, b: Any) -> float:
    if a.shape != b.shape:
        return float("inf")
    return float(abs(a - b).mean())


def looks_telecined(pictures: Sequence[Any]) -> bool | None:
    """Whether one in five pictures of interlaced video is a double, always the same; None if all is still."""
    numbered = (Picture(frame, number * TICKS_PER_S // 30) for number, frame in enumerate(pictures))
    looks = [_look(picture.frame) for picture in SourceFilter(_MATCH).run(numbered)]
    changes = [_difference(a, b) for a, b in pairwise(looks)]
    cycles = [changes[n : n + CYCLE] for n in range(0, len(changes) - CYCLE + 1, CYCLE)]
    moving = [cycle for cycle in cycles if statistics.median(cycle) > _LEAST_MOTION]
    if len(moving) < 3:
        return None
    doubles = [cycle.index(min(cycle)) for cycle in moving if min(cycle) < _DOUBLE * statistics.median(cycle)]
    return doubles.count(statistics.mode(doubles)) >= _MOST_CYCLES * len(moving) if doubles else False
