"""The system's ffprobe and ffmpeg, run as commands: facts of a file, its pictures with their times, its sound."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

SOUND_RATE = 8000
LONGEST_S = 3600.0
_ROUNDING_S = 0.005
Pixels = npt.NDArray[np.uint8]
Line = npt.NDArray[np.float32]

_PICTURE_LINE = re.compile(r"n:\s*\d+ pts:\s*\S+ pts_time:(\S+).*? s:(\d+)x(\d+) i:(\w)")
_SOUND_LINE = re.compile(r"n:\s*\d+ pts:\s*\S+ pts_time:(\S+).*? rate:(\d+) nb_samples:(\d+)")
_COMPLAINT = re.compile(r"\[(error|fatal|panic)\](?!.*increasing dts to muxer)")
_LEVELS = ("-loglevel", "level+info", "-nostats")


class CommandError(Exception):
    """ffmpeg or ffprobe could not do what it was asked."""


def file_url(path: Path) -> str:
    """Return how the commands are told of a file, whatever its name looks like."""
    return f"file:{path.absolute()}"


def probe(path: Path) -> dict[str, Any]:
    """Return what ffprobe says of a file's streams; an empty list when it cannot say anything."""
    command = ["ffprobe", "-v", "error", "-protocol_whitelist", "file", "-of", "json", "-show_streams", "-show_format"]
    run = subprocess.run([*command, file_url(path)], capture_output=True, timeout=120, check=False)
    try:
        answer: dict[str, Any] = json.loads(run.stdout or b"{}")
    except ValueError:
        answer = {}
    return {"streams": [], "format": {}, **answer}


class PictureTrack(msgspec.Struct, kw_only=True):
    """What came out of a picture stream."""

    times: list[float | None]
    sizes: list[tuple[int, int]]
    fields: list[str]
    """P, T or B for each picture: progressive, top or bottom field first."""
    complaints: list[str]


