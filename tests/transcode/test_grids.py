"""Where sound frames and thumbnails lie."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.media.source import TICKS_PER_S
from app.transcode.audio import FRAME_SAMPLES, frame_edge
from app.transcode.stills import thumbnail_interval

rates = st.sampled_from([22_050, 44_100, 48_000])


def test_edge_0_is_the_start() -> None:
    assert frame_edge(0, 48_000) == 0
    assert frame_edge(TICKS_PER_S, 48_000) == 47, "46.875 frames"


@given(st.integers(0, 10**11), rates)
def test_the_edge_is_the_nearest(ticks: int, rate: int) -> None:
    distance = abs(frame_edge(ticks, rate) * FRAME_SAMPLES * TICKS_PER_S - ticks * rate)
    assert 2 * distance <= FRAME_SAMPLES * TICKS_PER_S


@given(st.lists(st.integers(0, 10**10), min_size=2, max_size=5), rates)
def test_edges_rise_with_their_moments(moments: list[int], rate: int) -> None:
    edges = [frame_edge(moment, rate) for moment in sorted(moments)]
    assert edges == sorted(edges)


@pytest.mark.parametrize(
    ("duration_s", "interval_s"), [(0.04, 1), (1, 1), (99, 1), (100, 2), (450, 5), (999, 10), (36_000, 10)]
)
def test_a_short_film_has_about_a_hundred_thumbnails_and_a_long_one_one_every_10_s(
    duration_s: float, interval_s: int
) -> None:
    assert thumbnail_interval(round(duration_s * TICKS_PER_S)) == interval_s * TICKS_PER_S
