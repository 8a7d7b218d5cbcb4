"""The tray icon's menu; whether a desktop has a tray is the desktop's matter."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.ui.application import make_app_icon
from app.ui.tray import Tray

pytestmark = pytest.mark.qt_log_ignore("systemTrayWindowChanged")
"""Qt's platform without a screen has no tray and says so."""


@pytest.fixture
def tray(qtbot: QtBot, qapp: QApplication) -> Iterator[tuple[Tray, QWidget]]:
    window = QWidget()
    qtbot.addWidget(window)
    made = Tray(qapp, window, make_app_icon(), lambda _context, text: text)
    yield made, window
    made.close()
    qapp.setQuitOnLastWindowClosed(True)


def test_the_menu_opens_the_window(tray: tuple[Tray, QWidget]) -> None:
    made, window = tray
    assert not window.isVisible()
    made._menu.actions()[0].trigger()
    assert window.isVisible()


def test_closing_the_window_must_not_end_the_program(tray: tuple[Tray, QWidget], qapp: QApplication) -> None:
    assert tray
    assert not qapp.quitOnLastWindowClosed()
