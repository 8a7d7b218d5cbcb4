"""The finished film: the one value that readers need once it exists, and the bundles it points to.

A *bundle* is a small file in the vault that lists what one task made: for each (rendition or track, segment number)
the capability of the segment's own file. The film holds one bundle capability per chunk and set, and per track.
Capabilities are opaque strings here; ``app.storage`` makes and reads them.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from app.media.plan import Plan

FILM_SCHEMA = 1


class PublishStage(StrEnum):
    """How much of the film is there; *full* counts more than *quick*."""

    QUICK = "quick"
    FULL = "full"


class BundleEntry(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One piece that a task made."""

    name: str
    """Rendition or track name; ``poster`` and ``sheet`` for stills."""
    number: int
    """Segment number; -1 for the init section."""
    capability: str
    size_bytes: int
    duration_ticks: int = 0


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """What one task made, as a file in the vault."""

    schema: int = 1
    entries: tuple[BundleEntry, ...]


class RenditionFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker measured and verified about one rendition in one chunk, or one track."""

    name: str
    frames: int
    """Pictures, or audio packets."""
    first_ticks: int
    end_ticks: int
    size_bytes: int
    peak_rate: int
    """Highest bits per second over one segment."""
    checked_frames: int
    """Pictures that were decoded again to prove the result."""
    repeated_frames: int = 0
    dropped_frames: int = 0
    decode_errors: int = 0


class TaskResult(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one ``video``, ``audio`` or ``text`` task."""

    bundle: str
    facts: tuple[RenditionFacts, ...] = ()
    warnings: tuple[str, ...] = ()


class ChunkRef(msgspec.Struct, frozen=True, kw_only=True):
    """Where the segments of one chunk and set are."""

    set: str
    chunk: int
    bundle: str


class TrackRef(msgspec.Struct, frozen=True, kw_only=True):
    """Where the segments of one sound or text track are."""

    track: str
    bundle: str


class RenditionRate(msgspec.Struct, frozen=True, kw_only=True):
    """Measured bit rates of a finished rendition or track, for BANDWIDTH and AVERAGE-BANDWIDTH."""

    name: str
    peak: int
    average: int


class StillsInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Layout of the poster and trickplay sheets (JPEG pictures of a grid of thumbnails)."""

    interval_ticks: int
    columns: int
    rows: int
    tile_width: int
    tile_height: int
    count: int
    """How many thumbnails there are in all sheets."""


class StillsResult(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a ``stills`` task."""

    bundle: str
    info: StillsInfo


class Film(msgspec.Struct, frozen=True, kw_only=True):
    """The media row: the outcome of ``publish``."""

    schema: int = FILM_SCHEMA
    media_id: str
    stage: PublishStage
    plan: Plan
    video: tuple[ChunkRef, ...]
    audio: tuple[TrackRef, ...]
    stills: StillsResult | None = None
    rates: tuple[RenditionRate, ...]
    size_bytes: int
    warnings: tuple[str, ...] = ()
    text: tuple[TrackRef, ...] = ()
    """The text tracks of the plan that could be made; their only segment has number 0."""
