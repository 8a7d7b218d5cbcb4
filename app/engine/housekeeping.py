"""Keeping the vault to what is live: roots, collection, and scrubbing with the films it affects."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from app.core.encoding import decode_canonical
from app.engine.api import VerifyReport
from app.engine.kernel import Kernel
from app.engine.snapshots import title_of
from app.media.film import Film, StillsResult, TaskResult
from app.queue.rows import JobRow, TaskRow
from app.queue.store import JobStore
from app.queue.targets import TaskKind
from app.storage.collection import GRACE_MS, CollectReport


class JobRoots(msgspec.Struct, frozen=True, kw_only=True):
    """What one job keeps alive in the vault."""

    job_id: str
    title: str
    capabilities: tuple[str, ...]


def roots_of_job(job: JobRow, tasks: Iterable[TaskRow]) -> JobRoots:
    """Return the bundles that a job's results name, whether they count now or not."""
    roots: list[str] = []
    for task in tasks:
        if task.outcome is None:
            continue
        if task.kind == TaskKind.PUBLISH:
            film = decode_canonical(task.outcome.value, Film)
            roots += [one.bundle for one in film.video]
            roots += [one.bundle for one in film.audio]
            roots += [film.stills.bundle] if film.stills is not None else []
        elif task.kind in {TaskKind.VIDEO, TaskKind.AUDIO}:
            roots.append(decode_canonical(task.outcome.value, TaskResult).bundle)
        elif task.kind == TaskKind.STILLS:
            roots.append(decode_canonical(task.outcome.value, StillsResult).bundle)
    return JobRoots(job_id=job.id, title=title_of(job), capabilities=tuple(dict.fromkeys(roots)))


def all_roots(store: JobStore) -> tuple[JobRoots, ...]:
    """Return the roots of all jobs (on the queue's thread)."""
    return tuple(roots_of_job(job, store.tasks(job.id)) for job in store.jobs())


class Housekeeper:
    """Collects and scrubs; one at a time."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    async def _live(self) -> tuple[tuple[JobRoots, ...], tuple[str, ...]]:
        jobs = await self._kernel.queue(all_roots)
        extra = await self._kernel.store(
            lambda storage: (*storage.segments.capabilities(), *storage.sources.capabilities())
        )
        return jobs, extra

    async def collect(self, *, removed: Iterable[str] = (), grace_ms: int = GRACE_MS) -> CollectReport:
        """Give back what nothing reaches; what ``removed`` reached goes at once."""
        jobs, extra = await self._live()
        live = [*(one for job in jobs for one in job.capabilities), *extra]
        now_ms = self._kernel.clock.wall_ms()
        return await self._kernel.store(
            lambda storage: storage.vault.collect(live, now_ms=now_ms, grace_ms=grace_ms, removed=tuple(removed))
        )

    async def verify(self, *, repair: bool, progress: Callable[[float], None]) -> VerifyReport:
        """Read every shard and say what is wrong and whom it affects."""
        jobs, extra = await self._live()
        titles = {one: job.title for job in jobs for one in job.capabilities}
        report = await self._kernel.store(
            lambda storage: storage.vault.verify((*titles, *extra), progress=progress, repair=repair)
        )
        affected = dict.fromkeys(titles.get(one, "a film in the making") for one in report.affected)
        return VerifyReport(
            shards=report.shards,
            size_bytes=report.size_bytes,
            damaged=report.damaged,
            missing=report.missing,
            stray=report.stray,
            affected=tuple(affected),
            repaired=report.repaired,
        )
