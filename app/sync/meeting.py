"""Being at a rendezvous: staying connected to it, taking offers of members, making offers to them.

::

    away ──connect──► there: our mailboxes are listened to, offers are accepted, ``connect`` works
      ▲  └─failed──► wait, longer each time
      └────lost──────────┘

At most ``MOST_ACCEPTING`` offers are worked on at once, so that a host who repeats old ones (they lead nowhere) costs
little; the newest offers that wait are kept, the others dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from app.core.clock import Clock
from app.core.errors import ErrorCode, ExpectedError
from app.sync.pace import Pace
from app.sync.reconnecting import ReconnectSchedule
from app.sync.rendezvous import open_rendezvous
from app.sync.signalling import MailSignalling, Trust
from app.sync.webrtc import IceServer, Signalling, WebRtcConnection, accept_webrtc, connect_webrtc

MOST_ACCEPTING: Final = 4

_log = logging.getLogger(__name__)


class Meeting:
    """This device at one rendezvous; ``on_connection`` gets each connection that another device has offered, open."""

    def __init__(
        self,
        *,
        url: str,
        seed: bytes,
        trust: Trust,
        on_connection: Callable[[WebRtcConnection], None],
        clock: Clock,
        spread: Callable[[], float],
        servers: Sequence[IceServer] = (),
        pace: Pace | None = None,
    ) -> None:
        """``seed`` is this device's private key; ``spread`` as in ``ReconnectSchedule``."""
        self._url = url
        self._seed = seed
        self._trust = trust
        self._on_connection = on_connection
        self._clock = clock
        self._schedule = ReconnectSchedule(spread=spread, now_s=clock.monotonic_s())
        self._servers = servers
        self._pace = pace
        self._signalling: MailSignalling | None = None
        self._why_away = ExpectedError(ErrorCode.UNREACHABLE, "The rendezvous was not reached yet.")
        self.arrived = asyncio.Event()
        """Set while we are there."""

    async def run(self) -> None:
        """Be there, and come back whenever the connection is lost; until cancelled."""
        while True:
            await asyncio.sleep(self._schedule.next_attempt(self._clock.monotonic_s()) or 0)
            self._schedule.trying()
            try:
                async with self._being_there() as signalling:
                    await self._serve(signalling)
            except ExpectedError as error:
                self._why_away = error
                self._schedule.lost(self._clock.monotonic_s())

    async def connect(self, key: bytes) -> WebRtcConnection:
        """Return a connection to the device of ``key``, open; raises ``ExpectedError`` as ``connect_webrtc`` does."""
        if self._signalling is None:
            raise ExpectedError(self._why_away.code, self._why_away.message)
        return await connect_webrtc(
            seed=self._seed,
            peer_key=key,
            signalling=self._signalling.with_device(key),
            servers=self._servers,
            pace=self._pace,
        )

    @contextlib.asynccontextmanager
    async def _being_there(self) -> AsyncIterator[MailSignalling]:
        async with open_rendezvous(self._url) as link:
            await link.listen(self._trust.mailboxes_of(self._trust.own_key))
            self._schedule.connected(self._clock.monotonic_s())
            self._signalling = MailSignalling(link, self._trust)
            self.arrived.set()
            try:
                yield self._signalling
            finally:
                self._signalling = None
                self.arrived.clear()

    async def _serve(self, signalling: MailSignalling) -> None:
        """Sort mail and accept offers until the mail ends, with the error that ended it."""
        workers = [asyncio.create_task(self._accept_all(signalling)) for _ in range(MOST_ACCEPTING)]
        try:
            await signalling.run()
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _accept_all(self, signalling: MailSignalling) -> None:
        while True:
            offered = await signalling.next_offer()
            try:
                self._on_connection(await self._accept(offered))
            except ExpectedError as error:  # the device that offered offers again
                _log.info("an offer led to nothing: %s", error)
            except Exception:  # noqa: BLE001 (the edge of a worker: one offer must not end the others)
                _log.exception("an offer could not be used")

    async def _accept(self, offered: Signalling) -> WebRtcConnection:
        return await accept_webrtc(
            seed=self._seed,
            is_member=self._trust.is_member,
            signalling=offered,
            servers=self._servers,
            pace=self._pace,
        )
