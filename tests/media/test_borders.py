"""Borders and chunks: rising, whole, near the wished lengths, on keyframes where there are some."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from app.media.borders import (
    CHUNK_TICKS,
    FIRST_SEGMENT_TICKS,
    LONGEST_COPIED_TICKS,
    LONGEST_ENCODED_TICKS,
    SEGMENT_TICKS,
    SHORTEST_TICKS,
    choose_borders,
    cut_chunks,
)
from app.media.source import TICKS_PER_S

FRAME = 3000


@st.composite
def films(draw: st.DrawFn) -> tuple[list[int], list[int], int]:
    """Draw (picture times, keyframe times, end): steady, variable and still films of up to five minutes."""
    steps = draw(st.lists(st.sampled_from([1, 900, FRAME, 9000, 90_000, 1_500_000]), max_size=60))
    repeat = draw(st.integers(1, 40))
    shown = [0]
    for step in steps * repeat:
        if shown[-1] + step > 300 * TICKS_PER_S:
            break
        shown.append(shown[-1] + step)
    every = draw(st.integers(1, 400))
    offset = draw(st.integers(0, 50))
    end = shown[-1] + draw(st.integers(1, 2_000_000))
    return shown, shown[offset::every], end


@given(films(), st.booleans())
def test_borders_must_rise_from_0_to_the_end(film: tuple[list[int], list[int], int], copied: bool) -> None:  # noqa: FBT001
    shown, keyframes, end = film
    borders = choose_borders(shown=shown, keyframes=keyframes, end=end, copied=copied)
    assert borders[0] == 0
    assert borders[-1] == end
    assert all(a < b for a, b in pairwise(borders))


@given(films(), st.booleans())
def test_no_segment_is_shorter_than_a_second_or_much_longer_than_allowed(
    film: tuple[list[int], list[int], int],
    copied: bool,  # noqa: FBT001
) -> None:
    shown, keyframes, end = film
    lengths = [b - a for a, b in pairwise(choose_borders(shown=shown, keyframes=keyframes, end=end, copied=copied))]
    longest = LONGEST_COPIED_TICKS if copied else LONGEST_ENCODED_TICKS
    assert all(length >= SHORTEST_TICKS for length in lengths[:-1])
    assert lengths[-1] >= min(SHORTEST_TICKS, end)
    assert all(length <= longest for length in lengths)


@given(films(), st.booleans())
def test_borders_lie_on_pictures_except_where_a_still_lasts(
    film: tuple[list[int], list[int], int],
    copied: bool,  # noqa: FBT001
) -> None:
    shown, keyframes, end = film
    for border in choose_borders(shown=shown, keyframes=keyframes, end=end, copied=copied)[1:-1]:
        near = [time for time in shown if abs(time - border) <= TICKS_PER_S // 2 and time <= end - SHORTEST_TICKS]
        assert border in shown or not near


def test_a_film_with_a_keyframe_every_two_seconds_is_cut_at_2_then_every_6() -> None:
    times = range(0, 20 * TICKS_PER_S, FRAME)
    keys = range(0, 20 * TICKS_PER_S, 2 * TICKS_PER_S)
    borders = choose_borders(shown=times, keyframes=keys, end=20 * TICKS_PER_S, copied=True)
    assert [border // TICKS_PER_S for border in borders] == [0, 2, 8, 14, 20]


def test_a_keyframe_ten_seconds_away_is_a_border_of_a_copied_film_only() -> None:
    times = range(0, 60 * TICKS_PER_S, FRAME)
    keys = range(0, 60 * TICKS_PER_S, 10 * TICKS_PER_S)
    copied = choose_borders(shown=times, keyframes=keys, end=60 * TICKS_PER_S, copied=True)
    encoded = choose_borders(shown=times, keyframes=keys, end=60 * TICKS_PER_S, copied=False)
    assert set(copied) <= {*keys, 60 * TICKS_PER_S}
    assert encoded[1] == FIRST_SEGMENT_TICKS


def test_a_keyframe_just_before_the_end_is_no_border() -> None:
    times = range(0, 20 * TICKS_PER_S, FRAME)
    keys = [0, 2 * TICKS_PER_S, 8 * TICKS_PER_S, 19 * TICKS_PER_S + 20 * FRAME]
    for copied in (True, False):
        borders = choose_borders(shown=times, keyframes=keys, end=20 * TICKS_PER_S, copied=copied)
        assert borders[-1] - borders[-2] >= SHORTEST_TICKS


def test_a_single_picture_is_one_segment() -> None:
    assert choose_borders(shown=[0], keyframes=[0], end=FRAME, copied=True) == (0, FRAME)


def test_a_still_that_lasts_is_cut_at_the_wished_moments() -> None:
    borders = choose_borders(shown=[0], keyframes=[0], end=20 * TICKS_PER_S, copied=False)
    assert borders[1:3] == (FIRST_SEGMENT_TICKS, FIRST_SEGMENT_TICKS + SEGMENT_TICKS)


@given(
    st.lists(st.integers(TICKS_PER_S, 8 * TICKS_PER_S), min_size=1, max_size=80),
    st.sets(st.integers(0, 80)),
    st.booleans(),
)
def test_chunks_must_cover_all_segments_once_in_order(lengths: list[int], encoded: set[int], single: bool) -> None:  # noqa: FBT001
    borders = [sum(lengths[:n]) for n in range(len(lengths) + 1)]
    chunks = cut_chunks(borders, is_copyable=lambda segment: segment not in encoded, single=single)
    covered = [segment for chunk in chunks for segment in range(chunk.first_segment, chunk.end_segment)]
    assert covered == list(range(len(lengths)))
    assert [chunk.number for chunk in chunks] == list(range(len(chunks)))
    for chunk in chunks:
        inside = range(chunk.first_segment, chunk.end_segment)
        assert chunk.copied == all(segment not in encoded for segment in inside)
        if not single:
            assert chunk.copied or all(segment in encoded for segment in inside)
            assert borders[chunk.end_segment] - borders[chunk.first_segment] <= CHUNK_TICKS + 8 * TICKS_PER_S


def test_the_first_segment_is_a_chunk_of_its_own_so_that_something_plays_at_once() -> None:
    borders = [0, *(2 * TICKS_PER_S + n * SEGMENT_TICKS for n in range(11))]
    chunks = cut_chunks(borders, is_copyable=lambda _: True)
    assert [(chunk.first_segment, chunk.end_segment) for chunk in chunks] == [(0, 1), (1, 6), (6, 11)]


def test_a_source_that_cannot_be_entered_is_one_chunk() -> None:
    borders = [n * SEGMENT_TICKS for n in range(20)]
    chunks = cut_chunks(borders, is_copyable=lambda _: False, single=True)
    assert [(chunk.first_segment, chunk.end_segment, chunk.copied) for chunk in chunks] == [(0, 19, False)]


def test_the_first_encoded_segment_stays_short_when_keyframes_are_far_apart() -> None:
    second = TICKS_PER_S
    shown = range(0, 60 * second, second // 25)
    keyframes = range(0, 60 * second, 7 * second)
    assert choose_borders(shown=shown, keyframes=keyframes, end=60 * second, copied=False)[1] == 2 * second
    assert choose_borders(shown=shown, keyframes=keyframes, end=60 * second, copied=True)[1] == 7 * second
