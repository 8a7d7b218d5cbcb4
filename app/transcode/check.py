"""Proof of a segment: what was written is opened again by FFmpeg and decoded.

Every sample's time is read back; the first group of pictures is decoded. Judged by another program's reader, not by
the code that wrote it.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import av
from av.error import FFmpegError

from app.core.errors import BugError
from app.transcode.opening import to_ticks

WHOLE_GROUP = 10_000
"""More pictures than a group has."""
_OPEN_OPTIONS = {"fpsprobesize": "0"}
"""Do not decode pictures only to guess a frame rate: that took two thirds of the time of a check."""


def check_video_segment(
    init: bytes, segment: bytes, *, start: int, end: int, samples: int, decode: int, size: tuple[int, int]
) -> int:
    """Prove one segment, decoding up to ``decode`` pictures of its first group; returns how many were decoded.

    Raises ``BugError`` when times, counts, sizes or pictures are not as they must be.
    """
    try:
        with av.open(io.BytesIO(init + segment), "r", format="mp4", options=_OPEN_OPTIONS) as container:
            return _check(container, start=start, end=end, samples=samples, decode=decode, size=size)
    except FFmpegError as error:
        raise BugError(f"a finished segment at {start} cannot be read: {error}") from error


def _check(container: Any, *, start: int, end: int, samples: int, decode: int, size: tuple[int, int]) -> int:
    stream = container.streams.video[0]
    packets = [packet for packet in container.demux(stream) if packet.size]
    times = sorted(to_ticks(packet.pts, stream.time_base) for packet in packets)
    if len(packets) != samples or len(set(times)) != samples:
        raise BugError(
            f"the segment at {start} holds {len(packets)} pictures at {len(set(times))} times, not {samples}"
        )
    if times[0] != start or times[-1] >= end or not packets[0].is_keyframe:
        raise BugError(f"the segment at {start} shows {times[0]} to {times[-1]}, its borders are {start} and {end}")
    if not decode:
        return 0
    return _decode_first_group(packets, start=start, most=decode, size=size)


def _decode_first_group(packets: Sequence[Any], *, start: int, most: int, size: tuple[int, int]) -> int:
    group = [packets[0]]
    for packet in packets[1:most]:
        if packet.is_keyframe:
            break
        group.append(packet)
    pictures = [picture for packet in group for picture in packet.decode()]
    pictures += packets[0].stream.codec_context.decode(None)
    if len(pictures) != len(group):
        raise BugError(f"of {len(group)} pictures after {start}, {len(pictures)} can be decoded")
    if (pictures[0].width, pictures[0].height) != size:
        raise BugError(
            f"the picture at {start} is {pictures[0].width} by {pictures[0].height}, not {size[0]} by {size[1]}"
        )
    return len(pictures)
