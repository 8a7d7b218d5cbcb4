"""Discovery by multicast DNS (``_hearthreel._tcp``); the one door to zeroconf."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Callable, Sequence
from typing import Final

from zeroconf import (
    Error,
    InterfaceChoice,
    IPVersion,
    ServiceStateChange,
    Zeroconf,
)
from zeroconf.asyncio import AsyncServiceBrowser, AsyncServiceInfo, AsyncZeroconf

from app.sync.addresses import own_hosts
from app.sync.discovery import Announcement, Sighting, decode_record, encode_record

SERVICE: Final = "_hearthreel._tcp.local."
_ASK_WITHIN_MS: Final = 3000
_MOST_QUESTIONS: Final = 32
"""How many announcements are looked up at once, so that a flood of them costs little."""

_log = logging.getLogger(__name__)


class MdnsDiscovery:
    """Announces on all networks of this machine, or on those of ``interfaces`` (their own IPv4 addresses)."""

    def __init__(self, *, interfaces: Sequence[str] = ()) -> None:
        self._interfaces = list(interfaces)
        self._zeroconf: AsyncZeroconf | None = None
        self._browser: AsyncServiceBrowser | None = None
        self._own_name = ""
        self._questions: set[asyncio.Task[None]] = set()
        self._on_seen: Callable[[Sighting], None] = lambda _sighting: None

    async def start(self, announcement: Announcement, on_seen: Callable[[Sighting], None]) -> None:
        self._on_seen = on_seen
        info = self._info(announcement)
        self._own_name = info.name
        try:
            self._zeroconf = AsyncZeroconf(
                interfaces=self._interfaces or InterfaceChoice.All,
                ip_version=IPVersion.V4Only if self._interfaces else None,
            )
            self._browser = AsyncServiceBrowser(self._zeroconf.zeroconf, SERVICE, handlers=[self._changed])
            await (await self._zeroconf.async_register_service(info))
        except (OSError, Error) as error:
            _log.info("devices in the local network are not found by themselves: %s", error)
            await self.close()

    async def close(self) -> None:
        for question in list(self._questions):
            question.cancel()
        if self._browser is not None:
            await self._browser.async_cancel()
        if self._zeroconf is not None:
            await self._zeroconf.async_close()
        self._browser = self._zeroconf = None

    def _info(self, announcement: Announcement) -> AsyncServiceInfo:
        """Return the service; its host is named by the salt too: the machine's own name would tell whose it is."""
        hosts = self._interfaces or own_hosts()
        return AsyncServiceInfo(
            SERVICE,
            f"{announcement.salt.hex()}.{SERVICE}",
            port=announcement.port,
            properties=encode_record(announcement),
            server=f"{announcement.salt.hex()}.local.",
            addresses=[ipaddress.ip_address(host).packed for host in hosts],
        )

    def _changed(self, zeroconf: Zeroconf, service_type: str, name: str, state_change: ServiceStateChange) -> None:
        if state_change is ServiceStateChange.Removed or name == self._own_name:
            return
        if len(self._questions) >= _MOST_QUESTIONS:
            return
        question = asyncio.get_running_loop().create_task(self._ask(zeroconf, service_type, name))
        self._questions.add(question)
        question.add_done_callback(self._questions.discard)

    async def _ask(self, zeroconf: Zeroconf, service_type: str, name: str) -> None:
        try:
            info = AsyncServiceInfo(service_type, name)
            if not await info.async_request(zeroconf, _ASK_WITHIN_MS):
                return
        except Error:  # a name that is not one
            return
        sighting = decode_record(info.properties, info.parsed_scoped_addresses(), info.port)
        if sighting is not None:
            self._on_seen(sighting)
