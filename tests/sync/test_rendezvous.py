"""The rendezvous over loopback sockets, and peer connections that are arranged there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from app.core.errors import ErrorCode, ExpectedError
from app.storage.signing import DeviceKeys, seal_to_device
from app.sync.descriptions import Description, sign_description
from app.sync.rendezvous import RendezvousServer, open_rendezvous, server_tls
from app.sync.rendezvous_protocol import MAX_SEALED_BYTES, PATH, Limits, mailbox_of
from app.sync.signalling import MailSignalling, Trust
from app.sync.tls import TlsIdentity
from app.sync.webrtc import accept_webrtc, connect_webrtc
from tests.sync.channel_links import SEED_A, SEED_B, only_loopback

pytestmark = pytest.mark.timeout(60)
SEED_M = b"m" * 32
A, B, M = (TlsIdentity(seed).public_key for seed in (SEED_A, SEED_B, SEED_M))
BOX = b"1" * 16
SECRET = b"of the space"


@contextlib.asynccontextmanager
async def hosting(limits: Limits | None = None, *, most_from_one_address: int = 32) -> AsyncIterator[RendezvousServer]:
    server = RendezvousServer(limits=limits, most_from_one_address=most_from_one_address)
    await server.start(host="127.0.0.1")
    yield server
    await server.close()


@pytest.fixture
async def server() -> AsyncIterator[RendezvousServer]:
    async with hosting() as made:
        yield made


def url_of(server: RendezvousServer) -> str:
    return f"ws://127.0.0.1:{server.port}"


async def test_what_is_put_reaches_whoever_listens(server: RendezvousServer) -> None:
    async with open_rendezvous(url_of(server)) as a, open_rendezvous(url_of(server)) as b:
        await b.listen([BOX])
        taking = asyncio.create_task(b.take())
        while not taking.done():
            await a.put(BOX, b"sealed")
            await asyncio.wait([taking], timeout=0.1)
        assert taking.result() == b"sealed"


async def test_the_longest_message_passes(server: RendezvousServer) -> None:
    async with open_rendezvous(url_of(server)) as a, open_rendezvous(url_of(server)) as b:
        await b.listen([BOX])
        await until_listening(server, BOX)
        await a.put(BOX, bytes(MAX_SEALED_BYTES))
        assert await b.take() == bytes(MAX_SEALED_BYTES)


async def until_listening(server: RendezvousServer, *boxes: bytes) -> None:
    async with asyncio.timeout(10):
        while not set(boxes) <= set(server._mailboxes._listeners):  # noqa: ASYNC110 - one turn of the loop at a time
            await asyncio.sleep(0)


async def test_who_sends_too_much_is_disconnected_and_told() -> None:
    async with hosting(Limits(burst=3, per_s=0)) as server, open_rendezvous(url_of(server)) as link:
        for _ in range(4):
            await link.put(BOX, b"x")
        with pytest.raises(ExpectedError, match="sent this device away"):
            await link.take()


@pytest.mark.parametrize("frame", [b"nonsense", bytes(200_000)])
async def test_nonsense_ends_that_connection_and_no_other(server: RendezvousServer, frame: bytes) -> None:
    async with open_rendezvous(url_of(server)) as good, aiohttp.ClientSession() as session:
        await good.listen([BOX])
        await until_listening(server, BOX)
        async with session.ws_connect(url_of(server) + PATH) as bad:
            await bad.send_bytes(frame)
            assert (await bad.receive()).type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)
        async with open_rendezvous(url_of(server)) as other:
            await other.put(BOX, b"still here")
            assert await good.take() == b"still here"


async def test_one_address_cannot_take_all_places() -> None:
    async with hosting(most_from_one_address=2) as server, contextlib.AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(open_rendezvous(url_of(server)))
        with pytest.raises(ExpectedError, match="too many visitors"):
            await stack.enter_async_context(open_rendezvous(url_of(server)))


async def test_behind_a_proxy_visitors_are_told_apart_by_what_it_says() -> None:
    server = RendezvousServer(most_from_one_address=1, behind_proxy=True)
    await server.start(host="127.0.0.1")
    async with aiohttp.ClientSession() as session:
        address = url_of(server) + PATH
        one = await session.ws_connect(address, headers={"X-Forwarded-For": "10.0.0.9, 203.0.113.1"})
        other = await session.ws_connect(address, headers={"X-Forwarded-For": "10.0.0.9, 203.0.113.2"})
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await session.ws_connect(address, headers={"X-Forwarded-For": "forged, 203.0.113.1"})
        await asyncio.gather(one.close(), other.close())
    await server.close()


async def test_it_speaks_tls_where_it_has_a_certificate(tmp_path: Path) -> None:
    identity = TlsIdentity(SEED_M)
    pem = identity._certificate.public_bytes(Encoding.PEM)
    key = identity._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    files = [write(tmp_path / "certificate", pem), write(tmp_path / "key", key)]
    server = RendezvousServer()
    await server.start(host="127.0.0.1", tls=server_tls(*files))
    async with aiohttp.ClientSession() as session:
        address = url_of(server).replace("ws:", "wss:") + PATH
        async with session.ws_connect(address, ssl=False) as socket:
            assert not socket.closed
    with pytest.raises(ExpectedError, match="cannot be used"):
        await open_rendezvous(url_of(server).replace("ws:", "wss:")).__aenter__()
    await server.close()


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


async def test_a_rendezvous_that_is_away_or_ends_is_said() -> None:
    async with hosting() as server:
        url = url_of(server)
        async with open_rendezvous(url) as link:
            await server.close()
            with pytest.raises(ExpectedError, match="was lost") as caught:
                await link.take()
            assert caught.value.code == ErrorCode.UNREACHABLE
    with pytest.raises(ExpectedError, match="cannot be used"):
        await open_rendezvous(url).__aenter__()
    with pytest.raises(ExpectedError, match="write wss://HOST"):
        await open_rendezvous("example.org").__aenter__()


async def test_a_port_that_is_taken_is_said(server: RendezvousServer) -> None:
    with pytest.raises(ExpectedError, match="cannot listen on port"):
        await RendezvousServer().start(host="127.0.0.1", port=server.port)


def trust_of(seed: bytes, *members: bytes) -> Trust:
    keys = DeviceKeys(seed)
    return Trust(
        own_key=keys.public,
        is_member=lambda key: key in members,
        mailboxes_of=lambda key: (mailbox_of(key, secret=SECRET),),
        seal=seal_to_device,
        open=keys.open_sealed,
    )


@contextlib.asynccontextmanager
async def at(server: RendezvousServer, seed: bytes, *members: bytes) -> AsyncIterator[MailSignalling]:
    """Lend the signalling of a device that listens at its mailbox."""
    trust = trust_of(seed, *members)
    async with open_rendezvous(url_of(server)) as link:
        await link.listen(trust.mailboxes_of(trust.own_key))
        await until_listening(server, *trust.mailboxes_of(trust.own_key))
        signalling = MailSignalling(link, trust)
        running = asyncio.create_task(signalling.run())
        yield signalling
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.fixture
def loopback() -> Iterator[None]:
    with only_loopback():
        yield


@pytest.fixture
def passed(server: RendezvousServer, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return all that the rendezvous gets to see."""
    seen: list[bytes] = []
    honest = server._mailboxes.receive

    def receive(connection: int, frame: bytes, now_s: float) -> tuple[tuple[int, ...], bytes]:
        seen.append(frame)
        return honest(connection, frame, now_s)

    monkeypatch.setattr(server._mailboxes, "receive", receive)
    return seen


