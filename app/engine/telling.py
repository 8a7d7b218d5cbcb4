"""What subscribers were told last, so that they are told only what is new. Bounded: a thing may be told twice."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

from app.engine.api import JobSnapshot
from app.engine.snapshots import JobView
from app.queue.machine import JobState

T = TypeVar("T")
_KEPT = 1000
_IN_THE_MAKING = frozenset({JobState.QUEUED, JobState.PROCESSING, JobState.PAUSED})


class ToldStates:
    """The last snapshot of each job, and what the library shows of it."""

    def __init__(self, *, kept: int = _KEPT) -> None:
        self._kept = kept
        self._jobs: OrderedDict[str, JobSnapshot] = OrderedDict()
        self._films: OrderedDict[str, tuple[object, ...]] = OrderedDict()

    def is_news(self, job: JobSnapshot) -> bool:
        """Take over what is told of a job now; return whether it is another than before."""
        return self._put(self._jobs, job.id, job)

    def is_film_news(self, view: JobView) -> bool:
        """Take over how a job stands in the library; return whether that is new. Progress comes with the jobs."""
        return self._put(self._films, view.job.id, _film_key(view))

    def drop(self, job_id: str) -> None:
        """Forget a job that is gone."""
        self._jobs.pop(job_id, None)
        self._films.pop(job_id, None)

    def forget(self) -> None:
        """Forget all: nobody was told of what came since."""
        self._jobs.clear()
        self._films.clear()

    def _put(self, told: OrderedDict[str, T], key: str, value: T) -> bool:
        is_new = told.get(key) != value
        told[key] = value
        told.move_to_end(key)
        while len(told) > self._kept:
            told.popitem(last=False)
        return is_new


def _film_key(view: JobView) -> tuple[object, ...]:
    """Return what the library's view of a job depends on, beside its progress."""
    film = view.film
    stage = None if film is None else film.stage
    return (
        view.job.name,
        view.job.trashed.value,
        view.plan is not None,
        stage,
        film.size_bytes if film is not None else 0,
        view.status.state in _IN_THE_MAKING,
        view.status.state is JobState.DONE,
    )
