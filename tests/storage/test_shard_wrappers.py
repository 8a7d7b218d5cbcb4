"""The wrappers: nothing bad gets out, and the disk keeps its floor."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.core.clock import ManualClock
from app.core.errors import ErrorCode, ExpectedError
from app.storage.cipher import name_of
from app.storage.shard_store import DiskSpace, FloorStore, MemoryShardStore, VerifyingStore

DATA = b"sealed bytes"
NAME = name_of(DATA)


@pytest.fixture
def memory() -> MemoryShardStore:
    return MemoryShardStore(wall_ms=ManualClock().wall_ms)


def code_of(call: Callable[[str], object], name: str) -> ErrorCode:
    with pytest.raises(ExpectedError) as caught:
        call(name)
    return caught.value.code


def test_s2_what_is_read_is_verified_and_a_bad_shard_is_quarantined(memory: MemoryShardStore) -> None:
    store = VerifyingStore(memory)
    memory.put(NAME, b"sealed bytez")
    assert code_of(store.get, NAME) == ErrorCode.DAMAGED_SHARD
    assert store.quarantined() == [NAME]
    assert code_of(store.get, NAME) == ErrorCode.MISSING_SHARD
    store.put(NAME, DATA)
    assert store.get(NAME) == DATA


def test_peeking_leaves_a_bad_shard_where_it_is(memory: MemoryShardStore) -> None:
    store = VerifyingStore(memory)
    memory.put(NAME, b"sealed bytez")
    assert code_of(store.peek, NAME) == ErrorCode.DAMAGED_SHARD
    assert list(store.names()) == [NAME]


def test_setting_aside_looks_again(memory: MemoryShardStore) -> None:
    store = VerifyingStore(memory)
    assert not store.set_aside_if_bad(NAME)
    memory.put(NAME, b"sealed bytez")
    assert store.set_aside_if_bad(NAME)
    memory.put(NAME, DATA)
    assert not store.set_aside_if_bad(NAME)
    assert store.get(NAME) == DATA


class HealingStore(MemoryShardStore):
    """Damaged at the first look, and written anew by someone else before the second."""

    def get(self, name: str) -> bytes:
        data = super().get(name)
        self.put(name, DATA)
        return data


def test_a_shard_written_anew_is_not_set_aside_for_the_damage_of_its_predecessor() -> None:
    inner = HealingStore(wall_ms=ManualClock().wall_ms)
    inner.put(NAME, b"sealed bytez")
    store = VerifyingStore(inner)
    assert store.get(NAME) == DATA
    assert store.quarantined() == []


class ReadOnlyStore(MemoryShardStore):
    """A store on a disk that became read-only."""

    def quarantine(self, name: str) -> None:
        raise ExpectedError(ErrorCode.READ_ONLY, f"{name} cannot be moved")


def test_damage_is_told_even_when_the_shard_cannot_be_set_aside() -> None:
    inner = ReadOnlyStore(wall_ms=ManualClock().wall_ms)
    inner.put(NAME, b"sealed bytez")
    assert code_of(VerifyingStore(inner).get, NAME) == ErrorCode.DAMAGED_SHARD


@pytest.mark.parametrize(
    ("total", "floor"), [(10**11, 5 * 10**9), (10**12, 10**10), (2 * 10**11, 10**10), (10**13, 10**10)]
)
def test_the_floor_is_five_percent_or_ten_gigabytes_the_smaller(total: int, floor: int) -> None:
    assert DiskSpace(total_bytes=total, free_bytes=total).floor_bytes == floor


def test_s6_a_put_that_would_go_below_the_floor_is_refused_and_nothing_is_lost(memory: MemoryShardStore) -> None:
    memory.put(NAME, DATA)
    full = FloorStore(memory, space=lambda: DiskSpace(total_bytes=1000, free_bytes=50 + 11))
    other = b"another shard"
    with pytest.raises(ExpectedError) as caught:
        full.put(name_of(other), other)
    assert caught.value.code == ErrorCode.DISK_FULL
    assert full.get(NAME) == DATA
    assert not full.put(NAME, DATA)


def test_a_put_that_just_fits_above_the_floor_is_taken(memory: MemoryShardStore) -> None:
    store = FloorStore(memory, space=lambda: DiskSpace(total_bytes=1000, free_bytes=50 + len(DATA)))
    assert store.put(NAME, DATA)
