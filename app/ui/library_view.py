"""The library: a grid of posters that fills the width; emits what is wanted of a film and decides nothing."""

from __future__ import annotations

from PySide6.QtCore import (
    QAbstractItemModel,
    QModelIndex,
    QPersistentModelIndex,
    QPoint,
    QRect,
    QRectF,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import QAction, QColor, QFont, QFontMetricsF, QKeyEvent, QPainter, QPainterPath, QPen, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QListView,
    QMenu,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from app.ui.icons import paint_icon
from app.ui.models import POSTER_ROLE, ROW_ROLE
from app.ui.posters import paint_placeholder
from app.ui.presenters import FilmAction, FilmRow
from app.ui.theme import RADIUS, SPACE, Tokens, scaled_font, tokens_of

_MIN_CARD = 220
_MARGIN = SPACE
_SHAPE = 9 / 16


class FilmDelegate(QStyledItemDelegate):
    """Draws one poster with its title below."""

    def __init__(self, view: QListView) -> None:
        super().__init__(view)
        self._view = view

    def sizeHint(self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex) -> QSize:
        del option, index
        return self._view.gridSize()

    def card_height(self, width: int) -> int:
        """Return the height of a card that is ``width`` wide."""
        lines = QFontMetricsF(_title_font(self._view.font())).height() + QFontMetricsF(self._view.font()).height()
        return round((width - 2 * _MARGIN) * _SHAPE + lines + 4 * SPACE)

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        row = index.data(ROW_ROLE)
        if not isinstance(row, FilmRow):
            return
        tokens = tokens_of(self._view)
        cell: QRect = option.rect
        state: QStyle.StateFlag = option.state
        frame = QRectF(cell).adjusted(_MARGIN, _MARGIN, -_MARGIN, -_MARGIN)
        poster = QRectF(frame.left(), frame.top(), frame.width(), round(frame.width() * _SHAPE))
        painter.save()
        painter.setRenderHints(QPainter.RenderHint.Antialiasing | QPainter.RenderHint.SmoothPixmapTransform)
        self._paint_poster(painter, poster, row, index, tokens)
        if state & QStyle.StateFlag.State_MouseOver and FilmAction.PLAY in row.actions:
            _paint_play(painter, poster)
        if state & QStyle.StateFlag.State_Selected:
            _paint_ring(painter, poster, tokens, has_focus=bool(state & QStyle.StateFlag.State_HasFocus))
        self._paint_words(painter, frame, poster, row, tokens)
        painter.restore()

    def _paint_poster(
        self,
        painter: QPainter,
        rect: QRectF,
        row: FilmRow,
        index: QModelIndex | QPersistentModelIndex,
        tokens: Tokens,
    ) -> None:
        painter.save()
        shape = QPainterPath()
        shape.addRoundedRect(rect, RADIUS, RADIUS)
        painter.setClipPath(shape)
        pixmap = index.data(POSTER_ROLE)
        if pixmap is not None:
            painter.drawPixmap(rect, pixmap, QRectF(pixmap.rect()))
        else:
            big = scaled_font(self._view.font(), 2.8, weight=QFont.Weight.DemiBold)
            paint_placeholder(painter, rect, hue=row.hue, initials=row.initials, font=big, is_dark=tokens.is_dark)
        if row.progress is not None:
            track = QRectF(rect.left(), rect.bottom() - 5, rect.width(), 5)
            painter.fillRect(track, QColor(0, 0, 0, 150))
            track.setWidth(track.width() * row.progress)
            painter.fillRect(track, QColor("#f08a4b"))
        painter.restore()
        small = scaled_font(self._view.font(), 0.92, weight=QFont.Weight.DemiBold)
        lift = 5 if row.progress is not None else 0
        _paint_chip(painter, rect, row.clock, small, at=Qt.AlignmentFlag.AlignBottom, lift=lift)
        if row.badge:
            _paint_chip(painter, rect, row.badge, small, at=Qt.AlignmentFlag.AlignTop, lift=0)

    def _paint_words(self, painter: QPainter, frame: QRectF, poster: QRectF, row: FilmRow, tokens: Tokens) -> None:
        title_font = _title_font(self._view.font())
        metrics = QFontMetricsF(title_font)
        line = QRectF(frame.left() + 2, poster.bottom() + SPACE, frame.width() - 4, metrics.height())
        painter.setFont(title_font)
        painter.setPen(QColor(tokens.text))
        painter.drawText(line, 0, metrics.elidedText(row.title, Qt.TextElideMode.ElideRight, line.width()))
        below = QFontMetricsF(self._view.font())
        line = QRectF(line.left(), line.bottom() + 1, line.width(), below.height())
        painter.setFont(self._view.font())
        painter.setPen(QColor(tokens.muted))
        painter.drawText(line, 0, below.elidedText(row.meta, Qt.TextElideMode.ElideRight, line.width()))


def _title_font(font: QFont) -> QFont:
    return scaled_font(font, 1.1, weight=QFont.Weight.DemiBold)


def _paint_chip(painter: QPainter, poster: QRectF, text: str, font: QFont, *, at: Qt.AlignmentFlag, lift: int) -> None:
    """Write ``text`` light on dark into a corner: top left or bottom right."""
    metrics = QFontMetricsF(font)
    room = poster.width() - 4 * SPACE
    text = metrics.elidedText(text, Qt.TextElideMode.ElideRight, room)
    chip = QRectF(0, 0, metrics.horizontalAdvance(text) + 1.5 * SPACE, metrics.height() + SPACE / 2)
    if at == Qt.AlignmentFlag.AlignTop:
        chip.moveTopLeft(poster.topLeft() + QPoint(SPACE, SPACE))
    else:
        chip.moveBottomRight(poster.bottomRight() - QPoint(SPACE, SPACE + lift))
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(15, 12, 10, 200))
    painter.drawRoundedRect(chip, 6, 6)
    painter.setFont(font)
    painter.setPen(QColor("#ffffff"))
    painter.drawText(chip, int(Qt.AlignmentFlag.AlignCenter), text)


