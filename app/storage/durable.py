"""Files that are absent or whole, whatever happens: temporary name, fsync, rename, fsync of the folder."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from app.core.database import disk_error_to_ours

_IS_WINDOWS = os.name == "nt"


def sync_folder(folder: Path) -> None:
    """Make the names in ``folder`` durable (Windows has no such call and orders them itself)."""
    if _IS_WINDOWS:
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Create ``folder`` (mode 0700) and what is missing above it, durably; raises ``ExpectedError`` disk errors."""
    try:
        missing = [one for one in (folder, *folder.parents) if not one.exists()]
        for one in reversed(missing):
            one.mkdir(mode=0o700, exist_ok=True)
            sync_folder(one.parent)
    except OSError as error:
        raise disk_error_to_ours(error, folder) from error


def write_durably(path: Path, data: bytes, *, temporary_folder: Path | None = None, mode: int = 0o600) -> None:
    """Put ``data`` at ``path``, replacing what is there; after a crash the old or the new file is there, whole.

    The temporary file lies in ``temporary_folder`` (same file system; default: beside ``path``) under a name that
    ends in ``.part``. Raises ``ExpectedError`` disk-full, read-only or internal; then nothing is left behind.
    """
    temporary = (temporary_folder or path.parent) / f"{secrets.token_hex(16)}.part"
    try:
        _write_new(temporary, data, mode)
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise disk_error_to_ours(error, path) from error
    finally:
        _forget(temporary)


def _write_new(path: Path, data: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags, mode), "wb", buffering=0) as file:
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]
        os.fsync(file.fileno())


def _forget(path: Path) -> None:
    try:
        path.unlink()
    except OSError:
        return  # renamed already, never created, or swept at the next start
