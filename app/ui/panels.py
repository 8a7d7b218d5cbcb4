"""The parts around the lists: sidebar, header, pages for where nothing is, and the veil while something is dragged."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QColor, QFont, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QButtonGroup, QHBoxLayout, QLabel, QLineEdit, QPushButton, QVBoxLayout, QWidget

from app.ui.icons import SignButton, paint_icon
from app.ui.notices import plain_label
from app.ui.presenters import Section
from app.ui.theme import RADIUS, SPACE, scaled_font, tokens_of


class SectionButton(SignButton):
    """One entry of the sidebar, with a number where there is something to count."""

    def __init__(self, name: str, text: str, parent: QWidget | None = None) -> None:
        super().__init__(name, text, "section", parent)
        self._label = text
        self.setCheckable(True)
        self._badge = QLabel()
        self._badge.setObjectName("badge")
        self._badge.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._badge.setFixedHeight(20)
        self._badge.hide()
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, SPACE, 0)
        row.addStretch(1)
        row.addWidget(self._badge, 0, Qt.AlignmentFlag.AlignVCenter)

    def count(self, number: int, *, is_alarm: bool, spoken: str) -> None:
        """Show ``number``; ``spoken`` is what a screen reader says."""
        self._badge.setText(str(number))
        self._badge.setVisible(number > 0)
        if self._badge.property("alarm") != is_alarm:
            self._badge.setProperty("alarm", is_alarm)
            self._badge.style().polish(self._badge)
        self.setAccessibleName(f"{self._label}, {spoken}" if number else self._label)


class Sidebar(QWidget):
    """Where to go."""

    chosen = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("sidebar")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        name = QLabel("Hearthreel")
        name.setFont(scaled_font(self.font(), 1.35, weight=QFont.Weight.Bold))
        name.setContentsMargins(10, 0, 0, 2 * SPACE)
        self.buttons = {
            Section.LIBRARY: SectionButton("library", self.tr("Library")),
            Section.QUEUE: SectionButton("queue", self.tr("Queue")),
            Section.DEVICES: SectionButton("devices", self.tr("Devices")),
            Section.TRASH: SectionButton("trash", self.tr("Trash")),
        }
        self._group = QButtonGroup(self)
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 20, 12, 16)
        column.setSpacing(SPACE // 2)
        column.addWidget(name)
        for section, button in self.buttons.items():
            self._group.addButton(button, section)
            column.addWidget(button)
        column.addStretch(1)
        self._group.idClicked.connect(self.chosen)
        self.setFixedWidth(max(190, self.fontMetrics().averageCharWidth() * 27))

    def show_chosen(self, section: Section) -> None:
        """Mark ``section``."""
        self.buttons[section].setChecked(True)


class EmptyPage(QWidget):
    """What to do where nothing is yet."""

    def __init__(self, sign: str, heading: str, text: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._sign = sign
        self._space = QWidget()
        self._space.setFixedHeight(72)
        title = plain_label(heading)
        title.setFont(scaled_font(self.font(), 1.5, weight=QFont.Weight.DemiBold))
        title.setAlignment(Qt.AlignmentFlag.AlignCenter)
        body = plain_label(text, is_muted=True)
        body.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.buttons = QHBoxLayout()
        self.buttons.setSpacing(SPACE)
        column = QVBoxLayout(self)
        column.setSpacing(SPACE)
        column.addStretch(2)
        column.addWidget(self._space)
        column.addWidget(title)
        column.addWidget(body)
        column.addSpacing(SPACE)
        column.addLayout(self.buttons)
        column.addStretch(3)

    def add_buttons(self, *buttons: QPushButton) -> None:
        """Put ``buttons`` below the text."""
        self.buttons.addStretch(1)
        for button in buttons:
            self.buttons.addWidget(button)
        self.buttons.addStretch(1)

    def paintEvent(self, event: QPaintEvent) -> None:
        del event
        painter = QPainter(self)
        place = QRectF(0, 0, 56, 56)
        place.moveCenter(QRectF(self._space.geometry()).center())
        paint_icon(painter, self._sign, place, QColor(tokens_of(self).accent_text))


class DropVeil(QWidget):
    """Lies over the window while something is dragged over it."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.hide()

    def paintEvent(self, event: QPaintEvent) -> None:
        del event
        tokens = tokens_of(self)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        ground = QColor(tokens.window)
        ground.setAlphaF(0.97)
        painter.fillRect(self.rect(), ground)
        frame = QRectF(self.rect()).adjusted(3 * SPACE, 3 * SPACE, -3 * SPACE, -3 * SPACE)
        painter.setPen(QPen(QColor(tokens.accent_text), 2, Qt.PenStyle.DashLine))
        painter.drawRoundedRect(frame, 2 * RADIUS, 2 * RADIUS)
        sign = QRectF(0, 0, 64, 64)
        sign.moveCenter(frame.center())
        sign.translate(0, -28)
        paint_icon(painter, "drop", sign, QColor(tokens.accent_text))
        painter.setPen(QColor(tokens.text))
        painter.setFont(scaled_font(self.font(), 1.5, weight=QFont.Weight.DemiBold))
        words = QRectF(frame.left(), sign.bottom() + SPACE, frame.width(), 48)
        painter.drawText(words, int(Qt.AlignmentFlag.AlignCenter), self.tr("Drop films or folders to add them"))


class Header(QWidget):
    """Name of the section, and what can be done in it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.title = QLabel()
        self.title.setFont(scaled_font(self.font(), 1.7, weight=QFont.Weight.DemiBold))
        self.search = QLineEdit()
        self.search.setPlaceholderText(self.tr("Search titles"))
        self.search.setAccessibleName(self.tr("Search titles"))
        self.search.setClearButtonEnabled(True)
        self.search.setFixedWidth(220)
        self.hide_finished = QPushButton(self.tr("Hide finished"))
        self.hide_finished.setCheckable(True)
        self.hide_finished.setToolTip(self.tr("Show only what is still to be done; finished films are in the library"))
        self.empty = QPushButton(self.tr("Empty Trash…"))
        self.join = QPushButton(self.tr("Join with a code…"))
        self.join.setToolTip(self.tr("Make this device one of those that you have already"))
        self.add_device = QPushButton(self.tr("Add a device…"))
        self.add_device.setObjectName("main")
        self.add_device.setToolTip(self.tr("Show a code that lets another device of yours in"))
        self.add = QPushButton(self.tr("Add films…"))
        self.add.setObjectName("main")
        self.add.setToolTip(self.tr("Choose video files to add; you can also drop files and folders on the window"))
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(SPACE)
        row.addWidget(self.title)
        row.addStretch(1)
        for widget in (self.search, self.hide_finished, self.empty, self.join, self.add_device, self.add):
            row.addWidget(widget)

    def show_section(self, section: Section, title: str) -> None:
        """Show what belongs to ``section``."""
        self.title.setText(title)
        self.search.setVisible(section == Section.LIBRARY)
        self.hide_finished.setVisible(section == Section.QUEUE)
        self.empty.setVisible(section == Section.TRASH)
        self.join.setVisible(section == Section.DEVICES)
        self.add_device.setVisible(section == Section.DEVICES)
        self.add.setVisible(section != Section.DEVICES)
