"""Work on other threads comes back in order, on Qt's thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from pytestqt.qtbot import QtBot

from app.ui.background import Background


def fail(what: object) -> None:
    """Fail the test: this must not be called."""
    pytest.fail(f"called with {what!r}")


@pytest.fixture
def background(qtbot: QtBot) -> Iterator[Background]:
    """Return threads that end with the test."""
    del qtbot
    background = Background()
    yield background
    background.close()


def test_work_runs_elsewhere_and_its_result_comes_here(qtbot: QtBot, background: Background) -> None:
    """U1: the window does not wait for work."""
    seen: list[tuple[threading.Thread, threading.Thread]] = []
    background.run(threading.current_thread, lambda there: seen.append((there, threading.current_thread())), fail)
    qtbot.waitUntil(lambda: bool(seen))
    there, here = seen[0]
    assert there is not threading.main_thread()
    assert here is threading.main_thread()


def test_an_error_of_work_comes_here(qtbot: QtBot, background: Background) -> None:
    errors: list[Exception] = []
    background.run(lambda: 1 // 0, fail, errors.append)
    qtbot.waitUntil(lambda: bool(errors))
    assert isinstance(errors[0], ZeroDivisionError)


def test_a_stream_comes_in_batches_in_order_and_then_ends(qtbot: QtBot, background: Background) -> None:
    batches: list[list[int]] = []
    ends: list[Exception | None] = []
    background.stream(lambda: range(150), batches.append, ends.append)
    qtbot.waitUntil(lambda: bool(ends))
    assert [number for batch in batches for number in batch] == list(range(150))
    assert len(batches) == 3
    assert ends == [None]


def test_a_stream_that_breaks_keeps_what_it_found(qtbot: QtBot, background: Background) -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise PermissionError(13, "Permission denied", "/locked")

    batches: list[list[int]] = []
    ends: list[Exception | None] = []
    background.stream(broken, batches.append, ends.append)
    qtbot.waitUntil(lambda: bool(ends))
    assert batches == [[1]]
    assert isinstance(ends[0], PermissionError)


def test_after_close_nothing_is_delivered(qtbot: QtBot, background: Background) -> None:
    started, go_on = threading.Event(), threading.Event()

    def work() -> bool:
        started.set()
        return go_on.wait(5)

    background.run(work, fail, fail)
    assert started.wait(5)
    background.close()
    go_on.set()
    qtbot.wait(20)
