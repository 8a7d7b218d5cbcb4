"""A claim settles before its work starts: the devices that hear each other do nothing twice.

::

    claimed ──► announced to all peers with a session ──► all have answered, or 2 s are over ──► look at the row:
                                                                            still ours ──► work
                                                                            not ours   ──► drop it, without a word

The answer of a peer is its row *after* it has merged the claim. If the peer had claimed the task itself, or knew a
result or a cancel, its answer says so, and merging it decides the same way on both sides. A peer that answered after
merging our claim cannot claim the task any more. So as long as a round trip takes less than the settle time, at most
one claim is still its holder's when it has settled. A peer whose session ends is not waited for.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from app.queue.rows import Lease

SETTLE_S = 2.0


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A lease that waits to settle."""

    task_id: str
    lease: Lease
    until_s: float
    """Monotonic moment after which nobody is waited for."""
    waiting: frozenset[str]
    """Peers that have not answered."""


class Settling:
    """The claims of one engine that have not settled."""

    def __init__(self, *, settle_s: float = SETTLE_S) -> None:
        self._settle_s = settle_s
        self._claims: dict[str, Claim] = {}

    def announce(self, task_id: str, lease: Lease, *, peers: Iterable[str], now_s: float) -> None:
        """Note a claim that is told to ``peers`` now."""
        until_s = now_s + self._settle_s
        self._claims[lease.token] = Claim(task_id=task_id, lease=lease, until_s=until_s, waiting=frozenset(peers))

    def answered(self, peer: str, token: str) -> None:
        """Note that a peer's row after the merge has been merged here."""
        claim = self._claims.get(token)
        if claim is not None:
            self._claims[token] = msgspec.structs.replace(claim, waiting=claim.waiting - {peer})

    def lost(self, peer: str) -> None:
        """Note that there is no session with ``peer`` any more."""
        for token in self._claims:
            self.answered(peer, token)

    def take_settled(self, now_s: float) -> tuple[Claim, ...]:
        """Return, once, the claims that have settled: those that are still held may be worked on."""
        settled = tuple(one for one in self._claims.values() if not one.waiting or one.until_s <= now_s)
        for one in settled:
            del self._claims[one.lease.token]
        return settled

    def next_moment_s(self) -> float | None:
        """Return when the next claim settles by itself; None when none waits."""
        return min((claim.until_s for claim in self._claims.values()), default=None)
