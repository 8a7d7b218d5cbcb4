"""The seam between the gateway and whatever has the segments of a film: the engine, or memory in tests."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Protocol

import msgspec

from app.media.film import RenditionRate, StillsInfo
from app.media.plan import Plan, TextTrack, plan_hash

INIT_NUMBER = -1
"""Stands for the init section where a segment number is asked for, as in bundles."""


class StillKind(StrEnum):
    """What kind of still picture is asked for."""

    POSTER = "poster"
    SHEET = "sheet"


class FilmLayout(msgspec.Struct, frozen=True, kw_only=True):
    """What playlists are written from; the same for a finished film and for one in the making."""

    plan: Plan
    plan_hash: str
    rates: tuple[RenditionRate, ...]
    """One for each rendition and each track: measured, or planned while it is not finished."""
    is_complete: bool
    """Whether every rendition and track is finished."""
    lacking: frozenset[str] = frozenset()
    """Text tracks of the plan that could not be made, and are not offered."""
    stills: StillsInfo | None = None

    @property
    def has_stills(self) -> bool:
        """Whether poster and trickplay sheets exist."""
        return self.stills is not None

    def rate(self, name: str) -> RenditionRate:
        """Return the bit rates of a rendition or track; KeyError when there is none."""
        for one in self.rates:
            if one.name == name:
                return one
        raise KeyError(name)

    def has(self, name: str) -> bool:
        """Whether ``name`` is a rendition or a track of this film."""
        names = (*(one.name for one in self.plan.renditions), *(one.name for one in self.plan.audio))
        return name in names or self.is_text(name)

    def is_text(self, name: str) -> bool:
        """Whether ``name`` is a text track."""
        return any(one.name == name for one in self.plan.text)

    def has_piece(self, name: str, number: int) -> bool:
        """Whether the film has that segment, or for ``INIT_NUMBER`` init section; a text track is one segment."""
        if self.is_text(name):
            return number == 0
        return self.has(name) and INIT_NUMBER <= number < self.plan.segment_count

    @property
    def text(self) -> tuple[TextTrack, ...]:
        """The text tracks that are offered."""
        return tuple(one for one in self.plan.text if one.name not in self.lacking)


def planned_rates(plan: Plan) -> tuple[RenditionRate, ...]:
    """Return the upper bounds that the plan promises, for a film that was not measured yet."""
    pictures = (RenditionRate(name=one.name, peak=one.max_rate, average=one.max_rate) for one in plan.renditions)
    sounds = (RenditionRate(name=one.name, peak=one.bit_rate, average=one.bit_rate) for one in plan.audio)
    return (*pictures, *sounds)


def film_layout(
    plan: Plan,
    *,
    measured: Iterable[RenditionRate] = (),
    is_complete: bool = False,
    stills: StillsInfo | None = None,
    lacking: frozenset[str] = frozenset(),
) -> FilmLayout:
    """Return the layout of ``plan``; rates that were not measured are the planned ones."""
    known = {one.name: one for one in measured}
    rates = tuple(known.get(one.name, one) for one in planned_rates(plan))
    return FilmLayout(
        plan=plan,
        plan_hash=plan_hash(plan),
        rates=rates,
        is_complete=is_complete,
        stills=stills,
        lacking=lacking,
    )


class FilmSource(Protocol):
    """What the gateway needs to know of films. ``name`` is a rendition or a track of the film's plan.

    ``layout``, ``is_made`` and ``is_paused`` are asked for every request and must be cheap. All methods must bear
    being cancelled at any await: a player that goes away cancels what it waited for.

    Every method raises ``ExpectedError`` no-such-id when there is no such film, name or number.
    """

    async def layout(self, media_id: str) -> FilmLayout:
        """Return the film's layout under its accepted plan; raises not-done while there is no plan."""
        ...

    async def init_section(self, media_id: str, name: str) -> bytes:
        """Return the init section, waiting until it exists.

        Raises like ``segment``.
        """
        ...

    async def segment(self, media_id: str, name: str, number: int) -> bytes:
        """Return a segment, waiting until it exists; a missing one moves its chunk to the front of the queue.

        Raises ``ExpectedError`` not-done when it will not come for now (paused), result-lost, missing-shard or
        damaged-shard when it existed and cannot be had, and the job's own error when that has failed.
        """
        ...

    async def is_made(self, media_id: str, name: str, number: int) -> bool:
        """Whether ``segment`` would answer without waiting for work; ``INIT_NUMBER`` asks for the init section."""
        ...

    async def is_paused(self, media_id: str) -> bool:
        """Whether nothing is being made for this film because its owner said so."""
        ...

    async def still(self, media_id: str, kind: StillKind, number: int) -> bytes:
        """Return a JPEG picture; raises not-done while there is none. The poster has number 0."""
        ...
