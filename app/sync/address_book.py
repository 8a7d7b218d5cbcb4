"""Where each of the owner's devices was reached before or is said to be: a value, and the file that keeps it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from app.core.database import disk_error_to_ours
from app.core.errors import ErrorCode, ExpectedError
from app.sync.addresses import Address

MOST_PER_DEVICE: Final = 12
"""How many addresses of one device are remembered; typed ones stay, others go when they have not worked for longest."""


class KnownAddress(msgspec.Struct, frozen=True, kw_only=True):
    """One address of one device; ``key`` is its public key."""

    key: bytes
    address: Address
    is_typed: bool = False
    worked_at_ms: int = 0
    """When a connection was made there last; 0 when never."""


class AddressBook(msgspec.Struct, frozen=True, kw_only=True):
    """All known addresses; each change gives a new book."""

    known: tuple[KnownAddress, ...] = ()

    def addresses_of(self, key: bytes) -> tuple[Address, ...]:
        """Return where to try a device: what worked last first, then what was typed."""
        return tuple(one.address for one in sorted((one for one in self.known if one.key == key), key=_rank))

    def with_typed(self, key: bytes, address: Address) -> AddressBook:
        """Add an address that a person typed."""
        before = self._find(key, address)
        return self._with(msgspec.structs.replace(before, is_typed=True))

    def with_worked(self, key: bytes, address: Address, *, at_ms: int) -> AddressBook:
        """Note that a connection was made; a clock that goes backwards changes nothing that matters."""
        before = self._find(key, address)
        return self._with(msgspec.structs.replace(before, worked_at_ms=max(at_ms, before.worked_at_ms)))

    def without_device(self, key: bytes) -> AddressBook:
        """Forget a device."""
        return AddressBook(known=tuple(one for one in self.known if one.key != key))

    def without_address(self, key: bytes, address: Address) -> AddressBook:
        """Forget one address of a device."""
        return AddressBook(known=tuple(one for one in self.known if (one.key, one.address) != (key, address)))

    def _find(self, key: bytes, address: Address) -> KnownAddress:
        fresh = KnownAddress(key=key, address=address)
        return next((one for one in self.known if (one.key, one.address) == (key, address)), fresh)

    def _with(self, changed: KnownAddress) -> AddressBook:
        others = self.without_address(changed.key, changed.address).known
        mine = sorted((*(one for one in others if one.key == changed.key), changed), key=_worth)[:MOST_PER_DEVICE]
        return AddressBook(known=(*(one for one in others if one.key != changed.key), *mine))


def _rank(one: KnownAddress) -> tuple[int, bool, Address]:
    return -one.worked_at_ms, not one.is_typed, one.address


def _worth(one: KnownAddress) -> tuple[bool, int, Address]:
    return not one.is_typed, -one.worked_at_ms, one.address


def places_to_try(*groups: Iterable[Address]) -> tuple[Address, ...]:
    """Return all addresses once, in the order of the groups: seen in this network, remembered, typed."""
    return tuple(dict.fromkeys(address for group in groups for address in group))


class AddressFile:
    """The address book of a data directory."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> AddressBook:
        """Return the book; an unreadable one is an empty one, because all in it can be found or typed again.

        Raises disk errors.
        """
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=AddressBook)
        except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
            return AddressBook()
        except OSError as error:
            raise disk_error_to_ours(error, self._path) from error

    def save(self, book: AddressBook) -> None:
        """Keep a book, readable by this user only; raises disk errors."""
        temporary = self._path.with_suffix(".tmp")
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.encode(book))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._path)
        except OSError as error:
            raise disk_error_to_ours(error, self._path) from error


def no_address() -> ExpectedError:
    """Return what is said of a device of which nothing is known."""
    return ExpectedError(
        ErrorCode.UNREACHABLE, "No address of the device is known, and it was not seen in this network."
    )
