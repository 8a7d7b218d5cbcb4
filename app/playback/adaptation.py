"""Which rendition the gateway serves next where it adapts itself: pure decisions over measured rates.

The rate that counts is the one at which pieces arrive *at the gateway*, from the vault or from a peer; the way from
the gateway to the player is loopback. Only pieces that were made already are measured: waiting for an encoder says
nothing about a link.

Order of the rules:

1. what the rate does not allow is out, unless nothing is left: then the lowest stays;
2. of what is left and made already, the best; before anything was measured, the lowest;
3. if nothing is made, the one that is the least work, and of those the lowest.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

HEADROOM = 0.8
"""Share of the measured rate that a rendition's peak may use."""
_FAST = 0.6
_SLOW = 0.2
_SHORTEST_S = 1e-4
"""Below this a duration says nothing; it would make a rate out of the clock's grain."""


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """One rendition that could be served for a segment."""

    name: str
    peak: int
    """Bits per second."""
    is_made: bool
    work: int = 1
    """How much must be done to make it, as weighed by the plan; renditions of one set cost the same."""


class MeasuredRate(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of a link so far: a fast and a slow mean; as the lower counts, it falls fast and rises slowly."""

    fast: float
    slow: float

    @property
    def bits_per_s(self) -> float:
        """What can be relied on."""
        return min(self.fast, self.slow)


def next_rate(before: MeasuredRate | None, *, size_bytes: int, duration_s: float) -> MeasuredRate:
    """Return the rate after ``size_bytes`` came within ``duration_s``."""
    seen = size_bytes * 8 / max(duration_s, _SHORTEST_S)
    if before is None:
        return MeasuredRate(fast=seen, slow=seen)
    return MeasuredRate(
        fast=before.fast + _FAST * (seen - before.fast), slow=before.slow + _SLOW * (seen - before.slow)
    )


def choose_rendition(offers: Sequence[Offer], rate: MeasuredRate | None) -> Offer:
    """Return the offer to serve next; ``rate`` is None before anything was measured.

    Raises ValueError when there are no offers.
    """
    lowest = min(offers, key=lambda one: one.peak)
    affordable = [one for one in offers if rate is None or one.peak <= HEADROOM * rate.bits_per_s] or [lowest]
    made = [one for one in affordable if one.is_made]
    if not made:
        return min(affordable, key=lambda one: (one.work, one.peak))
    return (min if rate is None else max)(made, key=lambda one: one.peak)
