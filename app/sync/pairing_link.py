"""Pairing over TCP: a thin link around the machines of ``app.sync.pairing``.

The inviter listens only while a code is valid, on a port that the system picks; each connection is a machine of its
own, all share the offer and so its tries. Whatever somebody sends, it ends that connection and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable

from app.core.errors import ErrorCode, ExpectedError
from app.storage.signing import DeviceKeys
from app.sync.addresses import Address
from app.sync.pairing import (
    Asked,
    Failed,
    Inviter,
    Joiner,
    Paired,
    PairingCode,
    PairingOffer,
    Welcome,
    Welcomed,
)

_log = logging.getLogger(__name__)
ANY_HOST = ""
"""Listen on all interfaces."""
CONNECTION_S = 30.0
"""Longest that one connection may take."""
CONNECT_S = 5.0
"""Longest wait for an address that does not answer, before the next is tried."""
MAX_CONNECTIONS = 8
_READ_BYTES = 65536
_LOOK_S = 1.0
"""How often an inviter to whom nobody comes looks whether its code is still valid."""

LetIn = Callable[[Asked], Awaitable[Welcome]]
"""Sign and store that a device belongs to the space; raises ``ExpectedError`` to refuse it."""
Enter = Callable[[Welcome, str], Awaitable[None]]
"""Check and store the space, whose inviter was reached at this host; raises ``ExpectedError`` to refuse it."""
Clock = Callable[[], float]
Tell = Callable[[ExpectedError], None]
"""Told of somebody who came and did not get in."""


def tell_nobody(_error: ExpectedError) -> None:
    """Keep it to the log."""


class PairingHost:
    """The inviter's side, for one offer."""

    def __init__(self, offer: PairingOffer, *, keys: DeviceKeys, let_in: LetIn, now_s: Clock) -> None:
        self._offer = offer
        self._keys = keys
        self._let_in = let_in
        self._now_s = now_s
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._paired: Asked | None = None
        self._tell: Tell = tell_nobody
        self._turn = asyncio.Event()
        """Set when a connection has ended."""
        self.port = 0

    async def start(self, host: str = ANY_HOST, port: int = 0) -> None:
        """Listen; raises ``ExpectedError`` unreachable when that address cannot be listened on."""
        try:
            self._server = await asyncio.start_server(self._accept, sock=_listening_socket(host, port))
        except (OSError, OverflowError) as error:
            raise ExpectedError(
                ErrorCode.UNREACHABLE, f"{host or 'This computer'} port {port} cannot be listened on ({error})."
            ) from error
        self.port = int(self._server.sockets[0].getsockname()[1])

    async def wait(self, tell: Tell = tell_nobody) -> Asked:
        """Return who was paired; raises ``ExpectedError`` code-expired when the code became void before."""
        self._tell = tell
        while self._paired is None:
            self._offer.check_valid(self._now_s())
            self._turn.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._turn.wait(), _LOOK_S)
        return self._paired

    async def close(self) -> None:
        """Listen no more and end all connections."""
        if self._server is not None:
            self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._connections) >= MAX_CONNECTIONS:
            writer.close()
            return
        self._connections.add(task)
        try:
            async with asyncio.timeout(CONNECTION_S):
                await self._serve(reader, writer)
        except (OSError, TimeoutError) as error:
            _log.info("a pairing connection ended: %s", error)
        except asyncio.CancelledError:
            pass
        finally:
            self._connections.discard(task)
            self._turn.set()
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        machine = Inviter(self._offer, keys=self._keys)
        asked: Asked | None = None
        try:
            while not machine.is_over:
                await _receive(machine, reader, self._now_s)
                while (event := machine.next_event()) is not None:
                    match event:
                        case Asked():
                            asked = event
                            await self._answer(machine, event)
                        case Paired():
                            self._paired = asked
                        case Failed():
                            _log.info("pairing: %s", event.error.message)
                            self._tell(event.error)
                        case _:
                            pass
                await _flush(machine, writer)
        finally:
            machine.connection_lost()

    async def _answer(self, machine: Inviter, asked: Asked) -> None:
        try:
            machine.welcome(await self._let_in(asked))
        except ExpectedError as error:
            machine.refuse(error)


async def join_at(
    addresses: Iterable[Address],
    code: PairingCode,
    *,
    keys: DeviceKeys,
    name: str,
    space: str = "",
    statements: tuple[bytes, ...] = (),
    enter: Enter,
    now_s: Clock,
) -> None:
    """Join the inviter at the first of ``addresses`` that answers; ``space``, ``statements``: what it shares already.

    Raises ``ExpectedError``: unreachable (none answers, or the connection broke), wrong-code, code-expired, revoked,
    data-too-new, bad-message, or what ``enter`` raises.
    """
    tried: list[str] = []
    for address in addresses:
        try:
            async with asyncio.timeout(CONNECT_S):
                reader, writer = await asyncio.open_connection(address.host, address.port)
        except (OSError, TimeoutError):
            tried.append(str(address))
            continue
        try:
            async with asyncio.timeout(CONNECTION_S):
                machine = Joiner(code, keys=keys, name=name, space=space, statements=statements)
                await _join(reader, writer, machine, address, enter, now_s)
        except (OSError, TimeoutError) as error:
            raise ExpectedError(
                ErrorCode.UNREACHABLE, f"The connection to {address} broke or took too long; try again."
            ) from error
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        return
    raise ExpectedError(
        ErrorCode.UNREACHABLE,
        f"No device that shows a code answers at {', '.join(tried)}. Check that “hearthreel pair” still runs there, "
        "that the address is right, and that no firewall is in the way.",
    )


async def _join(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    machine: Joiner,
    address: Address,
    enter: Enter,
    now_s: Clock,
) -> None:
    await _flush(machine, writer)
    while not machine.is_over:
        await _receive(machine, reader, now_s)
        failure: ExpectedError | None = None
        while (event := machine.next_event()) is not None:
            match event:
                case Welcomed():
                    try:
                        await enter(event.welcome, address.host)
                        machine.joined()
                    except ExpectedError as error:
                        machine.refuse(error)
                case Failed():
                    failure = event.error
                case _:
                    pass
        await _flush(machine, writer)
        if failure is not None:
            raise failure


async def _receive(machine: Inviter | Joiner, reader: asyncio.StreamReader, now_s: Clock) -> None:
    data = await reader.read(_READ_BYTES)
    if data:
        machine.receive_data(data, now_s=now_s())
    else:
        machine.connection_lost()


async def _flush(machine: Inviter | Joiner, writer: asyncio.StreamWriter) -> None:
    data = machine.data_to_send()
    if data:
        writer.write(data)
        with contextlib.suppress(ConnectionError):  # the other side has said its last word; reading tells
            await writer.drain()


def _listening_socket(host: str, port: int) -> socket.socket:
    if host != ANY_HOST:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):  # built in, and switched off
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))
