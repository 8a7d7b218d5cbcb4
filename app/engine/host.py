"""Getting hold of the engine of a data directory: be it, or be a client of the process that is.

::

    lock free ──► LocalEngine + server        lock held ──► RemoteEngine
        ▲                                          │ that engine ends
        └──────── the next command, or a lasting client's events, find or become the next one

An engine that ends well first answers what it was asked, so a command whose answer never came was not carried out,
unless the process was killed. Such a command is asked again of the next engine: carrying one out twice does no harm.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from app.core.errors import ErrorCode, ExpectedError
from app.core.paths import DataDir
from app.engine import api
from app.engine.local import LocalEngine
from app.engine.lock import read_endpoint
from app.engine.remote import RemoteEngine, engine_gone
from app.engine.server import EngineServer

R = TypeVar("R")
_PATIENCE_S = 20.0
_RETRY_S = 0.1
_MOST_ENGINES = 50
"""A command outlives the end of this many engines; each of them did at least the work of its own process."""


class EngineHost:
    """The engine of a data directory, wherever it runs now. Implements ``EngineApi``.

    With ``lasting`` the events go on when the engine that they come from ends, so a window outlives the worker that it
    was a guest of; without, they end with engine-gone.
    """

    def __init__(self, data: DataDir, *, work: bool, lasting: bool = False) -> None:
        self._data = data
        self._work = work
        self._lasting = lasting
        self._local: LocalEngine | None = None
        self._server: EngineServer | None = None
        self._remote: RemoteEngine | None = None
        self._change = asyncio.Lock()
        self._closed = False

    @property
    def is_host(self) -> bool:
        """Whether this process is the engine."""
        return self._local is not None

    async def open(self) -> None:
        """Become the engine, or connect to it; raises ``ExpectedError`` when neither can be."""
        async with self._change:
            await self._open()

    async def _open(self) -> None:
        deadline = asyncio.get_running_loop().time() + _PATIENCE_S
        while not self._closed:
            try:
                await self._become_engine()
            except ExpectedError as error:
                if error.code != ErrorCode.ENGINE_RUNNING:
                    raise
            else:
                return
            endpoint = read_endpoint(self._data)
            if endpoint is not None:
                try:
                    self._remote = await RemoteEngine.connect(endpoint)
                except ExpectedError:
                    pass  # it starts or ends just now
                else:
                    return
            if asyncio.get_running_loop().time() > deadline:
                raise ExpectedError(
                    ErrorCode.ENGINE_RUNNING,
                    "Another Hearthreel holds this data directory but does not answer; end it and try again.",
                )
            await asyncio.sleep(_RETRY_S)

    async def _become_engine(self) -> None:
        engine = await LocalEngine.start(self._data, work=self._work)
        server = EngineServer(engine)
        try:
            await server.start()
        except BaseException:
            await server.close()
            await engine.close()
            raise
        self._local, self._server = engine, server

    async def close(self) -> None:
        """Leave, or end the engine."""
        self._closed = True
        async with self._change:
            local, server, remote = self._local, self._server, self._remote
            self._local = self._server = self._remote = None
        try:
            if server is not None:
                await server.close()
        finally:
            if local is not None:
                await local.close()
            if remote is not None:
                await remote.close()

    async def call(self, command: api.Command[R], *, progress: api.Progress | None = None) -> R:
        for _ in range(_MOST_ENGINES):
            engine = await self._engine()
            try:
                return await engine.call(command, progress=progress)
            except ExpectedError as error:
                if error.code != ErrorCode.ENGINE_GONE or engine is not self._remote:
                    raise
        raise engine_gone()

    async def events(self) -> AsyncIterator[api.Changed]:
        while True:
            engine = await self._engine()
            try:
                async for event in engine.events():
                    yield event
            except ExpectedError as error:
                if error.code != ErrorCode.ENGINE_GONE or not self._lasting:
                    raise

    async def _engine(self) -> api.EngineApi:
        async with self._change:
            if self._remote is not None and self._remote.gone.is_set():
                await self._remote.close()
                self._remote = None
                await self._open()
            engine = self._local or self._remote
        if engine is None:
            raise ExpectedError(ErrorCode.ENGINE_GONE, "The engine was closed.")
        return engine


@asynccontextmanager
async def open_engine(data: DataDir, *, work: bool, lasting: bool = False) -> AsyncIterator[EngineHost]:
    """Lend the engine of ``data`` and leave it well."""
    host = EngineHost(data, work=work, lasting=lasting)
    await host.open()
    try:
        yield host
    finally:
        await host.close()
