"""Numbers in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.ui.wording import Wording, clean_line, format_clock, format_percent, format_size


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (-3, "0:00"), (59.9, "0:59"), (225, "3:45"), (5025, "1:23:45"), (360000, "100:00:00")],
)
def test_a_clock_shows_hours_only_when_there_are_some(seconds: float, text: str) -> None:
    assert format_clock(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (1_240_000_000, "1.24 GB"),
        (12_345_678, "12.3 MB"),
        (999_600, "1.00 MB"),
        (123_456_789_012, "123 GB"),
        (5_000_000_000_000_000, "5000 TB"),
    ],
)
def test_a_size_has_three_digits(size: int, text: str) -> None:
    assert format_size(size) == text


@pytest.mark.parametrize(("share", "text"), [(0, "0 %"), (0.29, "29 %"), (0.999, "99 %"), (1, "100 %"), (7, "100 %")])
def test_percent_never_says_100_before_the_end(share: float, text: str) -> None:
    assert format_percent(share) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (3, "less than a minute left"),
        (55, "1 min left"),
        (252, "4 min left"),
        (3600, "1 h left"),
        (4980, "1 h 20 min left"),
        (90_000, "1 day left"),
        (400_000, "5 days left"),
    ],
)
def test_time_left_is_said_roughly(seconds: float, text: str) -> None:
    assert Wording().time_left(seconds) == text


@pytest.mark.parametrize(("rate", "digits"), [(0.05, "0.05"), (1.84, "1.8"), (12.3, "12")])
def test_a_rate_has_as_many_digits_as_matter(rate: float, digits: str) -> None:
    assert Wording().rate(rate).startswith(f"{digits}\N{MULTIPLICATION SIGN}")


def test_texts_go_through_the_translator_before_numbers_are_filled_in() -> None:
    wording = Wording(lambda _context, text: {"{n} films": "{n} Filme"}.get(text, text))
    assert wording.count(3, "{n} film", "{n} films") == "3 Filme"
    assert wording.count(1, "{n} film", "{n} films") == "1 film"


def test_names_cannot_turn_or_break_a_line() -> None:
    """U3: controls, line ends and lone surrogates become visible signs."""
    cleaned = clean_line("a\u202egnp.exe\nb\x1b[31m\udcff\u2028c")
    assert cleaned.count("\N{REPLACEMENT CHARACTER}") == 4
    assert "\n" not in cleaned
    cleaned.encode()


@given(st.text(st.characters(codec=None)))
def test_cleaning_is_idempotent_and_encodable(text: str) -> None:
    once = clean_line(text)
    assert clean_line(once) == once
    once.encode()
