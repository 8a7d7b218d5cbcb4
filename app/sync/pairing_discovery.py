"""Finding the device that shows a code: by the code's first three digits, on the local network (mDNS).

What is announced is that somebody pairs, where, and those digits; not who, nor anything of the space. A stranger who
announces the same digits gets the joiner to connect, and one guess of the other six (see ``app.sync.pairing``).
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from zeroconf import BadTypeInNameException, NonUniqueNameException, ServiceStateChange, Zeroconf
from zeroconf import Error as ZeroconfError
from zeroconf.asyncio import AsyncServiceBrowser, AsyncServiceInfo, AsyncZeroconf

from app.core.errors import ErrorCode, ExpectedError
from app.sync.addresses import Address, own_hosts

SERVICE = "_hearthreel-pair._tcp.local."
FIND_S = 6.0
_INFO_MS = 2000
_SETTLE_S = 0.3
"""After the first answer, for others with the same digits."""


class PairingDirectory(Protocol):
    """Where inviters are announced and found."""

    def announce(self, hint: str, port: int) -> AbstractAsyncContextManager[None]:
        """Let this device be found under ``hint`` while the context lasts; raises ``ExpectedError`` unreachable."""
        ...

    async def find_inviter(self, hint: str) -> tuple[Address, ...]:
        """Return where inviters with ``hint`` listen; none if none is found. Raises ``ExpectedError`` unreachable."""
        ...


class MemoryDirectory:
    """Inviters of this process."""

    def __init__(self) -> None:
        self._announced: dict[str, list[Address]] = {}

    @asynccontextmanager
    async def announce(self, hint: str, port: int) -> AsyncIterator[None]:
        address = Address(host="127.0.0.1", port=port)
        self._announced.setdefault(hint, []).append(address)
        try:
            yield
        finally:
            self._announced[hint].remove(address)

    async def find_inviter(self, hint: str) -> tuple[Address, ...]:
        return tuple(self._announced.get(hint, ()))


class LanDirectory:
    """Inviters on the local network. ``hosts``: this machine's addresses to use; all of them if none is named."""

    def __init__(self, hosts: Sequence[str] = (), *, find_s: float = FIND_S) -> None:
        self._hosts = tuple(hosts)
        self._find_s = find_s

    @asynccontextmanager
    async def announce(self, hint: str, port: int) -> AsyncIterator[None]:
        hosts = self._hosts or local_hosts()
        _check_numeric(hosts)
        info = AsyncServiceInfo(
            SERVICE,
            f"{hint}-{secrets.token_hex(4)}.{SERVICE}",
            port=port,
            parsed_addresses=list(hosts),
            properties={"v": "1", "hint": hint},
            server=f"hearthreel-{secrets.token_hex(4)}.local.",
        )
        async with self._zeroconf() as zeroconf:
            try:
                await zeroconf.async_register_service(info)
            except (ZeroconfError, OSError, NonUniqueNameException, BadTypeInNameException) as error:
                raise _silent(error) from error
            try:
                yield
            finally:
                with contextlib.suppress(ZeroconfError, OSError):
                    await (await zeroconf.async_unregister_service(info))

    async def find_inviter(self, hint: str) -> tuple[Address, ...]:
        found: dict[str, None] = {}
        answered = asyncio.Event()

        def note(zeroconf: Zeroconf, service_type: str, name: str, state_change: ServiceStateChange) -> None:  # noqa: ARG001 (called by name)
            if name.startswith(f"{hint}-") and state_change is not ServiceStateChange.Removed:
                found[name] = None
                answered.set()

        async with self._zeroconf() as zeroconf:
            browser = AsyncServiceBrowser(zeroconf.zeroconf, SERVICE, handlers=[note])
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(answered.wait(), self._find_s)
                await asyncio.sleep(_SETTLE_S)
            addresses = [one for name in tuple(found) for one in await _addresses(zeroconf, name)]
            await browser.async_cancel()
        return tuple(dict.fromkeys(addresses))

    @asynccontextmanager
    async def _zeroconf(self) -> AsyncIterator[AsyncZeroconf]:
        _check_numeric(self._hosts)
        try:
            zeroconf = AsyncZeroconf(interfaces=list(self._hosts)) if self._hosts else AsyncZeroconf()
        except (ZeroconfError, OSError) as error:
            raise _silent(error) from error
        try:
            yield zeroconf
        finally:
            await zeroconf.async_close()


def local_hosts() -> tuple[str, ...]:
    """Return the addresses at which other devices may reach this machine, IPv4 first; loopback when there is none."""
    parsed = ((host, ipaddress.ip_address(host)) for host in own_hosts())
    found = [host for host, address in parsed if not (address.is_link_local or address.is_unspecified)]
    return tuple(sorted(found, key=lambda host: ":" in host)) or ("127.0.0.1",)


def _check_numeric(hosts: Sequence[str]) -> None:
    try:
        for host in hosts:
            ipaddress.ip_address(host)
    except ValueError as error:
        raise _silent(error) from error


async def _addresses(zeroconf: AsyncZeroconf, name: str) -> list[Address]:
    info = AsyncServiceInfo(SERVICE, name)
    if not await info.async_request(zeroconf.zeroconf, _INFO_MS) or not info.port:
        return []
    return [Address(host=host, port=info.port) for host in info.parsed_scoped_addresses()]


def _silent(error: Exception) -> ExpectedError:
    return ExpectedError(
        ErrorCode.UNREACHABLE,
        f"The local network cannot be searched ({error}). Give the address: “hearthreel pair CODE --at HOST:PORT”.",
    )
