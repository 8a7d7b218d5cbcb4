"""The parts of a player window: slider, thumbnails above it, the bar of controls, and words in place of the picture."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, Qt, QUrl, Signal
from PySide6.QtGui import QColor, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPixmap
from PySide6.QtNetwork import QNetworkAccessManager, QNetworkProxy, QNetworkReply, QNetworkRequest
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QMenu,
    QPushButton,
    QSizePolicy,
    QSlider,
    QStyle,
    QStyleOptionSlider,
    QVBoxLayout,
    QWidget,
)

from app.engine.api import PlayerSnapshot
from app.ui.icons import IconButton
from app.ui.notices import plain_label
from app.ui.presenters import thumbnail_at
from app.ui.theme import DARK, SPACE, scaled_font
from app.ui.wording import format_clock

_WIDEST = 240
"""Pixels that a chapter's name may take above the slider."""


class SeekSlider(QSlider):
    """A slider in milliseconds that goes where it is clicked and says what it is pointed at."""

    sought = Signal(int)
    pointed = Signal(int, int)
    """Position in ms and x in pixels."""
    left = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self.setMouseTracking(True)
        self.setFixedHeight(24)
        self._marks: tuple[int, ...] = ()

    def mark(self, positions_ms: Sequence[int]) -> None:
        """Mark where chapters begin."""
        self._marks = tuple(positions_ms)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if not self._marks:
            return
        painter = QPainter(self)
        colour = QColor(DARK.muted)
        for position_ms in self._marks:
            painter.fillRect(self._x_of(position_ms), self.height() // 2 - 7, 2, 4, colour)
        painter.end()

    def _x_of(self, position_ms: int) -> int:
        handle = self._handle()
        room = max(1, self.width() - handle)
        return QStyle.sliderPositionFromValue(self.minimum(), self.maximum(), position_ms, room) + handle // 2 - 1

    def _handle(self) -> int:
        option = QStyleOptionSlider()
        self.initStyleOption(option)
        return self.style().pixelMetric(QStyle.PixelMetric.PM_SliderLength, option, self)

    def position_at(self, x: int) -> int:
        """Return the position in ms that lies at ``x`` pixels."""
        handle = self._handle()
        room = max(1, self.width() - handle)
        return QStyle.sliderValueFromPosition(self.minimum(), self.maximum(), x - handle // 2, room)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self.setSliderDown(True)
            self._go(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        x = round(event.position().x())
        self.pointed.emit(self.position_at(x), x)
        if self.isSliderDown():
            self._go(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        del event
        self.setSliderDown(False)

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.left.emit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        event.ignore()  # the window's own keys seek

    def _go(self, event: QMouseEvent) -> None:
        position_ms = self.position_at(round(event.position().x()))
        self.setValue(position_ms)
        self.sought.emit(position_ms)


class ThumbnailShelf(QObject):
    """Trickplay sheets of one session, fetched when first pointed at."""

    arrived = Signal()

    def __init__(self, snapshot: PlayerSnapshot, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._prefix = snapshot.sheets
        self._layout = snapshot.sheet_layout
        self._sheets: dict[int, QPixmap | None] = {}
        self._network = QNetworkAccessManager(self)
        self._network.setProxy(QNetworkProxy(QNetworkProxy.ProxyType.NoProxy))

    def thumbnail(self, position_s: float) -> QPixmap | None:
        """Return the picture near ``position_s``, or None while there is none; ``arrived`` tells of more."""
        if self._prefix is None or self._layout is None:
            return None
        place = thumbnail_at(self._layout, position_s)
        if place is None:
            return None
        if place.sheet not in self._sheets:
            self._sheets[place.sheet] = None
            self._fetch(place.sheet)
        sheet = self._sheets[place.sheet]
        return None if sheet is None else sheet.copy(QRect(place.x, place.y, place.width, place.height))

    def _fetch(self, number: int) -> None:
        reply = self._network.get(QNetworkRequest(QUrl(f"{self._prefix}{number}.jpg")))
        reply.finished.connect(lambda: self._fetched(number, reply))

    def _fetched(self, number: int, reply: QNetworkReply) -> None:
        sheet = QPixmap()
        if reply.error() == QNetworkReply.NetworkError.NoError and sheet.loadFromData(reply.readAll()):
            self._sheets[number] = sheet
            self.arrived.emit()
        else:
            self._sheets.pop(number, None)  # perhaps not made yet: asked for again when pointed at again
        reply.deleteLater()


class Preview(QWidget):
    """The small picture and time above the slider. A window of its own: nothing else lies above a video surface."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.ToolTip)
        self.setObjectName("preview")
        self._picture = QLabel()
        self._chapter = plain_label("")
        self._chapter.setWordWrap(False)
        self._chapter.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._time = QLabel()
        self._time.setAlignment(Qt.AlignmentFlag.AlignCenter)
        column = QVBoxLayout(self)
        column.setContentsMargins(4, 4, 4, 4)
        column.setSpacing(2)
        column.addWidget(self._picture)
        column.addWidget(self._chapter)
        column.addWidget(self._time)

    def show_at(self, above: QPoint, position_ms: int, picture: QPixmap | None, chapter: str = "") -> None:
        """Appear centred above ``above`` (global)."""
        self._picture.setVisible(picture is not None)
        if picture is not None:
            self._picture.setPixmap(picture)
        self._chapter.setVisible(bool(chapter))
        self._chapter.setText(self._chapter.fontMetrics().elidedText(chapter, Qt.TextElideMode.ElideRight, _WIDEST))
        self._time.setText(format_clock(position_ms / 1000))
        self.adjustSize()
        self.move(above.x() - self.width() // 2, above.y() - self.height() - SPACE)
        self.show()


class ControlBar(QWidget):
    """Play, position, sound and full screen; emits what is wanted."""

    play_wanted = Signal()
    mute_wanted = Signal()
    volume_wanted = Signal(int)
    full_screen_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.play = IconButton("play", self.tr("Play"), self)
        self.slider = SeekSlider(self)
        self.slider.setAccessibleName(self.tr("Position"))
        self.position = QLabel(format_clock(0))
        self.duration = QLabel(format_clock(0))
        self.mute = IconButton("volume", self.tr("Mute"), self)
        self.volume = QSlider(Qt.Orientation.Horizontal, self)
        self.volume.setAccessibleName(self.tr("Volume"))
        self.volume.setToolTip(self.tr("Volume"))
        self.volume.setRange(0, 100)
        self.volume.setValue(100)
        self.volume.setFixedWidth(96)
        self.chapters = self._menu_button("chapters", self.tr("Chapters"))
        self.text = self._menu_button("text", self.tr("Subtitles (C)"))
        self.tracks = self._menu_button("sound-track", self.tr("Sound track"))
        self.full_screen = IconButton("fullscreen", self.tr("Full screen (F)"), self)
        row = QHBoxLayout(self)
        row.setContentsMargins(2 * SPACE, SPACE, 2 * SPACE, SPACE)
        row.setSpacing(SPACE)
        before: tuple[QWidget, ...] = (self.play, self.position)
        after: tuple[QWidget, ...] = (
            self.duration,
            self.chapters,
            self.mute,
            self.volume,
            self.tracks,
            self.text,
            self.full_screen,
        )
        for widget in before:
            row.addWidget(widget)
        row.addWidget(self.slider, 1)
        for widget in after:
            row.addWidget(widget)
        self.play.clicked.connect(self.play_wanted)
        self.mute.clicked.connect(self.mute_wanted)
        self.volume.valueChanged.connect(self.volume_wanted)
        self.full_screen.clicked.connect(self.full_screen_wanted)

    def _menu_button(self, name: str, tip: str) -> IconButton:
        button = IconButton(name, tip, self)
        button.setPopupMode(IconButton.ToolButtonPopupMode.InstantPopup)
        button.setMenu(QMenu(self))
        button.hide()
        return button

    def show_playing(self, *, is_playing: bool) -> None:
        """Show pause or play."""
        self.play.show_as("pause" if is_playing else "play", self.tr("Pause") if is_playing else self.tr("Play"))

    def show_muted(self, *, is_muted: bool) -> None:
        """Show whether there is sound."""
        self.mute.show_as("muted" if is_muted else "volume", self.tr("Sound on") if is_muted else self.tr("Mute"))

    def show_position(self, position_ms: int) -> None:
        """Show where the film is, unless somebody is dragging."""
        self.position.setText(format_clock(position_ms / 1000))
        if not self.slider.isSliderDown():
            self.slider.setValue(position_ms)

    def show_duration(self, duration_ms: int) -> None:
        """Show how long the film is, and give its times room so that nothing hops."""
        self.slider.setRange(0, duration_ms)
        self.duration.setText(format_clock(duration_ms / 1000))
        widest = self.fontMetrics().horizontalAdvance(format_clock(duration_ms / 1000).replace("1", "0"))
        self.position.setMinimumWidth(widest)


class MessagePage(QWidget):
    """Words in the place of the picture."""

    retry_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.text = plain_label("")
        self.text.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.text.setFont(scaled_font(self.font(), 1.2))
        self.retry = QPushButton(self.tr("Retry"))
        self.retry.setObjectName("main")
        self.retry.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.retry.clicked.connect(self.retry_wanted)
        column = QVBoxLayout(self)
        column.setContentsMargins(4 * SPACE, 4 * SPACE, 4 * SPACE, 4 * SPACE)
        column.setSpacing(2 * SPACE)
        column.addStretch(1)
        column.addWidget(self.text)
        column.addWidget(self.retry, 0, Qt.AlignmentFlag.AlignHCenter)
        column.addStretch(1)

    def say(self, text: str, *, can_retry: bool) -> None:
        """Show ``text``."""
        self.text.setText(text)
        self.retry.setVisible(can_retry)
