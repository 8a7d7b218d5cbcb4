"""Garbage ends on Qt's thread."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator

import pytest
from pytestqt.qtbot import QtBot

from app.ui.collector import MainThreadCollector


class Knot:
    """Holds itself, and notes the thread on which it ends."""

    ended_on: list[threading.Thread]

    def __init__(self, ended_on: list[threading.Thread]) -> None:
        self.itself = self
        weakref.finalize(self, lambda: ended_on.append(threading.current_thread()))


@pytest.fixture
def collector(qtbot: QtBot) -> Iterator[MainThreadCollector]:
    """Return a collector at work."""
    del qtbot
    gc.enable()
    collector = MainThreadCollector()
    yield collector
    collector.close()
    gc.disable()


def test_knots_tied_on_another_thread_are_undone_on_this_one(qtbot: QtBot, collector: MainThreadCollector) -> None:
    ended_on: list[threading.Thread] = []
    tied = threading.Thread(target=lambda: [Knot(ended_on) for _ in range(5000)])
    tied.start()
    tied.join()
    assert ended_on == []
    collector._timer.setInterval(1)
    qtbot.waitUntil(lambda: len(ended_on) == 5000)
    assert set(ended_on) == {threading.main_thread()}


def test_the_automatic_collector_is_back_afterwards(collector: MainThreadCollector) -> None:
    assert not gc.isenabled()
    collector.close()
    assert gc.isenabled()
