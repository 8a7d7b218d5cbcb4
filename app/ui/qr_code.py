"""A QR code whose modules are whole pixels of the screen at every scale; the window's one door to segno."""

from __future__ import annotations

import segno
from PySide6.QtCore import QPoint, QPointF, QRect, QSize
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.ui.theme import RADIUS, tokens_of

QUIET_MODULES = 4
"""The light margin that cameras need."""
_SIDE = 208
# always dark on light: many cameras do not read the opposite, however dark the window is
_LIGHT, _DARK = QColor("#ffffff"), QColor("#000000")


class QrCode(QWidget):
    """Draws a text; empty, it draws nothing."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._modules: tuple[bytes, ...] = ()
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def show_text(self, text: str) -> None:
        """Become the code of ``text``."""
        modules = tuple(bytes(row) for row in segno.make(text, error="m", micro=False).matrix) if text else ()
        if modules != self._modules:
            self._modules = modules
            self.update()

    @property
    def modules(self) -> tuple[bytes, ...]:
        """Rows of modules, 1 for dark."""
        return self._modules

    def sizeHint(self) -> QSize:
        return QSize(_SIDE, _SIDE)

    def module_area(self, ratio: float, origin: QPointF) -> QRect:
        """Return where the modules lie, in pixels of the screen from ``origin``; whole pixels per module."""
        count = len(self._modules)
        side_px = min(self.width(), self.height()) * ratio
        module_px = max(1, int(side_px // (count + 2 * QUIET_MODULES)))
        slack_x = (self.width() * ratio - module_px * count) / 2
        slack_y = (self.height() * ratio - module_px * count) / 2
        return QRect(round(origin.x() + slack_x), round(origin.y() + slack_y), module_px * count, module_px * count)

    def paintEvent(self, event: QPaintEvent) -> None:
        del event
        if not self._modules:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QColor(tokens_of(self).border))
        painter.setBrush(_LIGHT)
        painter.drawRoundedRect(self.rect().adjusted(0, 0, -1, -1), RADIUS, RADIUS)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, on=False)
        ratio = self.devicePixelRatioF()
        origin = QPointF(self.mapTo(self.window(), QPoint(0, 0))) * ratio
        area = self.module_area(ratio, origin)
        painter.translate(-origin / ratio)
        painter.scale(1 / ratio, 1 / ratio)
        self._paint_modules(painter, area)
        painter.end()

    def _paint_modules(self, painter: QPainter, area: QRect) -> None:
        module_px = area.width() // len(self._modules)
        for y, row in enumerate(self._modules):
            for x, dark in enumerate(row):
                if dark:
                    painter.fillRect(
                        area.left() + x * module_px, area.top() + y * module_px, module_px, module_px, _DARK
                    )
