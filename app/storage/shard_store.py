"""The seam to where shards lie, its memory implementation, and the wrappers that verify and that keep a disk floor.

``app.storage.disk_store.DiskShardStore`` is the real one. One contract suite runs on both. A store knows names and
sealed bytes, nothing else: no keys, no films.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec

from app.core.errors import BugError, ErrorCode, ExpectedError
from app.storage.cipher import name_of

FLOOR_SHARE = 0.05
FLOOR_BYTES = 10 * 1000**3

_BAD = "its bytes do not fit its name"
_NAME = re.compile(r"[0-9a-f]{64}")


class ShardStat(msgspec.Struct, frozen=True, kw_only=True):
    """What a store knows about a shard without reading it."""

    size: int
    """Sealed bytes."""
    written_ms: int
    """When it was put, in milliseconds since 1970."""


class ShardStore(Protocol):
    """Sealed bytes by name. All methods may be called from several threads at once."""

    def put(self, name: str, data: bytes) -> bool:
        """Make exactly ``data`` be there, durably; return False when it already was.

        What is there under the name but differs (damage) is replaced. Raises ``ExpectedError`` disk-full, read-only.
        """
        ...

    def get(self, name: str) -> bytes:
        """Return the bytes of a shard; raises ``ExpectedError`` missing-shard, damaged-shard, unreadable."""
        ...

    def stat(self, name: str) -> ShardStat | None:
        """Return what is known about a shard, None when it is not here."""
        ...

    def delete(self, name: str) -> int:
        """Delete a shard; return how many bytes that gave back, 0 when it was not here."""
        ...

    def names(self) -> Iterator[str]:
        """Yield the names of all shards, rising; shards that come or go meanwhile may or may not be among them."""
        ...

    def quarantine(self, name: str) -> None:
        """Set a bad shard aside: it is not here any more, but not deleted either."""
        ...

    def quarantined(self) -> list[str]:
        """Return the names of what was set aside."""
        ...

    def drop_quarantined(self, *, before_ms: int) -> int:
        """Delete what was set aside before ``before_ms``; return how many bytes that gave back."""
        ...

    def strays(self) -> list[str]:
        """Return what lies in the store's place but is no shard, by relative name."""
        ...

    def set_stray_aside(self, stray: str) -> None:
        """Put one of ``strays()`` into quarantine: it may be a file that a person put there by mistake."""
        ...


def check_name(name: str) -> str:
    """Return ``name``; raises ``BugError`` when it is not 64 lower-case hex digits."""
    if not _NAME.fullmatch(name):
        raise BugError(f"not a shard name: {name!r}")
    return name


class MissingShardError(ExpectedError):
    """A shard is not here; another device may have it."""

    def __init__(self, name: str) -> None:
        super().__init__(
            ErrorCode.MISSING_SHARD,
            f"A piece of a film is not on this device (shard {name[:12]}…); "
            "run `hearthreel verify` to see what it affects.",
        )
        self.name = name


def missing_shard(name: str) -> MissingShardError:
    """Return the error for a shard that is not here."""
    return MissingShardError(name)


def damaged_shard(name: str, problem: str) -> ExpectedError:
    """Return the error for a shard that is not what its name says."""
    return ExpectedError(
        ErrorCode.DAMAGED_SHARD,
        f"A piece of a film is damaged on disk (shard {name[:12]}…: {problem}); "
        "run `hearthreel verify --repair` to see what it affects, and check the disk.",
    )


class MemoryShardStore:
    """Shards in a dictionary; for tests and for what must never touch a disk."""

    def __init__(self, *, wall_ms: Callable[[], int]) -> None:
        self._lock = threading.Lock()
        self._wall_ms = wall_ms
        self._shards: dict[str, tuple[bytes, int]] = {}
        self._quarantine: dict[str, tuple[bytes, int]] = {}

    def put(self, name: str, data: bytes) -> bool:
        with self._lock:
            held = self._shards.get(check_name(name))
            if held is not None and held[0] == data:
                return False
            self._shards[name] = (data, self._wall_ms())
            return True

    def get(self, name: str) -> bytes:
        with self._lock:
            held = self._shards.get(check_name(name))
        if held is None:
            raise missing_shard(name)
        return held[0]

    def stat(self, name: str) -> ShardStat | None:
        with self._lock:
            held = self._shards.get(check_name(name))
        return None if held is None else ShardStat(size=len(held[0]), written_ms=held[1])

    def delete(self, name: str) -> int:
        with self._lock:
            held = self._shards.pop(check_name(name), None)
        return 0 if held is None else len(held[0])

    def names(self) -> Iterator[str]:
        with self._lock:
            names = sorted(self._shards)
        yield from names

    def quarantine(self, name: str) -> None:
        with self._lock:
            held = self._shards.pop(check_name(name), None)
            if held is not None:
                self._quarantine[name] = (held[0], self._wall_ms())

    def quarantined(self) -> list[str]:
        with self._lock:
            return sorted(self._quarantine)

    def drop_quarantined(self, *, before_ms: int) -> int:
        with self._lock:
            old = [name for name, held in self._quarantine.items() if held[1] < before_ms]
            return sum(len(self._quarantine.pop(name)[0]) for name in old)

    def strays(self) -> list[str]:
        return []

    def set_stray_aside(self, stray: str) -> None:
        raise BugError(f"a memory store has no stray {stray!r}")


