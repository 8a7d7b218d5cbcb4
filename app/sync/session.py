"""A session with one peer: greeting, liveness, replication, presence; messages in, messages out, no I/O, no clock.

::

    start ──► Hello ─────────────────►
              ◄───────────────── Hello   versions that do not meet, or one's own id: Goodbye, ended
    talking ──► Want, Rows, News, Claimed, Answer (``replication``), Presence, Ping ──► …
                nothing heard for 30 s, a message that makes no sense, Goodbye ──► ended

A message is MessagePack of a tagged map (PROTOCOL.md). Decoding is strict and bounded; what does not decode ends the
session, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta

from app.core.errors import ErrorCode, ExpectedError
from app.queue.abilities import Abilities
from app.sync.channel import bad_message
from app.sync.replication import Answer, Claimed, FeedStore, Message, News, Replication, Rows, Want

VERSION = 1
OLDEST_VERSION = 1
PING_AFTER_S = 10.0
"""Of saying nothing."""
SILENT_AFTER_S = 30.0
"""Of hearing nothing: the peer is gone, though its connection may not know it."""


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag="hello"):
    """The first message of each side."""

    oldest: Annotated[int, Meta(ge=1, le=10_000)]
    newest: Annotated[int, Meta(ge=1, le=10_000)]
    device: Annotated[str, Meta(min_length=1, max_length=64)]
    boot: Annotated[int, Meta(ge=0)]
    name: Annotated[str, Meta(max_length=200)]
    port: Annotated[int, Meta(ge=0, le=65535)] = 0
    """Where it listens for direct channels; 0 when it does not."""
    abilities: Abilities


class Presence(msgspec.Struct, frozen=True, kw_only=True, tag="presence"):
    """What the device can do changed."""

    abilities: Abilities


class Statements(msgspec.Struct, frozen=True, kw_only=True, tag="statements"):
    """Signed statements about who belongs to the space (``app.sync.membership``); all of them, or new ones."""

    encoded: Annotated[tuple[Annotated[bytes, Meta(max_length=64 << 10)], ...], Meta(max_length=20_000)]


class Ping(msgspec.Struct, frozen=True, kw_only=True, tag="ping"):
    """A sign of life, when there is nothing else to say."""


class Goodbye(msgspec.Struct, frozen=True, kw_only=True, tag="goodbye"):
    """The session ends, and why, in words."""

    reason: Annotated[str, Meta(max_length=500)]


Spoken = Hello | Presence | Statements | Ping | Goodbye | Message

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Spoken] = msgspec.msgpack.Decoder(Spoken)


def encode_spoken(message: Spoken) -> bytes:
    """Return the bytes of one message."""
    return _encoder.encode(message)


def decode_spoken(data: bytes) -> Spoken:
    """Return the message in ``data``; raises ``ChannelClosedError`` bad-message when it is none."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise bad_message(str(error)) from error


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a message."""

    replies: tuple[Spoken, ...] = ()
    greeted: bool = False
    """The peer has just introduced itself."""
    answered: str = ""
    """The claim's token that the peer has answered."""
    statements: tuple[bytes, ...] = ()
    """About who belongs to the space."""
    own_news: tuple[str, ...] = ()
    """Rows that say that this device was restored from a backup, or lives twice."""
    changed: bool = False
    """Whether rows of the queue changed, or what the peer can do."""


class PeerSession:
    """One side of a session; all methods belong to the queue's thread, because the store does."""

    def __init__(self, *, store: FeedStore, hello: Hello, now_s: float, expected: str | None = None) -> None:
        """Begin; ``expected`` is the device that the channel has proven, if it proves one."""
        self._expected = expected
        self._store = store
        self._hello = hello
        self._replication: Replication | None = None
        self._heard_at_s = self._said_at_s = now_s
        self.peer: Hello | None = None
        """Who is there; None before it has introduced itself."""

    def start(self) -> tuple[Spoken, ...]:
        """Return the first message."""
        return (self._hello,)

    def receive(self, data: bytes, now_s: float) -> Heard:
        """Take a message; raises ``ExpectedError`` when the session is over, with what to tell the user."""
        self._heard_at_s = now_s
        message = decode_spoken(data)
        if isinstance(message, Goodbye):
            raise ExpectedError(ErrorCode.DISCONNECTED, f"The other device ended the session: {message.reason}")
        if isinstance(message, Hello):
            return self._greet(message, now_s)
        if self._replication is None or self.peer is None:
            raise bad_message("it did not introduce itself")
        match message:
            case Ping():
                return Heard()
            case Statements():
                return Heard(statements=message.encoded)
            case Presence():
                self.peer = msgspec.structs.replace(self.peer, abilities=message.abilities)
                return Heard(changed=True)
            case Want() | Rows() | News() | Claimed() | Answer():
                received = self._replication.receive(message, now_s)
                return Heard(
                    replies=received.replies,
                    answered=received.answered,
                    own_news=received.own_news,
                    changed=received.changed,
                )

    def tick(self, now_s: float) -> tuple[Spoken, ...]:
        """Return what is to be said now; raises ``ExpectedError`` when the peer fell silent."""
        if now_s - self._heard_at_s >= SILENT_AFTER_S:
            raise ExpectedError(
                ErrorCode.DISCONNECTED, "The other device fell silent; the connection is tried again by itself."
            )
        said: tuple[Spoken, ...] = self._replication.tick(now_s) if self._replication else ()
        if not said and now_s - self._said_at_s >= PING_AFTER_S:
            said = (Ping(),)
        return self._saying(said, now_s)

    def claim(self, task_id: str, token: str) -> tuple[Spoken, ...]:
        """Return the announcement of a claim; nothing before the peer has introduced itself."""
        return (self._replication.claim(task_id, token),) if self._replication else ()

    def next_moment_s(self) -> float:
        """Return when ``tick`` has something to do by itself."""
        asks = self._replication.next_moment_s() if self._replication else None
        moments = [self._said_at_s + PING_AFTER_S, self._heard_at_s + SILENT_AFTER_S]
        return min(moments if asks is None else [*moments, asks])

    def _saying(self, said: Iterable[Spoken], now_s: float) -> tuple[Spoken, ...]:
        messages = tuple(said)
        if messages:
            self._said_at_s = now_s
        return messages

    def _greet(self, hello: Hello, now_s: float) -> Heard:
        if self.peer is not None:
            raise bad_message("it introduced itself twice")
        if hello.newest < self._hello.oldest or self._hello.newest < hello.oldest:
            older = "this device" if self._hello.newest < hello.oldest else hello.name or "the other device"
            raise ExpectedError(
                ErrorCode.DATA_TOO_NEW, f"The two devices speak different versions; update Hearthreel on {older}."
            )
        if hello.device == self._hello.device:
            raise ExpectedError(
                ErrorCode.NOT_TRUSTED,
                "Another computer uses a copy of this device's data; delete the copy there and pair it as new.",
            )
        if self._expected not in {None, hello.device}:
            raise bad_message("it calls itself another device than its key says")
        self.peer = hello
        self._replication = Replication(store=self._store, peer=hello.device)
        return Heard(replies=self._replication.connected(now_s), greeted=True, changed=True)
