"""Shards between two devices, over the second channel of a link: who asks, who answers; no I/O.

::

    ask(name) ──► Ask(name) ─────────────►  vault, or sealed from the user's own file
              ◄─────────────  Shard(name, data)  or  NoShard(name)
    have(names) ──► AskHave(names) ─────►
              ◄─────────────  Have(names)        those that are there

    read(fingerprint, range) ──► AskSource ──►  bytes of the user's own file, while it still is what was added
              ◄─────────────  SourceBytes  or  NoSource

At most ``MOST_ASKED`` shards are under way; the rest waits here. A shard verifies itself by its name, so whoever gives
it need not be believed; an answer to a question that was not asked is dropped.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Annotated

import msgspec
from msgspec import Meta

from app.sync.channel import MAX_MESSAGE_BYTES, bad_message

MOST_ASKED = 8
"""Shards of 4 MiB: 32 MiB under way keep a fast link busy."""
MOST_NAMES = 4096
MAX_SOURCE_BYTES = 1 << 20

Name = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class Ask(msgspec.Struct, frozen=True, kw_only=True, tag="ask"):
    """Asks for a shard."""

    name: Name


class Shard(msgspec.Struct, frozen=True, kw_only=True, tag="shard"):
    """A sealed shard."""

    name: Name
    data: Annotated[bytes, Meta(max_length=MAX_MESSAGE_BYTES)]


class NoShard(msgspec.Struct, frozen=True, kw_only=True, tag="none"):
    """It is not here."""

    name: Name


class AskHave(msgspec.Struct, frozen=True, kw_only=True, tag="ask-have"):
    """Asks which of some shards are there."""

    ask: Annotated[int, Meta(ge=0, le=2**53)]
    names: Annotated[tuple[Name, ...], Meta(max_length=MOST_NAMES)]


class Have(msgspec.Struct, frozen=True, kw_only=True, tag="have"):
    """Answers ``AskHave``: those that are there."""

    ask: Annotated[int, Meta(ge=0, le=2**53)]
    names: Annotated[tuple[Name, ...], Meta(max_length=MOST_NAMES)]


class AskSource(msgspec.Struct, frozen=True, kw_only=True, tag="ask-source"):
    """Asks for bytes of the user's own file that has a fingerprint."""

    ask: Annotated[int, Meta(ge=0, le=2**53)]
    fingerprint: Annotated[str, Meta(min_length=1, max_length=128)]
    offset: Annotated[int, Meta(ge=0, le=2**53)]
    length: Annotated[int, Meta(ge=0, le=MAX_SOURCE_BYTES)]


class SourceBytes(msgspec.Struct, frozen=True, kw_only=True, tag="source"):
    """Answers ``AskSource``."""

    ask: Annotated[int, Meta(ge=0, le=2**53)]
    data: Annotated[bytes, Meta(max_length=MAX_SOURCE_BYTES)]


class NoSource(msgspec.Struct, frozen=True, kw_only=True, tag="no-source"):
    """The file is not there, or not what it was, any more."""

    ask: Annotated[int, Meta(ge=0, le=2**53)]


Question = Ask | AskHave | AskSource
Exchanged = Question | Shard | NoShard | Have | SourceBytes | NoSource

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Exchanged] = msgspec.msgpack.Decoder(Exchanged)


def encode_exchanged(message: Exchanged) -> bytes:
    """Return the bytes of one message."""
    return _encoder.encode(message)


def decode_exchanged(data: bytes) -> Exchanged:
    """Return the message in ``data``; raises ``ChannelClosedError`` bad-message when it is none."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise bad_message(str(error)) from error


class Asking:
    """The asking side: which shards are under way, and which wait for their turn."""

    def __init__(self, *, most: int = MOST_ASKED) -> None:
        self._most = most
        self._asked: set[str] = set()
        self._waiting: OrderedDict[str, None] = OrderedDict()

    @property
    def load(self) -> int:
        """How many shards are asked for or wait."""
        return len(self._asked) + len(self._waiting)

    def ask(self, name: str) -> tuple[Ask, ...]:
        """Want a shard; return what is to be said now. Wanting one twice asks once."""
        if name not in self._asked:
            self._waiting[name] = None
        return self._next()

    def forget(self, name: str) -> None:
        """Want a shard no more, if it was not asked for yet."""
        self._waiting.pop(name, None)

    def answered(self, name: str) -> tuple[bool, tuple[Ask, ...]]:
        """Note an answer; return whether it was asked for, and what is to be said now."""
        was_asked = name in self._asked
        self._asked.discard(name)
        return was_asked, self._next()

    def _next(self) -> tuple[Ask, ...]:
        asks = []
        while self._waiting and len(self._asked) < self._most:
            name, _ = self._waiting.popitem(last=False)
            self._asked.add(name)
            asks.append(Ask(name=name))
        return tuple(asks)
