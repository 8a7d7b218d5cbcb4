"""The one exception tree.

::

    HearthreelError
    ├── ExpectedError   the world's fault: shown to the person with a stable code and what to do
    │   └── StaleError  a write by someone whose lease is over: changes nothing
    └── BugError        our fault: reported, never hidden

Every door to a foreign library turns that library's exceptions into these. Cancellation is not an error.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class ErrorCode(StrEnum):
    """Stable words for what can go wrong; scripts rely on them."""

    NOT_FOUND = "not-found"
    UNREADABLE = "unreadable"
    EMPTY = "empty"
    PICTURE = "picture"
    PLAYLIST = "playlist"
    NOT_A_VIDEO = "not-a-video"
    NO_VIDEO = "no-video"
    TRUNCATED = "truncated"
    STILL_CHANGING = "still-changing"
    PROTECTED = "protected"
    NO_DECODER = "no-decoder"
    TOO_LARGE = "too-large"
    SOURCE_CHANGED = "source-changed"
    SOURCE_GONE = "source-gone"
    DISK_FULL = "disk-full"
    READ_ONLY = "read-only"
    DATABASE_DAMAGED = "database-damaged"
    DATABASE_LOCKED = "database-locked"
    DATA_TOO_NEW = "data-too-new"
    NO_SUCH_ID = "no-such-id"
    AMBIGUOUS_ID = "ambiguous-id"
    ALREADY_DONE = "already-done"
    NOT_DONE = "not-done"
    ENGINE_RUNNING = "engine-running"
    ENGINE_GONE = "engine-gone"
    WORKER_CRASHED = "worker-crashed"
    WORKER_STALLED = "worker-stalled"
    OUT_OF_MEMORY = "out-of-memory"
    DAMAGED_SHARD = "damaged-shard"
    MISSING_SHARD = "missing-shard"
    RESULT_LOST = "result-lost"
    CANCELLED = "cancelled"
    BAD_SETTING = "bad-setting"
    BAD_MESSAGE = "bad-message"
    DAMAGED_SOURCE = "damaged-source"
    DISCONNECTED = "disconnected"
    NOT_TRUSTED = "not-trusted"
    UNREACHABLE = "unreachable"
    BAD_WORDS = "bad-words"
    WRONG_CODE = "wrong-code"
    CODE_EXPIRED = "code-expired"
    OTHER_SPACE = "other-space"
    NOT_A_MEMBER = "not-a-member"
    REVOKED = "revoked"
    TOO_MANY = "too-many"
    INTERNAL = "internal"


class ErrorInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An error as a value, as it travels in rows, messages and ``--json`` output."""

    code: str
    message: str


class HearthreelError(Exception):
    """Anything this program raises on purpose."""


class ExpectedError(HearthreelError):
    """Something the world did: it has a stable code and a sentence that says what to do."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def info(self) -> ErrorInfo:
        """Return the error as a value."""
        return ErrorInfo(code=str(self.code), message=self.message)


class StaleError(HearthreelError):
    """A write under a lease that is over; nothing was changed."""


class BugError(HearthreelError):
    """Something that cannot happen happened; report it with the log."""


def mistake_of_ours(error: Exception) -> ExpectedError:
    """Return what people are told of an exception that nobody foresaw."""
    what = str(error) if isinstance(error, BugError) else f"{type(error).__name__}: {error}"
    return ExpectedError(
        ErrorCode.INTERNAL, f"This is a mistake in Hearthreel, not of yours: {what}. Please report it; nothing is lost."
    )
