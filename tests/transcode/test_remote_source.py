"""A media child that works on a source which another device holds."""

from __future__ import annotations

import asyncio
import io
import socket
from pathlib import Path

import pytest

from app.core.errors import ErrorCode, ExpectedError
from app.transcode.messages import InitMade, MakeAudio, MakeVideo, ProbeSource, Report, SegmentMade, SourceHandle
from app.transcode.remote_source import LOOPBACK, RemoteFile, RemoteReads, serve_source
from app.transcode.supervisor import ChildError, Supervisor
from tests.transcode.lab import index, write_film


class Holder:
    """The other device: gives ranges of a file, and counts them."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.given = 0
        self.is_away = False

    async def read(self, offset: int, length: int) -> bytes:
        if self.is_away:
            raise ExpectedError(ErrorCode.DISCONNECTED, "away")
        self.given += length
        return self.data[offset : offset + length]


async def test_a_file_from_afar_reads_like_the_file() -> None:
    holder = Holder(bytes(range(256)) * 20_000)

    def read(file: RemoteFile) -> list[bytes]:
        with file:
            parts = [file.read(10), file.read_at(5_119_990, 100)]
            file.seek(-5, io.SEEK_END)
            parts.append(file.read(100))
            file.seek(1000)
            file.seek(24, io.SEEK_CUR)
            parts.append(file.read(3 << 20))
            assert file.tell() == 1024 + (3 << 20)
            return parts

    async with serve_source(size_bytes=len(holder.data), read=holder.read) as (source, _):
        parts = await asyncio.to_thread(lambda: read(RemoteFile(source)))
    expected = (holder.data[:10], holder.data[-10:], holder.data[-5:], holder.data[1024 : 1024 + (3 << 20)])
    assert tuple(parts) == expected


async def test_whoever_does_not_know_the_token_gets_nothing() -> None:
    holder = Holder(b"secret")
    async with serve_source(size_bytes=6, read=holder.read) as (source, _):

        def knock() -> bytes:
            with socket.create_connection((LOOPBACK, source.port), timeout=10) as stranger:
                stranger.sendall(bytes(32) + (0).to_bytes(8, "big") + (6).to_bytes(4, "big"))
                return stranger.recv(100)

        assert await asyncio.to_thread(knock) == b""
    assert holder.given == 0


async def test_a_chunk_is_the_same_whether_its_source_is_here_or_elsewhere(tmp_path: Path) -> None:
    film = write_film(tmp_path / "film.mp4", seconds=12)
    _, plan = index(film)
    holder = Holder(film.read_bytes())
    supervisor = Supervisor()
    for request in (
        MakeVideo(source=SourceHandle(), plan=plan, set=plan.sets[0].name, chunk=len(plan.chunks) - 1),
        MakeAudio(source=SourceHandle(), plan=plan, track=plan.audio[0].name),
    ):
        here, there = Made(), Made()
        await supervisor.run_on_source(request, str(film).encode(), on_report=here.take)
        holder.given = 0
        async with serve_source(size_bytes=len(holder.data), read=holder.read) as (source, reads):
            await supervisor.run_from_afar(request, source, on_report=there.take)
        assert there.pieces == here.pieces
        assert len(here.pieces) > 1
        assert reads.failure is None
        assert holder.given < 3 * len(holder.data)


class Made:
    """What a child made, by name and number."""

    def __init__(self) -> None:
        self.pieces: dict[tuple[str, int], bytes] = {}

    async def take(self, report: Report) -> None:
        if isinstance(report, SegmentMade):
            self.pieces[report.name, report.number] = report.data
        elif isinstance(report, InitMade):
            self.pieces[report.name, -1] = report.data


async def test_a_holder_that_goes_away_is_told_apart_from_a_bad_film(tmp_path: Path) -> None:
    film = write_film(tmp_path / "film.mp4", seconds=2)
    holder = Holder(film.read_bytes())
    holder.is_away = True
    reads: RemoteReads
    async with serve_source(size_bytes=len(holder.data), read=holder.read) as (source, reads):
        with pytest.raises(ChildError):
            await Supervisor().run_from_afar(ProbeSource(source=SourceHandle()), source)
        assert reads.failure is not None
        assert reads.failure.code is ErrorCode.DISCONNECTED
