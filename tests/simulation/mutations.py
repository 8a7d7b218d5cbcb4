"""Rules taken away, one at a time, to see that the simulation misses them.

Each mutation names the rule, the kind of history that should show its absence, and how it is taken away: a rule of the
queue's code by replacing one function of it while the history runs, a rule of what devices do by ``Rules``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import msgspec
from msgspec.structs import replace

from app.queue import merge
from app.queue.feed import FeedCursor
from app.queue.rows import End, JobRow, Kept, Lease, Outcome, TaskRow, encode_value
from tests.simulation.profiles import (
    CALM,
    HICCUP,
    MIXED,
    REMOVED,
    RESTORED,
    SLEEPY,
    USERS,
    WIPED,
    Profile,
    Rules,
)


class Mutation(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that is taken away."""

    name: str
    profile: Profile
    replaced: Mapping[str, Callable[..., Any]] = {}
    """Dotted name of a function → what stands in for it."""
    rules: Rules = Rules()

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Let the rule be gone for a while."""
        with ExitStack() as stack:
            for name, stand_in in self.replaced.items():
                stack.enter_context(patch(name, stand_in))
            yield


def _number_alone(cursor: FeedCursor | None, _generations: object) -> int:
    return cursor.number if cursor else 0


_merge_job = merge.merge_job


def _last_writer_wins(a: JobRow, b: JobRow) -> JobRow:
    """Intent as one record: whoever wrote last brings all of it."""
    merged = _merge_job(a, b)
    last = max(a, b, key=lambda job: (job.paused.stamp, job.priority.stamp, job.trashed.stamp, encode_value(job)))
    return replace(
        merged,
        round=last.round,
        cancelled_round=last.cancelled_round,
        paused=last.paused,
        priority=last.priority,
        trashed=last.trashed,
    )


def _clock_alone(_job: JobRow, now_ms: int) -> int:
    return now_ms


def _lost_counts_too(job: JobRow, task: TaskRow) -> bool:
    outcome = task.outcome
    return outcome is not None and (outcome.round > job.cancelled_round or task.target.endswith("/full"))


def _death_wins(ends: tuple[End, ...]) -> tuple[End, ...]:
    best: dict[tuple[int, str], End] = {}
    for end in ends:
        key = (end.epoch, end.token)
        known = best.get(key)
        best[key] = end if known is None else min(known, end, key=lambda one: (one.rank.height, encode_value(one)))
    return tuple(best[key] for key in sorted(best))


def _first_come(a: Kept, b: Kept, key: Callable[[Any], tuple[Any, ...]]) -> Kept:
    return b if key(b) > key(a) else a


def _epoch_alone(part: Lease | Outcome) -> tuple[int, ...]:
    return (part.epoch, part.beat) if isinstance(part, Lease) else (part.epoch,)


def _no_rest(_attempts: int) -> float:
    return 0.0


MUTATIONS = (
    Mutation(name="feed generations", profile=RESTORED, replaced={"app.queue.replica.start_of": _number_alone}),
    Mutation(name="growing rounds", profile=USERS, replaced={"app.queue.replica.merge_job": _last_writer_wins}),
    Mutation(name="growing stamps", profile=USERS, replaced={"app.queue.intent.next_stamp": _clock_alone}),
    Mutation(
        name="void",
        profile=WIPED,
        replaced={
            "app.queue.machine.outcome_counts": _lost_counts_too,
            "app.queue.row_store.outcome_counts": _lost_counts_too,
            "app.queue.leases.outcome_counts": _lost_counts_too,
        },
    ),
    Mutation(name="kept tombstones", profile=REMOVED, rules=Rules(keeps_tombstones=False)),
    Mutation(
        name="ranked ends",
        profile=SLEEPY,
        replaced={
            "app.queue.rows.join_ends": _death_wins,
            "app.queue.merge.join_ends": _death_wins,
            "app.queue.leases.join_ends": _death_wins,
        },
    ),
    Mutation(name="back-off", profile=HICCUP, replaced={"app.queue.row_store.backoff_s": _no_rest}),
    Mutation(
        name="token tie-break",
        profile=MIXED,
        replaced={
            "app.queue.merge._higher": _first_come,
            "app.queue.merge._lease_key": _epoch_alone,
            "app.queue.merge._outcome_key": _epoch_alone,
        },
    ),
    Mutation(name="publish by value", profile=CALM, rules=Rules(publishes_by_value=False)),
    Mutation(name="settle", profile=CALM, rules=Rules(settles=False)),
)