class Decoding:
    """One run of ffmpeg that shows all pictures of a stream, small, with the times the stream gives them."""

    def __init__(
        self,
        path: Path,
        stream: int,
        *,
        size: tuple[int, int],
        filters: Sequence[str] = (),
        before: Sequence[str] = (),
        fits: bool = False,
    ) -> None:
        """Start: ``filters`` come before the times are looked at; ``before`` are options of the input.

        With ``fits`` pictures of other shapes are shown whole between bars, otherwise stretched.
        """
        width, height = size
        self._shape = (height, width, 4)
        chain = [*filters, "showinfo=checksum=0"]
        if fits:
            wide = f"gt(dar\\,{width / height})"
            chain.append(
                f"scale=w=if({wide}\\,{width}\\,{height}*dar):h=if({wide}\\,{width}/dar\\,{height}):flags=area"
            )
            chain.append(f"pad={width}:{height}:(ow-iw)/2:(oh-ih)/2")
        else:
            chain.append(f"scale={width}:{height}:flags=area")
        chain.append("format=rgba")
        command = ["ffmpeg", "-nostdin", "-hide_banner", *_LEVELS, "-copyts"]
        command += [*before, "-protocol_whitelist", "file", "-i", file_url(path), "-map", f"0:{stream}"]
        command += ["-an", "-sn", "-dn", "-fps_mode", "passthrough", "-vf", ",".join(chain)]
        self._process = subprocess.Popen(
            [*command, "-f", "rawvideo", "pipe:1"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.track = PictureTrack(times=[], sizes=[], fields=[], complaints=[])
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def _listen(self) -> None:
        for raw in self._process.stderr or ():
            line = raw.decode(errors="replace").rstrip()
            match = _PICTURE_LINE.search(line)
            with self._news:
                if match:
                    time, width, height, field = match.groups()
                    self.track.times.append(None if time == "NOPTS" else float(time))
                    self.track.sizes.append((int(width), int(height)))
                    self.track.fields.append(field)
                    self._news.notify()
                elif _COMPLAINT.search(line):
                    self.track.complaints.append(line)
        with self._news:
            self._news.notify()

    def pictures(self) -> Iterator[tuple[int, float | None, Pixels]]:
        """Yield (number, seconds, pixels as height, width, RGBA)."""
        size = int(np.prod(self._shape))
        stdout = self._process.stdout
        if stdout is None:
            return
        number = 0
        try:
            while len(data := stdout.read(size)) == size:
                yield number, self._time_of(number), np.frombuffer(data, np.uint8).reshape(self._shape)
                number += 1
        finally:
            stdout.close()
            self._process.wait()
            self._reader.join()
            if self._process.stderr:
                self._process.stderr.close()

    def _time_of(self, number: int) -> float | None:
        with self._news:
            self._news.wait_for(lambda: len(self.track.times) > number or not self._reader.is_alive(), timeout=30)
            return self.track.times[number] if number < len(self.track.times) else None


class SoundTrack(msgspec.Struct, kw_only=True):
    """A sound stream as blocks on its own clock, and all its samples, mixed to mono at 8 kHz."""

    blocks: list[tuple[float, float]]
    """(start, length) in seconds of each decoded block."""
    samples: Any
    complaints: list[str]

    def line(self, origin: float) -> Line:
        """Return the samples on a time line whose zero is ``origin``; where there are none it is silent.

        A block that begins within 5 ms of the end of the one before goes on from there: containers round times.
        """
        end = max((start + length - origin for start, length in self.blocks), default=0.0)
        line: Line = np.zeros(max(0, round(end * SOUND_RATE)) + SOUND_RATE, np.float32)
        taken = expected = 0.0
        for start, length in self.blocks:
            at = expected if abs(start - origin - expected) <= _ROUNDING_S else start - origin
            expected = at + length
            piece = self.samples[round(taken * SOUND_RATE) : round((taken + length) * SOUND_RATE)]
            taken += length
            place = round(at * SOUND_RATE)
            if place < 0:
                piece, place = piece[-place:], 0
            piece = piece[: len(line) - place]
            line[place : place + len(piece)] = piece
        return line


def hear(path: Path, stream: int, *, mix: str = "") -> SoundTrack:
    """Decode a sound stream; ``mix`` is a filter that picks channels (otherwise all are mixed)."""
    command = ["ffmpeg", "-nostdin", "-hide_banner", *_LEVELS, "-copyts"]
    command += ["-protocol_whitelist", "file", "-i", file_url(path), "-map", f"0:{stream}", "-vn", "-sn", "-dn"]
    command += ["-af", ",".join(filter(None, ["ashowinfo", mix])), "-ac", "1", "-ar", str(SOUND_RATE), "-f", "f32le"]
    with subprocess.Popen(
        [*command, "pipe:1"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        lines: deque[str] = deque()
        reader = threading.Thread(
            target=lambda: lines.extend(raw.decode(errors="replace").rstrip() for raw in process.stderr or ()),
            daemon=True,
        )
        reader.start()
        data = process.stdout.read() if process.stdout else b""
        reader.join()
    blocks, complaints = [], []
    expected = 0.0
    for line in lines:
        match = _SOUND_LINE.search(line)
        if match:
            start = expected if match[1] == "NOPTS" else float(match[1])
            length = int(match[3]) / int(match[2])
            blocks.append((start, length))
            expected = start + length
        elif _COMPLAINT.search(line):
            complaints.append(line)
    samples = np.frombuffer(data[: len(data) // 4 * 4], np.float32)
    return SoundTrack(blocks=blocks, samples=samples, complaints=complaints)


def combed_share(path: Path) -> float:
    """Return which share of a film's pictures ffmpeg's ``idet`` takes for interlaced."""
    command = ["ffmpeg", "-nostdin", "-hide_banner", "-nostats", "-i", file_url(path), "-vf", "idet", "-f", "null", "-"]
    run = subprocess.run(command, capture_output=True, timeout=LONGEST_S, check=False)
    match = re.search(r"Multi frame detection: TFF:\s*(\d+) BFF:\s*(\d+) Progressive:\s*(\d+)", run.stderr.decode())
    if match is None:
        raise CommandError("idet said nothing")
    top, bottom, progressive = (int(one) for one in match.groups())
    return (top + bottom) / max(1, top + bottom + progressive)
