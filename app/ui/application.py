"""Starts the window on an engine that runs in another thread.

Nobody may install a message handler of Qt that is written in Python: the threads of the media player log while Qt's
thread waits for them inside a call that holds the interpreter, and both would wait for ever (seen in tests).
"""

from __future__ import annotations

import asyncio
import sys

from PySide6.QtCore import QCoreApplication, QRectF, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPixmap
from PySide6.QtWidgets import QApplication

from app.engine.api import EngineApi
from app.ui.bridge import EngineBridge
from app.ui.collector import MainThreadCollector
from app.ui.controller import Controller
from app.ui.icons import paint_icon
from app.ui.intake import ExpandPaths, keep_paths
from app.ui.interrupts import interrupts_call
from app.ui.main_window import MainWindow
from app.ui.theme import LIGHT, follow_system
from app.ui.tray import Tray
from app.ui.wording import Wording

_LAST_CALLS_S = 3.0
"""How long what was asked for last may take after the window closed."""


def make_app_icon() -> QIcon:
    """Return the application's sign: a reel's play sign on an ember ground."""
    made = QIcon()
    for size in (16, 32, 64, 128, 256):
        pixmap = QPixmap(size, size)
        pixmap.fill(Qt.GlobalColor.transparent)
        painter = QPainter(pixmap)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(LIGHT.accent))
        painter.drawRoundedRect(QRectF(0, 0, size, size), size * 0.22, size * 0.22)
        inset = size * 0.18
        paint_icon(painter, "play", QRectF(inset, inset, size - 2 * inset, size - 2 * inset), QColor("#ffffff"))
        painter.end()
        made.addPixmap(pixmap)
    return made


def translate(context: str, text: str) -> str:
    """Return ``text`` in the person's language, from Qt's translation files."""
    return QCoreApplication.translate(context, text)


def prepare_application() -> QApplication:
    """Return the one application object, dressed."""
    existing = QApplication.instance()
    app = existing if isinstance(existing, QApplication) else QApplication(sys.argv[:1])
    app.setApplicationName("hearthreel")
    app.setApplicationDisplayName("Hearthreel")
    app.setDesktopFileName("hearthreel")
    app.setWindowIcon(make_app_icon())
    follow_system(app)
    return app


def run_window(
    *,
    api: EngineApi,
    loop: asyncio.AbstractEventLoop,
    play: str | None = None,
    expand_paths: ExpandPaths = keep_paths,
    in_tray: bool = False,
) -> int:
    """Show the window until it is closed; return the exit code.

    ``api`` lives in ``loop``, which runs on another thread and goes on after this returns. ``play`` is the media id of
    a film to play at once. ``expand_paths`` turns dropped files and folders into files, on a thread of its own.
    With ``in_tray`` only the tray icon is shown at first, where there is a tray.
    """
    app = prepare_application()
    collector = MainThreadCollector()
    bridge = EngineBridge(api, loop)
    controller = Controller(bridge, Wording(translate), expand_paths=expand_paths)
    window = MainWindow(controller)
    bridge.start()
    tray = Tray(app, window, app.windowIcon(), translate) if in_tray and Tray.is_available() else None
    if tray is None:
        window.show()
    if play is not None:
        window.play(play)
    try:
        with interrupts_call(app.quit):
            return app.exec()
    finally:
        if tray is not None:
            tray.close()
        controller.close()
        bridge.close(wait_s=_LAST_CALLS_S)
        collector.close()
