"""The direct channel's protocol, without I/O: knock, TLS, welcome, then frames.

::

    connecting                                   accepting
    KNOCK      ── knock ──────────────────────►  KNOCK      wrong: the connection ends without an answer
    HANDSHAKE  ◄─ TLS 1.3, both prove keys ───►  HANDSHAKE  not a member: an alert, nothing else
    WELCOME    ◄─ welcome(version) ────────────  OPEN
    OPEN       ◄─ messages, pings, close ─────►

*Knock*: 16 random bytes and a MAC of them under the accepting device's public key. Public keys are known to the
owner's devices only, so who merely finds the port open does not even see a certificate. It is a courtesy to privacy,
not authentication: that is TLS alone.
*Welcome*: in TLS 1.3 the connecting side is done before the accepting side has looked at its certificate; only the
welcome says that it was accepted.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from typing import Final

from app.core.errors import ErrorCode, ExpectedError
from app.sync.channel import bad_message, peer_vanished
from app.sync.frames import Frame, FrameDecoder, FrameKind, encode_header
from app.sync.tls import AcceptKey, TlsEnd, TlsEndedError, TlsIdentity, TlsPipe

PROTOCOL_VERSION: Final = 1
WRITE_BYTES: Final = 256 * 1024
_COPY_BELOW_BYTES: Final = 8 * 1024
"""Shorter bodies share a TLS record with their header."""
_NONCE_BYTES: Final = 16
KNOCK_BYTES: Final = 32
_KNOCK_LABEL: Final = b"hearthreel direct knock"


class State(Enum):
    """Where a connection is; it only moves down."""

    KNOCK = auto()
    HANDSHAKE = auto()
    WELCOME = auto()
    OPEN = auto()


def knock_for(public_key: bytes, nonce: bytes) -> bytes:
    """Return the bytes that open the connection to the device of ``public_key``; ``nonce`` is 16 random bytes."""
    return nonce + hmac.digest(public_key, _KNOCK_LABEL + nonce, hashlib.sha256)[: KNOCK_BYTES - _NONCE_BYTES]


class DirectConnection:
    """One end of a direct channel as a value of the bytes it was given."""

    def __init__(self, identity: TlsIdentity, tls: TlsPipe, *, state: State) -> None:
        self._identity = identity
        self._tls = tls
        self._state = state
        self._is_server = state is State.KNOCK
        self._knock = bytearray()
        self._decoder = FrameDecoder()
        self._outbox: deque[memoryview] = deque()
        self._raw: deque[bytes] = deque()
        self.queued_bytes = 0
        """Bytes of frames that were not encrypted yet."""
        self.peer_key = b""
        """The peer's public key, once proven."""

    @classmethod
    def connecting(cls, identity: TlsIdentity, *, expected_key: bytes, nonce: bytes) -> DirectConnection:
        """Return the end of the device that connects to the device of ``expected_key``, and to no other."""
        tls = TlsPipe(identity, is_server=False, accept=lambda key: hmac.compare_digest(key, expected_key))
        made = cls(identity, tls, state=State.HANDSHAKE)
        made._raw.append(knock_for(expected_key, nonce))
        made._shake_hands()
        return made

    @classmethod
    def accepting(cls, identity: TlsIdentity, *, is_member: AcceptKey) -> DirectConnection:
        """Return the end of the device that was called."""
        return cls(identity, TlsPipe(identity, is_server=True, accept=is_member), state=State.KNOCK)

    @property
    def is_open(self) -> bool:
        """Whether both sides have accepted each other."""
        return self._state is State.OPEN

    def receive_data(self, data: memoryview, take: Callable[[Frame], None]) -> None:
        """Take bytes from the peer; messages and closing go to ``take``.

        Raises ``ExpectedError`` when the connection must end; what ``data_to_send`` still gives (an alert) goes first.
        """
        if self._state is State.KNOCK:
            data = self._hear_knock(data)
        self._tls.feed(data)
        if self._state is State.HANDSHAKE:
            self._shake_hands()
        if self._state in (State.WELCOME, State.OPEN):
            self._read(take)

    def queue(self, kind: FrameKind, body: bytes = b"") -> None:
        """Add a frame for the peer; ``data_to_send`` gives its bytes."""
        header = encode_header(kind, len(body))
        for part in (header, body) if len(body) > _COPY_BELOW_BYTES else (header + body,):
            self._outbox.append(memoryview(part))
            self.queued_bytes += len(part)

    def data_to_send(self) -> bytes:
        """Return up to about ``WRITE_BYTES`` for the peer; empty when there is nothing to send (yet)."""
        if self._raw:
            return self._raw.popleft()
        taken = 0
        while self._outbox and self._state is State.OPEN and taken < WRITE_BYTES:
            taken += self._encrypt_some()
        return self._tls.outgoing(2 * WRITE_BYTES)

    def _encrypt_some(self) -> int:
        part = self._outbox.popleft()
        count = self._tls.write(part)
        if count < len(part):
            self._outbox.appendleft(part[count:])
        self.queued_bytes -= count
        return count

    def _hear_knock(self, data: memoryview) -> memoryview:
        missing = KNOCK_BYTES - len(self._knock)
        self._knock += data[:missing]
        if len(self._knock) == KNOCK_BYTES:
            heard = bytes(self._knock)
            if not hmac.compare_digest(heard, knock_for(self._identity.public_key, heard[:_NONCE_BYTES])):
                raise _stranger()
            self._state = State.HANDSHAKE
        return data[missing:]

    def _shake_hands(self) -> None:
        try:
            key = self._tls.shake_hands()
        except TlsEndedError as error:
            raise self._handshake_error(error.why) from error
        if key is None:
            return
        self.peer_key = key
        self._state = State.OPEN if self._is_server else State.WELCOME
        if self._is_server:
            self.queue(FrameKind.WELCOME, PROTOCOL_VERSION.to_bytes(1, "big"))

    def _handshake_error(self, why: TlsEnd) -> ExpectedError:
        if why is TlsEnd.BY_PEER:
            return _refused_by_peer()
        return _stranger() if self._is_server else not_the_device()

    def _read(self, take: Callable[[Frame], None]) -> None:
        try:
            while count := self._tls.read_into(self._decoder.room()):
                frame = self._decoder.wrote(count)
                if frame is not None:
                    self._hear(frame, take)
        except TlsEndedError as error:
            if self._state is State.WELCOME:
                raise _refused_by_peer() from error
            raise peer_vanished() from error

    def _hear(self, frame: Frame, take: Callable[[Frame], None]) -> None:
        match self._state, frame.kind:
            case State.WELCOME, FrameKind.WELCOME:
                _check_version(frame.body)
                self._state = State.OPEN
            case State.OPEN, FrameKind.PING:
                pass
            case State.OPEN, FrameKind.MESSAGE | FrameKind.CLOSE:
                take(frame)
            case _:
                raise bad_message(f"a {frame.kind.name.lower()} out of turn")


def _check_version(body: bytes) -> None:
    if body[:1] != PROTOCOL_VERSION.to_bytes(1, "big"):
        raise ExpectedError(
            ErrorCode.DATA_TOO_NEW, "The other device runs a version that this one cannot talk to; update both."
        )


def _refused_by_peer() -> ExpectedError:
    return ExpectedError(
        ErrorCode.NOT_TRUSTED,
        "The other device refused this one: it was removed from your devices, or has not heard of the pairing yet.",
    )


def not_the_device() -> ExpectedError:
    """Return what is said when something else answers at a device's address."""
    return ExpectedError(ErrorCode.NOT_TRUSTED, "What answers there is not the device that was looked for.")


def _stranger() -> ExpectedError:
    return ExpectedError(
        ErrorCode.NOT_TRUSTED,
        "Something that is none of your devices, or was removed, tried to connect; it was refused.",
    )
