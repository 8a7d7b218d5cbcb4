"""Pairing over real sockets on loopback, and finding the inviter there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

import pytest

from app.core.clock import ManualClock
from app.core.errors import ErrorCode, ExpectedError
from app.storage.cipher import owner_keys
from app.sync.addresses import Address
from app.sync.pairing import CODE_LIFE_S, Asked, PairingOffer, Welcome, parse_code
from app.sync.pairing_discovery import LanDirectory, MemoryDirectory, PairingDirectory, local_hosts
from app.sync.pairing_link import PairingHost, join_at
from tests.sync.people import DEVICES, OWNER_SECRET

CODE, _ = parse_code("417-220-935")
WRONG, _ = parse_code("417-000-000")
LOOPBACK = "127.0.0.1"


def welcome() -> Welcome:
    owner = owner_keys(OWNER_SECRET)
    return Welcome(
        owner_signing=owner.signing, owner_sealing=owner.sealing, device=DEVICES["A"].public, statements=(b"one",)
    )


class Stage:
    """An inviter that listens on loopback."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.offer = PairingOffer(CODE, now_s=self.clock.monotonic_s())
        self.let_in: list[Asked] = []
        self.entered: list[tuple[Welcome, str]] = []
        self.refusal: ExpectedError | None = None
        self.slow_s = 0.0
        self.host = PairingHost(self.offer, keys=DEVICES["A"], let_in=self._let_in, now_s=self.clock.monotonic_s)

    async def _let_in(self, asked: Asked) -> Welcome:
        if self.refusal is not None:
            raise self.refusal
        await asyncio.sleep(self.slow_s)  # stands for a disk
        self.let_in.append(asked)
        return welcome()

    async def _enter(self, welcome: Welcome, host: str) -> None:
        self.entered.append((welcome, host))

    async def join(self, code: str = "417-220-935", *addresses: Address) -> None:
        """Join with a code at this inviter, or at the addresses that are named."""
        at = addresses or (Address(host=LOOPBACK, port=self.host.port),)
        await join_at(
            at, parse_code(code)[0], keys=DEVICES["B"], name="B", enter=self._enter, now_s=self.clock.monotonic_s
        )


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    stage = Stage()
    await stage.host.start(LOOPBACK)
    yield stage
    await stage.host.close()


async def refused(work: Awaitable[object]) -> ErrorCode:
    with pytest.raises(ExpectedError) as caught:
        await work
    return caught.value.code


async def test_the_right_code_pairs(stage: Stage) -> None:
    _, asked = await asyncio.gather(stage.join(), stage.host.wait())
    assert asked == Asked(device=DEVICES["B"].public, name="B")
    assert stage.let_in == [asked]
    assert stage.entered == [(welcome(), LOOPBACK)]


async def test_three_wrong_codes_make_it_void_on_both_sides(stage: Stage) -> None:
    waiting = asyncio.create_task(stage.host.wait())
    for _ in range(3):
        assert await refused(stage.join("417-000-000")) is ErrorCode.WRONG_CODE
    assert await refused(stage.join()) is ErrorCode.CODE_EXPIRED
    assert await refused(waiting) is ErrorCode.CODE_EXPIRED
    assert (stage.let_in, stage.entered) == ([], [])


async def test_a_code_ends_though_nobody_comes(stage: Stage) -> None:
    stage.clock.advance(CODE_LIFE_S)
    assert await refused(stage.host.wait()) is ErrorCode.CODE_EXPIRED