def _paint_play(painter: QPainter, poster: QRectF) -> None:
    disc = QRectF(0, 0, 52, 52)
    disc.moveCenter(poster.center())
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(15, 12, 10, 190))
    painter.drawEllipse(disc)
    paint_icon(painter, "play", disc.adjusted(13, 13, -13, -13), QColor("#ffffff"))


def _paint_ring(painter: QPainter, poster: QRectF, tokens: Tokens, *, has_focus: bool) -> None:
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(QColor(tokens.accent_text), 3 if has_focus else 2))
    painter.drawRoundedRect(poster.adjusted(-4, -4, 4, 4), RADIUS + 3, RADIUS + 3)


class LibraryView(QListView):
    """The grid; used for the library and for the Trash."""

    wanted = Signal(str, object)
    """Media id and ``FilmAction``."""

    def __init__(self, model: QAbstractItemModel, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._delegate = FilmDelegate(self)
        self.setModel(model)
        self.setItemDelegate(self._delegate)
        self.setAccessibleName(name)
        self.setViewMode(QListView.ViewMode.IconMode)
        self.setResizeMode(QListView.ResizeMode.Adjust)
        self.setMovement(QListView.Movement.Static)
        self.setUniformItemSizes(True)
        self.setSpacing(0)
        self.setMouseTracking(True)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOn)
        bar = self.verticalScrollBar()  # always there, so that the cards keep their width; shown when it is needed
        bar.setSingleStep(24)
        bar.rangeChanged.connect(lambda low, high: bar.setEnabled(high > low))
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.customContextMenuRequested.connect(self._show_menu)
        self.doubleClicked.connect(self._open)

    def current_row(self) -> FilmRow | None:
        """Return the film that is chosen."""
        row = self.currentIndex().data(ROW_ROLE)
        return row if isinstance(row, FilmRow) else None

    def menu_for(self, row: FilmRow) -> QMenu:
        """Return the context menu of ``row``."""
        menu = QMenu(self)
        labels = {
            FilmAction.PLAY: self.tr("Play"),
            FilmAction.EXPORT: self.tr("Export…"),
            FilmAction.DETAILS: self.tr("Show details"),
            FilmAction.TRASH: self.tr("Move to Trash"),
            FilmAction.RESTORE: self.tr("Restore"),
            FilmAction.DELETE: self.tr("Delete now…"),
        }
        for wish in row.actions:
            action = QAction(labels[wish], menu)
            action.setData(wish)
            action.triggered.connect(lambda _checked=False, wish=wish: self.wanted.emit(row.key, wish))
            menu.addAction(action)
            if wish == FilmAction.PLAY:
                menu.setDefaultAction(action)
        return menu

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        row = self.current_row()
        wish = {
            Qt.Key.Key_Return: FilmAction.PLAY,
            Qt.Key.Key_Enter: FilmAction.PLAY,
            Qt.Key.Key_Delete: FilmAction.TRASH,
            Qt.Key.Key_Backspace: FilmAction.TRASH,
        }.get(Qt.Key(event.key()))
        if row is not None and wish in row.actions:
            self.wanted.emit(row.key, wish)
            return
        super().keyPressEvent(event)

    def _fit(self) -> None:
        """Share the width among as many cards as fit."""
        width = self.viewport().width() - 1
        columns = max(1, width // _MIN_CARD)
        card = width // columns
        size = QSize(card, self._delegate.card_height(card))
        if size != self.gridSize():
            self.setGridSize(size)

    def _open(self, index: QModelIndex) -> None:
        row = index.data(ROW_ROLE)
        if isinstance(row, FilmRow) and FilmAction.PLAY in row.actions:
            self.wanted.emit(row.key, FilmAction.PLAY)

    def _show_menu(self, at: QPoint) -> None:
        row = self.indexAt(at).data(ROW_ROLE)
        if not isinstance(row, FilmRow):
            row = self.current_row()
        if isinstance(row, FilmRow):
            self.menu_for(row).popup(self.viewport().mapToGlobal(at))
