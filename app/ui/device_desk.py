"""What a window knows of the owner's devices, and the dialogs about them.

The engine tells nothing of devices by itself, so the list is asked for again and again, but only while somebody looks
at it, and never while an answer is still to come.
"""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtWidgets import QWidget

from app.core.errors import ErrorInfo
from app.engine.api import ListDevices, SpaceSnapshot
from app.ui.bridge import EngineBridge
from app.ui.device_dialogs import (
    AskingDialog,
    ConfirmWordsDialog,
    InviteDialog,
    JoinDialog,
    ShutOutDialog,
    WordsDialog,
)
from app.ui.device_presenters import DeviceAction, DeviceRow, DevicesPage, present_devices
from app.ui.devices_view import DevicesView
from app.ui.wording import Wording

POLL_MS = 1500


class DeviceWatch(QObject):
    """Keeps the list fresh while it is watched."""

    changed = Signal(object)
    """``DevicesPage``, when it differs from the one before."""

    def __init__(
        self, bridge: EngineBridge, wording: Wording, *, poll_ms: int = POLL_MS, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._bridge = bridge
        self._wording = wording
        self._space: SpaceSnapshot | None = None
        self._is_asking = False
        self._is_outdated = False
        self.page = DevicesPage()
        self._timer = QTimer(self)
        self._timer.setInterval(poll_ms)
        self._timer.timeout.connect(self._poll)

    def watch(self, is_seen: bool) -> None:  # noqa: FBT001 (a Qt slot)
        """Begin to ask, or stop."""
        if is_seen:
            self._timer.start()
            self.refresh()
        else:
            self._timer.stop()

    def refresh(self) -> None:
        """Ask now, or once more after the answer that is to come: what was done since is not in it."""
        if self._is_asking:
            self._is_outdated = True
            return
        self._is_asking, self._is_outdated = True, False
        self._bridge.send(ListDevices(), self._came, self._failed)

    def _poll(self) -> None:
        if not self._is_asking:
            self.refresh()

    def _came(self, space: SpaceSnapshot) -> None:
        self._space = space
        self._show(None)

    def _failed(self, info: ErrorInfo) -> None:
        self._show(info)

    def _show(self, trouble: ErrorInfo | None) -> None:
        self._is_asking = False
        page = present_devices(self._space, trouble, self._wording)
        if page != self.page:
            self.page = page
            self.changed.emit(page)
        if self._is_outdated:
            self.refresh()


class DeviceDesk(QObject):
    """The page with all that can be done from it; dialogs open in front of ``window``."""

    def __init__(self, bridge: EngineBridge, wording: Wording, window: QWidget, *, poll_ms: int = POLL_MS) -> None:
        super().__init__(window)
        self._bridge = bridge
        self._wording = wording
        self._window = window
        self.view = DevicesView()
        self.watch = DeviceWatch(bridge, wording, poll_ms=poll_ms, parent=self)
        self.watch.changed.connect(self.view.show_page)
        self.view.seen.connect(self.watch.watch)
        self.view.words_wanted.connect(self.show_words)
        self.view.confirm_wanted.connect(self.confirm_words)
        self.view.wanted.connect(self._on_wish)

    def add_device(self) -> None:
        """Show a code."""
        dialog = InviteDialog(self._bridge, self._wording, self._window)
        dialog.joined.connect(self.watch.refresh)
        dialog.open()

    def join(self) -> None:
        """Take a code."""
        dialog = JoinDialog(self._bridge, self._wording, self._window)
        dialog.joined.connect(self.watch.refresh)
        dialog.open()

    def show_words(self) -> None:
        """Show the words."""
        dialog = WordsDialog(self._bridge, self._wording, self._window)
        dialog.confirm_wanted.connect(self.confirm_words)
        dialog.open()

    def confirm_words(self) -> None:
        """Ask for some of the words."""
        dialog = ConfirmWordsDialog(self._bridge, self._wording, self._window)
        dialog.confirmed.connect(self.watch.refresh)
        dialog.show_wanted.connect(self.show_words)
        dialog.open()

    def _on_wish(self, row: DeviceRow, wish: DeviceAction) -> None:
        if wish == DeviceAction.SHUT_OUT:
            dialog = ShutOutDialog(self._bridge, self._wording, row, self._window)
            dialog.shut_out.connect(self.watch.refresh)
            dialog.open()

    def close_dialogs(self) -> None:
        """Close what is open; a code that is shown becomes void."""
        for dialog in self._window.findChildren(AskingDialog):
            dialog.close()
