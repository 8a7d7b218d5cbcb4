"""Who of the others still works: an observer of leases, by their signs of life and nothing else.

::

    new beat ──► 0 s of silence ──(each tick of this engine: what passed, at most 5 s)──► too long ──► reclaim
                     ▲                                                                       │
                     └── start, wake, a new beat, a new lease ◄──────────────────────────────┘ it was alive: the limit
                                                                                               doubles (``machine``)

Only time in which this engine was awake counts, because a lid that was closed for a night says nothing about others;
and a beat counts when it is seen, because clocks of two devices are never compared. Whether there is a session with
the holder does not matter: its rows may come through others.

A lease that beats but gets nowhere is *stalled*. That is an attempt that went wrong (*transient*), not a death, so that
its living holder cannot undo it by saying that it lives: else it could stall for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from random import Random

import msgspec

from app.core.errors import ErrorCode
from app.queue.machine import is_live, stale_after_s
from app.queue.rows import EndRank, JobRow, Lease, LeaseFlag, TaskRow

MAX_TICK_S = 5.0
"""What one tick counts at most; ticks come more often than that, so a longer gap was sleep."""
SLEPT_AFTER_S = 30.0
"""A gap between two ticks from which on this engine was asleep, and beats are waited for anew."""
MAX_SPREAD_S = 5.0
"""Observers wait a random while longer, so that they do not all reclaim at once."""
STALLED_AFTER_S = 600.0


class Reclaim(msgspec.Struct, frozen=True, kw_only=True):
    """A lease that is to be given up, with the words for its end."""

    task_id: str
    lease: Lease
    """As it was seen; a later beat saves it."""
    rank: EndRank
    code: ErrorCode
    message: str


class _Watch:
    """What is known of one lease."""

    __slots__ = ("lease", "silent_s", "spread_s", "stalled_s")

    def __init__(self, lease: Lease, spread_s: float) -> None:
        self.lease, self.spread_s = lease, spread_s
        self.silent_s = self.stalled_s = 0.0

    def see(self, lease: Lease) -> None:
        if lease.beat != self.lease.beat:
            self.silent_s = 0.0
        if lease.progress != self.lease.progress or lease.flag is not LeaseFlag.RUNNING:
            self.stalled_s = 0.0
        self.lease = lease


class LeaseObserver:
    """Decides which leases of others are over; one per engine, from its start on."""

    def __init__(self, *, random: Random, handicap_s: float = 0.0) -> None:
        """Observe; a weak device has a ``handicap_s``, so that it reclaims last."""
        self._random = random
        self._handicap_s = handicap_s
        self._watched: dict[str, _Watch] = {}
        self._ticked_at_s: float | None = None

    def wake(self) -> None:
        """Wait for all beats anew: this engine was asleep."""
        self._watched.clear()
        self._ticked_at_s = None

    def tick(
        self,
        leased: Iterable[tuple[JobRow, TaskRow]],
        *,
        own: Collection[str],
        revoked: Collection[str] = (),
        now_s: float,
    ) -> tuple[Reclaim, ...]:
        """Return the leases that are over; called every few seconds with all leases there are.

        ``own`` are the tokens of this process's leases, ``revoked`` devices that are no longer of the space; ``now_s``
        is monotonic, and may or may not go on while the machine sleeps.
        """
        passed_s = self._passed_s(now_s)
        seen: dict[str, _Watch] = {}
        over = []
        for job, task in leased:
            lease = task.lease
            if lease is None or lease.token in own or not is_live(job, task):
                continue
            seen[task.id] = watch = self._watch_of(task.id, lease, passed_s)
            reclaim = self._judge(job, task, watch, revoked)
            if reclaim is not None:
                over.append(reclaim)
        self._watched = seen
        return tuple(over)

    def _passed_s(self, now_s: float) -> float:
        before, self._ticked_at_s = self._ticked_at_s, now_s
        passed_s = 0.0 if before is None else max(0.0, now_s - before)
        if passed_s > SLEPT_AFTER_S:
            self._watched.clear()
        return min(passed_s, MAX_TICK_S)

    def _watch_of(self, task_id: str, lease: Lease, passed_s: float) -> _Watch:
        known = self._watched.get(task_id)
        if known is None or _key(known.lease) != _key(lease):
            return _Watch(lease, self._random.uniform(0.0, MAX_SPREAD_S) + self._handicap_s)
        known.silent_s += passed_s
        known.stalled_s += passed_s
        known.see(lease)
        return known

    def _judge(self, job: JobRow, task: TaskRow, watch: _Watch, revoked: Collection[str]) -> Reclaim | None:
        lease = watch.lease
        if lease.device in revoked:
            return _died(task, lease, "Its device was removed while it was at work on this.")
        if watch.silent_s >= stale_after_s(job, task) + watch.spread_s:
            return _died(task, lease, "Its device fell silent while it was at work on this.")
        if watch.stalled_s >= STALLED_AFTER_S + watch.spread_s:
            message = "The work on this did not get on for ten minutes."
            return Reclaim(
                task_id=task.id, lease=lease, rank=EndRank.TRANSIENT, code=ErrorCode.WORKER_STALLED, message=message
            )
        return None


def _died(task: TaskRow, lease: Lease, message: str) -> Reclaim:
    return Reclaim(task_id=task.id, lease=lease, rank=EndRank.DIED, code=ErrorCode.ENGINE_GONE, message=message)


def _key(lease: Lease) -> tuple[int, str, int, str]:
    return lease.epoch, lease.device, lease.boot, lease.token