async def test_a_code_that_lets_somebody_in_just_now_is_waited_for(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.sync.pairing_link._LOOK_S", 0.001)
    waiting = asyncio.create_task(stage.host.wait())
    stage.slow_s = 0.05
    await stage.join()
    assert (await waiting).name == "B"


async def test_an_inviter_that_refuses_says_why(stage: Stage) -> None:
    stage.refusal = ExpectedError(ErrorCode.REVOKED, "It is out.")
    assert await refused(stage.join()) is ErrorCode.REVOKED
    stage.refusal = None
    await asyncio.gather(stage.join(), stage.host.wait())


async def test_an_address_where_nobody_listens_is_passed_over(stage: Stage) -> None:
    closed = PairingHost(stage.offer, keys=DEVICES["A"], let_in=stage._let_in, now_s=stage.clock.monotonic_s)
    await closed.start(LOOPBACK)
    nobody = Address(host=LOOPBACK, port=closed.port)
    await closed.close()
    assert await refused(stage.join("417-220-935", nobody)) is ErrorCode.UNREACHABLE
    await stage.join("417-220-935", nobody, Address(host=LOOPBACK, port=stage.host.port))


async def test_noise_and_silence_end_only_their_connection(stage: Stage) -> None:
    for noise in (b"GET / HTTP/1.1\r\n\r\n", b"\x00\x00\x00\x04junk", b""):
        reader, writer = await asyncio.open_connection(LOOPBACK, stage.host.port)
        writer.write(noise)
        writer.write_eof()
        await reader.read()
        writer.close()
    await asyncio.gather(stage.join(), stage.host.wait())


async def test_a_port_that_is_taken_is_told(stage: Stage) -> None:
    second = PairingHost(stage.offer, keys=DEVICES["A"], let_in=stage._let_in, now_s=stage.clock.monotonic_s)
    assert await refused(second.start(LOOPBACK, stage.host.port)) is ErrorCode.UNREACHABLE
    assert await refused(second.start("no address", 1)) is ErrorCode.UNREACHABLE


class Relay:
    """A man in the middle who passes on all bytes, or changes some, and keeps what it saw."""

    def __init__(self, port: int, *, flip_at: int | None) -> None:
        self._port = port
        self._flip_at = flip_at
        self.seen = b""
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(LOOPBACK, self._port)
        await asyncio.gather(self._pass(reader, there_writer), self._pass(there_reader, writer))
        for one in (there_writer, writer):
            one.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := bytearray(await reader.read(65536)):
            at, self.seen = len(self.seen), self.seen + bytes(data)
            if self._flip_at is not None and at <= self._flip_at < len(self.seen):
                data[self._flip_at - at] ^= 1
            with contextlib.suppress(ConnectionError):
                writer.write(bytes(data))
                await writer.drain()
        with contextlib.suppress(OSError):
            writer.write_eof()


@asynccontextmanager
async def relay_to(port: int, *, flip_at: int | None = None) -> AsyncIterator[tuple[Relay, Address]]:
    relay = Relay(port, flip_at=flip_at)
    server = await asyncio.start_server(relay.serve, LOOPBACK, 0)
    yield relay, Address(host=LOOPBACK, port=server.sockets[0].getsockname()[1])
    server.close()


async def test_a_relay_in_between_sees_nothing_but_noise(stage: Stage) -> None:
    async with relay_to(stage.host.port) as (relay, address):
        await asyncio.gather(stage.join("417-220-935", address), stage.host.wait())
    owner = owner_keys(OWNER_SECRET)
    assert len(relay.seen) > 300
    for secret in (owner.signing, owner.sealing, DEVICES["A"].public, DEVICES["B"].public, CODE.secret.encode()):
        assert secret not in relay.seen


async def test_a_relay_that_changes_the_exchange_of_keys_is_noticed_by_both(stage: Stage) -> None:
    """A byte of the joiner's SPAKE2 message that stays a point or not: both ends fail either way."""
    async with relay_to(stage.host.port, flip_at=40) as (_, address):
        assert await refused(stage.join("417-220-935", address)) in {ErrorCode.WRONG_CODE, ErrorCode.BAD_MESSAGE}
    assert (stage.let_in, stage.entered) == ([], [])


# Finding


async def _finds(directory: PairingDirectory, finder: PairingDirectory) -> None:
    assert await finder.find_inviter("935") == ()
    async with directory.announce("417", 4567), directory.announce("935", 4568):
        assert await finder.find_inviter("417") == (Address(host=LOOPBACK, port=4567),)
    assert await finder.find_inviter("417") == ()


async def test_an_inviter_is_found_by_its_hint_while_it_is_announced() -> None:
    directory = MemoryDirectory()
    await _finds(directory, directory)


@pytest.mark.slow
async def test_an_inviter_is_found_on_the_local_network() -> None:
    """Real mDNS, bound to loopback: nothing leaves this machine."""
    await _finds(LanDirectory([LOOPBACK]), LanDirectory([LOOPBACK], find_s=1.5))


async def test_a_network_that_cannot_be_searched_is_told() -> None:
    directory = LanDirectory(["localhost"])
    assert await refused(directory.find_inviter("417")) is ErrorCode.UNREACHABLE
    with pytest.raises(ExpectedError) as caught:
        async with directory.announce("417", 4567):
            pass
    assert "--at" in caught.value.message


def test_this_machine_has_an_address() -> None:
    assert local_hosts()
