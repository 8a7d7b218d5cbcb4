"""Pacing: borders are kept, gaps are held, too many pictures a second are thinned."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from app.transcode.decode import Picture
from app.transcode.pacing import NEAR_TICKS, Pacer

STEP = 1350
"""The least distance of pictures at 60 a second."""


def pace(times: Sequence[int], borders: Sequence[int]) -> tuple[list[tuple[int, int, bool]], Pacer]:
    """Return what is shown: (time of the source picture, time at which it is shown, whether it opens a segment)."""
    pacer = Pacer(borders, shortest_step=STEP)
    shown = list(pacer.pace(iter([Picture(time, time) for time in times])))
    return [(int(str(one.frame)), one.ticks, one.opens_segment) for one in shown], pacer


def test_pictures_on_their_borders_pass_as_they_are() -> None:
    shown, pacer = pace([0, 3000, 6000, 9000, 12_000], [0, 6000, 12_000])
    assert shown == [(0, 0, True), (3000, 3000, False), (6000, 6000, True), (9000, 9000, False)]
    assert (pacer.repeated, pacer.dropped) == (0, 0)


def test_pictures_before_the_chunk_are_dropped_without_being_counted() -> None:
    shown, pacer = pace([0, 3000, 6000, 9000], [6000, 12_000])
    assert shown == [(6000, 6000, True), (9000, 9000, False)]
    assert (pacer.repeated, pacer.dropped) == (0, 0)


def test_a_border_without_a_picture_repeats_the_one_before_it() -> None:
    shown, pacer = pace([0, 100_000], [0, 50_000, 120_000])
    assert shown == [(0, 0, True), (0, 50_000, True), (100_000, 100_000, False)]
    assert pacer.repeated == 1


def test_the_picture_before_the_chunk_opens_it_when_the_chunk_has_none_there() -> None:
    shown, _ = pace([0, 100_000], [50_000, 120_000])
    assert shown == [(0, 50_000, True), (100_000, 100_000, False)]


def test_a_late_first_picture_is_shown_from_the_start() -> None:
    shown, pacer = pace([9000, 12_000], [0, 20_000])
    assert shown == [(9000, 0, True), (9000, 9000, False), (12_000, 12_000, False)]
    assert pacer.repeated == 1


def test_a_source_that_ends_early_holds_its_last_picture_at_every_border() -> None:
    shown, pacer = pace([0, 3000], [0, 6000, 12_000, 18_000])
    assert shown == [(0, 0, True), (3000, 3000, False), (3000, 6000, True), (3000, 12_000, True)]
    assert pacer.repeated == 2


def test_a_picture_within_a_millisecond_of_a_border_is_moved_onto_it() -> None:
    for time in (6000 - NEAR_TICKS, 6000 + NEAR_TICKS):
        shown, pacer = pace([0, time, 9000], [0, 6000, 12_000])
        assert shown == [(0, 0, True), (time, 6000, True), (9000, 9000, False)]
        assert pacer.repeated == 0


def test_a_picture_at_the_end_belongs_to_the_next_chunk() -> None:
    for time in (12_000 - NEAR_TICKS, 12_000, 12_000 + NEAR_TICKS):
        shown, _ = pace([0, time], [0, 12_000])
        assert shown == [(0, 0, True)]


def test_too_many_pictures_a_second_are_thinned_and_counted() -> None:
    shown, pacer = pace(range(0, 9000, 375), [0, 9000])
    assert [ticks for _, ticks, _ in shown] == [0, 1500, 3000, 4500, 6000, 7500]
    assert pacer.dropped == 18


def test_no_picture_gives_nothing() -> None:
    assert pace([], [0, 6000])[0] == []


@given(
    st.lists(st.integers(1, 40_000), max_size=60),
    st.integers(-100_000, 100_000),
    st.lists(st.integers(90_000, 200_000), min_size=1, max_size=6),
    st.integers(0, 300_000),
)
def test_every_segment_is_opened_once_by_a_picture_at_its_border(
    steps: list[int], first: int, lengths: list[int], start: int
) -> None:
    times = [first + sum(steps[:n]) for n in range(len(steps) + 1)]
    borders = [start + sum(lengths[:n]) for n in range(len(lengths) + 1)]
    shown, pacer = pace(times, borders)
    assert [ticks for _, ticks, opens in shown if opens] == borders[:-1]
    assert all(a < b for (_, a, _), (_, b, _) in pairwise(shown))
    assert borders[0] <= shown[0][1]
    assert shown[-1][1] < borders[-1]
    inside = [time for time in times if borders[0] + NEAR_TICKS < time < borders[-1] - NEAR_TICKS]
    assert len(shown) - pacer.repeated <= len(inside) + 1
    assert len(inside) <= len(shown) - pacer.repeated + pacer.dropped


@given(
    st.lists(st.integers(STEP, 40_000), min_size=1, max_size=60),
    st.lists(st.integers(90_000, 200_000), min_size=2, max_size=5),
)
def test_chunks_made_apart_show_what_one_chunk_would(steps: list[int], lengths: list[int]) -> None:
    times = [sum(steps[:n]) for n in range(len(steps) + 1)]
    borders = [sum(lengths[:n]) for n in range(len(lengths) + 1)]
    whole, _ = pace(times, borders)
    apart = [one for begin, end in pairwise(borders) for one in pace(times, [begin, end])[0]]
    assert apart == whole
