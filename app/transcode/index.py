"""The ``index`` task: one pass over all packets, no decoding, then the plan.

A packet scan costs well under a second per gigabyte from the page cache; it is what borders, damage and the choice
between copying and encoding rest on, because headers lie.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import av
import msgspec
from av.error import FFmpegError

from app.media.chapters import RawChapter
from app.media.plan import Plan
from app.media.planning import make_plan
from app.media.scan import JOINED, AudioScan, Keyframe, PacketScan
from app.media.source import TEXT_CODECS, TICKS_PER_S, SourceInfo
from app.transcode.joined import clock_of, move, shift_of
from app.transcode.messages import IndexSource, TextFound
from app.transcode.nal import SPS, ParameterSets, is_idr, is_well_framed, unit_type
from app.transcode.opening import WRAPPING_FORMATS, open_source, read_packets, to_ticks
from app.transcode.probe import probe_source
from app.transcode.raw_text import TextGatherer, encode_raw_text
from app.transcode.reporting import Reporter

_RATE_WINDOW_TICKS = 6 * TICKS_PER_S
_CONTINUITY_TICKS = 270
_MOST_BAD_TIMES = 0.05
_LONGEST_SANE_TICKS = 100 * 3600 * TICKS_PER_S


def index_source(request: IndexSource, reporter: Reporter) -> tuple[SourceInfo, Plan]:
    """Return what the source is and the plan of its film."""
    with open_source(request.source) as opened:
        info = probe_source(opened)
    with open_source(request.source) as opened:
        if info.video is None:
            raise LookupError("probe_source returns films only")
        scanner = _Scanner(opened.container, info, opened.size_bytes)
        scan = scanner.run(reporter)
        plan = make_plan(
            info=info,
            scan=scan,
            profile=request.profile,
            fingerprint=request.fingerprint,
            codecs=scanner.parameter_sets.codecs,
            sidecars=request.sidecars,
        )
        for track in plan.text:
            if track.stream_index >= 0:
                raw = scanner.texts[track.stream_index].raw_text(plan.origin_ticks)
                reporter.made(TextFound(track=track.name, data=encode_raw_text(raw)))
    return info, plan


class _AudioTally:
    """Follows one sound track through the scan."""

    def __init__(self, stream: Any) -> None:
        self.index = stream.index
        self.time_base = stream.time_base
        self.first: int | None = None
        self.end = 0
        self.packets = 0
        self.is_continuous = True
        context = stream.codec_context
        self._has_own_header = context is not None and bool(context.extradata)

    def take(self, packet: Any) -> None:
        if packet.pts is None or packet.is_discard:
            self.packets += packet.pts is None
            return
        start = to_ticks(packet.pts, self.time_base)
        if self.first is None:
            self.first = start
        elif abs(start - self.end) > _CONTINUITY_TICKS:
            self.is_continuous = False
        self.end = to_ticks(packet.pts + (packet.duration or 0), self.time_base)
        self.packets += 1

    def scan(self) -> AudioScan | None:
        if self.first is None:
            return None
        return AudioScan(
            index=self.index,
            first_ticks=self.first,
            end_ticks=self.end,
            packets=self.packets,
            is_continuous=self.is_continuous,
            has_own_header=self._has_own_header,
        )


class _Scanner:
    """Gathers facts packet by packet."""

    def __init__(self, container: av.container.InputContainer, info: SourceInfo, size_bytes: int) -> None:
        video = info.video
        if video is None:
            raise LookupError("nothing to scan")
        self._container = container
        self._info = info
        self._size = max(1, size_bytes)
        self._video = container.streams[video.index]
        self._time_base = self._video.time_base
        self._codec = video.codec
        self._is_h264 = video.codec == "h264"
        context = self._video.codec_context
        self.parameter_sets = ParameterSets(context.extradata if context is not None and self._is_h264 else None)
        self._times: list[int] = []
        self._decode_times: list[int] = []
        self._last_shown: int | None = None
        self._keyframes: list[Keyframe] = []
        self._parameter_units: set[bytes] = set()
        self._bytes_per_window: dict[int, int] = defaultdict(int)
        self._last_duration = 0
        self._packets = 0
        self._bytes = 0
        self._missing = 0
        self._discarded = 0
        self._is_damaged = False
        self._enters_by_byte = container.format.name in WRAPPING_FORMATS
        self._clock = clock_of(container)
        wanted = {stream.index: stream.codec for stream in info.text if stream.codec in TEXT_CODECS}
        self.texts = {index: TextGatherer(container.streams[index], codec) for index, codec in wanted.items()}

    def run(self, reporter: Reporter) -> PacketScan:
        """Read all packets of picture, sound and text."""
        tallies = {stream.index: _AudioTally(stream) for stream in self._container.streams.audio}
        wanted = [
            self._video,
            *self._container.streams.audio,
            *(self._container.streams[index] for index in self.texts),
        ]
        try:
            for packet in read_packets(self._container, wanted):
                if packet.size == 0:
                    continue
                text = self.texts.get(packet.stream_index)
                if text is not None:  # too rare to tell where a clock jumps, so it is not asked
                    text.take(packet, self._clock)
                    continue
                move(packet, shift_of(self._clock, packet))
                if packet.stream_index != self._video.index:
                    tallies[packet.stream_index].take(packet)
                    continue
                self._take_picture(packet)
                if self._packets % 500 == 0 and packet.pos:
                    reporter.progress(min(999, packet.pos * 1000 // self._size))
        except FFmpegError:
            self._is_damaged = True
        found = self._result(tuple(scan for tally in tallies.values() if (scan := tally.scan())))
        return msgspec.structs.replace(
            found,
            text=tuple(text.scan() for text in self.texts.values()),
            chapters=tuple(_chapters_of(self._container)),
        )

    def _take_picture(self, packet: Any) -> None:
        self._bytes += packet.size
        if self._is_hidden(packet):
            return
        self._packets += 1
        if packet.is_corrupt or not self._is_well_framed(packet):
            self._is_damaged = True
        if packet.dts is not None:
            self._decode_times.append(to_ticks(packet.dts, self._time_base))
        if packet.pts is None:
            self._missing += 1
            return
        pts = to_ticks(packet.pts, self._time_base)
        if packet.is_discard:
            self._discarded += 1
        else:
            self._times.append(pts)
            if self._last_shown is None or pts >= self._last_shown:
                self._last_shown = pts
                self._last_duration = to_ticks(packet.duration or 0, self._time_base)
        self._bytes_per_window[pts // _RATE_WINDOW_TICKS] += packet.size
        if packet.is_keyframe:
            self._take_keyframe(packet, pts)

    def _is_hidden(self, packet: Any) -> bool:
        """Whether a VP8 picture is only there for others to refer to (RFC 6386, 9.1: the bit ``show_frame``)."""
        return self._codec == "vp8" and not memoryview(packet)[0] & 0x10

    def _is_well_framed(self, packet: Any) -> bool:
        size = self.parameter_sets.length_size
        return not (self._is_h264 and size) or is_well_framed(bytes(packet), size)

    def _take_keyframe(self, packet: Any, pts: int) -> None:
        idr = True
        if self._is_h264:
            units = self.parameter_sets.split(bytes(packet))
            idr = is_idr(units)
            self._parameter_units.update(unit for unit in units if unit_type(unit) == SPS)
            if not self.parameter_sets.units:
                self.parameter_sets.units = tuple(unit for unit in units if unit_type(unit) in {7, 8})
        self._keyframes.append(Keyframe(pts=pts, is_idr=idr, position=packet.pos if packet.pos is not None else -1))

    def _result(self, audio: tuple[AudioScan, ...]) -> PacketScan:
        if self._missing > self._packets * _MOST_BAD_TIMES or self._steps_back():
            return self._counted(audio)
        shown = sorted(set(self._times))
        sets = self._parameter_units | {unit for unit in self.parameter_sets.units if unit_type(unit) == SPS}
        repaired = len(self._times) - len(shown) + self._missing
        return PacketScan(
            shown=tuple(shown),
            keyframes=tuple(sorted({key.pts: key for key in self._keyframes}.values(), key=lambda key: key.pts)),
            last_duration=self._last_duration or _median_step(shown),
            entry=JOINED if self._clock.joins else "byte" if self._enters_by_byte else "time",
            joins=self._clock.joins,
            is_copyable=not self._clock.joins
            and self._discarded == 0
            and repaired == 0
            and len(sets) <= 1
            and not self._is_damaged,
            peak_rate=self._peak_rate(shown),
            audio=audio,
            repaired=repaired,
            declared_ticks=self._declared(),
            is_cut=self._is_cut() and not self._clock.joins,
        )

    def _steps_back(self) -> bool:
        """Whether the stream has no usable presentation order: H.264 with reordering in AVI, raw streams."""
        return self._is_h264 and self._container.format.name in {"avi", "h264"}

    def _counted(self, audio: tuple[AudioScan, ...]) -> PacketScan:
        """Return the scan of a source that does not say when pictures are shown.

        The nth picture is shown when the nth packet is decoded; where packets do not even say that, pictures are
        counted at the declared rate.
        """
        shown = sorted(set(self._decode_times))
        rate = (0, 1)
        if len(shown) < self._packets:
            rate = self._declared_rate()
            first = min([scan.first_ticks for scan in audio], default=0)
            shown = [first + n * TICKS_PER_S * rate[1] // rate[0] for n in range(self._packets)]
        return PacketScan(
            shown=tuple(shown),
            keyframes=(),
            last_duration=_median_step(shown),
            entry="order",
            counted_rate=rate,
            is_copyable=False,
            peak_rate=self._peak_rate(shown),
            audio=audio,
            declared_ticks=self._declared(),
            is_cut=self._is_cut(),
        )

    def _declared_rate(self) -> tuple[int, int]:
        rate = self._info.video.frame_rate if self._info.video else (0, 1)
        return rate if rate[0] > 0 else (25, 1)

    def _declared(self) -> int | None:
        declared = self._info.duration_ticks
        return declared if declared is not None and declared < _LONGEST_SANE_TICKS else None

    def _is_cut(self) -> bool:
        if self._container.format.name == "avi":  # counts empty places too; its duration tells as much
            return self._is_damaged
        promised = self._video.frames or 0
        return self._is_damaged or promised > self._packets + max(2, promised // 100)

    def _peak_rate(self, shown: list[int]) -> int:
        if not shown:
            return 0
        length = shown[-1] - shown[0] + _median_step(shown)
        if length <= _RATE_WINDOW_TICKS or not self._bytes_per_window:
            return self._bytes * 8 * TICKS_PER_S // max(1, length)
        return max(self._bytes_per_window.values()) * 8 * TICKS_PER_S // _RATE_WINDOW_TICKS


def _median_step(shown: list[int]) -> int:
    """Return the usual distance of pictures; a 25th of a second when there is only one."""
    steps = sorted(b - a for a, b in pairwise(shown))
    return steps[len(steps) // 2] if steps else TICKS_PER_S // 25


def _chapters_of(container: av.container.InputContainer) -> Iterator[RawChapter]:
    """Yield the chapters that the container names, as it names them."""
    for one in container.chapters():
        base = one["time_base"]
        if base is not None and base > 0:
            yield RawChapter(
                start_ticks=to_ticks(one["start"], base),
                end_ticks=to_ticks(one["end"], base),
                title=str(one["metadata"].get("title", "")),
            )
