"""Two windows on two true engines become one owner's devices: what the dialogs expect is what an engine does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.core.paths import DataDir
from app.engine.host import EngineHost
from app.ui.bridge import EngineBridge
from app.ui.controller import Controller
from app.ui.device_dialogs import ConfirmWordsDialog, InviteDialog, JoinDialog, ShutOutDialog, WordsDialog
from app.ui.main_window import MainWindow
from app.ui.presenters import Section
from app.ui.wording import Wording

pytestmark = pytest.mark.slow
_PATIENCE_MS = 30_000
OpenWindow = Callable[[str], MainWindow]


@pytest.fixture
def open_window(qtbot: QtBot, loop: asyncio.AbstractEventLoop, tmp_path: Path) -> Iterator[OpenWindow]:
    """Return a function that opens a window on an engine of its own, showing its devices."""
    ends: list[Callable[[], None]] = []

    def open_one(name: str) -> MainWindow:
        root = tmp_path / name
        root.mkdir()
        (root / "settings.json").write_text('{"listen.host": "127.0.0.1", "discovery": false}')
        host = EngineHost(DataDir(root=root), work=True, lasting=True)
        asyncio.run_coroutine_threadsafe(host.open(), loop).result(20)
        bridge = EngineBridge(host, loop)
        controller = Controller(bridge, Wording())
        window = MainWindow(controller)
        bridge.start()
        window.show()
        window.show_section(Section.DEVICES)

        def end() -> None:
            window.close()
            controller.close()
            bridge.close(wait_s=2)
            asyncio.run_coroutine_threadsafe(host.close(), loop).result(20)

        ends.append(end)
        qtbot.waitUntil(lambda: window.desk.watch.page.is_known, timeout=_PATIENCE_MS)
        return window

    yield open_one
    for end in ends:
        end()


def test_two_windows_pair_see_each_other_and_part(qtbot: QtBot, open_window: OpenWindow) -> None:
    desk, laptop = open_window("desk"), open_window("laptop")
    desk.desk.add_device()
    laptop.desk.join()
    (invite,), (join,) = desk.findChildren(InviteDialog), laptop.findChildren(JoinDialog)
    qtbot.waitUntil(lambda: invite.code.text() != "", timeout=_PATIENCE_MS)
    join.address.setText(invite.address.text())

    wrong = f"{invite.code.text()[:-1]}{(int(invite.code.text()[-1]) + 1) % 10}"
    join.code.setText(wrong)
    join.send()
    qtbot.waitUntil(lambda: "The code is wrong" in join.remark.text, timeout=_PATIENCE_MS)
    qtbot.waitUntil(lambda: "2 tries left" in invite.remark.text, timeout=_PATIENCE_MS)

    join.code.setText(invite.code.text())
    join.send()
    qtbot.waitUntil(lambda: join.leave.text() == "Done", timeout=_PATIENCE_MS)
    qtbot.waitUntil(lambda: invite.leave.text() == "Done", timeout=_PATIENCE_MS)
    join.close()
    invite.close()
    for window in (desk, laptop):
        qtbot.waitUntil(lambda window=window: is_connected(window), timeout=_PATIENCE_MS)  # type: ignore[misc]

    other = desk.desk.watch.page.members[1]
    desk.desk.view.wanted.emit(other, other.actions[0])
    (question,) = desk.findChildren(ShutOutDialog)
    question.send()
    qtbot.waitUntil(lambda: "gets nothing new" in question.remark.text, timeout=_PATIENCE_MS)
    qtbot.waitUntil(lambda: len(desk.desk.watch.page.former) == 1, timeout=_PATIENCE_MS)


def is_connected(window: MainWindow) -> bool:
    """Return whether the window shows one other device, connected in the local network."""
    links = [row.link_text for row in window.desk.watch.page.members]
    return len(links) == 2 and links[1].startswith("Connected · LAN")


def test_the_words_of_a_true_engine_are_shown_and_confirmed(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window("desk")
    assert window.desk.view.reminder.isVisible()
    window.desk.show_words()
    (shown,) = window.findChildren(WordsDialog)
    qtbot.waitUntil(lambda: len(shown.words) == 24, timeout=_PATIENCE_MS)
    words = shown.words
    shown.confirm.click()
    (confirm,) = window.findChildren(ConfirmWordsDialog)
    for number, field in confirm.fields.items():
        field.setText(words[number - 1])
    confirm.send()
    qtbot.waitUntil(lambda: confirm.heading.text() == "Confirmed", timeout=_PATIENCE_MS)
    qtbot.waitUntil(lambda: not window.desk.view.reminder.isVisible(), timeout=_PATIENCE_MS)
