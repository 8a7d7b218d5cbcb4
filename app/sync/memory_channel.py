"""Two ends of a channel within one process, for tests and simulations."""

from __future__ import annotations

import asyncio

from app.sync.channel import (
    ChannelClosedError,
    ChannelPath,
    check_message,
    closed_by_peer,
    closed_here,
    encode_reason,
    peer_vanished,
)
from app.sync.inbox import INBOX_BYTES, Inbox


class _Pipe:
    """One direction: an inbox at its far end, and whether its near end may send."""

    def __init__(self, inbox_bytes: int) -> None:
        self._may_send = asyncio.Event()
        self._may_send.set()
        self._sender_ended: ChannelClosedError | None = None
        self.inbox = Inbox(on_room=self._may_send.set, most_bytes=inbox_bytes)

    async def send(self, message: bytes) -> None:
        while self._sender_ended is None and not self._may_send.is_set():
            await self._may_send.wait()
        if self._sender_ended is not None:
            raise self._sender_ended.again()
        self.inbox.put(bytes(message))
        if self.inbox.is_full:
            self._may_send.clear()

    def end_sender(self, error: ChannelClosedError) -> None:
        self._sender_ended = self._sender_ended or error
        self._may_send.set()


class MemoryChannel:
    """One end; ``memory_channels`` makes two that belong together."""

    path: ChannelPath = "memory"

    def __init__(self, *, peer_key: bytes, incoming: _Pipe, outgoing: _Pipe) -> None:
        self.peer_key = peer_key
        self._incoming = incoming
        self._outgoing = outgoing

    async def send(self, message: bytes) -> None:
        check_message(message)
        await self._outgoing.send(message)

    async def receive(self) -> bytes:
        return await self._incoming.inbox.receive()

    async def close(self, reason: str = "") -> None:
        told = closed_by_peer(encode_reason(reason))
        self._outgoing.inbox.end(told)
        self._incoming.end_sender(told)
        self._outgoing.end_sender(closed_here(reason))
        self._incoming.inbox.discard(closed_here(reason))

    def vanish(self) -> None:
        """Let the connection be lost for both ends, as when a cable is pulled."""
        for pipe in (self._incoming, self._outgoing):
            pipe.inbox.end(peer_vanished())
            pipe.end_sender(peer_vanished())


def memory_channels(
    key_a: bytes = bytes(32), key_b: bytes = b"\x01" * 32, *, inbox_bytes: int = INBOX_BYTES
) -> tuple[MemoryChannel, MemoryChannel]:
    """Return the ends that device A (of public key ``key_a``) and device B hold."""
    there, back = _Pipe(inbox_bytes), _Pipe(inbox_bytes)
    a = MemoryChannel(peer_key=key_b, incoming=back, outgoing=there)
    return a, MemoryChannel(peer_key=key_a, incoming=there, outgoing=back)
