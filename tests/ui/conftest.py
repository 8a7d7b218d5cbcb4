"""Fixtures of the window's tests: no screen, an engine in memory on a thread of its own, and no stray Qt warning."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QtMsgType
from pytestqt.qtbot import QtBot

from app.ui.bridge import EngineBridge
from app.ui.controller import Controller
from app.ui.main_window import MainWindow
from app.ui.wording import Wording
from tests.ui.fake_engine import FakeEngine

_BARE_MACHINE = ("This plugin does not support", "No audio device", "PulseAudioService: ", "No RHI backend")
"""What Qt says where there is no screen, no sound and no graphics card."""


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Run an event loop on another thread, as the engine's does."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="engine")
    thread.start()
    yield loop

    async def end() -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await loop.shutdown_asyncgens()

    asyncio.run_coroutine_threadsafe(end(), loop).result(5)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(5)
    loop.close()


@pytest.fixture
def engine(loop: asyncio.AbstractEventLoop) -> FakeEngine:
    """Return an engine in memory."""
    return FakeEngine(loop)


@pytest.fixture
def bridge(qtbot: QtBot, engine: FakeEngine, loop: asyncio.AbstractEventLoop) -> Iterator[EngineBridge]:
    """Return a started bridge to ``engine``."""
    del qtbot
    bridge = EngineBridge(engine, loop, first_pause_s=0.01)
    bridge.start()
    yield bridge
    bridge.close(wait_s=2)


@pytest.fixture
def controller(bridge: EngineBridge) -> Iterator[Controller]:
    """Return a controller on ``bridge`` that walks folders flatly."""
    controller = Controller(bridge, Wording(), expand_paths=list_folder)
    yield controller
    controller.close()


@pytest.fixture
def window(qtbot: QtBot, controller: Controller) -> MainWindow:
    """Return the main window, shown and loaded."""
    window = MainWindow(controller)
    qtbot.addWidget(window)
    window.show()
    qtbot.waitUntil(lambda: len(controller.loaded) == 3)
    return window


@pytest.fixture(scope="session", autouse=True)
def _keep_modules_out_of_collections() -> Iterator[None]:
    """Let collections between tests look only at what tests make."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _collect_on_this_thread() -> Iterator[None]:
    """Let garbage be collected between tests, on this thread: widgets must not end on the engine's."""
    gc.disable()
    yield
    gc.collect()
    gc.enable()


@pytest.fixture(autouse=True)
def _no_qt_warnings(qtlog: object) -> Iterator[None]:
    """Fail a test during which Qt warned of something."""
    yield
    quiet = {QtMsgType.QtDebugMsg, QtMsgType.QtInfoMsg}
    records = [record for record in getattr(qtlog, "records", []) if not record.ignored]
    bad = [record.message for record in records if record.type not in quiet]
    bad = [message for message in bad if not any(usual in message for usual in _BARE_MACHINE)]
    assert not bad


def list_folder(paths: object) -> Iterator[bytes]:
    """Yield files as they are and what lies directly in folders, sorted."""
    assert isinstance(paths, list)
    for path in paths:
        here = Path(os.fsdecode(path))
        if here.is_dir():
            yield from (os.fsencode(one) for one in sorted(here.iterdir()))
        else:
            yield path
