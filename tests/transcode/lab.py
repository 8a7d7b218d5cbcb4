"""Where tests make small films with the system's ffmpeg, run the child's work in this process, and look at the result.

Every picture carries its number as a barcode and every full second begins with a beep (``tests.judges.barcode``), so a
result can be compared with its source picture by picture.
"""

from __future__ import annotations

import io
import json
import subprocess
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import msgspec
import numpy as np
import numpy.typing as npt

from app.media.film import RenditionFacts
from app.media.plan import Plan
from app.media.source import TICKS_PER_S, SourceInfo
from app.transcode.audio import make_audio
from app.transcode.index import index_source
from app.transcode.messages import IndexSource, MakeAudio, MakeVideo, SegmentMade, SourceHandle
from app.transcode.reporting import MemoryReporter
from app.transcode.video import make_video
from tests.judges.barcode import audio_frames, make_samples, read_frame_number, video_frames

SIZE = (320, 180)
FPS = 30

Sound = npt.NDArray[np.float32]


class Shot(msgspec.Struct, frozen=True, kw_only=True):
    """A picture that a player shows: when, and the number it carries."""

    ticks: int
    number: int | None


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """What a task made."""

    reporter: MemoryReporter
    facts: tuple[RenditionFacts, ...]


def ffmpeg(*arguments: str | Path) -> None:
    """Run the system's ffmpeg; its complaints end the test."""
    command = ["ffmpeg", "-nostdin", "-y", "-v", "error", *map(str, arguments)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=60)


def write_film(path: Path, *, seconds: float, fps: int = FPS, size: tuple[int, int] = SIZE, gop: int = 60) -> Path:
    """Write a numbered film with beeps (H.264 with two B-frames, AAC stereo) and return its path."""
    with av.open(str(path), "w") as container:
        options = {"preset": "veryfast", "crf": "16", "x264-params": "scenecut=0:bframes=2:open-gop=0"}
        picture: Any = container.add_stream("libx264", rate=fps, options=options)
        picture.width, picture.height = size
        picture.pix_fmt, picture.gop_size = "yuv420p", gop
        sound: Any = container.add_stream("aac", rate=48_000)
        sound.layout = "stereo"
        for frame in video_frames(range(round(seconds * fps)), fps=fps, size=size):
            container.mux(picture.encode(frame))
        container.mux(picture.encode(None))
        for block in audio_frames(make_samples(seconds)):
            container.mux(sound.encode(block))
        container.mux(sound.encode(None))
    return path


def handle(path: Path) -> SourceHandle:
    """Return how a task in this process reaches ``path``."""
    return SourceHandle(path=str(path).encode())


def index(path: Path, profile: str = "default") -> tuple[SourceInfo, Plan]:
    """Run the ``index`` task."""
    return index_source(IndexSource(source=handle(path), profile=profile, fingerprint="f"), MemoryReporter())


def make_pictures(path: Path, plan: Plan, set_name: str, chunks: Iterable[int] | None = None) -> Work:
    """Run the ``video`` task for some chunks (all, when not said) of one set."""
    reporter = MemoryReporter()
    facts: list[RenditionFacts] = []
    for chunk in range(len(plan.chunks)) if chunks is None else chunks:
        request = MakeVideo(source=handle(path), plan=plan, set=set_name, chunk=chunk)
        facts += make_video(request, reporter)
    return Work(reporter=reporter, facts=tuple(facts))


def make_sound(path: Path, plan: Plan, track: str = "a0", first: int = 0, end: int | None = None) -> Work:
    """Run the ``audio`` task."""
    reporter = MemoryReporter()
    request = MakeAudio(source=handle(path), plan=plan, track=track, first_segment=first, end_segment=end)
    return Work(facts=make_audio(request, reporter), reporter=reporter)


def transcode(path: Path, profile: str = "default") -> tuple[Plan, bytes]:
    """Index a film and return its plan and its best rendition, joined."""
    _, plan = index(path, profile)
    best = plan.renditions[0].name
    return plan, make_pictures(path, plan, plan.set_of(best).name).reporter.bytes_of(best)


def segments(work: Work, name: str) -> dict[int, bytes]:
    """Return the media segments of ``name`` by number."""
    made = (one for one in work.reporter.reports if isinstance(one, SegmentMade) and one.name == name)
    return {one.number: one.data for one in made}


def pictures(data: bytes) -> list[Any]:
    """Return the decoded pictures of a stream or a file's bytes, in the order in which they are shown."""
    with av.open(io.BytesIO(data), "r") as container:
        return list(container.decode(container.streams.video[0]))


def shots(data: bytes) -> list[Shot]:
    """Return when which numbered picture is shown."""
    return [
        Shot(ticks=round(frame.pts * frame.time_base * TICKS_PER_S), number=read_frame_number(luma(frame)))
        for frame in pictures(data)
    ]


def luma(frame: Any) -> npt.NDArray[np.uint8]:
    """Return the brightness plane of an 8-bit planar picture."""
    plane = frame.planes[0]
    rows = np.frombuffer(plane, np.uint8).reshape(frame.height, plane.line_size)
    return rows[:, : frame.width]


def sound(data: bytes) -> tuple[float, Sound]:
    """Return (seconds at which it begins, samples by channel) of a sound track."""
    with av.open(io.BytesIO(data), "r") as container:
        frames = list(container.decode(container.streams.audio[0]))
    opening: Any = frames[0]
    return float(opening.pts * opening.time_base), np.concatenate([frame.to_ndarray() for frame in frames], axis=1)


def probe_packets(data: bytes, path: Path) -> list[dict[str, Any]]:
    """Return what ffprobe says about the packets of ``data``, which is written to ``path`` for it."""
    path.write_bytes(data)
    shown = "packet=pts,dts,duration,flags,size"
    command = ["ffprobe", "-v", "error", "-show_entries", shown, "-of", "json", str(path)]
    answer = subprocess.run(command, check=True, capture_output=True, timeout=30)
    if answer.stderr:
        raise AssertionError(answer.stderr.decode())
    packets: list[dict[str, Any]] = json.loads(answer.stdout)["packets"]
    return packets


def steps(times: Sequence[int]) -> set[int]:
    """Return all distances between neighbours."""
    return {b - a for a, b in pairwise(times)}
