"""What a device can do, as it announces it to the others; the choice of tasks weighs it."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

_Amount = Annotated[int, Meta(ge=0, le=2**53 - 1)]


class Abilities(msgspec.Struct, frozen=True, kw_only=True):
    """One device's, at one moment."""

    works: bool
    """Whether it takes tasks at all."""
    speed: _Amount
    """Film seconds a second of a rendition of a thousand pixels, measured, or guessed from its cores."""
    free_slots: Annotated[int, Meta(ge=0, le=1000)] = 0
    """Heavy tasks that it could begin at once."""
    memory_bytes: _Amount = 0
    free_bytes: _Amount = 0
    """Room on its disk above the floor."""
    codecs: tuple[Annotated[str, Meta(max_length=40)], ...] = ()
    """Video codecs that it decodes, by FFmpeg's names."""
    on_mains: bool = True
    """Whether it is not running down a battery."""
