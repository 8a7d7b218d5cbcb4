"""The ``video`` task: one chunk of a set of renditions from one decode.

::

    decoder ──► deinterlacer ──► pacer ──► queue ─► filter ─► x264 ─► assembler ─► check ─► parent
    (this thread)                                     └─► queue ─► filter ─► x264 ─► assembler ─► check ─► parent
                                                                     └─► queue …

One thread per rendition, at most 8 pictures waiting for each. A rendition is scaled from the next larger one: half the
cost of scaling each from the source.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from app.core.errors import ErrorCode, ExpectedError
from app.media.film import RenditionFacts
from app.media.plan import Chunk, Plan, Rendition, RenditionKind
from app.media.planning import UNTELECINE
from app.transcode.check import WHOLE_GROUP, check_video_segment
from app.transcode.decode import SHORTEST_STEP_TICKS, ChunkDecoder, Picture
from app.transcode.encode import RenditionMaker, Segment
from app.transcode.messages import InitMade, MakeVideo, SegmentMade
from app.transcode.opening import OpenSource, open_source
from app.transcode.pacing import Pacer, Shown
from app.transcode.passthrough import UncopyableError, copy_chunk
from app.transcode.picture import DEINTERLACE, SourceFilter
from app.transcode.reporting import Reporter
from app.transcode.telecine import Untelecine

_QUEUE_PICTURES = 8


def make_video(request: MakeVideo, reporter: Reporter) -> tuple[RenditionFacts, ...]:
    """Make the chunk and return the facts of its renditions."""
    plan = request.plan
    chunk = plan.chunks[request.chunk]
    if request.segments is not None:
        first, end = request.segments
        chunk = msgspec.structs.replace(chunk, first_segment=first, end_segment=end)
    names = (request.only,) if request.only else plan.set_named(request.set).renditions
    renditions = [plan.rendition(name) for name in names]
    if renditions[0].kind is RenditionKind.PASSTHROUGH and chunk.copied:
        with contextlib.suppress(UncopyableError), open_source(request.source) as opened:
            return (copy_chunk(opened, plan, renditions[0], chunk, reporter),)
    with open_source(request.source) as opened:
        return _ChunkEncoding(plan, renditions, chunk, reporter, threads=request.threads).run(opened)


class _Worker(threading.Thread):
    """The thread of one rendition: takes pictures from its queue until the end mark."""

    def __init__(self, maker: RenditionMaker, sink: _SegmentSink, smaller: _Worker | None) -> None:
        """``smaller`` takes the scaled pictures of this one."""
        super().__init__(name=f"rendition-{maker.name}", daemon=True)
        self.pictures: queue.Queue[Shown | None] = queue.Queue(_QUEUE_PICTURES)
        self._maker = maker
        self._sink = sink
        self._smaller = smaller
        self._ended = False
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 (carried to the thread that joins)
            self.error = error
            if not self._ended:
                self._pass_on(None)
                self._drain()

    def _work(self) -> None:
        while (shown := self.pictures.get()) is not None:
            scaled = self._maker.scale(shown)
            self._pass_on(scaled)
            for segment in self._maker.take(scaled):
                self._sink.put(segment)
        self._ended = True
        self._pass_on(None)
        for segment in self._maker.end():
            self._sink.put(segment)

    def _pass_on(self, shown: Shown | None) -> None:
        if self._smaller is not None:
            self._smaller.pictures.put(shown)

    def _drain(self) -> None:
        """Let whoever feeds this thread go on until the end mark."""
        while self.pictures.get() is not None:
            pass


class _SegmentSink:
    """Checks the segments of one rendition and hands them to the parent."""

    def __init__(self, plan: Plan, rendition: Rendition, init: bytes, reporter: Reporter, *, sampled: int) -> None:
        self._plan = plan
        self._rendition = rendition
        self._init = init
        self._reporter = reporter
        self._sampled = sampled
        self.checked = 0

    def put(self, segment: Segment) -> None:
        """Prove one segment and report it."""
        plan = self._plan
        self.checked += check_video_segment(
            self._init,
            segment.data,
            start=plan.borders[segment.number],
            end=plan.borders[segment.number + 1],
            samples=segment.samples,
            decode=WHOLE_GROUP if segment.number == self._sampled else 0,
            size=(self._rendition.width, self._rendition.height),
        )
        self._reporter.made(
            SegmentMade(
                name=self._rendition.name,
                number=segment.number,
                data=segment.data,
                duration_ticks=segment.duration_ticks,
            )
        )


def threads_of(renditions: Sequence[Rendition], *, cores: int) -> list[int]:
    """Return how many threads each encoder gets: its share of the pixels.

    The renditions already run side by side; x264 needs up to a sixth more CPU when it splits one picture stream over
    threads that are not needed.
    """
    pixels = [one.width * one.height for one in renditions]
    return [max(1, round(cores * own / sum(pixels))) for own in pixels]


class _ChunkEncoding:
    """One chunk, one decode, several encoders."""

    def __init__(
        self, plan: Plan, renditions: Sequence[Rendition], chunk: Chunk, reporter: Reporter, *, threads: int
    ) -> None:
        self._plan = plan
        self._chunk = chunk
        self._reporter = reporter
        self._borders = plan.borders[chunk.first_segment : chunk.end_segment + 1]
        shares = threads_of(renditions, cores=threads or os.cpu_count() or 1)
        self._makers = [
            RenditionMaker(plan, one, self._borders, chunk.first_segment, threads=share, is_scaled=place > 0)
            for place, (one, share) in enumerate(zip(renditions, shares, strict=True))
        ]
        sampled = chunk.first_segment + chunk.number % (chunk.end_segment - chunk.first_segment)
        self._sinks = [
            _SegmentSink(plan, one, maker.init_section, reporter, sampled=sampled)
            for one, maker in zip(renditions, self._makers, strict=True)
        ]

    def run(self, opened: OpenSource) -> tuple[RenditionFacts, ...]:
        """Decode, encode, check and report; returns the facts."""
        for maker in self._makers:
            self._reporter.made(InitMade(name=maker.name, data=maker.init_section))
        decoder = ChunkDecoder(opened, self._plan)
        pacer = Pacer(self._borders, shortest_step=SHORTEST_STEP_TICKS)
        workers = _chain(self._makers, self._sinks)
        for worker in workers:
            worker.start()
        try:
            count = self._feed(workers, pacer.pace(self._pictures(decoder)))
        finally:
            workers[0].pictures.put(None)
            for worker in workers:
                worker.join()
        if count == 0:
            raise ExpectedError(ErrorCode.DAMAGED_SOURCE, "No picture of this part of the source can be decoded.")
        _raise_first_error(workers)
        start, end = self._borders[0], self._borders[-1]
        return tuple(
            maker.facts(
                start=start,
                end=end,
                checked=sink.checked,
                repeated=pacer.repeated,
                dropped=pacer.dropped,
                errors=decoder.errors,
            )
            for maker, sink in zip(self._makers, self._sinks, strict=True)
        )

    def _pictures(self, decoder: ChunkDecoder) -> Iterator[Picture]:
        filters = self._plan.filters
        fields = "deinterlace" in filters or UNTELECINE in filters
        pictures = decoder.pictures(self._borders[0], chunk=self._chunk.number, early=fields)
        if UNTELECINE in filters:
            return Untelecine(self._plan).run(pictures)
        return SourceFilter(DEINTERLACE).run(pictures) if fields else pictures

    def _feed(self, workers: Sequence[_Worker], shown: Iterator[Shown]) -> int:
        start, length = self._borders[0], max(1, self._borders[-1] - self._borders[0])
        count = 0
        for one in shown:
            count += 1
            if any(worker.error is not None for worker in workers):
                return count
            workers[0].pictures.put(one)
            done = one.ticks - start
            self._reporter.progress(done * 1000 // length, done)
        return count


def _chain(makers: Sequence[RenditionMaker], sinks: Sequence[_SegmentSink]) -> list[_Worker]:
    """Return one worker per rendition, largest first, each with the next smaller one behind it."""
    workers: list[_Worker] = []
    for maker, sink in reversed(list(zip(makers, sinks, strict=True))):
        workers.insert(0, _Worker(maker, sink, workers[0] if workers else None))
    return workers


def _raise_first_error(workers: Sequence[Any]) -> None:
    for worker in workers:
        if worker.error is not None:
            raise worker.error
