"""Replication of the queue with one peer: messages in, messages out; no I/O and no clock of its own.

::

    connected ──► Want(cursor) ──────────────────────►  Rows(since, rows, cursor, more)
                     ▲                                        │ applied with the cursor, in one transaction
                     ├──────────── more: ask at once ◄────────┤
                     ├──────────── News: there is something ◄─┘ (later, by the peer)
                     └──────────── nothing heard for a while: ask again

    claim ──► Claimed(ask, rows) ──────────────────►  merged there
              merged here, the claim is answered ◄──  Answer(ask, rows): what is there now

Every message may come twice, late or never: ``Want`` is repeated, ``Rows`` move the cursor only if they are the answer
to where it stands, ``News`` and ``Claimed`` are hints whose loss costs time and nothing else. The store's rows are the
floor; this object keeps nothing that matters.

The engine calls it on the queue's thread, since the store is synchronous.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

from app.queue.feed import Applied, Changes, FeedCursor, FeedRow

ROWS_PER_ANSWER = 500
BYTES_PER_ANSWER = 1 << 20
"""More only for a single row that is larger; the film of a long evening has some hundred kilobytes."""
ASK_AGAIN_AFTER_S = 5.0
"""After an answer that did not come."""
POLL_AFTER_S = 30.0
"""After an answer that said that there is nothing more, in case its ``News`` was lost."""


class Want(msgspec.Struct, frozen=True, kw_only=True, tag="want"):
    """Asks for what follows a cursor; None for everything."""

    since: FeedCursor | None


class Rows(msgspec.Struct, frozen=True, kw_only=True, tag="rows"):
    """Answers ``Want``."""

    since: FeedCursor | None
    rows: tuple[FeedRow, ...]
    cursor: FeedCursor
    more: bool


class News(msgspec.Struct, frozen=True, kw_only=True, tag="news"):
    """Says that rows changed; the cursor is that of somebody who has all."""

    cursor: FeedCursor


class Claimed(msgspec.Struct, frozen=True, kw_only=True, tag="claimed"):
    """Tells of a claim that waits to settle."""

    ask: str
    """Repeated in the answer: the claim's token."""
    task_id: str
    rows: tuple[FeedRow, ...]


class Answer(msgspec.Struct, frozen=True, kw_only=True, tag="answer"):
    """Answers ``Claimed``: the rows after the merge, with whatever makes the claim moot."""

    ask: str
    rows: tuple[FeedRow, ...]


Message = Want | Rows | News | Claimed | Answer


class FeedStore(Protocol):
    """What replication needs of the queue's store."""

    def feed_cursor(self) -> FeedCursor:
        """Return the cursor of somebody who has every row."""
        ...

    def changes_since(self, cursor: FeedCursor | None, *, limit: int = 500) -> Changes:
        """Return the first changes after a cursor."""
        ...

    def peer_cursor(self, peer: str) -> FeedCursor | None:
        """Return the cursor with which to ask a peer for more."""
        ...

    def apply_rows(
        self,
        rows: Iterable[FeedRow],
        *,
        from_peer: str,
        peer_cursor: FeedCursor | None = None,
        since: FeedCursor | None = None,
    ) -> Applied:
        """Merge rows of a peer, and note its cursor if ``since`` is where it stood."""
        ...

    def rows_about(self, task_ids: Iterable[str], *, job_ids: Iterable[str] = ()) -> tuple[FeedRow, ...]:
        """Return what is known of tasks, with their jobs and films."""
        ...


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a message."""

    replies: tuple[Message, ...] = ()
    answered: str = ""
    """The claim's token that the peer has answered."""
    own_news: tuple[str, ...] = ()
    """Rows that say that this device was restored from a backup, or lives twice."""
    changed: bool = False
    """Whether jobs are not what they were."""


