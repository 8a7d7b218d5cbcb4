"""The ladder: sizes, levels and rates of what a source is encoded to."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.media.ladder import CLOSEST_RUNGS, encoded_rungs, level_for, size_class
from app.media.source import displayed_size
from tests.media.sources import video


def sizes(width: int, height: int, *, below: int | None = None) -> list[tuple[str, int, int]]:
    rungs = encoded_rungs(width, height, frames_per_s=30, below=below)
    return [(rung.name, rung.width, rung.height) for rung in rungs]


def test_a_1080p_film_gets_all_rungs_from_its_own_down() -> None:
    assert sizes(1920, 1080) == [("1080", 1920, 1080), ("720", 1280, 720), ("480", 854, 480), ("360", 640, 360)]


def test_a_wide_film_belongs_to_the_class_that_holds_its_width() -> None:
    assert sizes(1920, 800)[:2] == [("1080", 1920, 800), ("720", 1280, 534)]


def test_an_ultrawide_screen_recording_keeps_its_shape() -> None:
    for _, width, height in sizes(3440, 1440):
        assert width / height == pytest.approx(3440 / 1440, rel=0.01)


def test_a_portrait_clip_gets_portrait_rungs() -> None:
    assert sizes(1080, 1920)[:2] == [("1080", 1080, 1920), ("720", 720, 1280)]


def test_a_source_between_two_classes_gets_a_rung_of_its_own_size() -> None:
    assert sizes(1024, 576) == [("576", 1024, 576), ("360", 640, 360)]


def test_a_source_just_above_a_class_does_not() -> None:
    assert sizes(1280, 738)[0] == ("720", 1248, 720)


def test_a_source_below_all_classes_gets_one_rung_of_its_own_size() -> None:
    assert sizes(320, 180) == [("180", 320, 180)]


def test_odd_sizes_become_even() -> None:
    assert sizes(321, 181)[0][1:] == (320, 180)
    assert sizes(853, 480)[0][1:] == (852, 480)


def test_one_pixel_is_still_a_picture() -> None:
    assert sizes(1, 1)[0][1:] == (2, 2)


def test_below_a_passthrough_rendition_only_clearly_smaller_rungs_are_encoded() -> None:
    assert [name for name, _, _ in sizes(1920, 1080, below=1080)] == ["720", "480", "360"]
    assert sizes(640, 480, below=480) == [("360", 480, 360)]
    assert sizes(480, 270, below=270) == []


@given(st.integers(1, 8192), st.integers(1, 8192), st.floats(1, 60))
def test_no_rung_is_larger_than_the_source_or_changes_its_shape(width: int, height: int, rate: float) -> None:
    rungs = encoded_rungs(width, height, frames_per_s=rate)
    assert rungs
    for rung in rungs:
        assert rung.width <= max(2, width + width % 2)
        assert rung.height <= max(2, height + height % 2)
        assert (rung.width % 2, rung.height % 2) == (0, 0)
        if min(rung.width, rung.height) >= 90:
            assert rung.width / rung.height == pytest.approx(width / height, rel=0.03)
        assert rung.codecs == f"avc1.6400{rung.level:02x}"


@given(st.integers(16, 8192), st.integers(16, 8192))
def test_rungs_fall_in_size_and_rate_and_are_not_close_to_each_other(width: int, height: int) -> None:
    rungs = encoded_rungs(width, height, frames_per_s=30)
    assert len({rung.name for rung in rungs}) == len(rungs)
    for upper, lower in pairwise(rungs):
        assert int(upper.name) >= int(lower.name) * CLOSEST_RUNGS
        assert upper.max_rate >= lower.max_rate


@pytest.mark.parametrize(
    ("width", "height", "rate", "level"),
    [(640, 360, 30, 30), (1280, 720, 30, 31), (1280, 720, 60, 32), (1920, 1080, 30, 40), (1920, 1080, 60, 42)],
)
def test_levels_are_those_of_the_standard(width: int, height: int, rate: float, level: int) -> None:
    assert level_for(width, height, rate, 3_000_000) == level


def test_a_picture_above_all_levels_gets_the_highest() -> None:
    assert level_for(20_000, 20_000, 60, 1) == 62


def test_a_fast_film_may_use_more_bits() -> None:
    slow, fast = (encoded_rungs(1920, 1080, frames_per_s=rate)[0] for rate in (30, 60))
    assert fast.max_rate > slow.max_rate


def test_the_class_of_a_size_is_the_same_in_both_orientations() -> None:
    assert size_class(1920, 1080) == size_class(1080, 1920) == 1080


def test_the_displayed_size_has_square_pixels_and_is_turned() -> None:
    assert displayed_size(video(width=720, height=576, sample_aspect=(64, 45))) == (1024, 576)
    assert displayed_size(video(width=720, height=576, sample_aspect=(64, 45), rotation=90)) == (576, 1024)


def test_an_almost_square_pixel_counts_as_square() -> None:
    assert displayed_size(video(sample_aspect=(3201, 3200))) == (1920, 1080)
    assert displayed_size(video(sample_aspect=(0, 1))) == (1920, 1080)
