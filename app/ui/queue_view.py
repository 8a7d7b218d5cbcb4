"""The queue: one line per job with what it does, how far it is and what can be asked of it; decides nothing.

Each action can be reached three ways: by the small signs in the line (mouse), by the buttons above the list and the
context menu (mouse and keyboard, for all chosen lines), and by keys.
"""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtCore import (
    QAbstractItemModel,
    QEvent,
    QItemSelectionModel,
    QModelIndex,
    QPersistentModelIndex,
    QPoint,
    QPointF,
    QRect,
    QRectF,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QAction,
    QColor,
    QFont,
    QFontMetricsF,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPen,
    QTextLayout,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QListView,
    QMenu,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QToolTip,
    QVBoxLayout,
    QWidget,
)

from app.ui.icons import SignButton, paint_icon
from app.ui.models import ROW_ROLE
from app.ui.presenters import JobAction, JobRow, common_actions, toggle_action
from app.ui.theme import MIN_TARGET, RADIUS, SPACE, Tokens, scaled_font, tokens_of

_SIGN = 18


def _title_font(font: QFont) -> QFont:
    return scaled_font(font, 1.1, weight=QFont.Weight.DemiBold)


class JobDelegate(QStyledItemDelegate):
    """Draws one line and knows where its signs are."""

    def __init__(self, view: QueueList) -> None:
        super().__init__(view)
        self._view = view

    def sizeHint(self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex) -> QSize:
        del option, index
        title = QFontMetricsF(_title_font(self._view.font())).height()
        return QSize(320, round(title + 2 * QFontMetricsF(self._view.font()).height() + 4.5 * SPACE))

    def signs(self, line: QRect, row: JobRow) -> Iterator[tuple[JobAction, QRect]]:
        """Yield the actions of ``row`` with the areas to click."""
        left = line.right() - 2 * SPACE - MIN_TARGET * len(row.actions)
        top = line.center().y() - MIN_TARGET // 2
        for number, action in enumerate(row.actions):
            yield action, QRect(left + number * MIN_TARGET, top, MIN_TARGET, MIN_TARGET)

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        row = index.data(ROW_ROLE)
        if not isinstance(row, JobRow):
            return
        tokens = tokens_of(self._view)
        line: QRect = option.rect
        state: QStyle.StateFlag = option.state
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint_card(painter, line, state, tokens)
        self._paint_words(painter, line, row, tokens)
        for action, area in self.signs(line, row):
            if area.contains(self._view.pointer):
                painter.setPen(Qt.PenStyle.NoPen)
                painter.setBrush(QColor(tokens.pressed))
                painter.drawRoundedRect(area, 8, 8)
            inset = (MIN_TARGET - _SIGN) / 2
            colour = tokens.text if area.contains(self._view.pointer) else tokens.muted
            paint_icon(painter, action.value, QRectF(area).adjusted(inset, inset, -inset, -inset), QColor(colour))
        painter.restore()

    def _paint_card(self, painter: QPainter, line: QRect, state: QStyle.StateFlag, tokens: Tokens) -> None:
        card = QRectF(line).adjusted(1.5, SPACE / 2, -1.5, -SPACE / 2)
        is_selected = bool(state & QStyle.StateFlag.State_Selected)
        has_focus = bool(state & QStyle.StateFlag.State_HasFocus)
        is_hovered = bool(state & QStyle.StateFlag.State_MouseOver)
        painter.setBrush(QColor(tokens.hover if is_selected or is_hovered else tokens.card))
        pen = QPen(QColor(tokens.accent_text), 2) if has_focus else QPen(QColor(tokens.border), 1)
        painter.setPen(pen)
        painter.drawRoundedRect(card, RADIUS, RADIUS)

    def _paint_words(self, painter: QPainter, line: QRect, row: JobRow, tokens: Tokens) -> None:
        left = line.left() + 2 * SPACE
        right = line.right() - 3 * SPACE - MIN_TARGET * len(row.actions)
        width = max(0, right - left)
        font = _title_font(self._view.font())
        metrics = QFontMetricsF(font)
        small = QFontMetricsF(self._view.font())
        below = lines_of(row.state_text, self._view.font(), width)
        is_barred = row.progress is not None
        height = metrics.height() + 2 + (small.height() + SPACE + 5 if is_barred else small.lineSpacing() * len(below))
        top = line.top() + (line.height() - height) / 2
        painter.setFont(font)
        painter.setPen(QColor(tokens.text))
        painter.drawText(
            QRectF(left, top, width, metrics.height()),
            0,
            metrics.elidedText(row.title, Qt.TextElideMode.ElideMiddle, width),
        )
        top += metrics.height() + 2
        painter.setFont(self._view.font())
        painter.setPen(QColor(tokens.tone(row.tone)))
        if not is_barred:
            for number, text in enumerate(below):
                painter.drawText(QPointF(left, top + small.ascent() + number * small.lineSpacing()), text)
            return
        text = small.elidedText(row.state_text, Qt.TextElideMode.ElideRight, width)
        painter.drawText(QRectF(left, top, width, small.height()), 0, text)
        bar = QRectF(left, top + small.height() + SPACE, width, 5)
        _paint_bar(painter, bar, row, tokens)


