"""Getting hold of the engine of a data directory: be it, or be a client of the process that is.

::

    lock free ──► LocalEngine + server        lock held ──► RemoteEngine
                                                   │ that engine ends
                                                   ▼
                            a long-lived client tries to take the lock over
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
from app.engine.remote import RemoteEngine
from app.engine.server import EngineServer

R = TypeVar("R")
_PATIENCE_S = 10.0
_RETRY_S = 0.1


class EngineHost:
    """The engine of a data directory, wherever it runs now. Implements ``EngineApi``.

    With ``lasting`` a client takes over when the engine that it talks to ends, so a window outlives the worker that it
    was a guest of.
    """

    def __init__(self, data: DataDir, *, work: bool, lasting: bool = False) -> None:
        self._data = data
        self._work = work
        self._lasting = lasting
        self._local: LocalEngine | None = None
        self._server: EngineServer | None = None
        self._remote: RemoteEngine | None = None
        self._change = asyncio.Lock()

    @property
    def is_host(self) -> bool:
        """Whether this process is the engine."""
        return self._local is not None

    async def open(self) -> None:
        """Become the engine, or connect to it; raises ``ExpectedError`` when neither can be."""
        deadline = asyncio.get_running_loop().time() + _PATIENCE_S
        while True:
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
        self._local = await LocalEngine.start(self._data, work=self._work)
        self._server = EngineServer(self._local)
        await self._server.start()

    async def close(self) -> None:
        """Leave, or end the engine."""
        if self._server is not None:
            await self._server.close()
        if self._local is not None:
            await self._local.close()
        if self._remote is not None:
            await self._remote.close()
        self._local = self._server = self._remote = None

    async def call(self, command: api.Command[R], *, progress: api.Progress | None = None) -> R:
        engine = await self._engine()
        return await engine.call(command, progress=progress)

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
        if self._local is not None:
            return self._local
        async with self._change:
            if self._remote is not None and self._remote.gone.is_set() and self._lasting:
                await self._remote.close()
                self._remote = None
                await self.open()
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
