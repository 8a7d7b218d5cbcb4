"""Messages over a data channel, which carries short pieces and has no back-pressure of its own; no I/O.

A piece is one byte of kind and a body:

======  ========================================================================================
MORE    part of a message that goes on
LAST    the last (or only) part of a message
CREDIT  four bytes, big-endian: so much more may be sent
CLOSE   nothing more comes, and why; answered by a CLOSE
PING    nothing; the peer is there
======  ========================================================================================

Each side may have ``WINDOW_BYTES`` on their way that the other has not taken over yet (a piece costs its body and
``PIECE_OVERHEAD``); CREDIT gives room back as soon as the inbox is not full. So a reader that is behind stops its
sender, however much the layers between would swallow.
"""

from __future__ import annotations

from collections import deque
from enum import IntEnum
from typing import Final

from app.sync.channel import MAX_MESSAGE_BYTES, MAX_REASON_BYTES, bad_message, closed_by_peer
from app.sync.inbox import Inbox

PIECE_BYTES: Final = 64 * 1024
"""The longest piece, with its kind."""
PIECE_OVERHEAD: Final = 100
WINDOW_BYTES: Final = 2 * 1024 * 1024
_GIVE_BACK_BYTES: Final = WINDOW_BYTES // 8


class PieceKind(IntEnum):
    """What a piece is; numbers on the wire, never reused."""

    MORE = 0
    LAST = 1
    CREDIT = 2
    CLOSE = 3
    PING = 4


class FragmentStream:
    """One end of a channel as a value of the pieces it was given; what arrives goes to ``inbox``."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._outbox: deque[memoryview] = deque()
        self._may_send_bytes = WINDOW_BYTES
        self._may_receive_bytes = WINDOW_BYTES
        self._to_give_back_bytes = 0
        self._parts: list[bytes] = []
        self._parts_bytes = 0
        self._ping_is_due = False
        self._close_is_due: bytes | None = None
        self._has_closed = False
        self.queued_bytes = 0
        """Bytes of messages that have not left yet."""
        self.is_closed_by_peer = False
        """Whether the peer has said CLOSE."""

    def queue(self, message: bytes) -> None:
        """Add a message for the peer."""
        self._outbox.append(memoryview(message))
        self.queued_bytes += len(message)

    def queue_ping(self) -> None:
        """Let the peer know that this side is there."""
        self._ping_is_due = True

    def queue_close(self, reason: bytes) -> None:
        """Say after all messages that nothing more comes."""
        if self._close_is_due is None:
            self._close_is_due = reason

    def next_piece(self) -> bytes | None:
        """Return what to send next; None when there is nothing or the peer must read first."""
        if self._has_closed:
            return None
        if self._to_give_back_bytes >= _GIVE_BACK_BYTES and not self._inbox.is_full:
            return self._credit()
        if self._ping_is_due:
            self._ping_is_due = False
            return PieceKind.PING.to_bytes(1, "big")
        if self._outbox:
            return self._data()
        if self._close_is_due is not None:
            self._has_closed = True
            return PieceKind.CLOSE.to_bytes(1, "big") + self._close_is_due
        return None

    def receive(self, piece: bytes) -> None:
        """Take a piece from the peer; raises ``ChannelClosedError`` when no version of this program sends such."""
        if not piece or len(piece) > PIECE_BYTES:
            raise bad_message(f"a piece of {len(piece)} bytes")
        body = piece[1:]
        match piece[0]:
            case PieceKind.MORE | PieceKind.LAST:
                self._receive_data(body, is_last=piece[0] == PieceKind.LAST)
            case PieceKind.CREDIT if len(body) == 4:
                self._may_send_bytes += int.from_bytes(body, "big")
                if self._may_send_bytes > WINDOW_BYTES:
                    raise bad_message("more credit than there is")
            case PieceKind.CLOSE if len(body) <= MAX_REASON_BYTES:
                self._receive_close(body)
            case PieceKind.PING if not body:
                pass
            case _:
                raise bad_message(f"a piece of kind {piece[0]} with {len(body)} bytes")

    def _credit(self) -> bytes:
        amount, self._to_give_back_bytes = self._to_give_back_bytes, 0
        self._may_receive_bytes += amount
        return PieceKind.CREDIT.to_bytes(1, "big") + amount.to_bytes(4, "big")

    def _data(self) -> bytes | None:
        part = self._outbox[0][: PIECE_BYTES - 1]
        if self._may_send_bytes < len(part) + PIECE_OVERHEAD:
            return None
        rest = self._outbox.popleft()[len(part) :]
        if rest:
            self._outbox.appendleft(rest)
        self._may_send_bytes -= len(part) + PIECE_OVERHEAD
        self.queued_bytes -= len(part)
        return (PieceKind.MORE if rest else PieceKind.LAST).to_bytes(1, "big") + part

    def _receive_data(self, body: bytes, *, is_last: bool) -> None:
        self._may_receive_bytes -= len(body) + PIECE_OVERHEAD
        self._to_give_back_bytes += len(body) + PIECE_OVERHEAD
        self._parts_bytes += len(body)
        if self._may_receive_bytes < 0:
            raise bad_message("more than it was allowed to send")
        if self._parts_bytes > MAX_MESSAGE_BYTES:
            raise bad_message("a message that is too long")
        if not body and not is_last:
            raise bad_message("an empty part of a message")
        self._parts.append(body)
        if is_last:
            self._inbox.put(b"".join(self._parts))
            self._parts, self._parts_bytes = [], 0

    def _receive_close(self, reason: bytes) -> None:
        self.is_closed_by_peer = True
        self._inbox.end(closed_by_peer(reason))
        self._outbox.clear()
        self.queued_bytes = 0
        self.queue_close(b"")
