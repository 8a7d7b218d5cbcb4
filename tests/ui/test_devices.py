"""The page of devices and its dialogs, as a person uses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from app.core.clock import Clock
from app.core.errors import ErrorCode
from app.engine.api import AwaitPairing, ConfirmWords, JoinSpace, ListDevices, OpenPairing, RevokeDevice, ShowWords
from app.ui.bridge import EngineBridge
from app.ui.device_desk import DeviceWatch
from app.ui.device_dialogs import (
    AskingDialog,
    ConfirmWordsDialog,
    InviteDialog,
    JoinDialog,
    ShutOutDialog,
    WordsDialog,
)
from app.ui.main_window import MainWindow
from app.ui.presenters import Section
from app.ui.wording import Wording
from tests.ui.fake_engine import WORDS, FakeEngine, make_device

D = TypeVar("D", bound=AskingDialog)


def click(button: QPushButton) -> None:
    """Press a button that can be pressed."""
    assert button.isVisible()
    assert button.isEnabled()
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)


def dialog_of(window: MainWindow, kind: type[D]) -> D:
    """Return the open dialog of a kind."""
    return next(one for one in window.findChildren(kind) if one.isVisible())


@pytest.fixture
def page(qtbot: QtBot, window: MainWindow, engine: FakeEngine) -> MainWindow:
    """Return the window on its devices: this one and a laptop."""
    engine.put_devices(make_device("Laptop", id="laptop", path="lan", rate_bytes_s=48_300_000))
    window.show_section(Section.DEVICES)
    qtbot.waitUntil(lambda: "laptop" in window.desk.view.members.cards)
    return window


@pytest.fixture
def invitation(qtbot: QtBot, page: MainWindow, engine: FakeEngine) -> InviteDialog:
    """Return the dialog that shows a code."""
    click(page.header.add_device)
    qtbot.waitUntil(lambda: engine.is_code_open)
    return dialog_of(page, InviteDialog)


# the list


def test_devices_are_shown_with_their_link_and_what_can_be_done(page: MainWindow) -> None:
    this, laptop = page.desk.view.members.cards.values()
    assert this.this.isVisible()
    assert not this.shut_out.isVisible()
    assert laptop.link.text() == "Connected · LAN · 48.3 MB/s"
    assert not laptop.this.isVisible()
    assert laptop.shut_out.accessibleName() == "Shut out Laptop"
    assert laptop.accessibleName().startswith("Laptop, Connected · LAN")
    assert not page.header.add.isVisible()


def test_alone_the_page_says_what_other_devices_are_good_for(qtbot: QtBot, window: MainWindow) -> None:
    window.show_section(Section.DEVICES)
    qtbot.waitUntil(window.desk.view.alone.isVisible)
    assert not window.desk.view.waiting.isVisible()


def test_a_device_that_changes_keeps_its_card(qtbot: QtBot, page: MainWindow, engine: FakeEngine) -> None:
    card = page.desk.view.members.cards["laptop"]
    card.shut_out.setFocus()
    engine.put_devices(make_device("Laptop", id="laptop", path="relay"))
    page.desk.watch.refresh()
    qtbot.waitUntil(lambda: card.link.text() == "Connected · relay")
    assert page.desk.view.members.cards["laptop"] is card
    assert card.shut_out.hasFocus()


def test_the_list_is_asked_for_again_only_while_it_is_seen(
    qtbot: QtBot, window: MainWindow, engine: FakeEngine
) -> None:
    window.desk.watch._timer.setInterval(5)
    assert engine.called(ListDevices) == []
    window.show_section(Section.DEVICES)
    qtbot.waitUntil(lambda: len(engine.called(ListDevices)) >= 3)
    window.show_section(Section.QUEUE)
    assert not window.desk.watch._timer.isActive()
    window.show_section(Section.DEVICES)
    assert window.desk.watch._timer.isActive()
    window.hide()
    assert not window.desk.watch._timer.isActive()


def test_no_second_question_is_asked_before_the_first_is_answered(
    qtbot: QtBot, bridge: EngineBridge, engine: FakeEngine
) -> None:
    watch = DeviceWatch(bridge, Wording())
    engine.hold(ListDevices)
    watch.refresh()
    watch._poll()
    watch._poll()
    qtbot.waitUntil(lambda: len(engine.called(ListDevices)) == 1)
    watch.refresh()  # something was done meanwhile: the answer to come may not know of it
    with qtbot.waitSignal(watch.changed):
        engine.release(ListDevices)
    qtbot.waitUntil(lambda: len(engine.called(ListDevices)) == 2)
    qtbot.waitUntil(lambda: not watch._is_asking)
    assert len(engine.called(ListDevices)) == 2


def test_an_engine_that_does_not_answer_is_told_and_the_list_stays(
    qtbot: QtBot, page: MainWindow, engine: FakeEngine
) -> None:
    engine.refuse(ListDevices, ErrorCode.ENGINE_GONE, "The engine has stopped.")
    page.desk.watch.refresh()
    qtbot.waitUntil(page.desk.view.trouble.isVisible)
    assert "out of date" in page.desk.view.trouble.text.text()
    assert len(page.desk.view.members.cards) == 2
    engine.refusals.clear()
    page.desk.watch.refresh()
    qtbot.waitUntil(lambda: not page.desk.view.trouble.isVisible())


def test_a_device_that_is_out_cannot_add_others(qtbot: QtBot, page: MainWindow, engine: FakeEngine) -> None:
    this = next(one for one in engine.devices.values() if one.this)
    engine.put_devices(make_device("Desk", id=this.id, this=True, state="revoked", revoked_by="Laptop"))
    page.desk.watch.refresh()
    qtbot.waitUntil(lambda: not page.header.add_device.isEnabled())
    assert page.header.join.isEnabled()
    assert not page.desk.view.members.cards["laptop"].shut_out.isVisible()


# showing a code


def test_a_code_is_shown_large_as_qr_code_and_with_the_address(invitation: InviteDialog) -> None:
    assert invitation.code.text() == "417-220-931"
    assert invitation.code.font().pointSizeF() > 2 * invitation.font().pointSizeF()
    assert invitation.qr.isVisible()
    assert invitation.qr.modules
    assert "192.168.1.20:45001" in invitation.address.text()
    assert invitation.time_left.text().startswith("Valid for ")
    assert "Join with a code" in invitation.text.text()
    assert not invitation.renew.isVisible()


def test_who_joins_is_named_and_appears_in_the_list(
    qtbot: QtBot, page: MainWindow, invitation: InviteDialog, engine: FakeEngine
) -> None:
    engine.let_in("Bedroom")
    qtbot.waitUntil(lambda: invitation.heading.text() == "“Bedroom” is one of your devices now")
    assert not invitation.code.isVisible()
    assert invitation.leave.text() == "Done"
    qtbot.waitUntil(lambda: len(page.desk.view.members.cards) == 3)
    click(invitation.leave)
    assert engine.codes == 1


def test_a_wrong_code_is_told_while_the_right_one_stays(
    qtbot: QtBot, invitation: InviteDialog, engine: FakeEngine
) -> None:
    engine.try_code(0.34, "A device gave a wrong code. 2 tries left.")
    qtbot.waitUntil(invitation.remark.isVisible)
    assert invitation.remark.text == "A device gave a wrong code. 2 tries left."
    assert invitation.code.isVisible()


def test_after_too_many_wrong_codes_a_new_one_can_be_shown(
    qtbot: QtBot, invitation: InviteDialog, engine: FakeEngine
) -> None:
    engine.try_code(1.0, "A device gave a wrong code. 0 tries left.")
    engine.end_code(ErrorCode.CODE_EXPIRED, "Run “hearthreel pair” again.")
    qtbot.waitUntil(invitation.renew.isVisible)
    assert "Too many wrong codes" in invitation.remark.text
    assert not invitation.qr.isVisible()
    click(invitation.renew)
    qtbot.waitUntil(lambda: invitation.code.text() == "417-220-932")
    assert invitation.code.isVisible()
    assert not invitation.remark.isVisible()


def test_closing_the_dialog_makes_the_code_void(qtbot: QtBot, invitation: InviteDialog, engine: FakeEngine) -> None:
    with qtbot.waitSignal(invitation.destroyed):
        click(invitation.leave)
    qtbot.waitUntil(lambda: not engine.is_code_open)


def test_closing_the_window_makes_the_code_void(
    qtbot: QtBot, page: MainWindow, invitation: InviteDialog, engine: FakeEngine
) -> None:
    assert invitation.isVisible()
    page.close()
    qtbot.waitUntil(lambda: not engine.is_code_open)


def test_a_code_that_cannot_be_opened_says_why(qtbot: QtBot, page: MainWindow, engine: FakeEngine) -> None:
    engine.refuse(OpenPairing, ErrorCode.NOT_A_MEMBER, "This device does not belong to the space.")
    page.desk.add_device()
    dialog = dialog_of(page, InviteDialog)
    qtbot.waitUntil(lambda: dialog.remark.text == "This device does not belong to the space.")
    assert engine.called(AwaitPairing) == []


class StandingClock(Clock):
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now_s = 50.0

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_ms(self) -> int:
        return 0


def test_the_time_left_runs_down(qtbot: QtBot, bridge: EngineBridge, engine: FakeEngine) -> None:
    clock = StandingClock()
    dialog = InviteDialog(bridge, Wording(), clock=clock)
    qtbot.addWidget(dialog)
    dialog._tick.setInterval(1)
    dialog.open()
    qtbot.waitUntil(lambda: engine.is_code_open)
    assert dialog.time_left.text() == "Valid for 10:00"
    clock.now_s += 61
    qtbot.waitUntil(lambda: dialog.time_left.text() == "Valid for 8:59")


# joining


@pytest.fixture
def joining(page: MainWindow) -> JoinDialog:
    """Return the dialog that takes a code."""
    click(page.header.join)
    return dialog_of(page, JoinDialog)


def test_a_code_is_sent_with_the_address_once_it_is_whole(
    qtbot: QtBot, page: MainWindow, joining: JoinDialog, engine: FakeEngine
) -> None:
    joining.code.setText("417-220")
    assert not joining.join.isEnabled()
    joining.code.setText(" 417-220-935")
    joining.address.setText("192.168.1.20:45001 ")
    click(joining.join)
    qtbot.waitUntil(lambda: joining.leave.text() == "Done")
    assert engine.called(JoinSpace) == [JoinSpace(code="417-220-935", at="192.168.1.20:45001")]
    assert joining.heading.text() == "This device is connected with “Laptop”"
    qtbot.waitUntil(lambda: len(page.desk.view.members.cards) == 3)


def test_a_failed_join_says_why_and_lets_the_code_be_corrected(
    qtbot: QtBot, joining: JoinDialog, engine: FakeEngine
) -> None:
    engine.refuse(JoinSpace, ErrorCode.UNREACHABLE, "“hearthreel pair CODE --at HOST:PORT”")
    joining.code.setText("417220935")
    QTest.keyClick(joining.code, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: "type the address" in joining.remark.text)
    assert engine.called(JoinSpace) == [JoinSpace(code="417220935", at=None)]
    assert joining.code.isEnabled()
    assert joining.join.isEnabled()
    qtbot.waitUntil(lambda: joining.address.geometry().bottom() <= joining._form.height())  # and nothing is cut off
    assert joining.address.height() >= joining.address.sizeHint().height()


def test_while_it_looks_for_the_other_device_nothing_can_be_sent_twice(
    qtbot: QtBot, joining: JoinDialog, engine: FakeEngine
) -> None:
    engine.hold(JoinSpace)
    joining.code.setText("417220935")
    click(joining.join)
    assert not joining.join.isEnabled()
    assert joining.remark.text == "Looking for the other device…"
    qtbot.waitUntil(lambda: len(engine.called(JoinSpace)) == 1)
    with qtbot.waitSignal(joining.destroyed):
        click(joining.leave)
    engine.release(JoinSpace)


# shutting out


@pytest.fixture
def shutting_out(page: MainWindow) -> ShutOutDialog:
    """Return the question whether the laptop is to be shut out."""
    click(page.desk.view.members.cards["laptop"].shut_out)
    return dialog_of(page, ShutOutDialog)


def test_nothing_is_shut_out_before_somebody_agrees(shutting_out: ShutOutDialog, engine: FakeEngine) -> None:
    assert shutting_out.heading.text() == "Shut out “Laptop”?"
    assert "What it holds already it keeps" in shutting_out.text.text()
    QTest.keyClick(shutting_out, Qt.Key.Key_Return)  # the careful answer is the default
    assert not shutting_out.isVisible()
    assert engine.called(RevokeDevice) == []


def test_afterwards_it_says_what_the_lost_device_may_still_hold(
    qtbot: QtBot, page: MainWindow, shutting_out: ShutOutDialog, engine: FakeEngine
) -> None:
    click(shutting_out.agree)
    qtbot.waitUntil(lambda: shutting_out.heading.text() == "“Laptop” is shut out")
    assert engine.called(RevokeDevice) == [RevokeDevice(device_id="laptop")]
    assert shutting_out.remark.text == "Laptop keeps titles and keys of up to 12 films."
    assert not shutting_out.agree.isVisible()
    qtbot.waitUntil(lambda: "laptop" in page.desk.view.former.cards)
    assert "laptop" not in page.desk.view.members.cards


def test_a_refused_shut_out_says_why(qtbot: QtBot, shutting_out: ShutOutDialog, engine: FakeEngine) -> None:
    engine.refuse(RevokeDevice, ErrorCode.NOT_A_MEMBER, "This device has no say.")
    click(shutting_out.agree)
    qtbot.waitUntil(lambda: shutting_out.remark.text == "This device has no say.")
    assert shutting_out.agree.isEnabled()


# the words


def fill_in(dialog: ConfirmWordsDialog, word_of: Callable[[int], str]) -> None:
    """Type a word for each number."""
    for number, field in dialog.fields.items():
        field.setText(word_of(number))


@pytest.fixture
def confirming(qtbot: QtBot, page: MainWindow) -> ConfirmWordsDialog:
    """Return the dialog that asks for three words."""
    click(page.desk.view.show_words)
    shown = dialog_of(page, WordsDialog)
    qtbot.waitUntil(shown.confirm.isEnabled)
    click(shown.confirm)
    return dialog_of(page, ConfirmWordsDialog)


def test_the_words_are_shown_in_their_order(qtbot: QtBot, page: MainWindow) -> None:
    page.desk.show_words()
    dialog = dialog_of(page, WordsDialog)
    qtbot.waitUntil(lambda: dialog.words == WORDS)
    labels = [dialog._grid.itemAt(number).widget().text() for number in range(dialog._grid.count())]  # type: ignore[union-attr]
    assert labels == [text for number, word in enumerate(WORDS, start=1) for text in (str(number), word)]


def test_words_that_are_gone_say_so(qtbot: QtBot, page: MainWindow, engine: FakeEngine) -> None:
    engine.refuse(ShowWords, ErrorCode.ALREADY_DONE, "They were confirmed and deleted.")
    page.desk.show_words()
    dialog = dialog_of(page, WordsDialog)
    qtbot.waitUntil(lambda: dialog.remark.text == "They were confirmed and deleted.")
    assert not dialog.confirm.isVisible()


def test_right_words_end_the_reminder(
    qtbot: QtBot, page: MainWindow, confirming: ConfirmWordsDialog, engine: FakeEngine
) -> None:
    assert page.desk.view.reminder.isVisible()
    assert not confirming.confirm.isEnabled()
    fill_in(confirming, lambda number: f" {WORDS[number - 1]} ")
    click(confirming.confirm)
    qtbot.waitUntil(lambda: confirming.heading.text() == "Confirmed")
    (sent,) = engine.called(ConfirmWords)
    assert sent.words == {number: WORDS[number - 1] for number in confirming.fields}
    assert len(sent.words) == 3
    qtbot.waitUntil(lambda: not page.desk.view.reminder.isVisible())


def test_a_wrong_word_is_told_and_can_be_corrected(qtbot: QtBot, confirming: ConfirmWordsDialog) -> None:
    fill_in(confirming, lambda _number: "wrong")
    click(confirming.confirm)
    qtbot.waitUntil(lambda: "is another one" in confirming.remark.text)
    assert confirming.confirm.isEnabled()
    fill_in(confirming, lambda number: WORDS[number - 1])
    click(confirming.confirm)
    qtbot.waitUntil(lambda: confirming.heading.text() == "Confirmed")


def test_from_confirming_one_can_go_back_to_the_words(
    qtbot: QtBot, page: MainWindow, confirming: ConfirmWordsDialog
) -> None:
    click(confirming.again)
    qtbot.waitUntil(lambda: dialog_of(page, WordsDialog).words == WORDS)
    qtbot.waitUntil(lambda: page.findChildren(ConfirmWordsDialog) == [])


def test_texts_from_devices_are_plain(page: MainWindow) -> None:
    card = page.desk.view.members.cards["laptop"]
    for label in (card.name, card.link, card.note):
        assert label.textFormat() == Qt.TextFormat.PlainText
