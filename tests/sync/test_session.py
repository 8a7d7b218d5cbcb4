"""The session with one peer: greeting, liveness, bad messages."""

from __future__ import annotations

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from app.core.clock import ManualClock
from app.core.errors import ErrorCode, ExpectedError
from app.queue.abilities import Abilities
from app.queue.memory_store import MemoryJobStore
from app.queue.rows import JobParams
from app.sync.replication import Answer, Claimed, Want
from app.sync.session import (
    PING_AFTER_S,
    SILENT_AFTER_S,
    Goodbye,
    Heard,
    Hello,
    PeerSession,
    Ping,
    Presence,
    Spoken,
    Statements,
    decode_spoken,
    encode_spoken,
)

ABILITIES = Abilities(works=True, speed=1000)
HELLO = Hello(oldest=1, newest=1, device="a", boot=1, name="Tower", abilities=ABILITIES)


class End:
    """One side, with a store of its own."""

    def __init__(self, device: str, *, expected: str | None = None, **hello: int) -> None:
        self.store = MemoryJobStore(device=device, boot=1, clock=ManualClock())
        said = replace(HELLO, device=device, **hello)
        self.session = PeerSession(store=self.store, hello=said, now_s=0.0, expected=expected)

    def add(self, name: str) -> str:
        params = JobParams(profile="default")
        return self.store.add_job(kind="hls", params=params, fingerprint=name, size_bytes=1, name=name, now_ms=1).id


def talk(left: End, right: End, now_s: float = 0.0) -> list[Heard]:
    """Carry messages both ways until both are silent."""
    heard: list[Heard] = []
    boxes: list[tuple[End, list[Spoken]]] = [(right, list(left.session.start())), (left, list(right.session.start()))]
    while any(box for _, box in boxes):
        for place, (end, box) in enumerate(boxes):
            while box:
                result = end.session.receive(encode_spoken(box.pop(0)), now_s)
                heard.append(result)
                boxes[1 - place][1].extend(result.replies)
    return heard


def refused(end: End, message: Spoken | bytes) -> ExpectedError:
    data = message if isinstance(message, bytes) else encode_spoken(message)
    with pytest.raises(ExpectedError) as caught:
        end.session.receive(data, 0.0)
    return caught.value


def test_two_devices_that_greet_have_each_others_rows() -> None:
    left, right = End("a"), End("b")
    jobs = {left.add("one"), right.add("two"), right.add("three")}
    talk(left, right)
    assert set(left.store.job_ids()) == set(right.store.job_ids()) == jobs
    assert (left.session.peer, right.session.peer) == (replace(HELLO, device="b"), replace(HELLO, device="a"))


def test_many_rows_pass_in_answers_of_bounded_size() -> None:
    left, right = End("a"), End("b")
    for number in range(30):
        left.add(f"{number}" + "x" * 100_000)
    sizes = [len(encode_spoken(one)) for heard in talk(left, right) for one in heard.replies]
    assert len(right.store.job_ids()) == 30
    assert max(sizes) < 1_500_000


def test_versions_that_do_not_meet_end_the_session_and_say_what_to_update() -> None:
    error = refused(End("a"), replace(HELLO, device="b", oldest=2, newest=3))
    assert error.code is ErrorCode.DATA_TOO_NEW
    assert "this device" in error.message
    old = refused(End("a", oldest=5, newest=6), replace(HELLO, device="b"))
    assert "Tower" in old.message


def test_a_peer_that_is_this_device_is_a_copy_and_is_not_talked_to() -> None:
    assert refused(End("a"), HELLO).code is ErrorCode.NOT_TRUSTED


def test_a_peer_that_calls_itself_otherwise_than_its_key_says_is_not_talked_to() -> None:
    assert refused(End("a", expected="c"), replace(HELLO, device="b")).code is ErrorCode.BAD_MESSAGE
    End("a", expected="b").session.receive(encode_spoken(replace(HELLO, device="b")), 0.0)


