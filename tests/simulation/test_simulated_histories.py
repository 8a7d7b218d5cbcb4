"""Histories of several devices, driven by the real queue: Q1 to Q9 hold all along and at the end.

A breach prints its seed and profile; ``python -m tests.simulation --profile P --seed S`` shows the whole history.
"""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from tests.simulation.profiles import (
    CALM,
    COPIED,
    FORGETFUL,
    HICCUP,
    MIXED,
    REMOVED,
    RESTORED,
    SLEEPY,
    USERS,
    WIPED,
    Profile,
)
from tests.simulation.world import World


@pytest.mark.parametrize("seed", range(12))
def test_q1_to_q8_hold_whatever_happens(seed: int) -> None:
    World(seed, MIXED).run()


@pytest.mark.parametrize("seed", range(1000, 1002))
def test_q1_to_q8_hold_with_rows_in_sqlite(seed: int) -> None:
    World(seed, replace(MIXED, jobs=3, chaos_s=400), sqlite=True).run()


@pytest.mark.parametrize("seed", range(6))
def test_q9_devices_that_hear_each_other_do_every_task_once(seed: int) -> None:
    World(seed, CALM).run()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "profile", [HICCUP, RESTORED, WIPED, USERS, FORGETFUL, REMOVED, COPIED, SLEEPY], ids=lambda profile: profile.name
)
def test_q1_to_q8_hold_where_one_misfortune_rules(profile: Profile, seed: int) -> None:
    World(seed, profile).run()


def test_a_history_follows_from_its_seed() -> None:
    short = replace(MIXED, chaos_s=200)
    first, again = World(5, short).run(), World(5, short).run()
    assert first.history == again.history
    assert first.history != World(6, short).run().history


def test_every_misfortune_happens() -> None:
    events: Counter[str] = Counter()
    for seed in range(2):
        events += World(seed, replace(MIXED, wipe_every_s=100, copy_every_s=100)).run().events
    kinds = {"partition", "crash", "suspend", "clock step", "wipe", "backup", "restore", "copy", "intent", "work"}
    assert kinds <= set(events)
