"""Posters: fetched when first looked at, unpacked off Qt's thread, kept while they fit; and the art that stands in."""

from __future__ import annotations

from collections import OrderedDict, deque

from PySide6.QtCore import QObject, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QImage, QLinearGradient, QPainter, QPixmap, QRadialGradient

from app.core.errors import ErrorInfo
from app.engine.api import GetPoster
from app.ui.background import Background
from app.ui.bridge import EngineBridge

POSTER_SIZE = QSize(640, 360)
"""Kept size in pixels: a card of 320 at 200 %."""
_KEPT = 160
_AT_ONCE = 4


def unpack_poster(jpeg: bytes) -> QImage:
    """Return the picture in ``jpeg``, cut to the shape of a card; null when it is no picture. From any thread."""
    image = QImage.fromData(jpeg)
    if image.isNull():
        return image
    grown = image.scaled(
        POSTER_SIZE, Qt.AspectRatioMode.KeepAspectRatioByExpanding, Qt.TransformationMode.SmoothTransformation
    )
    left = (grown.width() - POSTER_SIZE.width()) // 2
    top = (grown.height() - POSTER_SIZE.height()) // 2
    return grown.copy(left, top, POSTER_SIZE.width(), POSTER_SIZE.height())


class PosterShelf(QObject):
    """Pictures by media id; the least recently seen give way."""

    arrived = Signal(str)

    def __init__(self, bridge: EngineBridge, background: Background, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._bridge = bridge
        self._background = background
        self._kept: OrderedDict[str, QPixmap] = OrderedDict()
        self._waiting: deque[str] = deque()
        self._known: set[str] = set()
        self._running = 0

    def poster(self, media_id: str) -> QPixmap | None:
        """Return the poster, or None and have it fetched; ``arrived`` tells when it is there."""
        kept = self._kept.get(media_id)
        if kept is not None:
            self._kept.move_to_end(media_id)
            return kept
        if media_id not in self._known:
            self._known.add(media_id)
            self._waiting.appendleft(media_id)  # what was looked at last is most likely still in view
            self._fetch_next()
        return None

    def forget_missing(self) -> None:
        """Ask again for posters that could not be had so far."""
        self._known.intersection_update({*self._kept, *self._waiting})

    def _fetch_next(self) -> None:
        while self._waiting and self._running < _AT_ONCE:
            self._running += 1
            self._fetch(self._waiting.popleft())

    def _fetch(self, media_id: str) -> None:
        self._bridge.send(
            GetPoster(media_id=media_id),
            on_reply=lambda jpeg: self._unpack(media_id, jpeg),
            on_error=self._failed,
        )

    def _unpack(self, media_id: str, jpeg: bytes | None) -> None:
        if jpeg is None:
            self._done()
            return
        self._background.run(
            lambda: unpack_poster(jpeg),
            on_result=lambda image: self._keep(media_id, image),
            on_error=lambda _error: self._done(),
        )

    def _keep(self, media_id: str, image: QImage) -> None:
        if not image.isNull():
            self._kept[media_id] = QPixmap.fromImage(image)
            while len(self._kept) > _KEPT:
                gone, _pixmap = self._kept.popitem(last=False)
                self._known.discard(gone)
            self.arrived.emit(media_id)
        self._done()

    def _failed(self, _info: ErrorInfo) -> None:
        self._done()  # the place holder stays; the film itself tells of its trouble

    def _done(self) -> None:
        self._running -= 1
        self._fetch_next()


def paint_placeholder(painter: QPainter, rect: QRectF, *, hue: int, initials: str, font: QFont, is_dark: bool) -> None:
    """Fill ``rect`` with art for a film without poster: a dusk in the title's own colour, its initials in front."""
    value = 0.42 if is_dark else 0.56
    sky = QLinearGradient(rect.topLeft(), rect.bottomRight())
    sky.setColorAt(0.0, QColor.fromHsvF(hue / 360, 0.46, value))
    sky.setColorAt(1.0, QColor.fromHsvF((hue + 48) % 360 / 360, 0.58, value * 0.56))
    painter.fillRect(rect, sky)
    glow = QRadialGradient(
        QPointF(rect.left() + rect.width() * 0.76, rect.top() + rect.height() * 0.2), rect.width() * 0.55
    )
    warm = QColor.fromHsvF((hue + 340) % 360 / 360, 0.30, 1.0, 0.34)
    glow.setColorAt(0.0, warm)
    warm.setAlphaF(0.0)
    glow.setColorAt(1.0, warm)
    painter.fillRect(rect, glow)
    painter.save()
    painter.setFont(font)
    painter.setPen(QColor(255, 255, 255, 225))
    painter.drawText(rect, int(Qt.AlignmentFlag.AlignCenter), initials)
    painter.restore()
