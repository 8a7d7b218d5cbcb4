"""Which rendition the gateway picks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.playback.adaptation import HEADROOM, MeasuredRate, Offer, choose_rendition, next_rate

offers_strategy = st.lists(
    st.builds(
        Offer,
        name=st.uuids().map(str),
        peak=st.integers(100_000, 20_000_000),
        is_made=st.booleans(),
        work=st.integers(1, 3),
    ),
    min_size=1,
    max_size=6,
)


def offer(name: str, peak: int, *, is_made: bool = True, work: int = 1) -> Offer:
    return Offer(name=name, peak=peak, is_made=is_made, work=work)


def steady(bits_per_s: float) -> MeasuredRate:
    return MeasuredRate(fast=bits_per_s, slow=bits_per_s)


HIGH, LOW = offer("1080", 6_000_000), offer("360", 800_000)


@given(offers=offers_strategy, bits_per_s=st.floats(1, 1e9))
def test_a_rendition_above_the_measured_rate_is_never_chosen_while_a_lower_one_exists(
    offers: list[Offer], bits_per_s: float
) -> None:
    chosen = choose_rendition(offers, steady(bits_per_s))
    assert chosen.peak <= HEADROOM * bits_per_s or chosen.peak == min(one.peak for one in offers)


@given(offers=offers_strategy, bits_per_s=st.none() | st.floats(1, 1e9))
def test_what_is_made_already_is_preferred(offers: list[Offer], bits_per_s: float | None) -> None:
    rate = None if bits_per_s is None else steady(bits_per_s)
    chosen = choose_rendition(offers, rate)
    affordable = [one for one in offers if rate is None or one.peak <= HEADROOM * rate.bits_per_s]
    assert chosen.is_made or not any(one.is_made for one in affordable)


def test_a_fast_link_gets_the_best() -> None:
    assert choose_rendition([HIGH, LOW], steady(50_000_000)) == HIGH


def test_a_slow_link_gets_what_it_bears() -> None:
    assert choose_rendition([HIGH, LOW], steady(5_000_000)) == LOW


def test_a_link_slower_than_everything_gets_the_lowest() -> None:
    assert choose_rendition([HIGH, LOW], steady(1000)) == LOW


def test_the_first_segment_starts_low() -> None:
    assert choose_rendition([HIGH, LOW], None) == LOW


def test_the_first_segment_starts_at_what_is_made() -> None:
    assert choose_rendition([HIGH, offer("360", 800_000, is_made=False)], None) == HIGH


def test_where_nothing_is_made_the_least_work_is_waited_for() -> None:
    copied = offer("source", 6_000_000, is_made=False, work=1)
    encoded = offer("360", 800_000, is_made=False, work=230)
    assert choose_rendition([copied, encoded], steady(50_000_000)) == copied
    assert choose_rendition([copied, encoded], steady(2_000_000)) == encoded


def test_there_must_be_something_to_choose_from() -> None:
    with pytest.raises(ValueError, match="empty"):
        choose_rendition([], None)


def test_a_rate_falls_at_once_and_rises_with_patience() -> None:
    before = steady(10_000_000)
    fallen = next_rate(before, size_bytes=125_000, duration_s=1)
    risen = next_rate(before, size_bytes=12_500_000, duration_s=1)
    assert fallen.bits_per_s < 5_000_000
    assert 10_000_000 < risen.bits_per_s < 30_000_000


def test_a_rate_must_stay_finite_when_no_time_passes() -> None:
    assert next_rate(None, size_bytes=1000, duration_s=0).bits_per_s == pytest.approx(80_000_000)
