"""The checks that end-to-end tests rely on must be able to fail."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.judges.barcode import SAMPLE_RATE, make_samples
from tests.judges.seen import FrameSeen, SoundLine, check_beeps, check_every_frame_once, require_judge

FPS = 24


def frames(numbers: Sequence[int | None], *, late_s: float = 0.0) -> list[FrameSeen]:
    return [
        FrameSeen(number=one, time_s=(place if one is None else one) / FPS + late_s)
        for place, one in enumerate(numbers)
    ]


def test_every_frame_once_is_accepted() -> None:
    check_every_frame_once(frames([0, 1, 2, 3]), end=4, fps=FPS)
    check_every_frame_once(frames([2, 3]), first=2, end=4, fps=FPS)


@pytest.mark.parametrize(
    "numbers", [[0, 1, 3], [0, 1, 1, 2, 3], [0, 2, 1, 3], [0, None, 2, 3], [1, 2, 3], [0, 1, 2], [0, 1, 2, 3, 4], []]
)
def test_anything_else_is_noticed(numbers: list[int | None]) -> None:
    with pytest.raises(AssertionError):
        check_every_frame_once(frames(numbers), end=4, fps=FPS)


def test_frames_at_wrong_times_are_noticed() -> None:
    with pytest.raises(AssertionError, match="was at"):
        check_every_frame_once(frames([0, 1, 2, 3], late_s=1 / FPS), end=4, fps=FPS)


@pytest.mark.parametrize("beeps", [[], [0.0], [0.0, 1.03], [0.0, 1.0, 1.5], [0.0, 0.97]])
def test_wrong_beeps_are_noticed(beeps: list[float]) -> None:
    with pytest.raises(AssertionError, match="heard"):
        check_beeps(beeps, seconds=range(2))


def test_right_beeps_are_accepted() -> None:
    check_beeps([0.011, 0.995], seconds=range(2))


def test_a_hole_in_the_sound_stays_a_hole() -> None:
    samples = make_samples(3)
    line = SoundLine(rate=SAMPLE_RATE)
    line.put(10.0, samples[:SAMPLE_RATE])
    line.put(12.0, samples[2 * SAMPLE_RATE :])
    assert line.beeps() == pytest.approx([10, 12], abs=0.002)
    assert SoundLine(rate=SAMPLE_RATE).beeps() == []
    assert np.isfinite(line.beeps()).all()


def test_a_missing_judge_fails_where_ci_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    require_judge(None)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="not here"):
        require_judge("it is not here")


def test_a_missing_judge_is_skipped_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="not here"):
        require_judge("it is not here")
