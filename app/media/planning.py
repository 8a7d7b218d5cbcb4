"""From what a source is to the plan of its film: one pure function, ``make_plan``.

The plan is deterministic: two devices that index the same source make the same plan, to the last byte.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

from app.core.errors import ErrorCode, ExpectedError
from app.media.borders import CHUNK_TICKS, COPIED_CHUNK_TICKS, LONGEST_COPIED_TICKS, choose_borders, cut_chunks
from app.media.chapters import clean_title, repair_chapters
from app.media.ladder import encoded_rungs, size_class
from app.media.plan import AudioKind, AudioTrack, Chunk, Plan, Rendition, RenditionKind, RenditionSet, TextTrack
from app.media.scan import JOINED, AudioScan, PacketScan
from app.media.sidecar import Sidecar, SidecarName
from app.media.source import (
    TEXT_CODECS,
    TICKS_PER_S,
    AudioStream,
    SourceInfo,
    TextStream,
    VideoStream,
    displayed_size,
)
from app.media.telecine import cycle_starts, is_regular, source_step

MAX_FRAME_RATE = 60
LONGEST_TICKS = 100 * 3600 * TICKS_PER_S
MAX_PIXELS = 64_000_000
MAX_TEXT_TRACKS = 64
UNTELECINE = "untelecine"
"""The filter of a plan that gives film back its own pictures."""

PROFILES = ("default", "passthrough")
COPIED_SHARE = 0.7
"""With less of the film copyable than this, the top rung is encoded as a whole."""
_COPY_PROFILES = {"Baseline", "Constrained Baseline", "Main", "High"}
_HDR_TRANSFERS = {"smpte2084": "tonemap-pq", "arib-std-b67": "tonemap-hlg"}
_LONGEST_COPY_RATE = 40_000_000
_AUDIO_EDGE_TICKS = TICKS_PER_S // 5
_AUDIO_SLACK_TICKS = TICKS_PER_S // 20
"""Sound that overlaps the picture's ends by less than this (50 ms) does not move them."""


def make_plan(
    *,
    info: SourceInfo,
    scan: PacketScan,
    profile: str,
    fingerprint: str,
    codecs: str = "",
    sidecars: Sequence[Sidecar] = (),
) -> Plan:
    """Return the plan of the film.

    ``codecs`` is the RFC 6381 string of the source's own picture, for a passthrough rendition; ``sidecars`` are the
    readable text files beside the source. Raises ``ExpectedError`` no-video or too-large.
    """
    video = info.video
    if video is None or not scan.shown:
        raise ExpectedError(ErrorCode.NO_VIDEO, "There is no moving picture in this file, so there is nothing to show.")
    if video.dolby_vision_profile == 5:
        raise unknown_colours()
    width, height = displayed_size(video)
    if max(video.width * video.height, width * height) > MAX_PIXELS:
        raise too_large(max(video.width, width), max(video.height, height))
    return _Planner(
        info=info,
        video=video,
        scan=scan,
        profile=profile,
        fingerprint=fingerprint,
        codecs=codecs,
        sidecars=sidecars,
    ).plan(width, height)


def too_large(width: int, height: int) -> ExpectedError:
    """Return the error for a picture that is larger than anything we transcode."""
    return ExpectedError(
        ErrorCode.TOO_LARGE,
        f"The picture is {width} by {height}; more than {MAX_PIXELS // 1_000_000} megapixels cannot be transcoded. "
        "Scale it down first.",
    )


def unknown_colours() -> ExpectedError:
    """Return the error for Dolby Vision without a fallback: false colours must not be published."""
    return ExpectedError(
        ErrorCode.NO_DECODER,
        "The film is Dolby Vision profile 5, whose colours only licensed players know; it would come out green and "
        "purple. Add a version in HDR10, or in Dolby Vision profile 8, instead.",
    )


