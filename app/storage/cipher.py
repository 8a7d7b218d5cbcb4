"""The one door to libsodium: sealing shards so that equal bytes give equal shards, and sealing keys to an owner.

FORMAT.md, section "Shards", specifies what is computed here; golden files in the tests hold it.
"""

from __future__ import annotations

import msgspec
from nacl import bindings
from nacl.encoding import HexEncoder, RawEncoder
from nacl.exceptions import CryptoError
from nacl.hash import blake2b
from nacl.public import PrivateKey, PublicKey, SealedBox
from nacl.signing import SigningKey

from app.core.errors import BugError, ErrorCode, ExpectedError

SHARD_BYTES = 4 * 1024 * 1024
"""Most plaintext that one shard holds."""
SEAL_OVERHEAD_BYTES = 16
"""How much longer a sealed shard is than its plaintext."""
KEY_BYTES = 32

_NONCE_BYTES = 24
_NAME_BYTES = 32
_SHARD_CONTEXT = b"hearthreel shard 1"


def derive(key: bytes, purpose: str, *, data: bytes = b"", size: int = KEY_BYTES) -> bytes:
    """Return ``size`` bytes of keyed BLAKE2b over ``data``, personalised with ``purpose`` (at most 16 letters)."""
    return blake2b(data, size, key, person=purpose.encode("ascii"), encoder=RawEncoder)


def name_of(sealed: bytes) -> str:
    """Return the name of a shard: 64 hex digits of BLAKE2b-256 over its sealed bytes."""
    return blake2b(sealed, _NAME_BYTES, encoder=HexEncoder).decode("ascii")


class VaultKey:
    """A vault key with what derives from it; its id says which key it is without telling the key."""

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise BugError(f"a vault key has {KEY_BYTES} bytes, not {len(key)}")
        self.key = key
        self.id = derive(key, "HR1 vault key id", size=16).hex()
        self._dedup_key = derive(key, "HR1 dedup key")
        self._seal_key = derive(key, "HR1 seal key")

    def __repr__(self) -> str:
        return f"VaultKey({self.id})"

    def secret_of(self, plaintext: bytes) -> bytes:
        """Return the secret that seals ``plaintext`` under this key; the same bytes give the same secret."""
        fingerprint = derive(self._dedup_key, "HR1 content", data=plaintext)
        return derive(self._seal_key, "HR1 secret", data=fingerprint)


class SealedShard(msgspec.Struct, frozen=True, kw_only=True):
    """A shard ready to be stored, with what a manifest needs to read it again."""

    name: str
    secret: bytes
    length: int
    """Bytes of plaintext."""
    data: bytes

    def __repr__(self) -> str:
        return f"SealedShard({self.name}, {self.length} bytes)"


def _aead_key_and_nonce(secret: bytes) -> tuple[bytes, bytes]:
    return derive(secret, "HR1 aead key"), derive(secret, "HR1 aead nonce", size=_NONCE_BYTES)


def seal_with_secret(plaintext: bytes, secret: bytes) -> bytes:
    """Return the sealed bytes of ``plaintext``; with the secret of a manifest these are the very same bytes again."""
    if len(plaintext) > SHARD_BYTES:
        raise BugError(f"a shard holds at most {SHARD_BYTES} bytes, not {len(plaintext)}")
    key, nonce = _aead_key_and_nonce(secret)
    return bindings.crypto_aead_xchacha20poly1305_ietf_encrypt(plaintext, _SHARD_CONTEXT, nonce, key)


def seal(plaintext: bytes, vault_key: VaultKey) -> SealedShard:
    """Seal ``plaintext`` (at most ``SHARD_BYTES``) under ``vault_key``."""
    secret = vault_key.secret_of(plaintext)
    data = seal_with_secret(plaintext, secret)
    return SealedShard(name=name_of(data), secret=secret, length=len(plaintext), data=data)


def open_shard(sealed: bytes, secret: bytes) -> bytes:
    """Return the plaintext of a shard; raises ``ExpectedError`` damaged-shard when it does not open."""
    key, nonce = _aead_key_and_nonce(secret)
    try:
        return bindings.crypto_aead_xchacha20poly1305_ietf_decrypt(sealed, _SHARD_CONTEXT, nonce, key)
    except (CryptoError, ValueError, TypeError) as error:
        raise ExpectedError(
            ErrorCode.DAMAGED_SHARD, "A piece of a film does not open with its key; run `hearthreel verify --repair`."
        ) from error


class OwnerKeys(msgspec.Struct, frozen=True, kw_only=True):
    """The public halves of an owner's pairs; not secret."""

    sealing: bytes
    """X25519 public key; vault keys are sealed to it."""
    signing: bytes
    """Ed25519 public key; membership will be signed with its secret half."""


def _sealing_pair(owner_secret: bytes) -> PrivateKey:
    return PrivateKey(derive(owner_secret, "HR1 owner seal"))


def owner_keys(owner_secret: bytes) -> OwnerKeys:
    """Return the public keys that belong to the owner's 256-bit secret."""
    return OwnerKeys(
        sealing=bytes(_sealing_pair(owner_secret).public_key),
        signing=bytes(SigningKey(derive(owner_secret, "HR1 owner sign")).verify_key),
    )


def seal_to_owner(message: bytes, owner: OwnerKeys) -> bytes:
    """Return ``message`` sealed so that only the owner's secret opens it (libsodium sealed box, random each time)."""
    return SealedBox(PublicKey(owner.sealing)).encrypt(message)


def open_as_owner(sealed: bytes, owner_secret: bytes) -> bytes:
    """Return what was sealed to the owner; raises ``ExpectedError`` unreadable when it is not for this secret."""
    try:
        return SealedBox(_sealing_pair(owner_secret)).decrypt(sealed)
    except (CryptoError, ValueError, TypeError) as error:
        raise ExpectedError(
            ErrorCode.UNREADABLE, "The sealed copy of the vault key does not belong to this owner's secret."
        ) from error