class _Wrapper:
    """Hands everything on to the store it holds."""

    def __init__(self, inner: ShardStore) -> None:
        self._inner = inner

    def put(self, name: str, data: bytes) -> bool:
        return self._inner.put(name, data)

    def get(self, name: str) -> bytes:
        return self._inner.get(name)

    def stat(self, name: str) -> ShardStat | None:
        return self._inner.stat(name)

    def delete(self, name: str) -> int:
        return self._inner.delete(name)

    def names(self) -> Iterator[str]:
        return self._inner.names()

    def quarantine(self, name: str) -> None:
        self._inner.quarantine(name)

    def quarantined(self) -> list[str]:
        return self._inner.quarantined()

    def drop_quarantined(self, *, before_ms: int) -> int:
        return self._inner.drop_quarantined(before_ms=before_ms)

    def strays(self) -> list[str]:
        return self._inner.strays()

    def set_stray_aside(self, stray: str) -> None:
        self._inner.set_stray_aside(stray)


class VerifyingStore(_Wrapper):
    """Lets nothing out that is not what its name says (S2): a bad shard is quarantined and the reader told.

    Putting and setting aside the same name take turns, so that a shard which was just written anew is never set aside
    for the damage of its predecessor.
    """

    def __init__(self, inner: ShardStore) -> None:
        super().__init__(inner)
        self._turns = tuple(threading.Lock() for _ in range(256))

    def put(self, name: str, data: bytes) -> bool:
        with self._turn(name):
            return self._inner.put(name, data)

    def get(self, name: str) -> bytes:
        data = self._inner.get(name)
        return data if name_of(data) == name else self._get_again(name)

    def peek(self, name: str) -> bytes:
        """Return the verified bytes like ``get``, but leave a bad shard where it is."""
        data = self._inner.get(name)
        if name_of(data) != name:
            raise damaged_shard(name, _BAD)
        return data

    def set_aside_if_bad(self, name: str) -> bool:
        """Look again and quarantine ``name`` if it still is damaged; return whether it was."""
        try:
            self._get_again(name)
        except ExpectedError as error:
            if error.code == ErrorCode.DAMAGED_SHARD:
                return True
            if error.code != ErrorCode.MISSING_SHARD:
                raise
        return False

    def _get_again(self, name: str) -> bytes:
        with self._turn(name):
            try:
                data = self._inner.get(name)
            except ExpectedError as error:
                if error.code == ErrorCode.DAMAGED_SHARD:
                    self._set_aside(name)
                raise
            if name_of(data) == name:
                return data
            self._set_aside(name)
        raise damaged_shard(name, _BAD)

    def _set_aside(self, name: str) -> None:
        with contextlib.suppress(ExpectedError):  # a read-only disk: the reader is told of the damage all the same
            self._inner.quarantine(name)

    def _turn(self, name: str) -> threading.Lock:
        return self._turns[int(check_name(name)[:2], 16)]


class DiskSpace(msgspec.Struct, frozen=True, kw_only=True):
    """Room on the disk that holds the vault."""

    total_bytes: int
    free_bytes: int

    @property
    def floor_bytes(self) -> int:
        """What must stay free: 5 % or 10 GB, the smaller."""
        return min(round(self.total_bytes * FLOOR_SHARE), FLOOR_BYTES)


class FloorStore(_Wrapper):
    """Refuses to fill the disk below its floor (S6); what is already here is not refused."""

    def __init__(self, inner: ShardStore, *, space: Callable[[], DiskSpace]) -> None:
        super().__init__(inner)
        self._space = space

    def put(self, name: str, data: bytes) -> bool:
        space = self._space()
        if space.free_bytes - len(data) < space.floor_bytes and self._inner.stat(name) is None:
            raise ExpectedError(
                ErrorCode.DISK_FULL,
                f"The disk that holds the vault has {_gigabytes(space.free_bytes)} left, and "
                f"{_gigabytes(space.floor_bytes)} are kept free. Free some space; work goes on by itself, "
                "nothing is lost.",
            )
        return self._inner.put(name, data)


def _gigabytes(size: int) -> str:
    return f"{size / 1000**3:.1f} GB"
