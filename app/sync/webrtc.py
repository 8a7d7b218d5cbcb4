"""Channels over a WebRTC peer connection, for devices that do not reach each other directly; the one door to aiortc.

::

    offering device                     signalling                     answering device
    gather, sign offer ───────────────────────────────────────────────► check sender and signature
    check it answers this offer ◄────────────────────────────────────── gather, sign answer
    ICE finds a path, DTLS proves the certificates whose fingerprints were signed, two data channels open:
    ``control`` (0) and ``shards`` (1), agreed beforehand, both ordered and reliable

aiortc resends and orders, but never tells a sender that its reader is behind; ``fragments`` does. Everything is bounded
in time: gathering and the answer by ``within_s``, silence by pings. Nobody but the given servers is asked for
addresses: without a configuration aiortc would ask Google's.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Final

import msgspec
from aiortc import RTCConfiguration, RTCDataChannel, RTCIceServer, RTCPeerConnection, RTCSessionDescription
from aiortc.exceptions import InvalidStateError

from app.core.errors import ErrorCode, ExpectedError
from app.storage.signing import Signer
from app.sync.channel import (
    ChannelClosedError,
    ChannelPath,
    bad_message,
    check_message,
    closed_here,
    encode_reason,
    peer_vanished,
)
from app.sync.descriptions import Description, hash_of, open_description, sign_description, tampered
from app.sync.fragments import FragmentStream
from app.sync.inbox import Inbox
from app.sync.pace import Pace

CONNECT_WITHIN_S: Final = 30.0
OUTBOX_BYTES: Final = 1024 * 1024
"""From here on ``send`` waits."""
_INBOX_BYTES: Final = 2 * 1024 * 1024
_BUFFERED_BYTES: Final = 256 * 1024
"""How much is handed to aiortc ahead of the network, so that control is not long behind shards."""
_CLOSE_WITHIN_S: Final = 2.0
_CHANNELS: Final = ("control", "shards")


class IceServer(msgspec.Struct, frozen=True, kw_only=True):
    """A STUN or TURN server: ``stun:host:port``, ``turn:host:port?transport=udp``, and for TURN who we are there.

    Of several of one kind, only the first is asked.
    """

    url: str
    username: str = ""
    credential: str = ""


class Signalling(msgspec.Struct, frozen=True, kw_only=True):
    """How descriptions travel between the two devices; may lose, double and reorder them."""

    send: Callable[[bytes], Awaitable[None]]
    receive: Callable[[], Awaitable[bytes]]


class WebRtcChannel:
    """One of the two channels of a connection."""

    def __init__(self, connection: WebRtcConnection, data_channel: RTCDataChannel) -> None:
        self._connection = connection
        self._data_channel = data_channel
        self._inbox = Inbox(on_room=self.flush, most_bytes=_INBOX_BYTES)
        self._stream = FragmentStream(self._inbox)
        self._ended: ExpectedError | None = None
        self._may_send = asyncio.Event()
        self._closed_by_peer = asyncio.Event()
        data_channel.bufferedAmountLowThreshold = _BUFFERED_BYTES // 2
        data_channel.on("message", self._take)
        data_channel.on("bufferedamountlow", self.flush)

    @property
    def peer_key(self) -> bytes:
        return self._connection.peer_key

    @property
    def path(self) -> ChannelPath:
        return self._connection.path

    @property
    def is_ended(self) -> bool:
        """Whether nothing more is sent."""
        return self._ended is not None

    async def send(self, message: bytes) -> None:
        check_message(message)
        while self._ended is None and self._stream.queued_bytes >= OUTBOX_BYTES:
            self._may_send.clear()
            await self._may_send.wait()
        if self._ended is not None:
            raise ChannelClosedError(self._ended.message, self._ended.code)
        self._stream.queue(message)
        self.flush()

    async def receive(self) -> bytes:
        return await self._inbox.receive()

    async def close(self, reason: str = "") -> None:
        is_first = self._ended is None
        self.end(closed_here(reason))
        self._inbox.discard(closed_here(reason))
        try:
            if is_first:
                self._stream.queue_close(encode_reason(reason))
                self.flush()
                async with asyncio.timeout(_CLOSE_WITHIN_S):
                    await self._closed_by_peer.wait()
        except TimeoutError:
            pass
        finally:
            await self._connection.channel_closed()

    def end(self, error: ExpectedError) -> None:
        """Let nothing more be sent or received, because of ``error``; the first reason counts."""
        self._ended = self._ended or error
        self._inbox.end(ChannelClosedError(error.message, error.code))
        self._may_send.set()

    def lost(self, error: ExpectedError) -> None:
        """End because the connection did."""
        self.end(error)
        self._closed_by_peer.set()

    def ping(self) -> None:
        """Let the peer know that this side is there."""
        self._stream.queue_ping()
        self.flush()

    def flush(self) -> None:
        """Hand over to aiortc what it should have by now."""
        while self._data_channel.bufferedAmount < _BUFFERED_BYTES:
            piece = self._stream.next_piece()
            if piece is None:
                break
            try:
                self._data_channel.send(piece)
            except InvalidStateError:
                self._connection.lose(peer_vanished())
                return
        if self._stream.queued_bytes < OUTBOX_BYTES:
            self._may_send.set()

    def _take(self, piece: object) -> None:
        self._connection.heard()
        try:
            if not isinstance(piece, bytes):
                raise bad_message("text")
            self._stream.receive(piece)
        except ChannelClosedError as error:
            self._connection.lose(error)
            return
        if self._stream.is_closed_by_peer:
            self.end(self._inbox.ended or peer_vanished())
            self._closed_by_peer.set()
        self.flush()


class WebRtcConnection:
    """A peer connection to one authenticated device, with a channel for control and one for shards."""

    def __init__(self, *, peer_key: bytes, servers: Sequence[IceServer], pace: Pace) -> None:
        self.peer_key = peer_key
        self.path: ChannelPath = "direct"
        self._pace = pace
        self._has_relay = any(server.url.startswith("turn") for server in servers)
        self._peer = _peer_connection(servers)
        self._has_heard_peer = False
        self._silent_ticks = 0
        self._loop = asyncio.get_running_loop()
        self._ticking: asyncio.TimerHandle | None = None
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._closing: asyncio.Task[None] | None = None
        self._data_channels = _data_channels(self._peer)
        self.control, self.shards = (WebRtcChannel(self, one) for one in self._data_channels)
        self._peer.on("connectionstatechange", self._state_changed)
        for one in self._data_channels:
            one.on("open", self._channel_opened)
            one.on("close", lambda: self.lose(peer_vanished()))

    async def close(self, reason: str = "") -> None:
        """Close both channels, then the connection."""
        await asyncio.gather(self.control.close(reason), self.shards.close(reason))

    async def offer(self) -> str:
        """Return this side's session description, with all addresses at which it may be reached."""
        await self._peer.setLocalDescription(await self._peer.createOffer())
        return self._peer.localDescription.sdp

    async def answer(self, offer: str) -> str:
        """Return this side's session description for a peer's offer."""
        await self._set_remote(RTCSessionDescription(sdp=offer, type="offer"))
        await self._peer.setLocalDescription(await self._peer.createAnswer())
        return self._peer.localDescription.sdp

    async def take_answer(self, answer: str) -> None:
        """Go on with the peer's session description."""
        await self._set_remote(RTCSessionDescription(sdp=answer, type="answer"))

    async def opened(self) -> None:
        """Wait until both channels are open; raises ``ExpectedError`` unreachable or not-trusted otherwise."""
        await asyncio.shield(self._opened)

    def heard(self) -> None:
        """Take note that the peer is there."""
        self._silent_ticks = 0

    def lose(self, error: ExpectedError) -> None:
        """End everything at once, because of ``error``."""
        self._settle(error)
        for channel in (self.control, self.shards):
            channel.lost(error)
        if self._ticking is not None:
            self._ticking.cancel()
        if self._closing is None:
            self._closing = self._loop.create_task(self._close_peer())

    async def channel_closed(self) -> None:
        """End the connection when both channels have ended."""
        if self.control.is_ended and self.shards.is_ended:
            self.lose(peer_vanished())
            await self.ended()

    async def ended(self) -> None:
        """Wait until what ``lose`` began is done."""
        if self._closing is not None:
            await asyncio.shield(self._closing)

    async def _close_peer(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_WITHIN_S):
                await self._peer.close()

    async def _set_remote(self, description: RTCSessionDescription) -> None:
        self._has_heard_peer = True
        try:
            await self._peer.setRemoteDescription(description)
        except (ValueError, InvalidStateError, KeyError, IndexError, AttributeError, AssertionError) as error:
            raise bad_message(f"a session description: {error}") from error

    def _channel_opened(self) -> None:
        if all(one.readyState == "open" for one in self._data_channels) and not self._opened.done():
            self.path = _path_of(self._peer)
            self._settle(None)
            self._tick()

    def _state_changed(self) -> None:
        if self._peer.connectionState in ("failed", "closed"):
            self.lose(peer_vanished() if self._is_open() else self._why_not())

    def _is_open(self) -> bool:
        return self._opened.done() and self._opened.exception() is None

    def _why_not(self) -> ExpectedError:
        dtls = self._data_channels[0].transport.transport
        if dtls.state == "failed":
            return tampered()
        if dtls.transport.state == "completed":
            return ExpectedError(
                ErrorCode.UNREACHABLE, "The other device was found, but the connection was not ready in time."
            )
        return no_path(has_relay=self._has_relay)

    def why_late(self) -> ExpectedError:
        """Return what is said when the time is over."""
        if not self._has_heard_peer:
            return ExpectedError(
                ErrorCode.UNREACHABLE, "The other device did not answer; it may be off, asleep or without a network."
            )
        return self._why_not()

    def _settle(self, error: ExpectedError | None) -> None:
        if self._opened.done():
            return
        if error is None:
            self._opened.set_result(None)
        else:
            self._opened.set_exception(error)
            self._opened.exception()  # who does not wait for it is not told of it either

    def _tick(self) -> None:
        if self._silent_ticks >= self._pace.silent_ticks:
            self.lose(peer_vanished())
            return
        self._silent_ticks += 1
        self._ticking = self._loop.call_later(self._pace.tick_s, self._tick)
        self.control.ping()


