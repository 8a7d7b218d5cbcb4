"""The direct channel against strangers, men in the middle, removed devices and bad networks."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import secrets
import socket
from collections.abc import Callable

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from OpenSSL import SSL

from app.core.errors import ErrorCode, ExpectedError
from app.sync import direct_protocol
from app.sync.addresses import Address
from app.sync.channel import MAX_MESSAGE_BYTES, ChannelClosedError
from app.sync.direct import MOST_STRANGERS, DirectListener, connect_direct
from app.sync.direct_channel import DirectChannel
from app.sync.direct_protocol import DirectConnection, knock_for
from app.sync.frames import Frame, FrameKind, encode_header
from app.sync.pace import Pace
from app.sync.tls import TlsIdentity
from tests.sync.channel_links import SEED_A, SEED_B, Listening, Relay, listening

pytestmark = pytest.mark.timeout(60)
A, B, STRANGER = TlsIdentity(SEED_A), TlsIdentity(SEED_B), TlsIdentity(b"s" * 32)
NEVER = Pace(tick_s=3600)


async def connect(there: Listening, identity: TlsIdentity = A, *, expected_key: bytes = B.public_key) -> DirectChannel:
    return await connect_direct(there.address, identity=identity, expected_key=expected_key)


async def answer_to(there: Listening, data: bytes) -> bytes:
    """Send bytes as a stranger would and return all that is answered until the connection ends."""
    reader, writer = await asyncio.open_connection(there.address.host, there.address.port)
    writer.write(data)
    answer = b""
    with contextlib.suppress(OSError):
        answer = await reader.read()
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return answer


async def test_a_stranger_that_finds_the_port_gets_no_byte() -> None:
    async with listening(SEED_B, A.public_key) as there:
        tls = DirectConnection.connecting(A, expected_key=B.public_key, nonce=bytes(16))
        _knock, client_hello = tls.data_to_send(), tls.data_to_send()
        stranger_knock = knock_for(STRANGER.public_key, bytes(16))
        for said in (
            secrets.token_bytes(32),
            b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
            bytes(1000),
            client_hello,
            stranger_knock + client_hello,
        ):
            assert await answer_to(there, said) == b""
        assert there.channels.empty()


async def test_a_stranger_that_knows_the_public_key_is_refused_within_the_handshake() -> None:
    async with listening(SEED_B, A.public_key) as there:
        with pytest.raises(ExpectedError, match="refused this one") as caught:
            await connect(there, STRANGER)
        assert caught.value.code == ErrorCode.NOT_TRUSTED
        assert there.channels.empty()
        (await connect(there)).abort()


async def test_a_removed_device_is_refused_from_then_on() -> None:
    async with listening(SEED_B, A.public_key) as there:
        channel = await connect(there)
        await channel.close()
        there.members.clear()
        with pytest.raises(ExpectedError, match="was removed"):
            await connect(there)
        assert there.channels.qsize() == 1


async def test_a_device_looks_only_for_the_one_it_means() -> None:
    async with listening(SEED_B, A.public_key) as there:
        with pytest.raises(ExpectedError, match="not the device that was looked for"):
            await connect(there, expected_key=STRANGER.public_key)
        assert there.channels.empty()


class Middle(asyncio.Protocol):
    """A man in the middle who ends TLS himself, with a key of his own, and wants to see who calls."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.done = asyncio.get_running_loop().create_future()
        self._connection = DirectConnection.accepting(STRANGER, is_member=self._note)
        self._connection._identity = B  # he knows the public key of B, and so the knock

    def _note(self, key: bytes) -> bool:
        self.asked.append(key)
        return True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        assert isinstance(self.transport, asyncio.Transport)
        with contextlib.suppress(ExpectedError):
            self._connection.receive_data(memoryview(data), lambda _frame: None)
        self.transport.write(self._connection.data_to_send())

    def connection_lost(self, exc: Exception | None) -> None:
        self.done.set_result(exc)


