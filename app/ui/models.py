"""Rows of presenters as Qt list models that change only what differs (U5)."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, QPersistentModelIndex, Qt, Signal

from app.ui.edits import Insert, Move, Remove, plan_edits
from app.ui.posters import PosterShelf
from app.ui.presenters import FilmRow, JobRow

Index = QModelIndex | QPersistentModelIndex
ROW_ROLE = int(Qt.ItemDataRole.UserRole)
"""The presenter's row."""
POSTER_ROLE = ROW_ROLE + 1
"""QPixmap, or None while there is none; asking for it has it fetched."""


class Row(Protocol):
    """What the models need of a row."""

    @property
    def key(self) -> str:
        """What stays the same while the row changes."""
        ...

    @property
    def title(self) -> str:
        """What the row is called."""
        ...

    @property
    def tooltip(self) -> str:
        """More about it, as plain text."""
        ...


RowT = TypeVar("RowT", bound=Row)


class RowModel(QAbstractListModel, Generic[RowT]):
    """A list of rows with keys."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._rows: list[RowT] = []

    def rowCount(self, parent: Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self._rows)

    def data(self, index: Index, role: int = int(Qt.ItemDataRole.DisplayRole)) -> Any:
        row = self.row(index)
        if row is None:
            return None
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return row.title
            case Qt.ItemDataRole.ToolTipRole:  # as HTML made from plain text: Qt would guess otherwise (U3)
                return f"<qt>{html.escape(row.tooltip).replace(chr(10), '<br>')}</qt>"
            case Qt.ItemDataRole.AccessibleTextRole:
                return row.tooltip.replace("\n", ", ")
            case _:
                return row if role == ROW_ROLE else None

    def row(self, index: Index) -> RowT | None:
        """Return the row at ``index``, or None outside the list."""
        return self._rows[index.row()] if index.isValid() and index.row() < len(self._rows) else None

    def index_of(self, key: str) -> QModelIndex:
        """Return where the row with ``key`` is; invalid when it is not there."""
        for number, row in enumerate(self._rows):
            if row.key == key:
                return self.index(number, 0)
        return QModelIndex()

    def set_rows(self, rows: Sequence[RowT]) -> None:
        """Become ``rows`` by removing, moving, inserting and changing as little as possible."""
        for edit in plan_edits([row.key for row in self._rows], [row.key for row in rows]):
            self._do(edit, rows)
        self._update(rows)

    def _do(self, edit: Insert | Move | Remove, rows: Sequence[RowT]) -> None:
        root = QModelIndex()
        match edit:
            case Remove(first=first, last=last):
                self.beginRemoveRows(root, first, last)
                del self._rows[first : last + 1]
                self.endRemoveRows()
            case Move(source=source, target=target):
                before = target + 1 if target > source else target
                self.beginMoveRows(root, source, source, root, before)
                self._rows.insert(target, self._rows.pop(source))
                self.endMoveRows()
            case Insert(first=first, last=last):
                self.beginInsertRows(root, first, last)
                self._rows[first:first] = rows[first : last + 1]
                self.endInsertRows()

    def _update(self, rows: Sequence[RowT]) -> None:
        for number, row in enumerate(rows):
            if self._rows[number] is not row and self._rows[number] != row:
                self._rows[number] = row
                self.dataChanged.emit(self.index(number, 0), self.index(number, 0))


class QueueModel(RowModel[JobRow]):
    """The queue, of which a view asks for more when it is scrolled to the end."""

    more_wanted = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.has_more = False
        """Whether there are rows beyond these."""

    def canFetchMore(self, parent: Index) -> bool:
        return self.has_more and not parent.isValid()

    def fetchMore(self, parent: Index) -> None:
        if not parent.isValid():
            self.more_wanted.emit()


class LibraryModel(RowModel[FilmRow]):
    """The library or the Trash, with posters."""

    def __init__(self, posters: PosterShelf, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._posters = posters
        posters.arrived.connect(self._poster_arrived)

    def data(self, index: Index, role: int = int(Qt.ItemDataRole.DisplayRole)) -> Any:
        if role != POSTER_ROLE:
            return super().data(index, role)
        row = self.row(index)
        return self._posters.poster(row.key) if row is not None and row.has_poster else None

    def _poster_arrived(self, media_id: str) -> None:
        index = self.index_of(media_id)
        if index.isValid():
            self.dataChanged.emit(index, index, [POSTER_ROLE])
