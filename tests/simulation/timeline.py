"""Virtual time: what is to happen, in order; a run of hours takes as long as its events take to compute."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable


class Timeline:
    """Events by their moment, in seconds since the begin of the run."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def after(self, delay_s: float, event: Callable[[], None]) -> None:
        """Let ``event`` happen ``delay_s`` from now."""
        heapq.heappush(self._events, (self.now_s + delay_s, next(self._numbers), event))

    def run_until(self, end_s: float) -> None:
        """Let everything happen up to and including ``end_s``."""
        while self._events and self._events[0][0] <= end_s:
            self.now_s, _, event = heapq.heappop(self._events)
            event()
        self.now_s = end_s
