"""Devices that meet at a rendezvous, come back to it, and are not kept busy by old offers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

import pytest

from app.core.clock import SystemClock
from app.core.errors import ErrorCode, ExpectedError
from app.sync.descriptions import Description, sign_description
from app.sync.meeting import MOST_ACCEPTING, Meeting
from app.sync.rendezvous import RendezvousServer, open_rendezvous
from app.sync.webrtc import WebRtcConnection
from tests.sync.channel_links import SEED_A, SEED_B, only_loopback
from tests.sync.test_rendezvous import A, B, hosting, trust_of, until_listening, url_of

pytestmark = pytest.mark.timeout(60)
Arrivals = asyncio.Queue[WebRtcConnection]


@pytest.fixture(autouse=True)
def _loopback() -> Iterator[None]:
    with only_loopback():
        yield


@contextlib.asynccontextmanager
async def meeting(url: str, seed: bytes, *members: bytes) -> AsyncIterator[tuple[Meeting, Arrivals]]:
    """Lend a device that is at the rendezvous, or tries to be."""
    arrivals: Arrivals = asyncio.Queue()
    made = Meeting(
        url=url,
        seed=seed,
        trust=trust_of(seed, *members),
        on_connection=arrivals.put_nowait,
        clock=SystemClock(),
        spread=lambda: 0.0,
    )
    running = asyncio.create_task(made.run())
    yield made, arrivals
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    while not arrivals.empty():
        await arrivals.get_nowait().close()


async def both_there(server: RendezvousServer) -> None:
    await until_listening(server, *(trust_of(seed).mailboxes_of(key)[0] for seed, key in ((SEED_A, A), (SEED_B, B))))


async def test_either_device_may_offer() -> None:
    async with (
        hosting() as server,
        meeting(url_of(server), SEED_A, B) as (a, at_a),
        meeting(url_of(server), SEED_B, A) as (b, at_b),
    ):
        await both_there(server)
        for one, key, other in ((a, B, at_b), (b, A, at_a)):
            there = await one.connect(key)
            here = await other.get()
            await there.control.send(b"hello")
            assert await here.control.receive() == b"hello"
            await asyncio.gather(there.close(), here.close())


async def test_after_the_rendezvous_was_away_devices_come_back() -> None:
    async with hosting() as first:
        port = first.port
        async with meeting(url_of(first), SEED_A, B) as (a, _), meeting(url_of(first), SEED_B, A) as (_, at_b):
            await both_there(first)
            await first.close()
            while a.arrived.is_set():  # noqa: ASYNC110 - one turn of the loop at a time
                await asyncio.sleep(0)
            with pytest.raises(ExpectedError, match="rendezvous") as caught:
                await a.connect(B)
            assert caught.value.code == ErrorCode.UNREACHABLE
            second = RendezvousServer()
            await second.start(host="127.0.0.1", port=port)
            await both_there(second)
            await a.arrived.wait()
            there = await a.connect(B)
            here = await at_b.get()
            await asyncio.gather(there.close(), here.close())
            await second.close()


async def test_old_offers_that_are_repeated_do_not_keep_a_device_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    accepting = 0
    most = 0

    async def never(_meeting: Meeting, _offered: object) -> WebRtcConnection:
        nonlocal accepting, most
        accepting += 1
        most = max(most, accepting)
        try:
            await asyncio.Event().wait()
        finally:
            accepting -= 1
        raise AssertionError

    monkeypatch.setattr(Meeting, "_accept", never)
    async with hosting() as server, meeting(url_of(server), SEED_B, A), open_rendezvous(url_of(server)) as host:
        (box,) = trust_of(SEED_B).mailboxes_of(B)
        await until_listening(server, box)
        old = trust_of(SEED_A).seal(old_offer(), B)
        for _ in range(20):
            await host.put(box, old)
        async with asyncio.timeout(10):
            while most < MOST_ACCEPTING:  # noqa: ASYNC110 - one turn of the loop at a time
                await asyncio.sleep(0)
    assert (most, accepting) == (MOST_ACCEPTING, 0)


async def test_an_offer_that_breaks_something_does_not_end_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tried = asyncio.Semaphore(0)

    async def broken(_meeting: Meeting, _offered: object) -> WebRtcConnection:
        tried.release()
        raise ValueError("nobody thought of this")

    monkeypatch.setattr(Meeting, "_accept", broken)
    async with hosting() as server, meeting(url_of(server), SEED_B, A), open_rendezvous(url_of(server)) as host:
        (box,) = trust_of(SEED_B).mailboxes_of(B)
        await until_listening(server, box)
        async with asyncio.timeout(10):
            for _ in range(3 * MOST_ACCEPTING):
                await host.put(box, trust_of(SEED_A).seal(old_offer(), B))
                await tried.acquire()
    assert "nobody thought of this" in caplog.text


def old_offer() -> bytes:
    return sign_description(Description(kind="offer", sender=A, recipient=B, attempt="1", sdp=""), seed=SEED_A)
