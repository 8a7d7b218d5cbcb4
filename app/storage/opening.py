"""Putting the storage of one data directory together, and one in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from app.core.clock import Clock
from app.core.database import Database
from app.core.paths import DataDir
from app.storage.cipher import OwnerKeys, VaultKey
from app.storage.disk_store import DiskShardStore
from app.storage.index import ShardIndex
from app.storage.keys import SpaceKeys, adopt_keys, forget_owner_secret, open_keys, read_owner_secret
from app.storage.manifest import Shape
from app.storage.segments import SegmentTable
from app.storage.shard_store import DiskSpace, FloorStore, MemoryShardStore
from app.storage.shared_database import SharedDatabase
from app.storage.source_ledger import SourceLedger
from app.storage.vault import Vault

_SHAPE = Shape()


@dataclass(kw_only=True)
class Storage:
    """What the engine stores with. All parts may be used from several threads."""

    vault: Vault
    segments: SegmentTable
    sources: SourceLedger
    keys: SpaceKeys
    disk: DiskShardStore
    keys_folder: Path

    def adopt_keys(self, *, owner: OwnerKeys, vault: VaultKey) -> None:
        """Replace the keys of this device, durably; new content is sealed with the new vault key at once."""
        self.keys = adopt_keys(self.keys_folder, owner=owner, vault=vault)
        self.vault.use_key(self.keys.vault)

    def owner_secret(self) -> bytes:
        """Return the owner's secret while it waits here; raises ``ExpectedError`` not-found once it was confirmed."""
        return read_owner_secret(self.keys_folder)

    def forget_owner_secret(self) -> None:
        """Delete the owner's secret from this device, after its words were confirmed."""
        forget_owner_secret(self.keys_folder)
        self.keys = msgspec.structs.replace(self.keys, words_pending=False)

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
    return Storage(
        vault=vault,
        segments=SegmentTable(shared),
        sources=SourceLedger(shared),
        keys=keys,
        disk=disk,
        keys_folder=data.keys,
    )


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
