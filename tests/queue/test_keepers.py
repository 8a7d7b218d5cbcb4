"""Which devices keep a film."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from app.queue.keeping import keepers_of

DEVICES = st.sets(st.text("abcdef0123456789", min_size=1, max_size=8), min_size=1, max_size=9)


@given(DEVICES, st.integers(1, 12))
def test_as_many_devices_keep_a_film_as_were_asked_for_or_all(devices: set[str], copies: int) -> None:
    keepers = keepers_of("film", devices, copies=copies)
    assert keepers <= devices
    assert len(keepers) == min(copies, len(devices))


@given(DEVICES, st.integers(1, 5), st.randoms(use_true_random=False))
def test_all_devices_choose_alike(devices: set[str], copies: int, random: Random) -> None:
    shuffled = sorted(devices)
    random.shuffle(shuffled)
    assert keepers_of("film", shuffled, copies=copies) == keepers_of("film", devices, copies=copies)


@given(DEVICES, st.integers(1, 5))
def test_a_device_that_joins_takes_the_place_of_one_keeper_at_most(devices: set[str], copies: int) -> None:
    before = keepers_of("film", devices, copies=copies)
    after = keepers_of("film", {*devices, "newcomer"}, copies=copies)
    assert len(before - after) <= 1
    assert after - before <= {"newcomer"}


def test_films_are_spread_over_the_devices() -> None:
    devices = ["a", "b", "c", "d"]
    counts = {one: sum(one in keepers_of(str(film), devices, copies=2) for film in range(400)) for one in devices}
    assert all(150 < count < 250 for count in counts.values())
