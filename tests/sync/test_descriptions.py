"""Signed offers and answers."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.encoding import encode_canonical
from app.core.errors import ErrorCode, ExpectedError
from app.sync.descriptions import MAX_DESCRIPTION_BYTES, Description, hash_of, open_description, sign_description
from app.sync.tls import TlsIdentity

SEED_A, SEED_B = b"a" * 32, b"b" * 32
A, B = TlsIdentity(SEED_A).public_key, TlsIdentity(SEED_B).public_key
OFFER = Description(kind="offer", sender=A, recipient=B, attempt="0" * 32, sdp="v=0")


def test_what_was_signed_can_be_opened_by_its_recipient() -> None:
    assert open_description(sign_description(OFFER, seed=SEED_A), recipient=B) == OFFER


def test_another_recipient_refuses_it() -> None:
    with pytest.raises(ExpectedError, match="Somebody between") as caught:
        open_description(sign_description(OFFER, seed=SEED_A), recipient=A)
    assert caught.value.code == ErrorCode.NOT_TRUSTED


def test_nobody_can_speak_in_anothers_name() -> None:
    with pytest.raises(ExpectedError, match="Somebody between"):
        open_description(sign_description(OFFER, seed=SEED_B), recipient=B)


def test_every_part_is_signed() -> None:
    honest = msgspec.json.decode(sign_description(OFFER, seed=SEED_A))
    for name, value in (("sdp", "v=1"), ("attempt", "1" * 32), ("kind", "answer"), ("answers", "x")):
        other = msgspec.structs.replace(OFFER, **{name: value})
        forged = msgspec.json.decode(sign_description(other, seed=SEED_A))
        with pytest.raises(ExpectedError, match="Somebody between"):
            open_description(encode_canonical({**honest, "body": forged["body"]}), recipient=B)


@given(at=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_changed_bit_is_always_noticed(at: int, bit: int) -> None:
    data = bytearray(sign_description(OFFER, seed=SEED_A))
    data[at % len(data)] ^= 1 << bit
    try:
        opened = open_description(bytes(data), recipient=B)
    except ExpectedError:
        return
    assert opened == OFFER, "only bits of base64 that stand for nothing may change"


@given(data=st.binary(max_size=200))
def test_hostile_bytes_end_in_a_known_way(data: bytes) -> None:
    with pytest.raises(ExpectedError):
        open_description(data, recipient=B)


def test_a_proposal_that_is_too_long_is_dropped_unread() -> None:
    with pytest.raises(ExpectedError, match="too long"):
        open_description(b" " * (MAX_DESCRIPTION_BYTES + 1), recipient=B)


def test_another_version_is_said() -> None:
    newer = msgspec.structs.replace(OFFER, version=2)
    with pytest.raises(ExpectedError, match="update Hearthreel") as caught:
        open_description(sign_description(newer, seed=SEED_A), recipient=B)
    assert caught.value.code == ErrorCode.DATA_TOO_NEW


def test_two_offers_have_two_hashes() -> None:
    assert hash_of(OFFER) != hash_of(msgspec.structs.replace(OFFER, attempt="1" * 32))
