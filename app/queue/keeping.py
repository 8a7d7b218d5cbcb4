"""Which devices keep a film: a choice that all of them make alike, without a word. Pure.

Rendezvous hashing: each device's rank for a film is a hash of both ids, and the highest ranks keep it. A device that
joins or leaves changes who keeps only those films that it itself gains or loses.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def keepers_of(media_id: str, devices: Iterable[str], *, copies: int) -> frozenset[str]:
    """Return the ids of the ``copies`` devices that keep the film; all, where there are no more."""
    ranked = sorted(devices, key=lambda device: (_rank(media_id, device), device), reverse=True)
    return frozenset(ranked[: max(1, copies)])


def _rank(media_id: str, device: str) -> bytes:
    return hashlib.blake2b(f"{media_id}/{device}".encode(), digest_size=16).digest()
