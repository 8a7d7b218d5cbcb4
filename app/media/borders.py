"""Where a film is cut: segment borders on the source's keyframes where possible, chunks of a few segments.

Borders are chosen once and shared by all renditions. A border lies on a keyframe when one is near enough, else on a
picture, else (a still that lasts) at the wished moment, where the encoder repeats the picture before it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

from app.media.plan import Chunk
from app.media.source import TICKS_PER_S

SEGMENT_TICKS = 6 * TICKS_PER_S
FIRST_SEGMENT_TICKS = 2 * TICKS_PER_S
LONGEST_COPIED_TICKS = 12 * TICKS_PER_S
LONGEST_ENCODED_TICKS = 8 * TICKS_PER_S
SHORTEST_TICKS = TICKS_PER_S
CHUNK_TICKS = 30 * TICKS_PER_S
COPIED_CHUNK_TICKS = 120 * TICKS_PER_S
"""Where nothing is encoded: copying so much takes no longer than starting the process that does it."""
_FRAME_NEAR_TICKS = TICKS_PER_S // 2


def _nearest(sorted_times: Sequence[int], wished: int, low: int, high: int) -> int | None:
    """Return the time in ``[low, high]`` that is nearest to ``wished``, or None."""
    place = bisect_left(sorted_times, wished)
    near = [time for time in sorted_times[max(0, place - 1) : place + 1] if low <= time <= high]
    return min(near, key=lambda time: abs(time - wished), default=None)


def choose_borders(*, shown: Sequence[int], keyframes: Sequence[int], end: int, copied: bool) -> tuple[int, ...]:
    """Return the borders of a film that lasts until ``end``: 0 first, ``end`` last, rising (ticks).

    ``shown`` and ``keyframes`` are rising picture times counted from the film's start; with ``copied`` a keyframe up to
    12 s away is preferred to a cut that would have to be encoded. The first segment stays short, so that a film
    plays at once, unless it is copied, which takes no time.
    """
    longest = LONGEST_COPIED_TICKS if copied else LONGEST_ENCODED_TICKS
    borders = [0]
    while True:
        position = borders[-1]
        is_first = len(borders) == 1
        length = FIRST_SEGMENT_TICKS if is_first else SEGMENT_TICKS
        if end - position <= length + max(length // 3, SHORTEST_TICKS):
            break
        last = end - SHORTEST_TICKS
        wished = position + length
        reach = FIRST_SEGMENT_TICKS * 2 if is_first and not copied else longest
        border = _nearest(keyframes, wished, position + SHORTEST_TICKS, min(position + reach, last))
        if border is None and copied and end - position <= longest:
            break
        if border is None:
            border = _nearest(shown, wished, wished - _FRAME_NEAR_TICKS, min(wished + _FRAME_NEAR_TICKS, last))
        borders.append(wished if border is None else border)
    return (*borders, end)


def cut_chunks(
    borders: Sequence[int], *, is_copyable: Callable[[int], bool], length: int = CHUNK_TICKS, single: bool = False
) -> tuple[Chunk, ...]:
    """Group segments into chunks: the first segment alone, then about ``length`` ticks each.

    ``is_copyable(segment)`` says whether a passthrough rendition can copy that segment; a chunk is copied or encoded
    as a whole, so it ends where that changes. ``single`` makes one chunk of all (sources that cannot be entered).
    """
    count = len(borders) - 1
    chunks: list[Chunk] = []
    first = 0
    for end in range(1, count + 1):
        full = first == 0 or borders[end] - borders[first] > length - SEGMENT_TICKS // 2
        changes = end < count and is_copyable(end) != is_copyable(first)
        if end == count or (not single and (full or changes)):
            copied = all(is_copyable(segment) for segment in range(first, end))
            chunks.append(Chunk(number=len(chunks), first_segment=first, end_segment=end, copied=copied))
            first = end
    return tuple(chunks)
