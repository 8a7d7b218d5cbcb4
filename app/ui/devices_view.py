"""The page of the owner's devices: a card for each, a reminder of the words, and what to do while there is only one."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QColor, QFont, QHideEvent, QPainter, QPaintEvent, QShowEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app.ui.device_presenters import DeviceAction, DeviceRow, DevicesPage
from app.ui.notices import paint_card, plain_label
from app.ui.panels import EmptyPage
from app.ui.presenters import Tone
from app.ui.theme import RADIUS, SPACE, scaled_font, tokens_of

_DOT = 9


class _Dot(QWidget):
    """A point in the colour of a tone; what it says stands beside it in words."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.tone = Tone.QUIET
        self.setFixedSize(_DOT, _DOT)

    def paintEvent(self, event: QPaintEvent) -> None:
        del event
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(tokens_of(self).tone(self.tone)))
        painter.drawEllipse(self.rect())


class DeviceCard(QFrame):
    """One device."""

    wanted = Signal(object, object)
    """``DeviceRow`` and ``DeviceAction``."""

    def __init__(self, row: DeviceRow, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.row = row
        self.name = plain_label("")
        self.name.setFont(scaled_font(self.font(), 1.1, weight=QFont.Weight.DemiBold))
        self.this = QLabel(self.tr("This device"))
        self.this.setObjectName("mark")
        self._dot = _Dot()
        self.link = plain_label("")
        self.note = plain_label("", is_muted=True)
        self.shut_out = QPushButton(self.tr("Shut out…"))
        self.shut_out.setObjectName("flat")
        self.shut_out.clicked.connect(lambda _checked=False: self.wanted.emit(self.row, DeviceAction.SHUT_OUT))
        head = QHBoxLayout()
        head.setSpacing(SPACE)
        head.addWidget(self.name)
        head.addWidget(self.this, 0, Qt.AlignmentFlag.AlignVCenter)
        head.addStretch(1)
        self._state = QWidget()
        state = QHBoxLayout(self._state)
        state.setContentsMargins(0, 0, 0, 0)
        state.setSpacing(SPACE)
        dot = QVBoxLayout()
        dot.setContentsMargins(0, max(0, (self.fontMetrics().height() - _DOT) // 2), 0, 0)
        dot.addWidget(self._dot)
        dot.addStretch(1)
        state.addLayout(dot)
        state.addWidget(self.link, 1)
        texts = QVBoxLayout()
        texts.setSpacing(SPACE // 2)
        texts.addLayout(head)
        texts.addWidget(self._state)
        texts.addWidget(self.note)
        whole = QHBoxLayout(self)
        whole.setContentsMargins(2 * SPACE, 12, 2 * SPACE, 12)
        whole.setSpacing(2 * SPACE)
        whole.addLayout(texts, 1)
        whole.addWidget(self.shut_out, 0, Qt.AlignmentFlag.AlignVCenter)
        self.show_row(row)

    def show_row(self, row: DeviceRow) -> None:
        """Become ``row``."""
        self.row = row
        self.name.setText(row.title)
        self.name.setWordWrap(len(row.title) > 30)  # a short name keeps its mark beside it
        self.this.setVisible(row.is_this)
        self.link.setText(row.link_text)
        self._state.setVisible(bool(row.link_text))
        self._dot.tone = row.tone
        self._dot.update()
        self.note.setText(row.note)
        self.shut_out.setVisible(DeviceAction.SHUT_OUT in row.actions)
        self.shut_out.setAccessibleName(self.tr("Shut out") + f" {row.title}")
        self.setAccessibleName(row.spoken)
        self.link.setToolTip(row.link_tip)

    def paintEvent(self, event: QPaintEvent) -> None:
        del event
        tokens = tokens_of(self)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setBrush(QColor(tokens.card))
        painter.setPen(QColor(tokens.border))
        painter.drawRoundedRect(self.rect().adjusted(0, 0, -1, -1), RADIUS, RADIUS)


class _Banner(QFrame):
    """A sentence to act on, with buttons below it."""

    def __init__(self, tone: Tone, *buttons: QPushButton) -> None:
        super().__init__()
        self._tone = tone
        self.text = plain_label("")
        column = QVBoxLayout(self)
        column.setContentsMargins(2 * SPACE, SPACE, SPACE, SPACE)
        column.setSpacing(SPACE)
        column.addWidget(self.text)
        if buttons:
            row = QHBoxLayout()
            row.setSpacing(SPACE)
            for button in buttons:
                row.addWidget(button)
            row.addStretch(1)
            column.addLayout(row)
        self.hide()

    def say(self, text: str) -> None:
        """Become ``text``; empty, it takes no room."""
        self.text.setText(text)
        self.setAccessibleName(text)
        self.setVisible(bool(text))

    def paintEvent(self, event: QPaintEvent) -> None:
        del event
        paint_card(self, self._tone)


class _CardList:
    """The cards of some rows in a layout; a row that stays keeps its card, and with it focus and place (U5)."""

    def __init__(self, layout: QBoxLayout, view: DevicesView) -> None:
        self._layout = layout
        self._view = view
        self.cards: dict[str, DeviceCard] = {}

    def set_rows(self, rows: Sequence[DeviceRow]) -> None:
        keys = {row.key for row in rows}
        for key in [key for key in self.cards if key not in keys]:
            card = self.cards.pop(key)
            self._layout.removeWidget(card)
            card.hide()
            card.deleteLater()
        for number, row in enumerate(rows):
            card = self._card(row)
            if self._layout.indexOf(card) != number:
                self._layout.insertWidget(number, card)

    def _card(self, row: DeviceRow) -> DeviceCard:
        card = self.cards.get(row.key)
        if card is None:
            card = self.cards[row.key] = DeviceCard(row)
            card.wanted.connect(self._view.wanted)
        elif card.row != row:
            card.show_row(row)
        return card


class DevicesView(QScrollArea):
    """Draws a ``DevicesPage`` and says when somebody looks at it."""

    wanted = Signal(object, object)
    """``DeviceRow`` and ``DeviceAction``."""
    words_wanted = Signal()
    confirm_wanted = Signal()
    seen = Signal(bool)
    """Whether the page is on the screen now."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("devices")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._build_banners()
        self._build_alone()
        self.waiting = plain_label(self.tr("Looking for your devices…"), is_muted=True)
        self.waiting.setAlignment(Qt.AlignmentFlag.AlignCenter)
        members, former = QVBoxLayout(), QVBoxLayout()
        for layout in (members, former):
            layout.setSpacing(SPACE)
        self.members, self.former = _CardList(members, self), _CardList(former, self)
        self._former_heading = plain_label(self.tr("Shut out"), is_muted=True)
        self._former_heading.setFont(scaled_font(self.font(), 1.0, weight=QFont.Weight.DemiBold))
        content = QWidget()
        column = QVBoxLayout(content)
        column.setContentsMargins(0, 0, 0, 2 * SPACE)
        column.setSpacing(SPACE)
        column.addWidget(self.trouble)
        column.addWidget(self.reminder)
        column.addLayout(members)
        column.addSpacing(SPACE)
        column.addWidget(self._former_heading)
        column.addLayout(former)
        column.addWidget(self.waiting, 1)
        column.addWidget(self.alone, 1)
        column.addStretch(1)
        self.setWidget(content)
        self.show_page(DevicesPage())

    def _build_banners(self) -> None:
        self.show_words = QPushButton(self.tr("Show the words…"))
        self.show_words.clicked.connect(self.words_wanted)
        self.confirm_words = QPushButton(self.tr("Confirm…"))
        self.confirm_words.clicked.connect(self.confirm_wanted)
        self.reminder = _Banner(Tone.WARNING, self.show_words, self.confirm_words)
        self.trouble = _Banner(Tone.WARNING)

    def _build_alone(self) -> None:
        self.alone = EmptyPage(
            "devices",
            self.tr("Only this device so far"),
            self.tr(
                "Your computers share the library, prepare films together, and each plays what another one holds.\n"
                "“Add a device” shows a code that lets another one in; “Join with a code” is for when the other one "
                "shows it."
            ),
        )

    def show_page(self, page: DevicesPage) -> None:
        """Become ``page``; cards of devices that stay are kept."""
        self.trouble.say(page.trouble)
        self.reminder.say(page.reminder)
        self.members.set_rows(page.members)
        self.former.set_rows(page.former)
        self._former_heading.setVisible(bool(page.former))
        self.waiting.setVisible(not page.is_known and not page.trouble)
        self.alone.setVisible(page.is_alone)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.seen.emit(True)

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.seen.emit(False)
