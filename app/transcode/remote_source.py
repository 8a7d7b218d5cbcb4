"""A source that another device holds, as a media child reads it: ranges, asked for over a loopback socket.

::

    child ──► token (32 bytes), then any number of (offset: 8 bytes, length: 4 bytes, big endian)
          ◄── for each: length (4 bytes, signed), then so many bytes; -1 when the range cannot be had

Only who knows the token is answered; it is drawn for one child and comes to it with its request. FFmpeg never sees an
address: it reads a Python file. So a child needs no network but this socket, no keys, and no file on its side.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import io
import secrets
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from app.core.errors import ExpectedError
from app.transcode.messages import RemoteSource

LOOPBACK = "127.0.0.1"
TOKEN_BYTES = 32
MAX_RANGE_BYTES = 1 << 20
_ASK = struct.Struct(">QI")
_ANSWER = struct.Struct(">i")
_HELLO_S = 10.0

ReadRange = Callable[[int, int], Awaitable[bytes]]
"""Returns the bytes [offset, offset + length) of the source; raises ``ExpectedError`` when they cannot be had."""


class RemoteReads:
    """What came of serving one child."""

    def __init__(self) -> None:
        self.failure: ExpectedError | None = None
        """Why a range could not be had; then it is not the child's fault that it failed."""


@asynccontextmanager
async def serve_source(*, size_bytes: int, read: ReadRange) -> AsyncIterator[tuple[RemoteSource, RemoteReads]]:
    """Answer one child's questions for the source's bytes until the block ends."""
    token = secrets.token_bytes(TOKEN_BYTES)
    reads = RemoteReads()
    talks: set[asyncio.Task[Any]] = set()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            talks.add(task)
            task.add_done_callback(talks.discard)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, TimeoutError, asyncio.CancelledError):
            async with asyncio.timeout(_HELLO_S):
                given = await reader.readexactly(TOKEN_BYTES)
            if hmac.compare_digest(given, token):
                await _answer_all(reader, writer, size_bytes=size_bytes, read=read, reads=reads)
        writer.close()

    server = await asyncio.start_server(talk, LOOPBACK, 0)
    try:
        port = server.sockets[0].getsockname()[1]
        yield RemoteSource(port=port, token=token, size_bytes=size_bytes), reads
    finally:
        server.close()
        for one in tuple(talks):
            one.cancel()
        await asyncio.gather(*talks, return_exceptions=True)


async def _answer_all(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, size_bytes: int, read: ReadRange, reads: RemoteReads
) -> None:
    while True:
        offset, length = _ASK.unpack(await reader.readexactly(_ASK.size))
        length = max(0, min(length, MAX_RANGE_BYTES, size_bytes - offset))
        try:
            data = await read(offset, length) if length else b""
        except ExpectedError as error:
            reads.failure = error
            writer.write(_ANSWER.pack(-1))
        else:
            writer.write(_ANSWER.pack(len(data)))
            writer.write(data)
        await writer.drain()


class RemoteFile(io.RawIOBase):
    """The child's end: a file that can be read anywhere."""

    def __init__(self, source: RemoteSource) -> None:
        super().__init__()
        self.size = source.size_bytes
        self._position = 0
        self._socket = socket.create_connection((LOOPBACK, source.port))
        self._stream = self._socket.makefile("rwb")
        self._stream.write(source.token)

    def read_at(self, offset: int, length: int) -> bytes:
        """Return up to ``length`` bytes at ``offset``; raises ``OSError`` when the holder cannot give them."""
        parts = []
        while length > 0 and offset < self.size:
            part = self._ask(offset, min(length, MAX_RANGE_BYTES))
            if not part:
                break
            parts.append(part)
            offset, length = offset + len(part), length - len(part)
        return b"".join(parts)

    def _ask(self, offset: int, length: int) -> bytes:
        self._stream.write(_ASK.pack(offset, length))
        self._stream.flush()
        head = self._stream.read(_ANSWER.size)
        size = _ANSWER.unpack(head)[0] if len(head) == _ANSWER.size else -1
        data = self._stream.read(size) if size > 0 else b""
        if size < 0 or len(data) != size:
            raise OSError("the device that holds the film cannot be reached")
        return data

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        data = self.read_at(self._position, len(view))
        view[: len(data)] = data
        self._position += len(data)
        return len(data)

    def close(self) -> None:
        if not self.closed:
            with contextlib.suppress(OSError):
                self._stream.close()
            self._socket.close()
        super().close()
