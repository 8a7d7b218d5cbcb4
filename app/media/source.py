"""What a source holds, as read from its packets and headers by the media child."""

from __future__ import annotations

import msgspec

TICKS_PER_S = 90_000
TEXT_CODECS = frozenset({"subrip", "srt", "text", "ass", "ssa", "mov_text", "webvtt"})
"""Text streams that become WebVTT."""
_ODDEST_ASPECT = 8


class VideoStream(msgspec.Struct, frozen=True, kw_only=True):
    """One moving picture stream."""

    index: int
    codec: str
    profile: str = ""
    width: int
    """Coded width in pixels, before rotation and sample aspect."""
    height: int
    sample_aspect: tuple[int, int] = (1, 1)
    rotation: int = 0
    """Degrees clockwise by which the picture must be turned to be upright: 0, 90, 180 or 270."""
    mirrored: bool = False
    """Whether the picture must be flipped left to right before it is turned."""
    pixel_format: str = ""
    bit_depth: int = 8
    has_alpha: bool = False
    backdrop: str = ""
    """What shows through transparent parts: ``white`` or ``black``, whichever the picture stands out from."""
    primaries: str = ""
    transfer: str = ""
    matrix: str = ""
    full_range: bool = False
    interlaced: bool = False
    is_telecined: bool = False
    """Whether film of 24 pictures a second was spread over the fields of 30."""
    frame_rate: tuple[int, int] = (0, 1)
    """Average frame rate by packet times, (0, 1) when it cannot be told."""
    dolby_vision_profile: int | None = None
    bit_rate: int = 0


class AudioStream(msgspec.Struct, frozen=True, kw_only=True):
    """One sound track."""

    index: int
    codec: str
    profile: str = ""
    channels: int
    layout: str = ""
    sample_rate: int
    language: str = ""
    title: str = ""
    is_default: bool = False
    bit_rate: int = 0


class TextStream(msgspec.Struct, frozen=True, kw_only=True):
    """One subtitle track."""

    index: int
    codec: str
    language: str = ""
    title: str = ""
    is_bitmap: bool = False
    is_default: bool = False
    is_forced: bool = False
    is_hearing_impaired: bool = False


class SourceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a probe found."""

    container: str
    size_bytes: int
    duration_ticks: int | None = None
    video: VideoStream | None = None
    audio: tuple[AudioStream, ...] = ()
    text: tuple[TextStream, ...] = ()
    left_out: tuple[str, ...] = ()
    """Streams that are not carried over, in words ("data stream tmcd")."""


def usable_aspect(numerator: int, denominator: int) -> float:
    """Return the width of a pixel by its height; square where nothing is said, or something that cannot be meant."""
    if numerator <= 0 or denominator <= 0:
        return 1.0
    aspect = numerator / denominator
    return aspect if 1 / _ODDEST_ASPECT <= aspect <= _ODDEST_ASPECT else 1.0


def displayed_size(video: VideoStream) -> tuple[int, int]:
    """Return (width, height) as seen: sample aspect applied (unless within 1 % of square), then turned."""
    width, height = video.width, video.height
    aspect = usable_aspect(*video.sample_aspect)
    if abs(aspect - 1) > 0.01:
        width = max(1, round(width * aspect))
    return (height, width) if video.rotation in {90, 270} else (width, height)
