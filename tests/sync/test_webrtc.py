"""Peer connections against men in the middle, strangers, silence and networks without a way."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator

import msgspec
import pytest

from app.core.encoding import decode_canonical
from app.core.errors import ErrorCode, ExpectedError
from app.sync.channel import ChannelClosedError
from app.sync.descriptions import Description, open_description, sign_description
from app.sync.pace import Pace
from app.sync.tls import TlsIdentity
from app.sync.webrtc import (
    IceServer,
    Signalling,
    WebRtcConnection,
    accept_webrtc,
    connect_webrtc,
)
from tests.sync.channel_links import SEED_A, SEED_B, only_loopback, signalling_pair, webrtc_connections

pytestmark = pytest.mark.timeout(60)
SEED_M = b"m" * 32
A, B, M = (TlsIdentity(seed).public_key for seed in (SEED_A, SEED_B, SEED_M))
Change = Callable[[bytes], bytes]
Result = WebRtcConnection | BaseException


@pytest.fixture(autouse=True)
def _loopback() -> Iterator[None]:
    with only_loopback():
        yield


async def meet(
    *, change_offer: Change = bytes, change_answer: Change = bytes, within_s: float = 2
) -> tuple[Result, Result]:
    """Let A offer and B accept through somebody who may change what they say; returns what each of them got."""
    at_a, at_b = signalling_pair()

    async def pass_offer(data: bytes) -> None:
        await at_a.send(change_offer(data))

    async def pass_answer(data: bytes) -> None:
        await at_b.send(change_answer(data))

    a, b = await asyncio.gather(
        connect_webrtc(
            seed=SEED_A, peer_key=B, signalling=Signalling(send=pass_offer, receive=at_a.receive), within_s=within_s
        ),
        accept_webrtc(
            seed=SEED_B,
            is_member=lambda key: key == A,
            signalling=Signalling(send=pass_answer, receive=at_b.receive),
            within_s=within_s,
        ),
        return_exceptions=True,
    )
    return a, b


def code_of(result: Result) -> ErrorCode:
    assert isinstance(result, ExpectedError), result
    return result.code


def other_fingerprint(sdp: str) -> str:
    return re.sub(r"(?<=:)[0-9A-F]{2}(?=\r\n)", lambda found: "01" if found[0] == "00" else "00", sdp)


def described(data: bytes, recipient: bytes) -> Description:
    return open_description(data, recipient=recipient)


class Body(msgspec.Struct, kw_only=True):
    body: bytes
    signature: bytes


def with_changed_body(data: bytes) -> bytes:
    signed = decode_canonical(data, Body)
    signed.body = signed.body.replace(b"a=fingerprint:sha-256 ", b"a=fingerprint:sha-256 00:")
    return msgspec.json.encode(signed)


async def test_a_man_in_the_middle_who_changes_the_offer_is_detected() -> None:
    a, b = await meet(change_offer=with_changed_body, within_s=0.5)
    assert code_of(b) == ErrorCode.NOT_TRUSTED
    assert code_of(a) == ErrorCode.UNREACHABLE


async def test_a_man_in_the_middle_who_changes_the_answer_is_detected() -> None:
    a, b = await meet(change_answer=with_changed_body, within_s=2)
    assert code_of(a) == ErrorCode.NOT_TRUSTED
    assert isinstance(b, ExpectedError)


async def test_a_man_in_the_middle_who_signs_himself_is_detected() -> None:
    def as_own_offer(data: bytes) -> bytes:
        return sign_description(msgspec.structs.replace(described(data, B), sender=M), seed=SEED_M)

    def as_own_answer(data: bytes) -> bytes:
        return sign_description(msgspec.structs.replace(described(data, A), sender=M), seed=SEED_M)

    _, b = await meet(change_offer=as_own_offer, within_s=0.5)
    assert code_of(b) == ErrorCode.NOT_TRUSTED
    a, _ = await meet(change_answer=as_own_answer, within_s=2)
    assert code_of(a) == ErrorCode.NOT_TRUSTED


async def test_a_man_in_the_middle_who_ends_dtls_with_another_certificate_is_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """B's signed fingerprint is not that of the certificate which A is shown."""
    honest = WebRtcConnection.answer

    async def answer(connection: WebRtcConnection, offer: str) -> str:
        return other_fingerprint(await honest(connection, offer))

    monkeypatch.setattr(WebRtcConnection, "answer", answer)
    a, b = await meet(within_s=5)
    assert code_of(a) == ErrorCode.NOT_TRUSTED
    assert isinstance(b, ExpectedError)


async def test_an_answer_to_another_offer_is_not_taken() -> None:
    def for_another_attempt(data: bytes) -> bytes:
        return sign_description(msgspec.structs.replace(described(data, A), attempt="0" * 32), seed=SEED_B)

    def to_another_offer(data: bytes) -> bytes:
        return sign_description(msgspec.structs.replace(described(data, A), answers="0" * 64), seed=SEED_B)

    a, _ = await meet(change_answer=for_another_attempt, within_s=1)
    assert code_of(a) == ErrorCode.UNREACHABLE
    a, _ = await meet(change_answer=to_another_offer, within_s=1)
    assert code_of(a) == ErrorCode.NOT_TRUSTED


async def test_a_stranger_and_a_removed_device_get_no_answer() -> None:
    at_m, at_b = signalling_pair()
    members = {A}
    stranger = asyncio.create_task(connect_webrtc(seed=SEED_M, peer_key=B, signalling=at_m, within_s=0.5))
    with pytest.raises(ExpectedError) as caught:
        await accept_webrtc(seed=SEED_B, is_member=members.__contains__, signalling=at_b)
    assert caught.value.code == ErrorCode.NOT_TRUSTED
    with pytest.raises(ExpectedError, match="did not answer"):
        await stranger


