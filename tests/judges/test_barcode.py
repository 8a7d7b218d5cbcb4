"""The barcode and the beeps survive what an encoder and a player do to them."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest

from tests.judges.barcode import (
    SAMPLE_RATE,
    beep_times,
    draw_frame,
    make_samples,
    make_source,
    read_frame_number,
)


@pytest.mark.parametrize("number", [0, 1, 2, 255, 256, 1000, 43_690, 65_535])
@pytest.mark.parametrize("size", [(640, 360), (1920, 1080), (320, 180), (426, 240)])
def test_a_number_is_read_at_any_size(number: int, size: tuple[int, int]) -> None:
    assert read_frame_number(draw_frame(number, width=size[0], height=size[1])) == number


def test_two_mixed_pictures_are_not_read() -> None:
    one, other = draw_frame(1, width=640, height=360), draw_frame(6, width=640, height=360)
    assert read_frame_number(((one.astype(np.uint16) + other) // 2).astype(np.uint8)) is None


def test_a_picture_without_a_barcode_is_not_read() -> None:
    assert read_frame_number(np.full((360, 640), 128, np.uint8)) is None


def test_every_single_wrong_cell_is_noticed() -> None:
    for number in (0, 77, 65_535):
        for row, column in [(0, 2), (0, 10), (1, 0), (1, 6), (1, 7), (1, 10)]:
            picture = draw_frame(number, width=660, height=360)
            area = picture[row * 60 : row * 60 + 60, column * 60 : column * 60 + 60]
            area[:] = 251 - area
            assert read_frame_number(picture) is None


def test_a_number_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="65536"):
        draw_frame(65_536, width=640, height=360)


def test_beeps_are_heard_at_full_seconds() -> None:
    times = beep_times(make_samples(3.5), SAMPLE_RATE)
    assert times == pytest.approx([0, 1, 2, 3], abs=0.002)


def test_beeps_are_heard_in_noise_and_late() -> None:
    noise = np.random.default_rng(1).normal(0, 0.01, SAMPLE_RATE * 2)
    samples = np.concatenate([np.zeros(480), make_samples(2)])[: len(noise)] + noise
    assert beep_times(samples, SAMPLE_RATE) == pytest.approx([0.01, 1.01], abs=0.002)


def test_silence_has_no_beeps() -> None:
    assert beep_times(np.zeros(SAMPLE_RATE), SAMPLE_RATE) == []
    assert beep_times(np.zeros(0), SAMPLE_RATE) == []


def test_a_source_file_carries_numbers_and_beeps(tmp_path: Path) -> None:
    path = tmp_path / "source.mp4"
    assert make_source(path, seconds=3, fps=24) == 72
    with av.open(str(path)) as container:
        numbers = [
            read_frame_number(one.to_ndarray(format="gray").astype(np.uint8)) for one in container.decode(video=0)
        ]
    with av.open(str(path)) as container:
        blocks = [one.to_ndarray()[0] for one in container.decode(audio=0)]
    assert numbers == list(range(72))
    assert beep_times(np.concatenate(blocks), SAMPLE_RATE) == pytest.approx([0, 1, 2], abs=0.005)
