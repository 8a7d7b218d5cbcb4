"""The vault's tables. All of them are local to this device and none is replicated.

* ``shards`` can be rebuilt from the files; it knows when each shard was last written or hit, and last read;
* ``made_segments`` lists what running tasks have sealed so far;
* ``sources`` says where on this device the file of a job is.
"""

from __future__ import annotations

from typing import Any

from app.core.database import Migrations

VAULT_MIGRATIONS = Migrations("vault")


@VAULT_MIGRATIONS()
def create_vault_tables(tables: Any) -> None:
    """Create all tables of the first version."""
    tables.execute(
        """
        CREATE TABLE shards (
            name BLOB PRIMARY KEY,
            size INTEGER NOT NULL,
            last_written_ms INTEGER NOT NULL,
            last_used_ms INTEGER NOT NULL
        ) WITHOUT ROWID
        """
    )
    tables.execute("CREATE INDEX shards_by_last_written ON shards (last_written_ms)")
    tables.execute("CREATE TABLE vault_state (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID")
    tables.execute(
        """
        CREATE TABLE made_segments (
            task_id TEXT NOT NULL,
            epoch INTEGER NOT NULL,
            token TEXT NOT NULL,
            name TEXT NOT NULL,
            number INTEGER NOT NULL,
            job_id TEXT NOT NULL,
            plan TEXT NOT NULL,
            capability TEXT NOT NULL,
            size_bytes INTEGER NOT NULL,
            duration_ticks INTEGER NOT NULL,
            PRIMARY KEY (task_id, epoch, token, name, number)
        ) WITHOUT ROWID
        """
    )
    tables.execute("CREATE INDEX made_segments_by_place ON made_segments (job_id, plan, name, number)")
    tables.execute(
        """
        CREATE TABLE sources (
            job_id TEXT PRIMARY KEY,
            fingerprint TEXT NOT NULL,
            path BLOB NOT NULL,
            size_bytes INTEGER NOT NULL,
            mtime_ns INTEGER NOT NULL,
            inode TEXT NOT NULL,
            capability TEXT
        ) WITHOUT ROWID
        """
    )
    tables.execute("CREATE INDEX sources_by_fingerprint ON sources (fingerprint)")
