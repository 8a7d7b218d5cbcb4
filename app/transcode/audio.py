"""The ``audio`` task: one sound track, encoded (or copied) once, cut into segments that follow the picture's borders.

The track is a grid of AAC frames of 1024 samples that starts at the film's 0. Cuts fall on the frame edge nearest to
the picture's border. FFmpeg's ``aresample`` follows the time stamps: silence before a late track and in holes,
overlaps cut, slow drift stretched. The encoder's first frames are fed with the sound before the first segment (or
silence) and dropped, so what is left needs no edit list and starts exactly.

A run that starts in the middle of the track (a player is waiting far ahead) gives frames on the same grid.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import av
from av.error import FFmpegError

from app.core.errors import BugError, ErrorCode, ExpectedError
from app.media.film import RenditionFacts
from app.media.plan import AudioKind, AudioTrack, Plan
from app.media.scan import JOINED
from app.media.sound import AAC_FRAME_SAMPLES, frame_edge
from app.media.source import TICKS_PER_S
from app.transcode.cmaf import Sample, init_section_of, write_segment
from app.transcode.encode import Segment, Tally
from app.transcode.joined import joined_packets
from app.transcode.messages import InitMade, MakeAudio, SegmentMade
from app.transcode.opening import OpenSource, from_ticks, open_source, to_ticks
from app.transcode.passthrough import UncopyableError
from app.transcode.picture import FilterChain
from app.transcode.reporting import Reporter

_WARM_UP_FRAMES = 4
_ENTRY_MARGIN_TICKS = 2 * TICKS_PER_S
_MOST_DECODE_ERRORS = 2000
_LONG_HOLE_S = 5
_CENTRE_DOWN = 0.707
_SURROUND_DOWN = 0.5
_INIT_OPTIONS = {"movflags": "empty_moov+default_base_moof+frag_keyframe", "use_editlist": "0"}


def make_audio(request: MakeAudio, reporter: Reporter) -> tuple[RenditionFacts, ...]:
    """Make the track from ``first_segment`` on and return its facts."""
    plan = request.plan
    track = plan.track(request.track)
    end_segment = plan.segment_count if request.end_segment is None else request.end_segment
    if track.kind is AudioKind.COPY:
        with contextlib.suppress(UncopyableError), open_source(request.source) as opened:
            cutter = _Cutter(plan, track, request.first_segment, end_segment, reporter)
            _copy_provably(opened, plan, track, cutter)
            return (cutter.facts(),)
    with open_source(request.source) as opened:
        cutter = _Cutter(plan, track, request.first_segment, end_segment, reporter)
        _encode(opened, plan, track, cutter)
        return (cutter.facts(),)


class _Cutter:
    """Gathers AAC frames into segments on the planned grid, checks and reports them."""

    def __init__(self, plan: Plan, track: AudioTrack, first_segment: int, end_segment: int, reporter: Reporter) -> None:
        self._plan = plan
        self._track = track
        self._number = first_segment
        self._end = end_segment
        self._reporter = reporter
        self._frames: list[bytes] = []
        self._tally = Tally(track.name)
        self._checked = 0
        self._init = b""
        self.first_frame = self._edge(first_segment)
        self.end_frame = max(self._edge(end_segment), self.first_frame + 1)
        self.offset_samples = 0
        """Where frame 0 of the grid lies; only copied tracks start a little after the film."""

    def _edge(self, segment: int) -> int:
        return frame_edge(self._plan.borders[segment], self._track.sample_rate)

    def start(self, init: bytes) -> None:
        """Take the init section."""
        self._init = init
        self._reporter.made(InitMade(name=self._track.name, data=init))

    @property
    def next_frame(self) -> int:
        """Number of the frame that ``add`` takes next."""
        return self._edge(self._number) + len(self._frames)

    @property
    def is_full(self) -> bool:
        """Whether all segments are made."""
        return self._number >= self._end

    def add(self, frame: bytes) -> None:
        """Take the next AAC frame of the grid."""
        if self.is_full:
            return
        self._frames.append(frame)
        last = self._number + 1 == self._end
        wanted = (self.end_frame if last else self._edge(self._number + 1)) - self._edge(self._number)
        if len(self._frames) >= max(1, wanted):
            self._finish()

    def _finish(self) -> None:
        rate = self._track.sample_rate
        first = self._edge(self._number)
        start = self.offset_samples + first * AAC_FRAME_SAMPLES
        samples = [
            Sample(data=data, pts=start + n * AAC_FRAME_SAMPLES, is_sync=True) for n, data in enumerate(self._frames)
        ]
        end = start + len(samples) * AAC_FRAME_SAMPLES
        data = write_segment(number=self._number, samples=samples, start=start, end=end)
        segment = Segment(
            number=self._number,
            data=data,
            duration_ticks=(end - start) * TICKS_PER_S // rate,
            samples=len(samples),
        )
        for done in self._tally.count(iter((segment,))):
            self._check(done, start)
            self._report(done)
        self._frames = []
        self._number += 1

    def _check(self, segment: Segment, start: int) -> None:
        """Read the segment back with FFmpeg: every frame at its place; decode the first segment."""
        try:
            with av.open(io.BytesIO(self._init + segment.data), "r", format="mp4") as container:
                packets = [packet for packet in container.demux(container.streams.audio[0]) if packet.size]
                times = [packet.pts for packet in packets]
                if times != [start + n * AAC_FRAME_SAMPLES for n in range(segment.samples)]:
                    raise BugError(f"audio segment {segment.number} has frames at other times than planned")
                if self._checked == 0:
                    self._checked = sum(len(packet.decode()) for packet in packets)
        except FFmpegError as error:
            raise BugError(f"audio segment {segment.number} cannot be read: {error}") from error

    def _report(self, segment: Segment) -> None:
        self._reporter.made(
            SegmentMade(
                name=self._track.name,
                number=segment.number,
                data=segment.data,
                duration_ticks=segment.duration_ticks,
            )
        )
        done = self._plan.borders[segment.number + 1]
        self._reporter.progress(done * 1000 // max(1, self._plan.duration_ticks), done)

    def facts(self) -> RenditionFacts:
        """Return the track's facts; raises ``BugError`` when segments are missing."""
        if not self.is_full:
            raise BugError(f"the sound ended at segment {self._number} of {self._end}")
        return self._tally.facts(start=0, end=self._plan.borders[self._end], checked=self._checked)


