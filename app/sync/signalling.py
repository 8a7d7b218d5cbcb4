"""Offers and answers by way of a rendezvous: sealed for their recipient, sorted by sender and purpose on arrival.

::

    take ─► not for us, not signed, not of a member ─► dropped
         ├► an offer   ─► ``next_offer``: whoever accepts connections
         └► an answer  ─► the ``Signalling`` with that device, if we have asked it

What arrives is only sorted here; ``webrtc`` judges it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

import msgspec

from app.core.errors import ExpectedError
from app.sync.descriptions import open_description
from app.sync.webrtc import Signalling

_MOST_WAITING: Final = 16

T = TypeVar("T")


class Mail(Protocol):
    """What carries sealed messages: a rendezvous link."""

    async def put(self, mailbox: bytes, sealed: bytes) -> None:
        """Give something sealed to whoever listens at a mailbox; it may be lost."""
        ...

    async def take(self) -> bytes:
        """Return the next thing that was put into our mailboxes."""
        ...


class Trust(msgspec.Struct, frozen=True, kw_only=True):
    """What this device knows about itself and the others; keys are public keys."""

    own_key: bytes
    is_member: Callable[[bytes], bool]
    mailboxes_of: Callable[[bytes], tuple[bytes, ...]]
    """Where a device may listen: one mailbox per secret that the space has had lately."""
    seal: Callable[[bytes, bytes], bytes]
    """Seals a message for the device of a key."""
    open: Callable[[bytes], bytes]
    """Opens what was sealed for us; raises ``ExpectedError`` for anything else."""


class MailSignalling:
    """Signalling with many devices over one link to a rendezvous."""

    def __init__(self, mail: Mail, trust: Trust) -> None:
        self._mail = mail
        self._trust = trust
        self._offers: asyncio.Queue[tuple[bytes, bytes]] = asyncio.Queue(_MOST_WAITING)
        self._answers: dict[bytes, asyncio.Queue[bytes]] = {}

    def with_device(self, key: bytes) -> Signalling:
        """Return what ``connect_webrtc`` to the device of ``key`` needs; what was answered before is forgotten."""
        answers: asyncio.Queue[bytes] = asyncio.Queue(_MOST_WAITING)
        self._answers[key] = answers
        return Signalling(send=self._sender_to(key), receive=answers.get)

    async def next_offer(self) -> Signalling:
        """Return what ``accept_webrtc`` needs for the next offer of a member."""
        sender, offer = await self._offers.get()

        async def receive() -> bytes:
            return offer

        return Signalling(send=self._sender_to(sender), receive=receive)

    async def run(self) -> None:
        """Sort what arrives; ends with the ``ExpectedError`` that ended the mail."""
        while True:
            self._sort(await self._mail.take())

    def _sort(self, sealed: bytes) -> None:
        try:
            data = self._trust.open(sealed)
            description = open_description(data, recipient=self._trust.own_key)
        except ExpectedError:
            return
        if not self._trust.is_member(description.sender):
            return
        if description.kind == "offer":
            _put(self._offers, (description.sender, data))
        elif description.sender in self._answers:
            _put(self._answers[description.sender], data)

    def _sender_to(self, key: bytes) -> Callable[[bytes], Awaitable[None]]:
        async def send(data: bytes) -> None:
            for mailbox in self._trust.mailboxes_of(key):
                await self._mail.put(mailbox, self._trust.seal(data, key))

        return send


def _put(queue: asyncio.Queue[T], item: T) -> None:
    """Add an item; the oldest goes when nobody takes them."""
    if queue.full():
        queue.get_nowait()
    queue.put_nowait(item)
