"""Padmé."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.storage.cipher import SHARD_BYTES
from app.storage.padding import padded_length

LENGTHS = st.integers(min_value=0, max_value=2**40)


@pytest.mark.parametrize(
    ("length", "padded"),
    [(0, 0), (1, 1), (2, 2), (8, 8), (9, 10), (100, 104), (1000, 1024), (1025, 1088), (SHARD_BYTES, SHARD_BYTES)],
)
def test_known_lengths_are_padded_as_the_format_says(length: int, padded: int) -> None:
    assert padded_length(length) == padded


@given(LENGTHS)
def test_padding_costs_at_most_twelve_percent(length: int) -> None:
    assert length <= padded_length(length) <= length * 1.12


@given(LENGTHS)
def test_padding_twice_changes_nothing(length: int) -> None:
    assert padded_length(padded_length(length)) == padded_length(length)


@given(LENGTHS, LENGTHS)
def test_a_longer_content_never_pads_to_less(first: int, second: int) -> None:
    low, high = sorted((first, second))
    assert padded_length(low) <= padded_length(high)


@given(st.integers(min_value=2, max_value=2**40))
def test_a_padded_length_has_a_mantissa_as_short_as_its_exponent(length: int) -> None:
    padded = padded_length(length)
    trailing_zeros = (padded & -padded).bit_length() - 1
    exponent = padded.bit_length() - 1
    assert padded.bit_length() - trailing_zeros <= exponent.bit_length() + 1
