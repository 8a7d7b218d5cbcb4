"""Dialogs about the owner's devices: show a code, join with one, shut a device out, the 24 words and confirming them.

Each asks the engine one thing at a time, and shows in the same place what came of it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TypeVar

import msgspec
from PySide6.QtCore import QEvent, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QHideEvent, QPainter, QPaintEvent, QShowEvent
from PySide6.QtWidgets import (
    QDialog,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.core.clock import Clock, SystemClock
from app.core.errors import ErrorInfo
from app.engine.api import (
    AwaitPairing,
    Command,
    ConfirmWords,
    JoinSpace,
    OpenPairing,
    PairedSnapshot,
    PairingSnapshot,
    RevokeDevice,
    RevokedSnapshot,
    ShowWords,
    WordsSnapshot,
)
from app.ui.bridge import Call, EngineBridge
from app.ui.device_presenters import (
    DeviceRow,
    Draw,
    Invitation,
    InvitationView,
    are_typed,
    confirm_hint,
    confirmed_text,
    draw_numbers,
    is_code,
    join_error_text,
    join_hint,
    joined_heading,
    joined_text,
    present_invitation,
    shut_out_done,
    shut_out_question,
    words_hint,
)
from app.ui.icons import paint_icon
from app.ui.notices import paint_card, plain_label
from app.ui.presenters import Tone
from app.ui.qr_code import QrCode
from app.ui.theme import SPACE, scaled_font, tokens_of
from app.ui.wording import Wording, clean_line

R = TypeVar("R")

_TICK_MS = 1000
_WIDTH = 560
_SIGN = 28
_COLUMNS = 4


class Remark(QFrame):
    """A sentence on a ground of its own; empty, it takes no room."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._tone = Tone.ERROR
        self._text = plain_label("")
        column = QVBoxLayout(self)
        column.setContentsMargins(2 * SPACE, SPACE, SPACE, SPACE)
        column.addWidget(self._text)
        self.hide()

    @property
    def text(self) -> str:
        """What it says."""
        return self._text.text()

    def say(self, text: str, tone: Tone = Tone.ERROR) -> None:
        """Become ``text``."""
        self._tone = tone
        self._text.setText(text)
        self.setAccessibleName(text)
        self.setVisible(bool(text))
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        del event
        paint_card(self, self._tone)


