"""From the markup of subtitle formats to WebVTT cue text that cannot be anything but text.

Whatever a format says becomes *runs*: stretches of plain text that are italic, bold or underlined. Runs are written
with everything escaped, so no tag of a source comes through as it was; drawings, karaoke, colours, fonts and positions
are dropped, except that text for the top of the picture stays there.
"""

from __future__ import annotations

import html
import re
import struct
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from app.media.text import AT_TOP

_ITALIC, _BOLD, _UNDERLINE = "i", "b", "u"
_TAGS = (_BOLD, _ITALIC, _UNDERLINE)
_HTML = re.compile(r"<(/?)([A-Za-z][^<>]*|[0-9][0-9:.]*)>|\{(\\[^{}]*)\}")
_ASS = re.compile(r"\{([^{}]*)\}|\\([Nnh])")
_OVERRIDE = re.compile(r"\\(an?|[ibup])(\d+)|\\(r)([^\\]*)")
_TOP_BY_KEYPAD = {"7", "8", "9"}
_TOP_BY_OLD_NUMBER = {"5", "6", "7"}
_ESCAPES = {"N": "\n", "n": "\n", "h": "\u00a0"}
_BOLD_WEIGHT = 600
_STYLE_ENTRY = struct.Struct(">HHHBBI")


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """How a style shows text."""

    tags: frozenset[str] = frozenset()
    is_top: bool = False


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of plain text."""

    text: str
    tags: frozenset[str] = frozenset()


class Marked(msgspec.Struct, frozen=True, kw_only=True):
    """Text of one cue, taken apart."""

    runs: tuple[Run, ...]
    is_top: bool = False

    @property
    def settings(self) -> str:
        """WebVTT cue settings."""
        return AT_TOP if self.is_top else ""


def read_html(text: str) -> Marked:
    """Take SubRip or WebVTT text apart: tags as in HTML, in SubRip also overrides as in ASS."""
    runs: list[Run] = []
    tags: frozenset[str] = frozenset()
    is_top, place = False, 0
    for match in _HTML.finditer(text):
        runs.append(Run(text=html.unescape(text[place : match.start()]), tags=tags))
        place = match.end()
        closes, tag, override = match.groups()
        if override:
            is_top = is_top or _says_top(override)
        else:
            name = re.split(r"[\s.]", tag.casefold(), maxsplit=1)[0]
            name = {"em": _ITALIC, "strong": _BOLD}.get(name, name)
            if name in _TAGS:
                tags = tags - {name} if closes else tags | {name}
    runs.append(Run(text=html.unescape(text[place:]), tags=tags))
    return Marked(runs=tuple(runs), is_top=is_top)


def read_ass(text: str, style: str, looks: Mapping[str, Look]) -> Marked:
    """Take the text of an ASS or SSA line of style ``style`` apart; drawings are left out."""
    own = looks.get(style.removeprefix("*"), Look())
    runs: list[Run] = []
    tags, is_top, is_drawing, place = own.tags, own.is_top, False, 0
    for match in _ASS.finditer(text):
        if not is_drawing:
            runs.append(Run(text=text[place : match.start()], tags=tags))
        place = match.end()
        overrides, escape = match.groups()
        if escape:
            runs.append(Run(text=_ESCAPES[escape], tags=tags))
            continue
        for one in _OVERRIDE.finditer(overrides):
            kind, value = one[1] or one[3], one[2] or (one[4] or "").strip()
            if kind == "r":
                tags = looks.get(value, own).tags
            elif kind in {"a", "an"}:
                is_top = _is_top(kind, value)
            elif kind == "p":
                is_drawing = value != "0"
            else:
                is_on = value == "1" or (kind == _BOLD and int(value[:4]) >= _BOLD_WEIGHT)
                tags = tags | {kind} if is_on else tags - {kind}
    if not is_drawing:
        runs.append(Run(text=text[place:], tags=tags))
    return Marked(runs=tuple(runs), is_top=is_top)


def _says_top(override: str) -> bool:
    return any(_is_top(one[1], one[2]) for one in _OVERRIDE.finditer(override) if one[1] in {"a", "an"})


def _is_top(kind: str, value: str) -> bool:
    return value in (_TOP_BY_KEYPAD if kind == "an" else _TOP_BY_OLD_NUMBER)


def read_mov_text(sample: bytes) -> Marked:
    """Take a 3GPP timed text sample apart: a length, the text, then boxes, of which ``styl`` says what is italic."""
    length = int.from_bytes(sample[:2], "big")
    raw, boxes = sample[2 : 2 + length], sample[2 + length :]
    charset = "utf-16" if raw[:2] in {b"\xfe\xff", b"\xff\xfe"} else "utf-8"
    text = raw.decode(charset, errors="replace")
    tags = [frozenset[str]()] * len(text)
    for start, end, faces in _styled_ranges(boxes):
        named = {_BOLD: faces & 1, _ITALIC: faces & 2, _UNDERLINE: faces & 4}
        found = frozenset(name for name, is_on in named.items() if is_on)
        for place in range(min(start, len(text)), min(end, len(text))):
            tags[place] = found
    return Marked(runs=tuple(Run(text=letter, tags=one) for letter, one in zip(text, tags, strict=True)))


def _styled_ranges(boxes: bytes) -> Iterator[tuple[int, int, int]]:
    place = 0
    while place + 10 <= len(boxes):
        size = max(8, int.from_bytes(boxes[place : place + 4], "big"))
        if boxes[place + 4 : place + 8] == b"styl":
            body = boxes[place + 10 : place + size]
            count = int.from_bytes(boxes[place + 8 : place + 10], "big")
            for entry in range(min(count, len(body) // _STYLE_ENTRY.size)):
                start, end, _, faces, _, _ = _STYLE_ENTRY.unpack_from(body, entry * _STYLE_ENTRY.size)
                yield start, end, faces
        place += size


def format_cue_text(runs: Iterable[Run]) -> str:
    """Return runs as WebVTT cue text: escaped, tags nested, no empty line, no control characters."""
    lines: list[list[Run]] = [[]]
    for run in runs:
        for number, part in enumerate(run.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")):
            if number:
                lines.append([])
            clean = "".join(one for one in part if one.isprintable() or one in "\u00a0\u200c\u200d\u200e\u200f\t")
            if clean:
                lines[-1].append(Run(text=clean, tags=run.tags))
    shown = (_trimmed(line) for line in lines)
    return "\n".join(_format_line(line) for line in shown if line)


def _trimmed(line: list[Run]) -> list[Run]:
    """Return a line without white space at its ends."""
    if not "".join(run.text for run in line).strip():
        return []
    merged: list[Run] = []
    for run in line:
        if merged and merged[-1].tags == run.tags:
            merged[-1] = Run(text=merged[-1].text + run.text, tags=run.tags)
        else:
            merged.append(run)
    merged[0] = Run(text=merged[0].text.lstrip(), tags=merged[0].tags)
    merged[-1] = Run(text=merged[-1].text.rstrip(), tags=merged[-1].tags)
    return [run for run in merged if run.text]


def _format_line(line: list[Run]) -> str:
    return "".join(_format_run(run) for run in line)


def _format_run(run: Run) -> str:
    names = [name for name in _TAGS if name in run.tags]
    text = run.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(f"<{name}>" for name in names) + text + "".join(f"</{name}>" for name in reversed(names))
