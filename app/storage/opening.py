"""Putting the storage of one data directory together, and one in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from app.core.clock import Clock
from app.core.database import Database
from app.core.paths import DataDir
from app.storage.cipher import VaultKey
from app.storage.disk_store import DiskShardStore
from app.storage.index import ShardIndex
from app.storage.keys import SpaceKeys, open_keys
from app.storage.manifest import Shape
from app.storage.segments import SegmentTable
from app.storage.shard_store import DiskSpace, FloorStore, MemoryShardStore
from app.storage.shared_database import SharedDatabase
from app.storage.source_ledger import SourceLedger
from app.storage.vault import Vault

_SHAPE = Shape()


@dataclass(frozen=True, kw_only=True)
class Storage:
    """What the engine stores with. All parts may be used from several threads."""

    vault: Vault
    segments: SegmentTable
    sources: SourceLedger
    keys: SpaceKeys
    disk: DiskShardStore

    def space(self) -> DiskSpace:
        """Return the room on the disk that holds the vault."""
        return self.disk.space()

    def close(self) -> None:
        """Write down what is only noted. The database is closed by whoever opened it."""
        self.vault.close()


def open_storage(data: DataDir, database: Database, *, clock: Clock) -> Storage:
    """Open (or, the first time, make) keys, vault and tables of a data directory.

    The caller holds the data directory's lock, and hands over ``database``: a connection to ``data.database`` that
    nothing else uses. Raises ``ExpectedError`` as ``open_keys``, data-too-new, disk errors.
    """
    disk = DiskShardStore(data.vault)
    keys = open_keys(data.keys, vault_in_use=next(disk.names(), None) is not None)
    shared = SharedDatabase(database)
    vault = Vault(store=FloorStore(disk, space=disk.space), index=ShardIndex(shared), key=keys.vault, clock=clock)
    return Storage(vault=vault, segments=SegmentTable(shared), sources=SourceLedger(shared), keys=keys, disk=disk)


@contextmanager
def memory_vault(*, clock: Clock, key: VaultKey, shape: Shape = _SHAPE) -> Iterator[Vault]:
    """Lend a vault that lives in memory and never touches a disk."""
    database = Database(None)
    try:
        yield Vault(
            store=MemoryShardStore(wall_ms=clock.wall_ms),
            index=ShardIndex(SharedDatabase(database)),
            key=key,
            clock=clock,
            shape=shape,
        )
    finally:
        database.close()