def _copy_provably(opened: OpenSource, plan: Plan, track: AudioTrack, cutter: _Cutter) -> None:
    """Copy the track; ``UncopyableError`` when its frames turn out to be damaged and must be decoded instead."""
    try:
        _copy(opened, plan, track, cutter)
    except (BugError, FFmpegError) as error:
        raise UncopyableError(ErrorCode.DAMAGED_SOURCE, f"The sound cannot be used as it is: {error}") from error


def _copy(opened: OpenSource, plan: Plan, track: AudioTrack, cutter: _Cutter) -> None:
    """Cut the source's own AAC frames; the first whole frame at or after the film's start is frame 0."""
    stream = opened.container.streams[track.stream_index]
    cutter.start(_copied_init(stream))
    frame: bytes | None = None
    number = -1
    for packet in opened.packets_of(stream):
        if not packet.size or packet.pts is None or packet.is_discard:
            continue
        start = to_ticks(packet.pts, stream.time_base) - plan.origin_ticks
        samples = round(start * track.sample_rate / TICKS_PER_S)
        if number < 0:
            if samples < 0:
                continue
            cutter.offset_samples = samples
        number += 1
        frame = bytes(packet)
        if number >= cutter.first_frame:
            cutter.add(frame)
        if cutter.is_full:
            return
    while frame is not None and not cutter.is_full:  # the source ends a few frames early: its last frame is held
        cutter.add(frame)


def _copied_init(stream: Any) -> bytes:
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp4", options=_INIT_OPTIONS) as muxer:
        muxer.add_stream_from_template(stream)
        muxer.start_encoding()
        header = buffer.getvalue()
    return init_section_of(header)


