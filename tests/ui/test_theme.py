"""Colours can be read, in both appearances."""

from __future__ import annotations

import math
from itertools import product

import pytest
from PySide6.QtGui import QColor, QFont
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from app.ui.presenters import Tone
from app.ui.theme import DARK, LIGHT, Tokens, dress, scaled_font, tokens_of


def luminance(colour: str) -> float:
    """Return the relative luminance of WCAG 2."""
    shown = QColor(colour)
    rgb: tuple[float, ...] = (shown.redF(), shown.greenF(), shown.blueF())
    parts = [part / 12.92 if part <= 0.04045 else math.pow((part + 0.055) / 1.055, 2.4) for part in rgb]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of WCAG 2, 1 to 21."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("tokens", [LIGHT, DARK], ids=["light", "dark"])
def test_text_on_every_ground_has_a_contrast_of_4_5(tokens: Tokens) -> None:
    grounds = (tokens.window, tokens.sidebar, tokens.card, tokens.hover)
    for text, ground in product((tokens.text, tokens.muted), grounds):
        assert contrast(text, ground) >= 4.5, (text, ground)
    for tone, ground in product(Tone, (tokens.card, tokens.hover, tokens.window)):
        assert contrast(tokens.tone(tone), ground) >= 4.5, (tone, ground)
    for tone in Tone:
        assert contrast(tokens.text, tokens.ground(tone)) >= 4.5
        assert contrast(tokens.muted, tokens.ground(tone)) >= 4.5
    assert contrast(tokens.on_accent, tokens.accent) >= 4.5
    assert contrast(tokens.text, tokens.pressed) >= 4.5


@pytest.mark.parametrize("tokens", [LIGHT, DARK], ids=["light", "dark"])
def test_a_focus_ring_stands_out(tokens: Tokens) -> None:
    for ground in (tokens.window, tokens.sidebar, tokens.card):
        assert contrast(tokens.accent_text, ground) >= 3


@pytest.mark.parametrize("tokens", [LIGHT, DARK], ids=["light", "dark"])
def test_a_widget_knows_the_appearance_it_was_given(qtbot: QtBot, tokens: Tokens) -> None:
    widget = QWidget()
    qtbot.addWidget(widget)
    dress(widget, tokens)
    assert tokens_of(widget) == tokens


def test_fonts_scale_whether_given_in_points_or_pixels(qtbot: QtBot) -> None:
    del qtbot
    points, pixels = QFont(), QFont()
    points.setPointSizeF(10)
    pixels.setPixelSize(20)
    assert scaled_font(points, 1.5).pointSizeF() == 15
    assert scaled_font(pixels, 1.5).pixelSize() == 30
