"""Ctrl-C while Qt waits for events."""

from __future__ import annotations

import os
import signal
import sys

import pytest
from pytestqt.qtbot import QtBot

from app.ui.interrupts import interrupts_call


@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot send itself Ctrl-C there")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_request_to_end_reaches_the_window_while_nothing_else_happens(qtbot: QtBot, number: signal.Signals) -> None:
    ended: list[bool] = []
    with interrupts_call(lambda: ended.append(True)):
        os.kill(os.getpid(), number)
        qtbot.waitUntil(lambda: bool(ended))


def test_the_old_handlers_are_back_afterwards() -> None:
    before = signal.getsignal(signal.SIGINT)
    with interrupts_call(lambda: None):
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
