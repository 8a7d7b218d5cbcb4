"""The films that are broken: one or two seconds of each container and codec, made by the system's ffmpeg."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_PICTURE = "testsrc2=s=160x90:r=25:d=1.6"
_SOUND = "sine=f=440:r=48000:d=1.6"
_X264 = ("-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p", "-g", "20", "-bf", "2")
_HDR = (
    "log-level=none:hdr10=1:repeat-headers=1:colorprim=bt2020:transfer=smpte2084:colormatrix=bt2020nc:"
    "max-cll=1000,400:keyint=20"
)
SUBTITLES = "1\n00:00:00,200 --> 00:00:01,200\nHello <b>bold</b> & more\n\n"

FILMS: dict[str, tuple[str, ...]] = {
    "h264.mp4": (*_X264, "-c:a", "aac"),
    "front.mp4": (*_X264, "-c:a", "aac", "-movflags", "+faststart"),
    "fragments.mp4": (*_X264, "-c:a", "aac", "-movflags", "frag_keyframe+empty_moov+delay_moov"),
    "hdr.mp4": ("-c:v", "libx265", "-preset", "ultrafast", "-pix_fmt", "yuv420p10le", "-x265-params", _HDR),
    "h264.mkv": (*_X264, "-c:a", "ac3"),
    "vp8.webm": ("-c:v", "libvpx", "-b:v", "200k", "-c:a", "libopus"),
    "vp9.webm": ("-c:v", "libvpx-vp9", "-b:v", "200k", "-cpu-used", "8", "-c:a", "libvorbis"),
    "xvid.avi": ("-c:v", "mpeg4", "-bf", "2", "-vtag", "XVID", "-c:a", "libmp3lame"),
    "mjpeg.avi": ("-c:v", "mjpeg", "-c:a", "pcm_s16le"),
    "h264.ts": (*_X264, "-c:a", "mp2"),
    "dvd.mpg": ("-c:v", "mpeg2video", "-g", "12", "-flags", "+ildct+ilme", "-c:a", "mp2", "-f", "dvd"),
    "h264.flv": (*_X264, "-c:a", "aac"),
    "prores.mov": ("-c:v", "prores_ks", "-profile:v", "0", "-c:a", "pcm_s16be"),
    "windows.wmv": ("-c:v", "wmv2", "-c:a", "wmav2"),
    "theora.ogg": ("-c:v", "libtheora", "-c:a", "libvorbis"),
    "broadcast.mxf": ("-c:v", "mpeg2video", "-g", "12", "-c:a", "pcm_s16le"),
    "raw.h264": ("-an", *_X264),
    "moving.gif": ("-an", "-r", "10"),
    "moving.apng": ("-an", "-r", "10", "-plays", "0"),
    "av1.mkv": ("-c:v", "libaom-av1", "-cpu-used", "8", "-usage", "realtime", "-b:v", "200k", "-c:a", "flac"),
    "nut.nut": ("-c:v", "ffv1", "-c:a", "pcm_s16le"),
}


def make_films(folder: Path) -> dict[str, bytes]:
    """Return all films by name, made in ``folder`` unless they are there."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "text.srt").write_text(SUBTITLES)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda name: _make(folder / name, FILMS[name]), FILMS))
        _make(folder / "text.mkv", (*_X264, "-c:a", "aac", "-c:s", "ass"), text=folder / "text.srt")
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix != ".srt"}


def _make(path: Path, arguments: tuple[str, ...], text: Path | None = None) -> None:
    if path.exists():
        return
    inputs = ["-f", "lavfi", "-i", _PICTURE, "-f", "lavfi", "-i", _SOUND, *(["-i", str(text)] if text else [])]
    part = path.with_name(f"part-{path.name}")
    command = ["ffmpeg", "-nostdin", "-v", "error", "-y", *inputs, *arguments, "-threads", "2", str(part)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=120)
    part.rename(path)