def _peer_connection(servers: Iterable[IceServer]) -> RTCPeerConnection:
    ours = [
        RTCIceServer(urls=one.url, username=one.username or None, credential=one.credential or None) for one in servers
    ]
    return RTCPeerConnection(RTCConfiguration(iceServers=ours))


def _data_channels(peer: RTCPeerConnection) -> list[RTCDataChannel]:
    """Make the two channels; this is where aiortc reads the addresses of the servers."""
    try:
        return [
            peer.createDataChannel(label, ordered=True, negotiated=True, id=number)
            for number, label in enumerate(_CHANNELS)
        ]
    except ValueError as error:
        raise ExpectedError(
            ErrorCode.BAD_SETTING,
            f"The address of a STUN or TURN server is wrong ({error}); write stun:HOST:PORT or turn:HOST:PORT.",
        ) from error


def _path_of(peer: RTCPeerConnection) -> ChannelPath:
    """Return how the packets go; aiortc does not say, so this looks at the pair that its ICE library chose."""
    pairs = [] if peer.sctp is None else peer.sctp.transport.transport._connection._nominated.values()  # noqa: SLF001
    pair = next(iter(pairs), None)
    if pair is None:
        return "direct"
    ends = (pair.local_candidate, pair.remote_candidate)
    if any(end.type == "relay" for end in ends):
        return "relay"
    return "lan" if all(ipaddress.ip_address(end.host).is_private for end in ends) else "direct"


