"""This installation as a device: its id, its name, and a number that grows with every start of its engine.

The id follows from the device's public key (IDENTITY.md). A data directory from before devices had keys has a random
id; it is renamed: ``former`` holds the old id, durably, until no row names it any more.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from app.core.database import disk_error_to_ours
from app.core.errors import ErrorCode, ExpectedError

MAX_NAME_CHARACTERS = 64


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds a lease: a device, in one of its lives."""

    id: str
    name: str
    boot: int
    key: str = ""
    """Its public key in hex; empty in a data directory from before devices had keys."""
    former: str = ""
    """The id that rows may still name."""


def device_name() -> str:
    """Return what people call this machine, without what does not print."""
    name = "".join(one for one in platform.node() if one.isprintable()).strip()
    return name[:MAX_NAME_CHARACTERS] or "This device"


def start_device(path: Path, *, id: str, key: str) -> Device:  # noqa: A002 (it is one)
    """Return this device with a fresh boot number, written durably before anything else is.

    ``key`` is its public key and ``id`` follows from it. Raises ``ExpectedError`` database-damaged when the file cannot
    be read, not-found when it names another key (its secret is gone): going on under a new id would leave the old one's
    leases behind; disk errors when it cannot be written.
    """
    with _disk_errors(path):
        known = _read(path) or Device(id=id, name=device_name(), boot=0, key=key)
        if known.key not in {"", key}:
            raise _key_gone(path)
        former = known.former or (known.id if known.id != id else "")
        device = Device(id=id, name=known.name, boot=known.boot + 1, key=key, former=former)
        _write(path, device)
        return device


def settle_device(path: Path, device: Device) -> Device:
    """Note, durably, that no row names the former id any more."""
    settled = msgspec.structs.replace(device, former="")
    with _disk_errors(path):
        _write(path, settled)
    return settled


@contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise disk_error_to_ours(error, path) from error


def _read(path: Path) -> Device | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Device)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ExpectedError(
            ErrorCode.DATABASE_DAMAGED, f"{path} is damaged ({error}); restore it, or delete it to have it made anew."
        ) from error


def _write(path: Path, device: Device) -> None:
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as file:
        file.write(msgspec.json.encode(device))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _key_gone(path: Path) -> ExpectedError:
    return ExpectedError(
        ErrorCode.NOT_FOUND,
        f"The key of this device is gone: {path} names another one than the folder “keys” holds. Restore that folder "
        f"from a backup; or delete {path.name} to become a new device, which must be paired again. No film is lost.",
    )
