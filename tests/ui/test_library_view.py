"""The grid of posters."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QModelIndex, QPoint, Qt
from PySide6.QtGui import QColor, QImage
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.engine.api import GetPoster
from app.ui.controller import Controller
from app.ui.library_view import LibraryView
from app.ui.models import POSTER_ROLE
from app.ui.posters import POSTER_SIZE, unpack_poster
from app.ui.presenters import FilmAction
from tests.ui.fake_engine import FakeEngine, make_film


def jpeg(width: int = 64, height: int = 64) -> bytes:
    """Return a red picture."""
    image = QImage(width, height, QImage.Format.Format_RGB32)
    image.fill(QColor("red"))
    data = QByteArray()
    buffer = QBuffer(data)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    image.save(buffer, "JPEG")  # type: ignore[call-overload]
    return bytes(data.data())


@pytest.fixture
def view(qtbot: QtBot, controller: Controller, engine: FakeEngine) -> LibraryView:
    """Return a library of three films, shown."""
    view = LibraryView(controller.library_model, "Library")
    qtbot.addWidget(view)
    view.resize(760, 500)
    view.show()
    engine.put_films(
        make_film("ready", media_id="r", added_at_ms=3),
        make_film("making", media_id="m", state="making", added_at_ms=2),
        make_film("<b>bold</b> & [*]", media_id="b", added_at_ms=1),
    )
    qtbot.waitUntil(lambda: view.model().rowCount() == 3)
    return view


def wishes(view: LibraryView) -> list[tuple[str, FilmAction]]:
    """Return the list that wishes are added to."""
    seen: list[tuple[str, FilmAction]] = []
    view.wanted.connect(lambda media_id, wish: seen.append((media_id, wish)))
    return seen


def centre(view: LibraryView, row: int) -> QPoint:
    """Return the middle of a card."""
    return view.visualRect(view.model().index(row, 0)).center()


def test_a_double_click_plays(view: LibraryView) -> None:
    seen = wishes(view)
    QTest.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=centre(view, 0))
    QTest.mouseDClick(view.viewport(), Qt.MouseButton.LeftButton, pos=centre(view, 0))
    assert seen == [("r", FilmAction.PLAY)]


def test_return_plays_and_delete_trashes(view: LibraryView) -> None:
    seen = wishes(view)
    view.setCurrentIndex(view.model().index(1, 0))
    QTest.keyClick(view, Qt.Key.Key_Return)
    QTest.keyClick(view, Qt.Key.Key_Delete)
    assert seen == [("m", FilmAction.PLAY), ("m", FilmAction.TRASH)]


def test_the_menu_holds_what_a_film_allows(view: LibraryView) -> None:
    seen = wishes(view)
    view.setCurrentIndex(view.model().index(0, 0))
    row = view.current_row()
    assert row is not None
    menu = view.menu_for(row)
    assert [action.text() for action in menu.actions()] == ["Play", "Export…", "Show details", "Move to Trash"]
    menu.actions()[1].trigger()
    assert seen == [("r", FilmAction.EXPORT)]


def test_cards_fill_the_width_whatever_it_is(view: LibraryView) -> None:
    for width in (300, 500, 760, 1500):
        view.resize(width, 500)
        room, card = view.viewport().width(), view.gridSize().width()
        assert card >= min(220, room - 1)
        assert room - (room // card) * card <= room // card + 1


def test_a_poster_is_fetched_when_it_is_looked_at_and_once(
    qtbot: QtBot, view: LibraryView, controller: Controller, engine: FakeEngine
) -> None:
    engine.posters["r"] = jpeg()
    engine.put_films(make_film("ready", media_id="r", added_at_ms=3, has_poster=True))
    index = QModelIndex(view.model().index(0, 0))
    qtbot.waitUntil(lambda: controller.library_model.data(index, POSTER_ROLE) is not None)
    view.grab()
    assert len(engine.called(GetPoster)) == 1
    assert controller.library_model.data(index, POSTER_ROLE).size() == POSTER_SIZE


def test_a_film_whose_poster_is_missing_keeps_its_placeholder(
    qtbot: QtBot, view: LibraryView, controller: Controller, engine: FakeEngine
) -> None:
    engine.posters["r"] = b"not a picture"
    engine.put_films(make_film("ready", media_id="r", added_at_ms=3, has_poster=True))
    qtbot.waitUntil(lambda: len(engine.called(GetPoster)) == 1)
    view.grab()
    assert controller.library_model.data(QModelIndex(view.model().index(0, 0)), POSTER_ROLE) is None


@pytest.mark.parametrize(("width", "height"), [(1920, 1080), (100, 400), (1, 1)])
def test_a_poster_of_any_shape_is_cut_to_the_card(width: int, height: int) -> None:
    assert unpack_poster(jpeg(width, height)).size() == POSTER_SIZE


@pytest.mark.qt_log_ignore("JPEG data")
def test_a_poster_that_is_no_picture_is_nothing() -> None:
    assert unpack_poster(b"\xff\xd8 broken").isNull()
