"""How one list of keys becomes another with few removals, moves and insertions; pure.

Views keep selection, focus and scroll position only when rows are edited instead of replaced (U5).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec


class Remove(msgspec.Struct, frozen=True, kw_only=True):
    """Take out the rows ``first`` to ``last``, both included."""

    first: int
    last: int


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """Take out row ``source`` and put it in so that its index then is ``target``."""

    source: int
    target: int


class Insert(msgspec.Struct, frozen=True, kw_only=True):
    """Put in the rows ``first`` to ``last`` of the new list at the same indexes."""

    first: int
    last: int


Edit: TypeAlias = Remove | Move | Insert


def plan_edits(old: Sequence[str], new: Sequence[str]) -> tuple[Edit, ...]:
    """Return the edits, to be done in order, that turn ``old`` into ``new``; both hold each key at most once."""
    if list(old) == list(new):
        return ()
    wanted = set(new)
    known = set(old)
    removals = [Remove(first=first, last=last) for first, last in _runs(old, wanted)]
    kept = [key for key in old if key in wanted]
    moves = _plan_moves(kept, [key for key in new if key in known])
    inserts = [Insert(first=first, last=last) for first, last in _runs(new, known)]
    return (*reversed(removals), *moves, *inserts)


def _runs(keys: Sequence[str], unless: set[str]) -> list[tuple[int, int]]:
    """Return (first, last) of each run of keys that are not in ``unless``."""
    runs: list[tuple[int, int]] = []
    for index, key in enumerate(keys):
        if key in unless:
            continue
        if runs and runs[-1][1] == index - 1:
            runs[-1] = (runs[-1][0], index)
        else:
            runs.append((index, index))
    return runs


def _plan_moves(kept: list[str], target: Sequence[str]) -> list[Move]:
    place = {key: index for index, key in enumerate(target)}
    moves: list[Move] = []
    for index, key in enumerate(target):
        if kept[index] == key:
            continue
        if kept[index + 1] == key:  # one row went down: one move, not one for each row that it passed
            move = Move(source=index, target=place[kept[index]])
        else:
            move = Move(source=kept.index(key, index + 1), target=index)
        kept.insert(move.target, kept.pop(move.source))
        moves.append(move)
    return moves
