"""Chapters that containers get wrong, and what is left of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.media.chapters import MAX_CHAPTERS, MAX_TITLE, SHORTEST_TICKS, RawChapter, repair_chapters
from app.media.source import TICKS_PER_S

FILM = 100 * TICKS_PER_S
moments = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-10 * TICKS_PER_S, 2 * FILM))
raw_chapters = st.builds(RawChapter, start_ticks=moments, end_ticks=moments, title=st.text(max_size=200))


def raw(start_s: float, end_s: float, title: str = "") -> RawChapter:
    return RawChapter(start_ticks=round(start_s * TICKS_PER_S), end_ticks=round(end_s * TICKS_PER_S), title=title)


def repaired(*chapters: RawChapter, origin: int = 0) -> list[tuple[float, float, str]]:
    found = repair_chapters(chapters, origin=origin, duration=FILM)
    return [(one.start_ticks / TICKS_PER_S, one.end_ticks / TICKS_PER_S, one.title) for one in found]


@given(st.lists(raw_chapters, max_size=20), st.integers(-FILM, FILM))
def test_chapters_must_be_in_order_inside_the_film_without_overlap(made: list[RawChapter], origin: int) -> None:
    chapters = repair_chapters(made, origin=origin, duration=FILM)
    end = 0
    for one in chapters:
        assert end <= one.start_ticks
        assert one.start_ticks + SHORTEST_TICKS <= one.end_ticks <= FILM
        assert len(one.title) <= MAX_TITLE
        assert one.title.isprintable()
        end = one.end_ticks


def test_chapters_are_sorted_and_end_where_the_next_begins() -> None:
    assert repaired(raw(50, 100, "b"), raw(0, 60, "a")) == [(0, 50, "a"), (50, 100, "b")]


def test_times_count_from_the_films_start() -> None:
    assert repaired(raw(10, 60, "a"), raw(60, 110, "b"), origin=10 * TICKS_PER_S) == [(0, 50, "a"), (50, 100, "b")]


def test_a_chapter_past_the_end_does_not_stretch_the_film() -> None:
    assert repaired(raw(0, 90, "a"), raw(90, 500, "b"), raw(200, 300, "c")) == [(0, 90, "a"), (90, 100, "b")]


def test_negative_inverted_and_empty_ones_are_dropped() -> None:
    assert repaired(raw(-5, 40, "a"), raw(40, 40, "x"), raw(70, 60, "y"), raw(-9, -8, "z")) == [(0, 40, "a")]


def test_of_two_that_begin_together_the_second_stays() -> None:
    assert repaired(raw(0, 50, "a"), raw(0.05, 100, "b")) == [(0.05, 100, "b")]


def test_a_single_nameless_chapter_says_nothing() -> None:
    assert repaired(raw(0, 100)) == []
    assert repaired(raw(0, 100, "All of it")) == [(0, 100, "All of it")]


def test_absurdly_many_are_cut() -> None:
    made = [raw(one / 8, (one + 1) / 8, "x") for one in range(MAX_CHAPTERS + 50)]
    assert len(repaired(*made)) == MAX_CHAPTERS
