"""When a result is lost, so that it must be made again: a decision about who has it, made from what they say."""

from __future__ import annotations

from collections.abc import Collection, Mapping

UNREACHABLE_AFTER_S = 24 * 3600.0


def is_result_lost(
    *,
    holders: Collection[str],
    revoked: Collection[str],
    denied: Collection[str],
    silent_s: Mapping[str, float],
    is_published: bool,
    can_be_made_here: bool,
) -> bool:
    """Whether the row's ``void`` is to be raised.

    ``holders`` are all devices that may have the shards, ``denied`` those that said, after the result was known to
    them, that they do not. ``silent_s`` says for how many seconds a holder was not reached, counting only time in
    which this engine was awake. A published film is never given up merely because its holders are away.
    """
    left = set(holders) - set(revoked) - set(denied)
    if not left:
        return True
    away = all(silent_s.get(one, 0.0) >= UNREACHABLE_AFTER_S for one in left)
    return away and can_be_made_here and not is_published
