"""The running engine's door for other processes of the same user: a loopback socket, a token, many requests at once."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import os
import secrets
from collections.abc import Coroutine
from typing import Any

from app.core.errors import ErrorCode, ExpectedError, mistake_of_ours
from app.engine import api
from app.engine.local import LocalEngine
from app.engine.lock import Endpoint
from app.engine.wire import (
    PROTOCOL,
    Answer,
    Ask,
    FromEngine,
    Hello,
    Share,
    Subscribe,
    Told,
    Trouble,
    Welcome,
    Withdraw,
    encode_reply,
    receive_from_client,
    receive_hello,
    send,
)

_log = logging.getLogger(__name__)
_TOKEN_BYTES = 32
_HELLO_S = 5.0
FINISH_S = 3.0
"""How long an engine that ends waits for what clients have asked for."""


class EngineServer:
    """Lets clients in."""

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine
        self._token = secrets.token_urlsafe(_TOKEN_BYTES)
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[Any], _Connection] = {}

    async def start(self) -> None:
        """Listen on a free loopback port and publish it beside the lock."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self._engine.lock.publish(Endpoint(port=port, token=self._token, pid=os.getpid()))

    async def close(self) -> None:
        """Take no more, answer what was asked already as far as that is soon, and end all connections."""
        if self._server is not None:
            self._server.close()
        asks = [ask for connection in self._connections.values() for ask in connection.end_asking()]
        if asks:
            await asyncio.wait(asks, timeout=FINISH_S)
        for task in tuple(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:
            return
        connection = self._connections[task] = _Connection(self._engine, writer)
        try:
            async with asyncio.timeout(_HELLO_S):
                hello = await receive_hello(reader)
            if isinstance(hello, Hello) and hmac.compare_digest(hello.token.encode(), self._token.encode()):
                await connection.serve(reader)
        except (ExpectedError, TimeoutError, ConnectionError) as error:
            _log.info("a client's connection ended: %s", error)
        except asyncio.CancelledError:
            pass
        finally:
            await connection.close()
            self._connections.pop(task, None)
            writer.close()


class _Connection:
    """One client: its running requests and the players that end with it."""

    def __init__(self, engine: LocalEngine, writer: asyncio.StreamWriter) -> None:
        self._engine = engine
        self._writer = writer
        self._lock = asyncio.Lock()
        self._requests: dict[int, asyncio.Task[None]] = {}
        self._asks: set[asyncio.Task[None]] = set()
        self._is_ending = False
        self._players: set[str] = set()

    async def serve(self, reader: asyncio.StreamReader) -> None:
        """Answer until the client goes away."""
        await self._send(Welcome(protocol=PROTOCOL))
        while (message := await receive_from_client(reader)) is not None:
            match message:
                case Ask() | Subscribe() if self._is_ending:
                    pass  # the client asks the next engine when this connection ends
                case Ask():
                    ask = self._begin(message.id, self._carry_out(message))
                    self._asks.add(ask)
                    ask.add_done_callback(self._asks.discard)
                case Subscribe():
                    self._begin(message.id, self._tell(message.id))
                case Withdraw():
                    task = self._requests.get(message.id)
                    if task is not None:
                        task.cancel()
                case Hello():
                    raise ExpectedError(ErrorCode.BAD_MESSAGE, "A client said hello twice.")

    def _begin(self, number: int, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        if number in self._requests:
            work.close()
            raise ExpectedError(ErrorCode.BAD_MESSAGE, "A client used the number of a request twice.")
        task = asyncio.create_task(work)
        self._requests[number] = task
        task.add_done_callback(lambda _task: self._requests.pop(number, None))
        return task

    def end_asking(self) -> tuple[asyncio.Task[None], ...]:
        """Begin nothing more; return what is being carried out."""
        self._is_ending = True
        return tuple(self._asks)

    async def close(self) -> None:
        """End what the client had going."""
        tasks = list(self._requests.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for token in self._players:
            await self._engine.call(api.ClosePlayer(token=token))

    async def _send(self, message: FromEngine) -> None:
        with contextlib.suppress(ConnectionError):
            async with self._lock:
                await send(self._writer, message)

    async def _carry_out(self, ask: Ask) -> None:
        loop = asyncio.get_running_loop()

        notes: set[asyncio.Task[None]] = set()

        def progress(share: float, what: str) -> None:
            note = loop.create_task(self._send(Share(id=ask.id, share=share, what=what)))
            notes.add(note)
            note.add_done_callback(notes.discard)

        try:
            reply: Any = await self._engine.call(ask.command, progress=progress)
        except ExpectedError as error:
            await self._send(Trouble(id=ask.id, code=error.code, message=error.message))
            return
        except Exception as error:  # noqa: BLE001 (the edge of a connection: the client is told)
            _log.exception("command %s", type(ask.command).__name__)
            await self._send(Trouble(id=ask.id, code=ErrorCode.INTERNAL, message=mistake_of_ours(error).message))
            return
        if isinstance(reply, api.PlayerSnapshot):
            self._players.add(reply.token)
        await self._send(Answer(id=ask.id, reply=encode_reply(reply)))

    async def _tell(self, number: int) -> None:
        async for event in self._engine.events():
            await self._send(Told(id=number, event=event))
