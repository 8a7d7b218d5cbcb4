"""Writing contents: cut, seal, keep, and grow the manifest; memory is one piece and one manifest per level."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

from app.storage.cipher import SealedShard, VaultKey, seal
from app.storage.manifest import Entry, Manifest, ManifestTree, Shape, encode_manifest

KeepShard = Callable[[SealedShard], None]


def cut(content: bytes, piece_bytes: int, *, size: int | None = None) -> Iterator[bytes]:
    """Yield ``content``, followed by zeros up to ``size``, in pieces; an empty content is one empty piece."""
    size = len(content) if size is None else size
    if len(content) == size <= piece_bytes:
        yield content
        return
    view = memoryview(content)
    for start in range(0, size, piece_bytes):
        yield bytes(view[start : start + piece_bytes]).ljust(min(piece_bytes, size - start), b"\0")


def cut_stream(file: BinaryIO, piece_bytes: int) -> Iterator[bytes]:
    """Yield what ``file`` gives until its end, in whole pieces; an empty stream is one empty piece."""
    piece = _read_piece(file, piece_bytes)
    yield piece
    while len(piece) == piece_bytes:
        piece = _read_piece(file, piece_bytes)
        if piece:
            yield piece


def _read_piece(file: BinaryIO, piece_bytes: int) -> bytes:
    piece = file.read(piece_bytes)
    if len(piece) == piece_bytes or not piece:
        return piece
    parts = [piece]
    missing = piece_bytes - len(piece)
    while missing and (more := file.read(missing)):
        parts.append(more)
        missing -= len(more)
    return b"".join(parts)


def write_content(
    pieces: Iterable[bytes], *, vault_key: VaultKey, shape: Shape, keep: KeepShard, keep_manifest: KeepShard
) -> tuple[int, Entry]:
    """Seal ``pieces`` and hand each shard on; return (depth, entry) of the root."""

    def keep_sealed_manifest(manifest: Manifest) -> Entry:
        sealed = seal(encode_manifest(manifest), vault_key)
        keep_manifest(sealed)
        return Entry(name=sealed.name, secret=sealed.secret, length=manifest.length)

    tree = ManifestTree(keep_sealed_manifest, fan_out=shape.fan_out)
    for piece in pieces:
        sealed = seal(piece, vault_key)
        keep(sealed)
        tree.add(Entry(name=sealed.name, secret=sealed.secret, length=sealed.length))
    return tree.finish()
