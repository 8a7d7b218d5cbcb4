"""From a source to the pictures of one chunk, each with its film time, in order.

Entering: by time (the container's own seek), by byte position one keyframe early (transport and program streams), or
from the start (sources whose times must be counted). Whatever is shown before the chunk is kept only as the picture
that a border without one of its own repeats.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec
from av.error import FFmpegError

from app.core.errors import ErrorCode, ExpectedError
from app.media.plan import Plan
from app.media.planning import MAX_FRAME_RATE
from app.media.scan import JOINED
from app.media.source import TICKS_PER_S, usable_aspect
from app.transcode.decoders import PictureDecoder, is_over
from app.transcode.joined import joined_packets
from app.transcode.opening import WRAPPING_FORMATS, OpenSource, from_ticks, read_packets, to_ticks

SHORTEST_STEP_TICKS = TICKS_PER_S * 9 // (MAX_FRAME_RATE * 10)
"""Pictures closer to each other than this are thinned out."""
_STEPS_BACK_TICKS = (0, 2 * TICKS_PER_S, 8 * TICKS_PER_S, 32 * TICKS_PER_S, 128 * TICKS_PER_S)
_MOST_DECODE_ERRORS = 200


class Picture(msgspec.Struct, frozen=True):
    """A decoded picture and when the film shows it."""

    frame: Any
    ticks: int
    aspect: float = 1.0
    """Width of a pixel by its height."""


class _PixelAspect:
    """Follows the shape of the source's pixels.

    What the container says holds for the whole film. Broadcasts and discs say it in the pictures themselves, and may
    change it from one programme to the next.
    """

    def __init__(self, stream: Any, container: str) -> None:
        self._context = stream.codec_context
        self._follows = container in WRAPPING_FORMATS
        self._size = self._context.width, self._context.height
        self._first = stream.sample_aspect_ratio or self._context.sample_aspect_ratio

    def of(self, frame: Any) -> float:
        """Return the aspect of the picture that was decoded last."""
        is_other = (frame.width, frame.height) != self._size
        aspect = self._context.sample_aspect_ratio if self._follows else None if is_other else self._first
        return usable_aspect(aspect.numerator, aspect.denominator) if aspect else 1.0


class ChunkDecoder:
    """Decodes the pictures around one time range of a source."""

    def __init__(self, opened: OpenSource, plan: Plan, *, threads: int = 0) -> None:
        self._container = opened.container
        self._plan = plan
        self._stream: Any = opened.container.streams[plan.video_stream]
        self._decoder = PictureDecoder(self._stream, with_alpha=is_over(plan.filters), threads=threads)
        self._aspect = _PixelAspect(self._stream, opened.container.format.name)
        self._decode_times: deque[int] = deque()
        """For ``order``: decode times (ticks of the source's clock) of packets whose pictures are still to come."""
        self._begin = 0
        self.errors = 0
        """Packets that could not be decoded, and pictures that were decoded with faults."""

    def pictures(self, begin: int, *, chunk: int, early: bool = False) -> Iterator[Picture]:
        """Yield pictures in order from one at or before ``begin`` (where there is one) to the end of the source.

        ``early`` enters one keyframe sooner, for filters that look back.
        """
        self._begin = begin
        entry = self._plan.entry
        if entry == "order":
            yield from self._counted()
        elif entry == JOINED:
            yield from self._timed(self._decode())
        elif entry == "byte":
            yield from self._from_byte(chunk)
        else:
            yield from self._from_time(begin - 1 if early else begin)

    def _from_time(self, begin: int) -> Iterator[Picture]:
        for step in _STEPS_BACK_TICKS:
            target = begin - step
            self._seek(target)
            pictures = self._timed(self._decode())
            first = next(pictures, None)
            if first is not None and (first.ticks <= begin or target <= 0):
                yield first
                yield from pictures
                return
        self._seek(0)
        yield from self._timed(self._decode())

    def _seek(self, target: int) -> None:
        ticks = self._plan.origin_ticks + max(target, 0)
        try:
            self._container.seek(from_ticks(ticks, self._stream.time_base), stream=self._stream)
            self._decoder.restart()
        except FFmpegError:
            if target > 0:  # a damaged index cannot be searched; the caller steps back to the start
                return
            self._rewind()

    def _rewind(self) -> None:
        try:
            self._container.seek(0, unsupported_byte_offset=True)
        except FFmpegError as error:
            raise ExpectedError(ErrorCode.UNREADABLE, f"The source cannot be read from its start ({error}).") from error

    def _from_byte(self, chunk: int) -> Iterator[Picture]:
        position = self._plan.entries[chunk][1] if chunk < len(self._plan.entries) else 0
        self._container.seek(position, unsupported_byte_offset=True)
        yield from self._timed(self._decode())

    def _counted(self) -> Iterator[Picture]:
        """Give the nth picture the nth decode time, or where packets have none, its place in the declared rate."""
        numerator, denominator = self._plan.counted_rate
        for number, frame in enumerate(self._decode()):
            if numerator:
                ticks = number * TICKS_PER_S * denominator // numerator
            elif self._decode_times:
                ticks = self._decode_times.popleft() - self._plan.origin_ticks
            else:
                continue
            yield Picture(frame, ticks, self._aspect.of(frame))

    def _timed(self, frames: Iterator[Any]) -> Iterator[Picture]:
        """Give each picture its film time; one that does not rise comes a little after the one before."""
        last: int | None = None
        length = self._plan.frame_ticks
        for frame in frames:
            base = frame.time_base or self._stream.time_base
            if frame.pts is None:
                ticks = 0 if last is None else last + length
            else:
                ticks = to_ticks(frame.pts, base) - self._plan.origin_ticks
            if last is not None and ticks <= last:
                ticks = last + max(self._plan.frame_ticks // 2, SHORTEST_STEP_TICKS)
            last = ticks
            length = self._length_of(frame, base)
            if ticks >= self._begin and frame.is_corrupt:
                self.errors += 1
            yield Picture(frame, ticks, self._aspect.of(frame))

    def _length_of(self, frame: Any, base: Any) -> int:
        """Return how long a picture is shown: what it says itself (film in fields lasts longer), if that is likely."""
        nominal = self._plan.frame_ticks
        own = to_ticks(frame.duration or 0, base)
        return own if nominal // 2 <= own <= 3 * nominal else nominal

    def _decode(self) -> Iterator[Any]:
        packets = self._packets()
        while True:
            try:
                packet = next(packets)
            except StopIteration:
                return
            except FFmpegError:
                self._count_error()
                yield from self._flush()
                return
            if self._plan.entry == "order" and packet.dts is not None:
                self._decode_times.append(to_ticks(packet.dts, self._stream.time_base))
            try:
                frames = self._decoder.decode(packet)
            except FFmpegError:
                self._count_error()
                frames = []
                if self._decode_times:
                    self._decode_times.popleft()
            yield from frames

    def _packets(self) -> Iterator[Any]:
        if self._plan.entry == JOINED:
            return joined_packets(self._container, self._stream)
        return read_packets(self._container, [self._stream])

    def _flush(self) -> Iterator[Any]:
        try:
            yield from self._decoder.decode(None)
        except FFmpegError:
            return

    def _count_error(self) -> None:
        self.errors += 1
        if self.errors > _MOST_DECODE_ERRORS:
            raise ExpectedError(
                ErrorCode.DAMAGED_SOURCE, "Too much of the source is damaged here; its pictures cannot be decoded."
            )
