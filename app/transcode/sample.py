"""A short film of our own, with picture and sound, for the demo and for benchmarks: a night sky over rolling hills."""

from __future__ import annotations

import os
from fractions import Fraction
from functools import cache
from typing import Any

import av

from app.transcode.messages import MakeSample

WIDTH, HEIGHT, RATE = 1280, 720, 30
SAMPLE_RATE = 48_000
_TONES = (220.0, 277.18, 329.63, 440.0)
_GOP_S = 2


def make_sample(request: MakeSample) -> int:
    """Write the film to ``output_fd`` and return its size in bytes."""
    with os.fdopen(os.dup(request.output_fd), "wb") as file:
        with av.open(file, "w", format="mp4") as muxer:
            video = _video_stream(muxer)
            audio: Any = muxer.add_stream("aac", rate=SAMPLE_RATE)
            audio.codec_context.layout = "stereo"
            for second in range(request.seconds):
                for n in range(RATE):
                    muxer.mux(video.encode(_picture(second * RATE + n)))
                muxer.mux(audio.encode(_sound(second)))
            muxer.mux(video.encode(None))
            muxer.mux(audio.encode(None))
        file.flush()
        return os.fstat(file.fileno()).st_size


def _video_stream(muxer: Any) -> Any:
    stream = muxer.add_stream("libx264", rate=RATE)
    stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
    stream.options = {"preset": "veryfast", "crf": "20", "g": str(RATE * _GOP_S), "x264-params": "open-gop=0"}
    context = stream.codec_context
    context.color_primaries = context.color_trc = context.colorspace = 1
    context.color_range = 1
    return stream


def _picture(number: int) -> Any:
    """Paint one picture at half size (numpy is slow at full size) and scale it up."""
    import numpy as np  # noqa: PLC0415 (numpy doubles the start time of a child)

    time = number / RATE
    x = np.linspace(0.0, 1.0, WIDTH // 2, dtype=np.float32)[None, :]
    y = np.linspace(0.0, 1.0, HEIGHT // 2, dtype=np.float32)[:, None]
    glow = 150 * np.exp(-((x - 0.2 - 0.03 * time) ** 2) * 60) * np.exp(-((y - 0.3 + 0.1 * np.sin(time / 3)) ** 2) * 110)
    stars = np.roll(_stars(), number // 3, axis=1) * np.float32(120 + 80 * np.sin(time * 2))
    light = glow + stars
    picture = np.stack([40 + 60 * y + light, 30 + 70 * y + 20 * x + 0.85 * light, 170 - 80 * y + 0.6 * light], axis=-1)
    for depth, (height, colour) in enumerate(((0.62, (40, 60, 90)), (0.74, (30, 70, 60)), (0.86, (20, 45, 35)))):
        ridge = height + 0.05 * np.sin(x * (6 + 3 * depth) + time * (0.3 + 0.4 * depth)) + 0.02 * np.sin(x * 31 + depth)
        picture[y > ridge] = colour
    frame = av.VideoFrame.from_ndarray(np.clip(picture, 0, 255).astype(np.uint8), format="rgb24")
    frame = frame.reformat(width=WIDTH, height=HEIGHT, format="yuv420p", dst_colorspace="ITU709")
    frame.pts, frame.time_base = number, Fraction(1, RATE)
    return frame


@cache
def _stars() -> Any:
    import numpy as np  # noqa: PLC0415

    few = np.random.default_rng(7).random((HEIGHT // 4, WIDTH // 4)) > 0.9985
    return np.kron(few, np.ones((2, 2), dtype=np.float32))


def _sound(second: int) -> Any:
    import numpy as np  # noqa: PLC0415

    t = np.arange(SAMPLE_RATE) / SAMPLE_RATE
    tone = _TONES[second % len(_TONES)]
    left = 0.2 * np.sin(2 * np.pi * tone * t) * np.exp(-2.5 * t)
    right = 0.2 * np.sin(2 * np.pi * tone * 1.5 * t) * np.exp(-2.0 * t)
    frame = av.AudioFrame.from_ndarray(np.stack([left, right]).astype(np.float32), format="fltp", layout="stereo")
    frame.sample_rate, frame.pts, frame.time_base = SAMPLE_RATE, second * SAMPLE_RATE, Fraction(1, SAMPLE_RATE)
    return frame
