"""One rendition of one chunk: pictures in, whole CMAF segments out.

The encoder starts an IDR at every border; packets are gathered until the next one and written as a segment whose
first picture is exactly at its planned border. A chunk that breaks this contract fails, it is never published.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import av
import msgspec
from av.video.frame import PictureType

from app.core.errors import BugError
from app.media.film import RenditionFacts
from app.media.plan import Plan, Rendition
from app.media.source import TICKS_PER_S
from app.transcode.cmaf import Sample, init_section_of, write_segment
from app.transcode.nal import ParameterSets, is_idr, playable_sample
from app.transcode.pacing import Shown
from app.transcode.picture import RenditionFilter

_BT709 = 1
_LIMITED_RANGE = 1
INIT_OPTIONS = {
    "movflags": "empty_moov+default_base_moof+frag_keyframe",
    "use_editlist": "0",
    "video_track_timescale": str(TICKS_PER_S),
}


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A finished media segment of one rendition or track."""

    number: int
    data: bytes
    duration_ticks: int
    samples: int


class SegmentAssembler:
    """Gathers samples in decode order into segments at planned borders."""

    def __init__(self, borders: Sequence[int], first_segment: int) -> None:
        """``borders``: the segments' starts and the last one's end, in ticks."""
        self._borders = borders
        self._first = first_segment
        self._place = 0
        self._samples: list[Sample] = []

    def add(self, sample: Sample) -> Iterator[Segment]:
        """Take one sample; yield the segment that it ends, if it opens the next."""
        following = self._place + 1
        if sample.is_sync and following < len(self._borders) - 1 and sample.pts >= self._borders[following]:
            yield self._finish()
        self._samples.append(sample)

    def end(self) -> Iterator[Segment]:
        """Yield the last segment; raises ``BugError`` when segments are missing."""
        yield self._finish()
        if self._place != len(self._borders) - 1:
            raise BugError(f"{len(self._borders) - 1 - self._place} segments are missing at the end of the chunk")

    def _finish(self) -> Segment:
        start, end = self._borders[self._place], self._borders[self._place + 1]
        number = self._first + self._place
        samples = self._samples
        if not samples or samples[0].pts != start or not samples[0].is_sync:
            found = f"{samples[0].pts} (key: {samples[0].is_sync})" if samples else "nothing"
            raise BugError(f"segment {number} must start at {start} with an IDR, but starts with {found}")
        try:
            data = write_segment(number=number, samples=samples, start=start, end=end)
        except ValueError as error:
            raise BugError(f"segment {number}: {error}") from error
        self._samples = []
        self._place += 1
        return Segment(number=number, data=data, duration_ticks=end - start, samples=len(samples))


class H264Encoder:
    """x264 for one rendition: pictures with film times in, samples in decode order out."""

    def __init__(self, plan: Plan, rendition: Rendition, *, threads: int) -> None:
        self._header = io.BytesIO()
        self._muxer = av.open(self._header, "w", format="mp4", options=INIT_OPTIONS)
        numerator, denominator = plan.frame_rate
        stream: Any = self._muxer.add_stream("libx264", rate=Fraction(numerator, denominator))
        stream.width, stream.height = rendition.width, rendition.height
        stream.pix_fmt = "yuv420p"
        context = stream.codec_context
        context.time_base = Fraction(1, TICKS_PER_S)
        context.framerate = Fraction(numerator, denominator)
        context.thread_count = threads
        context.color_primaries = context.color_trc = context.colorspace = _BT709
        context.color_range = _LIMITED_RANGE
        stream.options = _x264_options(rendition, numerator / denominator)
        self._muxer.start_encoding()
        self._stream = stream
        self._sets = ParameterSets(context.extradata)
        self.init_section = init_section_of(self._header.getvalue())

    def encode(self, shown: Shown) -> Iterator[Sample]:
        """Encode one picture; yields the samples that are ready."""
        frame: Any = shown.frame
        frame.time_base = Fraction(1, TICKS_PER_S)
        frame.pts = shown.ticks
        frame.pict_type = PictureType.I if shown.opens_segment else PictureType.NONE
        yield from self._samples(self._stream.encode(frame))

    def flush(self) -> Iterator[Sample]:
        """Yield the samples that were held back."""
        yield from self._samples(self._stream.encode(None))

    def close(self) -> None:
        """Free the encoder."""
        self._muxer.close()

    def _samples(self, packets: Sequence[Any]) -> Iterator[Sample]:
        for packet in packets:
            units = self._sets.split(bytes(packet))
            yield Sample(data=playable_sample(units, self._sets.units), pts=packet.pts, is_sync=is_idr(units))


