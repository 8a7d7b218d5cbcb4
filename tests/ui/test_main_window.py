"""The window as a person uses it: adding, queue, library, trouble, closing."""

from __future__ import annotations

from pytestqt.qtbot import QtBot

from app.ui.main_window import MainWindow
from tests.ui.fake_engine import FakeEngine, make_job


def test_a_job_told_by_the_engine_appears_in_the_queue(qtbot: QtBot, window: MainWindow, engine: FakeEngine) -> None:
    engine.put_jobs(make_job("Nosferatu"))
    model = window.queue.list.model()
    qtbot.waitUntil(lambda: model.rowCount() == 1)
    assert model.index(0, 0).data() == "Nosferatu"
