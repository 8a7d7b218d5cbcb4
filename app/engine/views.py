"""Reading the queue for those who look at it: pages, single jobs, films; bounded in time and memory.

All methods run on the queue's thread, where claims wait meanwhile, so each reads a page at most. A view is kept as
long as nothing of its job changed (its rows' numbers in the feed say so), the most recently used ones first: what runs
is shown four times a second and read once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from app.core.errors import ErrorCode, ExpectedError
from app.core.ids import media_id_of
from app.engine.api import FilmSnapshot, QueueCursor
from app.engine.snapshots import JobView, film_snapshot, is_in_library, read_job
from app.media.film import PublishStage
from app.queue.machine import JobState, job_status
from app.queue.row_table import JobPart
from app.queue.rows import JobRow
from app.queue.store import JobStore, LibraryEntry

_KEPT_PARTS = 100_000
"""Segments and open tasks of all views that are kept; each takes some hundred bytes."""
FILMS_PAGE = 100


class JobViews:
    """Views of jobs, kept while they are up to date."""

    def __init__(self, *, kept_parts: int = _KEPT_PARTS) -> None:
        self._kept: OrderedDict[str, tuple[tuple[int, int], JobView]] = OrderedDict()
        self._most = kept_parts
        self._parts = 0

    def read(self, store: JobStore, job: JobRow) -> JobView:
        """Return a job's view."""
        version = store.version_of(job.id)
        kept = self._kept.get(job.id)
        if kept is not None and kept[0] == version:
            self._kept.move_to_end(job.id)
            return kept[1]
        self._drop(job.id)
        view = read_job(store, job)
        self._kept[job.id] = version, view
        self._parts += _size_of(view)
        while self._parts > self._most:
            self._drop(next(iter(self._kept)))
        return view

    def _drop(self, job_id: str) -> None:
        kept = self._kept.pop(job_id, None)
        if kept is not None:
            self._parts -= _size_of(kept[1])

    def read_some(self, store: JobStore, job_ids: Iterable[str]) -> tuple[list[JobView], list[str]]:
        """Return the views of jobs, and the ids of those that are gone."""
        views, gone = [], []
        for job_id in job_ids:
            try:
                job = store.job(job_id)
            except ExpectedError as error:
                if error.code != ErrorCode.NO_SUCH_ID:
                    raise
                self._drop(job_id)
                gone.append(job_id)
            else:
                views.append(self.read(store, job))
        return views, gone

    def read_jobs(self, store: JobStore, *, after: str | None, limit: int) -> list[JobView]:
        """Return a page of all jobs in the order of adding."""
        return [self.read(store, job) for job in store.job_page(JobPart.ALL, after=after, limit=limit)]

    def read_queue(
        self, store: JobStore, *, after: QueueCursor | None, limit: int
    ) -> tuple[list[JobView], QueueCursor | None]:
        """Return a page of the queue as it is shown, and where it goes on; raises ``ExpectedError`` bad-message."""
        part, last = (JobPart.UNFINISHED, None) if after is None else (_part_of(after), after.after)
        jobs = list(store.job_page(part, after=last, limit=limit))
        more = QueueCursor(part=part, after=jobs[-1].id) if len(jobs) == limit else None
        if more is None and part is JobPart.UNFINISHED:
            left = limit - len(jobs)
            finished = store.job_page(JobPart.FINISHED, limit=left)
            jobs += finished
            if len(finished) == left:
                more = QueueCursor(part=JobPart.FINISHED, after=finished[-1].id)
        return [self.read(store, job) for job in jobs], more


def _size_of(view: JobView) -> int:
    return 10 + len(view.left) + (len(view.plan.borders) if view.plan is not None else 0)


def _part_of(cursor: QueueCursor) -> JobPart:
    if cursor.part not in {JobPart.UNFINISHED, JobPart.FINISHED}:
        raise ExpectedError(ErrorCode.BAD_MESSAGE, f"The queue has no part “{cursor.part}”; ask for its first page.")
    return JobPart(cursor.part)


def read_film(store: JobStore, entry: LibraryEntry) -> FilmSnapshot | None:
    """Return what the library or the Trash shows of a job; None when it shows nothing."""
    if entry.stage is PublishStage.FULL:
        return film_snapshot(entry, state=JobState.DONE, progress=None)
    state = job_status(entry.job, store.tasks(entry.job.id)).state
    if not entry.trashed and not is_in_library(entry, state):
        return None
    return film_snapshot(entry, state=state, progress=store.progress(entry.job.id) / 1000)


def read_film_of(store: JobStore, job_id: str) -> FilmSnapshot:
    """Return the film of a job, be it in the Trash; raises ``ExpectedError`` no-such-id."""
    entry = store.library_entry(job_id)
    film = read_film(store, entry) if entry is not None else None
    if film is None:
        media_id = media_id_of(job_id)
        raise ExpectedError(
            ErrorCode.NO_SUCH_ID, f"There is no film with the id “{media_id}” here; list what there is first."
        )
    return film


def read_films(
    store: JobStore, *, after: str | None, trashed: bool, limit: int = FILMS_PAGE
) -> tuple[list[FilmSnapshot], str | None]:
    """Return a page of the library, or of the Trash, and the job after which it goes on; None at its end."""
    entries: Sequence[LibraryEntry]
    page = store.trash_page if trashed else store.library_page
    entries = page(after=after, limit=limit)
    films = [film for one in entries if one.trashed == trashed and (film := read_film(store, one)) is not None]
    return films, entries[-1].job.id if len(entries) == limit else None
