"""Pairing as the engine does it: one code at a time is open here, or this device joins another with a code."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from contextlib import AsyncExitStack

from app.core.errors import ErrorCode, ExpectedError
from app.engine import api
from app.engine.devices import Devices
from app.engine.kernel import Kernel
from app.sync.addresses import Address, parse_address
from app.sync.membership import Standing
from app.sync.pairing import (
    CODE_LIFE_S,
    MAX_TRIES,
    PairingCode,
    PairingOffer,
    Welcome,
    code_address,
    draw_code,
    parse_code,
)
from app.sync.pairing_discovery import LanDirectory, PairingDirectory, local_hosts
from app.sync.pairing_link import ANY_HOST, PairingHost, join_at


class _Invitation:
    """An open code: what listens for it, and what lets it be found."""

    def __init__(self, offer: PairingOffer, host: PairingHost, open_parts: AsyncExitStack) -> None:
        self.offer = offer
        self.host = host
        self._open_parts = open_parts

    async def close(self) -> None:
        await self._open_parts.aclose()


class Pairing:
    """Opens codes and joins with them."""

    def __init__(
        self,
        kernel: Kernel,
        devices: Devices,
        *,
        directory: PairingDirectory | None = None,
        draw: Callable[[int], int] = secrets.randbelow,
    ) -> None:
        self._kernel = kernel
        self._devices = devices
        self._directory = directory
        self._draw = draw
        self._invitation: _Invitation | None = None
        self._change = asyncio.Lock()

    async def close(self) -> None:
        """Make the open code void."""
        async with self._change:
            await self._withdraw()

    async def open(self, command: api.OpenPairing) -> api.PairingSnapshot:
        """Begin to listen; raises ``ExpectedError`` not-a-member, unreachable (it cannot be listened there)."""
        await self._devices.check_member()
        listen_on: str = command.host or self._kernel.settings.get("listen.host")
        async with self._change:
            await self._withdraw()
            code = draw_code(self._draw)
            offer = PairingOffer(code, now_s=self._kernel.clock.monotonic_s())
            host = PairingHost(
                offer,
                keys=self._kernel.identity.keys,
                let_in=self._devices.let_in,
                now_s=self._kernel.clock.monotonic_s,
            )
            async with AsyncExitStack() as parts:
                parts.push_async_callback(host.close)
                await host.start(listen_on or ANY_HOST, command.port)
                is_found = await self._announce(parts, code, host.port, listen_on)
                self._invitation = _Invitation(offer, host, parts.pop_all())
        hosts = (listen_on,) if listen_on else local_hosts()
        addresses = [Address(host=one, port=host.port) for one in hosts]
        return api.PairingSnapshot(
            code=str(code),
            link=code_address(code, addresses[0]),
            addresses=tuple(map(str, addresses)),
            found_by_code=is_found,
            valid_s=round(CODE_LIFE_S),
        )

    async def _announce(self, parts: AsyncExitStack, code: PairingCode, port: int, host: str) -> bool:
        """Let the code be found on the local network; without one, the address is all there is."""
        directory = self._looking(host)
        if directory is None:
            return False
        try:
            await parts.enter_async_context(directory.announce(code.hint, port))
        except ExpectedError:
            return False
        return True

    async def wait(self, command: api.AwaitPairing, progress: api.Progress) -> api.PairedSnapshot:
        """Return who joined; ``progress`` hears of those who did not get in. Raises ``ExpectedError`` code-expired."""
        invitation = self._invitation
        if invitation is None or str(invitation.offer.code) != command.code:
            raise ExpectedError(
                ErrorCode.CODE_EXPIRED, "That code is void: another one was opened since, or Hearthreel was restarted."
            )
        try:
            asked = await invitation.host.wait(
                lambda error: progress(1 - invitation.offer.tries_left / MAX_TRIES, error.message)
            )
        finally:
            await asyncio.shield(self._end(invitation))
        standing = (await self._devices.membership()).of(asked.device.hex())
        return await self._paired(standing, name=asked.name)

    async def join(self, command: api.JoinSpace) -> api.PairedSnapshot:
        """Join with a code; raises ``ExpectedError`` as ``join_at``, and other-space."""
        code, scanned = parse_code(command.code)
        at = parse_address(command.at) if command.at else scanned
        addresses = (at,) if at else await self._find(code)
        inviter: list[Standing] = []

        async def enter(welcome: Welcome, host: str) -> None:
            inviter.append(await self._devices.enter(welcome, host))

        space, statements = await self._devices.shared()
        await join_at(
            addresses,
            code,
            keys=self._kernel.identity.keys,
            name=self._kernel.device.name,
            space=space,
            statements=statements,
            enter=enter,
            now_s=self._kernel.clock.monotonic_s,
        )
        return await self._paired(inviter[0] if inviter else None, name="")

    async def _find(self, code: PairingCode) -> tuple[Address, ...]:
        directory = self._looking(self._kernel.settings.get("listen.host"))
        addresses = await directory.find_inviter(code.hint) if directory else ()
        if not addresses:
            raise ExpectedError(
                ErrorCode.UNREACHABLE,
                "No device that shows this code was found on the local network. Check the first three digits, or give "
                "the address that it shows: “hearthreel pair CODE --at HOST:PORT”.",
            )
        return addresses

    def _looking(self, host: str) -> PairingDirectory | None:
        """Return where inviters are announced and found; None where the user wants no announcements."""
        if not self._kernel.settings.get("discovery"):
            return None
        return self._directory or LanDirectory([host] if host else ())

    async def _paired(self, other: Standing | None, *, name: str) -> api.PairedSnapshot:
        membership = await self._devices.membership()
        return api.PairedSnapshot(
            id=other.id if other else "",
            name=other.name if other else name,
            devices=len(membership.members),
        )

    async def _end(self, invitation: _Invitation) -> None:
        async with self._change:
            if self._invitation is invitation:
                await self._withdraw()

    async def _withdraw(self) -> None:
        invitation, self._invitation = self._invitation, None
        if invitation is not None:
            await invitation.close()