def _paint_bar(painter: QPainter, bar: QRectF, row: JobRow, tokens: Tokens) -> None:
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(tokens.border))
    painter.drawRoundedRect(bar, 2.5, 2.5)
    done = QRectF(bar)
    done.setWidth(bar.width() * min(1.0, max(0.0, row.progress or 0.0)))
    painter.setBrush(QColor(tokens.accent if row.tone == "working" else tokens.muted))
    painter.drawRoundedRect(done, 2.5, 2.5)


def lines_of(text: str, font: QFont, width: float) -> tuple[str, ...]:
    """Return ``text`` wrapped to ``width`` pixels in at most two lines, the second with an ellipsis if need be."""
    layout = QTextLayout(text, font)
    layout.beginLayout()
    first = layout.createLine()
    if first.isValid():
        first.setLineWidth(max(1.0, width))
    layout.endLayout()
    split = first.textLength() if first.isValid() else len(text)
    metrics = QFontMetricsF(font)
    # the layout counts in UTF-16, as Qt does; Python in code points
    units = text.encode("utf-16-le")
    head = units[: 2 * split].decode("utf-16-le", "replace").rstrip()
    rest = units[2 * split :].decode("utf-16-le", "replace").lstrip()
    lines = (head, rest) if rest else (head,)
    return tuple(metrics.elidedText(line, Qt.TextElideMode.ElideRight, width) for line in lines)


