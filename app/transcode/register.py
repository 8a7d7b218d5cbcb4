"""Which media children run for a data directory, so that orphans of a killed engine can be ended at the next start."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec
import psutil

_SAME_START_S = 1.0


class ChildEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A child: its pid counts only together with when it started."""

    pid: int
    started_s: float


class ChildRegister:
    """The list of running children, kept in a small file."""

    def __init__(self, path: Path | None) -> None:
        """``path`` None keeps no file (tests, short-lived commands)."""
        self._path = path
        self._entries: dict[int, ChildEntry] = {}

    def add(self, pid: int) -> None:
        """Note a child that was started."""
        with contextlib.suppress(psutil.Error):
            self._entries[pid] = ChildEntry(pid=pid, started_s=psutil.Process(pid).create_time())
            self._save()

    def remove(self, pid: int) -> None:
        """Note that a child ended."""
        if self._entries.pop(pid, None) is not None:
            self._save()

    def sweep(self) -> int:
        """End the children that an earlier engine left; returns how many. A stopped child is ended too."""
        ended = 0
        for entry in self._load():
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(entry.pid)
                if abs(process.create_time() - entry.started_s) < _SAME_START_S:
                    process.kill()
                    ended += 1
        self._save()
        return ended

    def _load(self) -> list[ChildEntry]:
        if self._path is None:
            return []
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=list[ChildEntry])
        except (OSError, msgspec.DecodeError):
            return []

    def _save(self) -> None:
        """Write the list; losing it in a power cut is harmless, since a power cut ends children too."""
        if self._path is None:
            return
        temporary = self._path.with_suffix(".tmp")
        with contextlib.suppress(OSError):
            temporary.write_bytes(msgspec.json.encode(list(self._entries.values())))
            os.replace(temporary, self._path)  # noqa: PTH105 (pairs with the OSError above)
