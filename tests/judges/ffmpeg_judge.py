"""Plays an address with the system's ``ffmpeg`` and says which frames and beeps came out, and when.

Times are those in the stream (``-copyts``), not counted from where it happened to begin.
"""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from typing import Any

import av
import msgspec
import numpy as np
import numpy.typing as npt
from av.container import InputContainer

from tests.judges.barcode import read_frame_number
from tests.judges.seen import FrameSeen, SoundLine

WIDTH, HEIGHT = 320, 180
RATE = 48_000
_LIMIT_S = 60.0
_WARM_UP_FRAMES = 10


class FfmpegReport(msgspec.Struct, frozen=True, kw_only=True):
    """What came out."""

    frames: tuple[FrameSeen, ...]
    beeps: tuple[float, ...]
    messages: str
    """What ffmpeg had to say at level warning; empty when nothing was wrong."""


def missing_tool() -> str | None:
    """Return why this judge cannot sit, or None."""
    lacking = [one for one in ("ffmpeg", "ffprobe") if shutil.which(one) is None]
    return f"{', '.join(lacking)} not found; install ffmpeg" if lacking else None


def play_with_ffmpeg(url: str, *, variant: int = 0, seek_s: float = 0.0, length_s: float | None = None) -> FfmpegReport:
    """Decode video stream ``variant`` and the first sound of ``url`` from ``seek_s`` on."""
    command = [
        *("ffmpeg", "-nostdin", "-hide_banner", "-loglevel", "warning", "-copyts"),
        *(["-ss", str(seek_s)] if seek_s else []),
        *("-i", url, "-map", f"0:v:{variant}", "-map", "0:a:0"),
        *(["-to", str(seek_s + length_s)] if length_s is not None else []),
        *("-fps_mode", "passthrough", "-vf", f"scale={WIDTH}:{HEIGHT},format=gray", "-c:v", "rawvideo"),
        *("-af", f"aformat=sample_rates={RATE}:channel_layouts=mono", "-c:a", "pcm_s16le", "-f", "nut", "pipe:1"),
    ]
    run = subprocess.run(command, capture_output=True, timeout=_LIMIT_S, check=False)
    messages = run.stderr.decode(errors="replace").strip()
    if run.returncode:
        raise AssertionError(f"ffmpeg failed with {run.returncode}: {messages}")
    frames, beeps = _read_nut(run.stdout)
    return FfmpegReport(frames=frames, beeps=beeps, messages=messages)


def probe_with_ffprobe(url: str) -> dict[str, Any]:
    """Return what ``ffprobe`` says of the format, programs and streams of ``url``."""
    command = ["ffprobe", "-v", "error", "-of", "json", "-show_format", "-show_streams", "-show_programs", url]
    run = subprocess.run(command, capture_output=True, timeout=_LIMIT_S, check=True)
    answer: dict[str, Any] = json.loads(run.stdout)
    return answer


def play_after_seek(url: str, *, seek_s: float, variant: int = 0) -> FfmpegReport:
    """Decode a little of ``url``, seek to ``seek_s``, and report what follows, from the keyframe before it on.

    This is the FFmpeg inside PyAV: the command of version 5.1 reads garbage after a seek in fragmented MP4, in its
    own output too.
    """
    with av.open(url, "r") as container:
        picture, sound = container.streams.video[variant], container.streams.audio[0]
        for _ in zip(range(_WARM_UP_FRAMES), container.decode(picture), strict=False):
            pass
        container.seek(round(seek_s * av.time_base))
        frames, beeps = _read_frames(container, picture, sound)
    return FfmpegReport(frames=frames, beeps=beeps, messages="")


def _read_nut(data: bytes) -> tuple[tuple[FrameSeen, ...], tuple[float, ...]]:
    with av.open(io.BytesIO(data), "r", format="nut") as container:
        return _read_frames(container, container.streams.video[0], container.streams.audio[0])


def _read_frames(
    container: InputContainer, picture: av.VideoStream, sound: av.AudioStream
) -> tuple[tuple[FrameSeen, ...], tuple[float, ...]]:
    frames: list[FrameSeen] = []
    line = SoundLine(rate=RATE)
    for frame in container.decode(picture, sound):
        if isinstance(frame, av.VideoFrame):
            gray = frame.to_ndarray(format="gray").astype(np.uint8)
            frames.append(FrameSeen(number=read_frame_number(gray), time_s=float(frame.time or 0.0)))
        elif isinstance(frame, av.AudioFrame):
            line.put(float(frame.time or 0.0), _mono(frame))
    return tuple(frames), tuple(line.beeps())


def _mono(frame: av.AudioFrame) -> npt.NDArray[np.floating]:
    samples = frame.to_ndarray()
    return samples[0] if samples.dtype.kind == "f" else samples.reshape(-1) / 32768
