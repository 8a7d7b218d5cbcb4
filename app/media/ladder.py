"""Which renditions a film gets: from the displayed size and rate, never above the source.

A rung is a size class of 16:9 pictures: a 1920x800 film belongs to 1080, as does a portrait clip of 1080x1920. A
source that lies well between two classes (a DVD of 1024x576) gets a top rung of its own size, so that nothing is lost.
"""

from __future__ import annotations

from itertools import pairwise

from app.media.plan import Rendition, RenditionKind

RUNGS: tuple[tuple[int, int], ...] = (
    (2160, 16_000_000),
    (1440, 10_000_000),
    (1080, 6_000_000),
    (720, 3_000_000),
    (480, 1_400_000),
    (360, 800_000),
)
"""(size class, highest bits per second of the picture)."""

OWN_RUNG_FROM = 1.1
"""A source this many times larger than the next class below it gets a rung of its own size."""
CLOSEST_RUNGS = 1.25
"""Two rungs are at least this far apart."""

_LEVELS: tuple[tuple[int, int, int, int], ...] = (
    (30, 1620, 40_500, 10_000_000),
    (31, 3600, 108_000, 14_000_000),
    (32, 5120, 216_000, 20_000_000),
    (40, 8192, 245_760, 20_000_000),
    (42, 8704, 522_240, 50_000_000),
    (50, 22_080, 589_824, 135_000_000),
    (51, 36_864, 983_040, 240_000_000),
    (52, 36_864, 2_073_600, 240_000_000),
    (60, 139_264, 4_177_920, 240_000_000),
    (62, 139_264, 16_711_680, 800_000_000),
)
"""H.264 Table A-1: level times ten, macroblocks per picture, macroblocks per second, bits per second."""


def size_class(width: int, height: int) -> int:
    """Return the height of the 16:9 picture that just holds the displayed size, in either orientation."""
    long, short = max(width, height), min(width, height)
    return max(short, round(long * 9 / 16))


def _even(value: float) -> int:
    return max(2, round(value / 2) * 2)


def scaled_size(width: int, height: int, *, of_class: int, to_class: int) -> tuple[int, int]:
    """Return even (width, height) of a rung, in the shape of the displayed picture."""
    return _even(width * to_class / of_class), _even(height * to_class / of_class)


def level_for(width: int, height: int, frames_per_s: float, rate: int) -> int:
    """Return the lowest H.264 level (times ten) that allows this picture."""
    blocks = ((width + 15) // 16) * ((height + 15) // 16)
    for level, most_blocks, most_per_s, most_rate in _LEVELS:
        if blocks <= most_blocks and blocks * frames_per_s <= most_per_s and rate <= most_rate:
            return level
    return _LEVELS[-1][0]


def _rate_for(rung: int) -> int:
    """Return the highest bit rate of a size class; between classes in proportion to the pixels."""
    for (upper, upper_rate), (lower, lower_rate) in pairwise(RUNGS):
        if rung >= upper:
            return upper_rate
        if rung >= lower:
            share = (rung**2 - lower**2) / (upper**2 - lower**2)
            return round(lower_rate + share * (upper_rate - lower_rate))
    lowest, lowest_rate = RUNGS[-1]
    return max(200_000, round(lowest_rate * min(1.0, (rung / lowest) ** 2)))


def encoded_rungs(width: int, height: int, *, frames_per_s: float, below: int | None = None) -> tuple[Rendition, ...]:
    """Return the encoded H.264 renditions of a picture of this displayed size, best first.

    With ``below`` only those well under that size class (a passthrough rendition is the top).
    """
    own = size_class(width, height)
    classes = [rung for rung, _ in RUNGS if rung <= own]
    if below is not None:
        classes = [rung for rung in classes if rung * CLOSEST_RUNGS <= below]
    elif not classes or own > classes[0] * OWN_RUNG_FROM:
        classes = [own, *(rung for rung in classes if rung * CLOSEST_RUNGS <= own)]
    return tuple(
        _encoded(*scaled_size(width, height, of_class=own, to_class=rung), rung=rung, frames_per_s=frames_per_s)
        for rung in classes
    )


def _encoded(width: int, height: int, *, rung: int, frames_per_s: float) -> Rendition:
    rate = round(_rate_for(rung) * (1.5 if frames_per_s > 40 else 1.0))
    level = level_for(width, height, frames_per_s, rate)
    return Rendition(
        name=str(rung),
        kind=RenditionKind.ENCODE,
        width=width,
        height=height,
        codecs=f"avc1.6400{level:02x}",
        level=level,
        max_rate=rate,
    )