def _x264_options(rendition: Rendition, frames_per_s: float) -> dict[str, str]:
    return {
        "preset": rendition.preset,
        "crf": str(rendition.crf),
        "maxrate": str(rendition.max_rate),
        "bufsize": str(rendition.max_rate * 2),
        "profile": "high",
        "level": f"{rendition.level // 10}.{rendition.level % 10}",
        "forced-idr": "1",
        "g": str(max(1, round(frames_per_s * rendition.gop_s))),
        "x264-params": "open-gop=0",
    }


class RenditionMaker:
    """Filter, encoder and assembler of one rendition of one chunk."""

    def __init__(
        self,
        plan: Plan,
        rendition: Rendition,
        borders: Sequence[int],
        first_segment: int,
        *,
        threads: int,
        is_scaled: bool = False,
    ) -> None:
        """``is_scaled``: see ``RenditionFilter``."""
        self.name = rendition.name
        self._filter = RenditionFilter(plan, rendition, is_scaled=is_scaled)
        self._encoder = H264Encoder(plan, rendition, threads=threads)
        self._assembler = SegmentAssembler(borders, first_segment)
        self._tally = Tally(rendition.name)
        self.init_section = self._encoder.init_section

    def scale(self, shown: Shown) -> Shown:
        """Return the picture in this rendition's size, for ``take`` and for the next smaller rendition."""
        return Shown(self._filter.apply(shown.frame, shown.aspect), shown.ticks, shown.opens_segment)

    def take(self, shown: Shown) -> Iterator[Segment]:
        """Encode one scaled picture; yields finished segments."""
        for sample in self._encoder.encode(shown):
            yield from self._tally.count(self._assembler.add(sample))

    def end(self) -> Iterator[Segment]:
        """Flush; yields the remaining segments."""
        for sample in self._encoder.flush():
            yield from self._tally.count(self._assembler.add(sample))
        yield from self._tally.count(self._assembler.end())
        self._encoder.close()

    def facts(self, *, start: int, end: int, checked: int, repeated: int, dropped: int, errors: int) -> RenditionFacts:
        """Return what was measured."""
        return self._tally.facts(
            start=start, end=end, checked=checked, repeated=repeated, dropped=dropped, errors=errors
        )


class Tally:
    """Counts what leaves an assembler."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.samples = 0
        self._size = 0
        self._peak = 0

    def count(self, segments: Iterator[Segment]) -> Iterator[Segment]:
        """Pass segments through and count them."""
        for segment in segments:
            self.samples += segment.samples
            self._size += len(segment.data)
            self._peak = max(self._peak, len(segment.data) * 8 * TICKS_PER_S // max(1, segment.duration_ticks))
            yield segment

    def facts(
        self, *, start: int, end: int, checked: int, repeated: int = 0, dropped: int = 0, errors: int = 0
    ) -> RenditionFacts:
        """Return what was counted, with what others measured."""
        return RenditionFacts(
            name=self._name,
            frames=self.samples,
            first_ticks=start,
            end_ticks=end,
            size_bytes=self._size,
            peak_rate=self._peak,
            checked_frames=checked,
            repeated_frames=repeated,
            dropped_frames=dropped,
            decode_errors=errors,
        )
