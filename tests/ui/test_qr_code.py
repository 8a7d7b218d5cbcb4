"""The QR code is what segno says, in whole pixels."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import segno
from PySide6.QtCore import QPointF
from PySide6.QtWidgets import QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app.ui.qr_code import QUIET_MODULES, QrCode

TEXT = "hearthreel://pair/417220935?at=192.168.1.20:45001"


@pytest.fixture
def code(qtbot: QtBot) -> Iterator[QrCode]:
    """Return a shown code inside a window, away from its corner."""
    window = QWidget()
    qtbot.addWidget(window)
    column = QVBoxLayout(window)
    column.setContentsMargins(17, 23, 11, 5)
    code = QrCode()
    column.addWidget(code)
    code.show_text(TEXT)
    window.show()
    yield code
    window.hide()  # and keep it until here


def test_every_module_is_drawn_dark_or_light_as_it_should_be(code: QrCode) -> None:
    rows = [list(row) for row in segno.make(TEXT, error="m", micro=False).matrix]
    image = code.window().grab().toImage()
    ratio = image.devicePixelRatio()
    area = code.module_area(ratio, QPointF(code.mapTo(code.window(), QPointF(0, 0))) * ratio)
    module_px = area.width() // len(rows)
    drawn = [
        [
            int(
                image.pixelColor(
                    round(area.left() + (x + 0.5) * module_px), round(area.top() + (y + 0.5) * module_px)
                ).lightness()
                < 128
            )
            for x in range(len(rows))
        ]
        for y in range(len(rows))
    ]
    assert drawn == rows
    greys = {
        image.pixelColor(x, y).lightness()
        for x in range(area.left(), area.right() + 1)
        for y in range(area.top(), area.bottom() + 1)
    }
    assert greys == {0, 255}


@pytest.mark.parametrize("ratio", [1.0, 1.25, 1.5, 1.75, 2.0, 3.0])
def test_modules_are_whole_pixels_with_a_quiet_margin_at_every_scale(code: QrCode, ratio: float) -> None:
    count = len(code.modules)
    area = code.module_area(ratio, QPointF(17, 23) * ratio)
    assert area.width() == area.height()
    assert area.width() % count == 0
    module_px = area.width() // count
    assert area.left() - 17 * ratio >= QUIET_MODULES * module_px - 1
    assert (17 + code.width()) * ratio - area.right() >= QUIET_MODULES * module_px - 1
    assert module_px >= 4 * ratio


def test_without_a_text_there_is_nothing(code: QrCode) -> None:
    code.show_text("")
    assert code.modules == ()
    assert not code.grab().isNull()
