"""Sources by reference: the manifest of the user's file without a second copy, and its shards sealed when asked for."""

from __future__ import annotations

import os

from app.core.errors import BugError
from app.storage.capability import parse_capability
from app.storage.cipher import name_of, seal_with_secret
from app.storage.reach import Leaf
from app.storage.shard_store import missing_shard
from app.storage.source import SourceStat, open_source, read_at, source_changed
from app.storage.vault import Vault


def write_source_manifest(vault: Vault, path: bytes, *, seen: SourceStat) -> str:
    """Read ``path`` once, in flat memory, store its manifests and return the capability.

    Raises ``ExpectedError`` source-changed when the file is not, or does not stay, what ``seen`` says; not-found,
    unreadable, empty; disk errors. What was stored of a manifest by then is collected later.
    """
    with open_source(path) as file:
        _check_unchanged(file.fileno(), path, seen)
        capability = vault.write_reference(file)
        _check_unchanged(file.fileno(), path, seen)
    if vault.length(capability) != seen.size_bytes:
        raise source_changed(path)
    return capability


class SourceShards:
    """Seals single shards of one source from the user's file, as long as it still is what was hashed."""

    def __init__(self, vault: Vault, capability: str, path: bytes) -> None:
        if not parse_capability(capability).by_reference:
            raise BugError("this capability is not that of a source by reference")
        self._path = path
        self._leaves: dict[str, Leaf] = {leaf.entry.name: leaf for leaf in vault.leaves(capability)}

    def names(self) -> tuple[str, ...]:
        """Return the names of the shards that can be asked for, each once."""
        return tuple(self._leaves)

    def seal(self, name: str) -> bytes:
        """Return the sealed bytes of shard ``name``.

        Raises ``ExpectedError`` missing-shard when it is none of this source, source-changed when the file no longer
        gives these bytes, not-found, unreadable, empty.
        """
        leaf = self._leaves.get(name)
        if leaf is None:
            raise missing_shard(name)
        with open_source(self._path) as file:
            plaintext = read_at(file, leaf.start, leaf.entry.length)
        sealed = seal_with_secret(plaintext, leaf.entry.secret)
        if name_of(sealed) != name:
            raise source_changed(self._path)
        return sealed


def _check_unchanged(descriptor: int, path: bytes, seen: SourceStat) -> None:
    now = os.fstat(descriptor)
    if (now.st_size, now.st_mtime_ns) != (seen.size_bytes, seen.mtime_ns):
        raise source_changed(path)
