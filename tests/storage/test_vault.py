"""The vault: contents in, capabilities out, and any range back."""

from __future__ import annotations

import io
import os
import threading
import tracemalloc
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.clock import ManualClock
from app.core.errors import BugError, ErrorCode, ExpectedError
from app.media.film import Bundle, BundleEntry
from app.storage.capability import format_capability, parse_capability
from app.storage.cipher import SHARD_BYTES, VaultKey
from app.storage.manifest import Shape
from app.storage.opening import memory_vault
from app.storage.vault import Vault

SHAPE = Shape(shard_bytes=10, fan_out=3)


def fresh_small_vault() -> AbstractContextManager[Vault]:
    return memory_vault(clock=ManualClock(), key=VaultKey(bytes(range(32))), shape=SHAPE)


class Trickle(io.RawIOBase):
    """A stream that gives a few bytes at a time, as pipes do."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        return self._data.read(min(size, 7) if size >= 0 else 7)


@given(st.binary(max_size=500))
def test_bytes_and_streams_come_back_whole_and_share_one_capability(content: bytes) -> None:
    with fresh_small_vault() as vault:
        capability = vault.write_bytes(content)
        assert vault.write_stream(io.BytesIO(content)) == capability
        assert vault.write_stream(Trickle(content)) == capability  # type: ignore[arg-type]
        assert vault.read_all(capability) == content
        assert b"".join(vault.iterate(capability)) == content
        assert vault.length(capability) == len(content)


@given(st.binary(max_size=300), st.booleans(), st.integers(0, 350), st.integers(0, 350))
def test_any_range_is_the_slice(content: bytes, pad: bool, offset: int, length: int) -> None:  # noqa: FBT001 (drawn)
    with fresh_small_vault() as vault:
        capability = vault.write_bytes(content, pad=pad)
        assert vault.read(capability, offset, length) == content[offset : offset + length]
        pieces = list(vault.iterate(capability, offset=offset, length=length))
    assert b"".join(pieces) == content[offset : offset + length]
    assert all(0 < len(piece) <= SHAPE.shard_bytes for piece in pieces)


@given(st.binary(max_size=300))
def test_padding_changes_the_shards_but_not_the_content(content: bytes) -> None:
    with fresh_small_vault() as vault:
        padded = vault.write_bytes(content, pad=True)
        assert vault.read_all(padded) == content
        assert vault.length(padded) == len(content)


def test_two_devices_with_one_vault_key_make_the_same_shards() -> None:
    content = bytes(range(200))
    with fresh_small_vault() as first, fresh_small_vault() as second:
        capability = first.write_bytes(content)
        assert second.write_bytes(content) == capability
        assert first.shards_of(capability) == second.shards_of(capability)


def test_equal_pieces_are_stored_once(small_vault: Vault) -> None:
    small_vault.write_bytes(b"0123456789" * 3)
    assert small_vault.usage().shards == 2  # one piece, one manifest


@pytest.mark.parametrize("size", [0, 1, SHARD_BYTES - 1, SHARD_BYTES, SHARD_BYTES + 1, 2 * SHARD_BYTES])
def test_contents_around_the_cut_come_back_from_disk(vault: Vault, size: int) -> None:
    content = os.urandom(size)
    capability = vault.write_bytes(content)
    assert vault.read_all(capability) == content
    assert parse_capability(capability).depth == (0 if size <= SHARD_BYTES else 1)
    assert vault.read(capability, SHARD_BYTES - 5, 10) == content[SHARD_BYTES - 5 : SHARD_BYTES + 5]


def test_a_range_opens_only_the_shards_it_touches(vault: Vault, tmp_path: Path) -> None:
    content = os.urandom(3 * SHARD_BYTES)
    capability = vault.write_bytes(content)
    last = list(vault.leaves(capability))[-1]
    (tmp_path / "vault" / last.entry.name[:2] / last.entry.name).unlink()
    assert vault.read(capability, 100, SHARD_BYTES) == content[100 : SHARD_BYTES + 100]
    with pytest.raises(ExpectedError) as caught:
        vault.read(capability, 2 * SHARD_BYTES, 1)
    assert caught.value.code == ErrorCode.MISSING_SHARD


def test_a_range_before_the_start_is_a_bug(vault: Vault) -> None:
    capability = vault.write_bytes(b"film")
    with pytest.raises(BugError):
        vault.read(capability, -1, 2)


def test_s2_a_flipped_byte_is_told_and_the_shard_set_aside(vault: Vault, tmp_path: Path) -> None:
    capability = vault.write_bytes(b"film" * 1000)
    (name,) = vault.shards_of(capability)
    path = tmp_path / "vault" / name[:2] / name
    path.write_bytes(b"X" + path.read_bytes()[1:])
    with pytest.raises(ExpectedError) as caught:
        vault.read_all(capability)
    assert caught.value.code == ErrorCode.DAMAGED_SHARD
    assert (tmp_path / "vault" / "quarantine" / name).exists()
    assert vault.write_bytes(b"film" * 1000) == capability
    assert vault.read_all(capability) == b"film" * 1000


def test_a_capability_with_another_secret_or_length_reads_nothing(vault: Vault) -> None:
    capability = parse_capability(vault.write_bytes(b"film"))
    for changed in ({"secret": bytes(32)}, {"length": 3}, {"length": 5}):
        values = {name: getattr(capability, name) for name in capability.__struct_fields__}
        wrong = format_capability(type(capability)(**{**values, **changed}))
        with pytest.raises(ExpectedError) as caught:
            vault.read_all(wrong)
        assert caught.value.code == ErrorCode.DAMAGED_SHARD
    assert vault.read_all(format_capability(capability)) == b"film"


def test_content_that_is_no_manifest_is_not_read_as_one(vault: Vault) -> None:
    capability = parse_capability(vault.write_bytes(b"film"))
    values = {name: getattr(capability, name) for name in capability.__struct_fields__}
    with pytest.raises(ExpectedError) as caught:
        vault.read_all(format_capability(type(capability)(**{**values, "depth": 1})))
    assert caught.value.code == ErrorCode.BAD_MESSAGE


def bundle_of(vault: Vault, *contents: bytes) -> Bundle:
    return Bundle(
        entries=tuple(
            BundleEntry(
                name="720", number=number, capability=vault.write_bytes(content, pad=True), size_bytes=len(content)
            )
            for number, content in enumerate(contents)
        )
    )


def test_a_bundle_comes_back_and_reaches_its_entries(vault: Vault) -> None:
    bundle = bundle_of(vault, b"segment 0", b"segment 1")
    capability = vault.write_bundle(bundle)
    assert vault.read_bundle(capability) == bundle
    entries = [vault.shards_of(entry.capability) for entry in bundle.entries]
    assert vault.shards_of(capability) > entries[0] | entries[1]
    assert len(vault.shards_of(capability)) == 3


def test_a_large_bundle_in_many_shards_comes_back(small_vault: Vault) -> None:
    bundle = bundle_of(small_vault, *(f"segment {number}".encode() for number in range(10)))
    capability = small_vault.write_bundle(bundle)
    assert parse_capability(capability).depth > 2
    assert small_vault.read_bundle(capability) == bundle


def test_a_file_that_is_no_bundle_is_not_read_as_one(vault: Vault) -> None:
    with pytest.raises(ExpectedError) as caught:
        vault.read_bundle(vault.write_bytes(b"{}"))
    assert caught.value.code == ErrorCode.BAD_MESSAGE


def test_a_bundle_inside_a_bundle_is_refused(vault: Vault) -> None:
    inner = vault.write_bundle(bundle_of(vault, b"segment"))
    entry = BundleEntry(name="720", number=0, capability=inner, size_bytes=1)
    outer = vault.write_bundle(Bundle(entries=(entry,)))
    with pytest.raises(ExpectedError) as caught:
        vault.shards_of(outer)
    assert caught.value.code == ErrorCode.BAD_MESSAGE


def test_several_threads_may_write_and_read_at_once(vault: Vault) -> None:
    contents = [os.urandom(20_000) for _ in range(12)]
    read: list[bool] = []

    def work() -> None:
        for content in contents:
            read.append(vault.read_all(vault.write_bytes(content)) == content)  # noqa: PERF401 (threads share it)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read == [True] * 48
    assert vault.usage().shards == 12


class EndlessFilm(io.RawIOBase):
    """300 MB of eight different pieces in turn, made as they are read."""

    SIZE = 300 * 1024 * 1024

    def __init__(self) -> None:
        self._pieces = [bytes([number]) * SHARD_BYTES for number in range(8)]
        self._given = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        piece = self._pieces[self._given // SHARD_BYTES % 8][: min(size, self.SIZE - self._given)]
        self._given += len(piece)
        return piece


def test_memory_stays_flat_while_300_mb_go_in_and_out(vault: Vault) -> None:
    film = EndlessFilm()
    tracemalloc.start()
    try:
        capability = vault.write_stream(film)  # type: ignore[arg-type]
        length = sum(len(piece) for piece in vault.iterate(capability))
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert length == EndlessFilm.SIZE
    assert peak < 8 * SHARD_BYTES


def test_the_exact_size_of_a_padded_segment_does_not_show(vault: Vault, tmp_path: Path) -> None:
    for size in (100_000, 100_001, 100_350):
        vault.write_bytes(os.urandom(size), pad=True)
    sizes = {path.stat().st_size for path in (tmp_path / "vault").rglob("*") if path.is_file()}
    assert len(sizes) == 1
