"""Who takes what among several devices."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from app.queue.abilities import Abilities
from app.queue.pool import DEFER_S, TAIL_S, Needs, Peer, Refusal, why_not

GB = 10**9
ME = Abilities(works=True, speed=1000, free_slots=1, memory_bytes=8 * GB, free_bytes=100 * GB)
CHUNK = Needs(work=30_000, job_work=3_000_000, source_bytes=60_000_000, disk_bytes=GB, memory_bytes=GB, source_at="me")


def peer(name: str = "Tower", *, speed: int = 4000, free_slots: int = 1, rate: float = 0.0, works: bool = True) -> Peer:
    abilities = replace(ME, speed=speed, free_slots=free_slots, works=works)
    return Peer(device=name.lower(), name=name, abilities=abilities, bytes_per_s=rate)


def reason(refusal: Refusal | None) -> str:
    return refusal.reason if refusal else ""


def test_a_device_alone_takes_what_it_can_do() -> None:
    assert why_not(CHUNK, ME, ()) is None


def test_a_stronger_device_that_is_free_is_left_the_task_for_a_short_while() -> None:
    words = "It is left to “Tower”, which is faster, for another {} s."
    assert why_not(CHUNK, ME, (peer(),)) == Refusal(reason=words.format(12), for_s=DEFER_S)
    assert why_not(replace(CHUNK, open_s=5.0), ME, (peer(),)) == Refusal(reason=words.format(7), for_s=7.0)
    assert why_not(replace(CHUNK, open_s=DEFER_S), ME, (peer(),)) is None


@pytest.mark.parametrize(
    "other",
    [peer(free_slots=0), peer(works=False), peer(speed=1400), peer(rate=1_000_000.0)],
    ids=["busy", "does not work", "hardly faster", "the file takes a minute to it"],
)
def test_a_task_is_not_left_to_a_device_that_would_not_do_it_sooner(other: Peer) -> None:
    assert why_not(CHUNK, ME, (other,)) is None


def test_what_somebody_waits_to_watch_is_left_to_nobody() -> None:
    assert why_not(replace(CHUNK, is_wanted=True), ME, (peer(),)) is None


def test_a_device_on_its_battery_leaves_work_to_one_on_mains() -> None:
    slower = peer(speed=900)
    assert why_not(CHUNK, ME, (slower,)) is None
    assert "Tower" in reason(why_not(CHUNK, replace(ME, on_mains=False, speed=500), (slower,)))


def test_the_tail_of_a_job_is_not_given_to_the_device_that_would_finish_last() -> None:
    fast = peer(speed=20_000, free_slots=0)
    last = replace(CHUNK, job_work=90_000, open_s=DEFER_S)
    refusal = why_not(last, ME, (fast,))
    assert reason(refusal) == "What is left of it is done sooner without this device, by “Tower”."
    assert why_not(replace(last, open_s=TAIL_S), ME, (fast,)) is None  # but not for ever: it may never come to it
    assert why_not(replace(last, job_work=900_000), ME, (fast,)) is None  # enough is left for all


def test_a_device_takes_a_chunk_of_a_file_elsewhere_only_while_its_holder_is_there() -> None:
    elsewhere = replace(CHUNK, has_source=False, source_at="tower")
    assert "holds the file" in reason(why_not(elsewhere, ME, ()))
    assert "holds the file" in reason(why_not(elsewhere, ME, (peer("Other"),)))
    assert why_not(elsewhere, ME, (peer(free_slots=0),)) is None


def test_what_is_done_only_where_the_file_is_waits_for_that_device_by_name() -> None:
    index = Needs(has_source=False, source_at="tower", only_at_source=True)
    assert reason(why_not(index, ME, (peer(),))) == "It waits for “Tower”, which holds the file."
    assert "does not work now" in reason(why_not(index, ME, (peer(works=False),)))


def test_the_way_of_the_file_counts_for_the_device_that_does_not_hold_it() -> None:
    """Alone it would take 30 s; with the minute that the file takes it would be last."""
    elsewhere = replace(CHUNK, has_source=False, source_at="tower", job_work=120_000, open_s=DEFER_S)
    assert why_not(elsewhere, ME, (peer(speed=2000, free_slots=0),)) is None
    slow_link = peer(speed=2000, free_slots=0, rate=1_000_000.0)
    assert "sooner without" in reason(why_not(elsewhere, ME, (slow_link,)))


def test_a_task_that_this_device_cannot_hold_is_refused_with_what_is_missing() -> None:
    assert reason(why_not(CHUNK, replace(ME, free_bytes=10), ())) == (
        "The disk is too full for it: it needs about 1.0 GB; free some room on this device."
    )
    assert reason(why_not(replace(CHUNK, memory_bytes=5 * GB), ME, ())) == (
        "It is too large for this device: it needs about 5.0 GB of memory."
    )


def test_tasks_that_cost_nothing_are_taken_by_whoever_comes() -> None:
    assert why_not(Needs(), ME, (peer(speed=100_000),)) is None
