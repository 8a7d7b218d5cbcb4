"""Finding things in a plan."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.media.sources import audio, audio_scan, plan_of, scan, seconds

PLAN = plan_of(packets=scan(length_s=100, audio=(audio_scan(end_s=100),)), sound=(audio(),))


def test_a_moment_is_in_the_segment_that_shows_it() -> None:
    for number, (begin, end) in enumerate(pairwise(PLAN.borders)):
        assert PLAN.segment_at(begin) == PLAN.segment_at(end - 1) == number


def test_moments_outside_are_clamped() -> None:
    assert PLAN.segment_at(-5) == 0
    assert PLAN.segment_at(seconds(1000)) == PLAN.segment_count - 1


def test_every_segment_has_its_chunk_and_chunks_know_their_times() -> None:
    for segment in range(PLAN.segment_count):
        begin, end = PLAN.chunk_ticks(PLAN.chunk_of(segment))
        assert begin <= PLAN.borders[segment] < end
    with pytest.raises(KeyError):
        PLAN.chunk_of(PLAN.segment_count)


def test_names_find_renditions_sets_and_tracks() -> None:
    assert PLAN.set_of("720").name == "ladder"
    assert PLAN.set_named("copy").renditions == (PLAN.rendition("1080").name,)
    assert PLAN.track("a0").stream_index == 1
    for find in (PLAN.rendition, PLAN.set_of, PLAN.set_named, PLAN.track):
        with pytest.raises(KeyError):
            find("nothing")
