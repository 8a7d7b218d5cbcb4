"""A device that keeps failing takes itself out of the game for a while, so that it does not eat all attempts."""

from __future__ import annotations

FAILURES_BEFORE_BENCH = 3
"""In a row, of different jobs: one bad film fails at any device and is no sign."""
FIRST_BENCH_S = 60.0
MAX_BENCH_S = 3600.0


class Bench:
    """How one engine fares."""

    def __init__(self) -> None:
        self._failed: list[str] = []
        self._rests = 0
        self.until_s = 0.0
        """Monotonic moment before which this engine claims nothing."""

    def succeeded(self) -> None:
        """Note that a task was done."""
        self._failed.clear()
        self._rests = 0

    def failed(self, job_id: str, *, now_s: float) -> None:
        """Note that a task of a job went wrong here; several jobs in a row, and this engine rests, longer each time."""
        if job_id not in self._failed:
            self._failed.append(job_id)
        if len(self._failed) >= FAILURES_BEFORE_BENCH:
            self.until_s = now_s + min(FIRST_BENCH_S * 2.0**self._rests, MAX_BENCH_S)
            self._rests = min(self._rests + 1, 10)
            self._failed.clear()

    def is_benched(self, now_s: float) -> bool:
        """Whether this engine rests."""
        return now_s < self.until_s
