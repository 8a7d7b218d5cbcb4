"""Collects cyclic garbage on Qt's thread only.

Python's collector runs on whichever thread happens to allocate. When that is the engine's, and a widget or a menu is
part of a cycle that nobody holds any more, its C++ half is deleted there, while Qt's thread may be using it: a crash
now and then. So while a window is open the automatic collector is off, and a timer of Qt's thread does its work by the
collector's own thresholds.
"""

from __future__ import annotations

import gc

from PySide6.QtCore import QObject, QTimer

_INTERVAL_MS = 500


class MainThreadCollector(QObject):
    """Takes over from the automatic collector until ``close``; lives on Qt's thread."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._was_on = gc.isenabled()
        gc.disable()
        self._timer = QTimer(self, interval=_INTERVAL_MS)
        self._timer.timeout.connect(self.look)
        self._timer.start()

    def look(self) -> None:
        """Collect the oldest generation that is due, with all younger ones."""
        due = [
            number
            for number, (count, limit) in enumerate(zip(gc.get_count(), gc.get_threshold(), strict=True))
            if count > limit > 0
        ]
        if due:
            gc.collect(due[-1])

    def close(self) -> None:
        """Collect once more and give the work back."""
        self._timer.stop()
        gc.collect()
        if self._was_on:
            gc.enable()
