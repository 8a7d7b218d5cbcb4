"""Shards as files: ``DATA/vault/ab/abcd…``, absent or whole whatever happens.

::

    vault/ab/<64 hex digits>      a shard, its name starting with "ab"
    vault/incoming/*.part         a shard that is being written; swept at start
    vault/quarantine/…            shards that were found bad, and strays; kept for a while, then deleted

Anything else in the folder is a stray. One engine owns a vault folder at a time (it holds the data directory's lock),
which is why what lies in ``incoming`` at start belongs to nobody.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

from app.core.database import disk_error_to_ours
from app.core.errors import ErrorCode, ExpectedError
from app.storage.durable import make_folder, sync_folder, write_durably
from app.storage.shard_store import DiskSpace, ShardStat, check_name, damaged_shard, missing_shard

_SHARD_FILE = re.compile(r"[0-9a-f]{64}")
_SHARD_FOLDER = re.compile(r"[0-9a-f]{2}")
_INCOMING = "incoming"
_QUARANTINE = "quarantine"


class DiskShardStore:
    """A folder of shards. Making one creates the folder and sweeps what a killed process left half-written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._incoming = folder / _INCOMING
        self._quarantine = folder / _QUARANTINE
        self._preparing = threading.Lock()
        self._prepared: set[str] = set()
        for one in (folder, self._incoming, self._quarantine):
            make_folder(one)
        self._sweep()

    def put(self, name: str, data: bytes) -> bool:
        path = self._path(name)
        self._prepare(path.parent)
        if self._holds(path, data):
            return False
        write_durably(path, data, temporary_folder=self._incoming)
        return True

    def get(self, name: str) -> bytes:
        path = self._path(name)
        try:
            return path.read_bytes()
        except FileNotFoundError as error:
            raise missing_shard(name) from error
        except PermissionError as error:
            raise ExpectedError(
                ErrorCode.UNREADABLE, f"{path} cannot be read ({error.strerror}); allow reading the vault's folder."
            ) from error
        except OSError as error:
            raise damaged_shard(name, error.strerror or str(error)) from error

    def stat(self, name: str) -> ShardStat | None:
        path = self._path(name)
        try:
            found = path.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise disk_error_to_ours(error, path) from error
        return ShardStat(size=found.st_size, written_ms=found.st_mtime_ns // 1_000_000)

    def delete(self, name: str) -> int:
        return _delete(self._path(name))

    def names(self) -> Iterator[str]:
        for folder in self._shard_folders():
            yield from (one.name for one in _entries(folder) if _is_shard(one, folder.name))

    def quarantine(self, name: str) -> None:
        self._set_aside(self._path(name), self._quarantine / name)

    def quarantined(self) -> list[str]:
        return [one.name for one in _entries(self._quarantine)]

    def drop_quarantined(self, *, before_ms: int) -> int:
        old = [one for one in _entries(self._quarantine) if _moved_ns(one) < before_ms * 1_000_000]
        return sum(_delete_any(Path(one.path)) for one in old)

    def strays(self) -> list[str]:
        return sorted(self._find_strays())

    def set_stray_aside(self, stray: str) -> None:
        path = self._folder / stray
        aside = self._quarantine / path.name
        if os.path.lexists(aside):
            aside = self._quarantine / secrets.token_hex(16)
        self._set_aside(path, aside)

    def space(self) -> DiskSpace:
        """Return the room on the disk that holds this folder."""
        try:
            usage = shutil.disk_usage(self._folder)
        except OSError as error:
            raise disk_error_to_ours(error, self._folder) from error
        return DiskSpace(total_bytes=usage.total, free_bytes=usage.free)

    def _path(self, name: str) -> Path:
        return self._folder / check_name(name)[:2] / name

    def _prepare(self, folder: Path) -> None:
        """Make the folder of a shard, and its own name durable, once in the life of this store."""
        with self._preparing:
            if folder.name in self._prepared:
                return
            make_folder(folder)
            try:
                sync_folder(self._folder)
            except OSError as error:
                raise disk_error_to_ours(error, self._folder) from error
            self._prepared.add(folder.name)

    def _holds(self, path: Path, data: bytes) -> bool:
        """Return whether exactly ``data`` is at ``path``, and durably so.

        Another thread may have renamed it a moment ago without having synced the folder yet, hence the sync here.
        """
        try:
            if path.read_bytes() != data:
                return False
            sync_folder(path.parent)
        except OSError:
            return False  # absent or unreadable: writing it anew heals or says what is wrong
        return True

    def _set_aside(self, path: Path, aside: Path) -> None:
        """Move ``path`` to ``aside`` in the quarantine; its time of change becomes the time of the move."""
        try:
            path.replace(aside)
            os.utime(aside, follow_symlinks=os.utime not in os.supports_follow_symlinks)
            sync_folder(self._quarantine)
        except FileNotFoundError:
            return
        except OSError as error:
            raise disk_error_to_ours(error, path) from error

    def _sweep(self) -> None:
        for one in _entries(self._incoming):
            _delete_any(Path(one.path))

    def _shard_folders(self) -> list[Path]:
        return [
            Path(one.path)
            for one in _entries(self._folder)
            if _SHARD_FOLDER.fullmatch(one.name) and one.is_dir(follow_symlinks=False)
        ]

    def _find_strays(self) -> Iterator[str]:
        folders = self._shard_folders()
        known = {_INCOMING, _QUARANTINE, *(one.name for one in folders)}
        yield from (one.name for one in _entries(self._folder) if one.name not in known)
        for folder in folders:
            yield from (f"{folder.name}/{one.name}" for one in _entries(folder) if not _is_shard(one, folder.name))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda one: one.name)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise disk_error_to_ours(error, folder) from error


def _is_shard(entry: os.DirEntry[str], folder_name: str) -> bool:
    fits = _SHARD_FILE.fullmatch(entry.name) and entry.name.startswith(folder_name)
    return bool(fits) and entry.is_file(follow_symlinks=False)


def _moved_ns(entry: os.DirEntry[str]) -> int:
    return entry.stat(follow_symlinks=False).st_mtime_ns


def _delete(path: Path) -> int:
    try:
        size = path.lstat().st_size
        path.unlink()
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise disk_error_to_ours(error, path) from error
    return size


def _delete_any(path: Path) -> int:
    if path.is_symlink() or not path.is_dir():
        return _delete(path)
    try:
        shutil.rmtree(path)
    except OSError as error:
        raise disk_error_to_ours(error, path) from error
    return 0
