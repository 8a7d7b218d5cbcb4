"""Recordings joined end to end: the clock restarts, the film goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.media.scan import JOINED
from app.media.source import TICKS_PER_S
from app.transcode.joined import JoinedClock
from tests.transcode.lab import ffmpeg, index, shots, transcode

PICTURE, SOUND = 0, 1


def test_a_clock_that_goes_on_is_left_alone() -> None:
    clock = JoinedClock()
    assert [clock.shift(PICTURE, n * 3000, 3000) for n in range(100)] == [0] * 100
    assert clock.joins == 0


def test_a_part_whose_clock_restarts_begins_where_the_one_before_ended() -> None:
    clock = JoinedClock()
    for n in range(90):
        clock.shift(PICTURE, n * 3000, 3000)
    assert clock.shift(PICTURE, 0, 3000) == 90 * 3000
    assert clock.joins == 1


def test_all_streams_of_a_part_move_by_the_same_amount() -> None:
    clock = JoinedClock()
    for n in range(90):
        clock.shift(PICTURE, n * 3000, 3000)
        clock.shift(SOUND, n * 3000 + 500, 3000)
    moved = clock.shift(SOUND, 500, 3000)
    assert clock.shift(PICTURE, 0, 3000) == moved
    assert clock.joins == 1


def test_a_gap_of_hours_is_closed() -> None:
    clock = JoinedClock()
    clock.shift(PICTURE, 0, 3000)
    assert clock.shift(PICTURE, 3600 * TICKS_PER_S, 3000) == 3000 - 3600 * TICKS_PER_S


@given(st.lists(st.integers(0, 2**33), min_size=1, max_size=50))
def test_moved_times_never_step_back_more_than_a_second(starts: list[int]) -> None:
    clock = JoinedClock()
    end = 0
    for start in starts:
        time = start + clock.shift(PICTURE, start, 3000)
        assert end == 0 or end - TICKS_PER_S <= time <= end + 10 * TICKS_PER_S
        end = time + 3000


@pytest.mark.slow
def test_three_joined_recordings_are_one_film_of_their_length(shelf: Path) -> None:
    parts = []
    for name, size, rate, tone in (("a", "640x360", 25, 440), ("b", "480x360", 30, 880)):
        part = shelf / f"part-{name}.ts"
        ffmpeg(
            *(
                "-f",
                "lavfi",
                "-i",
                f"testsrc2=s={size}:r={rate}:d=3",
                "-f",
                "lavfi",
                "-i",
                f"sine=f={tone}:r=48000:d=3",
            ),
            *("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-c:a", "aac", part),
        )
        parts.append(part.read_bytes())
    joined = shelf / "joined.ts"
    joined.write_bytes(parts[0] + parts[1] + parts[0])
    _, plan = index(joined)
    assert plan.entry == JOINED
    assert abs(plan.duration_ticks / TICKS_PER_S - 9) < 0.3
    assert any("3 parts" in warning for warning in plan.warnings)
    plan, picture = transcode(joined)
    assert len(shots(picture)) == 75 + 90 + 75
