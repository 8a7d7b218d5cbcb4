"""Who is silent, who may start, what is lost, who rests: decisions about leases with ``now`` as an argument."""

# ruff: noqa: S311 (chance, not a secret)

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from app.core.clock import ManualClock
from app.core.errors import ErrorCode
from app.queue.benching import FIRST_BENCH_S, MAX_BENCH_S, Bench
from app.queue.leases import free_fenced
from app.queue.losses import UNREACHABLE_AFTER_S, is_result_lost
from app.queue.machine import STALE_AFTER_S, index_task_id
from app.queue.memory_store import MemoryJobStore
from app.queue.observing import MAX_SPREAD_S, STALLED_AFTER_S, LeaseObserver, Reclaim
from app.queue.rows import EndRank, JobParams, JobRow, LeaseFlag, TaskRow
from app.queue.settling import SETTLE_S, Settling


class Watched:
    """A lease of another device, and an observer that looks at it every few seconds."""

    def __init__(self, *, handicap_s: float = 0.0) -> None:
        store = MemoryJobStore(device="holder", boot=1, clock=ManualClock())
        self.job: JobRow = store.add_job(
            kind="hls", params=JobParams(profile="default"), fingerprint="f", size_bytes=1, name="x", now_ms=1
        )
        store.claim(index_task_id(self.job))
        self.task: TaskRow = store.task(index_task_id(self.job))
        self.observer = LeaseObserver(random=Random(1), handicap_s=handicap_s)
        self.now_s = 1000.0

    def beat(self, *, progress: int = 0, flag: LeaseFlag = LeaseFlag.RUNNING) -> None:
        assert self.task.lease is not None
        lease = replace(self.task.lease, beat=self.task.lease.beat + 1, progress=progress, flag=flag)
        self.task = replace(self.task, lease=lease)

    def look(self, *, own: tuple[str, ...] = (), revoked: tuple[str, ...] = ()) -> tuple[Reclaim, ...]:
        return self.observer.tick([(self.job, self.task)], own=own, revoked=revoked, now_s=self.now_s)

    def wait(self, seconds: float, *, step_s: float = 3.0) -> float | None:
        """Look again and again; return after how many seconds the lease was found to be over."""
        begin = self.now_s
        while self.now_s < begin + seconds:
            if self.look():
                return self.now_s - begin
            self.now_s += step_s
        return None


def test_a_holder_is_stale_after_45_seconds_without_a_beat_and_a_random_while() -> None:
    watched = Watched()
    found = watched.wait(100)
    assert found is not None
    assert STALE_AFTER_S <= found <= STALE_AFTER_S + MAX_SPREAD_S + 3
    (over,) = watched.look()
    assert (over.rank, over.code, over.lease) == (EndRank.DIED, ErrorCode.ENGINE_GONE, watched.task.lease)


def test_a_beat_makes_a_holder_live_again() -> None:
    watched = Watched()
    for _ in range(20):
        assert watched.wait(40) is None
        watched.beat(progress=watched.now_s.__trunc__() % 1000)


def test_a_new_lease_is_not_blamed_for_the_silence_of_the_old_one() -> None:
    watched = Watched()
    watched.wait(44)
    assert watched.task.lease is not None
    watched.task = replace(watched.task, lease=replace(watched.task.lease, epoch=2, token="new"))  # noqa: S106
    assert watched.wait(40) is None


def test_a_weaker_device_reclaims_later() -> None:
    found = Watched(handicap_s=20).wait(100)
    assert found is not None
    assert found >= STALE_AFTER_S + 20


def test_time_in_which_the_observer_slept_does_not_count() -> None:
    watched = Watched()
    assert watched.wait(40) is None
    watched.now_s += 8 * 3600
    assert watched.wait(40) is None, "the clock went on during the sleep: beats are waited for anew"
    watched.observer.wake()
    assert watched.wait(40) is None, "the clock stood still, and somebody told of the sleep"


def test_slow_ticks_count_at_most_five_seconds_each() -> None:
    found = Watched().wait(1000, step_s=20.0)
    assert found is not None
    assert found >= 9 * 20


@pytest.mark.parametrize("jump_s", [-7200.0, -1.0])
def test_a_clock_that_goes_back_harms_nothing(jump_s: float) -> None:
    watched = Watched()
    watched.wait(30)
    watched.now_s += jump_s
    found = watched.wait(60)
    assert found is not None
    assert found >= 10


def test_the_lease_of_a_removed_device_is_stale_at_once() -> None:
    assert [over.rank for over in Watched().look(revoked=("holder",))] == [EndRank.DIED]


def test_own_leases_are_not_observed() -> None:
    watched = Watched()
    assert watched.task.lease is not None
    watched.wait(44)
    for _ in range(10):
        watched.now_s += 3
        assert watched.look(own=(watched.task.lease.token,)) == ()


