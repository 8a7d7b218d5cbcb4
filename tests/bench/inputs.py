"""Inputs of the benchmarks, made once in ``.bench/`` with the system's ffmpeg."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

FOLDER = Path(".bench")
FIVE_GIB = 5 << 30

_PICTURE = "testsrc2=s=1920x1080:r=30,noise=alls=5:allf=t"


def require_ffmpeg() -> None:
    """End with a sentence when there is nothing to compare with."""
    if shutil.which("ffmpeg") is None:
        raise SystemExit("The benchmarks compare with the ffmpeg command; install it first.")


def _make(name: str, *arguments: str) -> Path:
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / name
    if not path.exists():
        part = FOLDER / f"part-{name}"
        subprocess.run(["ffmpeg", "-nostdin", "-v", "error", "-y", *arguments, str(part)], check=True)
        part.rename(path)
    return path


def open_gop_minute() -> Path:
    """60 s of 1080p30 with detail and motion whose keyframes are no IDRs, so that every rung must be encoded."""
    return _make(
        "open-gop-60s.mp4",
        *("-f", "lavfi", "-i", _PICTURE, "-f", "lavfi", "-i", "sine=f=440:r=48000", "-t", "60"),
        *("-c:v", "libx264", "-preset", "ultrafast", "-crf", "23", "-pix_fmt", "yuv420p"),
        *("-x264-params", "open-gop=1:keyint=60:bframes=2:scenecut=0", "-c:a", "aac", "-ac", "2"),
    )


def closed_gop_minute() -> Path:
    """Return 60 s of 1080p30 that fits HLS as it is."""
    return _make(
        "closed-gop-60s.mp4",
        *("-f", "lavfi", "-i", _PICTURE, "-f", "lavfi", "-i", "sine=f=440:r=48000", "-t", "60"),
        *("-c:v", "libx264", "-preset", "ultrafast", "-crf", "23", "-pix_fmt", "yuv420p"),
        *("-x264-params", "open-gop=0:keyint=60:scenecut=0", "-c:a", "aac", "-ac", "2"),
    )


def ten_minutes(minute: Path) -> Path:
    """Return ten minutes of the film ``minute``, one after the other."""
    name = minute.name.replace("60s", "600s")
    return _make(name, "-stream_loop", "9", "-i", str(minute), "-c", "copy")


def five_gib() -> Path:
    """Return a short film in a file of 5 GiB that takes almost no disk: the rest is an empty box."""
    path = FOLDER / "sparse-5gib.mp4"
    if not path.exists():
        small = _make(
            "short.mp4",
            *("-f", "lavfi", "-i", "testsrc2=s=640x360:r=30", "-t", "4", "-c:v", "libx264", "-pix_fmt", "yuv420p"),
        )
        shutil.copyfile(small, path)
        start = path.stat().st_size
        with path.open("r+b") as file:
            file.seek(start)
            file.write((1).to_bytes(4, "big") + b"free" + (FIVE_GIB - start).to_bytes(8, "big"))
            file.truncate(FIVE_GIB)
    return path
