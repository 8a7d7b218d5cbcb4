"""What a player shows beside the picture, from what the engine tells: text of the moment, chapters, names. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from app.engine.api import ChapterSnapshot, CueSnapshot, TextSnapshot
from app.ui.wording import Wording, clean_line, format_clock

CHAPTER_GRACE_S = 3.0
"""Going back within this after a chapter's start goes to the one before."""


def first_text(tracks: Sequence[TextSnapshot]) -> str | None:
    """Return the text track that is shown unasked: what is foreign in the film itself, else the film's default."""
    forced = next((one.name for one in tracks if one.is_forced), None)
    return forced or next((one.name for one in tracks if one.is_default), None)


def cue_text_at(cues: Sequence[CueSnapshot], position_s: float) -> str:
    """Return what is shown at a moment; ``cues`` follow one another."""
    place = bisect_right(cues, position_s, key=lambda cue: cue.start_s) - 1
    return cues[place].text if place >= 0 and position_s < cues[place].end_s else ""


def chapter_at(chapters: Sequence[ChapterSnapshot], position_s: float) -> int | None:
    """Return the place of the chapter that a moment lies in."""
    place = bisect_right(chapters, position_s, key=lambda one: one.start_s) - 1
    return place if place >= 0 and position_s < chapters[place].end_s else None


def next_chapter_s(chapters: Sequence[ChapterSnapshot], position_s: float, step: int) -> float | None:
    """Return where a jump to the next (1) or back (-1) goes, None when there is nowhere to go."""
    starts = [one.start_s for one in chapters]
    if step > 0:
        return next((start for start in starts if start > position_s), None)
    return next(
        (start for start in reversed(starts) if start < position_s - CHAPTER_GRACE_S), starts[0] if starts else None
    )


def chapter_name(chapters: Sequence[ChapterSnapshot], place: int, wording: Wording) -> str:
    """Return what a chapter is called."""
    return clean_line(chapters[place].title) or wording.say("Chapter {n}", n=place + 1)


def chapter_lines(chapters: Sequence[ChapterSnapshot], wording: Wording) -> list[str]:
    """Return the lines of a menu of chapters."""
    return [
        f"{format_clock(one.start_s)}  {chapter_name(chapters, place, wording)}" for place, one in enumerate(chapters)
    ]
