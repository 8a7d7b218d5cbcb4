"""What a player shows beside the picture: text of the moment, chapters, their names."""

from __future__ import annotations

import pytest

from app.engine.api import ChapterSnapshot, CueSnapshot, TextSnapshot
from app.ui.playing import chapter_at, chapter_name, cue_text_at, first_text, next_chapter_s
from app.ui.wording import Wording

CUES = (CueSnapshot(start_s=1, end_s=2, text="a"), CueSnapshot(start_s=2, end_s=3, text="b"))
CHAPTERS = tuple(ChapterSnapshot(start_s=start, end_s=start + 10, title="") for start in (0.0, 10.0, 30.0))


def text(name: str, *, is_default: bool = False, is_forced: bool = False) -> TextSnapshot:
    return TextSnapshot(name=name, label=name, language="", is_default=is_default, is_forced=is_forced)


def test_only_forced_or_default_text_is_shown_unasked() -> None:
    assert first_text([]) is None
    assert first_text([text("t0"), text("t1")]) is None
    assert first_text([text("t0"), text("t1", is_default=True)]) == "t1"
    assert first_text([text("t0", is_default=True), text("t1", is_forced=True)]) == "t1"


@pytest.mark.parametrize(("position_s", "wanted"), [(0, ""), (1, "a"), (1.999, "a"), (2, "b"), (3, ""), (99, "")])
def test_a_moment_has_its_text(position_s: float, wanted: str) -> None:
    assert cue_text_at(CUES, position_s) == wanted


@pytest.mark.parametrize(("position_s", "wanted"), [(0, 0), (9.9, 0), (10, 1), (25, None), (39, 2), (40, None)])
def test_a_moment_has_its_chapter(position_s: float, wanted: int | None) -> None:
    assert chapter_at(CHAPTERS, position_s) == wanted
    assert chapter_at((), position_s) is None


@pytest.mark.parametrize(
    ("position_s", "step", "wanted"),
    [(0, 1, 10), (10, 1, 30), (30, 1, None), (31, -1, 10), (34, -1, 30), (12, -1, 0), (1, -1, 0)],
)
def test_jumps_go_from_chapter_to_chapter(position_s: float, step: int, wanted: float | None) -> None:
    assert next_chapter_s(CHAPTERS, position_s, step) == wanted
    assert next_chapter_s((), position_s, step) is None


def test_a_nameless_chapter_is_called_by_its_number() -> None:
    assert chapter_name(CHAPTERS, 1, Wording()) == "Chapter 2"