@pytest.mark.parametrize(
    "message", [Ping(), Presence(abilities=ABILITIES), Want(since=None), Statements(encoded=(b"x",))]
)
def test_whoever_has_not_greeted_is_told_nothing(message: Spoken) -> None:
    assert refused(End("a"), message).code is ErrorCode.BAD_MESSAGE


def test_a_second_greeting_ends_the_session() -> None:
    left, right = End("a"), End("b")
    talk(left, right)
    assert refused(left, replace(HELLO, device="b")).code is ErrorCode.BAD_MESSAGE


def test_goodbye_is_passed_on_in_words() -> None:
    error = refused(End("a"), Goodbye(reason="Hearthreel was closed there."))
    assert error.code is ErrorCode.DISCONNECTED
    assert "closed there" in error.message


def test_a_side_with_nothing_to_say_gives_a_sign_of_life_and_one_that_is_silent_is_gone() -> None:
    left, right = End("a"), End("b")
    talk(left, right)
    said = [one for now_s in (1.0, PING_AFTER_S + 2) for one in left.session.tick(now_s)]
    assert any(isinstance(one, (Ping, Want)) for one in said)
    right.session.receive(encode_spoken(Ping()), PING_AFTER_S)
    right.session.tick(PING_AFTER_S + SILENT_AFTER_S - 1)
    with pytest.raises(ExpectedError, match="fell silent"):
        right.session.tick(PING_AFTER_S + SILENT_AFTER_S)


def test_changes_of_abilities_and_statements_are_heard() -> None:
    left, right = End("a"), End("b")
    talk(left, right)
    weaker = replace(ABILITIES, speed=1, on_mains=False)
    assert left.session.receive(encode_spoken(Presence(abilities=weaker)), 1.0).changed
    assert left.session.peer is not None
    assert left.session.peer.abilities == weaker
    assert left.session.receive(encode_spoken(Statements(encoded=(b"s",))), 1.0).statements == (b"s",)


def test_fields_of_a_newer_version_are_ignored() -> None:
    newer = msgspec.msgpack.encode({"type": "goodbye", "reason": "so", "colour": "blue"})
    assert decode_spoken(newer) == Goodbye(reason="so")


MESSAGES: list[Spoken] = [
    HELLO,
    Presence(abilities=ABILITIES),
    Statements(encoded=(b"a", b"b")),
    Ping(),
    Goodbye(reason="r"),
    Want(since=None),
    *End("z").session.start(),
]


@given(st.binary(max_size=200))
def test_bytes_that_mean_nothing_end_the_session_and_do_nothing_else(data: bytes) -> None:
    end = End("a")
    end.session.receive(encode_spoken(replace(HELLO, device="b")), 0.0)
    with contextlib.suppress(ExpectedError):  # anything else is a bug
        end.session.receive(data, 0.0)


@given(st.sampled_from(MESSAGES), st.data())
def test_mutated_messages_are_heard_or_refused_in_words(message: Spoken, data: st.DataObject) -> None:
    encoded = bytearray(encode_spoken(message))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(encoded) - 1))
        encoded[place] = data.draw(st.integers(0, 255))
    end = End("a")
    end.session.receive(encode_spoken(replace(HELLO, device="b")), 0.0)
    with contextlib.suppress(ExpectedError):  # anything else is a bug
        end.session.receive(bytes(encoded), 0.0)


def test_rows_of_a_peer_that_cannot_be_read_are_passed_over() -> None:
    left, right = End("a"), End("b")
    right.add("kept")
    talk(left, right)
    broken = Claimed(ask="t", task_id="x", rows=())
    for kind in ("job", "task"):
        for document in ("", "{", "[]", '{"id":1}', '{"id":"x"}', "null", "9" * 100):
            row = msgspec.convert({"kind": kind, "document": document}, type=type(_row(right)))
            heard = left.session.receive(encode_spoken(replace(broken, rows=(row,))), 1.0)
            assert [type(one) for one in heard.replies] == [Answer]
    assert len(left.store.job_ids()) == 1


def _row(end: End) -> msgspec.Struct:
    return end.store.changes_since(None, limit=1).rows[0]
