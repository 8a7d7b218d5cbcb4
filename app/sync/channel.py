"""A channel: whole messages, in order, between two devices that have proven who they are.

::

    open ──close()──► closed                 here: nothing more comes out, waiting calls end at once
    open ──peer closes──► draining ──► closed    what had arrived is still received, then the peer's reason
    open ──lost, or a bad message──► closed      what had arrived is still received, then why it ended

Implementations: ``memory_channel`` (tests, simulation), ``direct_channel`` (TLS over TCP), ``webrtc_channel``.
A channel says nothing of what the messages mean, and does not reconnect.
"""

from __future__ import annotations

from typing import Final, Literal, Protocol

from app.core.errors import BugError, ErrorCode, ExpectedError

MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024 + 64 * 1024
"""A sealed shard and what is said about it."""

MAX_REASON_BYTES: Final = 500
"""How much of a reason for closing is told to the peer."""

ChannelPath = Literal["memory", "lan", "direct", "relay"]


class ChannelClosedError(ExpectedError):
    """The channel has ended; the sentence says why."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.DISCONNECTED) -> None:
        super().__init__(code, message)

    def again(self) -> ChannelClosedError:
        """Return a fresh exception that says the same, for the next call on the same channel."""
        return ChannelClosedError(self.message, self.code)


class Channel(Protocol):
    """An ordered, reliable connection of whole messages to one authenticated peer."""

    @property
    def peer_key(self) -> bytes:
        """The peer's Ed25519 public key (32 bytes), proven by the handshake."""
        ...

    @property
    def path(self) -> ChannelPath:
        """How the peer is reached."""
        ...

    async def send(self, message: bytes) -> None:
        """Hand over one message of at most ``MAX_MESSAGE_BYTES``; waits while the peer is behind.

        Returns when the message is on its way, not when it has arrived. Cancelled while it waits, it has sent nothing.
        Several tasks may send; each message stays whole. Raises ``ChannelClosedError`` when the channel has ended.
        """
        ...

    async def receive(self) -> bytes:
        """Return the next message; raises ``ChannelClosedError`` when all have been received and the channel ended.

        One task at a time may receive. Cancelled while it waits, it has taken nothing.
        """
        ...

    async def close(self, reason: str = "") -> None:
        """End the channel, telling the peer why, after what was sent before; takes a few seconds at most.

        Closing again does nothing.
        """
        ...


def check_message(message: bytes) -> None:
    """Raise ``BugError`` for a message of ours that no channel carries."""
    if len(message) > MAX_MESSAGE_BYTES:
        raise BugError(f"a message has at most {MAX_MESSAGE_BYTES} bytes, not {len(message)}")


def encode_reason(reason: str) -> bytes:
    """Return a reason for closing as it goes to the peer, cut where it is too long."""
    return reason.encode()[:MAX_REASON_BYTES]


def closed_here(reason: str) -> ChannelClosedError:
    """Return what this side's calls say after this side closed."""
    return ChannelClosedError(f"This device ended the connection: {reason or 'it is not needed any more'}.")


def closed_by_peer(reason: bytes) -> ChannelClosedError:
    """Return what this side's calls say after the peer closed; the peer's words are shown as text, and cut."""
    words = "".join(one for one in reason[:MAX_REASON_BYTES].decode(errors="replace") if one.isprintable())
    return ChannelClosedError(f"The other device ended the connection: {words or 'it gave no reason'}.")


def peer_vanished() -> ChannelClosedError:
    """Return what this side's calls say after the connection was lost."""
    return ChannelClosedError("The connection to the other device was lost; it is tried again by itself.")


def bad_message(what: str) -> ChannelClosedError:
    """Return what this side's calls say after the peer sent what no version of this program sends."""
    return ChannelClosedError(
        f"The other device sent something that makes no sense ({what}); the connection was ended. "
        "If this goes on, update Hearthreel on both.",
        ErrorCode.BAD_MESSAGE,
    )
