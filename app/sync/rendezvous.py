"""The rendezvous on a socket: what anyone can host with ``hearthreel rendezvous``, and how a device uses one."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import ssl
from collections import Counter, deque
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

import aiohttp
from aiohttp import web

from app.core.clock import Clock, SystemClock
from app.core.errors import ErrorCode, ExpectedError
from app.sync.rendezvous_protocol import (
    MAX_FRAME_BYTES,
    PATH,
    Limits,
    Listen,
    Mailboxes,
    Put,
    decode_delivered,
    encode,
)

MOST_CONNECTIONS: Final = 4096
MOST_FROM_ONE_ADDRESS: Final = 32
_HEARTBEAT_S: Final = 25.0
"""A connection that does not answer for about this long is dropped."""
_DELIVER_WITHIN_S: Final = 2.0
_CONNECT_WITHIN_S: Final = 10.0
_UNREAD: Final = 100
"""How many messages wait for a device that does not take them; the oldest go."""


class RendezvousServer:
    """Passes sealed messages on; keeps and logs nothing."""

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        limits: Limits | None = None,
        most_from_one_address: int = MOST_FROM_ONE_ADDRESS,
        behind_proxy: bool = False,
    ) -> None:
        """``behind_proxy`` says that a proxy in front names the visitors in X-Forwarded-For, and may be believed."""
        self._clock = clock or SystemClock()
        self._mailboxes = Mailboxes(limits)
        self._most_from_one_address = most_from_one_address
        self._behind_proxy = behind_proxy
        self._sockets: dict[int, web.WebSocketResponse] = {}
        self._from_address: Counter[str] = Counter()
        self._numbers = itertools.count()
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def start(self, *, host: str | None = None, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        """Listen; raises ``ExpectedError`` bad-setting when the port cannot be had."""
        application = web.Application()
        application.router.add_get(PATH, self._serve)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port, ssl_context=tls)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            raise ExpectedError(
                ErrorCode.BAD_SETTING, f"The rendezvous cannot listen on port {port}: {error.strerror or error}."
            ) from error
        self.port = self._runner.addresses[0][1]

    async def close(self) -> None:
        """Disconnect everybody."""
        for socket in list(self._sockets.values()):
            await socket.close(code=aiohttp.WSCloseCode.GOING_AWAY)
        if self._runner is not None:
            await self._runner.cleanup()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        address = self._visitor(request)
        if len(self._sockets) >= MOST_CONNECTIONS or self._from_address[address] >= self._most_from_one_address:
            raise web.HTTPTooManyRequests(text="Too many devices here; try again later.")
        self._from_address[address] += 1
        number = next(self._numbers)
        try:
            return await self._speak(request, number)
        finally:
            self._mailboxes.left(number)
            self._sockets.pop(number, None)
            self._from_address[address] -= 1
            self._from_address += Counter()  # forgets addresses without connections

    def _visitor(self, request: web.Request) -> str:
        named = request.headers.get("X-Forwarded-For", "").rpartition(",")[2].strip() if self._behind_proxy else ""
        return named or request.remote or ""

    async def _speak(self, request: web.Request, number: int) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(max_msg_size=MAX_FRAME_BYTES, heartbeat=_HEARTBEAT_S, compress=False)
        await socket.prepare(request)
        self._sockets[number] = socket
        self._mailboxes.joined(number, self._clock.monotonic_s())
        try:
            async for message in socket:
                if message.type is not aiohttp.WSMsgType.BINARY:
                    break
                await self._pass_on(number, message.data)
        except ExpectedError as error:
            await socket.close(code=aiohttp.WSCloseCode.POLICY_VIOLATION, message=error.message.encode()[:120])
        return socket

    async def _pass_on(self, number: int, frame: bytes) -> None:
        receivers, delivered = self._mailboxes.receive(number, frame, self._clock.monotonic_s())
        for receiver in receivers:
            socket = self._sockets.get(receiver)
            if socket is None:
                continue
            with contextlib.suppress(TimeoutError, ConnectionError, RuntimeError):
                async with asyncio.timeout(_DELIVER_WITHIN_S):
                    await socket.send_bytes(delivered)


def server_tls(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return what a rendezvous needs for ``wss://``; raises ``ExpectedError`` bad-setting for other files."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise ExpectedError(
            ErrorCode.BAD_SETTING,
            f"{certificate} and {key} are not a certificate chain and its key in PEM form ({error}).",
        ) from error
    return context


class RendezvousLink:
    """A device's connection to a rendezvous; ``open_rendezvous`` makes one."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._unread: deque[bytes] = deque(maxlen=_UNREAD)
        self._changed = asyncio.Event()
        self._ended: ExpectedError | None = None

    async def listen(self, mailboxes: Sequence[bytes]) -> None:
        """Receive what is put into these mailboxes from now on, and nothing from others."""
        await self._send(encode(Listen(mailboxes=tuple(mailboxes))))

    async def put(self, mailbox: bytes, sealed: bytes) -> None:
        """Give something sealed to whoever listens at a mailbox; it may be lost."""
        await self._send(encode(Put(mailbox=mailbox, sealed=sealed)))

    async def take(self) -> bytes:
        """Return the next thing that was put into our mailboxes; raises ``ExpectedError`` unreachable at the end."""
        while not self._unread:
            if self._ended is not None:
                raise self._ended
            self._changed.clear()
            await self._changed.wait()
        return self._unread.popleft()

    async def read(self) -> None:
        """Take in what the rendezvous delivers, until it ends."""
        try:
            async for message in self._socket:
                if message.type is aiohttp.WSMsgType.BINARY:
                    self._unread.append(decode_delivered(message.data).sealed)
                    self._changed.set()
        except ExpectedError as error:
            self._ended = error
        finally:
            self._ended = self._ended or _ended_by(self._socket)
            self._changed.set()

    async def _send(self, frame: bytes) -> None:
        try:
            await self._socket.send_bytes(frame)
        except (ConnectionError, RuntimeError, aiohttp.ClientError) as error:
            raise _ended_by(self._socket) from error


