"""Asking a peer for shards."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import ErrorCode
from app.sync.channel import ChannelClosedError
from app.sync.shard_exchange import (
    Ask,
    AskHave,
    Asking,
    AskSource,
    Exchanged,
    Have,
    NoShard,
    NoSource,
    Shard,
    SourceBytes,
    decode_exchanged,
    encode_exchanged,
)

NAMES = [f"{number:064x}" for number in range(20)]
MESSAGES: list[Exchanged] = [
    Ask(name=NAMES[0]),
    Shard(name=NAMES[0], data=b"sealed"),
    NoShard(name=NAMES[1]),
    AskHave(ask=1, names=tuple(NAMES)),
    Have(ask=1, names=()),
    AskSource(ask=2, fingerprint="f", offset=2**40, length=1 << 20),
    SourceBytes(ask=2, data=b"bytes"),
    NoSource(ask=2),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_survives_the_channel(message: Exchanged) -> None:
    assert decode_exchanged(encode_exchanged(message)) == message


@pytest.mark.parametrize(
    "message",
    [
        Ask(name="../../etc/passwd"),
        Ask(name="A" * 64),
        AskSource(ask=1, fingerprint="f", offset=0, length=(1 << 20) + 1),
        AskHave(ask=1, names=tuple(NAMES[0] for _ in range(4097))),
    ],
)
def test_what_no_version_says_ends_the_session(message: Exchanged) -> None:
    with pytest.raises(ChannelClosedError) as caught:
        decode_exchanged(encode_exchanged(message))
    assert caught.value.code is ErrorCode.BAD_MESSAGE


@given(st.binary(max_size=100))
def test_bytes_that_mean_nothing_are_refused_in_words(data: bytes) -> None:
    with contextlib.suppress(ChannelClosedError):  # anything else is a bug
        decode_exchanged(data)


def test_no_more_shards_are_under_way_than_agreed_and_the_rest_follow_in_order() -> None:
    asking = Asking(most=2)
    assert [asking.ask(name) for name in NAMES[:4]] == [(Ask(name=NAMES[0]),), (Ask(name=NAMES[1]),), (), ()]
    assert asking.load == 4
    assert asking.answered(NAMES[1]) == (True, (Ask(name=NAMES[2]),))
    assert asking.answered(NAMES[0]) == (True, (Ask(name=NAMES[3]),))


def test_a_shard_that_is_wanted_twice_is_asked_for_once() -> None:
    asking = Asking(most=1)
    assert asking.ask(NAMES[0]) == (Ask(name=NAMES[0]),)
    assert asking.ask(NAMES[0]) == ()
    assert asking.answered(NAMES[0]) == (True, ())


def test_an_answer_to_what_was_not_asked_is_told_apart() -> None:
    assert Asking().answered(NAMES[5]) == (False, ())
