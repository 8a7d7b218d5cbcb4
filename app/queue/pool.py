"""Who takes what among several devices: why this one cannot, or had better not, do a task now. Pure.

::

    cannot     the file is elsewhere · no room · too large
    not yet    a much stronger device is free and would be done sooner: it gets ``DEFER_S`` to take it
    not here   the rest of the job is done by the others before this device would be done: left to them, for a while

Whatever is only "not yet" or "not here" is taken after a bounded time, since the others may never come to it. What
somebody waits to watch is taken at once by whoever can.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from app.core.errors import ErrorCode
from app.queue.abilities import Abilities

STRONGER = 1.5
"""From how many times our own speed on a device counts as stronger."""
DEFER_S = 12.0
TAIL_S = 60.0
_MEMORY_SHARE = 0.5
"""What a media child may take of a machine's memory."""


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """Another device that can be heard now."""

    device: str
    name: str
    abilities: Abilities
    bytes_per_s: float = 0.0
    """Measured rate of the link to it; 0 while it is not known."""


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """What doing a task takes."""

    work: float = 0.0
    """In units of ``Abilities.speed``: seconds on a device of speed 1."""
    job_work: float = 0.0
    """What is left of its whole job, this task and what runs now included."""
    source_bytes: int = 0
    """How much of the source it reads."""
    disk_bytes: int = 0
    memory_bytes: int = 0
    has_source: bool = True
    """Whether the source, if it needs one, is on this device."""
    source_at: str = ""
    """Which device added the source."""
    only_at_source: bool = False
    """Whether it cannot be done from afar."""
    open_s: float = 0.0
    """How long this device has seen the task lie open."""
    is_wanted: bool = False
    """Whether somebody waits to watch it."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why a task is not taken here."""

    reason: str
    for_s: float | None = None
    """After how many seconds waiting alone changes that; None when something else must."""
    code: ErrorCode | None = None
    """What is wrong with this device, when that is why."""


def why_not(needs: Needs, me: Abilities, peers: Sequence[Peer]) -> Refusal | None:
    """Return why this device should not take a task now; None when it should."""
    refusal = _why_unable(needs, me, peers)
    if refusal is None and not needs.is_wanted:
        refusal = _why_not_yet(needs, me, peers) or _why_left_to_others(needs, me, peers)
    return refusal


def _why_unable(needs: Needs, me: Abilities, peers: Sequence[Peer]) -> Refusal | None:
    if not needs.has_source:
        holder = _holder(needs, peers)
        if holder is None:
            return Refusal(reason="It waits for the device that holds the file, which is not to be reached now.")
        if needs.only_at_source:
            idle = "" if holder.abilities.works else " and does not work now (worker.enabled is off there)"
            return Refusal(reason=f"It waits for “{holder.name}”, which holds the file{idle}.")
    if needs.disk_bytes > me.free_bytes:
        reason = (
            f"The disk is too full for it: it needs about {_size(needs.disk_bytes)}; free some room on this device."
        )
        return Refusal(reason=reason, code=ErrorCode.DISK_FULL)
    if needs.memory_bytes > me.memory_bytes * _MEMORY_SHARE:
        return Refusal(reason=f"It is too large for this device: it needs about {_size(needs.memory_bytes)} of memory.")
    return None


def _holder(needs: Needs, peers: Sequence[Peer]) -> Peer | None:
    return next((peer for peer in peers if peer.device == needs.source_at), None)


def _why_not_yet(needs: Needs, me: Abilities, peers: Sequence[Peer]) -> Refusal | None:
    left_s = DEFER_S - needs.open_s
    if left_s <= 0 or not needs.work:
        return None
    own_s = _own_time_s(needs, me, peers)
    for peer in peers:
        is_free = peer.abilities.works and peer.abilities.free_slots > 0
        if is_free and _is_stronger(peer.abilities, me) and _time_s(needs, peer) < own_s:
            return Refusal(
                reason=f"It is left to “{peer.name}”, which is faster, for another {max(1, round(left_s))} s.",
                for_s=left_s,
            )
    return None


def _is_stronger(other: Abilities, me: Abilities) -> bool:
    if other.on_mains != me.on_mains:
        return other.on_mains
    return other.speed >= me.speed * STRONGER


def _why_left_to_others(needs: Needs, me: Abilities, peers: Sequence[Peer]) -> Refusal | None:
    left_s = TAIL_S - needs.open_s
    working = [peer for peer in peers if peer.abilities.works]
    together = sum(peer.abilities.speed for peer in working)
    if left_s <= 0 or not needs.work or not together:
        return None
    transfer_s = min(_transfer_s(needs, peer) for peer in working)
    if needs.job_work / together + transfer_s < _own_time_s(needs, me, peers):
        name = max(working, key=lambda peer: peer.abilities.speed).name
        return Refusal(reason=f"What is left of it is done sooner without this device, by “{name}”.", for_s=left_s)
    return None


def _own_time_s(needs: Needs, me: Abilities, peers: Sequence[Peer]) -> float:
    holder = None if needs.has_source else _holder(needs, peers)
    rate = holder.bytes_per_s if holder else 0.0
    return needs.work / max(1, me.speed) + (needs.source_bytes / rate if rate else 0.0)


def _time_s(needs: Needs, peer: Peer) -> float:
    return _transfer_s(needs, peer) + needs.work / max(1, peer.abilities.speed)


def _transfer_s(needs: Needs, peer: Peer) -> float:
    """Return how long bringing the source to a peer takes; a link that was not measured costs nothing."""
    is_there = peer.device == needs.source_at
    return 0.0 if is_there or not peer.bytes_per_s else needs.source_bytes / peer.bytes_per_s


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 1e9:.1f} GB" if size_bytes >= 1e9 else f"{max(1, round(size_bytes / 1e6))} MB"
