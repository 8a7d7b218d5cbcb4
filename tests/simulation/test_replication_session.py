"""The exchange with one peer: messages that come twice, late or never cost time and nothing else."""

from __future__ import annotations

import msgspec
import pytest

from app.core.clock import ManualClock
from app.queue.machine import index_task_id
from app.queue.memory_store import MemoryJobStore
from app.queue.rows import JobParams, JobRow
from app.sync.replication import (
    ASK_AGAIN_AFTER_S,
    POLL_AFTER_S,
    ROWS_PER_ANSWER,
    Answer,
    Claimed,
    Message,
    News,
    Replication,
    Rows,
    Want,
)


class Pair:
    """Two devices with a session."""

    def __init__(self) -> None:
        clock = ManualClock()
        self.stores = [MemoryJobStore(device=name, boot=1, clock=clock) for name in ("a", "b")]
        self.sides = [
            Replication(store=self.stores[0], peer="b"),
            Replication(store=self.stores[1], peer="a"),
        ]

    def add(self, side: int, content: str = "f") -> JobRow:
        return self.stores[side].add_job(
            kind="hls", params=JobParams(profile="default"), fingerprint=content, size_bytes=1, name="x", now_ms=1
        )

    def carry(self, to: int, messages: tuple[Message, ...], now_s: float = 0.0) -> int:
        """Carry messages and what follows from them; return how many there were."""
        carried = 0
        for message in messages:
            replies = self.sides[to].receive(over_the_wire(message), now_s).replies
            carried += 1 + self.carry(1 - to, replies, now_s)
        return carried

    def connect(self) -> None:
        for side in (0, 1):
            self.carry(1 - side, self.sides[side].connected(0.0))


def over_the_wire(message: Message) -> Message:
    decoded: Message = msgspec.json.decode(msgspec.json.encode(message), type=Message)
    return decoded


def test_a_session_begins_with_everything_the_other_has_not() -> None:
    pair = Pair()
    jobs = {pair.add(0, f"f{number}").id for number in range(ROWS_PER_ANSWER)}
    jobs.add(pair.add(1, "g").id)
    pair.connect()
    assert set(pair.stores[0].job_ids()) == set(pair.stores[1].job_ids()) == jobs


def test_news_is_told_once_and_answered_with_a_question() -> None:
    pair = Pair()
    pair.connect()
    assert pair.sides[0].tick(1.0) == ()
    job = pair.add(0)
    news = pair.sides[0].tick(2.0)
    assert [type(one) for one in news] == [News]
    assert pair.sides[0].tick(2.0) == ()
    pair.carry(1, news, 2.0)
    assert pair.stores[1].job(job.id) == job


def test_two_devices_that_know_the_same_are_silent_until_they_poll() -> None:
    pair = Pair()
    pair.add(0)
    pair.connect()
    for _ in range(3):
        for side in (0, 1):
            pair.carry(1 - side, pair.sides[side].tick(1.0), 1.0)
    assert pair.sides[0].tick(2.0) == pair.sides[1].tick(2.0) == ()
    assert [type(one) for one in pair.sides[1].tick(POLL_AFTER_S + 2)] == [Want]


def test_a_question_that_is_not_answered_is_asked_again() -> None:
    pair = Pair()
    pair.add(0)
    lost = pair.sides[1].connected(0.0)
    assert pair.sides[1].tick(ASK_AGAIN_AFTER_S - 0.1) == ()
    again = pair.sides[1].tick(ASK_AGAIN_AFTER_S)
    assert again == lost
    assert pair.sides[1].next_moment_s() == 2 * ASK_AGAIN_AFTER_S
    pair.carry(0, again)
    assert pair.stores[1].job_ids() == pair.stores[0].job_ids()


def test_an_old_answer_that_comes_again_moves_nothing_back() -> None:
    pair = Pair()
    pair.add(0, "f1")
    (question,) = pair.sides[1].connected(0.0)
    (old,) = pair.sides[0].receive(question, 0.0).replies
    assert isinstance(old, Rows)
    pair.carry(1, (old,))
    pair.add(0, "f2")
    pair.carry(1, pair.sides[0].tick(1.0), 1.0)
    cursor = pair.stores[1].peer_cursor("a")
    assert cursor == pair.stores[0].feed_cursor()
    pair.carry(1, (old, old), 2.0)
    assert pair.stores[1].peer_cursor("a") == cursor


def test_news_that_comes_while_an_answer_is_awaited_is_asked_for_after_it() -> None:
    pair = Pair()
    pair.add(0, "f1")
    (question,) = pair.sides[1].connected(0.0)
    (answer,) = pair.sides[0].receive(question, 0.0).replies
    pair.add(0, "f2")
    assert pair.sides[1].receive(News(cursor=pair.stores[0].feed_cursor()), 0.0).replies == ()
    pair.carry(1, (answer,))
    assert pair.stores[1].job_ids() == pair.stores[0].job_ids()


@pytest.mark.parametrize("side", [0, 1])
def test_of_two_claims_that_cross_one_is_held_on_both_sides_after_the_answers(side: int) -> None:
    pair = Pair()
    task_id = index_task_id(pair.add(0))
    pair.connect()
    leases = [store.claim(task_id) for store in pair.stores]
    claims = [pair.sides[one].claim(task_id, leases[one].token) for one in (0, 1)]
    answered = []
    for one in (side, 1 - side):
        assert isinstance(claims[one], Claimed)
        (answer,) = pair.sides[1 - one].receive(over_the_wire(claims[one]), 0.0).replies
        assert isinstance(answer, Answer)
        answered.append(pair.sides[one].receive(over_the_wire(answer), 0.0).answered)
    assert answered == [leases[side].token, leases[1 - side].token]
    assert sorted(pair.stores[one].holds(task_id, leases[one]) for one in (0, 1)) == [False, True]
    assert pair.stores[0].task(task_id) == pair.stores[1].task(task_id)


def test_rows_that_nobody_can_read_end_no_session() -> None:
    pair = Pair()
    pair.connect()
    question = Want(since=None)
    assert pair.sides[0].receive(question, 0.0).replies
    garbage = msgspec.json.decode(
        b'{"type":"claimed","ask":"x","task_id":"y","rows":[{"kind":"job","document":"{"}]}', type=Message
    )
    (answer,) = pair.sides[0].receive(garbage, 0.0).replies
    assert answer == Answer(ask="x", rows=())