def _encode(opened: OpenSource, plan: Plan, track: AudioTrack, cutter: _Cutter) -> None:
    encoder = _AacEncoder(track)
    cutter.start(encoder.init_section)
    warm_up = cutter.first_frame - _WARM_UP_FRAMES
    first_sample = max(0, warm_up) * AAC_FRAME_SAMPLES
    sound = _Sound(opened, plan, track, first_sample)
    for number, block in enumerate(sound.frames(), start=first_sample // AAC_FRAME_SAMPLES):
        _take(encoder.encode(number, block), cutter)
        if cutter.is_full:
            return


def _take(packets: Iterator[tuple[int, bytes]], cutter: _Cutter) -> None:
    for number, data in packets:
        if number == cutter.next_frame:
            cutter.add(data)
        elif number > cutter.next_frame:
            raise BugError(f"the encoder left out sound frame {cutter.next_frame}")


class _AacEncoder:
    """FFmpeg's AAC-LC encoder; yields (frame number on the grid, data)."""

    def __init__(self, track: AudioTrack) -> None:
        buffer = io.BytesIO()
        self._muxer = av.open(buffer, "w", format="mp4", options=_INIT_OPTIONS)
        stream: Any = self._muxer.add_stream("aac", rate=track.sample_rate)
        stream.codec_context.layout = "stereo"
        stream.codec_context.bit_rate = track.bit_rate
        stream.codec_context.time_base = Fraction(1, track.sample_rate)
        self._muxer.start_encoding()
        self._stream = stream
        self.init_section = init_section_of(buffer.getvalue())

    def encode(self, number: int, block: Any) -> Iterator[tuple[int, bytes]]:
        """Encode the 1024 samples of frame ``number``; what comes out belongs to earlier frames."""
        block.time_base = Fraction(1, block.sample_rate)
        block.pts = number * AAC_FRAME_SAMPLES
        for packet in self._stream.encode(block):
            if packet.pts >= 0 and packet.size:
                yield packet.pts // AAC_FRAME_SAMPLES, bytes(packet)


class _Sound:
    """The decoded, resampled and mixed sound of a track on the film's time line."""

    def __init__(self, opened: OpenSource, plan: Plan, track: AudioTrack, first_sample: int) -> None:
        self._opened = opened
        self._container = opened.container
        self._stream: Any = opened.container.streams[track.stream_index]
        self._origin = plan.origin_ticks
        self._joined = plan.entry == JOINED
        self._rate = track.sample_rate
        self._first = first_sample
        self._errors = 0
        self._next = first_sample
        """The sample that comes next."""
        self._chain: FilterChain | None = None
        self._shape: tuple[Any, ...] | None = None

    def frames(self) -> Iterator[Any]:
        """Yield stereo float blocks of 1024 samples without gaps from the first sample on; then silence for ever."""
        fifo = av.AudioFifo()
        for block in self._resampled():
            block.pts = None
            fifo.write(block)
            while (frame := fifo.read(AAC_FRAME_SAMPLES)) is not None:
                yield frame
        if fifo.samples:
            fifo.write(_silence(AAC_FRAME_SAMPLES - fifo.samples, self._rate))
            yield fifo.read(AAC_FRAME_SAMPLES)
        while True:
            yield _silence(AAC_FRAME_SAMPLES, self._rate)

    def _resampled(self) -> Iterator[Any]:
        self._enter()
        self._next = self._first
        for frame in self._decode():
            start = frame.pts * frame.time_base - Fraction(self._origin, TICKS_PER_S)
            yield from self._fill_long_hole(round(start * self._rate))
            shape = (frame.format.name, frame.layout.name, frame.sample_rate)
            if shape != self._shape:
                yield from self._end_chain()
                self._shape = shape
                try:
                    self._chain = self._build(frame, self._next)
                except FFmpegError:  # sound of a kind that cannot be: the decoder made it from damaged packets
                    self._count_error()
                    self._shape = None
                    continue
            frame.pts = round(start * frame.sample_rate)
            frame.time_base = Fraction(1, frame.sample_rate)
            yield from self._push(frame)
        yield from self._end_chain()

    def _fill_long_hole(self, start: int) -> Iterator[Any]:
        """Yield silence up to sample ``start`` when that is far ahead; ``aresample`` would make it in one piece."""
        if start - self._next <= _LONG_HOLE_S * self._rate:
            return
        yield from self._end_chain()
        self._shape = None
        while start - self._next >= AAC_FRAME_SAMPLES:
            self._next += AAC_FRAME_SAMPLES
            yield _silence(AAC_FRAME_SAMPLES, self._rate)

    def _push(self, frame: Any) -> Iterator[Any]:
        if self._chain is not None:
            self._chain.push(frame)
            yield from self._pulled(self._chain)

    def _end_chain(self) -> Iterator[Any]:
        if self._chain is not None:
            self._chain.push(None)
            yield from self._pulled(self._chain)
            self._chain = None

    def _pulled(self, chain: FilterChain) -> Iterator[Any]:
        for block in chain.pull():
            self._next += block.samples
            yield block

    def _enter(self) -> None:
        if self._first == 0 or self._joined:
            return
        ticks = self._origin + self._first * TICKS_PER_S // self._rate - _ENTRY_MARGIN_TICKS
        try:
            self._container.seek(from_ticks(max(ticks, self._origin), self._stream.time_base), stream=self._stream)
        except FFmpegError:
            self._container.seek(0, unsupported_byte_offset=True)

    def _decode(self) -> Iterator[Any]:
        expected: Fraction | None = None
        packets = self._packets()
        while True:
            try:
                packet = next(packets)
            except (StopIteration, FFmpegError):
                return
            try:
                frames = packet.decode()
            except FFmpegError:
                self._count_error()
                continue
            for frame in frames:
                if frame.pts is None:
                    if expected is None:
                        expected = Fraction(self._origin, TICKS_PER_S)
                    frame.time_base = Fraction(1, frame.sample_rate)
                    frame.pts = round(expected * frame.sample_rate)
                expected = frame.pts * frame.time_base + Fraction(frame.samples, frame.sample_rate)
                yield frame

    def _packets(self) -> Iterator[Any]:
        if self._joined:
            return joined_packets(self._container, self._stream)
        return self._opened.packets_of(self._stream)

    def _count_error(self) -> None:
        self._errors += 1
        if self._errors > _MOST_DECODE_ERRORS:
            raise ExpectedError(ErrorCode.DAMAGED_SOURCE, "Too much of this sound track is damaged to decode it.")

    def _build(self, frame: Any, first_sample: int) -> FilterChain:
        first_pts = round(first_sample * frame.sample_rate / self._rate)  # aresample counts it in samples that go in
        steps = [
            ("aformat", "sample_fmts=fltp"),
            *_stereo_steps(frame.layout),
            (
                "aresample",
                f"{self._rate}:async=1000:min_hard_comp=0.04:first_pts={first_pts}:out_chlayout=stereo:osf=fltp",
            ),
            ("aformat", f"sample_fmts=fltp:channel_layouts=stereo:sample_rates={self._rate}"),
        ]
        return FilterChain.for_sound(frame, steps)


def _stereo_steps(layout: Any) -> list[tuple[str, str]]:
    """Return the steps that mix a layout to stereo with the dialogue (centre) 3 dB down in both sides.

    FFmpeg's own mix divides by the sum of all shares, which puts a 5.1 film's dialogue 10 dB down; here nothing is
    divided and a limiter takes the rare peak.
    """
    names = [channel.name for channel in layout.channels]
    if names == ["FL", "FR"]:
        return []
    if len(names) == 1:
        return [("pan", "stereo|c0=c0|c1=c0")]
    if not {"FL", "FR"} <= set(names):
        return []
    left, right = _mix(names, "L"), _mix(names, "R")
    return [("pan", f"stereo|c0={left}|c1={right}"), ("alimiter", "limit=0.97:level=false:latency=true")]


def _mix(names: list[str], side: str) -> str:
    parts = [f"F{side}"]
    if "FC" in names:
        parts.append(f"{_CENTRE_DOWN}*FC")
    parts += [f"{_SURROUND_DOWN}*{name}" for name in (f"B{side}", f"S{side}", f"F{side}C") if name in names]
    if "BC" in names:
        parts.append(f"{_SURROUND_DOWN * _CENTRE_DOWN:.3f}*BC")
    return "+".join(parts)


def _silence(samples: int, rate: int) -> Any:
    frame = av.AudioFrame(format="fltp", layout="stereo", samples=samples)
    for plane in frame.planes:
        plane.update(bytes(plane.buffer_size))
    frame.sample_rate = rate
    frame.time_base = Fraction(1, rate)
    return frame
