"""Messages in pieces, with credit."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.errors import ErrorCode
from app.sync.channel import MAX_MESSAGE_BYTES, MAX_REASON_BYTES, ChannelClosedError
from app.sync.fragments import PIECE_BYTES, PIECE_OVERHEAD, WINDOW_BYTES, FragmentStream, PieceKind
from app.sync.inbox import Inbox

LENGTHS = st.sampled_from([0, 1, PIECE_BYTES - 2, PIECE_BYTES - 1, PIECE_BYTES, 3 * PIECE_BYTES, MAX_MESSAGE_BYTES])


def pair(*, inbox_bytes: int = 1 << 20) -> tuple[FragmentStream, Inbox, FragmentStream, Inbox]:
    at_a, at_b = Inbox(most_bytes=inbox_bytes), Inbox(most_bytes=inbox_bytes)
    return FragmentStream(at_a), at_a, FragmentStream(at_b), at_b


def exchange(a: FragmentStream, b: FragmentStream) -> int:
    """Carry pieces until both ends are silent; returns how many bytes of messages went from A to B."""
    carried = 0
    while True:
        there, back = a.next_piece(), b.next_piece()
        if there is None and back is None:
            return carried
        if there is not None:
            carried += len(there) if there[0] in (PieceKind.MORE, PieceKind.LAST) else 0
            b.receive(there)
        if back is not None:
            a.receive(back)


async def take_all(inbox: Inbox) -> list[bytes]:
    found = []
    while inbox._messages:
        found.append(await inbox.receive())
    return found


@settings(deadline=None)
@given(lengths=st.lists(LENGTHS, max_size=6))
def test_messages_come_out_as_they_went_in_when_the_reader_reads(lengths: list[int]) -> None:
    async def run() -> None:
        a, _, b, inbox = pair()
        messages = [bytes([n + 1]) * length for n, length in enumerate(lengths)]
        for message in messages:
            a.queue(message)
        received: list[bytes] = []
        while exchange(a, b) or inbox._messages:
            received += await take_all(inbox)
        assert received == messages
        assert a.queued_bytes == 0

    asyncio.run(run())


def test_a_reader_that_is_behind_stops_its_sender() -> None:
    a, _, b, inbox = pair()
    for _ in range(20):
        a.queue(bytes(1 << 20))
    assert exchange(a, b) <= WINDOW_BYTES + (1 << 20)
    assert inbox.is_full
    assert a.next_piece() is None


def test_many_short_messages_cost_what_they_take_in_memory() -> None:
    a, _, b, inbox = pair()
    for _ in range(60_000):
        a.queue(b"")
    exchange(a, b)
    assert len(inbox._messages) <= (WINDOW_BYTES + (1 << 20)) // PIECE_OVERHEAD + 1


def test_pings_and_credit_pass_while_messages_wait() -> None:
    a, _, b, _ = pair()
    for _ in range(20):
        a.queue(bytes(1 << 20))
    exchange(a, b)
    a.queue_ping()
    assert a.next_piece() == bytes([PieceKind.PING])


def test_who_sends_more_than_allowed_is_cut_off() -> None:
    _, _, b, inbox = pair()
    piece = bytes([PieceKind.LAST]) + bytes(PIECE_BYTES - 1)
    with pytest.raises(ChannelClosedError, match="more than it was allowed"):
        list(map(b.receive, [piece] * (WINDOW_BYTES // PIECE_BYTES + 1)))
    assert inbox._held_bytes <= WINDOW_BYTES + PIECE_BYTES


def test_a_message_that_never_ends_is_cut_off() -> None:
    _, _, b, _ = pair(inbox_bytes=1 << 30)
    piece = bytes([PieceKind.MORE]) + bytes(PIECE_BYTES - 1)
    with pytest.raises(ChannelClosedError, match="too long"):
        receive_all(b, [piece] * (MAX_MESSAGE_BYTES // PIECE_BYTES + 2))


def receive_all(stream: FragmentStream, pieces: list[bytes]) -> None:
    """Take pieces, giving credit for them as long as the inbox has room."""
    for piece in pieces:
        stream.receive(piece)
        stream.next_piece()


@pytest.mark.parametrize(
    "piece",
    [
        b"",
        bytes([PieceKind.MORE]),
        bytes([PieceKind.LAST]) + bytes(PIECE_BYTES),
        bytes([PieceKind.CREDIT]) + b"\x00\x00\x01",
        bytes([PieceKind.CREDIT]) + b"\xff\xff\xff\xff",
        bytes([PieceKind.CLOSE]) + bytes(MAX_REASON_BYTES + 1),
        bytes([PieceKind.PING, 0]),
        bytes([5]),
        b"\xff",
    ],
)
def test_a_piece_that_nobody_sends_is_refused(piece: bytes) -> None:
    _, _, b, _ = pair()
    with pytest.raises(ChannelClosedError) as caught:
        b.receive(piece)
    assert caught.value.code == ErrorCode.BAD_MESSAGE


@given(pieces=st.lists(st.binary(max_size=40), max_size=20))
def test_hostile_pieces_end_in_one_known_way(pieces: list[bytes]) -> None:
    _, _, b, inbox = pair()
    for piece in pieces:
        try:
            b.receive(piece)
        except ChannelClosedError:
            return
    assert inbox._held_bytes < WINDOW_BYTES


def test_after_a_close_nothing_more_is_said() -> None:
    a, _, b, inbox = pair()
    a.queue(b"last words")
    a.queue_close(b"bye")
    b.queue(b"never said")
    a.queue_ping()
    assert [piece and piece[0] for piece in iter(a.next_piece, None)] == [
        PieceKind.PING,
        PieceKind.LAST,
        PieceKind.CLOSE,
    ]
    b.receive(bytes([PieceKind.CLOSE]) + b"bye")
    assert inbox.ended is not None
    assert "bye" in inbox.ended.message
    assert list(iter(b.next_piece, None)) == [bytes([PieceKind.CLOSE])]
