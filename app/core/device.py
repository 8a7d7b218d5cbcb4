"""This installation as a device: its id, its name, and a number that grows with every start of its engine."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import msgspec

from app.core.database import disk_error_to_ours
from app.core.errors import ErrorCode, ExpectedError
from app.core.ids import new_id


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds a lease: a device, in one of its lives."""

    id: str
    name: str
    boot: int


def start_device(path: Path) -> Device:
    """Return this device with a fresh boot number, written durably before anything else is.

    Raises ``ExpectedError`` database-damaged when the file cannot be read: starting under a new id would leave the old
    one's leases behind; disk errors when it cannot be written.
    """
    try:
        return _start(path)
    except OSError as error:
        raise disk_error_to_ours(error, path) from error


def _start(path: Path) -> Device:
    try:
        known = msgspec.json.decode(path.read_bytes(), type=Device)
    except FileNotFoundError:
        known = Device(id=new_id(), name=platform.node() or "This device", boot=0)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ExpectedError(
            ErrorCode.DATABASE_DAMAGED,
            f"{path} is damaged ({error}); restore it or delete it to start as a new device.",
        ) from error
    device = msgspec.structs.replace(known, boot=known.boot + 1)
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as file:
        file.write(msgspec.json.encode(device))
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    return device
