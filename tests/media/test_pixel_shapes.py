"""The shape of pixels: what is said is believed within reason."""

from __future__ import annotations

import pytest

from app.media.source import displayed_size, usable_aspect
from tests.media.sources import video


def test_what_is_said_is_the_width_of_a_pixel_by_its_height() -> None:
    assert usable_aspect(64, 45) == pytest.approx(1.4222, abs=1e-4)


@pytest.mark.parametrize("said", [(0, 0), (0, 1), (1, 0), (1, 65_535), (2**31 - 1, 1)])
def test_a_shape_that_cannot_be_meant_is_square(said: tuple[int, int]) -> None:
    assert usable_aspect(*said) == 1
    assert displayed_size(video(sample_aspect=said)) == (1920, 1080)
