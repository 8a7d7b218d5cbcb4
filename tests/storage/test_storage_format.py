"""FORMAT.md, held twice: by golden files, and by a second reading of the specification written here from its text."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from pathlib import Path

import pytest
from nacl.bindings import crypto_aead_xchacha20poly1305_ietf_encrypt

from app.core.clock import ManualClock
from app.media.film import Bundle, BundleEntry
from app.storage.cipher import SHARD_BYTES, VaultKey, owner_keys
from app.storage.opening import memory_vault
from app.storage.source import fingerprint
from app.storage.vault import Vault

DATA = Path(__file__).parent / "data"
GOLDEN = json.loads((DATA / "golden.json").read_text())
KEY = bytes(range(32))
OWNER = bytes(range(100, 132))
PATTERN = bytes(range(251))


def pattern(size: int) -> bytes:
    return (PATTERN * (size // len(PATTERN) + 1))[:size]


CONTENTS = {
    "empty": b"",
    "short": b"The fixed content of a golden file.\n",
    "two-shards": pattern(SHARD_BYTES + 1000),
}
BUNDLE = Bundle(
    entries=(
        BundleEntry(name="720", number=-1, capability="hr1.init", size_bytes=700),
        BundleEntry(name="720", number=0, capability="hr1.first", size_bytes=90_000, duration_ticks=540_000),
    )
)


def blake(key: bytes, data: bytes, purpose: bytes, size: int = 32) -> bytes:
    return hashlib.blake2b(data, key=key, person=purpose, digest_size=size).digest()


def sealed_by_the_book(plaintext: bytes) -> tuple[bytes, bytes]:
    """Return (sealed, secret) as FORMAT.md, section "Shards", says."""
    dedup_key, seal_key = blake(KEY, b"", b"HR1 dedup key"), blake(KEY, b"", b"HR1 seal key")
    secret = blake(seal_key, blake(dedup_key, plaintext, b"HR1 content"), b"HR1 secret")
    key, nonce = blake(secret, b"", b"HR1 aead key"), blake(secret, b"", b"HR1 aead nonce", 24)
    return crypto_aead_xchacha20poly1305_ietf_encrypt(plaintext, b"hearthreel shard 1", nonce, key), secret


def capability_by_the_book(*, depth: int, flags: int, sealed: bytes, secret: bytes, length: int) -> str:
    name = hashlib.blake2b(sealed, digest_size=32).digest()
    packed = bytes([depth, flags]) + name + secret + length.to_bytes(8, "big")
    return "hr1." + base64.urlsafe_b64encode(packed).decode().rstrip("=")


def stored(vault: Vault, capability: str) -> dict[str, bytes]:
    return {name: vault._raw.get(name) for name in vault.shards_of(capability)}


@pytest.mark.parametrize("name", ["empty", "short"])
def test_a_single_shard_has_its_golden_bytes(name: str) -> None:
    content = CONTENTS[name]
    with memory_vault(clock=ManualClock(), key=VaultKey(KEY)) as vault:
        capability = vault.write_bytes(content)
        (shard,) = stored(vault, capability).values()
    sealed, secret = sealed_by_the_book(content)
    assert shard == sealed == (DATA / f"{name}.shard").read_bytes()
    assert capability == GOLDEN[name]
    assert capability == capability_by_the_book(depth=0, flags=0, sealed=sealed, secret=secret, length=len(content))


def test_a_padded_shard_has_its_golden_bytes() -> None:
    content = pattern(1000)
    with memory_vault(clock=ManualClock(), key=VaultKey(KEY)) as vault:
        capability = vault.write_bytes(content, pad=True)
        (shard,) = stored(vault, capability).values()
    sealed, secret = sealed_by_the_book(content + bytes(24))
    assert shard == sealed == (DATA / "padded.shard").read_bytes()
    assert capability == GOLDEN["padded"]
    assert capability == capability_by_the_book(depth=0, flags=1, sealed=sealed, secret=secret, length=1000)


def test_a_manifest_has_its_golden_bytes() -> None:
    content = CONTENTS["two-shards"]
    manifest = b"HRM1" + bytes([1, 0, 0, 0]) + struct.pack(">I", 2)
    for piece in (content[:SHARD_BYTES], content[SHARD_BYTES:]):
        sealed, secret = sealed_by_the_book(piece)
        manifest += hashlib.blake2b(sealed, digest_size=32).digest() + secret + struct.pack(">Q", len(piece))
    sealed, secret = sealed_by_the_book(manifest)
    assert sealed == (DATA / "two-shards.manifest.shard").read_bytes()
    expected = capability_by_the_book(depth=1, flags=0, sealed=sealed, secret=secret, length=len(content))
    assert expected == GOLDEN["two-shards"]
    with memory_vault(clock=ManualClock(), key=VaultKey(KEY)) as vault:
        capability = vault.write_bytes(content)
        assert capability == expected
        assert sealed in stored(vault, capability).values()


def test_a_bundle_has_its_golden_bytes() -> None:
    content = b'{"entries":[["720",-1,"hr1.init",700,0],["720",0,"hr1.first",90000,540000]],"schema":1}'
    sealed, secret = sealed_by_the_book(content)
    with memory_vault(clock=ManualClock(), key=VaultKey(KEY)) as vault:
        capability = vault.write_bundle(BUNDLE)
    assert sealed == (DATA / "bundle.shard").read_bytes()
    assert capability == GOLDEN["bundle"]
    assert capability == capability_by_the_book(depth=0, flags=2, sealed=sealed, secret=secret, length=len(content))


@pytest.mark.parametrize("name", ["empty", "short", "padded", "bundle"])
def test_golden_files_can_be_read(name: str) -> None:
    shard = (DATA / f"{name}.shard").read_bytes()
    with memory_vault(clock=ManualClock(), key=VaultKey(bytes(32))) as vault:  # reading needs no vault key
        vault._raw.put(hashlib.blake2b(shard, digest_size=32).hexdigest(), shard)
        if name == "bundle":
            assert vault.read_bundle(GOLDEN[name]) == BUNDLE
        else:
            assert vault.read_all(GOLDEN[name]) == CONTENTS.get(name, pattern(1000))


def test_keys_derive_as_the_format_says() -> None:
    assert VaultKey(KEY).id == blake(KEY, b"", b"HR1 vault key id", 16).hex() == GOLDEN["vault key id"]
    owner = owner_keys(OWNER)
    assert owner.sealing.hex() == GOLDEN["owner sealing key"]
    assert owner.signing.hex() == GOLDEN["owner signing key"]


@pytest.mark.parametrize("size", [1, 5000, 4 * 2**20, 4 * 2**20 + 1, 30_000_000])
def test_fingerprints_are_golden(tmp_path: Path, size: int) -> None:
    content = pattern(size)
    path = tmp_path / "source"
    path.write_bytes(content)
    covered = content
    if size > 4 * 2**20:
        starts = [2**20 + number * (size - 2 * 2**20 - 65_536) // 17 for number in range(1, 17)]
        samples = b"".join(content[start : start + 65_536] for start in starts)
        covered = content[: 2**20] + samples + content[-(2**20) :]
    by_the_book = hashlib.sha256(b"hearthreel source 1" + size.to_bytes(8, "big") + covered).hexdigest()[:32]
    assert fingerprint(str(path).encode()) == by_the_book == GOLDEN[f"fingerprint {size}"]
