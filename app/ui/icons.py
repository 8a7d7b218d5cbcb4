"""Drawn signs: line icons on a grid of 24, in the colour of the text around them, sharp at every scale."""

from __future__ import annotations

from PySide6.QtCore import QByteArray, QEvent, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPalette, QPixmap
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QPushButton, QToolButton, QWidget

_PATHS = {
    "library": "M4 5h7v6H4z M13 5h7v6h-7z M4 13h7v6H4z M13 13h7v6h-7z",
    "queue": "M4 6h16 M4 12h16 M4 18h9",
    "devices": "M3 5h12v9H3z M6.5 18h5 M9 14v4 M17.5 10H21v8.5h-3.5z",
    "done": "M12 3a9 9 0 1 1 0 18 9 9 0 0 1 0-18z M8 12.3l2.8 2.8L16 9.5",
    "trash": "M4 7h16 M9 7V4h6v3 M6 7l1 13h10l1-13 M10 11v5 M14 11v5",
    "add": "M12 5v14 M5 12h14",
    "play": "M8 5l11 7-11 7z",
    "pause": "M8 5v14 M16 5v14",
    "resume": "M8 5l11 7-11 7z",
    "retry": "M19 12a7 7 0 1 1-2.2-5.1 M17.5 3v4.2h-4.2",
    "cancel": "M6 6l12 12 M18 6L6 18",
    "remove": "M4 7h16 M9 7V4h6v3 M6 7l1 13h10l1-13 M10 11v5 M14 11v5",
    "close": "M7 7l10 10 M17 7L7 17",
    "volume": "M4 10v4h3l5 4V6l-5 4z M15.5 9.5a4 4 0 0 1 0 5 M18 7a8 8 0 0 1 0 10",
    "muted": "M4 10v4h3l5 4V6l-5 4z M16 10l5 5 M21 10l-5 5",
    "fullscreen": "M4 9V4h5 M15 4h5v5 M20 15v5h-5 M9 20H4v-5",
    "window": "M9 4v5H4 M20 9h-5V4 M15 20v-5h5 M4 15h5v5",
    "sound-track": "M9 18V6l10-2v12 "
    "M9 18a2.5 2.5 0 1 1-5 0 2.5 2.5 0 0 1 5 0z M19 16a2.5 2.5 0 1 1-5 0 2.5 2.5 0 0 1 5 0z",
    "text": "M4 5h16v14H4z M7 12h4 M13 12h4 M7 15.5h7 M16 15.5h1",
    "chapters": "M5 6h.5 M9 6h10 M5 12h.5 M9 12h10 M5 18h.5 M9 18h10",
    "details": "M12 11v6 M12 7.5v.5 M12 3a9 9 0 1 1 0 18 9 9 0 0 1 0-18z",
    "export": "M12 15V4 M8 8l4-4 4 4 M5 14v6h14v-6",
    "drop": "M12 4v11 M7.5 10.5L12 15l4.5-4.5 M4 15v5h16v-5",
    "film": "M4 5h16v14H4z M8 5v14 M16 5v14 M4 9.7h4 M4 14.3h4 M16 9.7h4 M16 14.3h4",
}
_FILLED = frozenset({"play", "resume"})
_APPEARANCE_EVENTS = frozenset({QEvent.Type.PaletteChange, QEvent.Type.ApplicationPaletteChange})
_SIZES = (16, 20, 24, 32, 48, 64, 96)


def paint_icon(painter: QPainter, name: str, rect: QRectF, colour: QColor) -> None:
    """Draw the sign ``name`` into ``rect``."""
    fill = colour.name() if name in _FILLED else "none"
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"><path d="{_PATHS[name]}" fill="{fill}" '
        f'stroke="{colour.name()}" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round"/></svg>'
    )
    painter.save()
    painter.setOpacity(painter.opacity() * colour.alphaF())
    QSvgRenderer(QByteArray(svg.encode())).render(painter, rect)
    painter.restore()


def icon(name: str, colour: QColor) -> QIcon:
    """Return the sign ``name`` at all usual sizes, and paler for disabled controls."""
    made = QIcon()
    pale = QColor(colour)
    pale.setAlphaF(colour.alphaF() * 0.4)
    for size in _SIZES:
        for mode, tint in ((QIcon.Mode.Normal, colour), (QIcon.Mode.Disabled, pale)):
            pixmap = QPixmap(size, size)
            pixmap.fill(Qt.GlobalColor.transparent)
            painter = QPainter(pixmap)
            paint_icon(painter, name, QRectF(0, 0, size, size), tint)
            painter.end()
            made.addPixmap(pixmap, mode)
    return made


class SignButton(QPushButton):
    """A button with a sign and words, both in the colour of the appearance."""

    def __init__(self, name: str, text: str, look: str, parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self._name = name
        self.setObjectName(look)
        self.setIconSize(QSize(18, 18))
        self._draw()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in _APPEARANCE_EVENTS:
            self._draw()

    def _draw(self) -> None:
        self.setIcon(icon(self._name, _text_colour(self)))


class IconButton(QToolButton):
    """A button with a sign that follows the appearance; ``tip`` is also its accessible name."""

    def __init__(self, name: str, tip: str, parent: QWidget | None = None, *, is_flat: bool = True) -> None:
        super().__init__(parent)
        self._name = name
        if is_flat:
            self.setObjectName("flat")
        self.setIconSize(QSize(20, 20))
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.show_as(name, tip)

    def show_as(self, name: str, tip: str) -> None:
        """Change what the button shows and says."""
        self._name = name
        self.setToolTip(tip)
        self.setAccessibleName(tip)
        self._draw()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in _APPEARANCE_EVENTS:
            self._draw()

    def _draw(self) -> None:
        self.setIcon(icon(self._name, _text_colour(self)))


def _text_colour(widget: QWidget) -> QColor:
    return widget.palette().color(QPalette.ColorGroup.Active, QPalette.ColorRole.ButtonText)
