"""A channel over one TCP connection: what ``direct_protocol`` decides, done on a socket.

A peer that vanishes is noticed by silence: both sides send a ping each tick, and after five ticks without a byte the
connection counts as lost. Ticks, not clocks: a device that slept is not told that its peer was silent meanwhile. While
this side does not read, because its reader is behind, silence says nothing and is not counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, cast

from app.core.errors import ErrorCode, ExpectedError
from app.sync.addresses import path_of
from app.sync.channel import (
    ChannelClosedError,
    ChannelPath,
    check_message,
    closed_by_peer,
    closed_here,
    encode_reason,
    peer_vanished,
)
from app.sync.direct_protocol import WRITE_BYTES, DirectConnection, not_the_device
from app.sync.frames import Frame, FrameKind
from app.sync.inbox import Inbox
from app.sync.pace import Pace

OUTBOX_BYTES: Final = 4 * 1024 * 1024
"""From here on ``send`` waits."""
_RECEIVE_BYTES: Final = 256 * 1024
_CLOSE_WITHIN_S: Final = 2.0


class DirectChannel(asyncio.BufferedProtocol):
    """One end of a direct channel; it is a channel once ``opened`` has ended without an error."""

    def __init__(
        self,
        connection: DirectConnection,
        *,
        pace: Pace,
        on_settled: Callable[[DirectChannel], None] = lambda _channel: None,
    ) -> None:
        """``on_settled`` is called once, when the peer has been accepted or the connection has failed."""
        self._connection = connection
        self._pace = pace
        self._on_settled = on_settled
        self._inbox = Inbox(on_room=self._read_on)
        self._buffer = bytearray(_RECEIVE_BYTES)
        self._transport: asyncio.Transport | None = None
        self._may_send = asyncio.Event()
        self._is_write_paused = False
        self._is_read_paused = False
        self._silent_ticks = 0
        self._ticking: asyncio.TimerHandle | None = None
        self._ended: ExpectedError | None = None
        self._closes_politely = False
        self._has_written_eof = False
        self._loop = asyncio.get_running_loop()
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._lost: asyncio.Future[None] = self._loop.create_future()
        self.path: ChannelPath = "direct"
        self.peer_host = ""
        """The peer's address; empty before there is a connection."""

    @property
    def peer_key(self) -> bytes:
        return self._connection.peer_key

    @property
    def is_open(self) -> bool:
        """Whether the peer has been accepted and the channel has not ended."""
        return self._connection.is_open and self._ended is None

    async def opened(self) -> None:
        """Wait until both sides have accepted each other; raises ``ExpectedError`` when they do not."""
        await asyncio.shield(self._opened)

    async def send(self, message: bytes) -> None:
        check_message(message)
        while self._ended is None and self._connection.queued_bytes >= OUTBOX_BYTES:
            self._may_send.clear()
            await self._may_send.wait()
        if self._ended is not None:
            raise ChannelClosedError(self._ended.message, self._ended.code)
        self._connection.queue(FrameKind.MESSAGE, message)
        self._flush()

    async def receive(self) -> bytes:
        return await self._inbox.receive()

    async def close(self, reason: str = "") -> None:
        if self._ended is None and self._connection.is_open:
            self._connection.queue(FrameKind.CLOSE, encode_reason(reason))
            self._closes_politely = True
            self._end(closed_here(reason))
            self._flush()
        self._inbox.discard(closed_here(reason))
        self._read_on()
        try:
            await asyncio.wait([self._lost], timeout=_CLOSE_WITHIN_S if self._closes_politely else 0)
        finally:
            self.abort()

    def abort(self, error: ExpectedError | None = None) -> None:
        """Drop the connection at once, without a word."""
        self._end(error or self._lost_error())
        if self._transport is not None:
            self._transport.abort()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_BYTES)
        peer = transport.get_extra_info("peername")
        self.path = path_of(peer[0]) if peer else "direct"
        self.peer_host = peer[0] if peer else ""
        self._tick()
        self._flush()

    def get_buffer(self, sizehint: int) -> bytearray:  # noqa: ARG002
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._silent_ticks = 0
        try:
            self._connection.receive_data(memoryview(self._buffer)[:nbytes], self._take)
        except ExpectedError as error:
            self._flush()
            self._stop(error)
            return
        if self._connection.is_open and not self._opened.done():
            self._settle(None)
        self._flush()
        if self._inbox.is_full:
            self._pause_reading()

    def eof_received(self) -> bool:
        self._stop(self._lost_error())
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._end(self._lost_error())
        if self._ticking is not None:
            self._ticking.cancel()
        if not self._lost.done():
            self._lost.set_result(None)

    def pause_writing(self) -> None:
        self._is_write_paused = True

    def resume_writing(self) -> None:
        self._is_write_paused = False
        self._flush()

    # What this side does.

    def _lost_error(self) -> ExpectedError:
        return peer_vanished() if self._connection.is_open else not_the_device()

    def _take(self, frame: Frame) -> None:
        if frame.kind is FrameKind.CLOSE:
            self._stop(closed_by_peer(frame.body))
        else:
            self._inbox.put(frame.body)

    def _flush(self) -> None:
        if self._transport is None or self._transport.is_closing() or self._has_written_eof:
            return
        while not self._is_write_paused and (data := self._connection.data_to_send()):
            self._transport.write(data)
        if self._connection.queued_bytes < OUTBOX_BYTES:
            self._may_send.set()
        if self._closes_politely and not self._connection.queued_bytes:
            self._has_written_eof = True
            try:
                self._transport.write_eof()
            except OSError:  # the peer has reset the connection; that it is lost is told apart from this
                self._transport.abort()

    def _pause_reading(self) -> None:
        if self._transport is not None and not self._is_read_paused and not self._transport.is_closing():
            self._is_read_paused = True
            self._transport.pause_reading()

    def _read_on(self) -> None:
        if self._transport is not None and self._is_read_paused:
            self._is_read_paused = False
            self._silent_ticks = 0
            self._transport.resume_reading()

    def _tick(self) -> None:
        self._ticking = self._loop.call_later(self._pace.tick_s, self._tick)
        if self._silent_ticks >= self._pace.silent_ticks:
            self.abort()
            return
        if not self._is_read_paused:
            self._silent_ticks += 1
        if self._connection.is_open and not self._connection.queued_bytes and self._ended is None:
            self._connection.queue(FrameKind.PING)
            self._flush()

    def _stop(self, error: ExpectedError) -> None:
        """End the channel, and the connection after what was written."""
        self._end(error)
        if self._transport is not None:
            self._transport.close()

    def _end(self, error: ExpectedError) -> None:
        self._ended = self._ended or error
        self._inbox.end(ChannelClosedError(error.message, error.code))
        self._may_send.set()
        if not self._opened.done():
            self._settle(error)

    def _settle(self, error: ExpectedError | None) -> None:
        if error is None:
            self._opened.set_result(None)
        else:
            self._opened.set_exception(error)
            self._opened.exception()  # who does not wait for it is not told of it either
        self._on_settled(self)


def unreachable(where: object, why: str) -> ExpectedError:
    """Return what is said of an address that does not lead to the device."""
    return ExpectedError(ErrorCode.UNREACHABLE, f"The device cannot be reached at {where}: {why}.")
