"""Text shown over the picture: cues on the film's time line, and WebVTT, in which tracks are kept and served.

A cue's text is WebVTT cue text as ``app.transcode`` writes it: escaped, with nothing but ``<i>``, ``<b>`` and ``<u>``
as tags, properly nested, no empty line. A track is one WebVTT file for the whole film: it is small, and RFC 8216
(6.2.4) lets subtitle playlists of a finished film have segments longer than the picture's.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import islice, pairwise

import msgspec

from app.media.source import TICKS_PER_S

AT_TOP = "line:0"
"""Cue setting of text that belongs to the top of the picture."""
WEBVTT_HEAD = "WEBVTT\nX-TIMESTAMP-MAP=MPEGTS:0,LOCAL:00:00:00.000\n\n"
WEBVTT_BEAT = "NOTE\n\n"
"""A comment that readers skip, to be sent after the head while the rest is being made."""
MAX_CUES = 50_000
_MOST_AT_ONCE = 8
_TICKS_PER_MS = TICKS_PER_S // 1000
_TAG = re.compile(r"<[^>]*>")
_TIMING = re.compile(r"(?:(\d+):)?(\d{2}):(\d{2})\.(\d{3}) --> (?:(\d+):)?(\d{2}):(\d{2})\.(\d{3})(?: (.*))?")


class Cue(msgspec.Struct, frozen=True, kw_only=True):
    """One text and when it is shown."""

    start_ticks: int
    end_ticks: int
    text: str
    """WebVTT cue text, lines separated by a line feed."""
    settings: str = ""
    """WebVTT cue settings; empty shows the text at the bottom."""


def arrange_cues(cues: Iterable[Cue], duration_ticks: int) -> tuple[Cue, ...]:
    """Return the cues that a film of that length can show: clipped to it, in order of time, each once.

    What ends before it starts, is shorter than a millisecond or has no text is dropped.
    """
    kept: dict[Cue, None] = {}
    for cue in cues:
        start, end = max(0, cue.start_ticks), min(cue.end_ticks, duration_ticks)
        start, end = _whole_ms(start), _whole_ms(end)
        if start < end and cue.text:
            kept[msgspec.structs.replace(cue, start_ticks=start, end_ticks=end)] = None
    return tuple(sorted(kept, key=lambda cue: (cue.start_ticks, cue.end_ticks)))[:MAX_CUES]


def _whole_ms(ticks: int) -> int:
    return (ticks + _TICKS_PER_MS // 2) // _TICKS_PER_MS * _TICKS_PER_MS


def format_webvtt(cues: Iterable[Cue]) -> str:
    """Return the WebVTT file of a track; its clock starts with the film."""
    return WEBVTT_HEAD + "".join(
        f"{_format_ms(cue.start_ticks)} --> {_format_ms(cue.end_ticks)}{' ' + cue.settings if cue.settings else ''}\n"
        f"{cue.text}\n\n"
        for cue in cues
    )


def _format_ms(ticks: int) -> str:
    seconds, ms = divmod(ticks // _TICKS_PER_MS, 1000)
    minutes, second = divmod(seconds, 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}.{ms:03d}"


def parse_webvtt(text: str) -> tuple[Cue, ...]:
    """Return the cues of a file that ``format_webvtt`` wrote; blocks that are no cue are passed over."""
    cues = []
    for block in text.split("\n\n"):
        first, _, rest = block.strip("\n").partition("\n")
        timing = _TIMING.fullmatch(first)
        if timing and rest:
            start, end = timing.groups()[:4], timing.groups()[4:8]
            settings = timing[9] or ""
            cues.append(Cue(start_ticks=_ticks_of(*start), end_ticks=_ticks_of(*end), text=rest, settings=settings))
    return tuple(cues)


def _ticks_of(hours: str | None, minutes: str, seconds: str, ms: str) -> int:
    return ((int(hours or 0) * 60 + int(minutes)) * 60 + int(seconds)) * TICKS_PER_S + int(ms) * _TICKS_PER_MS


def plain_text(text: str) -> str:
    """Return cue text without tags and escapes."""
    return html.unescape(_TAG.sub("", text))


class CueLine:
    """The cues of a track, asked for by the moment; of too many at once only the first few are shown."""

    def __init__(self, cues: Sequence[Cue]) -> None:
        starts, ends = defaultdict(list), defaultdict(list)
        for number, cue in enumerate(cues):
            starts[cue.start_ticks].append(number)
            ends[cue.end_ticks].append(number)
        self._moments = sorted(starts.keys() | ends.keys())
        self._shown: list[tuple[Cue, ...]] = []
        active: dict[int, None] = {}
        for moment in self._moments:
            for number in ends[moment]:
                active.pop(number, None)
            active.update(dict.fromkeys(starts[moment]))
            self._shown.append(tuple(cues[number] for number in islice(active, _MOST_AT_ONCE)))

    def at(self, ticks: int) -> tuple[Cue, ...]:
        """Return the cues that are shown at a moment, in order."""
        place = bisect_right(self._moments, ticks) - 1
        return self._shown[place] if place >= 0 else ()

    def flattened(self) -> tuple[Cue, ...]:
        """Return the same as cues that follow one another: where several are shown, their lines stand together."""
        flat = []
        for (start, end), cues in zip(pairwise(self._moments), self._shown, strict=False):
            if cues:
                lines = "\n".join(cue.text for cue in cues)
                flat.append(Cue(start_ticks=start, end_ticks=end, text=lines))
        return tuple(flat)
