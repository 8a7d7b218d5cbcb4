"""A chunk of a passthrough rendition: the source's own packets, re-framed and re-timed, nothing decoded or encoded."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import av
from av.error import FFmpegError

from app.core.errors import BugError, ErrorCode, ExpectedError
from app.media.film import RenditionFacts
from app.media.plan import Chunk, Plan, Rendition
from app.transcode.check import check_video_segment
from app.transcode.cmaf import Sample, init_section_of
from app.transcode.encode import INIT_OPTIONS, SegmentAssembler, Tally
from app.transcode.messages import InitMade, SegmentMade
from app.transcode.nal import ParameterSets, is_idr, playable_sample
from app.transcode.opening import OpenSource, from_ticks, to_ticks
from app.transcode.reporting import Reporter

_DECODED_PICTURES = 12
"""Enough to prove that samples and parameter sets were put together rightly; the encoder was not ours."""


class UncopyableError(ExpectedError):
    """The source's packets do not give segments that can be played: they are damaged, and must be decoded instead."""


def copy_chunk(
    opened: OpenSource, plan: Plan, rendition: Rendition, chunk: Chunk, reporter: Reporter
) -> RenditionFacts:
    """Cut the chunk's segments out of the source and return their facts.

    Raises ``UncopyableError`` when what comes out cannot be proven; segments before the damage are reported by then.
    """
    try:
        return _copy_chunk(opened, plan, rendition, chunk, reporter)
    except (BugError, FFmpegError) as error:
        raise UncopyableError(ErrorCode.DAMAGED_SOURCE, f"The source cannot be used as it is here: {error}") from error


def _copy_chunk(
    opened: OpenSource, plan: Plan, rendition: Rendition, chunk: Chunk, reporter: Reporter
) -> RenditionFacts:
    stream = opened.container.streams[plan.video_stream]
    borders = plan.borders[chunk.first_segment : chunk.end_segment + 1]
    samples = _SampleReader(opened, plan, stream)
    init = _init_section(stream, samples.sets)
    reporter.made(InitMade(name=rendition.name, data=init))
    assembler = SegmentAssembler(borders, chunk.first_segment)
    tally = Tally(rendition.name)
    checked = 0
    length = max(1, borders[-1] - borders[0])

    def segments() -> Iterator[Any]:
        for sample in samples.read(borders[0], borders[-1], chunk.number):
            yield from assembler.add(sample)
        yield from assembler.end()

    for segment in tally.count(segments()):
        checked += check_video_segment(
            init,
            segment.data,
            start=plan.borders[segment.number],
            end=plan.borders[segment.number + 1],
            samples=segment.samples,
            decode=_DECODED_PICTURES if segment.number == chunk.first_segment else 0,
            size=(rendition.width, rendition.height),
        )
        reporter.made(
            SegmentMade(
                name=rendition.name, number=segment.number, data=segment.data, duration_ticks=segment.duration_ticks
            )
        )
        done = plan.borders[segment.number + 1] - borders[0]
        reporter.progress(done * 1000 // length, done)
    return tally.facts(start=borders[0], end=borders[-1], checked=checked)


def _init_section(stream: Any, sets: ParameterSets) -> bytes:
    """Let FFmpeg's muxer write the init section for the source's own codec parameters."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp4", options=INIT_OPTIONS) as muxer:
        out: Any = muxer.add_stream_from_template(stream)
        out.codec_context.codec_tag = "avc1"
        if not stream.codec_context.extradata:
            out.codec_context.extradata = b"".join(b"\0\0\0\1" + unit for unit in sets.units)
        muxer.start_encoding()
        header = buffer.getvalue()
    return init_section_of(header)


class _SampleReader:
    """Reads access units of the source as CMAF samples with film times."""

    def __init__(self, opened: OpenSource, plan: Plan, stream: Any) -> None:
        self._opened = opened
        self._container = opened.container
        self._plan = plan
        self._stream = stream
        self.sets = ParameterSets(stream.codec_context.extradata)

    def read(self, begin: int, end: int, chunk: int) -> Iterator[Sample]:
        """Yield samples from the IDR at ``begin`` to the last before the IDR at ``end``, in decode order."""
        self._enter(begin, chunk)
        started = False
        for packet in self._opened.packets_of(self._stream):
            if not packet.size or packet.pts is None:
                continue
            pts = to_ticks(packet.pts, self._stream.time_base) - self._plan.origin_ticks
            units = self.sets.split(bytes(packet))
            sync = is_idr(units)
            if sync and pts >= end:
                return
            started = started or (sync and pts == begin)
            if started:
                yield Sample(data=playable_sample(units, self.sets.units), pts=pts, is_sync=sync)

    def _enter(self, begin: int, chunk: int) -> None:
        if self._plan.entry == "byte":
            self._container.seek(self._plan.entries[chunk][1], unsupported_byte_offset=True)
            return
        ticks = self._plan.origin_ticks + begin
        self._container.seek(from_ticks(ticks, self._stream.time_base), stream=self._stream)
