"""Film that was spread over the fields of video: its rate, its cuts, and what is too uneven to be put back."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

from app.media.planning import UNTELECINE
from app.media.telecine import CYCLE, cycle_starts, is_regular, kept_times, source_step
from tests.media.sources import plan_of, scan, video

STEP = Fraction(3003)
VIDEO_TIMES = tuple(n * 3003 for n in range(600))
TELECINED = video(codec="mpeg2video", frame_rate=(30000, 1001), interlaced=True, is_telecined=True)


def test_four_pictures_of_film_take_the_time_of_five_of_video() -> None:
    times = [time for cycle in range(100) for time in kept_times(cycle, STEP)]
    assert {b - a for a, b in pairwise(times)} <= {3753, 3754}
    assert times[4 * 99] == 99 * CYCLE * 3003


def test_the_distance_of_the_video_follows_from_the_rate_of_the_film() -> None:
    assert source_step((24000, 1001)) == 3003
    assert source_step((24, 1)) == 3000


def test_film_gets_its_own_rate_and_is_cut_only_where_a_cycle_begins() -> None:
    plan = plan_of(picture=TELECINED, packets=scan(shown=VIDEO_TIMES, last_duration=3003, is_copyable=False))
    assert Fraction(*plan.frame_rate) == Fraction(24000, 1001)
    assert UNTELECINE in plan.filters
    assert "deinterlace" not in plan.filters
    assert set(plan.borders[:-1]) <= set(cycle_starts(plan.duration_ticks, STEP))
    assert len(plan.borders) > 3


def test_pictures_that_come_unevenly_are_deinterlaced_instead() -> None:
    uneven = tuple(time + (1400 if n % 3 else 0) for n, time in enumerate(VIDEO_TIMES))
    assert is_regular(VIDEO_TIMES, STEP)
    assert is_regular([time + 40 for time in VIDEO_TIMES], STEP)
    assert not is_regular(uneven, STEP)
    plan = plan_of(picture=TELECINED, packets=scan(shown=uneven, last_duration=3003, is_copyable=False))
    assert "deinterlace" in plan.filters
    assert UNTELECINE not in plan.filters
