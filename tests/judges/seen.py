"""What a judge saw and heard, and what to do when a judge is not there."""

from __future__ import annotations

import os
from collections.abc import Iterable

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


def require_judge(reason: str | None) -> None:
    """Skip the test when a judge is missing for ``reason``; where CI runs, fail instead."""
    if reason is None:
        return
    if os.environ.get("CI"):
        pytest.fail(f"A judge is missing: {reason}")
    pytest.skip(f"A judge is missing: {reason}")
