"""What a client and the running engine say over the loopback socket.

Frames as in ``app.transcode.messages``: four bytes of length, one MessagePack value. The client begins with ``Hello``
(the token from the endpoint file), the engine answers with ``Welcome``; then requests, answered in any order by id. A
broken or foreign message ends the connection, nothing else.
"""

from __future__ import annotations

import asyncio
import struct
from typing import Any, TypeVar

import msgspec

from app.core.errors import ErrorCode, ExpectedError
from app.engine.api import AnyCommand, Changed

PROTOCOL = 1
MAX_FRAME_BYTES = 64 << 20
MAX_HELLO_BYTES = 4096
"""Before a client has shown its token it may not make the engine hold more."""
_LENGTH = struct.Struct(">I")

T = TypeVar("T")


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The first message of a client."""

    protocol: int
    token: str


class Ask(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Carry out a command."""

    id: int
    command: AnyCommand


class Subscribe(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Send ``Told`` from now on."""

    id: int


class Withdraw(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The answer to a request is not wanted any more."""

    id: int


class Welcome(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The engine's answer to ``Hello``."""

    protocol: int


class Answer(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The reply of a command, encoded as the type that stands beside it."""

    id: int
    reply: msgspec.Raw


class Trouble(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A command failed."""

    id: int
    code: str
    message: str


class Share(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """How far a long command is."""

    id: int
    share: float
    what: str


class Told(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """An event."""

    id: int
    event: Changed


FromClient = Hello | Ask | Subscribe | Withdraw
FromEngine = Welcome | Answer | Trouble | Share | Told

_encoder = msgspec.msgpack.Encoder()
_client_decoder = msgspec.msgpack.Decoder(FromClient)
_engine_decoder = msgspec.msgpack.Decoder(FromEngine)


def encode_reply(reply: Any) -> msgspec.Raw:
    """Return a command's reply as it travels."""
    return msgspec.Raw(_encoder.encode(reply))


def decode_reply(reply: msgspec.Raw, kind: Any) -> Any:
    """Return the reply as a value of its type; raises ``ExpectedError`` bad-message."""
    try:
        return msgspec.msgpack.decode(reply, type=kind)
    except msgspec.DecodeError as error:
        raise ExpectedError(ErrorCode.BAD_MESSAGE, f"An answer cannot be read: {error}") from error


async def send(writer: asyncio.StreamWriter, message: FromClient | FromEngine) -> None:
    """Write one message."""
    payload = _encoder.encode(message)
    writer.write(_LENGTH.pack(len(payload)) + payload)
    await writer.drain()


async def receive_hello(reader: asyncio.StreamReader) -> FromClient | None:
    """Return a client's first message, None when it went away; raises ``ExpectedError`` bad-message."""
    return await _receive(reader, _client_decoder, most_bytes=MAX_HELLO_BYTES)


async def receive_from_client(reader: asyncio.StreamReader) -> FromClient | None:
    """Return the next message, None at the end; raises ``ExpectedError`` bad-message."""
    return await _receive(reader, _client_decoder)


async def receive_from_engine(reader: asyncio.StreamReader) -> FromEngine | None:
    """Return the next message, None at the end; raises ``ExpectedError`` bad-message."""
    return await _receive(reader, _engine_decoder)


async def _receive(
    reader: asyncio.StreamReader, decoder: msgspec.msgpack.Decoder[T], *, most_bytes: int = MAX_FRAME_BYTES
) -> T | None:
    try:
        header = await reader.readexactly(_LENGTH.size)
        size: int = _LENGTH.unpack(header)[0]
        if size > most_bytes:
            raise ExpectedError(ErrorCode.BAD_MESSAGE, "A message is too long.")
        return decoder.decode(await reader.readexactly(size))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ExpectedError(ErrorCode.BAD_MESSAGE, f"A message cannot be read: {error}") from error
