"""Which H.264 encoders of this machine work: each is tried with a real picture, not asked what it claims."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import av
from av.error import FFmpegError

CANDIDATES = ("libx264", "h264_nvenc", "h264_qsv", "h264_amf", "h264_videotoolbox", "h264_vaapi", "h264_mf")


def try_encoders() -> dict[str, str]:
    """Return encoder name → "works", or why it does not."""
    return {name: _try(name) for name in CANDIDATES if name in av.codecs_available}


def _try(name: str) -> str:
    try:
        context: Any = av.CodecContext.create(name, "w")
        context.width, context.height, context.pix_fmt = 320, 240, "yuv420p"
        context.time_base, context.framerate = Fraction(1, 25), Fraction(25, 1)
        frame = av.VideoFrame(320, 240, "yuv420p")
        frame.pts = 0
        packets = [*context.encode(frame), *context.encode(None)]
    except (FFmpegError, ValueError) as error:
        return f"not usable here: {getattr(error, 'strerror', None) or error}"
    return "works" if sum(packet.size for packet in packets) else "gave no picture"