async def connect_webrtc(
    *,
    seed: bytes,
    peer_key: bytes,
    signalling: Signalling,
    servers: Sequence[IceServer] = (),
    pace: Pace | None = None,
    within_s: float = CONNECT_WITHIN_S,
) -> WebRtcConnection:
    """Offer a connection to the device of ``peer_key`` and return it, open; ``seed`` is our private key.

    Raises ``ExpectedError`` unreachable with a reason, or not-trusted when somebody is in between.
    """
    connection = WebRtcConnection(peer_key=peer_key, servers=servers, pace=pace or Pace())
    own_key = Signer(seed).public
    async with _within(connection, within_s):
        offer = Description(
            kind="offer",
            sender=own_key,
            recipient=peer_key,
            attempt=secrets.token_hex(16),
            sdp=await connection.offer(),
        )
        await signalling.send(sign_description(offer, seed=seed))
        await connection.take_answer(await _answer_to(offer, signalling))
        await connection.opened()
    return connection


async def _answer_to(offer: Description, signalling: Signalling) -> str:
    """Return the session description that answers ``offer``; answers to earlier offers are passed over."""
    while True:
        answer = open_description(await signalling.receive(), recipient=offer.sender)
        if answer.sender != offer.recipient:
            raise tampered()
        if answer.kind == "answer" and answer.attempt == offer.attempt:
            if answer.answers != hash_of(offer):
                raise tampered()
            return answer.sdp


async def accept_webrtc(
    *,
    seed: bytes,
    is_member: Callable[[bytes], bool],
    signalling: Signalling,
    servers: Sequence[IceServer] = (),
    pace: Pace | None = None,
    within_s: float = CONNECT_WITHIN_S,
) -> WebRtcConnection:
    """Wait for an offer from a device that ``is_member`` accepts and return the connection to it, open.

    The wait for the offer is not bounded, what follows is. Raises like ``connect_webrtc``.
    """
    offer = open_description(await signalling.receive(), recipient=Signer(seed).public)
    if offer.kind != "offer" or not is_member(offer.sender):
        raise tampered()
    connection = WebRtcConnection(peer_key=offer.sender, servers=servers, pace=pace or Pace())
    async with _within(connection, within_s):
        answer = Description(
            kind="answer",
            sender=offer.recipient,
            recipient=offer.sender,
            attempt=offer.attempt,
            answers=hash_of(offer),
            sdp=await connection.answer(offer.sdp),
        )
        await signalling.send(sign_description(answer, seed=seed))
        await connection.opened()
    return connection


@contextlib.asynccontextmanager
async def _within(connection: WebRtcConnection, seconds: float) -> AsyncIterator[None]:
    """Bound the making of a connection in time, and take it down when it fails."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        late = connection.why_late()
        connection.lose(late)
        await connection.ended()
        raise late from error
    except BaseException:
        connection.lose(peer_vanished())
        await connection.ended()
        raise


def no_path(*, has_relay: bool) -> ExpectedError:
    """Return what is said when both devices answer but no packet finds its way."""
    advice = (
        "the relay did not help either; check its address and password"
        if has_relay
        else "their networks do not let them talk directly; set a relay (TURN server) in the settings of both, "
        "or open the port of one of them"
    )
    return ExpectedError(ErrorCode.UNREACHABLE, f"No way was found between the two devices: {advice}.")
