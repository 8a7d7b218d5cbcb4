"""Finding devices in the local network: the contract on memory and on multicast DNS over loopback, and what is said."""

from __future__ import annotations

import asyncio
import platform
import secrets
from collections.abc import AsyncIterator, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zeroconf import IPVersion
from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

from app.sync.addresses import Address
from app.sync.discovery import (
    MOST_ADDRESSES,
    Discovery,
    MemoryLan,
    Sighting,
    announcement_of,
    decode_record,
    encode_record,
    recognise,
)
from app.sync.mdns import SERVICE, MdnsDiscovery

pytestmark = pytest.mark.timeout(60)
A, B, C = b"A" * 32, b"B" * 32, b"C" * 32
WITHIN_S = 20
Make = Callable[[], Discovery]


def on_one_lan() -> Make:
    lan = MemoryLan()
    return lambda: lan.join("127.0.0.1")


def on_loopback() -> Make:
    return lambda: MdnsDiscovery(interfaces=["127.0.0.1"])


@pytest.fixture(params=[on_one_lan, on_loopback], ids=lambda param: param.__name__)
async def make(request: pytest.FixtureRequest) -> AsyncIterator[Make]:
    made: list[Discovery] = []
    inner = request.param()

    def tracked() -> Discovery:
        made.append(inner())
        return made[-1]

    yield tracked
    await asyncio.gather(*(one.close() for one in made))


async def seen_of(seen: asyncio.Queue[Sighting], members: set[bytes]) -> tuple[bytes, Sighting]:
    """Return the first sighting that is of one of ``members``."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            sighting = await seen.get()
            key = recognise(sighting, members)
            if key is not None:
                return key, sighting


async def test_devices_see_each_other_whoever_came_first(make: Make) -> None:
    at_a: asyncio.Queue[Sighting] = asyncio.Queue()
    at_b: asyncio.Queue[Sighting] = asyncio.Queue()
    await make().start(announcement_of(A, salt=secrets.token_bytes(8), port=1001), at_a.put_nowait)
    await make().start(announcement_of(B, salt=secrets.token_bytes(8), port=1002), at_b.put_nowait)
    key, sighting = await seen_of(at_a, {A, B, C})
    assert (key, sighting.addresses) == (B, (Address(host="127.0.0.1", port=1002),))
    key, sighting = await seen_of(at_b, {A, B, C})
    assert (key, sighting.addresses) == (A, (Address(host="127.0.0.1", port=1001),))


async def test_a_stranger_recognises_nobody(make: Make) -> None:
    at_stranger: asyncio.Queue[Sighting] = asyncio.Queue()
    await make().start(announcement_of(C, salt=secrets.token_bytes(8), port=1003), at_stranger.put_nowait)
    await make().start(announcement_of(A, salt=secrets.token_bytes(8), port=1001), lambda _sighting: None)
    async with asyncio.timeout(WITHIN_S):
        sighting = await at_stranger.get()
    assert recognise(sighting, {B, C}) is None


async def test_what_goes_over_the_network_names_neither_the_machine_nor_a_key() -> None:
    discovery = MdnsDiscovery(interfaces=["127.0.0.1"])
    info = discovery._info(announcement_of(A, salt=b"saltsalt", port=1001))
    said = f"{info.name} {info.server} {info.text!r}"
    assert platform.node() not in said
    assert A.hex() not in said
    assert set(info.properties) == {b"v", b"s", b"h"}


async def test_nonsense_in_the_network_is_passed_over() -> None:
    seen: asyncio.Queue[Sighting] = asyncio.Queue()
    hostile = AsyncZeroconf(interfaces=["127.0.0.1"], ip_version=IPVersion.V4Only)
    info = AsyncServiceInfo(SERVICE, f"nonsense.{SERVICE}", port=1, properties={"v": "1", "s": "zz"}, server="n.local.")
    await (await hostile.async_register_service(info))
    a, b = MdnsDiscovery(interfaces=["127.0.0.1"]), MdnsDiscovery(interfaces=["127.0.0.1"])
    await a.start(announcement_of(A, salt=secrets.token_bytes(8), port=1001), seen.put_nowait)
    await b.start(announcement_of(B, salt=secrets.token_bytes(8), port=1002), lambda _sighting: None)
    key, _ = await seen_of(seen, {B})
    assert key == B
    assert seen.empty()
    await asyncio.gather(a.close(), b.close(), hostile.async_close())


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")  # zeroconf forgets one when it cannot start
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_without_a_network_nothing_is_found_and_nothing_breaks() -> None:
    discovery = MdnsDiscovery(interfaces=["203.0.113.77"])
    await discovery.start(announcement_of(A, salt=bytes(8), port=1001), lambda _sighting: None)
    await discovery.close()


def test_an_announcement_is_read_as_it_was_written() -> None:
    said = announcement_of(A, salt=b"12345678", port=1001)
    record: dict[bytes, bytes | None] = {name.encode(): value.encode() for name, value in encode_record(said).items()}
    sighting = decode_record(record, ["10.0.0.1"], said.port)
    assert sighting is not None
    assert recognise(sighting, [C, B, A]) == A
    assert recognise(sighting, [C, B]) is None


def test_two_starts_of_one_device_cannot_be_linked() -> None:
    one, two = (announcement_of(A, salt=salt, port=1) for salt in (b"12345678", b"87654321"))
    assert one.hint != two.hint


RECORDS = st.dictionaries(
    st.sampled_from([b"v", b"s", b"h", b"x"]),
    st.none() | st.binary(max_size=20) | st.sampled_from([b"1", b"0011223344556677", b"zz" * 8, b"\xff" * 16]),
)


@given(record=RECORDS, hosts=st.lists(st.text(max_size=5), max_size=40), port=st.none() | st.integers(-1, 70000))
def test_any_record_is_understood_or_passed_over(
    record: dict[bytes, bytes | None], hosts: list[str], port: int | None
) -> None:
    sighting = decode_record(record, hosts, port)
    if sighting is not None:
        assert len(sighting.salt) == len(sighting.hint) == 8
        assert len(sighting.addresses) <= MOST_ADDRESSES
