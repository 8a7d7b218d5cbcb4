"""The simulation itself: with any one rule taken away it finds a breach within a handful of seeds."""

from __future__ import annotations

import itertools

import pytest

from app.core.errors import HearthreelError
from tests.simulation.mutations import MUTATIONS, Mutation
from tests.simulation.world import BreachError, World

SEEDS = 16


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_rule_that_is_taken_away_is_missed(mutation: Mutation) -> None:
    with mutation.applied():
        found = next(itertools.filterfalse(lambda seed: holds(seed, mutation), range(SEEDS)), None)
    assert found is not None, f"{SEEDS} histories without “{mutation.name}” and nothing broke"
    World(found, mutation.profile).run()


def holds(seed: int, mutation: Mutation) -> bool:
    try:
        World(seed, mutation.profile, rules=mutation.rules).run()
    except (BreachError, HearthreelError):
        return False
    return True
