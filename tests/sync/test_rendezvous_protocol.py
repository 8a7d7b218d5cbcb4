"""The rendezvous' decisions: who gets what, and who is sent away."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import ErrorCode, ExpectedError
from app.sync.rendezvous_protocol import (
    MAX_SEALED_BYTES,
    MOST_LISTENERS,
    MOST_MAILBOXES,
    Delivered,
    Limits,
    Listen,
    Mailboxes,
    Put,
    decode_delivered,
    encode,
    mailbox_of,
)

BOX, OTHER = b"1" * 16, b"2" * 16


def mailboxes(*connections: int, limits: Limits | None = None) -> Mailboxes:
    made = Mailboxes(limits)
    for connection in connections:
        made.joined(connection, 0)
    return made


def listen(desk: Mailboxes, connection: int, *boxes: bytes) -> None:
    assert desk.receive(connection, encode(Listen(mailboxes=boxes)), 0) == ((), b"")


def put(desk: Mailboxes, connection: int, box: bytes, now_s: float = 0) -> tuple[int, ...]:
    receivers, frame = desk.receive(connection, encode(Put(mailbox=box, sealed=b"sealed")), now_s)
    assert decode_delivered(frame) == Delivered(sealed=b"sealed")
    return receivers


def test_a_message_goes_to_those_who_listen_there_and_to_nobody_else() -> None:
    desk = mailboxes(1, 2, 3)
    listen(desk, 1, BOX)
    listen(desk, 2, OTHER, BOX)
    listen(desk, 3, OTHER)
    assert put(desk, 3, BOX) == (1, 2)
    assert put(desk, 1, BOX) == (2,)
    assert put(desk, 1, b"3" * 16) == ()


def test_listening_again_replaces_what_was_listened_to() -> None:
    desk = mailboxes(1, 2)
    listen(desk, 1, BOX)
    listen(desk, 1, OTHER)
    assert put(desk, 2, BOX) == ()
    assert put(desk, 2, OTHER) == (1,)


def test_who_has_left_gets_nothing_and_is_forgotten() -> None:
    desk = mailboxes(1, 2)
    listen(desk, 1, BOX, OTHER)
    desk.left(1)
    desk.left(1)
    assert put(desk, 2, BOX) == ()
    assert desk._listeners == {}
    desk.left(2)
    assert (desk._buckets, desk._listening) == ({}, {})


def test_a_mailbox_cannot_be_occupied() -> None:
    desk = mailboxes(*range(10))
    for connection in range(9):
        listen(desk, connection, BOX)
    receivers = put(desk, 9, BOX)
    assert receivers == (5, 6, 7, 8)
    assert len(receivers) == MOST_LISTENERS


def test_who_sends_too_much_is_sent_away_and_may_come_back() -> None:
    desk = mailboxes(1, limits=Limits(burst=3, per_s=0.5))
    for _ in range(3):
        put(desk, 1, BOX)
    with pytest.raises(ExpectedError) as caught:
        put(desk, 1, BOX)
    assert caught.value.code == ErrorCode.TOO_MANY
    put(desk, 1, BOX, now_s=2)
    with pytest.raises(ExpectedError):
        put(desk, 1, BOX, now_s=3)


def test_the_rate_of_one_does_not_touch_another() -> None:
    desk = mailboxes(1, 2, limits=Limits(burst=1, per_s=0))
    put(desk, 1, BOX)
    put(desk, 2, BOX)


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\xc1",
        encode(Delivered(sealed=b"")),
        encode(Put(mailbox=b"short", sealed=b"")),
        encode(Put(mailbox=BOX, sealed=bytes(MAX_SEALED_BYTES + 1))),
        encode(Listen(mailboxes=(b"short",))),
        encode(Listen(mailboxes=(BOX,) * (MOST_MAILBOXES + 1))),
        msgspec.msgpack.encode(["put", BOX, b"", "more"]),
        msgspec.json.encode(["listen", []]),
    ],
)
def test_nonsense_is_refused(frame: bytes) -> None:
    with pytest.raises(ExpectedError) as caught:
        mailboxes(1).receive(1, frame, 0)
    assert caught.value.code == ErrorCode.BAD_MESSAGE


@given(frame=st.binary(max_size=200))
def test_hostile_frames_end_in_a_known_way(frame: bytes) -> None:
    desk = mailboxes(1)
    try:
        desk.receive(1, frame, 0)
    except ExpectedError:
        pass
    else:
        assert len(desk._listeners) <= MOST_MAILBOXES


def test_a_mailbox_tells_nothing_of_its_device_and_changes_with_the_secret() -> None:
    key = b"K" * 32
    boxes = {mailbox_of(key, secret=secret) for secret in (b"one", b"two")} | {mailbox_of(b"L" * 32, secret=b"one")}
    assert len(boxes) == 3
    assert all(key not in box and len(box) == 16 for box in boxes)
