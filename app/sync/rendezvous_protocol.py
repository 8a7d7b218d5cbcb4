"""The rendezvous: passing sealed messages between devices that cannot find each other otherwise. Pure decisions here.

::

    device ──Listen(mailboxes)──► rendezvous ◄──Put(mailbox, sealed)── other device
           ◄──Delivered(sealed)──

It keeps nothing: a message goes to whoever listens at its mailbox now, or is dropped. It answers nothing: not whether
somebody listens, nor whether a message arrived. It knows nothing: a mailbox is a MAC that only the owner's devices can
compute, a message is sealed for its recipient, who checks who signed it. What its host sees is which network addresses
use the same mailbox, and when; anyone may host one and must not be trusted.

Messages are msgpack arrays, one per WebSocket frame. Whoever sends nonsense or too much is disconnected.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from typing import Final

import msgspec

from app.core.errors import ErrorCode, ExpectedError

PATH: Final = "/hearthreel/1"
MAILBOX_BYTES: Final = 16
MAX_SEALED_BYTES: Final = 96 * 1024
MAX_FRAME_BYTES: Final = MAX_SEALED_BYTES + 1024
MOST_MAILBOXES: Final = 8
"""Of one device: one per secret that its space has had lately."""
MOST_LISTENERS: Final = 4
"""At one mailbox; one more pushes out the oldest."""
_LABEL: Final = b"hearthreel mailbox"


class Listen(msgspec.Struct, frozen=True, kw_only=True, tag="listen", array_like=True, forbid_unknown_fields=True):
    """Deliver to me what is put into these mailboxes, and no longer what I said before."""

    mailboxes: tuple[bytes, ...]


class Put(msgspec.Struct, frozen=True, kw_only=True, tag="put", array_like=True, forbid_unknown_fields=True):
    """Give this to whoever listens there."""

    mailbox: bytes
    sealed: bytes


class Delivered(msgspec.Struct, frozen=True, kw_only=True, tag="delivered", array_like=True):
    """Something that was put into one of your mailboxes."""

    sealed: bytes


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much one connection may put."""

    burst: int = 40
    per_s: float = 2.0


def mailbox_of(public_key: bytes, *, secret: bytes) -> bytes:
    """Return the mailbox of a device in a space; ``secret`` is one that only the space's devices know."""
    return hmac.digest(secret, _LABEL + public_key, hashlib.sha256)[:MAILBOX_BYTES]


def encode(message: Listen | Put | Delivered) -> bytes:
    """Return a message as one frame."""
    return msgspec.msgpack.encode(message)


def decode_delivered(frame: bytes) -> Delivered:
    """Return what a rendezvous sent; raises ``ExpectedError`` bad-message."""
    try:
        return msgspec.msgpack.decode(frame, type=Delivered)
    except msgspec.DecodeError as error:
        raise _nonsense(str(error)) from error


class Bucket:
    """A rate limit: ``burst`` at once, ``per_s`` in the long run."""

    def __init__(self, limits: Limits, *, now_s: float) -> None:
        self._limits = limits
        self._left = float(limits.burst)
        self._at_s = now_s

    def take(self, now_s: float) -> bool:
        """Return whether one more is allowed, and count it."""
        self._left = min(self._limits.burst, self._left + (now_s - self._at_s) * self._limits.per_s)
        self._at_s = now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True


class Mailboxes:
    """Who listens where; connections are numbers. Says to whom a frame goes, and never more than that."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._buckets: dict[int, Bucket] = {}
        self._listening: dict[int, tuple[bytes, ...]] = {}
        self._listeners: dict[bytes, list[int]] = {}

    def joined(self, connection: int, now_s: float) -> None:
        """Take note of a new connection."""
        self._buckets[connection] = Bucket(self._limits, now_s=now_s)

    def left(self, connection: int) -> None:
        """Forget a connection."""
        self._buckets.pop(connection, None)
        self._stop_listening(connection)

    def receive(self, connection: int, frame: bytes, now_s: float) -> tuple[tuple[int, ...], bytes]:
        """Return to which connections to send which frame.

        Raises ``ExpectedError`` when the connection must end: bad-message, or too-many for too much.
        """
        if not self._buckets[connection].take(now_s):
            raise ExpectedError(ErrorCode.TOO_MANY, "This device sends too much; try again in a minute.")
        match _decode(frame):
            case Listen(mailboxes=mailboxes):
                self._listen(connection, mailboxes)
                return (), b""
            case Put(mailbox=mailbox, sealed=sealed):
                listeners = tuple(one for one in self._listeners.get(mailbox, ()) if one != connection)
                return listeners, encode(Delivered(sealed=sealed))

    def _listen(self, connection: int, mailboxes: tuple[bytes, ...]) -> None:
        self._stop_listening(connection)
        self._listening[connection] = mailboxes
        for mailbox in dict.fromkeys(mailboxes):
            listeners = self._listeners.setdefault(mailbox, [])
            listeners.append(connection)
            del listeners[:-MOST_LISTENERS]

    def _stop_listening(self, connection: int) -> None:
        for mailbox in self._listening.pop(connection, ()):
            listeners = self._listeners.get(mailbox, [])
            if connection in listeners:
                listeners.remove(connection)
            if not listeners:
                self._listeners.pop(mailbox, None)


def _decode(frame: bytes) -> Listen | Put:
    try:
        message = msgspec.msgpack.decode(frame, type=Listen | Put)
    except msgspec.DecodeError as error:
        raise _nonsense(str(error)) from error
    mailboxes: Iterable[bytes] = message.mailboxes if isinstance(message, Listen) else (message.mailbox,)
    if isinstance(message, Listen) and len(message.mailboxes) > MOST_MAILBOXES:
        raise _nonsense("too many mailboxes")
    if isinstance(message, Put) and len(message.sealed) > MAX_SEALED_BYTES:
        raise _nonsense("too long")
    if any(len(mailbox) != MAILBOX_BYTES for mailbox in mailboxes):
        raise _nonsense("no mailbox")
    return message


def _nonsense(what: str) -> ExpectedError:
    return ExpectedError(ErrorCode.BAD_MESSAGE, f"This is not what is said at a rendezvous ({what}).")
