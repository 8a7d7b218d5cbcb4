"""Colours, sizes and the small style sheet: warm greys and one ember accent, light or dark as the system is.

``Tokens`` are the only place for colours. Text on any of its grounds must reach a contrast of 4.5 (a test computes
it). Sizes are in device-independent pixels; type sizes are multiples of the system's own font, so that large print
stays large.
"""

from __future__ import annotations

import msgspec
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QFont, QPalette
from PySide6.QtWidgets import QApplication, QWidget

from app.ui.presenters import Tone

SPACE = 8
"""The unit of all distances."""
RADIUS = 10
"""Of posters, fields and banners."""
MIN_TARGET = 32
"""Smallest side of anything to click."""


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """The colours of one appearance, as ``#rrggbb``."""

    is_dark: bool
    window: str
    sidebar: str
    card: str
    field: str
    border: str
    hover: str
    pressed: str
    text: str
    muted: str
    accent: str
    """Fills: progress, the chosen section, the main button."""
    on_accent: str
    accent_text: str
    """Accent as text and as focus ring on the window."""
    error: str
    error_ground: str
    warning: str
    warning_ground: str
    good: str
    good_ground: str

    def tone(self, tone: Tone) -> str:
        """Return the text colour of ``tone``."""
        return {
            Tone.WORKING: self.accent_text,
            Tone.WAITING: self.muted,
            Tone.DONE: self.good,
            Tone.QUIET: self.muted,
            Tone.WARNING: self.warning,
            Tone.ERROR: self.error,
        }[tone]

    def ground(self, tone: Tone) -> str:
        """Return the ground of a banner of ``tone``."""
        return {Tone.ERROR: self.error_ground, Tone.WARNING: self.warning_ground, Tone.DONE: self.good_ground}.get(
            tone, self.card
        )


LIGHT = Tokens(
    is_dark=False,
    window="#fbf9f6",
    sidebar="#f2eee8",
    card="#ffffff",
    field="#ffffff",
    border="#ddd5cb",
    hover="#ece6de",
    pressed="#e0d8cd",
    text="#231d19",
    muted="#675d55",
    accent="#b64a16",
    on_accent="#ffffff",
    accent_text="#a3410f",
    error="#a8201a",
    error_ground="#fcebe8",
    warning="#7a5000",
    warning_ground="#fbf1da",
    good="#2a6536",
    good_ground="#e8f3e8",
)
DARK = Tokens(
    is_dark=True,
    window="#171416",
    sidebar="#1e1a1c",
    card="#241f21",
    field="#241f21",
    border="#3d3538",
    hover="#2e282a",
    pressed="#383033",
    text="#f4efeb",
    muted="#b3a8a1",
    accent="#f08a4b",
    on_accent="#23120a",
    accent_text="#f59e66",
    error="#ff9a8c",
    error_ground="#3a1f1d",
    warning="#f0c467",
    warning_ground="#352a16",
    good="#8ed19b",
    good_ground="#1c2d20",
)


def tokens_of(widget: QWidget) -> Tokens:
    """Return the colours of the appearance that ``widget`` has."""
    # by the text: a style sheet makes the window colour of some widgets transparent, which reads as black
    return DARK if widget.palette().color(QPalette.ColorRole.WindowText).lightness() > 128 else LIGHT


def system_is_dark(app: QApplication) -> bool:
    """Return whether the system asks for dark windows; where it does not say, its window colour tells."""
    scheme = app.styleHints().colorScheme()
    if scheme == Qt.ColorScheme.Unknown:
        return app.style().standardPalette().color(QPalette.ColorRole.Window).lightness() < 128
    return scheme == Qt.ColorScheme.Dark


def apply_theme(app: QApplication, tokens: Tokens) -> None:
    """Give every window of ``app`` this appearance."""
    app.setStyle("Fusion")
    app.setPalette(_palette(tokens))
    app.setStyleSheet(_style_sheet(tokens))


def dress(window: QWidget, tokens: Tokens) -> None:
    """Give one window an appearance of its own, whatever the system's is: films are watched in the dark."""
    window.setPalette(_palette(tokens))
    window.setStyleSheet(_style_sheet(tokens))
    window.setAutoFillBackground(True)


