"""Text over the picture of a player window.

Qt's player lists text tracks of HLS and shows no cue of them, but a video surface draws what its sink is told. So the
cues of the chosen track are asked from the engine, and the sink is told the one of the moment.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QObject
from PySide6.QtMultimedia import QVideoFrame, QVideoSink

from app.core.errors import ErrorInfo
from app.engine.api import CueSnapshot, GetText, TextSnapshot
from app.ui.bridge import EngineBridge
from app.ui.playing import cue_text_at, first_text


class TextOverlay(QObject):
    """The text of one player: which track is chosen, its cues, and the one that is shown."""

    def __init__(self, bridge: EngineBridge, media_id: str, sink: QVideoSink, parent: QObject) -> None:
        super().__init__(parent)
        self._bridge = bridge
        self._media_id = media_id
        self._sink = sink
        self._names: tuple[str, ...] = ()
        self._cues: dict[str, tuple[CueSnapshot, ...]] = {}
        self._asked: set[str] = set()
        self._last: str | None = None
        self._was_offered = False
        self.chosen: str | None = None
        """Name of the track that is shown."""

    def offer(self, tracks: Sequence[TextSnapshot]) -> None:
        """Take the tracks of a session; the first one may choose what is shown unasked."""
        self._names = tuple(one.name for one in tracks)
        if not self._was_offered:
            self._was_offered = True
            self.choose(first_text(tracks))
        elif self.chosen not in self._names:
            self.choose(None)

    def choose(self, name: str | None) -> None:
        """Show another track, or none."""
        self.chosen = name
        self._last = name or self._last
        self.ask()

    def toggle(self) -> None:
        """Show no text, or the track that was shown before (at first, the first one)."""
        known = self._last if self._last in self._names else next(iter(self._names), None)
        self.choose(known if self.chosen is None else None)

    def ask(self) -> None:
        """Ask for the cues of the chosen track while they are not here; it may still be made."""
        name = self.chosen
        if name is None or name in self._cues or name in self._asked:
            return
        self._asked.add(name)
        command = GetText(media_id=self._media_id, name=name)
        self._bridge.send(command, lambda cues: self._take(name, cues), lambda info: self._refuse(name, info))

    def _take(self, name: str, cues: tuple[CueSnapshot, ...] | None) -> None:
        self._asked.discard(name)
        if cues is not None:
            self._cues[name] = cues

    def _refuse(self, name: str, _info: ErrorInfo) -> None:
        self._cues[name] = ()  # it could not be made, and the film plays on without

    def show_at(self, position_ms: int, *, is_still: bool) -> None:
        """Show the text of a moment; a picture that stands still must be drawn again for it."""
        text = cue_text_at(self._cues.get(self.chosen or "", ()), position_ms / 1000)
        if text == self._sink.subtitleText():
            return
        still = self._sink.videoFrame() if is_still else QVideoFrame()
        picture = still.toImage() if still.isValid() else None
        self._sink.setSubtitleText(text)
        if picture is not None:  # the surface draws no frame twice, so it gets another one with the same picture
            again = QVideoFrame(picture)
            again.setSubtitleText(text)
            self._sink.setVideoFrame(again)
