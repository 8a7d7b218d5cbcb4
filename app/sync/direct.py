"""Opening direct channels: listening for the owner's other devices, and connecting to them."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import socket
from collections.abc import Callable
from typing import Final

from app.core.errors import ErrorCode, ExpectedError
from app.sync.addresses import Address
from app.sync.direct_channel import DirectChannel, unreachable
from app.sync.direct_protocol import DirectConnection
from app.sync.pace import Pace
from app.sync.tls import AcceptKey, TlsIdentity

OPEN_WITHIN_S: Final = 10.0
"""How long the handshake may take."""
MOST_STRANGERS: Final = 64
"""How many connections may be in their handshake; one more drops the oldest, so that strangers cannot lock us out."""
_NEXT_ADDRESS_AFTER_S: Final = 0.25


class DirectListener:
    """Accepts direct channels from devices whose keys ``is_member`` accepts; ``on_channel`` gets each one, open."""

    def __init__(
        self,
        *,
        identity: TlsIdentity,
        is_member: AcceptKey,
        on_channel: Callable[[DirectChannel], None],
        pace: Pace | None = None,
        open_within_s: float = OPEN_WITHIN_S,
    ) -> None:
        self._identity = identity
        self._is_member = is_member
        self._on_channel = on_channel
        self._pace = pace or Pace()
        self._open_within_s = open_within_s
        self._strangers: dict[DirectChannel, asyncio.TimerHandle] = {}
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self, *, port: int = 0, host: str = "") -> None:
        """Listen on ``port`` (0 picks one) of ``host``, or of every network where it is empty, IPv4 and IPv6 alike.

        Raises ``ExpectedError`` bad-setting when the port cannot be had.
        """
        try:
            listening = _listen(host, port)
        except OSError as error:
            raise _cannot_listen(port, error) from error
        self.port = listening.getsockname()[1]
        self._server = await asyncio.get_running_loop().create_server(self._welcome, sock=listening)

    async def close(self) -> None:
        """Stop listening and drop who has not been accepted yet; open channels belong to who got them."""
        if self._server is not None:
            self._server.close()
        for channel in list(self._strangers):
            channel.abort()

    def _welcome(self) -> DirectChannel:
        while len(self._strangers) >= MOST_STRANGERS:
            next(iter(self._strangers)).abort()
        connection = DirectConnection.accepting(self._identity, is_member=self._is_member)
        channel = DirectChannel(connection, pace=self._pace, on_settled=self._settled)
        loop = asyncio.get_running_loop()
        self._strangers[channel] = loop.call_later(self._open_within_s, channel.abort)
        return channel

    def _settled(self, channel: DirectChannel) -> None:
        self._strangers.pop(channel).cancel()
        if channel.is_open:
            self._on_channel(channel)


def _listen(host: str, port: int) -> socket.socket:
    if host:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        except OSError as error:  # a system may know IPv6 and have it switched off
            if error.errno == errno.EADDRINUSE:
                raise
    return socket.create_server(("", port))


def _cannot_listen(port: int, error: OSError) -> ExpectedError:
    why = "another program uses it" if error.errno == errno.EADDRINUSE else os.strerror(error.errno or 0)
    return ExpectedError(
        ErrorCode.BAD_SETTING,
        f"This device cannot listen on port {port}: {why}. Choose another with `hearthreel config listen.port PORT`; "
        "0 takes any.",
    )


async def connect_direct(
    address: Address,
    *,
    identity: TlsIdentity,
    expected_key: bytes,
    pace: Pace | None = None,
    within_s: float = OPEN_WITHIN_S,
) -> DirectChannel:
    """Return an open channel to the device of ``expected_key`` at ``address``.

    Raises ``ExpectedError`` unreachable, or not-trusted when one of the two refuses the other.
    """
    channel: DirectChannel | None = None
    try:
        async with asyncio.timeout(within_s):
            channel = await _connect(address, identity=identity, expected_key=expected_key, pace=pace or Pace())
            await channel.opened()
            return channel
    except TimeoutError as error:
        raise unreachable(address, "nothing answered in time") from error
    except OSError as error:
        raise unreachable(address, _why(error)) from error
    finally:
        if channel is not None and not channel.is_open:
            channel.abort()


async def _connect(address: Address, *, identity: TlsIdentity, expected_key: bytes, pace: Pace) -> DirectChannel:
    nonce = secrets.token_bytes(16)

    def make() -> DirectChannel:
        connection = DirectConnection.connecting(identity, expected_key=expected_key, nonce=nonce)
        return DirectChannel(connection, pace=pace)

    loop = asyncio.get_running_loop()
    _, channel = await loop.create_connection(
        make, address.host, address.port, happy_eyeballs_delay=_NEXT_ADDRESS_AFTER_S
    )
    return channel


def _why(error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there; is Hearthreel running on it?"
    if isinstance(error, socket.gaierror):
        return "there is no device of that name in the network"
    return os.strerror(error.errno) if error.errno else "the network does not lead there"
