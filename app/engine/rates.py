"""How fast a job goes: film seconds per second over the last moments."""

from __future__ import annotations

from collections import deque

from app.core.clock import Clock

WINDOW_S = 20.0
_LEAST_S = 1.0


class RateMeter:
    """Remembers how much of each job was done when."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._points: dict[str, deque[tuple[float, float]]] = {}

    def rate(self, job_id: str, film_s: float) -> float | None:
        """Note that ``film_s`` seconds are done now; return film seconds per second, None while it cannot be told."""
        now_s = self._clock.monotonic_s()
        points = self._points.setdefault(job_id, deque())
        if points and film_s < points[-1][1]:
            points.clear()
        points.append((now_s, film_s))
        while points[0][0] < now_s - WINDOW_S:
            points.popleft()
        first_s, first_film_s = points[0]
        if now_s - first_s < _LEAST_S or film_s <= first_film_s:
            return None
        return round((film_s - first_film_s) / (now_s - first_s), 2)
