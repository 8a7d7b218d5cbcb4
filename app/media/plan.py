"""The plan of a film: renditions, borders, chunks and tracks; made once by the ``index`` task.

::

    borders   0 ── 2 s ──────── 8 s ──────── 14 s ──────── 20 s … end     (ticks; segment i starts at borders[i])
    chunks    [ 0 ][        1        ][        2        ]                 (ranges of segments, one task each per set)

The first chunk is one short segment, so that something plays at once. The plan's hash is part of the target of every
task after ``index`` and of every playback address, so results of two plans never mix. It covers what makes bytes
differ (planner version, fingerprint, streams, time origin, borders, cuts, ladder, filters), never the device, the
path or the encoder's make.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import TypeVar

import msgspec

from app.core.encoding import canonical_hash
from app.media.chapters import Chapter
from app.media.source import TICKS_PER_S

PLANNER_VERSION = 1
_LATER_FIELDS = frozenset({"text", "chapters"})

T = TypeVar("T")


def _only(matches: Iterator[T], key: object) -> T:
    for match in matches:
        return match
    raise KeyError(key)


class RenditionKind(StrEnum):
    """How the picture of a rendition is made."""

    PASSTHROUGH = "passthrough"
    ENCODE = "encode"


class Rendition(msgspec.Struct, frozen=True, kw_only=True):
    """One quality of the picture."""

    name: str
    """Short and unique in the plan, fit for a URL: ``1080``, ``720``, ``source``."""
    kind: RenditionKind
    width: int
    height: int
    codecs: str
    """RFC 6381 string of the picture alone, for example ``avc1.640028``."""
    level: int = 40
    """H.264 level times ten."""
    crf: int = 23
    max_rate: int
    """Bits per second; for passthrough the source's own peak over one segment."""
    preset: str = "veryfast"
    gop_s: int = 3
    """Longest distance of keyframes in seconds, inside a segment."""


class RenditionSet(msgspec.Struct, frozen=True, kw_only=True):
    """Renditions that one task makes together from one decode."""

    name: str
    renditions: tuple[str, ...]
    weight: int
    """Share of work per film second, in thousands of pixels per frame; 0 counts as 1."""


class AudioKind(StrEnum):
    """How a sound track is made."""

    COPY = "copy"
    ENCODE = "encode"


class AudioTrack(msgspec.Struct, frozen=True, kw_only=True):
    """One sound track of the film."""

    name: str
    """Short and unique in the plan, fit for a URL: ``a0``, ``a1``."""
    stream_index: int
    kind: AudioKind
    codecs: str = "mp4a.40.2"
    sample_rate: int
    channels: int = 2
    bit_rate: int = 160_000
    language: str = ""
    """BCP 47 or ISO 639 code; empty when unknown."""
    label: str
    """What a person reads; unique in the film."""
    is_default: bool = False


class TextTrack(msgspec.Struct, frozen=True, kw_only=True):
    """One track of text to be shown over the picture."""

    name: str
    """Short and unique in the plan, fit for a URL: ``t0``, ``t1``."""
    stream_index: int = -1
    """Where it is in the source; -1 for a file beside it."""
    sidecar: str = ""
    """Hex SHA-256 of a file beside the source."""
    codec: str
    charset: str = ""
    """How the letters of a file beside the source are written."""
    language: str = ""
    """BCP 47 or ISO 639 code; empty when unknown."""
    label: str
    """What a person reads; unique among the film's texts."""
    is_default: bool = False
    is_forced: bool = False
    """Whether it only translates what is foreign in the film itself, and so is shown unasked."""
    is_hearing_impaired: bool = False


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """A range of segments that one task per set makes."""

    number: int
    first_segment: int
    end_segment: int
    """One past the last."""
    copied: bool = True
    """Whether a passthrough rendition can be copied here; else this stretch of it is encoded."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that later tasks and players need to agree on."""

    planner: int = PLANNER_VERSION
    fingerprint: str
    profile: str
    video_stream: int
    origin_ticks: int
    """Source time stamp (ticks) that becomes 0."""
    borders: tuple[int, ...]
    chunks: tuple[Chunk, ...]
    renditions: tuple[Rendition, ...]
    """Best first."""
    sets: tuple[RenditionSet, ...]
    audio: tuple[AudioTrack, ...] = ()
    frame_rate: tuple[int, int]
    """Nominal output rate; sources with variable rate keep their own time stamps."""
    frame_ticks: int
    """Duration of one nominal frame."""
    filters: tuple[str, ...] = ()
    """Picture filters before scaling, in order: ``deinterlace``, ``turn-90``, ``flip``, ``tonemap-pq``."""
    entry: str = "time"
    """How a chunk is entered: ``time`` (seek), ``byte`` (transport streams), ``order`` (from the start, in order)."""
    counted_rate: tuple[int, int] = (0, 1)
    """For ``order``: pictures a second of a source whose packets have no times; (0, 1) where decode times are used."""
    entries: tuple[tuple[int, int], ...] = ()
    """For ``byte``: (keyframe's ticks, byte position) pairs, rising."""
    warnings: tuple[str, ...] = ()
    text: tuple[TextTrack, ...] = ()
    chapters: tuple[Chapter, ...] = ()

    @property
    def duration_ticks(self) -> int:
        """Length of the film."""
        return self.borders[-1]

    @property
    def segment_count(self) -> int:
        """How many segments every rendition has."""
        return len(self.borders) - 1

    def rendition(self, name: str) -> Rendition:
        """Return the rendition ``name``; KeyError when there is none."""
        return _only((one for one in self.renditions if one.name == name), name)

    def set_of(self, rendition: str) -> RenditionSet:
        """Return the set that makes ``rendition``; KeyError when there is none."""
        return _only((one for one in self.sets if rendition in one.renditions), rendition)

    def set_named(self, name: str) -> RenditionSet:
        """Return the set ``name``; KeyError when there is none."""
        return _only((one for one in self.sets if one.name == name), name)

    def track(self, name: str) -> AudioTrack:
        """Return the sound track ``name``; KeyError when there is none."""
        return _only((one for one in self.audio if one.name == name), name)

    def chunk_of(self, segment: int) -> Chunk:
        """Return the chunk that holds ``segment``; KeyError when it is outside the film."""
        return _only((one for one in self.chunks if one.first_segment <= segment < one.end_segment), segment)

    def segment_at(self, ticks: int) -> int:
        """Return the segment that shows the moment ``ticks``, clamped to the film."""
        for number in range(self.segment_count):
            if ticks < self.borders[number + 1]:
                return number
        return self.segment_count - 1

    def chunk_ticks(self, chunk: Chunk) -> tuple[int, int]:
        """Return the time range of ``chunk``."""
        return self.borders[chunk.first_segment], self.borders[chunk.end_segment]


def plan_hash(plan: Plan) -> str:
    """Return the 16 hex digits that name ``plan`` in task targets and playback addresses.

    A field that came later does not count while it is empty, so that plans from before it keep their names.
    """
    values = {name: getattr(plan, name) for name in plan.__struct_fields__}
    return canonical_hash({name: value for name, value in values.items() if value or name not in _LATER_FIELDS})


def ticks_to_s(ticks: int) -> float:
    """Return seconds, for people and playlists."""
    return ticks / TICKS_PER_S
