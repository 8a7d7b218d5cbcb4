"""How soon a peer that says nothing counts as lost."""

from __future__ import annotations

import msgspec


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """A ping each ``tick_s``; lost after ``silent_ticks`` ticks without a byte, which is within 30 s."""

    tick_s: float = 5.0
    silent_ticks: int = 5
