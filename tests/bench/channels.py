"""Measures channels between two processes on loopback: ``python -m tests.bench.channels [MIB]``.

Prints rate, CPU of both processes per GiB, highest memory of each, and the median round trip of a small message; beside
them what OpenSSL's own command does between two processes of its own. Data channels run over this machine's own network
address, because ICE never offers loopback.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal

import msgspec
from rich.console import Console
from rich.table import Table

from app.sync.addresses import Address
from app.sync.channel import Channel, ChannelClosedError
from app.sync.direct import DirectListener, connect_direct
from app.sync.direct_channel import DirectChannel
from app.sync.tls import TlsIdentity
from app.sync.webrtc import Signalling, accept_webrtc, connect_webrtc

MIB = 1 << 20
ROUND_TRIPS = 200
OPENSSL_MIB = 1024
SEEDS = {"send": b"a" * 32, "take": b"b" * 32}
Role = Literal["send", "take"]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What one process measured."""

    wall_s: float = 0
    cpu_s: float = 0
    peak_bytes: int = 0
    round_trip_ms: float = 0


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement: what is sent how."""

    kind: str
    mib: int
    message_bytes: int


Opened = tuple[Channel, Callable[[], Awaitable[None]]]
"""A channel and what closes all that it stands on."""


async def _channel(role: Role, kind: str) -> Opened:
    other = TlsIdentity(SEEDS["take" if role == "send" else "send"]).public_key
    return await (_webrtc(role, other) if kind == "webrtc" else _direct(role, other))


async def _webrtc(role: Role, other: bytes) -> Opened:
    """Return the channel for shards, with signalling line by line over the processes' standard input and output."""

    async def say(data: bytes) -> None:
        sys.stdout.buffer.write(data + b"\n")
        sys.stdout.buffer.flush()

    async def hear() -> bytes:
        line: bytes = await asyncio.to_thread(sys.stdin.buffer.readline)
        return line.rstrip(b"\n")

    signalling, seed = Signalling(send=say, receive=hear), SEEDS[role]
    if role == "send":
        connection = await connect_webrtc(seed=seed, peer_key=other, signalling=signalling)
    else:
        connection = await accept_webrtc(seed=seed, is_member=lambda key: key == other, signalling=signalling)
    return connection.shards, connection.close


async def _direct(role: Role, other: bytes) -> Opened:
    identity = TlsIdentity(SEEDS[role])
    if role == "send":
        port = int(await asyncio.to_thread(sys.stdin.readline))
        address = Address(host="127.0.0.1", port=port)
        connected = await connect_direct(address, identity=identity, expected_key=other)
        return connected, connected.close
    channels: asyncio.Queue[DirectChannel] = asyncio.Queue()
    listener = DirectListener(identity=identity, is_member=lambda key: key == other, on_channel=channels.put_nowait)
    await listener.start(host="127.0.0.1")
    sys.stdout.write(f"{listener.port}\n")
    sys.stdout.flush()
    channel = await channels.get()
    return channel, channel.close