class QueueList(QListView):
    """The lines."""

    wanted = Signal(object, object)
    """Job ids (tuple) and ``JobAction``."""
    play_wanted = Signal(str)
    """Media id."""
    details_wanted = Signal(str)
    """Job id."""
    chosen = Signal()

    def __init__(self, model: QAbstractItemModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.pointer = QPoint(-1, -1)
        self._delegate = JobDelegate(self)
        self.setModel(model)
        self.setItemDelegate(self._delegate)
        self.setAccessibleName(self.tr("Queue"))
        self.setUniformItemSizes(True)
        self.setMouseTracking(True)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.verticalScrollBar().setSingleStep(24)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.customContextMenuRequested.connect(self._show_menu)
        self.doubleClicked.connect(self._open)
        self.selectionModel().selectionChanged.connect(lambda *_: self.chosen.emit())
        model.dataChanged.connect(lambda *_: self.chosen.emit())
        model.rowsRemoved.connect(lambda *_: self.chosen.emit())

    def chosen_rows(self) -> list[JobRow]:
        """Return the lines that are chosen, from top to bottom."""
        indexes = sorted(self.selectionModel().selectedIndexes(), key=lambda index: index.row())
        return [row for row in (index.data(ROW_ROLE) for index in indexes) if isinstance(row, JobRow)]

    def request(self, action: JobAction) -> None:
        """Ask for ``action`` on the chosen lines that allow it."""
        ids = tuple(row.key for row in self.chosen_rows() if action in row.actions)
        if ids:
            self.wanted.emit(ids, action)

    def menu_for(self, row: JobRow) -> QMenu:
        """Return the context menu of the chosen lines, ``row`` among them."""
        menu = QMenu(self)
        if row.is_playable:
            menu.setDefaultAction(menu.addAction(self.tr("Play"), lambda: self.play_wanted.emit(row.media_id)))
        labels = action_labels(self)
        allowed = common_actions(self.chosen_rows() or [row])
        for action in JobAction:
            if action in allowed:
                entry = QAction(labels[action], menu)
                entry.setData(action)
                entry.triggered.connect(lambda _checked=False, action=action: self.request(action))
                menu.addAction(entry)
        menu.addSeparator()
        menu.addAction(self.tr("Show details"), lambda: self.details_wanted.emit(row.key))
        return menu

    def keyPressEvent(self, event: QKeyEvent) -> None:
        row = self.currentIndex().data(ROW_ROLE)
        if not isinstance(row, JobRow) or not self._on_key(Qt.Key(event.key()), row):
            super().keyPressEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self.pointer = event.position().toPoint()
        super().mouseMoveEvent(event)
        self.viewport().update()

    def leaveEvent(self, event: QEvent) -> None:
        self.pointer = QPoint(-1, -1)
        super().leaveEvent(event)
        self.viewport().update()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        hit = self._sign_at(event.position().toPoint())
        if hit is not None and event.button() == Qt.MouseButton.LeftButton:
            row, action, index = hit
            self.selectionModel().setCurrentIndex(index, QItemSelectionModel.SelectionFlag.NoUpdate)
            self.wanted.emit((row.key,), action)
            return
        super().mousePressEvent(event)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        if self._sign_at(event.position().toPoint()) is None:
            super().mouseDoubleClickEvent(event)

    def viewportEvent(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent):
            hit = self._sign_at(event.pos())
            if hit is not None:
                QToolTip.showText(event.globalPos(), action_labels(self)[hit[1]], self)
                return True
        return super().viewportEvent(event)

    def _sign_at(self, at: QPoint) -> tuple[JobRow, JobAction, QModelIndex] | None:
        index = self.indexAt(at)
        row = index.data(ROW_ROLE)
        if isinstance(row, JobRow):
            for action, area in self._delegate.signs(self.visualRect(index), row):
                if area.contains(at):
                    return row, action, index
        return None

    def _on_key(self, key: Qt.Key, row: JobRow) -> bool:
        match key:
            case Qt.Key.Key_Space if (action := toggle_action(row)) is not None:
                self.wanted.emit((row.key,), action)
            case Qt.Key.Key_Return | Qt.Key.Key_Enter:
                self._open_row(row)
            case Qt.Key.Key_Delete | Qt.Key.Key_Backspace:
                self.request(JobAction.REMOVE)
            case _:
                return False
        return True

    def _open(self, index: QModelIndex) -> None:
        row = index.data(ROW_ROLE)
        if isinstance(row, JobRow):
            self._open_row(row)

    def _open_row(self, row: JobRow) -> None:
        if row.is_playable:
            self.play_wanted.emit(row.media_id)
        else:
            self.details_wanted.emit(row.key)

    def _show_menu(self, at: QPoint) -> None:
        index = self.indexAt(at)
        row = (index if index.isValid() else self.currentIndex()).data(ROW_ROLE)
        if isinstance(row, JobRow):
            self.menu_for(row).popup(self.viewport().mapToGlobal(at))


def action_labels(widget: QWidget) -> dict[JobAction, str]:
    """Return what the actions are called."""
    return {
        JobAction.PAUSE: widget.tr("Pause"),
        JobAction.RESUME: widget.tr("Resume"),
        JobAction.RETRY: widget.tr("Retry"),
        JobAction.CANCEL: widget.tr("Cancel"),
        JobAction.REMOVE: widget.tr("Remove"),
    }


class QueueView(QWidget):
    """The lines with the buttons that act on the chosen ones."""

    def __init__(self, model: QAbstractItemModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.list = QueueList(model, self)
        self.buttons: dict[JobAction, SignButton] = {}
        bar = QHBoxLayout()
        bar.setSpacing(0)
        for action, label in action_labels(self).items():
            button = SignButton(action.value, label, "flat", self)
            button.clicked.connect(lambda _checked=False, action=action: self.list.request(action))
            self.buttons[action] = button
            bar.addWidget(button)
        bar.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(SPACE)
        column.addLayout(bar)
        column.addWidget(self.list, 1)
        self.list.chosen.connect(self._show_allowed)
        self._show_allowed()

    def _show_allowed(self) -> None:
        allowed = common_actions(self.list.chosen_rows())
        for action, button in self.buttons.items():
            button.setEnabled(action in allowed)
