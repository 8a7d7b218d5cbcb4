"""What a source's film is, as ffmpeg sees it: which streams, when its pictures are shown, how it is to be looked at."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from tests.corpus.commands import SoundTrack, hear, probe

SLACK_S = 0.05
"""Sound that begins or ends outside the picture by less than this does not move the film's ends."""
_JUMP_BACK_S, _JUMP_AHEAD_S = 1.0, 10.0
_SHORTEST_STEP_S = 0.9 / 60
_HDR = {"smpte2084", "arib-std-b67"}


class SourceStreams(msgspec.Struct, frozen=True, kw_only=True):
    """The streams of a file that make the film."""

    container: str
    picture: dict[str, Any] | None
    sounds: tuple[dict[str, Any], ...]

    @property
    def is_hdr(self) -> bool:
        """Whether plain likeness of pixels cannot be asked for."""
        return self.picture is not None and self.picture.get("color_transfer") in _HDR

    @property
    def has_alpha(self) -> bool:
        """Whether parts of the picture are transparent."""
        picture = self.picture or {}
        tags = {name.lower(): value for name, value in picture.get("tags", {}).items()}
        return tags.get("alpha_mode") == "1" or any(
            mark in picture.get("pix_fmt", "") for mark in ("yuva", "rgba", "bgra", "argb", "abgr", "gbrap", "ya8")
        )

    @property
    def decoder(self) -> tuple[str, ...]:
        """Options of ffmpeg's input: its own VP8 and VP9 decoders do not look at transparency."""
        names = {"vp8": "libvpx", "vp9": "libvpx-vp9"}
        codec = (self.picture or {}).get("codec_name", "")
        return ("-c:v", names[codec]) if self.has_alpha and codec in names else ()


def streams_of(path: Path) -> SourceStreams:
    """Return the film's streams: never a cover; of several pictures the longest, then the largest."""
    found = probe(path)
    streams = found["streams"]
    pictures = [
        one
        for one in streams
        if one.get("codec_type") == "video" and not one.get("disposition", {}).get("attached_pic")
    ]
    pictures.sort(key=lambda one: (float(one.get("duration", 0)), one.get("width", 0) * one.get("height", 0)))
    sounds = [one for one in streams if one.get("codec_type") == "audio"]
    container = str(found["format"].get("format_name", ""))
    return SourceStreams(container=container, picture=pictures[-1] if pictures else None, sounds=tuple(sounds))


def shape_of(picture: dict[str, Any], width: int, height: int) -> float:
    """Return width by height of a picture as it must be shown: pixel shape and turn applied."""
    numerator, _, denominator = picture.get("sample_aspect_ratio", "1:1").partition(":")
    aspect = int(numerator) / int(denominator) if int(numerator or 0) and int(denominator or 0) else 1.0
    if abs(aspect - 1) <= 0.01:
        aspect = 1.0
    shape = width * aspect / height
    turns = [int(one["rotation"]) for one in picture.get("side_data_list", []) if "rotation" in one]
    return 1 / shape if turns and turns[0] % 180 else shape


class Showing(msgspec.Struct, frozen=True, kw_only=True):
    """When a source's pictures are shown, on one line that rises."""

    times: tuple[float, ...]
    last_s: float
    """How long the last one is shown, as far as that can be told."""
    repairs: int
    """Times that were missing or did not rise."""
    joins: int
    """Jumps of the clock."""

    @property
    def end(self) -> float:
        """When the picture is over."""
        return self.times[-1] + self.last_s

    @property
    def step(self) -> float:
        """The usual distance of pictures."""
        return usual_step(self.times)

    def thinned(self) -> list[float]:
        """Return the times that are left when nothing comes faster than 60 a second."""
        kept: list[float] = []
        for time in self.times:
            if not kept or time - kept[-1] >= _SHORTEST_STEP_S - 1e-4:
                kept.append(time)
        return kept


def usual_step(times: Sequence[float]) -> float:
    """Return the median distance; a 25th when there is none."""
    steps = sorted(b - a for a, b in pairwise(times) if b > a)
    return steps[len(steps) // 2] if steps else 0.04


def showing_of(times: Sequence[float | None]) -> Showing:
    """Put decoded times on one line: jumps of the clock are closed, missing and backward ones come after the last."""
    known = [time for time in times if time is not None]
    step = usual_step(known)
    line: list[float] = []
    shift = 0.0
    repairs = joins = 0
    for time in times:
        moved = None if time is None else time + shift
        if moved is not None and line and not line[-1] - _JUMP_BACK_S <= moved <= line[-1] + _JUMP_AHEAD_S:
            shift += line[-1] + step - moved
            moved = line[-1] + step
            joins += 1
        if moved is None or (line and moved <= line[-1]):
            moved = line[-1] + step / 2 if line else 0.0
            repairs += 1
        line.append(moved)
    return Showing(times=tuple(line), last_s=step, repairs=repairs, joins=joins)


def sounds_of(path: Path, streams: SourceStreams) -> list[SoundTrack]:
    """Return all sound tracks that hold anything."""
    tracks = [hear(path, one["index"]) for one in streams.sounds]
    return [track for track in tracks if track.blocks]


def film_ends(showing: Showing | None, sounds: Sequence[SoundTrack]) -> tuple[float, float]:
    """Return (start, end) of the film on the source's clock: the picture, and sound that clearly exceeds it."""
    starts = [track.blocks[0][0] for track in sounds]
    ends = [track.blocks[-1][0] + track.blocks[-1][1] for track in sounds]
    if showing is None:
        return min(starts), max(ends)
    start, end = showing.times[0], showing.end
    early = [one for one in starts if one < start - SLACK_S]
    late = [one for one in ends if one > end + SLACK_S]
    return min([start, *early]), max([end, *late])
