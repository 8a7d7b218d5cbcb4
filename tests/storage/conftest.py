"""What storage tests share: fixed keys, a clock moved by hand, vaults on disk and in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.core.clock import ManualClock
from app.core.database import Database
from app.storage.cipher import VaultKey
from app.storage.disk_store import DiskShardStore
from app.storage.index import ShardIndex
from app.storage.manifest import Shape
from app.storage.opening import memory_vault
from app.storage.shared_database import SharedDatabase
from app.storage.vault import Vault


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def key() -> VaultKey:
    return VaultKey(bytes(range(32)))


@pytest.fixture
def shared() -> Iterator[SharedDatabase]:
    database = Database(None)
    yield SharedDatabase(database)
    database.close()


@pytest.fixture
def disk(tmp_path: Path) -> DiskShardStore:
    return DiskShardStore(tmp_path / "vault")


@pytest.fixture
def vault(disk: DiskShardStore, shared: SharedDatabase, key: VaultKey, clock: ManualClock) -> Vault:
    """Return a vault on disk."""
    return Vault(store=disk, index=ShardIndex(shared), key=key, clock=clock)


@pytest.fixture
def small_vault(clock: ManualClock, key: VaultKey) -> Iterator[Vault]:
    """Lend a vault in memory that cuts at 10 bytes and has 3 entries in a manifest, so that trees grow deep."""
    with memory_vault(clock=clock, key=key, shape=Shape(shard_bytes=10, fan_out=3)) as vault:
        yield vault