async def test_a_man_in_the_middle_is_detected_and_does_not_learn_who_called() -> None:
    loop = asyncio.get_running_loop()
    middle = Middle()
    server = await loop.create_server(lambda: middle, "127.0.0.1", 0)
    address = Address(host="127.0.0.1", port=server.sockets[0].getsockname()[1])
    with pytest.raises(ExpectedError, match="not the device that was looked for"):
        await connect_direct(address, identity=A, expected_key=B.public_key)
    await middle.done
    server.close()
    assert middle.asked == []


async def test_who_listens_on_the_wire_sees_neither_messages_nor_keys() -> None:
    async with listening(SEED_B, A.public_key) as there:
        relay = Relay(there.listener.port)
        address = Address(host="127.0.0.1", port=await relay.start())
        channel = await connect_direct(address, identity=A, expected_key=B.public_key)
        await channel.send(b"the title of a film")
        assert await (await there.channels.get()).receive() == b"the title of a film"
        await channel.close()
        await relay.close()
        for secret in (b"title of a film", A.public_key, B.public_key):
            assert secret not in relay.seen


async def test_a_changed_byte_on_the_wire_ends_the_channel_and_is_never_delivered() -> None:
    async with listening(SEED_B, A.public_key) as there:
        relay = Relay(there.listener.port)
        address = Address(host="127.0.0.1", port=await relay.start())
        channel = await connect_direct(address, identity=A, expected_key=B.public_key)
        arrived = await there.channels.get()
        relay.change_next()
        await channel.send(bytes(1000))
        with pytest.raises(ChannelClosedError, match="was lost"):
            await arrived.receive()
        await channel.close()
        await relay.close()


def stranger_context(prepare: Callable[[SSL.Context], None]) -> SSL.Context:
    context = SSL.Context(SSL.TLS_METHOD)
    prepare(context)
    return context


def without_certificate(_context: SSL.Context) -> None:
    """Show no certificate at all."""


def with_the_members_certificate_in_the_chain(context: SSL.Context) -> None:
    context.use_certificate(STRANGER._certificate)
    context.use_privatekey(STRANGER._key)
    context.add_extra_chain_cert(A._certificate)


def with_a_key_of_another_kind(context: SSL.Context) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([])
    builder = x509.CertificateBuilder(subject_name=name, issuer_name=name, public_key=key.public_key(), serial_number=1)
    from_, until = A._certificate.not_valid_before_utc, A._certificate.not_valid_after_utc
    context.use_certificate(builder.not_valid_before(from_).not_valid_after(until).sign(key, hashes.SHA256()))
    context.use_privatekey(key)


def with_an_old_version_of_tls(context: SSL.Context) -> None:
    context.use_certificate(A._certificate)
    context.use_privatekey(A._key)
    context.set_max_proto_version(SSL.TLS1_2_VERSION)


@pytest.mark.parametrize(
    "prepare",
    [
        without_certificate,
        with_the_members_certificate_in_the_chain,
        with_a_key_of_another_kind,
        with_an_old_version_of_tls,
    ],
)
async def test_tricks_with_certificates_and_versions_are_refused(prepare: Callable[[SSL.Context], None]) -> None:
    async with listening(SEED_B, A.public_key) as there:
        tls = SSL.Connection(stranger_context(prepare), None)
        tls.set_connect_state()
        reader, writer = await asyncio.open_connection(there.address.host, there.address.port)
        writer.write(knock_for(B.public_key, bytes(16)))
        with pytest.raises(SSL.Error):
            await speak_tls(tls, reader, writer)
        writer.close()
        assert there.channels.empty()