def follow_system(app: QApplication) -> None:
    """Apply the system's appearance now and whenever it changes."""

    def apply() -> None:
        apply_theme(app, DARK if system_is_dark(app) else LIGHT)

    apply()
    app.styleHints().colorSchemeChanged.connect(apply)


def scaled_font(font: QFont, factor: float, *, weight: QFont.Weight = QFont.Weight.Normal) -> QFont:
    """Return ``font`` at ``factor`` times its size; works for fonts given in points and in pixels."""
    scaled = QFont(font)
    if font.pointSizeF() > 0:
        scaled.setPointSizeF(font.pointSizeF() * factor)
    else:
        scaled.setPixelSize(round(font.pixelSize() * factor))
    scaled.setWeight(weight)
    return scaled


def _palette(tokens: Tokens) -> QPalette:
    role = QPalette.ColorRole
    palette = QPalette()
    for which, colour in (
        (role.Window, tokens.window),
        (role.WindowText, tokens.text),
        (role.Base, tokens.field),
        (role.AlternateBase, tokens.sidebar),
        (role.Text, tokens.text),
        (role.PlaceholderText, tokens.muted),
        (role.Button, tokens.card),
        (role.ButtonText, tokens.text),
        (role.BrightText, tokens.error),
        (role.ToolTipBase, tokens.card),
        (role.ToolTipText, tokens.text),
        (role.Highlight, tokens.accent),
        (role.HighlightedText, tokens.on_accent),
        (role.Link, tokens.accent_text),
        (role.Mid, tokens.border),
        (role.Accent, tokens.accent),
    ):
        palette.setColor(which, QColor(colour))
    faint = QColor(tokens.muted)
    faint.setAlphaF(0.6)
    for which in (role.WindowText, role.Text, role.ButtonText):
        palette.setColor(QPalette.ColorGroup.Disabled, which, faint)
    return palette


