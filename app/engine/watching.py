"""Watching over the leases of other devices: whoever falls silent for too long gives its task back to all."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection
from random import Random

from app.core.errors import ExpectedError, StaleError
from app.engine.kernel import Kernel
from app.queue.observing import LeaseObserver
from app.queue.store import JobStore

_log = logging.getLogger(__name__)

TICK_S = 4.0
"""Less than what a tick may count at most (``app.queue.observing``)."""


class LeaseWatch:
    """Ticks the observer and writes the ends that it decides; one per engine."""

    def __init__(
        self, kernel: Kernel, own_tokens: Callable[[], Collection[str]], *, random: Random | None = None
    ) -> None:
        self._kernel = kernel
        self._own_tokens = own_tokens
        self._observer = LeaseObserver(random=random or Random())  # noqa: S311 (spreads observers, hides nothing)

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            try:
                await self.tick()
            except ExpectedError as error:
                _log.info("leases could not be watched: %s", error)
            await asyncio.sleep(TICK_S)

    async def tick(self) -> int:
        """Look once; return how many leases were given up."""
        own, now_s = self._own_tokens(), self._kernel.clock.monotonic_s()
        over = await self._kernel.queue(lambda store: self._look(store, own, now_s))
        if over:
            self._kernel.note_change()
        return over

    def _look(self, store: JobStore, own: Collection[str], now_s: float) -> int:
        leased = [(store.job(task.job_id), task) for task in store.live_leases()]
        over = 0
        for one in self._observer.tick(leased, own=own, now_s=now_s):
            with contextlib.suppress(StaleError):
                store.reclaim(one.task_id, one.lease, rank=one.rank, code=one.code, message=one.message)
                over += 1
        return over
