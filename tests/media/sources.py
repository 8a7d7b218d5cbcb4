"""What a scan would have found in sources of many kinds."""

from __future__ import annotations

from typing import Any

import msgspec

from app.media.plan import Plan
from app.media.planning import make_plan
from app.media.scan import AudioScan, Keyframe, PacketScan
from app.media.source import TICKS_PER_S, AudioStream, SourceInfo, VideoStream

FRAME_TICKS = 3000
CODECS = "avc1.640028"


def seconds(value: float) -> int:
    """Return ticks."""
    return round(value * TICKS_PER_S)


def video(**changes: Any) -> VideoStream:
    """Return a 1080p H.264 stream at 30 pictures a second, with ``changes``."""
    plain = VideoStream(
        index=0,
        codec="h264",
        profile="High",
        width=1920,
        height=1080,
        pixel_format="yuv420p",
        frame_rate=(30, 1),
    )
    return msgspec.structs.replace(plain, **changes)


def audio(index: int = 1, **changes: Any) -> AudioStream:
    """Return an AAC stereo track, with ``changes``."""
    plain = AudioStream(index=index, codec="aac", profile="LC", channels=2, layout="stereo", sample_rate=48_000)
    return msgspec.structs.replace(plain, **changes)


def audio_scan(index: int = 1, *, begin_s: float = 0, end_s: float = 60, **changes: Any) -> AudioScan:
    """Return what the scan of a sound track finds, with ``changes``."""
    plain = AudioScan(
        index=index, first_ticks=seconds(begin_s), end_ticks=seconds(end_s), packets=100, is_continuous=True
    )
    return msgspec.structs.replace(plain, **changes)


def scan(*, length_s: float = 60, key_s: float = 2, start_ticks: int = 0, **changes: Any) -> PacketScan:
    """Return the scan of a film at 30 pictures a second with an IDR every ``key_s``, with ``changes``."""
    shown = tuple(range(start_ticks, start_ticks + seconds(length_s), FRAME_TICKS))
    keys = range(start_ticks, start_ticks + seconds(length_s), seconds(key_s))
    plain = PacketScan(
        shown=shown,
        keyframes=tuple(Keyframe(pts=pts, is_idr=True, position=1000 + pts) for pts in keys),
        last_duration=FRAME_TICKS,
        entry="time",
        is_copyable=True,
        peak_rate=5_000_000,
    )
    return msgspec.structs.replace(plain, **changes)


def plan_of(
    *,
    picture: VideoStream | None = None,
    packets: PacketScan | None = None,
    sound: tuple[AudioStream, ...] = (),
    profile: str = "default",
    codecs: str = CODECS,
) -> Plan:
    """Return the plan of a source."""
    info = SourceInfo(container="mov", size_bytes=1, video=picture or video(), audio=sound)
    return make_plan(info=info, scan=packets or scan(), profile=profile, fingerprint="f" * 8, codecs=codecs)
