"""Models change only what differs, and Qt's own tester finds nothing wrong with them."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QPersistentModelIndex, Qt
from PySide6.QtTest import QAbstractItemModelTester
from pytestqt.qtbot import QtBot

from app.ui.models import ROW_ROLE, QueueModel
from app.ui.presenters import JobRow, present_job
from app.ui.wording import Wording
from tests.ui.fake_engine import make_job


def row(key: str, state: str = "queued", title: str | None = None) -> JobRow:
    """Return a line with ``key``."""
    return present_job(make_job(title or key, state, id=key), Wording())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(st.lists(st.lists(st.sampled_from("abcdefg"), unique=True), max_size=5))
def test_a_model_follows_any_history_of_lists(qtbot: QtBot, history: list[list[str]]) -> None:
    del qtbot
    model = QueueModel()
    tester = QAbstractItemModelTester(model, QAbstractItemModelTester.FailureReportingMode.Fatal)
    for keys in history:
        model.set_rows([row(key) for key in keys])
        assert [model.index(number, 0).data() for number in range(model.rowCount())] == keys
    assert tester.model() is model


def test_only_rows_that_differ_are_announced(qtbot: QtBot) -> None:
    """U5: an event changes only the rows that differ."""
    del qtbot
    model = QueueModel()
    model.set_rows([row("a"), row("b"), row("c")])
    changes: list[int] = []
    model.dataChanged.connect(lambda first, _last: changes.append(first.row()))
    model.modelReset.connect(lambda: pytest.fail("reset"))
    model.set_rows([row("a"), row("b", "paused"), row("c")])
    model.set_rows([row("a"), row("b", "paused"), row("c")])
    assert changes == [1]


def test_an_index_stays_with_its_row_when_rows_move(qtbot: QtBot) -> None:
    del qtbot
    model = QueueModel()
    model.set_rows([row("a"), row("b"), row("c")])
    kept = QPersistentModelIndex(model.index(0, 0))
    model.set_rows([row("b"), row("c"), row("a", "done")])
    assert kept.row() == 2
    assert kept.data(ROW_ROLE).state_text == "Ready to play"


def test_a_tooltip_is_never_taken_for_html(qtbot: QtBot) -> None:
    """U3: texts from files are shown as plain text."""
    del qtbot
    model = QueueModel()
    model.set_rows([row("a", title="<img src='http://x/'><b>Film</b>")])
    tip = model.index(0, 0).data(Qt.ItemDataRole.ToolTipRole)
    assert "<img" not in tip
    assert "&lt;img" in tip
    assert model.index(0, 0).data() == "<img src='http://x/'><b>Film</b>"


def test_a_row_tells_a_screen_reader_title_and_state(qtbot: QtBot) -> None:
    del qtbot
    model = QueueModel()
    model.set_rows([row("a", "cancelled", "Film")])
    assert model.index(0, 0).data(Qt.ItemDataRole.AccessibleTextRole) == "Film, Cancelled"
