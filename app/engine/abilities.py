"""What this device can do: its speed as measured, its memory, its room, whether it runs on mains."""

from __future__ import annotations

import os

import psutil

from app.queue.abilities import Abilities
from app.storage.shard_store import DiskSpace

_SPEED_PER_CORE = 2000
"""A guess for the first chunk, from a 2.x GHz server core; what is measured replaces it."""
_NEW_SHARE = 0.3
_ROUND_BYTES = 100_000_000


class AbilityMeter:
    """Measures how fast this device is, from the chunks that it made."""

    def __init__(self) -> None:
        self._speed = float(_SPEED_PER_CORE * (os.cpu_count() or 1))
        self._is_measured = False

    def note_chunk(self, *, work: float, took_s: float, beside: int) -> None:
        """Note a chunk of ``work`` that took so long while ``beside`` chunks ran, itself among them."""
        if work <= 0 or took_s <= 0:
            return
        speed = work / took_s * max(1, beside)
        share = _NEW_SHARE if self._is_measured else 1.0
        self._speed += share * (speed - self._speed)
        self._is_measured = True

    def abilities(self, *, works: bool, free_slots: int, space: DiskSpace, reserved_bytes: int) -> Abilities:
        """Return what is announced; ``reserved_bytes`` is what running tasks will still write."""
        free_bytes = max(0, space.free_bytes - space.floor_bytes - reserved_bytes)
        return Abilities(
            works=works,
            speed=round(self._speed),
            free_slots=max(0, free_slots),
            memory_bytes=psutil.virtual_memory().total,
            free_bytes=free_bytes // _ROUND_BYTES * _ROUND_BYTES,
            on_mains=_on_mains(),
        )


def _on_mains() -> bool:
    read = getattr(psutil, "sensors_battery", None)  # absent on systems without the notion
    battery = read() if read is not None else None
    return battery is None or battery.power_plugged is not False
