"""Time as a value: decisions get ``now`` as an argument, only edges ask a clock."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Where the engine gets its time from."""

    def wall_ms(self) -> int:
        """Return milliseconds since 1970; for people and stamps, never for durations."""
        ...

    def monotonic_s(self) -> float:
        """Return seconds that only grow; for durations within this process."""
        ...


class SystemClock:
    """The machine's clocks."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()


class ManualClock:
    """A clock that moves only when told to; for tests and simulations."""

    def __init__(self, *, wall_ms: int = 1_700_000_000_000, monotonic_s: float = 0.0) -> None:
        self._wall_ms = wall_ms
        self._monotonic_s = monotonic_s

    def wall_ms(self) -> int:
        return self._wall_ms

    def monotonic_s(self) -> float:
        return self._monotonic_s

    def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass on both clocks."""
        self._wall_ms += round(seconds * 1000)
        self._monotonic_s += seconds
