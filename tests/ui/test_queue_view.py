"""The queue by mouse and by keyboard."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QAbstractItemModel, QItemSelectionModel, QPoint, Qt
from PySide6.QtGui import QFont
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.ui.models import QueueModel
from app.ui.presenters import JobAction, present_job
from app.ui.queue_view import JobDelegate, QueueView, lines_of
from app.ui.wording import Wording
from tests.ui.fake_engine import make_job

STATES = ("processing", "paused", "error", "done")


@pytest.fixture
def model(qtbot: QtBot) -> QueueModel:
    """Return one job of each interesting state."""
    del qtbot
    model = QueueModel()
    model.set_rows(
        [present_job(make_job(state, state, id=state, playable=state == "done"), Wording()) for state in STATES]
    )
    return model


@pytest.fixture
def view(qtbot: QtBot, model: QAbstractItemModel) -> QueueView:
    """Return the queue, shown."""
    view = QueueView(model)
    qtbot.addWidget(view)
    view.resize(800, 600)
    view.show()
    return view


def wishes(view: QueueView) -> list[tuple[tuple[str, ...], JobAction]]:
    """Return the list that wishes are added to."""
    seen: list[tuple[tuple[str, ...], JobAction]] = []
    view.list.wanted.connect(lambda ids, action: seen.append((ids, action)))
    return seen


def choose(view: QueueView, *rows: int) -> None:
    """Choose these rows."""
    view.list.selectionModel().clear()
    for row in rows:
        index = view.list.model().index(row, 0)
        view.list.selectionModel().select(index, QItemSelectionModel.SelectionFlag.Select)
        view.list.selectionModel().setCurrentIndex(index, QItemSelectionModel.SelectionFlag.NoUpdate)


def sign_centre(view: QueueView, row: int, action: JobAction) -> QPoint:
    """Return where the sign for ``action`` is drawn."""
    index = view.list.model().index(row, 0)
    delegate = view.list.itemDelegate()
    assert isinstance(delegate, JobDelegate)
    job = view.list.model().data(index, 256)
    areas = dict(delegate.signs(view.list.visualRect(index), job))
    return areas[action].center()


@pytest.mark.parametrize(
    ("row", "action"), [(0, JobAction.PAUSE), (1, JobAction.RESUME), (2, JobAction.RETRY), (3, JobAction.REMOVE)]
)
def test_a_click_on_a_sign_asks_for_its_action(view: QueueView, row: int, action: JobAction) -> None:
    seen = wishes(view)
    QTest.mouseClick(view.list.viewport(), Qt.MouseButton.LeftButton, pos=sign_centre(view, row, action))
    assert seen == [((STATES[row],), action)]


def test_a_right_click_on_a_sign_asks_for_nothing(view: QueueView) -> None:
    seen = wishes(view)
    QTest.mouseClick(view.list.viewport(), Qt.MouseButton.RightButton, pos=sign_centre(view, 0, JobAction.PAUSE))
    assert seen == []


def test_buttons_are_enabled_for_what_the_chosen_lines_allow(view: QueueView) -> None:
    assert not any(button.isEnabled() for button in view.buttons.values())
    choose(view, 0, 2)
    enabled = {action for action, button in view.buttons.items() if button.isEnabled()}
    assert enabled == {JobAction.PAUSE, JobAction.CANCEL, JobAction.RETRY, JobAction.REMOVE}


def test_a_button_asks_only_the_lines_that_allow_it(view: QueueView) -> None:
    seen = wishes(view)
    choose(view, 0, 1, 2)
    QTest.mouseClick(view.buttons[JobAction.CANCEL], Qt.MouseButton.LeftButton)
    assert seen == [(("processing", "paused"), JobAction.CANCEL)]


def test_buttons_follow_a_job_that_changes(view: QueueView, model: QueueModel) -> None:
    choose(view, 0)
    assert view.buttons[JobAction.PAUSE].isEnabled()
    model.set_rows([present_job(make_job("x", "paused", id="processing"), Wording())])
    assert not view.buttons[JobAction.PAUSE].isEnabled()
    assert view.buttons[JobAction.RESUME].isEnabled()
    model.set_rows([])
    assert not view.buttons[JobAction.RESUME].isEnabled()


@pytest.mark.parametrize(("row", "action"), [(0, JobAction.PAUSE), (1, JobAction.RESUME), (2, JobAction.RETRY)])
def test_the_space_bar_pauses_resumes_or_retries(view: QueueView, row: int, action: JobAction) -> None:
    seen = wishes(view)
    choose(view, row)
    QTest.keyClick(view.list, Qt.Key.Key_Space)
    assert seen == [((STATES[row],), action)]


def test_delete_removes_the_chosen_lines(view: QueueView) -> None:
    seen = wishes(view)
    choose(view, 1, 3)
    QTest.keyClick(view.list, Qt.Key.Key_Delete)
    assert seen == [(("paused", "done"), JobAction.REMOVE)]


def test_return_plays_what_can_be_played_and_else_shows_details(view: QueueView) -> None:
    played: list[str] = []
    shown: list[str] = []
    view.list.play_wanted.connect(played.append)
    view.list.details_wanted.connect(shown.append)
    choose(view, 0)
    QTest.keyClick(view.list, Qt.Key.Key_Return)
    choose(view, 3)
    QTest.keyClick(view.list, Qt.Key.Key_Return)
    assert shown == ["processing"]
    assert len(played) == 1


def test_the_context_menu_holds_what_makes_sense(view: QueueView) -> None:
    choose(view, 3)
    menu = view.list.menu_for(view.list.chosen_rows()[0])
    assert [action.text() for action in menu.actions() if action.text()] == ["Play", "Remove", "Show details"]
    seen = wishes(view)
    next(action for action in menu.actions() if action.data() == JobAction.REMOVE).trigger()
    assert seen == [(("done",), JobAction.REMOVE)]


def test_every_control_has_a_name_and_can_take_the_focus(view: QueueView) -> None:
    assert view.list.accessibleName()
    for button in view.buttons.values():
        assert button.text()
        assert button.focusPolicy() & Qt.FocusPolicy.TabFocus


def test_long_texts_are_cut_after_two_lines(qtbot: QtBot) -> None:
    del qtbot
    font = QFont()
    assert lines_of("short", font, 400) == ("short",)
    lines = lines_of("a word and " * 60, font, 200)
    assert len(lines) == 2
    assert lines[1].endswith("…")
    assert lines_of("", font, 200) == ("",)
    assert "".join(lines_of("😀 " * 200, font, 200)).count("\N{REPLACEMENT CHARACTER}") == 0
