"""Peer connections by way of a real TURN server (coturn) on loopback, where no other way exists."""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.core.errors import ErrorCode, ExpectedError
from app.sync.tls import TlsIdentity
from app.sync.webrtc import IceServer, WebRtcConnection, accept_webrtc, connect_webrtc
from tests.sync.channel_links import SEED_A, SEED_B, signalling_pair

TURNSERVER = shutil.which("turnserver")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.skipif(TURNSERVER is None, reason="coturn is not installed (Debian: apt-get install coturn)"),
]
A, B = TlsIdentity(SEED_A).public_key, TlsIdentity(SEED_B).public_key


@pytest.fixture
async def turn_port(tmp_path: Path) -> AsyncIterator[int]:
    """Start a TURN server for the user “u” with the password “right”, and wait until it answers."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        TURNSERVER or "",
        *("-n", "--listening-ip=127.0.0.1", "--relay-ip=127.0.0.1", f"--listening-port={port}"),
        *("--lt-cred-mech", "--user=u:right", "--realm=hearthreel", "--allow-loopback-peers"),
        *("--no-tls", "--no-dtls", "--no-cli", "--log-file=stdout", f"--pidfile={tmp_path / 'pid'}"),
        *(f"--userdb={tmp_path / 'users'}", "--relay-threads=1"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(30):
            await until_it_listens(port)
        yield port
    finally:
        process.kill()
        await process.wait()


async def until_it_listens(port: int) -> None:
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            await asyncio.sleep(0.02)
        else:
            writer.close()
            await writer.wait_closed()
            return


@pytest.fixture(autouse=True)
def _no_other_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give neither device an address of its own."""
    monkeypatch.setattr("aioice.ice.get_host_addresses", lambda **_which: [])


async def meet(
    port: int, *, credential: str, within_s: float
) -> tuple[WebRtcConnection | BaseException, WebRtcConnection | BaseException]:
    at_a, at_b = signalling_pair()
    servers = [IceServer(url=f"turn:127.0.0.1:{port}?transport=udp", username="u", credential=credential)]
    return await asyncio.gather(
        connect_webrtc(seed=SEED_A, peer_key=B, signalling=at_a, servers=servers, within_s=within_s),
        accept_webrtc(seed=SEED_B, is_member=lambda key: key == A, signalling=at_b, servers=servers, within_s=within_s),
        return_exceptions=True,
    )


async def test_devices_without_a_common_network_meet_through_a_relay(turn_port: int) -> None:
    a, b = await meet(turn_port, credential="right", within_s=60)
    assert isinstance(a, WebRtcConnection), a
    assert isinstance(b, WebRtcConnection), b
    assert (a.path, b.path) == ("relay", "relay")
    assert (a.shards.path, b.control.path) == ("relay", "relay")
    message = bytes(range(256)) * 4096
    await a.shards.send(message)
    assert await b.shards.receive() == message
    await asyncio.gather(a.close(), b.close())


async def test_a_relay_that_refuses_us_is_named_as_the_reason(turn_port: int) -> None:
    a, b = await meet(turn_port, credential="wrong", within_s=5)
    for result in (a, b):
        assert isinstance(result, ExpectedError), result
        assert result.code == ErrorCode.UNREACHABLE
    assert "check its address and password" in str(a)
