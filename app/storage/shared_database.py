"""The database connection of the vault's tables, used by one thread at a time under one lock.

``Database`` belongs to one thread at a time and sealing runs on several, so the vault has a connection of its own
(SQLite's WAL lets it live beside the queue's) and every use of it happens under ``lock``. The lock is re-entrant and
also guards what the index keeps in memory: whoever holds it sees both in step.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from app.core.database import Database, Migrations, Parameters, Row


class SharedDatabase:
    """One connection and its lock. Whoever made ``database`` must not use it elsewhere."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.lock = threading.RLock()

    def migrate(self, migrations: Migrations) -> None:
        """Apply pending steps; raises ``ExpectedError`` data-too-new."""
        with self.lock:
            self._database.migrate(migrations)

    @contextmanager
    def transaction(self) -> Iterator[Database]:
        """Hold the lock and a write transaction; not nestable."""
        with self.lock, self._database.transaction() as database:
            yield database

    def rows(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """Return the rows of a query."""
        with self.lock:
            return self._database.rows(sql, parameters)

    def row(self, sql: str, parameters: Parameters = ()) -> Row | None:
        """Return the first row of a query, or None."""
        with self.lock:
            return self._database.row(sql, parameters)
