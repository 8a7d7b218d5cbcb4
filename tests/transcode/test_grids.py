"""Where sound frames and thumbnails lie."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.media.sound import AAC_FRAME_SAMPLES, frame_edge
from app.media.source import TICKS_PER_S
from app.transcode.stills import thumbnail_interval

rates = st.sampled_from([22_050, 44_100, 48_000])


def test_edge_0_is_the_start() -> None:
    assert frame_edge(0, 48_000) == 0
    assert frame_edge(TICKS_PER_S, 48_000) == 47, "46.875 frames"


@given(st.integers(0, 10**11), rates)
def test_the_edge_is_the_nearest(ticks: int, rate: int) -> None:
    distance = abs(frame_edge(ticks, rate) * AAC_FRAME_SAMPLES * TICKS_PER_S - ticks * rate)
    assert 2 * distance <= AAC_FRAME_SAMPLES * TICKS_PER_S


@given(st.lists(st.integers(0, 10**10), min_size=2, max_size=5), rates)
def test_edges_rise_with_their_moments(moments: list[int], rate: int) -> None:
    edges = [frame_edge(moment, rate) for moment in sorted(moments)]
    assert edges == sorted(edges)


@given(st.integers(1, 10**10))
def test_thumbnails_are_whole_seconds_apart_and_a_short_film_has_no_more_than_a_hundred(ticks: int) -> None:
    interval = thumbnail_interval(ticks)
    assert interval % TICKS_PER_S == 0
    assert TICKS_PER_S <= interval <= 10 * TICKS_PER_S
    assert ticks / interval <= 101 or interval == 10 * TICKS_PER_S


def test_a_clip_has_a_thumbnail_each_second_and_a_long_film_one_each_ten() -> None:
    assert thumbnail_interval(1) == thumbnail_interval(45 * TICKS_PER_S) == TICKS_PER_S
    assert thumbnail_interval(2 * 3600 * TICKS_PER_S) == 10 * TICKS_PER_S
