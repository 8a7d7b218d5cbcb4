"""Lists become other lists with few edits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.ui.edits import Insert, Move, Remove, plan_edits

KEYS = st.lists(st.sampled_from("abcdefghij"), unique=True)


def apply(old: list[str], new: list[str]) -> list[str]:
    """Return what the planned edits make of ``old``."""
    rows = list(old)
    for edit in plan_edits(old, new):
        match edit:
            case Remove(first=first, last=last):
                del rows[first : last + 1]
            case Move(source=source, target=target):
                assert source != target
                rows.insert(target, rows.pop(source))
            case Insert(first=first, last=last):
                rows[first:first] = new[first : last + 1]
    return rows


@given(KEYS, KEYS)
def test_edits_turn_the_old_list_into_the_new_one(old: list[str], new: list[str]) -> None:
    assert apply(old, new) == new


@given(KEYS)
def test_equal_lists_need_no_edit(keys: list[str]) -> None:
    assert plan_edits(keys, list(keys)) == ()


def test_a_row_that_goes_to_the_end_is_one_move() -> None:
    assert plan_edits("abcdefgh", "bcdefgha") == (Move(source=0, target=7),)


def test_a_row_that_comes_to_the_front_is_one_move() -> None:
    assert plan_edits("abcdefgh", "habcdefg") == (Move(source=7, target=0),)


def test_neighbours_are_inserted_and_removed_together() -> None:
    assert plan_edits("", "abc") == (Insert(first=0, last=2),)
    assert plan_edits("abcd", "ad") == (Remove(first=1, last=2),)
