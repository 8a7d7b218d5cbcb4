"""What a capability reaches: the walk over manifests and bundles that reading, collecting and scrubbing share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from app.core.encoding import decode_canonical
from app.core.errors import ErrorCode, ExpectedError
from app.media.film import Bundle
from app.storage.capability import Capability, parse_capability
from app.storage.cipher import open_shard
from app.storage.manifest import Entry, Manifest, decode_manifest, overlapping

GetShard = Callable[[str], bytes]
"""Returns the sealed bytes of a shard by name, verified; raises missing-shard or damaged-shard."""


class Leaf(msgspec.Struct, frozen=True, kw_only=True):
    """One shard of content and where its plaintext starts in the file."""

    entry: Entry
    start: int


class ReachedShard(msgspec.Struct, frozen=True, kw_only=True):
    """A shard that something reaches."""

    name: str
    by_reference: bool = False
    """Its bytes come from the user's own file; it need not be in the vault."""


def root_of(capability: Capability) -> Entry:
    """Return the entry of the capability's own shard."""
    return Entry(name=capability.name, secret=capability.secret, length=capability.stored_length)


def open_entry(get: GetShard, entry: Entry) -> bytes:
    """Return the plaintext of a content shard; raises ``ExpectedError`` damaged-shard when it is not what was said."""
    plaintext = open_shard(get(entry.name), entry.secret)
    if len(plaintext) != entry.length:
        raise ExpectedError(
            ErrorCode.DAMAGED_SHARD,
            f"A piece of a film has {len(plaintext)} bytes instead of {entry.length}; retry the job that made it.",
        )
    return plaintext


def open_manifest(get: GetShard, entry: Entry, depth: int) -> Manifest:
    """Return the manifest that ``entry`` names; raises ``ExpectedError`` bad-message and what ``get`` raises."""
    return decode_manifest(open_shard(get(entry.name), entry.secret), depth=depth, length=entry.length)


def leaves(get: GetShard, capability: Capability, *, start: int = 0, end: int | None = None) -> Iterator[Leaf]:
    """Yield the content shards that touch [start, end) of the stored content, opening only the manifests above them."""
    stop = capability.stored_length if end is None else end
    yield from _leaves(get, root_of(capability), capability.depth, offset=0, start=start, end=stop)


def _leaves(get: GetShard, entry: Entry, depth: int, *, offset: int, start: int, end: int) -> Iterator[Leaf]:
    if depth == 0:
        yield Leaf(entry=entry, start=offset)
        return
    manifest = open_manifest(get, entry, depth)
    for child, position in overlapping(manifest.entries, start=start - offset, end=end - offset):
        yield from _leaves(get, child, depth - 1, offset=offset + position, start=start, end=end)


def read_content(get: GetShard, capability: Capability) -> bytes:
    """Return the whole content, without padding."""
    content = b"".join(open_entry(get, leaf.entry) for leaf in leaves(get, capability))
    return content[: capability.length]


def decode_bundle(content: bytes) -> Bundle:
    """Return the bundle in ``content``; raises ``ExpectedError`` bad-message."""
    return decode_canonical(content, Bundle)


def tree_names(get: GetShard, capability: Capability) -> Iterator[str]:
    """Yield the names of the manifests and content shards of a file, as far as its manifests can be read."""
    walk = _Walk(get=get, on_error=_pass_over)
    yield from (shard.name for shard in walk.tree(root_of(capability), capability.depth, by_reference=False))


def _pass_over(_error: ExpectedError) -> None:
    """Go on with what can be read."""


def reached(
    get: GetShard, text: str, *, on_error: Callable[[ExpectedError], None] | None = None
) -> Iterator[ReachedShard]:
    """Yield every shard that the capability ``text`` reaches: manifests, content, and what a bundle's entries reach.

    What cannot be read raises, or, with ``on_error``, is told and passed over; the names of shards are yielded before
    they are read.
    """
    walk = _Walk(get=get, on_error=on_error)
    yield from walk.capability(text, inside_bundle=False)


class _Walk:
    def __init__(self, *, get: GetShard, on_error: Callable[[ExpectedError], None] | None) -> None:
        self._get = get
        self._on_error = on_error

    def capability(self, text: str, *, inside_bundle: bool) -> Iterator[ReachedShard]:
        try:
            capability = parse_capability(text)
        except ExpectedError as error:
            self._tell(error)
            return
        if capability.bundle and inside_bundle:
            self._tell(ExpectedError(ErrorCode.BAD_MESSAGE, "A bundle holds a bundle; retry the job that made it."))
            return
        yield from self.tree(root_of(capability), capability.depth, by_reference=capability.by_reference)
        if capability.bundle:
            yield from self._entries(capability)

    def tree(self, entry: Entry, depth: int, *, by_reference: bool) -> Iterator[ReachedShard]:
        yield ReachedShard(name=entry.name, by_reference=by_reference and depth == 0)
        if depth == 0:
            return
        try:
            manifest = open_manifest(self._get, entry, depth)
        except ExpectedError as error:
            self._tell(error)
            return
        for child in manifest.entries:
            yield from self.tree(child, depth - 1, by_reference=by_reference)

    def _entries(self, capability: Capability) -> Iterator[ReachedShard]:
        try:
            bundle = decode_bundle(read_content(self._get, capability))
        except ExpectedError as error:
            self._tell(error)
            return
        for entry in bundle.entries:
            yield from self.capability(entry.capability, inside_bundle=True)

    def _tell(self, error: ExpectedError) -> None:
        if self._on_error is None:
            raise error
        self._on_error(error)
