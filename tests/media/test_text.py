"""Cues on the film's time line, WebVTT there and back, and what is shown at a moment."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.media.source import TICKS_PER_S
from app.media.text import AT_TOP, Cue, CueLine, arrange_cues, format_webvtt, parse_webvtt, plain_text

FILM = 20 * TICKS_PER_S
ticks = st.integers(-3 * TICKS_PER_S, FILM + 3 * TICKS_PER_S)
cues = st.builds(
    Cue,
    start_ticks=ticks,
    end_ticks=ticks,
    text=st.sampled_from(["", "one", "two\nlines", "<i>a</i> &amp; b"]),
    settings=st.sampled_from(["", AT_TOP]),
)


def cue(start_s: float, end_s: float, text: str = "text") -> Cue:
    return Cue(start_ticks=round(start_s * TICKS_PER_S), end_ticks=round(end_s * TICKS_PER_S), text=text)


@given(st.lists(cues, max_size=20))
def test_arranged_cues_must_lie_inside_the_film_in_order_and_last(made: list[Cue]) -> None:
    arranged = arrange_cues(made, FILM)
    assert list(arranged) == sorted(arranged, key=lambda one: (one.start_ticks, one.end_ticks))
    assert all(0 <= one.start_ticks < one.end_ticks <= FILM and one.text for one in arranged)
    assert len(set(arranged)) == len(arranged)


@given(st.lists(cues, max_size=20))
def test_webvtt_must_give_back_what_was_written(made: list[Cue]) -> None:
    arranged = arrange_cues(made, FILM)
    assert parse_webvtt(format_webvtt(arranged)) == arranged


def test_the_clock_of_a_track_begins_with_the_film() -> None:
    assert format_webvtt([cue(3661.5, 3662)]) == (
        "WEBVTT\nX-TIMESTAMP-MAP=MPEGTS:0,LOCAL:00:00:00.000\n\n01:01:01.500 --> 01:01:02.000\ntext\n\n"
    )


def test_what_is_no_cue_is_passed_over() -> None:
    assert parse_webvtt("WEBVTT\n\nNOTE\n\nNOTE a --> b\n\n00:00:01.000 --> 00:00:02.000\n\n\nid\n") == ()


@given(st.lists(cues, max_size=20), st.integers(-1, FILM + 1))
def test_a_moment_must_show_the_cues_that_are_on_then(made: list[Cue], moment: int) -> None:
    arranged = arrange_cues(made, FILM)
    on = [one for one in arranged if one.start_ticks <= moment < one.end_ticks]
    assert list(CueLine(arranged).at(moment)) == on[:8]


def test_of_many_texts_at_once_only_a_few_are_shown() -> None:
    line = CueLine([cue(0, 10, f"{number}") for number in range(1000)])
    assert len(line.at(TICKS_PER_S)) == 8


def test_flattened_cues_follow_one_another_and_share_lines_where_two_were_on() -> None:
    line = CueLine(arrange_cues([cue(0, 2, "a"), cue(1, 3, "b"), cue(5, 6, "c")], FILM))
    assert [(one.start_ticks // TICKS_PER_S, one.end_ticks // TICKS_PER_S, one.text) for one in line.flattened()] == [
        (0, 1, "a"),
        (1, 2, "a\nb"),
        (2, 3, "b"),
        (5, 6, "c"),
    ]


def test_plain_text_has_neither_tags_nor_escapes() -> None:
    assert plain_text("<i>1 &lt; 2</i> &amp; so") == "1 < 2 & so"
