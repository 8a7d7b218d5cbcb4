"""Staying connected with the owner's other devices: listening, looking around, and trying again with patience.

::

    alone ──it pairs, or is not alone──► listening, announced in the local network
                                        │ for each other device
              connected (either side) ◄─┤ wait ──due, seen, nudged──► try all addresses ──► two channels ──► serve
                     │ ended            └────────────────────────────── failed: wait longer
                     └──────────────────► wait
    revoked ──► its session is ended, it is not let in, nobody tries it

Both sides try, since either may be the one that can be reached; the one with the higher id begins a little later, so
that they do not meet half-way.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from app.core.errors import ErrorInfo, ExpectedError, mistake_of_ours
from app.engine.devices import Devices
from app.engine.kernel import Kernel
from app.engine.peers import Link, Peers
from app.storage.signing import device_id_of
from app.sync.addresses import Address
from app.sync.channel import Channel
from app.sync.direct import DirectListener, connect_direct
from app.sync.direct_channel import DirectChannel
from app.sync.discovery import SALT_BYTES, Discovery, Sighting, announcement_of, recognise
from app.sync.link_preface import LINK_ID_BYTES, decode_preface, encode_preface
from app.sync.mdns import MdnsDiscovery
from app.sync.membership import Membership, Standing
from app.sync.reconnecting import ReconnectSchedule, first_to_connect
from app.sync.tls import TlsIdentity

if TYPE_CHECKING:
    from app.engine.meeting_place import MeetingPlace

_log = logging.getLogger(__name__)

LET_OTHER_BEGIN_S = 2.0
PREFACE_S = 10.0
LOOK_AGAIN_S = 1.0
"""Who belongs to the space is looked at no more often than this; changes of the queue are far more frequent."""


class Connector:
    """Keeps links to all other devices of the space while it runs."""

    def __init__(self, kernel: Kernel, devices: Devices, peers: Peers, *, discovery: Discovery | None = None) -> None:
        self._kernel = kernel
        self._devices = devices
        self._peers = peers
        self._identity = TlsIdentity(kernel.identity.keys.seed)
        self._discovery = discovery or self._make_discovery()
        self._listener: DirectListener | None = None
        self._place: MeetingPlace | None = None
        self._members: dict[bytes, Standing] = {}
        """Public key → other device that belongs to the space."""
        self._seen: dict[bytes, tuple[Address, ...]] = {}
        self._nudges: dict[bytes, asyncio.Event] = {}
        self._dialing: dict[bytes, asyncio.Task[None]] = {}
        self._hosts: dict[str, str] = {}
        """Device → the host that it connected from, until it has introduced itself."""
        self._half_open: dict[tuple[bytes, bytes], dict[str, Channel]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.listening = asyncio.Event()
        """Set once other devices can connect here, or cannot because of an error that was logged."""
        self.troubles: dict[str, ErrorInfo] = {}
        """Device → why it could not be reached, as of the last attempt."""

    def _make_discovery(self) -> Discovery | None:
        if not self._kernel.settings.get("discovery"):
            return None
        host = self._kernel.settings.get("listen.host")
        return MdnsDiscovery(interfaces=[host] if host else [])

    async def run(self) -> None:
        """Stay connected until cancelled."""
        self._peers.reach_others = self.reach_others
        self._peers.greeted = self._on_greeted
        try:
            with self._kernel.changed.watch() as changed:
                while True:
                    changed.clear()
                    try:
                        await self._follow(await self._devices.membership())
                    except ExpectedError as error:
                        _log.warning("other devices cannot reach this one: %s", error)
                    self.listening.set()
                    await asyncio.sleep(LOOK_AGAIN_S)
                    await changed.wait()
        finally:
            await self._end()

    async def _follow(self, membership: Membership) -> None:
        me = self._kernel.identity.keys.public
        is_in = membership.admits(me)
        others = [one for one in membership.members if one.public != me.hex()] if is_in else []
        self._members = {bytes.fromhex(one.public): one for one in others}
        trouble: ExpectedError | None = None
        if is_in and self._listener is None:
            try:
                await self._listen()
            except ExpectedError as error:
                trouble = error  # others cannot connect here, but this device can connect to them
        if others and self._place is None and self._kernel.settings.get("rendezvous"):
            self._meet()
        for key in set(self._dialing) - set(self._members):
            self._dialing.pop(key).cancel()
        for key, standing in self._members.items():
            if key not in self._dialing or self._dialing[key].done():
                self._dialing[key] = asyncio.create_task(
                    self._keep_connected(key, standing), name=f"to {standing.name}"
                )
        await self._peers.end_all_but({one.id for one in others})
        if trouble is not None:
            raise trouble

    async def _listen(self) -> None:
        settings = self._kernel.settings
        listener = DirectListener(
            identity=self._identity, is_member=lambda key: key in self._members, on_channel=self._on_channel
        )
        await self._start(listener, settings.get("listen.port"), settings.get("listen.host"))
        self._listener = listener
        self._kernel.session_port = listener.port
        self._kernel.changed.set()
        if self._discovery is not None:
            salt = secrets.token_bytes(SALT_BYTES)
            await self._discovery.start(
                announcement_of(self._identity.public_key, salt=salt, port=listener.port), self._on_seen
            )

    def _meet(self) -> None:
        """Be at the rendezvous of the settings, too."""
        from app.engine.meeting_place import MeetingPlace  # noqa: PLC0415 (WebRTC takes half a second to load)

        self._place = MeetingPlace(self._kernel, is_member=lambda key: key in self._members, on_link=self._on_link)
        self._keep_task(asyncio.create_task(self._place.run()))

    def _on_link(self, link: Link, key: bytes) -> None:
        self._keep_task(asyncio.create_task(self._serve(link, key)))

    async def _serve(self, link: Link, key: bytes) -> None:
        await self._peers.serve(link, device=device_id_of(key))

    def _keep_task(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _start(self, listener: DirectListener, port: int, host: str) -> None:
        """Listen on the chosen port, else where it was last time: others remember where this device was reached."""
        if port:
            await listener.start(port=port, host=host)
            return
        file = self._kernel.data.listen_port
        try:
            await listener.start(port=_read_port(file), host=host)
        except ExpectedError:
            await listener.start(host=host)
        with contextlib.suppress(OSError):
            file.write_text(str(listener.port))

    async def _end(self) -> None:
        if self._listener is not None:
            await self._listener.close()
        if self._discovery is not None:
            await self._discovery.close()
        tasks = [*self._dialing.values(), *self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _on_seen(self, sighting: Sighting) -> None:
        key = recognise(sighting, self._members)
        if key is not None:
            self._seen[key] = sighting.addresses
            if key in self._nudges:
                self._nudges[key].set()

    def reach_others(self) -> bool:
        """Try all devices that are not connected, now; return whether there are any."""
        away = [key for key, one in self._members.items() if not self._peers.is_connected(one.id)]
        for key in away:
            if key in self._nudges:
                self._nudges[key].set()
        return bool(away)

    # Who connects here

    def _on_channel(self, channel: DirectChannel) -> None:
        self._keep_task(asyncio.create_task(self._accept(channel)))

    async def _accept(self, channel: DirectChannel) -> None:
        try:
            async with asyncio.timeout(PREFACE_S):
                role, link_id = decode_preface(await channel.receive())
        except (ExpectedError, TimeoutError):
            await channel.close("it did not say what the connection is for")
            return
        key = channel.peer_key, link_id
        halves = self._half_open.setdefault(key, {})
        halves[role] = channel
        if len(halves) == 1:
            await asyncio.sleep(PREFACE_S)
            if self._half_open.get(key) is halves and len(halves) == 1:
                del self._half_open[key]
                await channel.close("its other half did not come")
            return
        del self._half_open[key]
        if channel.peer_host:
            self._hosts[device_id_of(channel.peer_key)] = channel.peer_host
        await self._serve(Link(control=halves["control"], bulk=halves["bulk"]), channel.peer_key)

    def _on_greeted(self, device: str, port: int) -> None:
        """Remember where a device that connected here listens itself."""
        host = self._hosts.pop(device, "")
        if host and port:
            self._keep_task(asyncio.create_task(self._remember(device, Address(host=host, port=port))))

    async def _remember(self, device: str, address: Address) -> None:
        now_ms = self._kernel.clock.wall_ms()
        with contextlib.suppress(ExpectedError):
            await self._kernel.members(lambda store: store.remember_address(device, address, now_ms=now_ms))

    # Who is connected to

    async def _keep_connected(self, key: bytes, standing: Standing) -> None:
        clock = self._kernel.clock
        nudged = self._nudges[key] = asyncio.Event()
        schedule = ReconnectSchedule(spread=Random().random, now_s=clock.monotonic_s())  # noqa: S311 (spreads attempts)
        if self._kernel.device.id > standing.id:
            await self._wait(nudged, LET_OTHER_BEGIN_S)
        while True:
            if self._peers.is_connected(standing.id):
                schedule.connected(clock.monotonic_s())
                await self._until_gone(standing.id)
                schedule.lost(clock.monotonic_s())
            elif (delay_s := schedule.next_attempt(clock.monotonic_s()) or 0.0) > 0:
                if await self._wait(nudged, delay_s):
                    schedule.nudge(clock.monotonic_s())
            else:
                try:
                    await self._try(key, standing, schedule)
                except Exception as error:  # noqa: BLE001 (the edge of a link: a bug must not end all trying)
                    _log.exception("connecting to %s", standing.name)
                    self.troubles[standing.id] = mistake_of_ours(error).info
                    schedule.failed(clock.monotonic_s())

    async def _try(self, key: bytes, standing: Standing, schedule: ReconnectSchedule) -> None:
        schedule.trying()
        remembered = await self._kernel.members(lambda store: store.addresses_of(standing.id))
        places = tuple(dict.fromkeys((*self._seen.get(key, ()), *remembered)))
        try:
            link = await self._reach(key, standing, places)
        except ExpectedError as error:
            self.troubles[standing.id] = error.info
            schedule.failed(self._kernel.clock.monotonic_s())
            return
        self.troubles.pop(standing.id, None)
        schedule.connected(self._kernel.clock.monotonic_s())
        ended = await self._peers.serve(link, device=standing.id)
        self.troubles[standing.id] = ended
        schedule.lost(self._kernel.clock.monotonic_s())

    async def _reach(self, key: bytes, standing: Standing, places: tuple[Address, ...]) -> Link:
        """Return a link by the first address that works, else by the rendezvous; raises why neither does."""
        try:
            address, link = await first_to_connect(places, lambda one: self._connect(one, key), discard=self._discard)
        except ExpectedError:
            if self._place is None:
                raise
            return await self._place.connect(key)
        await self._remember(standing.id, address)
        return link

    async def _connect(self, address: Address, key: bytes) -> Link:
        link_id = secrets.token_bytes(LINK_ID_BYTES)
        control = await connect_direct(address, identity=self._identity, expected_key=key)
        try:
            await control.send(encode_preface("control", link_id))
            bulk = await connect_direct(address, identity=self._identity, expected_key=key)
        except BaseException:
            await control.close("its other half could not be opened")
            raise
        await bulk.send(encode_preface("bulk", link_id))
        return Link(control=control, bulk=bulk)

    def _discard(self, link: Link) -> None:
        self._keep_task(asyncio.create_task(link.close("another address was quicker")))

    async def _until_gone(self, device: str) -> None:
        with self._kernel.changed.watch() as changed:
            while self._peers.is_connected(device):
                changed.clear()
                if self._peers.is_connected(device):
                    await changed.wait()

    @staticmethod
    async def _wait(event: asyncio.Event, delay_s: float) -> bool:
        """Wait for ``event``, for so long at most; return whether it came, and clear it."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(event.wait(), delay_s)
        came = event.is_set()
        event.clear()
        return came


def _read_port(file: Path) -> int:
    try:
        port = int(file.read_text())
    except (OSError, ValueError):
        return 0
    return port if 0 <= port <= 65535 else 0
