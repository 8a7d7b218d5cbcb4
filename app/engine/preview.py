"""Pieces ahead of their task: when a player waits far beyond what is made, a child makes a short stretch there.

Sound is one task from the film's start to its end, and a chunk of picture half a minute of film: whoever jumps ahead
would wait long. A preview has the same borders (and for sound the same grid of frames) as the task's own result, so
the two join without a seam. Of the picture only the rendition that is waited for is made; nothing is stored.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from app.core.errors import ExpectedError
from app.engine.kernel import Kernel
from app.engine.performing import Running
from app.engine.wanted import WantedTasks
from app.media.plan import AudioKind, Plan
from app.playback.source import INIT_NUMBER
from app.queue.targets import ResourceClass, TaskKind
from app.transcode.messages import InitMade, MakeAudio, MakeVideo, Report, SegmentMade, SourceHandle

_log = logging.getLogger(__name__)
_NO_SOURCE = SourceHandle()

AHEAD_OF_SOUND = 8
"""A wanted segment this far beyond the track's head is not waited for."""
SOUND_SEGMENTS = 12
AHEAD_OF_PICTURE = 0
"""One rendition of one segment is made several times faster than all of them, so whoever waits gets it at once."""
PICTURE_SEGMENTS = 2
_ENTERED = {"time", "byte"}
"""Sources that can be entered in the middle."""


class Previewer:
    """Runs at most one preview per sound track or rendition."""

    def __init__(self, kernel: Kernel, wanted: WantedTasks) -> None:
        self._kernel = kernel
        self._wanted = wanted
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def look(self, running: Iterable[Running]) -> None:
        """Start previews where what is waited for lies far beyond what running tasks have made."""
        for one in running:
            if one.plan is not None:
                for request in self._requests(one, one.plan):
                    name = _name_of(request)
                    self._tasks[one.job_id, name] = asyncio.create_task(self._make(one, name, request))

    def _requests(self, one: Running, plan: Plan) -> Iterable[MakeAudio | MakeVideo]:
        if one.target.kind is TaskKind.AUDIO and plan.track(one.target.name).kind is AudioKind.ENCODE:
            first = self._far(one, one.target.name, range(plan.segment_count), ahead=AHEAD_OF_SOUND)
            if first is not None:
                end = min(first + SOUND_SEGMENTS, plan.segment_count)
                yield MakeAudio(
                    source=_NO_SOURCE, plan=plan, track=one.target.name, first_segment=first, end_segment=end
                )
        elif one.resource is ResourceClass.HEAVY and plan.entry in _ENTERED:
            chunk = plan.chunks[one.target.chunk]
            for name in plan.set_named(one.target.name).renditions:
                segments = range(chunk.first_segment, chunk.end_segment)
                first = self._far(one, name, segments, ahead=AHEAD_OF_PICTURE)
                if first is not None:
                    stretch = first, min(first + PICTURE_SEGMENTS, chunk.end_segment)
                    yield MakeVideo(
                        source=_NO_SOURCE,
                        plan=plan,
                        set=one.target.name,
                        chunk=chunk.number,
                        only=name,
                        segments=stretch,
                    )

    def _far(self, one: Running, name: str, segments: range, *, ahead: int) -> int | None:
        """Return the first wanted one of the task's ``segments`` that lies more than ``ahead`` beyond its head."""
        if (one.job_id, name) in self._tasks:
            return None
        head = one.last_segment.get(name, segments.start - 1)
        for number in self._wanted.pieces(one.job_id, name):
            is_far = number in segments and number > head + ahead
            if is_far and self._wanted.preview(one.job_id, name, number) is None:
                return number
        return None

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

    async def _make(self, running: Running, name: str, request: MakeAudio | MakeVideo) -> None:
        async def keep(report: Report) -> None:
            if isinstance(report, InitMade):
                self._wanted.keep_preview(running.job_id, name, INIT_NUMBER, report.data)
            elif isinstance(report, SegmentMade):
                self._wanted.keep_preview(running.job_id, name, report.number, report.data)
            self._kernel.changed.set()

        if isinstance(request, MakeVideo):
            running.step_aside()
        try:
            source = await self._kernel.store(lambda storage: storage.sources.find(running.job_id))
            if source is not None:
                await self._kernel.supervisor.run_on_source(request, source.path, on_report=keep)
        except ExpectedError as error:
            _log.info("no preview of %s: %s", name, error)
        finally:
            running.step_back()
            self._tasks.pop((running.job_id, name), None)


def _name_of(request: MakeAudio | MakeVideo) -> str:
    """Return the track or rendition that a preview is of."""
    return request.track if isinstance(request, MakeAudio) else request.only
