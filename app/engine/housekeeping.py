"""Keeping the vault to what is live: roots, collection, and scrubbing with the films it affects."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from app.core.encoding import decode_canonical
from app.core.errors import ExpectedError
from app.core.ids import media_id_of
from app.engine.api import AffectedFilm, VerifyReport
from app.engine.kernel import Kernel
from app.engine.snapshots import title_of
from app.media.film import Film, StillsResult, TaskResult
from app.queue.machine import is_cancelled, outcome_counts
from app.queue.row_table import JobPart
from app.queue.rows import JobRow, TaskRow
from app.queue.store import JobStore
from app.queue.targets import TaskKind, decode_text_inputs
from app.storage.collection import GRACE_MS, CollectReport
from app.storage.opening import Storage
from app.storage.shard_store import MissingShardError

_JOBS_PAGE = 100


class JobRoots(msgspec.Struct, frozen=True, kw_only=True):
    """What one job keeps alive in the vault."""

    job_id: str
    title: str
    capabilities: tuple[str, ...]


def bundles_in(film: Film) -> tuple[str, ...]:
    """Return the bundles of a film."""
    stills = (film.stills.bundle,) if film.stills is not None else ()
    tracks = (one.bundle for one in (*film.audio, *film.text))
    return (*(one.bundle for one in film.video), *tracks, *stills)


def bundles_of(task: TaskRow) -> tuple[str, ...]:
    """Return the bundles that a task's result names, whether it counts now or not."""
    if task.outcome is None:
        return ()
    if task.kind == TaskKind.PUBLISH:
        return bundles_in(decode_canonical(task.outcome.value, Film))
    if task.kind in {TaskKind.VIDEO, TaskKind.AUDIO, TaskKind.TEXT}:
        return (decode_canonical(task.outcome.value, TaskResult).bundle,)
    if task.kind == TaskKind.STILLS:
        return (decode_canonical(task.outcome.value, StillsResult).bundle,)
    return ()


def inputs_of(task: TaskRow) -> tuple[str, ...]:
    """Return what an ``index`` keeps in the vault for the ``text`` tasks; its own result is in its row."""
    if task.kind != TaskKind.INDEX or task.outcome is None:
        return ()
    try:
        return tuple(one.capability for one in decode_text_inputs(task.outcome.value))
    except ExpectedError:
        return ()  # written by a version that plans otherwise; what it keeps, its own device holds


def roots_of_job(job: JobRow, tasks: Iterable[TaskRow]) -> JobRoots:
    """Return what a job's results name, as far as they count."""
    counting = (task for task in tasks if outcome_counts(job, task))
    roots = dict.fromkeys(one for task in counting for one in (*bundles_of(task), *inputs_of(task)))
    return JobRoots(job_id=job.id, title=title_of(job), capabilities=tuple(roots))


def missing_of(storage: Storage, bundle: str) -> frozenset[str] | None:
    """Return which shards that ``bundle`` reaches are not here; None when a manifest of it cannot be read at all.

    Damaged content that was not read yet counts as here. Below a manifest that is not here nothing is known, so what is
    missing there is not named.
    """
    errors: list[ExpectedError] = []
    names = storage.vault.shards_of(bundle, on_error=errors.append)
    missing = frozenset(name for name in names if storage.disk.stat(name) is None)
    if any(not isinstance(error, MissingShardError) for error in errors):
        return None
    return missing


def roots_page(store: JobStore, after: str | None) -> tuple[tuple[JobRoots, ...], str | None]:
    """Return the roots of some jobs, and the job after which it goes on (on the queue's thread); None at the end.

    Of what was given up no result counts but a film that was full before.
    """
    jobs = store.job_page(JobPart.ALL, after=after, limit=_JOBS_PAGE)
    roots = tuple(
        roots_of_job(job, store.glance(job).telling if is_cancelled(job) else store.tasks(job.id)) for job in jobs
    )
    return roots, jobs[-1].id if len(jobs) == _JOBS_PAGE else None


class Housekeeper:
    """Collects and scrubs; one at a time."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    async def _live(self) -> tuple[tuple[JobRoots, ...], tuple[str, ...]]:
        """Read what is live, a page at a time, so that claims come in between.

        What is noted of running tasks is read before and after: a task that completes meanwhile is in one of them, or
        its page was read later.
        """
        extra = await self._noted()
        jobs: list[JobRoots] = []
        after, is_over = None, False
        while not is_over:
            page, after = await self._kernel.queue(partial(roots_page, after=after))
            jobs += page
            is_over = after is None
        return tuple(jobs), tuple(dict.fromkeys((*extra, *await self._noted())))

    async def _noted(self) -> tuple[str, ...]:
        return await self._kernel.store(
            lambda storage: (*storage.segments.capabilities(), *storage.sources.capabilities())
        )

    async def _has_others(self) -> bool:
        return bool(await self._kernel.queue(lambda store: store.known_peers()))

    async def collect(self, *, removed: Iterable[str] = (), grace_ms: int = GRACE_MS) -> CollectReport:
        """Give back what nothing reaches; what ``removed`` reached goes at once."""
        jobs, extra = await self._live()
        others = await self._has_others()
        live = [*(one for job in jobs for one in job.capabilities), *extra]
        now_ms = self._kernel.clock.wall_ms()
        return await self._kernel.store(
            lambda storage: storage.vault.collect(
                live, now_ms=now_ms, grace_ms=grace_ms, removed=tuple(removed), others=others
            )
        )

    async def verify(self, *, repair: bool, progress: Callable[[float], None]) -> VerifyReport:
        """Read every shard and say what is wrong and whom it affects."""
        jobs, extra = await self._live()
        others = await self._has_others()
        owners = {one: job for job in jobs for one in job.capabilities}
        report = await self._kernel.store(
            lambda storage: storage.vault.verify((*owners, *extra), progress=progress, repair=repair, others=others)
        )
        hurt = {owners[one].job_id: owners[one].title for one in report.affected if one in owners}
        return VerifyReport(
            shards=report.shards,
            size_bytes=report.size_bytes,
            damaged=report.damaged,
            missing=report.missing,
            stray=report.stray,
            affected=tuple(
                AffectedFilm(media_id=media_id_of(job_id), job_id=job_id, title=title) for job_id, title in hurt.items()
            ),
            repaired=report.repaired,
        )
