"""Manifests: bytes, shape of the tree, ranges."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.core.errors import ErrorCode, ExpectedError
from app.storage.manifest import Entry, Manifest, ManifestTree, decode_manifest, encode_manifest, overlapping


def entry(length: int, seed: int = 0) -> Entry:
    return Entry(name=hashlib.sha256(str(seed).encode()).hexdigest(), secret=bytes([seed % 256]) * 32, length=length)


MANIFESTS = st.builds(
    lambda depth, lengths: Manifest(
        depth=depth, entries=tuple(entry(length, seed) for seed, length in enumerate(lengths))
    ),
    st.integers(1, 5),
    st.lists(st.integers(1, 4 * 2**20), min_size=1, max_size=20),
)


@given(MANIFESTS)
def test_a_manifest_survives_its_bytes(manifest: Manifest) -> None:
    data = encode_manifest(manifest)
    assert decode_manifest(data, depth=manifest.depth, length=manifest.length) == manifest


@given(MANIFESTS, st.data())
def test_a_changed_header_is_refused(manifest: Manifest, data: st.DataObject) -> None:
    encoded = bytearray(encode_manifest(manifest))
    encoded[data.draw(st.integers(0, 11))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ExpectedError) as caught:
        decode_manifest(bytes(encoded), depth=manifest.depth, length=manifest.length)
    assert caught.value.code == ErrorCode.BAD_MESSAGE


@given(st.binary(max_size=400), st.integers(0, 6), st.integers(0, 1000))
def test_any_bytes_are_read_or_refused(data: bytes, depth: int, length: int) -> None:
    with pytest.raises(ExpectedError, match="manifest"):
        decode_manifest(data, depth=depth, length=length)


@pytest.mark.parametrize(
    ("lengths", "claimed"),
    [((5, 0), 5), ((4 * 2**20 + 1,), 4 * 2**20 + 1), ((5, 6), 10), ((5, 6), 12), ((2**63, 2**63), 2**64)],
)
def test_impossible_lengths_are_refused(lengths: tuple[int, ...], claimed: int) -> None:
    manifest = Manifest(depth=1, entries=tuple(entry(length) for length in lengths))
    with pytest.raises(ExpectedError):
        decode_manifest(encode_manifest(manifest), depth=1, length=claimed)


@pytest.mark.parametrize("extra", [b"", b"x", b"x" * 72])
def test_a_cut_or_longer_manifest_is_refused(extra: bytes) -> None:
    data = encode_manifest(Manifest(depth=1, entries=(entry(5), entry(6))))
    with pytest.raises(ExpectedError):
        decode_manifest((data + extra) if extra else data[:-1], depth=1, length=11)


def grow(count: int, fan_out: int) -> tuple[int, Entry, list[Manifest]]:
    made: list[Manifest] = []

    def store(manifest: Manifest) -> Entry:
        made.append(manifest)
        return entry(manifest.length, seed=100_000 + len(made))

    tree = ManifestTree(store, fan_out=fan_out)
    for number in range(count):
        tree.add(entry(10, seed=number))
    return *tree.finish(), made


@given(st.integers(1, 200), st.integers(2, 6))
def test_the_tree_holds_every_shard_once_in_order_with_full_manifests(count: int, fan_out: int) -> None:
    depth, root, made = grow(count, fan_out)
    assert root.length == 10 * count
    assert fan_out ** (depth - 1) < count <= fan_out**depth or (depth == 0 and count == 1)
    leaves = [one for manifest in made if manifest.depth == 1 for one in manifest.entries]
    assert leaves == ([entry(10, seed=number) for number in range(count)] if count > 1 else [])
    for level in range(1, depth + 1):
        sizes = [len(manifest.entries) for manifest in made if manifest.depth == level]
        assert all(size == fan_out for size in sizes[:-1])


@given(st.lists(st.integers(1, 9), min_size=1, max_size=30), st.integers(0, 300), st.integers(0, 300))
@example(lengths=[9, 8], start=10, size=0)
def test_a_range_finds_exactly_the_entries_that_touch_it(lengths: list[int], start: int, size: int) -> None:
    entries = [entry(length, seed) for seed, length in enumerate(lengths)]
    end = start + size
    expected = []
    position = 0
    for one in entries:
        if set(range(position, position + one.length)) & set(range(start, end)):
            expected.append((one, position))
        position += one.length
    assert overlapping(entries, start=start, end=end) == expected
