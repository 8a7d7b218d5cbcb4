"""What players are waiting for: tasks that go first, and sound that is made ahead of its track.

A sound track is one task that runs from the film's start. A viewer who jumps far ahead would wait for minutes, so a
*preview* makes a short stretch there; its segments are served from memory and never stored.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

_KEPT_PIECES = 64


class PlanView(Protocol):
    """What a waiting request knows of its film."""

    @property
    def job_id(self) -> str:
        """The job that makes the film."""
        ...


class WantedTasks:
    """The tasks that somebody waits for right now."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._pieces: Counter[tuple[str, str, int]] = Counter()
        self._previews: OrderedDict[tuple[str, str, int], bytes] = OrderedDict()
        self.on_wanted: Callable[[], None] = lambda: None
        """Called when a task becomes wanted."""

    @contextmanager
    def waiting(self, task_id: str, name: str, number: int, view: PlanView) -> Iterator[None]:
        """Count one waiting request."""
        piece = (view.job_id, name, number)
        self._counts[task_id] += 1
        self._pieces[piece] += 1
        self.on_wanted()
        try:
            yield
        finally:
            self._counts[task_id] -= 1
            self._pieces[piece] -= 1
            self._counts += Counter()
            self._pieces += Counter()

    @property
    def task_ids(self) -> frozenset[str]:
        """Ids of the wanted tasks."""
        return frozenset(self._counts)

    def pieces(self, job_id: str, name: str) -> tuple[int, ...]:
        """Return the wanted segment numbers of a rendition or track, rising."""
        return tuple(sorted(number for job, of, number in self._pieces if (job, of) == (job_id, name)))

    def preview(self, job_id: str, name: str, number: int) -> bytes | None:
        """Return a piece that was made ahead, if there is one."""
        return self._previews.get((job_id, name, number))

    def keep_preview(self, job_id: str, name: str, number: int, data: bytes) -> None:
        """Keep a piece that was made ahead; the oldest go first."""
        self._previews[job_id, name, number] = data
        while len(self._previews) > _KEPT_PIECES:
            self._previews.popitem(last=False)

    def forget_previews(self, job_id: str) -> None:
        """Drop what was made ahead for a job."""
        for key in [key for key in self._previews if key[0] == job_id]:
            del self._previews[key]
