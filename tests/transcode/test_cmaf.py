"""Fragments: exact decode times, nothing negative."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.transcode.cmaf import Sample, decode_times, init_section_of, iterate_boxes, write_segment


def test_decode_times_of_a_b_frame_pyramid_rise_and_never_pass_the_presentation() -> None:
    pts = [0, 12000, 6000, 3000, 9000]
    times = decode_times(pts, 0)
    assert times == [0, 1500, 3000, 6000, 9000] or (times[0] == 0 and times == sorted(set(times)))
    assert all(time <= shown for time, shown in zip(times, pts, strict=True))


@given(st.lists(st.integers(1, 40), min_size=1, max_size=60), st.randoms(use_true_random=False), st.integers(0, 2**33))
def test_decode_times_must_exist_for_every_reordering_behind_the_first_frame(
    steps: list[int], random: object, start: int
) -> None:
    pts = [start]
    for step in steps:
        pts.append(pts[-1] + step * 100)
    tail = pts[1:]
    random.shuffle(tail)  # type: ignore[attr-defined]
    pts = [start, *tail]
    times = decode_times(pts, start)
    assert times[0] == start
    assert all(a < b for a, b in pairwise(times))
    assert all(time <= shown for time, shown in zip(times, pts, strict=True))


def test_a_sample_before_the_border_is_refused() -> None:
    with pytest.raises(ValueError, match="before the segment"):
        decode_times([10, 5], 10)


def test_samples_beyond_the_end_are_refused() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        write_segment(number=0, samples=[Sample(data=b"x", pts=10, is_sync=True)], start=0, end=10)


def test_a_segment_holds_its_times_sizes_and_data() -> None:
    samples = [Sample(data=b"aaaa", pts=100, is_sync=True), Sample(data=b"bb", pts=200, is_sync=False)]
    data = write_segment(number=4, samples=samples, start=100, end=350)
    boxes = {kind: data[begin:end] for kind, begin, end in iterate_boxes(data)}
    assert list(boxes) == [b"styp", b"moof", b"mdat"]
    assert boxes[b"mdat"][8:] == b"aaaabb"
    moof = boxes[b"moof"]
    tfdt = moof.index(b"tfdt")
    assert struct.unpack_from(">Q", moof, tfdt + 8)[0] == 100
    trun = moof.index(b"trun")
    count, offset = struct.unpack_from(">Ii", moof, trun + 8)
    assert count == 2
    assert offset == len(moof) + 8
    assert struct.unpack_from(">IIII", moof, trun + 16) == (100, 4, 0x02000000, 0)
    assert struct.unpack_from(">IIII", moof, trun + 32) == (150, 2, 0x01010000, 0)


def test_the_init_section_is_cut_before_the_first_fragment() -> None:
    header = b"\0\0\0\x08ftyp\0\0\0\x08moov\0\0\0\x08moof"
    assert init_section_of(header) == header[:16]


@given(st.binary(max_size=64))
def test_walking_arbitrary_bytes_ends(data: bytes) -> None:
    for _kind, begin, end in iterate_boxes(data):
        assert begin < end <= len(data)
