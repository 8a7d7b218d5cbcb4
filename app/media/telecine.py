"""Times of film pictures that were spread over video fields: four of film in five of video. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

from app.media.source import TICKS_PER_S

CYCLE = 5
"""Pictures of video in which four of film are."""
_REGULAR = 0.25
"""How far off its place a picture may be, in distances of pictures."""
_MOST_ODD = 0.01


def source_step(film_rate: tuple[int, int]) -> Fraction:
    """Return the distance of the video's pictures in ticks, from the film's rate."""
    return Fraction(TICKS_PER_S * film_rate[1] * (CYCLE - 1), film_rate[0] * CYCLE)


def kept_times(cycle: int, step: Fraction) -> list[int]:
    """Return when the four film pictures of a cycle are shown."""
    return [round((cycle + Fraction(n, CYCLE - 1)) * CYCLE * step) for n in range(CYCLE - 1)]


def cycle_starts(end: int, step: Fraction) -> list[int]:
    """Return where cycles begin, up to ``end``: what a film can be cut at."""
    return [round(number * CYCLE * step) for number in range(int(end / (CYCLE * step)) + 1)]


def is_regular(shown: Sequence[int], step: Fraction) -> bool:
    """Whether pictures come so evenly that they can be counted by their times."""
    off = sum(abs(time / step - round(time / step)) > _REGULAR for time in shown)
    gaps = sum(not _REGULAR < (b - a) / step / 2 < 3 * _REGULAR for a, b in pairwise(shown))
    return off + gaps <= _MOST_ODD * len(shown)
