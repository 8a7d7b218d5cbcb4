"""The contract of a channel, on every implementation."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import logging
from collections.abc import AsyncIterator

import pytest

from app.core.errors import BugError, ErrorCode
from app.sync.channel import MAX_MESSAGE_BYTES, MAX_REASON_BYTES, Channel, ChannelClosedError
from app.sync.inbox import INBOX_BYTES
from tests.sync.channel_links import LINKS, Link

pytestmark = pytest.mark.timeout(60)
BLOCK = 1 << 20
MOST_IN_FLIGHT = INBOX_BYTES + 24 * BLOCK
"""The inbox, buffers of both sides, and what the system holds in between."""


@pytest.fixture(params=LINKS, ids=lambda make: make.__name__)
async def link(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> AsyncIterator[Link]:
    async with request.param() as made:
        yield made
        await asyncio.gather(made.a.close(), made.b.close())
    gc.collect()  # a task whose exception nobody asked for complains when it goes
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_each_end_knows_whom_it_talks_to(link: Link) -> None:
    assert (link.a.peer_key, link.b.peer_key) == (link.key_b, link.key_a)
    assert link.a.path == link.b.path


async def test_messages_arrive_whole_and_in_order(link: Link) -> None:
    messages = [bytes([n % 251]) * n for n in (0, 1, 3, 4, 5, 1199, 1200, 16383, 16384, 65535, 65536, 65537, 300_000)]
    for message in messages:
        await link.a.send(message)
    assert [await link.b.receive() for _ in messages] == messages


async def test_hundreds_of_messages_are_in_flight_both_ways(link: Link) -> None:
    there = [b"there %d" % n for n in range(500)]
    back = [b"back %d" % n for n in range(500)]
    for one, other in zip(there, back, strict=True):
        await link.a.send(one)
        await link.b.send(other)
    assert [await link.b.receive() for _ in there] == there
    assert [await link.a.receive() for _ in back] == back


async def test_the_longest_message_arrives(link: Link) -> None:
    message = bytes(range(256)) * (MAX_MESSAGE_BYTES // 256)
    sending = asyncio.create_task(link.a.send(message))
    received = await link.b.receive()
    await sending
    assert hashlib.sha256(received).digest() == hashlib.sha256(message).digest()


async def test_a_message_that_is_too_long_is_a_mistake_of_ours(link: Link) -> None:
    with pytest.raises(BugError):
        await link.a.send(bytes(MAX_MESSAGE_BYTES + 1))
    await link.a.send(b"the channel goes on")
    assert await link.b.receive() == b"the channel goes on"


async def test_messages_of_several_senders_stay_whole(link: Link) -> None:
    async def send_all(letter: bytes) -> None:
        for n in range(1, 30):
            await link.a.send(letter * (n * 5000))

    senders = [asyncio.create_task(send_all(letter)) for letter in (b"x", b"y", b"z")]
    received = [await link.b.receive() for _ in range(87)]
    await asyncio.gather(*senders)
    assert all(len(set(message)) == 1 for message in received)
    for letter in b"xyz":
        assert [len(one) for one in received if one[0] == letter] == [n * 5000 for n in range(1, 30)]


async def fill(channel: Channel, *, most: int) -> int:
    """Send blocks until a send waits, which is then cancelled; returns how many were sent."""
    for sent in range(most):
        try:
            await asyncio.wait_for(channel.send(bytes(BLOCK)), timeout=1)
        except TimeoutError:
            return sent
    return most


async def test_a_peer_that_stops_reading_stops_the_sender_until_it_reads_again(link: Link) -> None:
    sent = await fill(link.a, most=4 * MOST_IN_FLIGHT // BLOCK)
    assert 1 <= sent <= MOST_IN_FLIGHT // BLOCK
    assert [len(await link.b.receive()) for _ in range(sent)] == [BLOCK] * sent
    await link.a.send(b"a cancelled send sent nothing")
    assert await link.b.receive() == b"a cancelled send sent nothing"


async def test_a_cancelled_receive_took_nothing(link: Link) -> None:
    receiving = asyncio.create_task(link.b.receive())
    await asyncio.sleep(0)
    receiving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await receiving
    await link.a.send(b"kept")
    assert await link.b.receive() == b"kept"


async def test_what_was_sent_before_closing_arrives_then_the_reason(link: Link) -> None:
    for n in range(3):
        await link.a.send(b"message %d" % n)
    closing = asyncio.create_task(link.a.close("it goes to sleep"))
    assert [await link.b.receive() for _ in range(3)] == [b"message 0", b"message 1", b"message 2"]
    with pytest.raises(ChannelClosedError, match="it goes to sleep") as caught:
        await link.b.receive()
    await closing
    assert caught.value.code == ErrorCode.DISCONNECTED
    with pytest.raises(ChannelClosedError, match="it goes to sleep"):
        await link.b.send(b"too late")


async def test_after_closing_here_nothing_more_comes(link: Link) -> None:
    await link.b.send(b"never read")
    await link.a.close("enough")
    for _ in range(2):
        with pytest.raises(ChannelClosedError, match="This device ended the connection: enough"):
            await link.a.receive()
        with pytest.raises(ChannelClosedError, match="This device ended the connection: enough"):
            await link.a.send(b"x")
    await link.a.close("again does nothing")


async def test_closing_ends_calls_that_wait(link: Link) -> None:
    receiving = asyncio.create_task(link.a.receive())
    await asyncio.sleep(0)
    await link.a.close()
    with pytest.raises(ChannelClosedError):
        await receiving


async def test_closing_ends_a_send_that_waits(link: Link) -> None:
    async def send_for_ever() -> None:
        while True:
            await link.a.send(bytes(BLOCK))

    sending = asyncio.create_task(send_for_ever())
    done, _ = await asyncio.wait([sending], timeout=0.5)
    assert not done
    await link.a.close()
    with pytest.raises(ChannelClosedError):
        await sending


async def test_both_may_close_at_once(link: Link) -> None:
    await asyncio.gather(link.a.close("a"), link.b.close("b"))
    with pytest.raises(ChannelClosedError):
        await link.a.receive()
    with pytest.raises(ChannelClosedError):
        await link.b.receive()


async def test_a_reason_that_is_too_long_or_unprintable_is_shown_cut(link: Link) -> None:
    await link.a.close("\x1b[31m\n" + "ä" * 2 * MAX_REASON_BYTES)
    with pytest.raises(ChannelClosedError) as caught:
        await link.b.receive()
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < MAX_REASON_BYTES


async def test_a_peer_that_vanishes_ends_calls_that_wait(link: Link) -> None:
    await link.a.send(b"arrived before")
    assert await link.b.receive() == b"arrived before"
    receiving = asyncio.create_task(link.b.receive())
    await asyncio.sleep(0)
    await link.vanish()
    with pytest.raises(ChannelClosedError, match="was lost"):
        await receiving
    with pytest.raises(ChannelClosedError):
        await link.b.send(b"x")
