"""Chapters of a film: what containers say is repaired before anybody relies on it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from app.media.source import TICKS_PER_S

MAX_CHAPTERS = 500
MAX_TITLE = 120
SHORTEST_TICKS = TICKS_PER_S // 10
"""Two chapters that begin closer than this are one."""


class Chapter(msgspec.Struct, frozen=True, kw_only=True):
    """A named part of the film."""

    start_ticks: int
    end_ticks: int
    title: str
    """Empty when the container gives none: then it is called by its number."""


class RawChapter(msgspec.Struct, frozen=True, kw_only=True):
    """A chapter as a container has it; times are ticks of the source's own clock."""

    start_ticks: int
    end_ticks: int
    title: str = ""


def repair_chapters(raw: Iterable[RawChapter], *, origin: int, duration: int) -> tuple[Chapter, ...]:
    """Return chapters of a film of ``duration`` that begins at ``origin``.

    They are in order of time, inside the film, and each lasts until the next begins or until it ends by itself. What
    lies outside the film, ends before it starts or is shorter than a tenth of a second is dropped, and so are all of
    them when only one is left that covers the film and has no name.
    """
    placed = sorted(
        (max(0, one.start_ticks - origin), min(one.end_ticks - origin, duration), clean_title(one.title))
        for one in raw
        if one.start_ticks - origin < duration and one.end_ticks > max(one.start_ticks, origin)
    )
    chapters = [
        Chapter(start_ticks=start, end_ticks=min(end, limit), title=title)
        for (start, end, title), limit in zip(placed, _starts_after(placed, duration), strict=True)
        if min(end, limit) - start >= SHORTEST_TICKS
    ]
    if len(chapters) == 1 and not chapters[0].title:
        return ()
    return tuple(chapters[:MAX_CHAPTERS])


def _starts_after(placed: Sequence[tuple[int, int, str]], duration: int) -> list[int]:
    """Return for each chapter where the next one begins; the last one's limit is the film's end."""
    return [*(after[0] for _, after in pairwise(placed)), duration][: len(placed)]


def clean_title(text: str) -> str:
    """Return a title on one line, without control characters, of bearable length."""
    line = " ".join("".join(one if one.isprintable() else " " for one in text).split())
    return line if len(line) <= MAX_TITLE else line[: MAX_TITLE - 1].rstrip() + "…"
