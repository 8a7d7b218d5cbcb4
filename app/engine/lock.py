"""One engine per data directory: the lock, and where the engine that holds it can be reached."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import filelock
import msgspec

from app.core.database import disk_error_to_ours
from app.core.errors import ErrorCode, ExpectedError
from app.core.paths import DataDir


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where the running engine listens (loopback), and the token that lets a client in."""

    port: int
    token: str
    pid: int


class EngineLock:
    """Held by the one engine of a data directory, from before it opens anything until after it closed everything."""

    def __init__(self, data: DataDir) -> None:
        self._data = data
        self._lock = filelock.FileLock(data.lock)

    def acquire(self) -> None:
        """Take the lock; raises ``ExpectedError`` engine-running, read-only, disk-full."""
        _make_folder(self._data.root)
        try:
            self._lock.acquire(timeout=0)
        except filelock.Timeout as error:
            raise ExpectedError(
                ErrorCode.ENGINE_RUNNING, "Another Hearthreel already works with this data directory."
            ) from error
        except OSError as error:
            raise disk_error_to_ours(error, self._data.root) from error
        self._withdraw()  # of an engine that was killed; its port may be somebody else's now

    def publish(self, endpoint: Endpoint) -> None:
        """Write where this engine listens; only this user can read it. Raises ``ExpectedError`` disk errors."""
        temporary = self._data.endpoint.with_suffix(".tmp")
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.encode(endpoint))
            temporary.replace(self._data.endpoint)
        except OSError as error:
            raise disk_error_to_ours(error, self._data.endpoint) from error

    def release(self) -> None:
        """Take the endpoint away and give the lock back."""
        self._withdraw()
        self._lock.release()

    def _withdraw(self) -> None:
        with contextlib.suppress(OSError):
            self._data.endpoint.unlink(missing_ok=True)


def read_endpoint(data: DataDir) -> Endpoint | None:
    """Return where the engine of a data directory listens, None when none says so."""
    try:
        return msgspec.json.decode(data.endpoint.read_bytes(), type=Endpoint)
    except (OSError, msgspec.DecodeError):
        return None


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except (FileExistsError, NotADirectoryError, FileNotFoundError) as error:
        raise ExpectedError(
            ErrorCode.READ_ONLY, f"{path} is no folder and cannot be made one; choose another --data-dir."
        ) from error
    except OSError as error:
        raise disk_error_to_ours(error, path) from error
