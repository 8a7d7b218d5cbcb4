"""The contract of a shard store, on every implementation and wrapper."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from app.core.clock import ManualClock
from app.core.errors import BugError, ErrorCode, ExpectedError
from app.storage.cipher import name_of
from app.storage.disk_store import DiskShardStore
from app.storage.shard_store import DiskSpace, FloorStore, MemoryShardStore, ShardStore, VerifyingStore

MakeStore = Callable[[], ShardStore]


def in_memory(_folder: Path) -> ShardStore:
    return MemoryShardStore(wall_ms=ManualClock(wall_ms=1_000).wall_ms)


def on_disk(folder: Path) -> ShardStore:
    return DiskShardStore(folder / "vault")


def wrapped(folder: Path) -> ShardStore:
    space = DiskSpace(total_bytes=10**12, free_bytes=10**12)
    return VerifyingStore(FloorStore(on_disk(folder), space=lambda: space))


@pytest.fixture(params=[in_memory, on_disk, wrapped])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ShardStore:
    made: ShardStore = request.param(tmp_path)
    return made


DATA = b"sealed bytes"
NAME = name_of(DATA)


def test_what_is_put_can_be_got(store: ShardStore) -> None:
    assert store.put(NAME, DATA)
    assert store.get(NAME) == DATA


def test_putting_again_says_that_it_was_there(store: ShardStore) -> None:
    store.put(NAME, DATA)
    assert not store.put(NAME, DATA)
    assert list(store.names()) == [NAME]


def test_putting_heals_what_is_damaged(store: ShardStore) -> None:
    store.put(NAME, b"flipped bytes")
    assert store.put(NAME, DATA)
    assert store.get(NAME) == DATA


def test_an_empty_shard_is_a_shard(store: ShardStore) -> None:
    assert store.put(name_of(b""), b"")
    assert store.get(name_of(b"")) == b""
    assert not store.put(name_of(b""), b"")


def test_a_missing_shard_is_named_so(store: ShardStore) -> None:
    with pytest.raises(ExpectedError) as caught:
        store.get(NAME)
    assert caught.value.code == ErrorCode.MISSING_SHARD
    assert store.stat(NAME) is None


def test_stat_tells_the_size(store: ShardStore) -> None:
    store.put(NAME, DATA)
    stat = store.stat(NAME)
    assert stat is not None
    assert stat.size == len(DATA)
    assert stat.written_ms > 0


def test_deleting_gives_the_bytes_back_once(store: ShardStore) -> None:
    store.put(NAME, DATA)
    assert store.delete(NAME) == len(DATA)
    assert store.delete(NAME) == 0
    assert list(store.names()) == []


def test_names_are_sorted_and_complete(store: ShardStore) -> None:
    contents = [f"shard {number}".encode() for number in range(40)]
    for data in contents:
        store.put(name_of(data), data)
    assert list(store.names()) == sorted(name_of(data) for data in contents)


def test_a_quarantined_shard_is_not_here_any_more_but_not_lost(store: ShardStore) -> None:
    store.put(NAME, DATA)
    store.quarantine(NAME)
    assert store.stat(NAME) is None
    assert list(store.names()) == []
    assert store.quarantined() == [NAME]
    assert store.strays() == []


def test_quarantining_twice_and_what_is_not_here_is_harmless(store: ShardStore) -> None:
    store.quarantine(NAME)
    for _ in range(2):
        store.put(NAME, DATA)
        store.quarantine(NAME)
    assert store.quarantined() == [NAME]


def test_only_what_was_set_aside_long_ago_is_dropped(store: ShardStore) -> None:
    store.put(NAME, DATA)
    store.quarantine(NAME)
    assert store.drop_quarantined(before_ms=0) == 0
    assert store.quarantined() == [NAME]
    assert store.drop_quarantined(before_ms=10**14) == len(DATA)
    assert store.quarantined() == []


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "AB" * 32, "ab" * 31, "ab" * 33, "zz" * 32])
def test_what_is_no_shard_name_is_a_bug(store: ShardStore, name: str) -> None:
    for call in (store.get, store.stat, store.delete, store.quarantine):
        with pytest.raises(BugError):
            call(name)
    with pytest.raises(BugError):
        store.put(name, DATA)


def test_many_threads_may_put_the_same_shards(store: ShardStore) -> None:
    contents = [bytes([number]) * 1000 for number in range(8)]
    new: list[bool] = []

    def put_all() -> None:
        new.extend([store.put(name_of(data), data) for data in contents])

    threads = [threading.Thread(target=put_all) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(new) == 48
    assert all(store.get(name_of(data)) == data for data in contents)
    assert len(list(store.names())) == len(contents)