async def _send(channel: Channel, run: Run) -> Outcome:
    trips = []
    for _ in range(ROUND_TRIPS):
        started = time.perf_counter()
        await channel.send(b"ping")
        await channel.receive()
        trips.append(time.perf_counter() - started)
    message = os.urandom(run.message_bytes)
    started, cpu = time.perf_counter(), time.process_time()
    for _ in range(run.mib * MIB // run.message_bytes):
        await channel.send(message)
    await channel.send(b"end")
    await channel.receive()
    return Outcome(
        wall_s=time.perf_counter() - started,
        cpu_s=time.process_time() - cpu,
        round_trip_ms=statistics.median(trips) * 1000,
        peak_bytes=_peak_bytes(),
    )


async def _take(channel: Channel) -> Outcome:
    for _ in range(ROUND_TRIPS):
        await channel.send(await channel.receive())
    cpu = time.process_time()
    while await channel.receive() != b"end":
        pass
    await channel.send(b"got all")
    outcome = Outcome(cpu_s=time.process_time() - cpu, peak_bytes=_peak_bytes())
    with contextlib.suppress(ChannelClosedError):
        await channel.receive()
    return outcome


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


async def _play(role: Role, run: Run) -> Outcome:
    channel, close = await _channel(role, run.kind)
    outcome = await (_send(channel, run) if role == "send" else _take(channel))
    await close()
    return outcome


def _measure(run: Run) -> tuple[Outcome, Outcome]:
    """Run both processes, each one's standard output being the other's input."""
    with tempfile.TemporaryDirectory() as folder:
        (read_a, write_a), (read_b, write_b) = os.pipe(), os.pipe()
        processes = [
            _start(role, run, Path(folder) / role, stdin, stdout)
            for role, stdin, stdout in (("send", read_a, write_b), ("take", read_b, write_a))
        ]
        for descriptor in (read_a, write_a, read_b, write_b):
            os.close(descriptor)
        codes = [process.wait() for process in processes]
        if any(codes):
            raise SystemExit("a measurement failed")
        sent, taken = (msgspec.json.decode((Path(folder) / role).read_bytes(), type=Outcome) for role in SEEDS)
    return sent, taken


def _start(role: str, run: Run, result: Path, stdin: int, stdout: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.bench.channels", role, msgspec.json.encode(run).decode(), str(result)]
    return subprocess.Popen(command, stdin=stdin, stdout=stdout)


def _row(name: str, run: Run) -> tuple[str, ...]:
    sent, taken = _measure(run)
    gib = run.mib / 1024
    return (
        name,
        f"{run.mib / sent.wall_s:.0f} MiB/s",
        f"{sent.cpu_s / gib:.1f} + {taken.cpu_s / gib:.1f} s",
        f"{sent.peak_bytes / MIB:.0f} + {taken.peak_bytes / MIB:.0f} MiB",
        f"{sent.round_trip_ms:.2f} ms",
    )


def _openssl_row() -> tuple[str, ...]:
    """Return what ``openssl s_client`` into ``openssl s_server`` takes, with the same kind of key."""
    if shutil.which("openssl") is None:
        return ("openssl s_client → s_server", "not installed", "", "", "")
    with tempfile.TemporaryDirectory() as folder:
        key, certificate = Path(folder) / "key", Path(folder) / "certificate"
        subprocess.run(
            [
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ed25519",
                "-nodes",
                "-subj",
                "/CN=x",
                "-keyout",
                key,
                "-out",
                certificate,
            ],
            check=True,
            capture_output=True,
        )
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        wall_s = _pipe_through_openssl(key, certificate)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    gib = OPENSSL_MIB / 1024
    return ("openssl s_client → s_server", f"{OPENSSL_MIB / wall_s:.0f} MiB/s", f"{cpu_s / gib:.1f} s", "", "")


def _pipe_through_openssl(key: Path, certificate: Path) -> float:
    command = [
        "openssl",
        "s_server",
        "-accept",
        "127.0.0.1:0",
        "-key",
        str(key),
        "-cert",
        str(certificate),
        "-naccept",
        "1",
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        port = next(line for line in server.stdout if line.startswith(b"ACCEPT")).rsplit(b":", 1)[1].strip().decode()
        started = time.perf_counter()
        zeros = subprocess.Popen(["head", "-c", str(OPENSSL_MIB * MIB), "/dev/zero"], stdout=subprocess.PIPE)
        client = subprocess.Popen(
            ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-quiet", "-no_ign_eof"],
            stdin=zeros.stdout,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while server.stdout.read(MIB):
            pass
        wall_s = time.perf_counter() - started
        for process in (zeros, client):
            process.kill()
            process.wait()
        return wall_s


def main() -> None:
    """Measure everything, or play one role of a measurement."""
    if len(sys.argv) == 4:
        role: Role = "send" if sys.argv[1] == "send" else "take"
        run = msgspec.json.decode(sys.argv[2], type=Run)
        Path(sys.argv[3]).write_bytes(msgspec.json.encode(asyncio.run(_play(role, run))))
        return
    mib = int(sys.argv[1]) if len(sys.argv) > 1 else 1024
    table = Table(title=f"Channels on loopback, {os.cpu_count()} cores shared by both ends")
    for column in ("Channel", "Rate", "CPU per GiB (send + receive)", "Memory (send + receive)", "Round trip"):
        table.add_column(column)
    for size, name in ((4 * MIB, "4 MiB"), (MIB, "1 MiB"), (64 * 1024, "64 KiB"), (1024, "1 KiB")):
        run = Run(kind="direct", mib=mib if size > 1024 else max(1, mib // 64), message_bytes=size)
        table.add_row(*_row(f"direct, messages of {name}", run))
    for size, name in ((MIB, "1 MiB"), (64 * 1024, "64 KiB")):
        table.add_row(
            *_row(f"data channel, messages of {name}", Run(kind="webrtc", mib=max(1, mib // 16), message_bytes=size))
        )
    table.add_row(*_openssl_row())
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
