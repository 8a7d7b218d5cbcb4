"""When a device is tried again, and all its addresses at once."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import ErrorCode, ExpectedError
from app.sync.addresses import Address
from app.sync.reconnecting import (
    FIRST_WAIT_S,
    HOLDS_AFTER_S,
    LONGEST_WAIT_S,
    NUDGE_AT_MOST_EVERY_S,
    ReconnectSchedule,
    first_to_connect,
)

pytestmark = pytest.mark.timeout(30)
ONE, TWO, THREE = (Address(host=f"10.0.0.{n}", port=1) for n in (1, 2, 3))


def middle() -> float:
    return 0.5


def test_a_device_is_tried_at_once_then_less_and_less_often() -> None:
    schedule = ReconnectSchedule(spread=middle, now_s=0)
    assert schedule.next_attempt(0) == 0
    waits = []
    for _ in range(12):
        schedule.trying()
        assert schedule.next_attempt(0) is None
        schedule.failed(0)
        waits.append(schedule.next_attempt(0))
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]
    assert schedule.next_attempt(100) == 200
    assert schedule.next_attempt(1000) == 0


@given(spread=st.floats(0, 1), failures=st.integers(1, 40))
def test_waits_are_spread_and_bounded(spread: float, failures: int) -> None:
    schedule = ReconnectSchedule(spread=lambda: spread, now_s=0)
    for _ in range(failures):
        schedule.failed(0)
    wait = schedule.next_attempt(0)
    assert wait is not None
    assert 0.75 * FIRST_WAIT_S <= wait <= 1.25 * LONGEST_WAIT_S


def test_a_connection_that_held_starts_the_waits_anew() -> None:
    schedule = ReconnectSchedule(spread=middle, now_s=0)
    for _ in range(6):
        schedule.failed(0)
    schedule.connected(10)
    assert schedule.next_attempt(10) is None
    schedule.lost(10 + HOLDS_AFTER_S)
    assert schedule.next_attempt(10 + HOLDS_AFTER_S) == FIRST_WAIT_S


def test_a_connection_that_flaps_is_not_hammered() -> None:
    schedule = ReconnectSchedule(spread=middle, now_s=0)
    for n in range(6):
        schedule.connected(n)
        schedule.lost(n)
    assert schedule.next_attempt(5) == 32


def test_a_nudge_makes_it_due_at_once_but_not_over_and_over() -> None:
    schedule = ReconnectSchedule(spread=middle, now_s=0)
    for _ in range(8):
        schedule.failed(0)
    schedule.nudge(1)
    assert schedule.next_attempt(1) == 0
    schedule.failed(1)
    schedule.nudge(2)
    assert schedule.next_attempt(2) == FIRST_WAIT_S - 1
    schedule.failed(2)
    schedule.nudge(1 + NUDGE_AT_MOST_EVERY_S)
    assert schedule.next_attempt(1 + NUDGE_AT_MOST_EVERY_S) == 0


def test_a_nudge_does_not_disturb_a_connection() -> None:
    schedule = ReconnectSchedule(spread=middle, now_s=0)
    schedule.connected(0)
    schedule.nudge(100)
    assert schedule.next_attempt(100) is None


class Places:
    """Addresses that connect, fail or hang, as told."""

    def __init__(self, **_: object) -> None:
        self.tried: list[Address] = []
        self.discarded: list[str] = []
        self.gates: dict[Address, asyncio.Future[str]] = {}

    async def connect(self, address: Address) -> str:
        self.tried.append(address)
        self.gates[address] = asyncio.get_running_loop().create_future()
        return await asyncio.shield(self.gates[address])

    async def until_tried(self, count: int) -> None:
        while len(self.tried) < count:  # noqa: ASYNC110 - one turn of the loop at a time
            await asyncio.sleep(0)


async def search(places: Places, *addresses: Address, stagger_s: float = 3600) -> tuple[Address, str]:
    return await first_to_connect(addresses, places.connect, discard=places.discarded.append, stagger_s=stagger_s)


async def test_the_next_address_is_tried_as_soon_as_one_failed() -> None:
    places = Places()
    searching = asyncio.create_task(search(places, ONE, TWO))
    await places.until_tried(1)
    places.gates[ONE].set_exception(ExpectedError(ErrorCode.UNREACHABLE, "gone"))
    await places.until_tried(2)
    places.gates[TWO].set_result("channel")
    assert await searching == (TWO, "channel")


async def test_a_single_address_is_enough() -> None:
    places = Places()
    searching = asyncio.create_task(search(places, ONE))
    await places.until_tried(1)
    places.gates[ONE].set_result("channel")
    assert await searching == (ONE, "channel")


async def test_a_device_that_roamed_is_found_though_its_first_address_hangs() -> None:
    places = Places()
    searching = asyncio.create_task(search(places, ONE, TWO, stagger_s=0.01))
    async with asyncio.timeout(10):
        await places.until_tried(2)
    places.gates[TWO].set_result("channel")
    assert await searching == (TWO, "channel")
    assert places.discarded == []


async def test_of_two_connections_one_is_given_up() -> None:
    places = Places()
    searching = asyncio.create_task(search(places, ONE, TWO, stagger_s=0))
    await places.until_tried(2)
    places.gates[ONE].set_result("first")
    places.gates[TWO].set_result("second")
    address, channel = await searching
    assert {address: channel, **dict(zip({ONE, TWO} - {address}, places.discarded, strict=True))} == {
        ONE: "first",
        TWO: "second",
    }


async def test_a_refusal_says_more_than_a_silence() -> None:
    places = Places()
    searching = asyncio.create_task(search(places, ONE, TWO, THREE, stagger_s=0))
    await places.until_tried(3)
    places.gates[ONE].set_exception(ExpectedError(ErrorCode.UNREACHABLE, "gone"))
    places.gates[TWO].set_exception(ExpectedError(ErrorCode.NOT_TRUSTED, "refused"))
    places.gates[THREE].set_exception(ExpectedError(ErrorCode.UNREACHABLE, "gone"))
    with pytest.raises(ExpectedError, match="refused"):
        await searching


async def test_without_an_address_that_is_said() -> None:
    with pytest.raises(ExpectedError, match="No address of the device is known"):
        await search(Places())


async def test_a_cancelled_search_leaves_nothing_behind() -> None:
    places = Places()
    searching = asyncio.create_task(search(places, ONE, TWO, stagger_s=0))
    await places.until_tried(2)
    searching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await searching
    assert asyncio.all_tasks() == {asyncio.current_task()}
