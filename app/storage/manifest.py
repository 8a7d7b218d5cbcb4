"""Manifests: the lists of shards that make up a file, as a tree that grows while the file is read once.

::

    capability ─► root manifest ─► manifest ─► shard shard shard …      depth 2
                                └► manifest ─► shard shard
    capability ─► manifest ─► shard shard                              depth 1
    capability ─► shard                                                depth 0

The shape depends on the number of shards alone, so equal contents have equal trees. FORMAT.md, section "Manifests",
specifies the bytes. Pure: nothing here seals or stores.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import msgspec

from app.core.errors import ErrorCode, ExpectedError
from app.storage.capability import MAX_DEPTH, MAX_LENGTH
from app.storage.cipher import SHARD_BYTES

_MAGIC = b"HRM1"
_HEADER = struct.Struct(">4sBxxxI")
_ENTRY = struct.Struct(">32s32sQ")


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """Where contents are cut, and how many entries a manifest has; version 1 of the format uses the defaults."""

    shard_bytes: int = SHARD_BYTES
    fan_out: int = 4096
    """Entries of one manifest; 4096 keep it under 300 KB, so that a range costs one small read."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One child of a manifest."""

    name: str
    secret: bytes
    length: int
    """Bytes of content that this child covers."""

    def __repr__(self) -> str:
        return f"Entry({self.name}, {self.length} bytes)"


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The children of one manifest shard, in the order of the content."""

    depth: int
    """1: the children are content; n: they are manifests of depth n-1."""
    entries: tuple[Entry, ...]

    @property
    def length(self) -> int:
        """Bytes of content that all children cover."""
        return sum(entry.length for entry in self.entries)


def encode_manifest(manifest: Manifest) -> bytes:
    """Return the bytes of ``manifest``."""
    parts = [_HEADER.pack(_MAGIC, manifest.depth, len(manifest.entries))]
    parts.extend(_ENTRY.pack(bytes.fromhex(one.name), one.secret, one.length) for one in manifest.entries)
    return b"".join(parts)


def decode_manifest(data: bytes, *, depth: int, length: int) -> Manifest:
    """Return the manifest in ``data``, which must be of ``depth`` and cover ``length`` bytes.

    Raises ``ExpectedError`` bad-message when it is anything else.
    """
    if len(data) < _HEADER.size:
        raise _bad("it is too short")
    magic, found_depth, count = _HEADER.unpack_from(data)
    if data[: _HEADER.size] != _HEADER.pack(_MAGIC, found_depth, count):
        raise _bad("it does not start as one" if magic != _MAGIC else "its reserved bytes are set")
    if found_depth != depth or not 1 <= depth <= MAX_DEPTH:
        raise _bad(f"its depth is {found_depth}, not {depth}")
    if count == 0 or len(data) != _HEADER.size + count * _ENTRY.size:
        raise _bad("its number of entries does not fit its size")
    manifest = Manifest(
        depth=depth,
        entries=tuple(
            Entry(name=name.hex(), secret=secret, length=size)
            for name, secret, size in _ENTRY.iter_unpack(memoryview(data)[_HEADER.size :])
        ),
    )
    _check_lengths(manifest, length)
    return manifest


def _check_lengths(manifest: Manifest, length: int) -> None:
    most = SHARD_BYTES if manifest.depth == 1 else MAX_LENGTH
    if any(not 0 < entry.length <= most for entry in manifest.entries):
        raise _bad("an entry has an impossible length")
    if manifest.length != length:
        raise _bad(f"it covers {manifest.length} bytes, not {length}")


def _bad(problem: str) -> ExpectedError:
    return ExpectedError(
        ErrorCode.BAD_MESSAGE, f"A manifest of the vault cannot be read ({problem}); retry the job that made it."
    )


class ManifestTree:
    """Grows the tree from the entries of the content; memory is one manifest per level.

    ``store`` is told each finished manifest and returns its entry in the level above.
    """

    def __init__(self, store: Callable[[Manifest], Entry], *, fan_out: int) -> None:
        self._store = store
        self._fan_out = fan_out
        self._levels: list[list[Entry]] = [[]]

    def add(self, entry: Entry) -> None:
        """Append the next shard of the content."""
        self._add(0, entry)

    def finish(self) -> tuple[int, Entry]:
        """Return (depth, entry) of the root; at least one entry must have been added."""
        level = 0
        while not (level == len(self._levels) - 1 and len(self._levels[level]) == 1):
            if self._levels[level]:
                self._close(level)
            level += 1
        return level, self._levels[level][0]

    def _add(self, level: int, entry: Entry) -> None:
        if level == len(self._levels):
            self._levels.append([])
        self._levels[level].append(entry)
        if len(self._levels[level]) == self._fan_out:
            self._close(level)

    def _close(self, level: int) -> None:
        entries, self._levels[level] = self._levels[level], []
        self._add(level + 1, self._store(Manifest(depth=level + 1, entries=tuple(entries))))


def overlapping(entries: Sequence[Entry], *, start: int, end: int) -> list[tuple[Entry, int]]:
    """Return the entries that touch the range [start, end) of the content, each with where it starts."""
    found: list[tuple[Entry, int]] = []
    position = 0
    for entry in entries:
        if position >= end:
            break
        if position + entry.length > start and start < end:
            found.append((entry, position))
        position += entry.length
    return found
