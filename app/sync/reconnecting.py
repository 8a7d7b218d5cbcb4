"""When to try a device again, and how to try all its addresses at once.

::

    waiting ──due──► trying ──failed──► waiting, twice as long (1 s … 5 min, each spread by a quarter)
       ▲                └──connected──► connected ──lost──► waiting 1 s, or on where it was when it held too shortly
       └── nudged: the network changed, or the device was just seen: due at once
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from app.core.errors import ErrorCode, ExpectedError
from app.sync.addresses import Address

FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 300.0
HOLDS_AFTER_S: Final = 60.0
"""A connection that held so long starts the waits anew."""
NUDGE_AT_MOST_EVERY_S: Final = 5.0
STAGGER_S: Final = 0.3

T = TypeVar("T")


class ReconnectSchedule:
    """When one device is tried next; ``spread`` gives a number from 0 to 1 (random, so that devices do not meet)."""

    def __init__(self, *, spread: Callable[[], float], now_s: float) -> None:
        self._spread = spread
        self._due_at_s: float | None = now_s
        self._wait_s = FIRST_WAIT_S
        self._connected_at_s: float | None = None
        self._nudged_at_s = float("-inf")

    def next_attempt(self, now_s: float) -> float | None:
        """Return in how many seconds to try, 0 for now; None while connected or trying."""
        return None if self._due_at_s is None else max(0.0, self._due_at_s - now_s)

    def trying(self) -> None:
        """Take note that an attempt has begun."""
        self._due_at_s = None

    def failed(self, now_s: float) -> None:
        """Wait after a failed attempt, and longer after the next."""
        self._due_at_s = now_s + self._wait_s * (0.75 + 0.5 * self._spread())
        self._wait_s = min(2 * self._wait_s, LONGEST_WAIT_S)

    def connected(self, now_s: float) -> None:
        """Take note that there is a connection, made here or there."""
        self._due_at_s = None
        self._connected_at_s = now_s

    def lost(self, now_s: float) -> None:
        """Wait after the connection ended."""
        if self._connected_at_s is not None and now_s - self._connected_at_s >= HOLDS_AFTER_S:
            self._wait_s = FIRST_WAIT_S
        self._connected_at_s = None
        self.failed(now_s)

    def nudge(self, now_s: float) -> None:
        """Something changed that makes it worth trying now; no more often than every few seconds."""
        if self._due_at_s is not None and now_s - self._nudged_at_s >= NUDGE_AT_MOST_EVERY_S:
            self._nudged_at_s = now_s
            self._due_at_s = now_s
            self._wait_s = FIRST_WAIT_S


async def first_to_connect(
    addresses: Sequence[Address],
    connect: Callable[[Address], Awaitable[T]],
    *,
    discard: Callable[[T], None],
    stagger_s: float = STAGGER_S,
) -> tuple[Address, T]:
    """Try addresses, each a little after the one before or as soon as that failed; return the first that works.

    What else connects meanwhile is given to ``discard``; the rest is cancelled. Raises ``ExpectedError``: not-trusted
    when one of the addresses led to somebody else or to a refusal, else unreachable.
    """
    running: dict[asyncio.Task[T], Address] = {}
    errors: list[ExpectedError] = []
    waiting = deque(addresses)
    try:
        while running or waiting:
            if waiting:
                address = waiting.popleft()
                running[_start(connect, address)] = address
            done, _ = await asyncio.wait(
                running, timeout=stagger_s if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                address = running.pop(task)
                error = task.exception()
                if error is None:
                    return address, task.result()
                if not isinstance(error, ExpectedError):
                    raise error
                errors.append(error)
    finally:
        await _stop(running, discard)
    raise _worst(errors)


def _start(connect: Callable[[Address], Awaitable[T]], address: Address) -> asyncio.Task[T]:
    async def run() -> T:
        return await connect(address)

    return asyncio.create_task(run())


async def _stop(running: dict[asyncio.Task[T], Address], discard: Callable[[T], None]) -> None:
    for task in running:
        task.cancel()
    for outcome in await asyncio.gather(*running, return_exceptions=True):
        if not isinstance(outcome, BaseException):
            discard(outcome)


def _worst(errors: Sequence[ExpectedError]) -> ExpectedError:
    """Return the error that a person should see: a refusal says more than a silence."""
    refusals = [error for error in errors if error.code == ErrorCode.NOT_TRUSTED]
    return next(iter([*refusals, *errors]), _no_address())


def _no_address() -> ExpectedError:
    return ExpectedError(
        ErrorCode.UNREACHABLE, "No address of the device is known, and it was not seen in this network."
    )