async def speak_tls(tls: SSL.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Shake hands and read until the peer has something to say; raises what TLS says."""
    while True:
        try:
            tls.do_handshake()
            tls.recv(100)
        except SSL.WantReadError:
            with contextlib.suppress(SSL.WantReadError):
                writer.write(tls.bio_read(100_000))
            data = await reader.read(100_000)
            assert data, "the connection ended without an alert"
            tls.bio_write(data)
        else:
            return


async def test_a_device_that_accepts_is_not_trusted_before_it_says_welcome() -> None:
    """The connecting side of TLS 1.3 is done before the other has looked at its certificate."""
    client = DirectConnection.connecting(A, expected_key=B.public_key, nonce=bytes(16))
    server = DirectConnection.accepting(B, is_member=lambda _key: False)
    with pytest.raises(ExpectedError, match="was refused"):
        shuttle(client, server)
    assert not client.is_open
    with pytest.raises(ExpectedError, match="refused this one"):
        shuttle(server, client)


def shuttle(*ends: DirectConnection) -> list[Frame]:
    """Carry bytes between two ends until both are silent; returns the frames that arrived at either."""
    frames: list[Frame] = []
    silent = 0
    while silent < 2:
        data = ends[0].data_to_send()
        silent = 0 if data else silent + 1
        if data:
            ends[1].receive_data(memoryview(data), frames.append)
        else:
            ends = ends[1], ends[0]
    return frames


def connected() -> tuple[DirectConnection, DirectConnection]:
    client = DirectConnection.connecting(A, expected_key=B.public_key, nonce=bytes(16))
    server = DirectConnection.accepting(B, is_member=lambda key: key == A.public_key)
    shuttle(client, server)
    assert client.is_open
    assert server.is_open
    return client, server


def test_bytes_may_arrive_one_by_one() -> None:
    client = DirectConnection.connecting(A, expected_key=B.public_key, nonce=bytes(16))
    server = DirectConnection.accepting(B, is_member=lambda key: key == A.public_key)
    frames: list[Frame] = []
    client.queue(FrameKind.MESSAGE, b"hello")
    for _ in range(4):
        for one, other in ((client, server), (server, client)):
            while data := one.data_to_send():
                for byte in data:
                    other.receive_data(memoryview(bytes([byte])), frames.append)
    assert frames == [Frame(FrameKind.MESSAGE, b"hello")]


@pytest.mark.parametrize(
    "frame",
    [
        encode_header(FrameKind.MESSAGE, MAX_MESSAGE_BYTES + 1),
        encode_header(FrameKind.WELCOME, 1) + b"\x01",
        b"\x09\x00\x00\x00",
        encode_header(FrameKind.CLOSE, 501),
    ],
)
def test_a_members_bad_frame_ends_the_connection(frame: bytes) -> None:
    client, server = connected()
    client._outbox.append(memoryview(frame))
    with pytest.raises(ChannelClosedError) as caught:
        shuttle(client, server)
    assert caught.value.code == ErrorCode.BAD_MESSAGE


def test_a_version_that_cannot_be_talked_to_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    client = DirectConnection.connecting(A, expected_key=B.public_key, nonce=bytes(16))
    server = DirectConnection.accepting(B, is_member=lambda key: key == A.public_key)
    monkeypatch.setattr(server, "queue", lambda kind, _body: DirectConnection.queue(server, kind, b"\x63"))
    with pytest.raises(ExpectedError, match="update both") as caught:
        shuttle(client, server)
    assert caught.value.code == ErrorCode.DATA_TOO_NEW


async def test_a_members_bad_frame_ends_its_channel_and_nothing_else() -> None:
    async with listening(SEED_B, A.public_key) as there:
        bad, good = await connect(there), await connect(there)
        at_bad, at_good = await there.channels.get(), await there.channels.get()
        bad._connection._outbox.append(memoryview(b"\x09\x00\x00\x00"))
        bad._flush()
        with pytest.raises(ChannelClosedError, match="makes no sense"):
            await at_bad.receive()
        await good.send(b"still here")
        assert await at_good.receive() == b"still here"
        await asyncio.gather(bad.close(), good.close())


async def test_who_says_nothing_is_dropped() -> None:
    async with listening(SEED_B, A.public_key, open_within_s=0.05) as there:
        assert await answer_to(there, b"") == b""
        assert await answer_to(there, knock_for(B.public_key, bytes(16))) == b""


async def test_strangers_cannot_lock_members_out() -> None:
    async with listening(SEED_B, A.public_key) as there:
        idle = [
            await asyncio.open_connection(there.address.host, there.address.port) for _ in range(MOST_STRANGERS + 5)
        ]
        channel = await connect(there)
        assert len(there.listener._strangers) <= MOST_STRANGERS
        await channel.close()
        for _, writer in idle:
            writer.transport.abort()


async def test_a_peer_that_falls_silent_counts_as_lost() -> None:
    pace = Pace(tick_s=0.02, silent_ticks=5)
    async with listening(SEED_B, A.public_key, pace=pace) as there:
        relay = Relay(there.listener.port)
        address = Address(host="127.0.0.1", port=await relay.start())
        channel = await connect_direct(address, identity=A, expected_key=B.public_key, pace=pace)
        arrived = await there.channels.get()
        receiving = asyncio.create_task(channel.receive())
        done, _ = await asyncio.wait([receiving], timeout=0.5)
        assert not done, "an idle channel is kept up by its pings"
        relay.swallow()
        for end in (receiving, asyncio.create_task(arrived.receive())):
            with pytest.raises(ChannelClosedError, match="was lost"):
                await end
        await relay.close()


async def test_silence_is_not_counted_while_this_side_does_not_read() -> None:
    async with listening(SEED_B, A.public_key, pace=NEVER) as there:
        channel = await connect(there)
        arrived = await there.channels.get()
        sending = asyncio.create_task(send_blocks(channel, 64))
        await asyncio.wait([sending], timeout=0.5)
        assert arrived._is_read_paused
        for _ in range(50):
            arrived._tick()
        assert [len(await arrived.receive()) for _ in range(64)] == [1 << 20] * 64
        await sending
        await channel.close()


async def send_blocks(channel: DirectChannel, count: int) -> None:
    for _ in range(count):
        await channel.send(bytes(1 << 20))


async def test_an_address_where_nothing_listens_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = Address(host="127.0.0.1", port=taken.getsockname()[1])
    with pytest.raises(ExpectedError, match="nothing listens there") as caught:
        await connect_direct(free, identity=A, expected_key=B.public_key)
    assert caught.value.code == ErrorCode.UNREACHABLE


async def test_an_address_that_never_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = Address(host="127.0.0.1", port=silent.getsockname()[1])
        with pytest.raises(ExpectedError, match="nothing answered in time"):
            await connect_direct(address, identity=A, expected_key=B.public_key, within_s=0.1)


async def test_a_port_that_is_taken_is_said() -> None:
    async with listening(SEED_B) as there:
        listener = DirectListener(identity=A, is_member=lambda _key: True, on_channel=lambda _channel: None)
        with pytest.raises(ExpectedError, match="another program uses it") as caught:
            await listener.start(host="127.0.0.1", port=there.listener.port)
        assert caught.value.code == ErrorCode.BAD_SETTING


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
async def test_one_port_serves_both_versions_of_ip(host: str) -> None:
    channels: asyncio.Queue[DirectChannel] = asyncio.Queue()
    listener = DirectListener(identity=B, is_member=lambda _key: True, on_channel=channels.put_nowait)
    await listener.start()
    channel = await connect_direct(Address(host=host, port=listener.port), identity=A, expected_key=B.public_key)
    arrived = await channels.get()
    assert arrived.peer_key == A.public_key
    assert (channel.path, arrived.path) == ("lan", "lan")
    await channel.close()
    await listener.close()


async def test_a_system_without_ipv6_listens_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = socket.create_server

    def create_server(address: tuple[str, int], *, family: int = socket.AF_INET, **options: bool) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EADDRNOTAVAIL, "no IPv6 here")
        return honest(address, family=family, **options)

    monkeypatch.setattr(socket, "create_server", create_server)
    listener = DirectListener(identity=B, is_member=lambda _key: True, on_channel=lambda _channel: None)
    await listener.start()
    channel = await connect_direct(Address(host="127.0.0.1", port=listener.port), identity=A, expected_key=B.public_key)
    await channel.close()
    await listener.close()


def test_the_protocol_version_is_one() -> None:
    """A change of what is on the wire must change the version, and this line."""
    assert direct_protocol.PROTOCOL_VERSION == 1
    assert knock_for(bytes(32), bytes(16)).hex() == bytes(16).hex() + "fd5d01d6300d73e2b4e1c4b86fab7ad7"
