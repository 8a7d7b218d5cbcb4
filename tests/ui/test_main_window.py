"""The window as a person uses it: adding, queue, library, Trash, trouble, closing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QModelIndex, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog, QLabel, QMessageBox
from pytestqt.qtbot import QtBot

from app.core.errors import ErrorCode, ErrorInfo
from app.engine.api import (
    AddPath,
    ChangeJob,
    EmptyTrash,
    EngineStatus,
    ExportFilm,
    ListLibrary,
    RemoveFilm,
    RestoreFilm,
)
from app.ui.bridge import EngineBridge
from app.ui.controller import Controller
from app.ui.details import DetailsDialog
from app.ui.main_window import MainWindow
from app.ui.panels import EmptyPage
from app.ui.presenters import FilmAction, JobAction, Section
from app.ui.wording import Wording
from tests.ui.fake_engine import FakeEngine, make_film, make_job


def mime_of(*urls: QUrl) -> QMimeData:
    """Return what is dragged when ``urls`` are."""
    mime = QMimeData()
    mime.setUrls(list(urls))
    return mime


def drop(window: MainWindow, *urls: QUrl) -> QDropEvent:
    """Drag ``urls`` over the window and let them go."""
    mime = mime_of(*urls)
    copy, left, none = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    enter = QDragEnterEvent(QPointF(50, 50), Qt.DropAction.CopyAction | Qt.DropAction.MoveAction, mime, left, none)
    QApplication.sendEvent(window, enter)
    assert enter.isAccepted()
    event = QDropEvent(QPointF(50, 50), copy | Qt.DropAction.MoveAction, mime, left, none)
    QApplication.sendEvent(window, event)
    return event


def question(window: MainWindow) -> QMessageBox | None:
    """Return the question that is open."""
    return next((box for box in window.findChildren(QMessageBox) if box.isVisible()), None)


def answer(qtbot: QtBot, window: MainWindow, text: str) -> None:
    """Press the button ``text`` of the open question."""
    qtbot.waitUntil(lambda: question(window) is not None)
    box = question(window)
    assert box is not None
    button = next(one for one in box.buttons() if one.text().replace("&", "") == text)
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)


@pytest.fixture
def show_jobs(qtbot: QtBot, window: MainWindow, engine: FakeEngine) -> Callable[..., None]:
    """Return a function that puts jobs into the queue and waits until they are shown."""

    def show(*jobs: object) -> None:
        engine.put_jobs(*jobs)  # type: ignore[arg-type]
        window.show_section(Section.QUEUE)
        qtbot.waitUntil(lambda: window.queue.list.model().rowCount() == len(jobs))

    return show


@pytest.fixture
def show_film(qtbot: QtBot, window: MainWindow, engine: FakeEngine) -> Callable[..., None]:
    """Return a function that puts one film with media id "m" into the library and waits until it is shown."""

    def show(title: str = "Film", **fields: object) -> None:
        engine.put_films(make_film(title, media_id="m", **fields))
        qtbot.waitUntil(lambda: window.library.model().rowCount() == 1)

    return show


# states


def test_an_empty_library_says_what_to_do(qtbot: QtBot, window: MainWindow) -> None:
    qtbot.waitUntil(lambda: isinstance(window.pages.currentWidget(), EmptyPage))
    page = window.pages.currentWidget()
    assert page is not None
    assert any("Drop your films here" in label.text() for label in page.findChildren(QLabel))
    for section in set(Section) - {Section.DEVICES}:  # there is always one device
        window.show_section(section)
        assert isinstance(window.pages.currentWidget(), EmptyPage)


def test_before_the_engine_answers_the_window_does_not_say_that_there_is_nothing(
    qtbot: QtBot, engine: FakeEngine, loop: asyncio.AbstractEventLoop
) -> None:
    engine.hold(ListLibrary)
    bridge = EngineBridge(engine, loop)
    controller = Controller(bridge, Wording())
    window = MainWindow(controller)
    qtbot.addWidget(window)
    window.show()
    bridge.start()
    qtbot.waitUntil(lambda: Section.QUEUE in controller.loaded)
    assert window.pages.currentWidget() is window._loading
    engine.release(ListLibrary)
    qtbot.waitUntil(lambda: isinstance(window.pages.currentWidget(), EmptyPage))
    controller.close()
    bridge.close(wait_s=1)


def test_a_job_told_by_the_engine_appears_in_the_queue(window: MainWindow, show_jobs: Callable[..., None]) -> None:
    show_jobs(make_job("Nosferatu", "processing", progress=0.4), make_job("Broken", "error"))
    button = window.sidebar.buttons[Section.QUEUE]
    assert button.accessibleName() == "Queue, 2 unfinished"
    assert button._badge.text() == "2"
    assert button._badge.property("alarm") is True
    assert window._summary.text() == "1 in progress · 1 failed"


def test_finished_jobs_can_be_hidden(window: MainWindow, show_jobs: Callable[..., None]) -> None:
    show_jobs(make_job("a", "done"), make_job("b", "queued"))
    QTest.mouseClick(window.header.hide_finished, Qt.MouseButton.LeftButton)
    assert window.queue.list.model().rowCount() == 1
    QTest.mouseClick(window.header.hide_finished, Qt.MouseButton.LeftButton)
    assert window.queue.list.model().rowCount() == 2


def test_a_choice_survives_events(
    qtbot: QtBot, window: MainWindow, engine: FakeEngine, show_jobs: Callable[..., None]
) -> None:
    """U5: selection stays where it is."""
    one, two = make_job("one", added_at_ms=1), make_job("two", "processing", added_at_ms=2)
    show_jobs(one, two)
    window.queue.list.setCurrentIndex(window.queue.list.model().index(1, 0))
    engine.drop_job(one.id)
    qtbot.waitUntil(lambda: window.queue.list.model().rowCount() == 1)
    assert [row.key for row in window.queue.list.chosen_rows()] == [two.id]


def test_the_search_filters_and_says_when_nothing_fits(window: MainWindow, show_film: Callable[..., None]) -> None:
    show_film("Nosferatu")
    QTest.keyClicks(window.header.search, "xyz")
    assert window.pages.currentWidget() is window._no_match
    window.header.search.setText("nos")
    assert window.pages.currentWidget() is window.library


# adding


def test_dropped_files_and_folders_are_added(
    qtbot: QtBot, window: MainWindow, engine: FakeEngine, tmp_path: Path
) -> None:
    for name in ("one.mp4", "two.mkv"):
        (tmp_path / name).touch()
    event = drop(window, QUrl.fromLocalFile(str(tmp_path)), QUrl.fromLocalFile("/films/three.mp4"))
    assert event.dropAction() == Qt.DropAction.CopyAction
    qtbot.waitUntil(lambda: len(engine.jobs) == 3)
    paths = {command.path for command in engine.called(AddPath)}
    assert paths == {os.fsencode(tmp_path / "one.mp4"), os.fsencode(tmp_path / "two.mkv"), b"/films/three.mp4"}
    qtbot.waitUntil(lambda: window.notices.keys == ())


def test_a_veil_says_where_to_drop_and_goes_away(window: MainWindow) -> None:
    mime = mime_of(QUrl.fromLocalFile("/a.mp4"))
    enter = QDragEnterEvent(
        QPointF(5, 5), Qt.DropAction.CopyAction, mime, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    )
    QApplication.sendEvent(window, enter)
    assert window._veil.isVisible()
    assert window._veil.size() == window.size()
    QApplication.sendEvent(window, QDragLeaveEvent())
    assert not window._veil.isVisible()


def test_a_dragged_text_is_not_taken(window: MainWindow) -> None:
    mime = QMimeData()
    mime.setText("hello")
    enter = QDragEnterEvent(
        QPointF(5, 5), Qt.DropAction.CopyAction, mime, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    )
    QApplication.sendEvent(window, enter)
    assert not window._veil.isVisible()


def test_refused_files_are_told_in_one_place_without_a_dialog(
    qtbot: QtBot, window: MainWindow, engine: FakeEngine
) -> None:
    """U4: a refusal is shown in words and does not stop what comes after it."""
    drop(
        window,
        QUrl.fromLocalFile("/a/notes.txt"),
        QUrl.fromLocalFile("/a/film.mp4"),
        QUrl("https://example.org/film.mp4"),
    )
    qtbot.waitUntil(lambda: "2 of 3 files were not added" in window.notices.text("add"))
    assert len(engine.jobs) == 1
    assert window.findChildren(QMessageBox) == []
    details = window.notices._cards["add"].accessibleDescription()
    assert "“notes.txt” is not a video file." in details
    assert "Only files on this machine" in details
    QTest.mouseClick(window.notices._cards["add"]._close, Qt.MouseButton.LeftButton)
    assert window.notices.keys == ()
    assert not window.notices.isVisible()


def test_files_chosen_in_the_dialog_are_added(qtbot: QtBot, window: MainWindow, engine: FakeEngine) -> None:
    QTest.mouseClick(window.header.add, Qt.MouseButton.LeftButton)
    dialog = window.findChildren(QFileDialog)[0]
    dialog.urlsSelected.emit([QUrl.fromLocalFile("/films/a.mp4")])
    qtbot.waitUntil(lambda: len(engine.jobs) == 1)
    dialog.close()


# jobs


def test_pause_and_resume_reach_the_engine(
    qtbot: QtBot, window: MainWindow, engine: FakeEngine, show_jobs: Callable[..., None]
) -> None:
    job = make_job("Film", "processing", progress=0.4)
    show_jobs(job)
    window.queue.list.setCurrentIndex(window.queue.list.model().index(0, 0))
    QTest.mouseClick(window.queue.buttons[JobAction.PAUSE], Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: engine.jobs[job.id].state == "paused")
    qtbot.waitUntil(window.queue.buttons[JobAction.RESUME].isEnabled)
    QTest.mouseClick(window.queue.buttons[JobAction.RESUME], Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: engine.jobs[job.id].state == "queued")


def test_throwing_work_away_is_asked_first(
    qtbot: QtBot, window: MainWindow, engine: FakeEngine, show_jobs: Callable[..., None]
) -> None:
    job = make_job("<b>Film</b>", "processing", progress=0.4)
    show_jobs(job)
    window.queue.list.wanted.emit((job.id,), JobAction.CANCEL)
    box = question(window)
    assert box is not None
    assert box.textFormat() == Qt.TextFormat.PlainText
    answer(qtbot, window, "Cancel")  # our own button comes first
    qtbot.waitUntil(lambda: engine.jobs[job.id].state == "cancelled")


def test_removing_a_done_job_puts_its_film_into_the_trash(
    qtbot: QtBot, window: MainWindow, engine: FakeEngine, show_jobs: Callable[..., None]
) -> None:
    engine.put_films(make_film("Film", media_id="m"))
    job = make_job("Film", "done", media_id="m")
    show_jobs(job)
    window.queue.list.wanted.emit((job.id,), JobAction.REMOVE)
    qtbot.waitUntil(lambda: engine.called(RemoveFilm) == [RemoveFilm(media_id="m")])
    assert engine.called(ChangeJob) == []
    qtbot.waitUntil(lambda: "in the Trash" in window.notices.text("trash m"))


def test_refused_actions_are_told_together(
    qtbot: QtBot, window: MainWindow, engine: FakeEngine, show_jobs: Callable[..., None]
) -> None:
    engine.refuse(ChangeJob, ErrorCode.ALREADY_DONE, "It is done already.")
    jobs = (make_job("a", "processing"), make_job("b", "processing"))
    show_jobs(*jobs)
    window.queue.list.wanted.emit(tuple(job.id for job in jobs), JobAction.PAUSE)
    qtbot.waitUntil(lambda: window.notices.text("jobs") == "2 jobs could not be paused:")


# films


def test_a_film_goes_to_the_trash_and_comes_back(
    qtbot: QtBot, window: MainWindow, engine: FakeEngine, show_film: Callable[..., None]
) -> None:
    show_film()
    window.library.wanted.emit("m", FilmAction.TRASH)
    qtbot.waitUntil(lambda: window.trash.model().rowCount() == 1)
    assert window.library.model().rowCount() == 0
    card = window.notices._cards["trash m"]
    QTest.mouseClick(card._action, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: window.library.model().rowCount() == 1)
    assert engine.called(RestoreFilm) == [RestoreFilm(media_id="m")]


def test_deleting_for_good_is_asked_first(
    qtbot: QtBot, window: MainWindow, engine: FakeEngine, show_film: Callable[..., None]
) -> None:
    show_film("A & B")
    window.library.wanted.emit("m", FilmAction.TRASH)
    qtbot.waitUntil(lambda: window.trash.model().rowCount() == 1)
    window.show_section(Section.TRASH)
    window.trash.wanted.emit("m", FilmAction.DELETE)
    answer(qtbot, window, "Delete")
    qtbot.waitUntil(lambda: engine.films == {})
    qtbot.waitUntil(lambda: window.trash.model().rowCount() == 0)


def test_emptying_the_trash_is_asked_first(
    qtbot: QtBot, window: MainWindow, engine: FakeEngine, show_film: Callable[..., None]
) -> None:
    show_film()
    window.library.wanted.emit("m", FilmAction.TRASH)
    qtbot.waitUntil(window.header.empty.isEnabled)
    window.show_section(Section.TRASH)
    QTest.mouseClick(window.header.empty, Qt.MouseButton.LeftButton)
    assert engine.called(EmptyTrash) == []
    answer(qtbot, window, "Empty Trash")
    qtbot.waitUntil(lambda: engine.films == {})


def test_an_export_shows_progress_and_can_be_stopped(
    qtbot: QtBot, window: MainWindow, engine: FakeEngine, show_film: Callable[..., None]
) -> None:
    show_film()
    engine.hold(ExportFilm)
    window._controller.export_film("m", b"/out/film.mp4")
    key = window.notices.keys[0]
    assert window.notices.text(key) == "Exporting “Film”… 0 %"
    QTest.mouseClick(window.notices._cards[key]._action, Qt.MouseButton.LeftButton)
    assert window.notices.keys == ()
    engine.release(ExportFilm)
    window._controller.export_film("m", b"/out/film.mp4")
    qtbot.waitUntil(lambda: window.notices.text(key) == "“Film” was exported to film.mp4.")


def test_details_are_shown_as_plain_text(qtbot: QtBot, window: MainWindow, show_film: Callable[..., None]) -> None:
    """U3: texts from files are shown as plain text, never as rich text."""
    show_film("<h1>Film</h1>")
    window.library.wanted.emit("m", FilmAction.DETAILS)
    qtbot.waitUntil(lambda: bool(window.findChildren(DetailsDialog)))
    labels = window.findChildren(DetailsDialog)[0].findChildren(QLabel)
    assert any(label.text() == "<h1>Film</h1>" for label in labels)
    assert all(label.textFormat() == Qt.TextFormat.PlainText for label in labels)


# trouble


def test_what_holds_the_engine_up_is_a_banner_until_it_is_gone(
    qtbot: QtBot, window: MainWindow, engine: FakeEngine
) -> None:
    trouble = ErrorInfo(code="disk-full", message="The disk is full.")
    engine.set_status(EngineStatus(working=True, idle=False, trouble=trouble))
    qtbot.waitUntil(lambda: window.notices.text("trouble") == "The disk is full.")
    assert not window.notices._cards["trouble"]._close.isVisible()
    engine.set_status(EngineStatus(working=True, idle=False))
    qtbot.waitUntil(lambda: window.notices.keys == ())


def test_an_engine_that_goes_away_is_told_and_comes_back(qtbot: QtBot, window: MainWindow, engine: FakeEngine) -> None:
    seen: list[str] = []
    window._controller.told.connect(lambda notice: seen.append(notice.key))
    engine.break_events()
    qtbot.waitUntil(lambda: "engine" in seen)
    qtbot.waitUntil(lambda: "engine" not in window.notices.keys)


def test_a_library_that_cannot_be_read_is_told(qtbot: QtBot, window: MainWindow, engine: FakeEngine) -> None:
    engine.refuse(ListLibrary, ErrorCode.DATABASE_DAMAGED, "The database is damaged.")
    engine.put_films(make_film("Film"))
    qtbot.waitUntil(lambda: window.notices.text("refused database-damaged") == "The database is damaged.")


# closing


def test_closing_with_calls_in_flight_is_quiet(qtbot: QtBot, window: MainWindow, engine: FakeEngine) -> None:
    engine.hold(AddPath)
    engine.hold(ListLibrary)
    drop(window, QUrl.fromLocalFile("/a.mp4"))
    engine.put_films(make_film("Film"))
    qtbot.waitUntil(lambda: bool(engine.called(AddPath)) and "ListLibrary" in map(_name, engine.calls))
    window.close()
    assert not window.isVisible()
    engine.release(AddPath)
    engine.release(ListLibrary)
    qtbot.waitUntil(lambda: len(engine.jobs) == 1)


def _name(command: object) -> str:
    return type(command).__name__


def test_closing_while_films_wait_to_be_added_asks(qtbot: QtBot, window: MainWindow, engine: FakeEngine) -> None:
    engine.hold(AddPath)
    drop(window, *(QUrl.fromLocalFile(f"/{number}.mp4") for number in range(7)))
    qtbot.waitUntil(lambda: window._controller.intake.unsent == 3)
    window.close()
    assert window.isVisible()
    box = question(window)
    assert box is not None
    assert box.text().startswith("3 films have not been added")
    answer(qtbot, window, "Close")
    qtbot.waitUntil(lambda: not window.isVisible())
    engine.release(AddPath)


def test_every_section_can_be_reached_by_keys(qtbot: QtBot, window: MainWindow) -> None:
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    for key, section in ((Qt.Key.Key_2, Section.QUEUE), (Qt.Key.Key_4, Section.TRASH), (Qt.Key.Key_1, Section.LIBRARY)):
        QTest.keyClick(window, key, Qt.KeyboardModifier.ControlModifier)
        assert window._section == section
        assert window.sidebar.buttons[section].isChecked()


def test_a_long_queue_comes_in_pages(qtbot: QtBot, window: MainWindow, engine: FakeEngine) -> None:
    engine.page = 2
    jobs = [make_job(f"Waits {number}", added_at_ms=number) for number in range(5)]
    jobs += [make_job(f"Is done {number}", "done", added_at_ms=number) for number in range(6)]
    engine.jobs.update({job.id: job for job in jobs})
    engine.break_events()  # on the next connection all is read anew
    window.show_section(Section.QUEUE)
    model = window.queue.list.model()
    qtbot.waitUntil(lambda: model.rowCount() >= 5)
    waiting = [model.index(row, 0).data() for row in range(model.rowCount())]
    assert [title for title in waiting if title.startswith("Waits")] == [f"Waits {number}" for number in range(5)]

    def is_at_the_end() -> bool:
        if model.canFetchMore(QModelIndex()):
            model.fetchMore(QModelIndex())
        return model.rowCount() == len(jobs)

    qtbot.waitUntil(is_at_the_end)
    assert not model.canFetchMore(QModelIndex())
