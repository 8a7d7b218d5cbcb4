"""The door to SQLite: one connection, durable commits, write transactions that never fail half-way.

Opened in WAL mode with ``synchronous=FULL``, so that a commit that returned survives power loss. Every write goes
through ``transaction()``, which takes the write lock at its start (``BEGIN IMMEDIATE``): a read followed by a write in
a deferred transaction could fail with "locked" at once, whatever the busy timeout.

A ``Database`` is used by one thread at a time; the engine gives it a thread of its own (see ``app.engine``).
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlite_utils
from sqlite_utils import Migrations

from app.core.errors import BugError, ErrorCode, ExpectedError

BUSY_TIMEOUT_S = 20.0
_CACHED_STATEMENTS = 512
_PRAGMAS = (
    "journal_mode=WAL",
    "synchronous=FULL",
    "foreign_keys=ON",
    "temp_store=MEMORY",
    "cache_size=-16384",  # KiB; rows are found by random ids, so that with the usual 2 MiB every look-up of a long
    # history reads a page anew
)
SQLITE_VERSION = sqlite3.sqlite_version

Parameters = Sequence[Any] | Mapping[str, Any]
Row = dict[str, Any]

__all__ = ["Database", "Migrations", "Row", "disk_error_to_ours"]


def disk_error_to_ours(error: OSError, path: Path | str) -> ExpectedError:
    """Return our error for what the file system said about ``path``."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
        return ExpectedError(
            ErrorCode.DISK_FULL,
            f"The disk that holds {path} is full. Free some space; work goes on by itself, nothing is lost.",
        )
    if error.errno in {errno.EROFS, errno.EACCES, errno.EPERM}:
        return ExpectedError(
            ErrorCode.READ_ONLY,
            f"{path} cannot be written ({error.strerror}). Allow writing there or choose another --data-dir.",
        )
    if error.errno in {errno.ENOENT, errno.ENOTDIR}:
        return ExpectedError(ErrorCode.NOT_FOUND, f"There is no such folder for {path}; make it or choose another.")
    return ExpectedError(ErrorCode.INTERNAL, f"{path}: {error.strerror or error}")


def _sqlite_error_to_ours(error: sqlite3.Error, path: Path | str) -> Exception:
    text = str(error).lower()
    if "disk is full" in text:
        return disk_error_to_ours(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), path)
    if "disk i/o error" in text:
        return ExpectedError(
            ErrorCode.DISK_FULL,
            f"The database {path} could not be written ({error}); most likely the disk is full. "
            "Free some space and try again; nothing is lost.",
        )
    if "readonly" in text or "unable to open" in text:
        return ExpectedError(
            ErrorCode.READ_ONLY,
            f"The database {path} cannot be written ({error}). "
            "Allow writing to its folder or choose another --data-dir.",
        )
    if "locked" in text or "busy" in text:
        return ExpectedError(
            ErrorCode.DATABASE_LOCKED,
            f"Another program holds the database {path}; close it and try again.",
        )
    if "malformed" in text or "not a database" in text or "corrupt" in text:
        return ExpectedError(
            ErrorCode.DATABASE_DAMAGED,
            f"The database {path} is damaged ({error}). It was left untouched. Restore it from a backup; or, to start "
            "anew, move the whole data directory away and add the films again. Your own files are where they were.",
        )
    return BugError(f"SQLite: {error}")


class Database:
    """One SQLite file, or a private one in memory when ``path`` is None."""

    def __init__(self, path: Path | None, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        self._name = path or ":memory:"
        with self._translated():
            connection = sqlite3.connect(
                str(self._name),
                timeout=busy_timeout_s,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=_CACHED_STATEMENTS,
            )
            try:
                for pragma in _PRAGMAS:
                    connection.execute(f"PRAGMA {pragma}")
            except BaseException:
                connection.close()
                raise
        self._connection = connection
        self._tables = sqlite_utils.Database(connection, execute_plugins=False)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise _sqlite_error_to_ours(error, self._name) from error

    def migrate(self, migrations: Migrations) -> None:
        """Apply the pending steps of ``migrations``.

        Raises ``ExpectedError`` data-too-new when a newer version of this program has migrated the file further.
        """
        with self._translated():
            known = {step.name for step in migrations._migrations}  # noqa: SLF001 (no public list)
            unknown = [step.name for step in migrations.applied(self._tables) if step.name not in known]
            if unknown:
                raise ExpectedError(
                    ErrorCode.DATA_TOO_NEW,
                    f"{self._name} was written by a newer version of Hearthreel (step “{unknown[0]}”); "
                    "update this installation to open it.",
                )
            if migrations.pending(self._tables):
                migrations.apply(self._tables)

    @contextmanager
    def transaction(self) -> Iterator[Database]:
        """Hold the write lock; all changes inside become durable together, or none does. Not nestable."""
        with self._translated():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """Return the rows of a query as dictionaries.

        Straight from the connection: sqlite-utils would put a savepoint around each query, which costs more than most
        of ours do.
        """
        try:
            cursor = self._connection.execute(sql, parameters)
            names = [column[0] for column in cursor.description]
            return [dict(zip(names, values, strict=True)) for values in cursor.fetchall()]
        except sqlite3.Error as error:
            raise _sqlite_error_to_ours(error, self._name) from error

    def row(self, sql: str, parameters: Parameters = ()) -> Row | None:
        """Return the first row of a query, or None."""
        rows = self.rows(sql, parameters)
        return rows[0] if rows else None

    def execute(self, sql: str, parameters: Parameters = ()) -> int:
        """Run one writing statement inside a transaction; return how many rows it changed."""
        if not self._connection.in_transaction:
            raise BugError("writes go through Database.transaction()")
        try:
            return self._connection.execute(sql, parameters).rowcount
        except sqlite3.Error as error:
            raise _sqlite_error_to_ours(error, self._name) from error

    def upsert(self, table: str, row: Row, *, key: str | tuple[str, ...]) -> None:
        """Insert ``row`` or update the row with the same key; inside a transaction."""
        if not self._connection.in_transaction:
            raise BugError("writes go through Database.transaction()")
        with self._translated():
            self._tables.table(table).upsert(row, pk=key)

    def check(self) -> str | None:
        """Return what SQLite's own check finds wrong, or None."""
        result = self.row("PRAGMA quick_check(1)")
        verdict = next(iter(result.values())) if result else "no answer"
        return None if verdict == "ok" else str(verdict)

    def checkpoint(self) -> None:
        """Move the write-ahead log into the file and shorten it."""
        with self._translated():
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Close the connection; the object is of no use afterwards."""
        with self._translated():
            self._tables.close()
