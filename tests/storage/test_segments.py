"""What running tasks have sealed so far."""

# ruff: noqa: S106 (the tokens of leases are no passwords)

from __future__ import annotations

import pytest

from app.core.clock import ManualClock
from app.media.film import BundleEntry
from app.storage.segments import LeaseKey, MadeSegment, SegmentTable
from app.storage.shared_database import SharedDatabase
from app.storage.vault import Vault

LEASE = LeaseKey(task_id="task", epoch=1, token="token-1")
NEXT = LeaseKey(task_id="task", epoch=2, token="token-2")


@pytest.fixture
def table(shared: SharedDatabase) -> SegmentTable:
    return SegmentTable(shared)


def made(number: int, *, lease: LeaseKey = LEASE, name: str = "720", capability: str = "") -> MadeSegment:
    return MadeSegment(
        lease=lease,
        job_id="job",
        plan="plan",
        name=name,
        number=number,
        capability=capability or f"{name}/{number}/{lease.epoch}",
        size_bytes=1000 + number,
        duration_ticks=540_000,
    )


def find(table: SegmentTable, number: int, name: str = "720") -> MadeSegment | None:
    return table.find(job_id="job", plan="plan", name=name, number=number)


def test_a_noted_segment_is_found_at_once(table: SegmentTable) -> None:
    table.note(made(3))
    assert find(table, 3) == made(3)
    assert find(table, 4) is None
    assert find(table, 3, name="1080") is None
    assert table.find(job_id="job", plan="other plan", name="720", number=3) is None
    assert table.find(job_id="other job", plan="plan", name="720", number=3) is None


def test_noting_again_replaces(table: SegmentTable) -> None:
    table.note(made(3), made(3, capability="again"))
    found = find(table, 3)
    assert found is not None
    assert found.capability == "again"


def test_a_lease_takes_what_it_made_in_order_and_nothing_else(table: SegmentTable) -> None:
    table.note(made(10), made(9), made(-1), made(9, name="1080"), made(9, lease=NEXT))
    assert [(entry.name, entry.number) for entry in table.take(LEASE)] == [
        ("1080", 9),
        ("720", -1),
        ("720", 9),
        ("720", 10),
    ]
    assert table.take(LEASE)[1] == BundleEntry(
        name="720", number=-1, capability="720/-1/1", size_bytes=999, duration_ticks=540_000
    )
    assert table.take(LeaseKey(task_id="task", epoch=1, token="another")) == ()


def test_the_newest_lease_is_served(table: SegmentTable) -> None:
    table.note(made(3, lease=NEXT), made(3))
    assert find(table, 3) == made(3, lease=NEXT)


def test_dropping_a_lease_leaves_the_next_one(table: SegmentTable) -> None:
    table.note(made(3), made(4), made(3, lease=NEXT))
    assert table.drop(LEASE) == 2
    assert table.drop(LEASE) == 0
    assert find(table, 3) == made(3, lease=NEXT)
    assert find(table, 4) is None


def test_at_start_only_live_leases_are_kept(table: SegmentTable) -> None:
    table.note(made(3), made(4), made(3, lease=NEXT))
    assert table.keep_only([NEXT]) == 2
    assert table.capabilities() == ("720/3/2",)
    assert table.keep_only([]) == 1
    assert table.capabilities() == ()


def test_dropping_a_job_drops_all_its_leases(table: SegmentTable) -> None:
    table.note(made(3), made(3, lease=NEXT))
    assert table.drop_job("other") == 0
    assert table.drop_job("job") == 2


def test_numbers_tell_what_is_made(table: SegmentTable) -> None:
    table.note(made(3), made(3, lease=NEXT), made(7), made(8, name="1080"))
    assert table.numbers(job_id="job", plan="plan", name="720") == {3, 7}


def test_segments_of_running_tasks_are_kept_by_the_collector_and_go_when_dropped(
    vault: Vault, shared: SharedDatabase, clock: ManualClock
) -> None:
    table = SegmentTable(shared)
    table.note(made(3, capability=vault.write_bytes(b"segment", pad=True)))
    clock.advance(48 * 3600)
    assert vault.collect(table.capabilities(), now_ms=clock.wall_ms()).shards == 0
    table.drop(LEASE)
    assert vault.collect(table.capabilities(), now_ms=clock.wall_ms()).shards == 1
