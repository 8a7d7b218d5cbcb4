"""Finding the owner's other devices in the local network, without telling strangers anything.

An announcement holds a salt (random at each start), a hint, and a port: no name of a device, person or film, and not
the machine's host name. The hint is a MAC of the salt under the device's public key, which only the owner's devices
know: they try the keys of all members, everybody else sees two random numbers that differ from start to start.

A hint proves nothing (anyone can repeat one): it only says where to try the handshake.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable
from typing import Final, Protocol

import msgspec

from app.sync.addresses import Address

SALT_BYTES: Final = 8
HINT_BYTES: Final = 8
MOST_ADDRESSES: Final = 16
"""How many addresses of one announcement are looked at."""
_LABEL: Final = b"hearthreel lan hint"


class Announcement(msgspec.Struct, frozen=True, kw_only=True):
    """What a device says in the local network."""

    salt: bytes
    hint: bytes
    port: int


class Sighting(msgspec.Struct, frozen=True, kw_only=True):
    """An announcement, by whoever made it, and where it says that it can be reached."""

    salt: bytes
    hint: bytes
    addresses: tuple[Address, ...]


class Discovery(Protocol):
    """Says that this device is here and watches for others."""

    async def start(self, announcement: Announcement, on_seen: Callable[[Sighting], None]) -> None:
        """Announce and watch until closed; what cannot be done on this network is left out silently."""
        ...

    async def close(self) -> None:
        """Take the announcement back and stop watching."""
        ...


def announcement_of(public_key: bytes, *, salt: bytes, port: int) -> Announcement:
    """Return what the device of ``public_key`` announces; ``salt`` is ``SALT_BYTES`` random bytes."""
    return Announcement(salt=salt, hint=_hint(public_key, salt), port=port)


def recognise(sighting: Sighting, members: Iterable[bytes]) -> bytes | None:
    """Return the public key of the member whom a sighting may be of; None for strangers."""
    return next((key for key in members if hmac.compare_digest(_hint(key, sighting.salt), sighting.hint)), None)


def _hint(public_key: bytes, salt: bytes) -> bytes:
    return hmac.digest(public_key, _LABEL + salt, hashlib.sha256)[:HINT_BYTES]


def encode_record(announcement: Announcement) -> dict[str, str]:
    """Return the TXT record of an announcement."""
    return {"v": "1", "s": announcement.salt.hex(), "h": announcement.hint.hex()}


def decode_record(record: dict[bytes, bytes | None], hosts: Iterable[str], port: int | None) -> Sighting | None:
    """Return what somebody announced; None for what this version does not understand."""
    salt, hint = _from_hex(record.get(b"s"), SALT_BYTES), _from_hex(record.get(b"h"), HINT_BYTES)
    if record.get(b"v") != b"1" or salt is None or hint is None or not 1 <= (port or 0) <= 65535:
        return None
    addresses = tuple(Address(host=host, port=port or 0) for host in list(hosts)[:MOST_ADDRESSES])
    return Sighting(salt=salt, hint=hint, addresses=addresses)


def _from_hex(text: bytes | None, length: int) -> bytes | None:
    if text is None or len(text) != 2 * length:
        return None
    try:
        return bytes.fromhex(text.decode("ascii"))
    except ValueError:
        return None


class MemoryLan:
    """A local network within one process, for tests and simulations."""

    def __init__(self) -> None:
        self._devices: dict[MemoryDiscovery, Announcement] = {}

    def join(self, host: str) -> MemoryDiscovery:
        """Return the discovery of a device at ``host``."""
        return MemoryDiscovery(self, host)

    def add(self, device: MemoryDiscovery, announcement: Announcement) -> None:
        """Let all who are here see each other and the new one."""
        others = list(self._devices.items())
        self._devices[device] = announcement
        for other, said in others:
            device.see(other, said)
            other.see(device, announcement)

    def remove(self, device: MemoryDiscovery) -> None:
        """Forget a device."""
        self._devices.pop(device, None)


class MemoryDiscovery:
    """One device's view of a ``MemoryLan``."""

    def __init__(self, lan: MemoryLan, host: str) -> None:
        self._lan = lan
        self.host = host
        self._on_seen: Callable[[Sighting], None] | None = None

    async def start(self, announcement: Announcement, on_seen: Callable[[Sighting], None]) -> None:
        self._on_seen = on_seen
        self._lan.add(self, announcement)

    async def close(self) -> None:
        self._on_seen = None
        self._lan.remove(self)

    def see(self, other: MemoryDiscovery, said: Announcement) -> None:
        """Take note of another device."""
        if self._on_seen is not None:
            self._on_seen(
                Sighting(salt=said.salt, hint=said.hint, addresses=(Address(host=other.host, port=said.port),))
            )
