"""What a judge saw and heard, and what to do when a judge is not there."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import pytest

from tests.judges.barcode import beep_times


class FrameSeen(msgspec.Struct, frozen=True, kw_only=True):
    """One picture a player showed."""

    number: int | None
    """As its barcode says; None when it cannot be read."""
    time_s: float
    """Where the player says it belongs."""


class SoundLine:
    """Sound laid on a time line by its stamps, so that a hole stays a hole."""

    def __init__(self, *, rate: int) -> None:
        self._rate = rate
        self._blocks: list[tuple[float, npt.NDArray[np.floating]]] = []

    def put(self, time_s: float, mono: npt.NDArray[np.floating]) -> None:
        """Lay ``mono`` samples at ``time_s``."""
        self._blocks.append((time_s, mono))

    def beeps(self) -> list[float]:
        """Return when beeps begin, in the stamps' time."""
        if not self._blocks:
            return []
        first = min(at for at, _ in self._blocks)
        places = [(round((at - first) * self._rate), mono) for at, mono in self._blocks]
        line = np.zeros(max(start + len(mono) for start, mono in places))
        for start, mono in places:
            line[start : start + len(mono)] = mono
        return [first + at for at in beep_times(line, self._rate)]


def numbers_of(frames: Iterable[FrameSeen]) -> list[int | None]:
    """Return the numbers of ``frames`` in the order they were shown."""
    return [one.number for one in frames]


def check_every_frame_once(frames: Sequence[FrameSeen], *, first: int = 0, end: int, fps: int) -> None:
    """Raise AssertionError unless ``frames`` are first, first+1, … end-1, each at its own time."""
    check_frames_in_order(frames, fps=fps)
    missing = sorted(set(range(first, end)) - set(numbers_of(frames)))
    if missing or len(frames) != end - first:
        raise AssertionError(f"wanted frames {first} to {end - 1}, got {len(frames)}; missing: {missing}")


def check_frames_in_order(frames: Sequence[FrameSeen], *, fps: int) -> None:
    """Raise AssertionError unless all ``frames`` can be read, rise, and are at their own times."""
    for before, frame in zip((None, *frames), frames, strict=False):
        if frame.number is None:
            raise AssertionError(f"the picture at {frame.time_s:.3f} s cannot be read; before it was {before}")
        if before is not None and before.number is not None and frame.number <= before.number:
            raise AssertionError(f"frame {frame.number} came after frame {before.number}")
        if abs(frame.time_s - frame.number / fps) > 0.002:
            raise AssertionError(f"frame {frame.number} was at {frame.time_s:.4f} s, not {frame.number / fps:.4f} s")


def check_beeps(beeps: Sequence[float], *, seconds: Iterable[int], tolerance_s: float = 0.02) -> None:
    """Raise AssertionError unless beeps begin at these full seconds, and only there."""
    wanted = list(seconds)
    late = [one for one, second in zip(beeps, wanted, strict=False) if abs(one - second) > tolerance_s]
    if late or len(beeps) != len(wanted):
        raise AssertionError(f"wanted beeps at {wanted}, heard {[round(one, 4) for one in beeps]}")


def require_judge(reason: str | None) -> None:
    """Skip the test when a judge is missing for ``reason``; where CI runs, fail instead."""
    if reason is None:
        return
    if os.environ.get("CI"):
        pytest.fail(f"A judge is missing: {reason}")
    pytest.skip(f"A judge is missing: {reason}")
