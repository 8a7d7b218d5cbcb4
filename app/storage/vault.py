"""The vault: contents in, capabilities out, and back; collection and scrubbing over the same shards.

All methods are synchronous and may be called from several threads at once. Sealing, opening, hashing and file access
release Python's global lock, so a small pool of threads seals faster than one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

import msgspec

from app.core.clock import Clock
from app.core.encoding import encode_canonical
from app.core.errors import BugError, ErrorCode, ExpectedError
from app.media.film import Bundle
from app.storage.capability import Capability, format_capability, parse_capability
from app.storage.cipher import SealedShard, VaultKey, name_of
from app.storage.collection import GRACE_MS, CollectReport, collect
from app.storage.content import KeepShard, cut, cut_stream, write_content
from app.storage.index import ShardIndex
from app.storage.manifest import Shape
from app.storage.padding import padded_length
from app.storage.reach import Leaf, decode_bundle, leaves, open_entry, reached, read_content, tree_names
from app.storage.scrub import ScrubProgress, ScrubReport, scrub
from app.storage.shard_store import ShardStore, VerifyingStore, damaged_shard

_SHAPE = Shape()


class VaultUsage(msgspec.Struct, frozen=True, kw_only=True):
    """How much the vault holds."""

    shards: int
    size_bytes: int


class Vault:
    """The shards of one device. ``store`` is the unverified store; what is read through the vault is verified."""

    def __init__(
        self, *, store: ShardStore, index: ShardIndex, key: VaultKey, clock: Clock, shape: Shape = _SHAPE
    ) -> None:
        self._raw = store
        self._store = VerifyingStore(store)
        self._index = index
        self._key = key
        self._clock = clock
        self._shape = shape
        index.start(store)

    def use_key(self, key: VaultKey) -> None:
        """Seal what is written from now on with ``key``; what is there already stays readable."""
        self._key = key

    def write_bytes(self, data: bytes, *, pad: bool = False) -> str:
        """Store ``data`` and return its capability; durable when it returns. ``pad`` hides its exact size.

        Raises ``ExpectedError`` disk-full, read-only.
        """
        return self._write_content(data, pad=pad, bundle=False)

    def write_stream(self, file: BinaryIO) -> str:
        """Store everything ``file`` gives, in flat memory, and return its capability."""
        return self._write_pieces(cut_stream(file, self._shape.shard_bytes), keep=self.keep_shard, by_reference=False)

    def write_reference(self, file: BinaryIO) -> str:
        """Store only the manifests of ``file``; whoever reads the capability must get its shards from the file itself.

        See ``app.storage.source_shards``.
        """
        return self._write_pieces(cut_stream(file, self._shape.shard_bytes), keep=_drop_shard, by_reference=True)

    def read_all(self, capability: str) -> bytes:
        """Return the whole content.

        Raises ``ExpectedError`` missing-shard, damaged-shard, bad-message, data-too-new, unreadable; so do all reads.
        """
        return read_content(self._get, parse_capability(capability))

    def read(self, capability: str, offset: int, length: int) -> bytes:
        """Return the bytes [offset, offset + length) as far as the content goes."""
        return b"".join(self._read_range(parse_capability(capability), offset, length))

    def iterate(self, capability: str, *, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """Yield the content (or a range of it) in pieces of at most 4 MiB, in flat memory."""
        parsed = parse_capability(capability)
        return self._read_range(parsed, offset, parsed.length if length is None else length)

    def length(self, capability: str) -> int:
        """Return the bytes of content, without padding."""
        return parse_capability(capability).length

    def leaves(self, capability: str) -> Iterator[Leaf]:
        """Yield the content shards in order, with where each starts in the content."""
        return leaves(self._get, parse_capability(capability))

    def write_bundle(self, bundle: Bundle) -> str:
        """Store ``bundle`` and return a capability through which its entries are reached too."""
        return self._write_content(encode_canonical(bundle), pad=False, bundle=True)

    def read_bundle(self, capability: str) -> Bundle:
        """Return the bundle; raises ``ExpectedError`` bad-message when it is none."""
        parsed = parse_capability(capability)
        if not parsed.bundle:
            raise ExpectedError(
                ErrorCode.BAD_MESSAGE, "A reference leads to a file that is no bundle; retry the job that made it."
            )
        return decode_bundle(read_content(self._get, parsed))

    def shards_of(self, capability: str, *, on_error: Callable[[ExpectedError], None] | None = None) -> frozenset[str]:
        """Return the names of all shards it reaches: manifests, content, and for a bundle what its entries reach.

        For a source by reference this includes shards that are not in the vault.
        """
        return frozenset(shard.name for shard in reached(self._get, capability, on_error=on_error))

    def take_shard(self, name: str, data: bytes) -> None:
        """Put a shard that another device gave; raises ``ExpectedError`` damaged-shard when it is not that one."""
        if name_of(data) != name:
            raise damaged_shard(name, "another device sent other bytes")
        self._put(name, data)

    def give_shard(self, name: str) -> bytes:
        """Return the sealed bytes of a shard, verified, for another device; raises as ``read_all``."""
        return self._get(name)

    def has_shard(self, name: str) -> bool:
        """Whether a shard is here, by a look at its file."""
        return self._store.stat(name) is not None

    def missing_of(self, capability: str) -> tuple[str, ...]:
        """Return shards that reading ``capability`` (of a bundle only its own list) needs and that are not here.

        Where a manifest is missing, what is below it is not known yet: bring what is missing and ask again.
        """
        parsed = parse_capability(capability)
        names = tree_names(self._store.peek, parsed)
        return tuple(dict.fromkeys(name for name in names if self._store.stat(name) is None))

    def keep_shard(self, sealed: SealedShard) -> None:
        """Put a sealed shard, so that it is here durably and its grace period starts anew."""
        self._put(sealed.name, sealed.data)

    def collect(
        self,
        live: Iterable[str],
        *,
        now_ms: int,
        grace_ms: int = GRACE_MS,
        removed: Iterable[str] = (),
        others: bool = False,
    ) -> CollectReport:
        """Give back what no capability in ``live`` reaches and nobody wrote or hit for ``grace_ms``.

        What ``removed`` reached goes at once. ``live`` must hold everything that counts: bundles and other
        capabilities of rows, the segments of running tasks, the manifests of sources. ``grace_ms=0`` is for a vault
        in which nothing is being made; use ``removed`` otherwise. Nothing that is written after the call began is
        removed. When a live root cannot be read to the end, nothing is removed at all and the report names it; with
        ``others`` (the space has other devices) only if what is missing was here before.
        """
        return collect(
            store=self._raw,
            index=self._index,
            get=self._store.get,
            live=live,
            removed=removed,
            now_ms=now_ms,
            grace_ms=grace_ms,
            others=others,
        )

    def verify(
        self,
        live: Iterable[str],
        *,
        progress: ScrubProgress | None = None,
        repair: bool = False,
        others: bool = False,
    ) -> ScrubReport:
        """Read and check every shard; with ``repair`` set bad ones and strays aside and rebuild the index.

        With ``others`` (the space has other devices) what was never here is not missing.
        """
        return scrub(
            store=self._store,
            index=self._index,
            live=live,
            progress=progress or _say_nothing,
            repair=repair,
            others=others,
        )

    def rebuild_index(self) -> None:
        """Make the index say what the files say."""
        self._index.rebuild(self._raw)

    def usage(self) -> VaultUsage:
        """Return how much is here."""
        totals = self._index.totals()
        return VaultUsage(shards=totals.shards, size_bytes=totals.size_bytes)

    def flush(self) -> None:
        """Write the index's notes down; they are also written in batches, so this is never needed for safety."""
        self._index.flush()

    def close(self) -> None:
        """Leave the index whole, so that the next start need not look at every file."""
        self._index.close()

    def _put(self, name: str, data: bytes) -> None:
        with self._index.writing(name):
            is_new = self._store.put(name, data)
            self._index.note_written(name, size=len(data), now_ms=self._clock.wall_ms(), is_hit=not is_new)

    def _get(self, name: str) -> bytes:
        data = self._store.get(name)
        self._index.note_used(name, now_ms=self._clock.wall_ms())
        return data

    def _write_content(self, data: bytes, *, pad: bool, bundle: bool) -> str:
        size = padded_length(len(data)) if pad else len(data)
        pieces = cut(data, self._shape.shard_bytes, size=size)
        depth, root = write_content(
            pieces, vault_key=self._key, shape=self._shape, keep=self.keep_shard, keep_manifest=self.keep_shard
        )
        return format_capability(
            Capability(depth=depth, name=root.name, secret=root.secret, length=len(data), padded=pad, bundle=bundle)
        )

    def _write_pieces(self, pieces: Iterator[bytes], *, keep: KeepShard, by_reference: bool) -> str:
        depth, root = write_content(
            pieces, vault_key=self._key, shape=self._shape, keep=keep, keep_manifest=self.keep_shard
        )
        return format_capability(
            Capability(depth=depth, name=root.name, secret=root.secret, length=root.length, by_reference=by_reference)
        )

    def _read_range(self, capability: Capability, offset: int, length: int) -> Iterator[bytes]:
        if offset < 0 or length < 0:
            raise BugError(f"a range starts at {offset} and has {length} bytes")
        return self._pieces(capability, offset, min(capability.length, offset + length))

    def _pieces(self, capability: Capability, start: int, end: int) -> Iterator[bytes]:
        if start >= end:
            return
        for leaf in leaves(self._get, capability, start=start, end=end):
            piece = open_entry(self._get, leaf.entry)
            yield piece[max(0, start - leaf.start) : end - leaf.start]


def _drop_shard(_sealed: SealedShard) -> None:
    """Keep nothing: the content is in the user's file."""


def _say_nothing(_share: float) -> None:
    """Report progress to nobody."""