async def test_a_members_nonsense_is_said_to_be_that() -> None:
    def nonsense(data: bytes) -> bytes:
        return sign_description(msgspec.structs.replace(described(data, B), sdp="v=0\r\nm=?\r\n"), seed=SEED_A)

    a, b = await meet(change_offer=nonsense, within_s=1)
    assert code_of(b) == ErrorCode.BAD_MESSAGE
    assert isinstance(a, ExpectedError)


async def test_a_device_that_is_away_is_said_to_be_away() -> None:
    at_a, _ = signalling_pair()
    with pytest.raises(ExpectedError, match="did not answer; it may be off") as caught:
        await connect_webrtc(seed=SEED_A, peer_key=B, signalling=at_a, within_s=0.2)
    assert caught.value.code == ErrorCode.UNREACHABLE


@pytest.mark.parametrize(
    ("servers", "advice"), [((), "set a relay"), (("turn:127.0.0.1:9?transport=tcp",), "check its")]
)
async def test_networks_without_a_way_give_a_reason_with_advice(
    servers: tuple[str, ...], advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = WebRtcConnection.answer

    async def unreachable_answer(connection: WebRtcConnection, offer: str) -> str:
        return re.sub(r"(a=candidate:.* udp \d+) \S+ \d+ typ", r"\1 127.0.0.1 9 typ", await honest(connection, offer))

    async def without_candidates(connection: WebRtcConnection, offer: str) -> str:
        return await unreachable_answer(connection, re.sub(r"a=candidate:.*\r\n", "", offer))

    monkeypatch.setattr(WebRtcConnection, "answer", without_candidates)
    at_a, at_b = signalling_pair()
    accepting = asyncio.create_task(
        accept_webrtc(seed=SEED_B, is_member=lambda _key: True, signalling=at_b, within_s=1)
    )
    with pytest.raises(ExpectedError, match=advice) as caught:
        await connect_webrtc(
            seed=SEED_A,
            peer_key=B,
            signalling=at_a,
            servers=[IceServer(url=url, username="u", credential="p") for url in servers],
            within_s=1,
        )
    assert caught.value.code == ErrorCode.UNREACHABLE
    with pytest.raises(ExpectedError):
        await accepting


async def test_a_wrong_server_address_is_said() -> None:
    at_a, _ = signalling_pair()
    with pytest.raises(ExpectedError, match="write stun:HOST:PORT") as caught:
        await connect_webrtc(seed=SEED_A, peer_key=B, signalling=at_a, servers=[IceServer(url="http://x")])
    assert caught.value.code == ErrorCode.BAD_SETTING


async def test_no_server_is_asked_unless_one_is_set() -> None:
    async with webrtc_connections() as (a, _):
        assert a._peer.sctp is not None
        ice = a._peer.sctp.transport.transport._connection
        assert (ice.stun_server, ice.turn_server) == (None, None)


async def test_control_goes_on_while_the_reader_of_shards_is_behind() -> None:
    async with webrtc_connections() as (a, b):
        assert (a.path, b.path) == ("lan", "lan")
        sending = asyncio.create_task(send_blocks(a, 9))
        done, _ = await asyncio.wait([sending], timeout=2)
        assert not done
        await a.control.send(b"cancel now")
        assert await b.control.receive() == b"cancel now"
        assert [len(await b.shards.receive()) for _ in range(9)] == [1 << 20] * 9
        await sending


async def send_blocks(connection: WebRtcConnection, count: int) -> None:
    for _ in range(count):
        await connection.shards.send(bytes(1 << 20))


async def test_one_channel_may_close_and_the_other_goes_on() -> None:
    async with webrtc_connections() as (a, b):
        await asyncio.gather(a.shards.close("no room"), pytest_raises_closed(b, "no room"))
        await a.control.send(b"still here")
        assert await b.control.receive() == b"still here"


async def pytest_raises_closed(connection: WebRtcConnection, reason: str) -> None:
    with pytest.raises(ChannelClosedError, match=reason):
        await connection.shards.receive()


async def test_closing_the_connection_tells_both_channels_why() -> None:
    async with webrtc_connections() as (a, b):
        await a.close("it goes to sleep")
        for channel in (b.control, b.shards):
            with pytest.raises(ChannelClosedError, match="it goes to sleep"):
                await channel.receive()


async def test_a_members_bad_piece_ends_that_connection() -> None:
    async with webrtc_connections() as (a, b):
        a._data_channels[0].send(b"\xff")
        with pytest.raises(ChannelClosedError) as caught:
            await b.control.receive()
        assert caught.value.code == ErrorCode.BAD_MESSAGE
        with pytest.raises(ChannelClosedError):
            await a.shards.receive()


async def test_a_cancelled_attempt_leaves_nothing_behind() -> None:
    at_a, at_b = signalling_pair()
    connecting = asyncio.create_task(connect_webrtc(seed=SEED_A, peer_key=B, signalling=at_a))
    await at_b.receive()
    before = asyncio.all_tasks() - {connecting}
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    assert asyncio.all_tasks() <= before


async def test_an_idle_connection_is_kept_up_by_its_pings() -> None:
    async with webrtc_connections(Pace(tick_s=0.05)) as (a, b):
        done, _ = await asyncio.wait([asyncio.create_task(a.control.receive())], timeout=1)
        assert not done
        await b.control.send(b"x")