class Replication:
    """The exchange of rows with one peer, for as long as one session lasts."""

    def __init__(self, *, store: FeedStore, peer: str) -> None:
        self._store = store
        self._peer = peer
        self._ask_at_s: float | None = None
        self._is_waiting = False
        self._has_news = False
        self._told: FeedCursor | None = None

    def connected(self, now_s: float) -> tuple[Message, ...]:
        """Begin: return what to send to the peer."""
        self._told = self._store.feed_cursor()
        return (self._want(now_s),)

    def next_moment_s(self) -> float | None:
        """Return the monotonic moment at which ``tick`` has something to ask."""
        return self._ask_at_s

    def tick(self, now_s: float) -> tuple[Message, ...]:
        """Return what is to be sent now: an unanswered question again, and news if rows changed since."""
        messages: list[Message] = []
        cursor = self._store.feed_cursor()
        if cursor != self._told:
            self._told = cursor
            messages.append(News(cursor=cursor))
        if self._ask_at_s is not None and now_s >= self._ask_at_s:
            messages.append(self._want(now_s))
        return tuple(messages)

    def claim(self, task_id: str, token: str) -> Message:
        """Return the announcement of a claim."""
        return Claimed(ask=token, task_id=task_id, rows=self._store.rows_about((task_id,)))

    def receive(self, message: Message, now_s: float) -> Received:
        """Take a message of the peer; return what follows from it."""
        match message:
            case Want():
                return self._give(message)
            case Rows():
                return self._take(message, now_s)
            case News():
                return self._hear(message, now_s)
            case Claimed():
                return self._answer(message)
            case Answer():
                applied = self._store.apply_rows(message.rows, from_peer=self._peer)
                return Received(answered=message.ask, own_news=applied.own_news, changed=bool(applied.changed))

    def _want(self, now_s: float) -> Want:
        self._ask_at_s = now_s + ASK_AGAIN_AFTER_S
        self._is_waiting, self._has_news = True, False
        return Want(since=self._store.peer_cursor(self._peer))

    def _hear(self, news: News, now_s: float) -> Received:
        if news.cursor == self._store.peer_cursor(self._peer):
            return Received()
        self._has_news = True
        return Received() if self._is_waiting else Received(replies=(self._want(now_s),))

    def _give(self, want: Want) -> Received:
        limit = ROWS_PER_ANSWER
        changes = self._store.changes_since(want.since, limit=limit)
        while limit > 1 and sum(len(row.document) for row in changes.rows) > BYTES_PER_ANSWER:
            limit //= 2
            changes = self._store.changes_since(want.since, limit=limit)
        answer = Rows(since=want.since, rows=changes.rows, cursor=changes.cursor, more=changes.more)
        return Received(replies=(answer,))

    def _take(self, rows: Rows, now_s: float) -> Received:
        applied = self._store.apply_rows(rows.rows, from_peer=self._peer, peer_cursor=rows.cursor, since=rows.since)
        self._is_waiting = False
        changed = bool(applied.changed)
        if rows.more or self._has_news:
            return Received(replies=(self._want(now_s),), own_news=applied.own_news, changed=changed)
        self._ask_at_s = now_s + POLL_AFTER_S
        return Received(own_news=applied.own_news, changed=changed)

    def _answer(self, claimed: Claimed) -> Received:
        applied = self._store.apply_rows(claimed.rows, from_peer=self._peer)
        rows = self._store.rows_about((claimed.task_id,), job_ids=_jobs_in(claimed.rows))
        answer = Answer(ask=claimed.ask, rows=rows)
        return Received(replies=(answer,), own_news=applied.own_news, changed=bool(applied.changed))


class _Named(msgspec.Struct, frozen=True, kw_only=True):
    id: str = ""
    job_id: str = ""


def _jobs_in(rows: Iterable[FeedRow]) -> tuple[str, ...]:
    """Return the ids of the jobs that rows are of; rows that cannot be read have been set aside already."""
    found: dict[str, None] = {}
    for row in rows:
        try:
            named = msgspec.json.decode(row.document, type=_Named)
        except (msgspec.DecodeError, RecursionError):
            continue
        found[named.job_id or named.id] = None
    return tuple(found)