class _Planner:
    """Carries what all steps of one planning need."""

    def __init__(
        self,
        *,
        info: SourceInfo,
        video: VideoStream,
        scan: PacketScan,
        profile: str,
        fingerprint: str,
        codecs: str,
        sidecars: Sequence[Sidecar],
    ) -> None:
        self.info = info
        self.video = video
        self.scan = scan
        self.profile = profile
        self.fingerprint = fingerprint
        self.codecs = codecs
        self.sidecars = sidecars
        self.origin = min([scan.shown[0], *self._early_sound()])
        self.shown = [time - self.origin for time in scan.shown]
        self.video_end = self.shown[-1] + scan.last_duration
        self.end = max([self.video_end, *self._late_sound()])
        if self.end > LONGEST_TICKS:
            raise ExpectedError(
                ErrorCode.DAMAGED_SOURCE,
                f"By its time stamps the film lasts {self.end // TICKS_PER_S // 3600} hours; they must be damaged. "
                "Write the file anew with a tool such as mkvmerge, and add that.",
            )
        self.is_telecined = video.is_telecined and scan.entry in {"time", "byte"} and self._is_even()
        self.warnings: list[str] = []

    def _is_even(self) -> bool:
        numerator, denominator = self.video.frame_rate
        return numerator > 0 and is_regular(self.shown, Fraction(TICKS_PER_S * denominator, numerator))

    def _early_sound(self) -> list[int]:
        """Return where tracks start that begin clearly before the picture (encoder delay does not count)."""
        first = self.scan.shown[0]
        return [track.first_ticks for track in self.scan.audio if first - track.first_ticks > _AUDIO_SLACK_TICKS]

    def _late_sound(self) -> list[int]:
        """Return where tracks end that last clearly longer than the picture."""
        ends = (track.end_ticks - self.origin for track in self.scan.audio)
        return [end for end in ends if end - self.video_end > _AUDIO_SLACK_TICKS]

    def plan(self, width: int, height: int) -> Plan:
        """Return the plan for a picture shown in this size."""
        rate = self._frame_rate()
        copied = self._may_copy()
        keyframes = [key.pts - self.origin for key in self.scan.keyframes if key.is_idr or not copied]
        borders = choose_borders(shown=self.shown, keyframes=keyframes, end=self.end, copied=copied)
        chunks = self._chunks(borders, keyframes, copied=copied)
        copied = copied and self._copied_share(borders, chunks) >= COPIED_SHARE
        if not copied and self._may_copy():
            keyframes = [key.pts - self.origin for key in self.scan.keyframes]
            borders = choose_borders(shown=self.shown, keyframes=keyframes, end=self.end, copied=False)
            chunks = self._chunks(borders, keyframes, copied=False)
        if self.is_telecined:
            starts = cycle_starts(self.end, source_step(rate))
            borders = choose_borders(shown=starts, keyframes=(), end=self.end, copied=False)
            chunks = self._chunks(borders, keyframes, copied=False)
        renditions = self._renditions(width, height, rate[0] / rate[1], copied=copied)
        self._warn_of_damage()
        return Plan(
            fingerprint=self.fingerprint,
            profile=self.profile,
            video_stream=self.video.index,
            origin_ticks=self.origin,
            borders=borders,
            chunks=chunks,
            renditions=renditions,
            sets=_sets(renditions),
            audio=self._audio_tracks(),
            frame_rate=rate,
            frame_ticks=round(TICKS_PER_S * rate[1] / rate[0]),
            filters=self._filters(),
            entry=self.scan.entry,
            counted_rate=self.scan.counted_rate,
            entries=self._entries(borders, chunks),
            text=self._text_tracks(),
            chapters=repair_chapters(self.scan.chapters, origin=self.origin, duration=self.end),
            warnings=tuple(self.warnings),
        )

    def _frame_rate(self) -> tuple[int, int]:
        """Return the nominal output rate: the median distance of pictures, capped; fields count when interlaced."""
        numerator, denominator = self.video.frame_rate
        if numerator <= 0 or denominator <= 0 or self.scan.entry == "order":
            steps = sorted(b - a for a, b in pairwise(self.shown))
            step = steps[len(steps) // 2] if steps else TICKS_PER_S
            numerator, denominator = TICKS_PER_S, max(1, step)
        if self.is_telecined:
            numerator, denominator = Fraction(numerator * 4, denominator * 5).as_integer_ratio()
        elif self.video.interlaced:
            numerator *= 2
        if numerator > MAX_FRAME_RATE * denominator:
            return MAX_FRAME_RATE, 1
        return numerator, denominator

    def _may_copy(self) -> bool:
        video, scan = self.video, self.scan
        aspect = video.sample_aspect[0] / video.sample_aspect[1] if min(video.sample_aspect) > 0 else 1.0
        return (
            video.codec == "h264"
            and video.profile in _COPY_PROFILES
            and video.pixel_format == "yuv420p"
            and not (video.interlaced or video.is_telecined or video.rotation or video.mirrored)
            and abs(aspect - 1) <= 0.01
            and video.width % 2 == 0
            and video.height % 2 == 0
            and video.transfer not in _HDR_TRANSFERS
            and scan.is_copyable
            and scan.entry != "order"
            and video.frame_rate[0] <= (MAX_FRAME_RATE + 1) * video.frame_rate[1]
            and 0 < scan.peak_rate <= _LONGEST_COPY_RATE
            and bool(self.codecs)
        )

    def _chunks(self, borders: Sequence[int], keyframes: Sequence[int], *, copied: bool) -> tuple[Chunk, ...]:
        keys = set(keyframes)
        last_border = len(borders) - 1

        def is_copyable(segment: int) -> bool:
            begin, end = borders[segment], borders[segment + 1]
            first = bisect_left(self.shown, begin)
            return (
                begin in keys
                and (end in keys or segment + 1 == last_border)
                and end - begin <= LONGEST_COPIED_TICKS
                and first < len(self.shown)
                and self.shown[first] == begin
            )

        return cut_chunks(
            borders,
            is_copyable=is_copyable if copied else lambda _: False,
            length=COPIED_CHUNK_TICKS if copied and self.profile == "passthrough" else CHUNK_TICKS,
            single=self.scan.entry in {"order", JOINED},
        )

    def _copied_share(self, borders: Sequence[int], chunks: Sequence[Chunk]) -> float:
        copied = sum(borders[chunk.end_segment] - borders[chunk.first_segment] for chunk in chunks if chunk.copied)
        return copied / self.end

    def _renditions(self, width: int, height: int, frames_per_s: float, *, copied: bool) -> tuple[Rendition, ...]:
        own = size_class(width, height)
        if not copied:
            encoded = encoded_rungs(width, height, frames_per_s=frames_per_s)
            if self.profile == "passthrough":
                self.warnings.append("The source cannot be used as it is, so its picture was encoded once.")
                return encoded[:1]
            return encoded
        top = Rendition(
            name=str(own),
            kind=RenditionKind.PASSTHROUGH,
            width=self.video.width,
            height=self.video.height,
            codecs=self.codecs,
            level=int(self.codecs[-2:], 16),
            max_rate=self.scan.peak_rate,
        )
        if self.profile == "passthrough":
            return (top,)
        return (top, *encoded_rungs(width, height, frames_per_s=frames_per_s, below=own))

    def _filters(self) -> tuple[str, ...]:
        video = self.video
        names = []
        if self.is_telecined:
            names.append(UNTELECINE)
        elif video.interlaced:
            names.append("deinterlace")
        if video.backdrop:
            names.append(f"over-{video.backdrop}")
        if video.mirrored:
            names.append("flip")
        if video.rotation:
            names.append(f"turn-{video.rotation}")
        tone = _HDR_TRANSFERS.get(video.transfer)
        if tone:
            names.append(tone)
        return tuple(names)

    def _entries(self, borders: Sequence[int], chunks: Sequence[Chunk]) -> tuple[tuple[int, int], ...]:
        """Return for each chunk the keyframe before the one that would do, where streams are entered by position."""
        if self.scan.entry != "byte":
            return ()
        keys = [key for key in self.scan.keyframes if key.position >= 0]
        times = [key.pts - self.origin for key in keys]
        entries = []
        for chunk in chunks:
            place = max(0, bisect_right(times, borders[chunk.first_segment]) - 2)
            entries.append((times[place], keys[place].position) if keys else (0, 0))
        return tuple(entries)

    def _audio_tracks(self) -> tuple[AudioTrack, ...]:
        scans = {scan.index: scan for scan in self.scan.audio}
        streams = [stream for stream in self.info.audio if stream.index in scans]
        default = next((place for place, stream in enumerate(streams) if stream.is_default), 0)
        labels = _unique_labels(
            [stream.title or _known_language(stream.language) or f"Track {n}" for n, stream in enumerate(streams, 1)]
        )
        return tuple(
            self._audio_track(place, stream, scans[stream.index], labels[place], is_default=place == default)
            for place, stream in enumerate(streams)
        )

    def _audio_track(
        self, place: int, stream: AudioStream, scan: AudioScan, label: str, *, is_default: bool
    ) -> AudioTrack:
        fits = (
            stream.codec == "aac"
            and stream.profile == "LC"
            and stream.channels == 2
            and stream.sample_rate in {44_100, 48_000}
            and scan.is_continuous
            and scan.has_own_header
            and not self.scan.is_cut
            and abs(scan.first_ticks - self.origin) <= TICKS_PER_S * 1024 // stream.sample_rate
            and abs(scan.end_ticks - self.origin - self.end) <= _AUDIO_EDGE_TICKS
        )
        return AudioTrack(
            name=f"a{place}",
            stream_index=stream.index,
            kind=AudioKind.COPY if fits else AudioKind.ENCODE,
            sample_rate=stream.sample_rate if fits else 48_000,
            bit_rate=min(stream.bit_rate or 160_000, 320_000) if fits else 160_000,
            language=stream.language if stream.language != "und" else "",
            label=label,
            is_default=is_default,
        )

    def _text_tracks(self) -> tuple[TextTrack, ...]:
        """Return what can be shown as text: the source's own tracks, then the files beside it."""
        streams = [stream for number, stream in enumerate(self.info.text, start=1) if self._is_text(number, stream)]
        named: list[TextStream | SidecarName] = [*streams, *(one.name for one in self.sidecars)]
        labels = _unique_labels([_text_label(one, number) for number, one in enumerate(named, start=1)])
        inside = [
            TextTrack(
                name=f"t{place}",
                stream_index=stream.index,
                codec=stream.codec,
                language=_known_language(stream.language),
                label=labels[place],
                is_default=stream.is_default,
                is_forced=stream.is_forced,
                is_hearing_impaired=stream.is_hearing_impaired,
            )
            for place, stream in enumerate(streams)
        ]
        beside = [
            TextTrack(
                name=f"t{place}",
                sidecar=one.digest,
                codec=one.codec,
                charset=one.charset,
                language=one.name.language,
                label=labels[place],
                is_default=one.name.is_default,
                is_forced=one.name.is_forced,
                is_hearing_impaired=one.name.is_hearing_impaired,
            )
            for place, one in enumerate(self.sidecars, start=len(streams))
        ]
        return (*inside, *beside)[:MAX_TEXT_TRACKS]

    def _is_text(self, number: int, stream: TextStream) -> bool:
        """Whether a track can be shown as text; what cannot, and would be missed, is said."""
        what = f"Subtitle track {number}" + (f" ({stream.language})" if _known_language(stream.language) else "")
        scan = next((one for one in self.scan.text if one.index == stream.index), None)
        if stream.is_bitmap:
            self.warnings.append(f"{what} consists of pictures ({stream.codec}) and is not carried over.")
        elif stream.codec not in TEXT_CODECS:
            self.warnings.append(f"{what} has a format that cannot be read ({stream.codec}) and is not carried over.")
        elif scan is not None and scan.is_too_large:
            self.warnings.append(f"{what} holds far more text than a film has and is not carried over.")
        elif scan is not None:
            return scan.cues > 0
        return False

    def _warn_of_damage(self) -> None:
        declared = self.scan.declared_ticks
        have = self.end / TICKS_PER_S
        if declared is not None and declared - self.end > max(TICKS_PER_S, declared // 50):
            self.warnings.append(
                f"The source is damaged or cut: {have:.0f} s of {declared / TICKS_PER_S:.0f} s could be kept."
            )
        elif self.scan.is_cut:
            self.warnings.append(f"The source is damaged or cut: {have:.0f} s could be kept.")
        if self.scan.joins:
            self.warnings.append(f"The recording is made of {self.scan.joins + 1} parts; their clocks were aligned.")
        if self.scan.repaired:
            self.warnings.append(f"{self.scan.repaired} pictures had no usable time stamp; their times were repaired.")


def _known_language(code: str) -> str:
    return "" if code == "und" else code


def _text_label(one: TextStream | SidecarName, number: int) -> str:
    label = clean_title(one.title) or _known_language(one.language) or f"Subtitles {number}"
    lower = label.casefold()
    if one.is_forced and "forced" not in lower:
        label += " (forced)"
    if one.is_hearing_impaired and "sdh" not in lower:
        label += " (SDH)"
    return label


def _unique_labels(wanted: Sequence[str]) -> list[str]:
    labels: list[str] = []
    for one in wanted:
        plain = one.replace('"', "”")
        tries = (plain if count == 1 else f"{plain} ({count})" for count in itertools.count(1))
        labels.append(next(label for label in tries if label not in labels))
    return labels


def _sets(renditions: Sequence[Rendition]) -> tuple[RenditionSet, ...]:
    """Return the passthrough rendition as a set of its own (copying costs next to nothing), all encoded ones as one."""
    copied = [one for one in renditions if one.kind is RenditionKind.PASSTHROUGH]
    encoded = [one for one in renditions if one.kind is RenditionKind.ENCODE]
    sets = []
    if copied:
        sets.append(RenditionSet(name="copy", renditions=tuple(one.name for one in copied), weight=1))
    if encoded:
        weight = sum(max(1, one.width * one.height // 1000) for one in encoded)
        sets.append(RenditionSet(name="ladder", renditions=tuple(one.name for one in encoded), weight=weight))
    return tuple(sets)