def _style_sheet(t: Tokens) -> str:
    return f"""
    QMainWindow, QDialog {{ background: {t.window}; }}
    QLabel {{ color: {t.text}; }}
    QToolTip {{ background: {t.card}; color: {t.text}; border: 1px solid {t.border}; padding: 4px 6px; }}
    #preview {{ background: {t.card}; border: 1px solid {t.border}; border-radius: 6px; }}
    #sidebar {{ background: {t.sidebar}; border: none; border-right: 1px solid {t.border}; }}
    #screen {{ background: #000000; }}
    #muted {{ color: {t.muted}; }}
    QListView {{ background: {t.window}; border: none; outline: 0; }}
    QStatusBar {{ background: {t.window}; color: {t.muted}; border-top: 1px solid {t.border}; }}
    QStatusBar::item {{ border: none; }}
    QStatusBar QLabel {{ color: {t.muted}; padding: 3px 8px; }}
    QPushButton, QToolButton {{
        background: {t.card}; color: {t.text}; border: 1px solid {t.border}; border-radius: 8px;
        padding: 5px 12px; min-height: 20px;
    }}
    QToolButton {{ padding: 5px 8px; }}
    QPushButton:hover, QToolButton:hover {{ background: {t.hover}; }}
    QPushButton:pressed, QToolButton:pressed {{ background: {t.pressed}; }}
    QPushButton:focus, QToolButton:focus {{ border: 2px solid {t.accent_text}; padding: 4px 11px; }}
    QToolButton:focus {{ padding: 4px 7px; }}
    QPushButton:disabled, QToolButton:disabled {{ color: {t.muted}; background: transparent; }}
    QPushButton#main {{ background: {t.accent}; color: {t.on_accent}; border-color: {t.accent}; font-weight: 600; }}
    QPushButton#main:disabled {{
        background: {t.pressed}; color: {t.muted}; border-color: {t.pressed};
    }}
    QPushButton#main:hover {{ background: {t.accent_text}; }}
    QPushButton#main:focus {{ border: 2px solid {t.text}; }}
    QPushButton#flat {{ background: transparent; border-color: transparent; padding: 5px 9px; }}
    QPushButton#flat:hover {{ background: {t.hover}; }}
    QPushButton#flat:pressed, QPushButton#flat:checked {{ background: {t.pressed}; }}
    QPushButton#flat:focus {{ border: 2px solid {t.accent_text}; padding: 4px 8px; }}
    QPushButton:checked {{ background: {t.pressed}; }}
    QPushButton::menu-indicator, QToolButton::menu-indicator {{ image: none; width: 0; }}
    QToolButton#flat {{ background: transparent; border-color: transparent; }}
    QToolButton#flat:hover {{ background: {t.hover}; }}
    QToolButton#flat:pressed, QToolButton#flat:checked {{ background: {t.pressed}; }}
    QToolButton#flat:focus {{ border: 2px solid {t.accent_text}; }}
    QPushButton#section {{
        background: transparent; border: 2px solid transparent; border-radius: 8px; text-align: left;
        padding: 7px 10px; color: {t.muted};
    }}
    QPushButton#section:hover {{ background: {t.hover}; color: {t.text}; }}
    QPushButton#section:checked {{ background: {t.pressed}; color: {t.text}; font-weight: 600; }}
    QPushButton#section:focus {{ border: 2px solid {t.accent_text}; }}
    QLabel#badge {{
        background: {t.accent}; color: {t.on_accent}; border-radius: 9px; padding: 1px 7px; font-weight: 600;
    }}
    QLabel#badge[alarm="true"] {{ background: {t.error}; color: {t.window}; }}
    QLabel#mark {{
        background: {t.pressed}; color: {t.text}; border-radius: 8px; padding: 1px 8px;
    }}
    QScrollArea#devices, QScrollArea#devices > QWidget > QWidget {{ background: transparent; }}
    QLineEdit {{
        background: {t.field}; border: 1px solid {t.border}; border-radius: 8px; padding: 5px 10px; min-height: 20px;
        selection-background-color: {t.accent}; selection-color: {t.on_accent};
    }}
    QLineEdit:focus {{ border: 2px solid {t.accent_text}; padding: 4px 9px; }}
    QMenu {{ background: {t.card}; color: {t.text}; border: 1px solid {t.border}; padding: 5px; }}
    QMenu::item {{ padding: 6px 24px 6px 12px; border-radius: 6px; }}
    QMenu::item:selected {{ background: {t.accent}; color: {t.on_accent}; }}
    QMenu::item:disabled {{ color: {t.muted}; }}
    QMenu::separator {{ height: 1px; background: {t.border}; margin: 5px 8px; }}
    QMenuBar {{ background: {t.sidebar}; color: {t.text}; border-bottom: 1px solid {t.border}; }}
    QMenuBar::item {{ padding: 4px 10px; background: transparent; }}
    QMenuBar::item:selected {{ background: {t.hover}; border-radius: 6px; }}
    QScrollBar:vertical {{ background: transparent; width: 12px; margin: 2px; }}
    QScrollBar::handle:vertical {{ background: {t.border}; border-radius: 4px; min-height: 32px; }}
    QScrollBar::handle:vertical:hover {{ background: {t.muted}; }}
    QScrollBar::handle:vertical:disabled {{ background: transparent; }}
    QScrollBar::add-line, QScrollBar::sub-line, QScrollBar::add-page, QScrollBar::sub-page {{
        background: transparent; height: 0; width: 0;
    }}
    QSlider::groove:horizontal {{ height: 4px; border-radius: 2px; background: {t.border}; }}
    QSlider::sub-page:horizontal {{ height: 4px; border-radius: 2px; background: {t.accent}; }}
    QSlider::handle:horizontal {{
        width: 14px; height: 14px; margin: -5px 0; border-radius: 7px; background: {t.accent};
    }}
    QSlider::handle:horizontal:hover {{ background: {t.accent_text}; }}
    QSlider::handle:horizontal:focus {{ background: {t.text}; border: 2px solid {t.accent}; }}
    QProgressBar {{ background: {t.border}; border: none; border-radius: 2px; max-height: 4px; min-height: 4px; }}
    QProgressBar::chunk {{ background: {t.accent}; border-radius: 2px; }}
    """
