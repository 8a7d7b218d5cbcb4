"""H.264 units: split, framed anew, and the few facts read from them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import ErrorCode, ExpectedError
from app.transcode.nal import (
    ParameterSets,
    is_idr,
    is_well_framed,
    join_length_prefixed,
    playable_sample,
    split_annex_b,
    split_length_prefixed,
    unit_type,
)

SPS, PPS, IDR, SLICE = b"\x67\x64\x00\x28\x01", b"\x68\xee", b"\x65idr", b"\x41slice"
DELIMITER, END = b"\x09\x10", b"\x0a"
AVCC = b"\x01\x64\x00\x28\xff\xe1" + b"\x00\x05" + SPS + b"\x01" + b"\x00\x02" + PPS

units = st.lists(
    st.binary(min_size=1, max_size=40).filter(lambda unit: unit[-1] != 0 and b"\0\0\1" not in unit and unit[0] < 0x80),
    max_size=8,
)


@given(units, st.booleans())
def test_a_byte_stream_is_split_at_its_start_codes(parts: list[bytes], long: bool) -> None:  # noqa: FBT001
    code = b"\0\0\0\1" if long else b"\0\0\1"
    assert list(split_annex_b(b"".join(code + part for part in parts))) == parts


@given(units)
def test_length_prefixed_units_survive_the_way_there_and_back(parts: list[bytes]) -> None:
    sample = join_length_prefixed(parts)
    assert list(split_length_prefixed(sample, 4)) == parts
    assert is_well_framed(sample, 4)


@given(st.binary(max_size=80), st.integers(1, 4))
def test_splitting_arbitrary_bytes_ends(data: bytes, size: int) -> None:
    list(split_length_prefixed(data, size))
    list(split_annex_b(data))
    is_well_framed(data, size)


@pytest.mark.parametrize(
    "sample",
    [
        join_length_prefixed([IDR])[:-1],
        join_length_prefixed([IDR]) + b"\0",
        join_length_prefixed([b"\xe5forbidden bit"]),
        b"\xff\xff\xff\xffrubbish",
        b"\x00\x00\x00\x05",
    ],
    ids=["cut", "too long", "no unit", "absurd length", "no data"],
)
def test_a_damaged_sample_is_not_well_framed(sample: bytes) -> None:
    assert not is_well_framed(sample, 4)


def test_a_header_with_lengths_gives_parameter_sets_and_their_framing() -> None:
    sets = ParameterSets(AVCC)
    assert sets.length_size == 4
    assert sets.units == (SPS, PPS)
    assert sets.codecs == "avc1.640028"
    assert sets.split(join_length_prefixed([IDR, SLICE])) == [IDR, SLICE]


def test_a_header_with_start_codes_gives_the_same() -> None:
    sets = ParameterSets(b"\0\0\0\1" + DELIMITER + b"\0\0\0\1" + SPS + b"\0\0\1" + PPS)
    assert (sets.length_size, sets.units) == (0, (SPS, PPS))
    assert sets.split(b"\0\0\1" + IDR) == [IDR]


def test_without_a_header_nothing_is_known() -> None:
    for nothing in (None, b""):
        sets = ParameterSets(nothing)
        assert (sets.units, sets.codecs) == ((), "")


def test_a_cut_header_is_told_of() -> None:
    with pytest.raises(ExpectedError) as caught:
        ParameterSets(AVCC[:6])
    assert caught.value.code is ErrorCode.TRUNCATED


@given(st.integers(7, len(AVCC)), st.binary(max_size=30))
def test_a_damaged_header_never_ends_in_another_error(length: int, tail: bytes) -> None:
    ParameterSets(AVCC[:length] + tail)


def test_only_an_idr_is_a_border() -> None:
    assert is_idr([SPS, PPS, IDR])
    assert not is_idr([SLICE])
    assert not is_idr([SPS, PPS, SLICE]), "a recovery point refers to what was before it"
    assert unit_type(b"") == 0


def test_an_idr_carries_its_parameter_sets_in_band() -> None:
    assert playable_sample([DELIMITER, IDR], [SPS, PPS]) == join_length_prefixed([SPS, PPS, IDR])


def test_parameter_sets_that_are_in_band_already_win() -> None:
    other = b"\x67\x42\x00\x1e"
    assert playable_sample([other, PPS, IDR], [SPS, PPS]) == join_length_prefixed([other, PPS, IDR])


def test_other_pictures_carry_none_and_no_delimiters() -> None:
    assert playable_sample([DELIMITER, SLICE, END, b"\x0b"], [SPS]) == join_length_prefixed([SLICE])
