"""The tray: Hearthreel helps in the background, one click away."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QApplication, QMenu, QSystemTrayIcon, QWidget

Translate = Callable[[str, str], str]


class Tray:
    """An icon whose menu opens the window and ends the program; closing the window leaves the program running."""

    def __init__(self, app: QApplication, window: QWidget, icon: QIcon, translate: Translate) -> None:
        self._window = window
        self._menu = QMenu()
        self._menu.addAction(translate("Tray", "Open Hearthreel"), self.open_window)
        self._menu.addSeparator()
        self._menu.addAction(translate("Tray", "Quit"), app.quit)
        self._icon = QSystemTrayIcon(icon, app)
        self._icon.setToolTip("Hearthreel")
        self._icon.setContextMenu(self._menu)
        self._icon.activated.connect(self._activated)
        app.setQuitOnLastWindowClosed(False)
        self._icon.show()

    @staticmethod
    def is_available() -> bool:
        """Whether this desktop has a tray."""
        return QSystemTrayIcon.isSystemTrayAvailable()

    def open_window(self) -> None:
        """Show the window in front of the others."""
        self._window.showNormal()
        self._window.raise_()
        self._window.activateWindow()

    def _activated(self, reason: QSystemTrayIcon.ActivationReason) -> None:
        if reason in {QSystemTrayIcon.ActivationReason.Trigger, QSystemTrayIcon.ActivationReason.DoubleClick}:
            self.open_window()

    def close(self) -> None:
        """Take the icon away."""
        self._icon.hide()
