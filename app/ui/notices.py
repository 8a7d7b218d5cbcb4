"""The message area: what went wrong or is going on, in words, beside the work and never in front of it (U4)."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.ui.icons import IconButton
from app.ui.presenters import Notice, Tone
from app.ui.theme import MIN_TARGET, RADIUS, SPACE, tokens_of

_DETAIL_LINES = 6


def plain_label(text: str, *, is_muted: bool = False) -> QLabel:
    """Return a label that wraps, can be selected, and never takes its text for HTML (U3)."""
    label = QLabel()
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setText(text)
    label.setWordWrap(True)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    if is_muted:
        label.setObjectName("muted")
    return label


class NoticeCard(QFrame):
    """One notice."""

    acted = Signal()
    dismissed = Signal()

    def __init__(self, notice: Notice, tr: Callable[[str], str]) -> None:
        super().__init__()
        self._tone = notice.tone
        self._text = plain_label("")
        self._text.setMinimumHeight(MIN_TARGET)
        self._text.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self._progress = QProgressBar()
        self._progress.setTextVisible(False)
        self._progress.setRange(0, 1000)
        self._details = plain_label("", is_muted=True)
        self._scroll = _detail_area(self._details)
        self._action = QPushButton()
        self._action.clicked.connect(self.acted)
        self._close = IconButton("close", tr("Dismiss"))
        self._close.clicked.connect(self.dismissed)
        top = QHBoxLayout()
        top.setSpacing(SPACE)
        top.addWidget(self._text, 1)
        top.addWidget(self._action, 0, Qt.AlignmentFlag.AlignTop)
        top.addWidget(self._close, 0, Qt.AlignmentFlag.AlignTop)
        column = QVBoxLayout(self)
        column.setContentsMargins(2 * SPACE, SPACE // 2, SPACE, SPACE // 2)
        column.setSpacing(SPACE // 2)
        column.addLayout(top)
        column.addWidget(self._progress)
        column.addWidget(self._scroll)
        self.show_notice(notice)

    def show_notice(self, notice: Notice) -> None:
        """Become ``notice``."""
        self._tone = notice.tone
        self._text.setText(notice.text)
        self.setAccessibleName(notice.text)
        self.setAccessibleDescription("\n".join(notice.details))
        self._action.setText(notice.action)
        self._action.setVisible(bool(notice.action))
        self._close.setVisible(notice.is_dismissible)
        self._progress.setVisible(notice.progress is not None)
        self._progress.setValue(round((notice.progress or 0) * 1000))
        self._details.setText("\n".join(notice.details))
        self._scroll.setVisible(bool(notice.details))
        lines = min(_DETAIL_LINES, len(notice.details))
        self._scroll.setFixedHeight(lines * self.fontMetrics().lineSpacing() + SPACE)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        del event
        paint_card(self, self._tone)


def paint_card(card: QWidget, tone: Tone) -> None:
    """Draw the ground of ``card``, in its paint event: a rounded field with a bar in the colour of ``tone``."""
    tokens = tokens_of(card)
    painter = QPainter(card)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setBrush(QColor(tokens.ground(tone)))
    painter.setPen(QColor(tokens.border))
    painter.drawRoundedRect(card.rect().adjusted(0, 0, -1, -1), RADIUS, RADIUS)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(tokens.tone(tone)))
    painter.drawRoundedRect(SPACE // 2 + 1, SPACE, 3, card.height() - 2 * SPACE, 1.5, 1.5)
    painter.end()


def _detail_area(label: QLabel) -> QScrollArea:
    area = QScrollArea()
    area.setWidgetResizable(True)
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setStyleSheet("QScrollArea, QScrollArea > QWidget > QWidget { background: transparent; }")
    label.setAlignment(Qt.AlignmentFlag.AlignTop)
    area.setWidget(label)
    return area


class NoticeBoard(QWidget):
    """All notices, the oldest on top; empty, it takes no room."""

    acted = Signal(str)
    """Key of the notice whose button was pressed."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._cards: dict[str, NoticeCard] = {}
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(SPACE)
        self.hide()

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of what is shown."""
        return tuple(self._cards)

    def put(self, notice: Notice) -> None:
        """Show ``notice``, in the place of the one with its key."""
        card = self._cards.get(notice.key)
        if card is not None:
            card.show_notice(notice)
            return
        card = NoticeCard(notice, self.tr)
        card.acted.connect(lambda: self._act(notice.key))
        card.dismissed.connect(lambda: self.take(notice.key))
        self._cards[notice.key] = card
        self._column.addWidget(card)
        self.show()

    def take(self, key: str) -> None:
        """Take the notice with ``key`` away, if it is shown."""
        card = self._cards.pop(key, None)
        if card is not None:
            card.hide()
            card.deleteLater()
        self.setVisible(bool(self._cards))

    def text(self, key: str) -> str:
        """Return what the notice with ``key`` says, as people and screen readers get it; empty when there is none."""
        card = self._cards.get(key)
        return "" if card is None else card.accessibleName()

    def _act(self, key: str) -> None:
        self.take(key)
        self.acted.emit(key)
