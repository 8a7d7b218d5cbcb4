"""When to tell the gateway of a seek and when to let the player seek; pure.

A player's seek hangs behind a request that waits for a segment in the making, so the gateway hears of a seek first
and closes such requests. While somebody drags the slider, only the newest wish counts.

::

              want: ask                    want: remember
     ┌──────┐ ────────────▶ ┌────────┐ ─────────┐
     │ idle │               │ asking │ ◀────────┘
     └──────┘ ◀──────────── └────────┘ ◀────────┐
              answered:        │                │
              jump             └────────────────┘
                               answered with a newer wish: ask again
"""

from __future__ import annotations

import msgspec


class SeekStep(msgspec.Struct, frozen=True, kw_only=True):
    """What to do now; positions in milliseconds."""

    ask_ms: int | None = None
    """Tell the gateway of this position."""
    jump_ms: int | None = None
    """Let the player go to this position."""


class SeekGate:
    """Orders seeks of one player. An answer may be a reply, a refusal or a time-out: all let the player go."""

    def __init__(self) -> None:
        self._asked_ms: int | None = None
        self._newer_ms: int | None = None

    @property
    def target_ms(self) -> int | None:
        """Where the player will be once all is answered, or None when no seek is under way."""
        return self._asked_ms if self._newer_ms is None else self._newer_ms

    def want(self, position_ms: int) -> SeekStep:
        """Take a wish to be at ``position_ms``."""
        if self._asked_ms is not None:
            self._newer_ms = position_ms
            return SeekStep()
        self._asked_ms = position_ms
        return SeekStep(ask_ms=position_ms)

    def answered(self, position_ms: int) -> SeekStep:
        """Take the gateway's answer for ``position_ms``, or its absence; answers to older questions do nothing."""
        if position_ms != self._asked_ms:
            return SeekStep()
        self._asked_ms = None
        if self._newer_ms is not None and self._newer_ms != position_ms:
            newer, self._newer_ms = self._newer_ms, None
            return self.want(newer)
        self._newer_ms = None
        return SeekStep(jump_ms=position_ms)

    def reset(self) -> None:
        """Forget all wishes: the session is over."""
        self._asked_ms = self._newer_ms = None