@pytest.mark.usefixtures("loopback")
async def test_two_devices_meet_at_a_rendezvous_that_learns_nothing(
    server: RendezvousServer, passed: list[bytes]
) -> None:
    async with at(server, SEED_A, B) as at_a, at(server, SEED_B, A) as at_b:
        offering = asyncio.create_task(connect_webrtc(seed=SEED_A, peer_key=B, signalling=at_a.with_device(B)))
        b = await accept_webrtc(seed=SEED_B, is_member=lambda key: key == A, signalling=await at_b.next_offer())
        a = await offering
        await a.control.send(b"hello")
        assert await b.control.receive() == b"hello"
        await asyncio.gather(a.close(), b.close())
    everything = b"".join(passed)
    for secret in (A, B, A.hex().encode(), b"fingerprint", b"candidate", b"127.0.0.1"):
        assert secret not in everything


async def test_what_strangers_put_into_a_mailbox_is_dropped(server: RendezvousServer) -> None:
    (box,) = trust_of(SEED_B).mailboxes_of(B)
    seal = trust_of(SEED_B).seal
    offer = Description(kind="offer", sender=M, recipient=B, attempt="1", sdp="")
    honest = Description(kind="offer", sender=A, recipient=B, attempt="2", sdp="")
    async with at(server, SEED_B, A) as at_b, open_rendezvous(url_of(server)) as stranger:
        await stranger.put(box, b"not sealed")
        await stranger.put(box, seal(b"not signed", B))
        await stranger.put(box, seal(sign_description(offer, seed=SEED_M), B))
        forged = Description(kind="offer", sender=A, recipient=B, attempt="3", sdp="")
        await stranger.put(box, seal(sign_description(forged, seed=SEED_M), B))
        await stranger.put(box, seal(sign_description(honest, seed=SEED_A), B))
        async with asyncio.timeout(10):
            signalling = await at_b.next_offer()
        assert await signalling.receive() == sign_description(honest, seed=SEED_A)


async def test_a_flood_of_offers_keeps_only_the_newest(server: RendezvousServer) -> None:
    (box,) = trust_of(SEED_B).mailboxes_of(B)
    async with at(server, SEED_B, A) as at_b, open_rendezvous(url_of(server)) as a:
        for n in range(30):
            offer = Description(kind="offer", sender=A, recipient=B, attempt=str(n), sdp="")
            await a.put(box, trust_of(SEED_A).seal(sign_description(offer, seed=SEED_A), B))
        async with asyncio.timeout(10):
            assert await (await at_b.next_offer()).receive()
        assert at_b._offers.qsize() <= 16
