"""The user's own file: looking at it, naming it by its fingerprint, and showing its name safely.

The file is opened for reading only (S3). Paths are bytes, as the file system spells them (``os.fsencode``).
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

import msgspec

from app.core.errors import ErrorCode, ExpectedError

MIB = 1024 * 1024
_SAMPLES = 16
_SAMPLE_BYTES = 64 * 1024
_FINGERPRINT_CONTEXT = b"hearthreel source 1"
_DIRECTION_CONTROLS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


class SourceStat(msgspec.Struct, frozen=True, kw_only=True):
    """What one look at a file says, without reading it."""

    size_bytes: int
    mtime_ns: int
    inode: str
    """Device and inode number, as text; they tell that a file was replaced."""


def look_at(path: bytes) -> SourceStat:
    """Return what a look at ``path`` says; raises ``ExpectedError`` not-found, unreadable, empty."""
    if b"\0" in path:
        raise ExpectedError(ErrorCode.NOT_FOUND, f"“{display_name(path)}” is no possible file name; check it.")
    with _translated(path):
        return _stat_of(os.stat(path), path)  # noqa: PTH116 (bytes paths)


@contextmanager
def open_source(path: bytes) -> Iterator[BinaryIO]:
    """Open ``path`` for reading, unbuffered; raises ``ExpectedError`` not-found, unreadable, empty.

    An ``OSError`` inside the block counts as one of this file. What is no regular file is refused before it is
    opened: a pipe would wait for ever.
    """
    look_at(path)
    with _translated(path), open(path, "rb", buffering=0) as file:  # noqa: PTH123 (bytes paths)
        yield file


def is_still_changing(first: SourceStat, second: SourceStat) -> bool:
    """Return whether a file changed between two looks, as it does while it is being copied."""
    return first != second


def still_changing(path: bytes) -> ExpectedError:
    """Return the error for a file that is being written."""
    return ExpectedError(
        ErrorCode.STILL_CHANGING,
        f"“{display_name(path)}” is still being written; add it again when the copy is complete.",
    )


def source_changed(path: bytes) -> ExpectedError:
    """Return the error for a file that is not the one that was added."""
    return ExpectedError(
        ErrorCode.SOURCE_CHANGED,
        f"“{display_name(path)}” was changed since it was added. Put the old file back, or retry to take the new one.",
    )


def fingerprint(path: bytes) -> str:
    """Return the 32 hex digits that name the content of ``path``; reads at most 3 MiB.

    Raises ``ExpectedError`` not-found, unreadable, empty, still-changing.
    """
    with open_source(path) as file:
        before = os.fstat(file.fileno())
        digest = fingerprint_of(file, before.st_size)
        after = os.fstat(file.fileno())
    if digest is None or (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise still_changing(path)
    return digest


def fingerprint_of(file: BinaryIO, size: int) -> str | None:
    """Return the fingerprint of an open file of ``size`` bytes, None when it ends early."""
    hasher = hashlib.sha256(_FINGERPRINT_CONTEXT + size.to_bytes(8, "big"))
    for offset, length in fingerprint_ranges(size):
        data = read_at(file, offset, length)
        if len(data) != length:
            return None
        hasher.update(data)
    return hasher.hexdigest()[:32]


def fingerprint_ranges(size: int) -> list[tuple[int, int]]:
    """Return the (offset, length) ranges a fingerprint covers: first and last MiB, and 16 samples between.

    Sample ``i`` of 1 to 16 starts at ``1 MiB + i * (size - 2 MiB - 64 KiB) // 17``. A file of at most 4 MiB is
    covered whole.
    """
    if size <= 4 * MIB:
        return [(0, size)]
    room = size - 2 * MIB - _SAMPLE_BYTES
    samples = [(MIB + number * room // (_SAMPLES + 1), _SAMPLE_BYTES) for number in range(1, _SAMPLES + 1)]
    return [(0, MIB), *samples, (size - MIB, MIB)]


def read_at(file: BinaryIO, offset: int, length: int) -> bytes:
    """Return ``length`` bytes from ``offset``, fewer only at the end of the file."""
    file.seek(offset)
    parts: list[bytes] = []
    missing = length
    while missing and (part := file.read(missing)):
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


def display_name(path: bytes) -> str:
    """Return the last part of ``path`` for showing; see ``display_path``."""
    return display_path(path.rstrip(b"/").rpartition(b"/")[2] or path)


def display_path(path: bytes) -> str:
    """Return ``path`` for showing, on one line and in its true order.

    Bytes that are no text become U+FFFD, controls their pictures (a line feed shows as ␊), and what would turn the
    direction of writing is spelled out, so that ``gpj.exe`` cannot dress up as ``exe.jpg``. Not for opening a file.
    """
    return "".join(_shown(letter) for letter in path.decode("utf-8", "replace"))


def _shown(letter: str) -> str:
    code = ord(letter)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    if letter in _DIRECTION_CONTROLS or unicodedata.category(letter) in {"Cc", "Zl", "Zp", "Cs"}:
        return f"⟨U+{code:04X}⟩"
    return letter


def _stat_of(found: os.stat_result, path: bytes) -> SourceStat:
    if not stat.S_ISREG(found.st_mode):
        raise ExpectedError(
            ErrorCode.UNREADABLE, f"“{display_name(path)}” is not an ordinary file; choose a video file."
        )
    if found.st_size == 0:
        raise ExpectedError(
            ErrorCode.EMPTY, f"“{display_name(path)}” is empty; if it is being copied, add it again afterwards."
        )
    return SourceStat(size_bytes=found.st_size, mtime_ns=found.st_mtime_ns, inode=f"{found.st_dev}:{found.st_ino}")


@contextmanager
def _translated(path: bytes) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _source_error(error, path) from error


def _source_error(error: OSError, path: bytes) -> ExpectedError:
    if error.errno in {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP}:
        return ExpectedError(ErrorCode.NOT_FOUND, f"There is no file “{display_path(path)}”; check the name.")
    return ExpectedError(
        ErrorCode.UNREADABLE,
        f"“{display_path(path)}” cannot be read ({error.strerror or error}); check its permissions and the disk.",
    )
