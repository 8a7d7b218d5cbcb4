"""The window from start to end, as the composition root runs it."""

from __future__ import annotations

import asyncio

import pytest
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.engine.api import AddPath, OpenPlayer
from app.ui.application import make_app_icon, run_window
from app.ui.main_window import MainWindow
from tests.ui.fake_engine import FakeEngine, make_film

pytestmark = pytest.mark.no_qt_log  # for the reason that stands in test_player_window.py


def close_when(ready: object) -> QTimer:
    """Close the main window as soon as ``ready`` says so."""
    timer = QTimer(interval=5)

    def look() -> None:
        windows = [one for one in QApplication.topLevelWidgets() if isinstance(one, MainWindow) and one.isVisible()]
        if windows and callable(ready) and ready(windows[0]):
            timer.stop()
            windows[0].close()

    timer.timeout.connect(look)
    timer.start()
    return timer


def test_the_window_runs_until_it_is_closed_and_ends_with_zero(
    qtbot: QtBot, engine: FakeEngine, loop: asyncio.AbstractEventLoop
) -> None:
    del qtbot
    engine.films["m"] = make_film("Film", media_id="m")
    timer = close_when(lambda window: window.library.model().rowCount() == 1)
    assert run_window(api=engine, loop=loop) == 0
    assert not timer.isActive()
    assert QApplication.applicationDisplayName() == "Hearthreel"


def test_a_film_named_at_start_is_opened(qtbot: QtBot, engine: FakeEngine, loop: asyncio.AbstractEventLoop) -> None:
    del qtbot
    timer = close_when(lambda window: "m" in window.players and bool(engine.called(OpenPlayer)))
    assert run_window(api=engine, loop=loop, play="m") == 0
    assert not timer.isActive()
    assert engine.called(OpenPlayer) == [OpenPlayer(media_id="m")]


def test_what_was_asked_last_is_carried_out_after_the_window_closed(
    qtbot: QtBot, engine: FakeEngine, loop: asyncio.AbstractEventLoop
) -> None:
    del qtbot
    engine.hold(AddPath)

    def ready(window: MainWindow) -> bool:
        if not engine.called(AddPath):
            window._controller.intake.add([b"/film.mp4"])
            return False
        engine.release(AddPath)
        return True

    timer = close_when(ready)
    assert run_window(api=engine, loop=loop) == 0
    assert not timer.isActive()
    assert len(engine.jobs) == 1


def test_folders_are_expanded_by_what_the_root_gives(
    qtbot: QtBot, engine: FakeEngine, loop: asyncio.AbstractEventLoop
) -> None:
    del qtbot
    asked: list[MainWindow] = []

    def ready(window: MainWindow) -> bool:
        if not asked:
            asked.append(window)
            window._controller.intake.add([b"/folder"])
        return len(engine.jobs) == 2

    close_when(ready)
    assert (
        run_window(
            api=engine, loop=loop, expand_paths=lambda paths: (paths[0] + name for name in (b"/a.mp4", b"/b.mkv"))
        )
        == 0
    )
    assert {command.path for command in engine.called(AddPath)} == {b"/folder/a.mp4", b"/folder/b.mkv"}


def test_the_sign_has_all_usual_sizes(qtbot: QtBot) -> None:
    del qtbot
    assert {size.width() for size in make_app_icon().availableSizes()} == {16, 32, 64, 128, 256}
