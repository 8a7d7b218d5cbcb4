"""Adding files and folders."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QUrl
from pytestqt.qtbot import QtBot

from app.core.errors import ErrorCode
from app.engine.api import AddPath
from app.ui.controller import Controller
from app.ui.intake import path_of_url
from app.ui.presenters import AddTally
from tests.ui.fake_engine import FakeEngine


def follow(controller: Controller) -> list[AddTally]:
    """Return the list that tallies are added to."""
    tallies: list[AddTally] = []
    controller.intake.told.connect(tallies.append)
    return tallies


def test_files_are_added_a_few_at_a_time(qtbot: QtBot, controller: Controller, engine: FakeEngine) -> None:
    tallies = follow(controller)
    engine.hold(AddPath)
    controller.intake.add([f"/films/{number}.mp4".encode() for number in range(10)])
    qtbot.waitUntil(lambda: len(engine.called(AddPath)) == 4)
    assert controller.intake.unsent == 6
    engine.release(AddPath)
    qtbot.waitUntil(lambda: tallies[-1].is_over)
    assert tallies[-1] == AddTally(sent=10, added=10, is_over=True)
    assert len(engine.jobs) == 10


def test_a_bad_file_does_not_stop_the_batch(
    qtbot: QtBot, controller: Controller, engine: FakeEngine, tmp_path: Path
) -> None:
    """U4: a refusal is shown in words and does not stop what comes after it."""
    for name in ("a.mp4", "b.txt", "c.mkv"):
        (tmp_path / name).touch()
    tallies = follow(controller)
    controller.intake.add([str(tmp_path).encode()])
    qtbot.waitUntil(lambda: bool(tallies) and tallies[-1].is_over)
    assert tallies[-1].added == 2
    assert tallies[-1].refused == ("“b.txt” is not a video file.",)
    assert [command.path.rpartition(b"/")[2] for command in engine.called(AddPath)] == [b"a.mp4", b"b.txt", b"c.mkv"]


def test_an_engine_that_refuses_a_file_is_heard(qtbot: QtBot, controller: Controller, engine: FakeEngine) -> None:
    engine.refuse(AddPath, ErrorCode.DISK_FULL, "The disk is full.")
    tallies = follow(controller)
    controller.intake.add([b"/films/a\xff.mp4"])
    qtbot.waitUntil(lambda: bool(tallies) and tallies[-1].is_over)
    assert tallies[-1].refused == ("a\N{REPLACEMENT CHARACTER}.mp4: The disk is full.",)


def test_what_comes_while_busy_joins_the_same_tally(qtbot: QtBot, controller: Controller, engine: FakeEngine) -> None:
    tallies = follow(controller)
    engine.hold(AddPath)
    controller.intake.add([b"/a.mp4"])
    qtbot.waitUntil(lambda: bool(engine.called(AddPath)))
    controller.intake.add([], [("https://x/y.mp4", "Only files on this machine can be added.")])
    engine.release(AddPath)
    qtbot.waitUntil(lambda: tallies[-1].is_over)
    assert (tallies[-1].sent, tallies[-1].added, len(tallies[-1].refused)) == (2, 1, 1)
    controller.intake.add([b"/a.mp4"])
    qtbot.waitUntil(lambda: tallies[-1].is_over and tallies[-1].already == 1)
    assert tallies[-1].sent == 1


def test_a_folder_that_cannot_be_walked_is_told(qtbot: QtBot, controller: Controller, tmp_path: Path) -> None:
    def walk(_paths: object) -> list[bytes]:
        raise PermissionError(13, "Permission denied", str(tmp_path / "locked"))

    controller.intake._expand_paths = walk
    tallies = follow(controller)
    controller.intake.add([b"/locked"])
    qtbot.waitUntil(lambda: bool(tallies) and tallies[-1].is_over)
    assert tallies[-1].refused == ("locked: It cannot be read (Permission denied). Allow reading it and add it again.",)


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("file:///films/a%20b.mp4", b"/films/a b.mp4"),
        ("file:///films/%C3%A4.mp4", "/films/ä.mp4".encode()),
        ("file:///films/%FF%23%25.mp4", b"/films/\xff#%.mp4"),
        ("https://example.org/a.mp4", None),
    ],
)
def test_a_dropped_address_keeps_the_bytes_of_its_path(url: str, path: bytes | None) -> None:
    assert path_of_url(QUrl(url)) == path
