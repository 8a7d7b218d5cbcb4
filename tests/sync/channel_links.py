"""The implementations of a channel, each as a link that a contract test can use and break."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from app.sync.addresses import Address
from app.sync.channel import Channel
from app.sync.direct import DirectListener, connect_direct
from app.sync.direct_channel import DirectChannel, Pace
from app.sync.memory_channel import memory_channels
from app.sync.tls import TlsIdentity

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


LINKS = (memory_link, direct_link)