@contextlib.asynccontextmanager
async def open_rendezvous(url: str) -> AsyncIterator[RendezvousLink]:
    """Lend a connection to the rendezvous at ``url`` (``wss://host`` or ``ws://host:port``).

    Raises ``ExpectedError`` unreachable, or bad-setting for what is no such address.
    """
    if not url.startswith(("ws://", "wss://")):
        raise ExpectedError(
            ErrorCode.BAD_SETTING, f"“{url}” is not the address of a rendezvous; write wss://HOST or ws://HOST:PORT."
        )
    async with aiohttp.ClientSession() as session:
        socket = await _connect(session, url)
        link = RendezvousLink(socket)
        reading = asyncio.create_task(link.read())
        try:
            yield link
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            await socket.close()


async def _connect(session: aiohttp.ClientSession, url: str) -> aiohttp.ClientWebSocketResponse:
    try:
        async with asyncio.timeout(_CONNECT_WITHIN_S):
            return await session.ws_connect(
                url.rstrip("/") + PATH, max_msg_size=MAX_FRAME_BYTES, heartbeat=_HEARTBEAT_S, autoping=True
            )
    except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
        why = "it has too many visitors" if getattr(error, "status", 0) == 429 else str(error) or "it does not answer"
        raise ExpectedError(
            ErrorCode.UNREACHABLE, f"The rendezvous {url} cannot be used: {why}. Devices in one network do not need it."
        ) from error


def _ended_by(socket: aiohttp.ClientWebSocketResponse) -> ExpectedError:
    if socket.close_code == aiohttp.WSCloseCode.POLICY_VIOLATION:
        return ExpectedError(ErrorCode.UNREACHABLE, "The rendezvous has sent this device away for a while.")
    return ExpectedError(ErrorCode.UNREACHABLE, "The connection to the rendezvous was lost; it is tried again.")
