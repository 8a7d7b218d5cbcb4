"""The window with its engine: Qt on the main thread, the engine's event loop on one of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from app.core.paths import DataDir
from app.engine.folders import expand_paths
from app.engine.host import EngineHost


def show_window(data: DataDir, *, play: str | None = None, tray: bool = False) -> int:
    """Show the app until it is closed; ``play`` opens the player on a film at once, ``tray`` starts in the tray."""
    from app.ui.application import run_window  # noqa: PLC0415 (Qt takes its time to load)

    with engine_thread(data) as (engine, loop):
        return run_window(api=engine, loop=loop, play=play, expand_paths=expand_paths, in_tray=tray)


@contextmanager
def engine_thread(data: DataDir) -> Iterator[tuple[EngineHost, asyncio.AbstractEventLoop]]:
    """Run the engine on a thread of its own; raises ``ExpectedError`` when it cannot start."""
    loop = asyncio.new_event_loop()
    host = EngineHost(data, work=True, lasting=True)
    thread = threading.Thread(target=_run_loop, args=(loop,), name="engine")
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(host.open(), loop).result()
        yield host, loop
    finally:
        asyncio.run_coroutine_threadsafe(host.close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
