"""The implementations of a channel, each as a link that a contract test can use and break."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass

import pytest

from app.sync.addresses import Address
from app.sync.channel import Channel, peer_vanished
from app.sync.direct import DirectListener, connect_direct
from app.sync.direct_channel import DirectChannel
from app.sync.memory_channel import memory_channels
from app.sync.pace import Pace
from app.sync.tls import TlsIdentity
from app.sync.webrtc import Signalling, WebRtcConnection, accept_webrtc, connect_webrtc

KEY_A, KEY_B = b"A" * 32, b"B" * 32
SEED_A, SEED_B = b"a" * 32, b"b" * 32


@dataclass(frozen=True, kw_only=True)
class Link:
    """Two ends, A's and B's, and how to lose the connection between them."""

    a: Channel
    b: Channel
    key_a: bytes
    key_b: bytes
    vanish: Callable[[], Awaitable[None]]


@contextlib.asynccontextmanager
async def memory_link() -> AsyncIterator[Link]:
    a, b = memory_channels(KEY_A, KEY_B)

    async def vanish() -> None:
        a.vanish()

    yield Link(a=a, b=b, key_a=KEY_A, key_b=KEY_B, vanish=vanish)


class Relay:
    """A TCP relay on loopback that can stop passing anything on, without closing."""

    def __init__(self, port: int) -> None:
        self._to_port = port
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._changes = False
        self._flows = asyncio.Event()
        self._flows.set()
        self.seen = bytearray()
        """All bytes that passed, both ways."""

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def swallow(self) -> None:
        """Pass on nothing more and say nothing."""
        self._flows.clear()

    def change_next(self) -> None:
        """Flip a bit in the middle of what passes next."""
        self._changes = True

    def cut(self) -> None:
        """Reset both connections."""
        for writer in self._writers:
            writer.transport.abort()

    async def close(self) -> None:
        self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._to_port)
        self._writers += [writer, far_writer]
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            self._tasks.add(asyncio.create_task(self._pass_on(source, sink)))

    async def _pass_on(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                await self._flows.wait()
                if self._changes:
                    self._changes = False
                    middle = len(data) // 2
                    data = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
                self.seen += data
                sink.write(data)
                await sink.drain()
            sink.write_eof()


@dataclass(kw_only=True)
class Listening:
    """A device that listens, who it lets in, and the channels that were opened to it."""

    identity: TlsIdentity
    members: set[bytes]
    listener: DirectListener
    channels: asyncio.Queue[DirectChannel]

    @property
    def address(self) -> Address:
        return Address(host="127.0.0.1", port=self.listener.port)


@contextlib.asynccontextmanager
async def listening(
    seed: bytes, *members: bytes, pace: Pace | None = None, open_within_s: float = 10
) -> AsyncIterator[Listening]:
    """Lend a device that listens on loopback for ``members``."""
    identity, known = TlsIdentity(seed), set(members)
    channels: asyncio.Queue[DirectChannel] = asyncio.Queue()
    listener = DirectListener(
        identity=identity,
        is_member=lambda key: key in known,
        on_channel=channels.put_nowait,
        pace=pace,
        open_within_s=open_within_s,
    )
    await listener.start(host="127.0.0.1")
    yield Listening(identity=identity, members=known, listener=listener, channels=channels)
    await listener.close()


@contextlib.asynccontextmanager
async def direct_link() -> AsyncIterator[Link]:
    identity = TlsIdentity(SEED_A)
    async with listening(SEED_B, identity.public_key) as there:
        relay = Relay(there.listener.port)
        address = Address(host="127.0.0.1", port=await relay.start())
        a = await connect_direct(address, identity=identity, expected_key=there.identity.public_key)
        b = await there.channels.get()

        async def vanish() -> None:
            relay.cut()

        yield Link(a=a, b=b, key_a=identity.public_key, key_b=there.identity.public_key, vanish=vanish)
        await relay.close()


def signalling_pair() -> tuple[Signalling, Signalling]:
    """Return two ends of a signalling that carries everything."""
    there: asyncio.Queue[bytes] = asyncio.Queue()
    back: asyncio.Queue[bytes] = asyncio.Queue()
    return Signalling(send=there.put, receive=back.get), Signalling(send=back.put, receive=there.get)


@contextlib.contextmanager
def only_loopback() -> Iterator[None]:
    """Let ICE gather nothing but loopback."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("aioice.ice.get_host_addresses", lambda **_which: ["127.0.0.1"])
        yield


@contextlib.asynccontextmanager
async def webrtc_connections(pace: Pace | None = None) -> AsyncIterator[tuple[WebRtcConnection, WebRtcConnection]]:
    """Lend both ends of a peer connection, A's and B's."""
    at_a, at_b = signalling_pair()
    key_a, key_b = TlsIdentity(SEED_A).public_key, TlsIdentity(SEED_B).public_key
    with only_loopback():
        a, b = await asyncio.gather(
            connect_webrtc(seed=SEED_A, peer_key=key_b, signalling=at_a, pace=pace),
            accept_webrtc(seed=SEED_B, is_member=lambda key: key == key_a, signalling=at_b, pace=pace),
        )
    yield a, b
    for one in (a, b):
        one.lose(peer_vanished())
        await one.ended()


@contextlib.asynccontextmanager
async def webrtc_link() -> AsyncIterator[Link]:
    async with webrtc_connections(Pace(tick_s=0.5)) as (a, b):

        async def vanish() -> None:
            cut_wires(a)

        yield Link(a=a.shards, b=b.shards, key_a=b.peer_key, key_b=a.peer_key, vanish=vanish)


def cut_wires(connection: WebRtcConnection) -> None:
    """Let no packet of a connection leave or arrive any more, without telling anybody."""

    async def swallow(_data: bytes, _address: object) -> None:
        """Lose a packet."""

    sctp = connection._peer.sctp
    assert sctp is not None
    for protocol in sctp.transport.transport._connection._protocols:
        vars(protocol).update(send_data=swallow, datagram_received=lambda _data, _address: None)


LINKS = (memory_link, direct_link, webrtc_link)