def test_a_holder_that_was_wronged_is_given_twice_the_time() -> None:
    watched = Watched()
    assert watched.task.lease is not None
    wronged = free_fenced(watched.task, watched.task.lease)
    watched.task = replace(wronged, lease=replace(watched.task.lease, epoch=2, token="new"))  # noqa: S106
    found = watched.wait(200)
    assert found is not None
    assert found >= 2 * STALE_AFTER_S


def stall(watched: Watched, flag: LeaseFlag, *, seconds: float) -> tuple[Reclaim, ...]:
    begin = watched.now_s
    while watched.now_s < begin + seconds:
        watched.beat(progress=7, flag=flag)
        over = watched.look()
        if over:
            return over
        watched.now_s += 5
    return ()


def test_a_lease_that_beats_but_gets_nowhere_for_ten_minutes_is_stalled() -> None:
    watched = Watched()
    assert stall(watched, LeaseFlag.RUNNING, seconds=STALLED_AFTER_S - 10) == ()
    (over,) = stall(watched, LeaseFlag.RUNNING, seconds=60)
    assert (over.rank, over.code) == (EndRank.TRANSIENT, ErrorCode.WORKER_STALLED)


@pytest.mark.parametrize("flag", [LeaseFlag.FROZEN, LeaseFlag.PAUSED])
def test_frozen_and_paused_time_is_no_stall(flag: LeaseFlag) -> None:
    assert stall(Watched(), flag, seconds=3 * STALLED_AFTER_S) == ()


# Settling


def test_a_claim_settles_when_all_peers_have_answered() -> None:
    settling, lease = Settling(), Watched().task.lease
    assert lease is not None
    settling.announce("t", lease, peers=("a", "b"), now_s=10.0)
    settling.answered("a", lease.token)
    assert settling.take_settled(10.1) == ()
    settling.answered("b", lease.token)
    assert [one.task_id for one in settling.take_settled(10.1)] == ["t"]
    assert settling.take_settled(99.0) == ()


def test_a_claim_settles_at_last_and_at_once_without_peers() -> None:
    settling, lease = Settling(), Watched().task.lease
    assert lease is not None
    settling.announce("t", lease, peers=("a",), now_s=10.0)
    assert settling.next_moment_s() == 10.0 + SETTLE_S
    assert settling.take_settled(10.0 + SETTLE_S - 0.1) == ()
    assert len(settling.take_settled(10.0 + SETTLE_S)) == 1
    settling.announce("t", lease, peers=(), now_s=20.0)
    assert len(settling.take_settled(20.0)) == 1
    assert settling.next_moment_s() is None


def test_a_peer_that_is_gone_is_not_waited_for() -> None:
    settling, lease = Settling(), Watched().task.lease
    assert lease is not None
    settling.announce("t", lease, peers=("a",), now_s=10.0)
    settling.lost("b")
    assert settling.take_settled(10.1) == ()
    settling.lost("a")
    assert len(settling.take_settled(10.1)) == 1
    settling.answered("a", lease.token)


# Losses and the bench


def lost(**fields: object) -> bool:
    plain: dict[str, object] = {
        "holders": ("a", "b"), "revoked": (), "denied": (), "silent_s": {}, "is_published": False,
        "can_be_made_here": True,
    }  # fmt: skip
    return is_result_lost(**(plain | fields))  # type: ignore[arg-type]


def test_a_result_is_lost_when_every_holder_is_removed_or_denies_it() -> None:
    assert not lost()
    assert not lost(denied=("a",))
    assert lost(denied=("a", "b"))
    assert lost(denied=("a",), revoked=("b",), is_published=True)
    assert lost(holders=())


def test_a_result_whose_holders_are_away_is_given_up_after_a_day_and_only_before_it_is_published() -> None:
    away = {"a": UNREACHABLE_AFTER_S, "b": UNREACHABLE_AFTER_S}
    assert lost(silent_s=away)
    assert not lost(silent_s=away | {"b": 5.0})
    assert not lost(silent_s=away, is_published=True)
    assert not lost(silent_s=away, can_be_made_here=False)


def test_a_device_that_fails_at_three_jobs_in_a_row_rests_longer_each_time() -> None:
    bench = Bench()
    rests = []
    now_s = 0.0
    for _ in range(9):
        for number in range(3):
            assert not bench.is_benched(now_s)
            bench.failed(f"j{number}", now_s=now_s)
        assert bench.is_benched(now_s)
        rests.append(bench.until_s - now_s)
        now_s = bench.until_s
    assert rests[:3] == [FIRST_BENCH_S, 2 * FIRST_BENCH_S, 4 * FIRST_BENCH_S]
    assert rests[-1] == MAX_BENCH_S


def test_one_bad_film_or_a_success_in_between_benches_nobody() -> None:
    bench = Bench()
    for _ in range(10):
        bench.failed("bad", now_s=0.0)
    bench.failed("other", now_s=0.0)
    bench.succeeded()
    bench.failed("another", now_s=0.0)
    assert not bench.is_benched(0.0)
