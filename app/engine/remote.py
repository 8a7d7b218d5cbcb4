"""The engine of another process, reached over its loopback socket. Implements ``EngineApi``."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import AsyncIterator
from typing import Any, TypeVar, cast

from app.core.errors import ErrorCode, ExpectedError
from app.engine import api
from app.engine.lock import Endpoint
from app.engine.wire import (
    PROTOCOL,
    Answer,
    Ask,
    FromClient,
    Hello,
    Share,
    Subscribe,
    Told,
    Trouble,
    Welcome,
    Withdraw,
    decode_reply,
    receive_from_engine,
    send,
)

R = TypeVar("R")
_log = logging.getLogger(__name__)
_CONNECT_S = 5.0


def engine_gone() -> ExpectedError:
    """Return the error for an engine that ended while it was needed."""
    return ExpectedError(
        ErrorCode.ENGINE_GONE, "The Hearthreel that worked here has ended; try again. Nothing that was added is lost."
    )


class RemoteEngine:
    """A client of the running engine."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._progress: dict[int, api.Progress] = {}
        self._mailboxes: dict[int, asyncio.Queue[api.Changed | None]] = {}
        self._lock = asyncio.Lock()
        self._pump: asyncio.Task[None] | None = None
        self.gone = asyncio.Event()
        """Set when the engine has ended."""

    @classmethod
    async def connect(cls, endpoint: Endpoint) -> RemoteEngine:
        """Return a client of the engine at ``endpoint``; raises ``ExpectedError`` engine-gone."""
        try:
            async with asyncio.timeout(_CONNECT_S):
                reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
                engine = cls(reader, writer)
                try:
                    await engine._greet(endpoint.token)
                except BaseException:
                    writer.close()
                    raise
        except (OSError, TimeoutError) as error:
            raise engine_gone() from error
        engine._pump = asyncio.create_task(engine._receive())
        return engine

    async def _greet(self, token: str) -> None:
        await self._send(Hello(protocol=PROTOCOL, token=token))
        welcome = await receive_from_engine(self._reader)
        if not isinstance(welcome, Welcome):
            raise engine_gone()
        if welcome.protocol != PROTOCOL:
            raise ExpectedError(
                ErrorCode.DATA_TOO_NEW,
                "A Hearthreel of another version works with this data directory; end it, or use that version.",
            )

    async def close(self) -> None:
        """Leave; players that this client opened end."""
        if self._pump is not None:
            self._pump.cancel()
            await asyncio.gather(self._pump, return_exceptions=True)
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def call(self, command: api.Command[R], *, progress: api.Progress | None = None) -> R:
        number = next(self._numbers)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        if progress is not None:
            self._progress[number] = progress
        try:
            await self._send(Ask(id=number, command=cast("api.AnyCommand", command)))
            return cast("R", decode_reply(await future, command.reply))
        except asyncio.CancelledError:
            with contextlib.suppress(ExpectedError):
                await asyncio.shield(self._send(Withdraw(id=number)))
            raise
        finally:
            self._waiting.pop(number, None)
            self._progress.pop(number, None)

    async def events(self) -> AsyncIterator[api.Changed]:
        number = next(self._numbers)
        mailbox: asyncio.Queue[api.Changed | None] = asyncio.Queue()
        self._mailboxes[number] = mailbox
        try:
            await self._send(Subscribe(id=number))
            while (event := await mailbox.get()) is not None:
                yield event
            raise engine_gone()
        finally:
            self._mailboxes.pop(number, None)

    async def _send(self, message: FromClient) -> None:
        if self.gone.is_set():
            raise engine_gone()
        try:
            async with self._lock:
                await send(self._writer, message)
        except ConnectionError as error:
            self.gone.set()
            raise engine_gone() from error

    async def _receive(self) -> None:
        try:
            while (message := await receive_from_engine(self._reader)) is not None:
                self._take(message)
        except ExpectedError as error:
            _log.warning("what the engine said cannot be understood: %s", error)
        finally:
            self.gone.set()
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(engine_gone())
            for mailbox in self._mailboxes.values():
                mailbox.put_nowait(None)

    def _take(self, message: Any) -> None:
        match message:
            case Answer():
                future = self._waiting.get(message.id)
                if future is not None and not future.done():
                    future.set_result(message.reply)
            case Trouble():
                future = self._waiting.get(message.id)
                if future is not None and not future.done():
                    future.set_exception(ExpectedError(_code(message.code), message.message))
            case Share():
                if message.id in self._progress:
                    self._progress[message.id](message.share, message.what)
            case Told():
                if message.id in self._mailboxes:
                    self._mailboxes[message.id].put_nowait(message.event)


def _code(text: str) -> ErrorCode:
    """Return the code, INTERNAL for one of a newer version."""
    try:
        return ErrorCode(text)
    except ValueError:
        return ErrorCode.INTERNAL
