"""Seeks are told to the gateway first, and only the newest wish counts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.ui.seeking import SeekGate, SeekStep


def test_a_wish_is_asked_first_and_done_when_answered() -> None:
    gate = SeekGate()
    assert gate.want(5000) == SeekStep(ask_ms=5000)
    assert gate.target_ms == 5000
    assert gate.answered(5000) == SeekStep(jump_ms=5000)
    assert gate.target_ms is None


def test_of_wishes_made_meanwhile_only_the_newest_is_asked() -> None:
    gate = SeekGate()
    gate.want(1000)
    assert gate.want(2000) == SeekStep()
    assert gate.want(3000) == SeekStep()
    assert gate.target_ms == 3000
    assert gate.answered(1000) == SeekStep(ask_ms=3000)
    assert gate.answered(3000) == SeekStep(jump_ms=3000)


def test_a_late_answer_does_nothing() -> None:
    gate = SeekGate()
    gate.want(1000)
    gate.answered(1000)
    assert gate.answered(1000) == SeekStep()


def test_a_wish_back_to_what_is_asked_needs_no_second_question() -> None:
    gate = SeekGate()
    gate.want(1000)
    gate.want(2000)
    gate.want(1000)
    assert gate.answered(1000) == SeekStep(jump_ms=1000)
    assert gate.target_ms is None


def test_reset_forgets_all() -> None:
    gate = SeekGate()
    gate.want(1000)
    gate.reset()
    assert gate.target_ms is None
    assert gate.answered(1000) == SeekStep()


@given(st.lists(st.integers(0, 5), min_size=1), st.data())
def test_whatever_the_order_the_player_ends_at_the_last_wish(wishes: list[int], data: st.DataObject) -> None:
    gate = SeekGate()
    asked: int | None = None
    at: int | None = None
    for wish in wishes:
        step = gate.want(wish)
        asked = step.ask_ms if step.ask_ms is not None else asked
        if asked is not None and data.draw(st.booleans()):
            step = gate.answered(asked)
            asked, at = step.ask_ms, step.jump_ms if step.jump_ms is not None else at
    while asked is not None:
        step = gate.answered(asked)
        asked, at = step.ask_ms, step.jump_ms if step.jump_ms is not None else at
    assert at == wishes[-1]
