"""Sound ahead of its track: when a player waits far beyond what is made, a child makes a short stretch there.

The frames lie on the same grid as the track's own, so the two join without a seam; nothing of it is stored.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from app.core.errors import ExpectedError
from app.engine.kernel import Kernel
from app.engine.performing import Running
from app.engine.wanted import WantedTasks
from app.media.plan import AudioKind
from app.queue.targets import TaskKind
from app.transcode.messages import MakeAudio, Report, SegmentMade, SourceHandle

_log = logging.getLogger(__name__)

AHEAD_SEGMENTS = 8
"""A wanted segment this far beyond the track's head is not waited for."""
STRETCH_SEGMENTS = 12


class Previewer:
    """Runs at most one preview per sound track."""

    def __init__(self, kernel: Kernel, wanted: WantedTasks) -> None:
        self._kernel = kernel
        self._wanted = wanted
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def look(self, running: Iterable[Running]) -> None:
        """Start previews for tracks whose wanted segments lie far beyond what is made."""
        for one in running:
            name = one.target.name
            key = (one.job_id, name)
            if one.target.kind is not TaskKind.AUDIO or one.plan is None or key in self._tasks:
                continue
            if one.plan.track(name).kind is AudioKind.COPY:
                continue
            head = one.last_segment.get(name, -1)
            far = [
                number
                for number in self._wanted.pieces(one.job_id, name)
                if number > head + AHEAD_SEGMENTS and self._wanted.preview(one.job_id, name, number) is None
            ]
            if far:
                self._tasks[key] = asyncio.create_task(self._make(one, name, far[0]))

    def stop(self, job_id: str) -> None:
        """End the previews of a job that was paused; what they made stays."""
        for (job, _), task in self._tasks.items():
            if job == job_id:
                task.cancel()

    async def drop(self, job_id: str) -> None:
        """End the previews of a job, and forget what they made."""
        await self._end([task for (job, _), task in self._tasks.items() if job == job_id])
        self._wanted.forget_previews(job_id)

    async def close(self) -> None:
        """End all previews."""
        await self._end(list(self._tasks.values()))

    async def _end(self, tasks: list[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _make(self, running: Running, name: str, first: int) -> None:
        if running.plan is None:
            return
        request = MakeAudio(
            source=SourceHandle(),
            plan=running.plan,
            track=name,
            first_segment=first,
            end_segment=min(first + STRETCH_SEGMENTS, running.plan.segment_count),
        )

        async def keep(report: Report) -> None:
            if isinstance(report, SegmentMade):
                self._wanted.keep_preview(running.job_id, name, report.number, report.data)
                self._kernel.changed.set()

        try:
            source = await self._kernel.store(lambda storage: storage.sources.find(running.job_id))
            if source is not None:
                await self._kernel.supervisor.run_on_source(request, source.path, on_report=keep)
        except ExpectedError as error:
            _log.info("no preview of %s: %s", name, error)
        finally:
            self._tasks.pop((running.job_id, name), None)