class _Sign(QWidget):
    """Says at a glance that it went well."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedSize(_SIGN, _SIGN)

    def paintEvent(self, event: QPaintEvent) -> None:
        del event
        painter = QPainter(self)
        paint_icon(painter, "done", QRectF(self.rect()), QColor(tokens_of(self).good))
        painter.end()


class AskingDialog(QDialog):
    """A heading, a text, something between, a remark and buttons; asks the engine one thing at a time."""

    def __init__(self, bridge: EngineBridge, wording: Wording, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(title)
        self.setMinimumWidth(_WIDTH)
        self._bridge = bridge
        self.wording = wording
        self._call: Call | None = None
        self._is_over = False
        self._fitted = 0
        self._sign = _Sign()
        self.heading = plain_label("")
        self.heading.setFont(scaled_font(self.font(), 1.4, weight=QFont.Weight.DemiBold))
        self.text = plain_label("")
        self.body = QVBoxLayout()
        self.body.setSpacing(SPACE)
        self.remark = Remark()
        self._buttons = QHBoxLayout()
        self._buttons.setSpacing(SPACE)
        self._buttons.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(3 * SPACE, 3 * SPACE, 3 * SPACE, 2 * SPACE)
        column.setSpacing(2 * SPACE)
        head = QHBoxLayout()
        head.setSpacing(SPACE)
        head.addWidget(self._sign)
        head.addWidget(self.heading, 1)
        column.addLayout(head)
        column.addWidget(self.text)
        column.addLayout(self.body)
        column.addWidget(self.remark)
        column.addStretch(1)
        column.addLayout(self._buttons)

    def say(self, heading: str, text: str, *, is_done: bool = False) -> None:
        """Show ``heading`` and ``text``; ``is_done`` when it is over and went well."""
        self._sign.setVisible(is_done)
        self.heading.setText(heading)
        self.text.setText(text)
        self.text.setVisible(bool(text))

    def add_button(self, text: str, act: Callable[[], object], *, is_main: bool = False) -> QPushButton:
        """Put a button to the right of the others."""
        button = QPushButton(text)
        button.setAutoDefault(is_main)
        button.setDefault(is_main)
        if is_main:
            button.setObjectName("main")
        button.clicked.connect(lambda _checked=False: act())
        self._buttons.addWidget(button)
        return button

    def event(self, event: QEvent) -> bool:
        done = super().event(event)
        if event.type() == QEvent.Type.LayoutRequest:
            self._fit()
        return done

    def showEvent(self, event: QShowEvent) -> None:
        self._fit()
        super().showEvent(event)

    def _fit(self) -> None:
        """Become as high as what is shown, whenever that changes; in between a person may choose another size."""
        layout = self.layout()
        height = layout.totalHeightForWidth(self.width()) if layout is not None else 0
        if height > 0 and height != self._fitted:
            self._fitted = height
            self.resize(self.width(), height)

    def ask(
        self,
        command: Command[R],
        on_reply: Callable[[R], None],
        on_error: Callable[[ErrorInfo], None],
        on_progress: Callable[[float, str], None] | None = None,
    ) -> None:
        """Send ``command``; nothing is called after the dialog was closed."""

        def replied(reply: R) -> None:
            self._call = None
            if not self._is_over:
                on_reply(reply)

        def failed(info: ErrorInfo) -> None:
            self._call = None
            if not self._is_over:
                on_error(info)

        def told(share: float, word: str) -> None:
            if on_progress is not None and not self._is_over:
                on_progress(share, word)

        self._call = self._bridge.send(command, replied, failed, told if on_progress is not None else None)

    @property
    def is_asking(self) -> bool:
        """Whether the engine has not answered yet."""
        return self._call is not None

    def withdraw(self) -> None:
        """Withdraw what was asked last, if it is not answered."""
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def done(self, result: int) -> None:
        self._is_over = True
        self.give_up()
        super().done(result)

    def give_up(self) -> None:
        """Do what closing the dialog means for what is under way: it is withdrawn."""
        self.withdraw()


class InviteDialog(AskingDialog):
    """Shows a code that lets one device in, until one has come in or the code is void."""

    joined = Signal()

    def __init__(
        self,
        bridge: EngineBridge,
        wording: Wording,
        parent: QWidget | None = None,
        *,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(bridge, wording, wording.say("Add a device"), parent)
        self._clock = clock or SystemClock()
        self._state = Invitation()
        self.qr = QrCode()
        self.code = plain_label("")
        fixed = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
        self.code.setFont(scaled_font(fixed, 2.6, weight=QFont.Weight.Bold))
        self.code.setWordWrap(False)
        self.address = plain_label("")
        self.time_left = plain_label("", is_muted=True)
        self._shown = self._build_shown()
        self.body.addWidget(self._shown)
        self.renew = self.add_button(wording.say("Show a new code"), self.open_code, is_main=True)
        self.leave = self.add_button("", self.close)
        self._tick = QTimer(self)
        self._tick.setInterval(_TICK_MS)
        self._tick.timeout.connect(self._show)
        self.open_code()

    def _build_shown(self) -> QWidget:
        label = plain_label(self.wording.say("Address, if it is needed"), is_muted=True)
        caption = plain_label(self.wording.say("Code and address, for a camera"), is_muted=True)
        caption.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        left = QVBoxLayout()
        left.setSpacing(SPACE)
        left.addWidget(self.qr, 0, Qt.AlignmentFlag.AlignHCenter)
        left.addWidget(caption)
        right = QVBoxLayout()
        right.setSpacing(SPACE // 2)
        right.addStretch(1)
        right.addWidget(self.code)
        right.addWidget(self.time_left)
        right.addSpacing(2 * SPACE)
        right.addWidget(label)
        right.addWidget(self.address)
        right.addStretch(1)
        shown = QWidget()
        row = QHBoxLayout(shown)
        row.setContentsMargins(0, SPACE, 0, SPACE)
        row.setSpacing(3 * SPACE)
        row.addLayout(left)
        row.addLayout(right, 1)
        return shown

    def open_code(self) -> None:
        """Ask for a (new) code."""
        self.withdraw()
        self._state = Invitation()
        self._show()
        self.ask(OpenPairing(), self._opened, self._ended)

    def hideEvent(self, event: QHideEvent) -> None:
        self._tick.stop()
        super().hideEvent(event)

    def _opened(self, shown: PairingSnapshot) -> None:
        self._state = Invitation(shown=shown, since_s=self._clock.monotonic_s())
        self._tick.start()
        self._show()
        self.ask(AwaitPairing(code=shown.code), self._paired, self._ended, self._warn)

    def _warn(self, used: float, message: str) -> None:
        self._state = msgspec.structs.replace(self._state, used=used, warning=clean_line(message))
        self._show()

    def _paired(self, paired: PairedSnapshot) -> None:
        self._tick.stop()
        self._state = msgspec.structs.replace(self._state, paired=paired)
        self._show()
        self.joined.emit()

    def _ended(self, info: ErrorInfo) -> None:
        self._tick.stop()
        self._state = msgspec.structs.replace(self._state, error=info)
        self._show()
        self.renew.setFocus()

    def _show(self) -> None:
        view = present_invitation(self._state, self._clock.monotonic_s(), self.wording)
        self._show_view(view)

    def _show_view(self, view: InvitationView) -> None:
        is_over = view.tone in {Tone.ERROR, Tone.DONE}
        self.say(view.heading, "" if is_over else view.text, is_done=view.tone == Tone.DONE)
        self._shown.setVisible(bool(view.code))
        self.code.setText(view.code)
        self.qr.show_text(view.link)
        self.qr.setAccessibleName(view.link)
        self.address.setText(view.address)
        self.time_left.setText(view.time_left)
        if is_over:
            self.remark.say(view.text, view.tone)
        else:
            self.remark.say(view.warning, Tone.WARNING)
        self.renew.setVisible(view.can_renew)
        self.leave.setText(view.close)


def _grid_on(widget: QWidget) -> QGridLayout:
    form = QGridLayout(widget)
    form.setContentsMargins(0, 0, 0, 0)
    form.setHorizontalSpacing(2 * SPACE)
    form.setVerticalSpacing(SPACE)
    form.setColumnStretch(1, 1)
    return form


def _add_field(form: QGridLayout, label: str, field: QLineEdit) -> None:
    row = form.rowCount()
    form.addWidget(plain_label(label), row, 0)
    form.addWidget(field, row, 1)
    field.setAccessibleName(label)


class JoinDialog(AskingDialog):
    """Takes the code that another device shows."""

    joined = Signal()

    def __init__(self, bridge: EngineBridge, wording: Wording, parent: QWidget | None = None) -> None:
        super().__init__(bridge, wording, wording.say("Join with a code"), parent)
        self.say(wording.say("Join with a code"), join_hint(wording))
        self.code = QLineEdit()
        self.code.setPlaceholderText("417-220-935")
        self.code.setFont(scaled_font(self.font(), 1.5))
        self.address = QLineEdit()
        self.address.setPlaceholderText(wording.say("only if it is not found; such as 192.168.1.20:45001"))
        self._form = QWidget()
        form = _grid_on(self._form)
        _add_field(form, wording.say("Code"), self.code)
        _add_field(form, wording.say("Address"), self.address)
        self.body.addWidget(self._form)
        self.leave = self.add_button(wording.say("Cancel"), self.close)
        self.join = self.add_button(wording.say("Join"), self.send, is_main=True)
        self.code.textChanged.connect(lambda _text: self._allow())
        self._allow()
        self.code.setFocus()

    def send(self) -> None:
        """Ask to join."""
        at = self.address.text().strip()
        command = JoinSpace(code=self.code.text().strip(), at=at or None)
        self.ask(command, self._joined, lambda info: self._failed(info, has_address=bool(at)))
        self._allow()
        self.remark.say(self.wording.say("Looking for the other device…"), Tone.WORKING)

    def _allow(self) -> None:
        self._form.setEnabled(not self.is_asking)
        self.join.setEnabled(is_code(self.code.text()) and not self.is_asking)

    def _joined(self, paired: PairedSnapshot) -> None:
        self._form.hide()
        self.join.hide()
        self.leave.setText(self.wording.say("Done"))
        self.say(joined_heading(paired, self.wording), "", is_done=True)
        self.remark.say(joined_text(paired, self.wording), Tone.DONE)
        self.joined.emit()

    def _failed(self, info: ErrorInfo, *, has_address: bool) -> None:
        self._allow()
        self.remark.say(join_error_text(info, has_address=has_address, wording=self.wording))
        self.code.setFocus()
        self.code.selectAll()


class ShutOutDialog(AskingDialog):
    """Asks before a device is shut out, and says afterwards what it may still hold."""

    shut_out = Signal()

    def __init__(self, bridge: EngineBridge, wording: Wording, row: DeviceRow, parent: QWidget | None = None) -> None:
        super().__init__(bridge, wording, wording.say("Shut out a device"), parent)
        self._key = row.key
        question = shut_out_question(row, wording)
        self.say(question.heading, question.text)
        self.agree = self.add_button(wording.say("Shut out"), self.send)
        self.leave = self.add_button(wording.say("Cancel"), self.close)
        self.leave.setDefault(True)
        self.leave.setFocus()

    def send(self) -> None:
        """Do it."""
        self.agree.setEnabled(False)
        self.leave.setText(self.wording.say("Close"))
        self.remark.say("")
        self.ask(RevokeDevice(device_id=self._key), self._done, self._failed)

    def give_up(self) -> None:
        """Let it be done all the same: half a revocation helps nobody."""

    def _done(self, revoked: RevokedSnapshot) -> None:
        texts = shut_out_done(revoked.device.name, revoked.still_holds, self.wording)
        self.agree.hide()
        self.leave.setText(self.wording.say("Done"))
        self.say(texts.heading, "", is_done=True)
        self.remark.say(texts.text, texts.tone)
        self.shut_out.emit()

    def _failed(self, info: ErrorInfo) -> None:
        self.agree.setEnabled(True)
        self.remark.say(clean_line(info.message))


class WordsDialog(AskingDialog):
    """Shows the 24 words, for as long as it is open."""

    confirm_wanted = Signal()

    def __init__(self, bridge: EngineBridge, wording: Wording, parent: QWidget | None = None) -> None:
        super().__init__(bridge, wording, wording.say("Your 24 words"), parent)
        self.say(wording.say("Your 24 words"), words_hint(wording))
        self._grid = QGridLayout()
        self._grid.setHorizontalSpacing(SPACE)
        self._grid.setVerticalSpacing(12)
        self._grid.setContentsMargins(0, SPACE, 0, SPACE)
        self.body.addLayout(self._grid)
        self.words: tuple[str, ...] = ()
        self.leave = self.add_button(wording.say("Close"), self.close)
        self.confirm = self.add_button(wording.say("I have written them down…"), self._go_on, is_main=True)
        self.confirm.setEnabled(False)
        self.ask(ShowWords(), self._came, self._failed)

    def _came(self, shown: WordsSnapshot) -> None:
        self.words = shown.words
        rows = -(-len(shown.words) // _COLUMNS)
        for number, word in enumerate(shown.words):
            column, row = divmod(number, rows)
            self._grid.addWidget(_number_label(number + 1), row, 2 * column)
            self._grid.addWidget(_word_label(word), row, 2 * column + 1)
        for column in range(_COLUMNS):
            self._grid.setColumnStretch(2 * column + 1, 1)
        self.confirm.setEnabled(True)

    def _failed(self, info: ErrorInfo) -> None:
        self.text.hide()
        self.confirm.hide()
        self.remark.say(clean_line(info.message), Tone.WARNING)

    def _go_on(self) -> None:
        self.close()
        self.confirm_wanted.emit()


def _number_label(number: int) -> QLabel:
    label = plain_label(str(number), is_muted=True)
    label.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
    return label


def _word_label(word: str) -> QLabel:
    label = plain_label(word)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.NoTextInteraction)  # to paper, not to the clipboard
    label.setFont(scaled_font(label.font(), 1.15, weight=QFont.Weight.DemiBold))
    return label


class ConfirmWordsDialog(AskingDialog):
    """Asks for some of the words; right, they are deleted from this device."""

    confirmed = Signal()
    show_wanted = Signal()

    def __init__(
        self,
        bridge: EngineBridge,
        wording: Wording,
        parent: QWidget | None = None,
        *,
        draw: Draw | None = None,
    ) -> None:
        super().__init__(bridge, wording, wording.say("Confirm the words"), parent)
        self.say(wording.say("Confirm the words"), confirm_hint(wording))
        self._form = QWidget()
        form = _grid_on(self._form)
        self.fields: dict[int, QLineEdit] = {}
        for number in draw_numbers(draw or secrets.SystemRandom().sample):
            field = QLineEdit()
            field.textChanged.connect(lambda _text: self._allow())
            _add_field(form, wording.say("Word {n}", n=number), field)
            self.fields[number] = field
        self.body.addWidget(self._form)
        self.again = self.add_button(wording.say("Show the words again"), self._go_back)
        self.leave = self.add_button(wording.say("Cancel"), self.close)
        self.confirm = self.add_button(wording.say("Confirm"), self.send, is_main=True)
        self._allow()
        next(iter(self.fields.values())).setFocus()

    def send(self) -> None:
        """Hold what was typed against the words."""
        self.remark.say("")
        self.ask(ConfirmWords(words=self._typed()), lambda _right: self._done(), self._failed)
        self._allow()

    def give_up(self) -> None:
        """Let it be done all the same: the answer is a matter of a moment."""

    def _typed(self) -> dict[int, str]:
        return {number: field.text().strip() for number, field in self.fields.items()}

    def _allow(self) -> None:
        self._form.setEnabled(not self.is_asking)
        self.confirm.setEnabled(are_typed(self._typed()) and not self.is_asking)

    def _done(self) -> None:
        self._form.hide()
        self.again.hide()
        self.confirm.hide()
        self.leave.setText(self.wording.say("Done"))
        self.say(self.wording.say("Confirmed"), "", is_done=True)
        self.remark.say(confirmed_text(self.wording), Tone.DONE)
        self.confirmed.emit()

    def _failed(self, info: ErrorInfo) -> None:
        self._allow()
        self.remark.say(clean_line(info.message))

    def _go_back(self) -> None:
        self.close()
        self.show_wanted.emit()
