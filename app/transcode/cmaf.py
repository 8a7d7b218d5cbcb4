"""CMAF media segments, byte by byte: one ``styp moof mdat`` per segment, exact times, nothing negative.

FFmpeg's muxer writes the init section (it knows every codec's boxes); the fragments are written here, because that
muxer gives the first fragment a negative decode time when there are B-frames, and loses the last duration with a
variable frame rate. Source of the layout: ISO/IEC 14496-12 (``moof``, ``tfdt``, ``trun``) and 23000-19 (CMAF).

Decode times are made anew from presentation times: the first equals the border, they rise, and none is later than its
presentation time; so composition offsets are never negative and no edit list is needed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import msgspec

TRACK_ID = 1
_SYNC_FLAGS = 0x02000000  # depends on nothing
_DELTA_FLAGS = 0x01010000  # depends on others, is not a sync sample

_TFHD_DEFAULT_BASE_IS_MOOF = 0x020000
_TRUN_FLAGS = 0x000001 | 0x000100 | 0x000200 | 0x000400 | 0x000800  # data offset; per sample duration, size, flags, cts


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One access unit in decode order."""

    data: bytes
    pts: int
    """Presentation time in the track's time scale, from the film's start."""
    is_sync: bool


def decode_times(pts: Sequence[int], start: int) -> list[int]:
    """Return rising decode times for samples in decode order: the first is ``start``, none later than its ``pts``.

    Each time may be as late as the earliest presentation still to come (the suffix minimum); where several samples
    share that limit they are spread evenly below it. Raises ``ValueError`` when no such times exist: a sample is
    shown before ``start``, or more samples share a limit than there are ticks below it.
    """
    limits = list(pts)
    for index in range(len(limits) - 2, -1, -1):
        limits[index] = min(limits[index], limits[index + 1])
    if limits and limits[0] < start:
        raise ValueError(f"a sample is shown at {limits[0]}, before the segment starts at {start}")
    times: list[int] = []
    index = 0
    while index < len(limits):
        run = 1
        while index + run < len(limits) and limits[index + run] == limits[index]:
            run += 1
        times.extend(_spread(run, limits[index], times[-1] if times else start - 1, at=start if not times else None))
        index += run
    return times


def _spread(run: int, limit: int, previous: int, *, at: int | None) -> list[int]:
    """Return ``run`` rising times after ``previous``, none above ``limit``; the first is ``at`` when given."""
    first = [at] if at is not None else []
    floor, rest = (at, run - 1) if at is not None else (previous, run)
    times = first + [floor + (limit - floor) * place // rest for place in range(1, rest + 1)]
    if any(later <= earlier for earlier, later in zip([previous, *times], times, strict=False)):
        raise ValueError(f"{run} samples share the presentation limit {limit}")
    return times


def _box(kind: bytes, *parts: bytes) -> bytes:
    payload = b"".join(parts)
    return struct.pack(">I4s", len(payload) + 8, kind) + payload


def _full_box(kind: bytes, version: int, flags: int, *parts: bytes) -> bytes:
    return _box(kind, struct.pack(">I", version << 24 | flags), *parts)


def _trun(samples: Sequence[Sample], times: Sequence[int], end: int, data_offset: int) -> bytes:
    entries = []
    for index, (sample, time) in enumerate(zip(samples, times, strict=True)):
        following = times[index + 1] if index + 1 < len(times) else end
        flags = _SYNC_FLAGS if sample.is_sync else _DELTA_FLAGS
        entries.append(struct.pack(">IIII", following - time, len(sample.data), flags, sample.pts - time))
    return _full_box(b"trun", 0, _TRUN_FLAGS, struct.pack(">Ii", len(samples), data_offset), *entries)


def write_segment(*, number: int, samples: Sequence[Sample], start: int, end: int) -> bytes:
    """Return one media segment that shows ``start`` to ``end`` (track time scale).

    The last sample lasts until ``end``. Raises ``ValueError`` when the samples do not fit between the borders.
    """
    if not samples:
        raise ValueError("a segment needs at least one sample")
    times = decode_times([sample.pts for sample in samples], start)
    if times[-1] >= end or max(sample.pts for sample in samples) >= end:
        raise ValueError(f"a sample at {times[-1]} does not fit before the border {end}")

    def moof(data_offset: int) -> bytes:
        return _box(
            b"moof",
            _full_box(b"mfhd", 0, 0, struct.pack(">I", number + 1)),
            _box(
                b"traf",
                _full_box(b"tfhd", 0, _TFHD_DEFAULT_BASE_IS_MOOF, struct.pack(">I", TRACK_ID)),
                _full_box(b"tfdt", 1, 0, struct.pack(">Q", times[0])),
                _trun(samples, times, end, data_offset),
            ),
        )

    head = moof(len(moof(0)) + 8)
    styp = _box(b"styp", b"msdh", struct.pack(">I", 0), b"msdh", b"cmfs")
    return styp + head + _box(b"mdat", *(sample.data for sample in samples))


def iterate_boxes(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yield (type, start, end) of the boxes in ``data``; a box that claims more than there is ends the walk."""
    position = 0
    while position + 8 <= len(data):
        size, kind = struct.unpack_from(">I4s", data, position)
        if size == 1 and position + 16 <= len(data):
            size = struct.unpack_from(">Q", data, position + 8)[0]
        elif size == 0:
            size = len(data) - position
        if size < 8 or position + size > len(data):
            return
        yield kind, position, position + size
        position += size


def init_section_of(header: bytes) -> bytes:
    """Return the ``ftyp`` and ``moov`` of what a muxer wrote before its first fragment."""
    return b"".join(header[begin:end] for kind, begin, end in iterate_boxes(header) if kind in {b"ftyp", b"moov"})
