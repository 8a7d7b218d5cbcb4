"""Where Qt's main thread and the engine's event loop meet, and nowhere else.

Commands go over with ``asyncio.run_coroutine_threadsafe``; replies, progress and events come back through one queued
signal, so that they arrive on Qt's thread in the order in which they happened (U2).

The events of an engine that goes away are asked for again, after a growing pause: the first event of each connection
holds everything, so nothing is missed.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
from collections.abc import Callable
from typing import Any, TypeVar

from PySide6.QtCore import QObject, Qt, Signal, Slot

from app.core.errors import ErrorCode, ErrorInfo, ExpectedError
from app.engine.api import Changed, Command, EngineApi

R = TypeVar("R")

OnError = Callable[[ErrorInfo], None]
_Delivery = Callable[[], None]
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 8.0

_log = logging.getLogger(__name__)


def error_info_of(error: BaseException) -> ErrorInfo:
    """Return what to show for ``error``; a bug's own text is for the log, not for people."""
    if isinstance(error, ExpectedError):
        return error.info
    return ErrorInfo(
        code=str(ErrorCode.INTERNAL),
        message="Something went wrong inside Hearthreel; nothing was lost. Try again, and report it with the log.",
    )


class Call:
    """A command under way."""

    def __init__(self) -> None:
        self._future: concurrent.futures.Future[Any] | None = None

    def cancel(self) -> None:
        """Stop the command; neither of its callbacks is called any more."""
        if self._future is not None:
            self._future.cancel()


class EngineBridge(QObject):
    """Commands to an engine that lives in ``loop`` on another thread; its events as signals on Qt's thread."""

    changed = Signal(object, bool)
    """``Changed``, and whether it holds everything."""
    lost = Signal(object)
    """``ErrorInfo``: no events come for now; ``changed`` follows when they do again."""

    _crossed = Signal(object)

    def __init__(
        self,
        api: EngineApi,
        loop: asyncio.AbstractEventLoop,
        *,
        first_pause_s: float = _FIRST_PAUSE_S,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._api = api
        self._loop = loop
        self._first_pause_s = first_pause_s
        self._is_closed = False
        self._pump: concurrent.futures.Future[None] | None = None
        self._running: set[concurrent.futures.Future[Any]] = set()
        self._crossed.connect(self._deliver, Qt.ConnectionType.QueuedConnection)

    def start(self) -> None:
        """Begin to listen to events."""
        self._pump = self._submit(self._listen())

    def send(
        self,
        command: Command[R],
        on_reply: Callable[[R], None] | None = None,
        on_error: OnError | None = None,
        on_progress: Callable[[float, str], None] | None = None,
    ) -> Call:
        """Ask the engine for ``command``; at most one of ``on_reply`` and ``on_error`` is called, on Qt's thread."""
        call = Call()

        def report(share: float, word: str) -> None:
            if on_progress is not None:
                self._cross(lambda: on_progress(share, word))

        async def ask() -> R:
            return await self._api.call(command, progress=report if on_progress is not None else None)

        future = self._submit(ask())
        if future is None:
            gone = ErrorInfo(
                code=str(ErrorCode.ENGINE_GONE), message="The engine has stopped. Start Hearthreel again to go on."
            )
            self._cross(lambda: on_error(gone) if on_error else None)
            return call
        call._future = future  # noqa: SLF001 (its other half)
        self._running.add(future)
        future.add_done_callback(lambda done: self._cross(lambda: self._settle(done, on_reply, on_error)))
        return call

    def close(self, *, wait_s: float = 0.0) -> None:
        """Stop listening and deliver nothing more; what was asked is still carried out, for ``wait_s`` seconds at most.

        With ``wait_s`` it blocks; only for when the windows are gone.
        """
        self._is_closed = True
        if self._pump is not None:
            self._pump.cancel()
        if wait_s > 0:
            concurrent.futures.wait(self._running, timeout=wait_s)

    def _submit(self, coroutine: Any) -> concurrent.futures.Future[Any] | None:
        """Hand ``coroutine`` to the engine's loop; None when the loop is over."""
        if self._loop.is_closed():
            coroutine.close()
            return None
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:  # closed in between
            coroutine.close()
            return None

    def _settle(
        self,
        done: concurrent.futures.Future[R],
        on_reply: Callable[[R], None] | None,
        on_error: OnError | None,
    ) -> None:
        self._running.discard(done)
        if done.cancelled():
            return
        error = done.exception()
        if error is None:
            if on_reply is not None:
                on_reply(done.result())
            return
        if not isinstance(error, ExpectedError):
            _log.error("a command failed", exc_info=error)
        if on_error is not None:
            on_error(error_info_of(error))

    async def _listen(self) -> None:
        pause_s = self._first_pause_s
        while True:
            try:
                is_everything = True
                async for event in self._api.events():
                    self._announce(event, is_everything=is_everything)
                    is_everything, pause_s = False, self._first_pause_s
                problem = ErrorInfo(code=str(ErrorCode.ENGINE_GONE), message="")
            except Exception as error:  # noqa: BLE001 (the edge: an engine of another process can end in any way)
                problem = error_info_of(error)
            self._cross(lambda problem=problem: self.lost.emit(problem))  # type: ignore[misc]
            await asyncio.sleep(pause_s)
            pause_s = min(_LONGEST_PAUSE_S, pause_s * 2)

    def _announce(self, event: Changed, *, is_everything: bool) -> None:
        self._cross(lambda: self.changed.emit(event, is_everything))

    def _cross(self, delivery: _Delivery) -> None:
        """Have ``delivery`` called on Qt's thread; from any thread."""
        if not self._is_closed:
            try:
                self._crossed.emit(delivery)
            except RuntimeError:  # the window's side was deleted meanwhile
                _log.debug("a delivery came after the window had gone")

    @Slot(object)
    def _deliver(self, delivery: _Delivery) -> None:
        if not self._is_closed:
            delivery()
