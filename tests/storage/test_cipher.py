"""Sealing: equal bytes give equal shards, other keys give others, and nothing opens what it should not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import BugError, ErrorCode, ExpectedError
from app.storage.cipher import (
    SHARD_BYTES,
    VaultKey,
    name_of,
    open_as_owner,
    open_shard,
    owner_keys,
    seal,
    seal_to_owner,
    seal_with_secret,
)

KEY = VaultKey(bytes(range(32)))
OTHER = VaultKey(bytes(32))


@given(st.binary(max_size=2000))
def test_a_sealed_shard_opens_to_the_same_bytes(plaintext: bytes) -> None:
    sealed = seal(plaintext, KEY)
    assert open_shard(sealed.data, sealed.secret) == plaintext
    assert sealed.name == name_of(sealed.data)
    assert sealed.length == len(plaintext)


@given(st.binary(max_size=200))
def test_the_same_bytes_give_the_same_shard_with_a_key_or_with_the_secret_alone(plaintext: bytes) -> None:
    sealed = seal(plaintext, KEY)
    assert seal(plaintext, VaultKey(bytes(range(32)))) == sealed
    assert seal_with_secret(plaintext, sealed.secret) == sealed.data


@given(st.binary(max_size=200))
def test_another_vault_key_shares_nothing(plaintext: bytes) -> None:
    first, second = seal(plaintext, KEY), seal(plaintext, OTHER)
    assert first.name != second.name
    assert first.secret != second.secret


@given(st.binary(min_size=1, max_size=200), st.data())
def test_a_flipped_bit_never_opens(plaintext: bytes, data: st.DataObject) -> None:
    sealed = seal(plaintext, KEY)
    broken = bytearray(sealed.data)
    broken[data.draw(st.integers(0, len(broken) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(ExpectedError) as caught:
        open_shard(bytes(broken), sealed.secret)
    assert caught.value.code == ErrorCode.DAMAGED_SHARD


@pytest.mark.parametrize("sealed", [b"", b"short", b"x" * 16])
def test_noise_does_not_open(sealed: bytes) -> None:
    with pytest.raises(ExpectedError):
        open_shard(sealed, bytes(32))


def test_a_shard_holds_four_mebibytes_and_no_more() -> None:
    assert len(seal(bytes(SHARD_BYTES), KEY).data) == SHARD_BYTES + 16
    with pytest.raises(BugError):
        seal(bytes(SHARD_BYTES + 1), KEY)


def test_keys_and_shards_show_no_secret_when_printed() -> None:
    sealed = seal(b"plain", KEY)
    assert KEY.key.hex() not in repr(KEY)
    assert sealed.secret.hex() not in repr(sealed)
    assert repr(sealed.secret) not in repr(sealed)


def test_a_vault_key_of_another_length_is_a_bug() -> None:
    with pytest.raises(BugError):
        VaultKey(b"short")


def test_only_the_owner_opens_what_is_sealed_to_the_owner() -> None:
    secret = bytes(range(32))
    sealed = seal_to_owner(b"vault key", owner_keys(secret))
    assert open_as_owner(sealed, secret) == b"vault key"
    with pytest.raises(ExpectedError) as caught:
        open_as_owner(sealed, bytes(32))
    assert caught.value.code == ErrorCode.UNREADABLE
