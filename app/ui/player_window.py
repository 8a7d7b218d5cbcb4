"""One film playing in a window of its own.

::

    opening ──opened──▶ playing ◀──▶ waiting (the next part is being made)
       │ ▲                 │
     refused │ retry    failed
       ▼ │                 ▼
      trouble, in words, with Retry ◀───

The gateway is told first, always: before a seek (``SeekPlayer``) and before a session ends (``ClosePlayer``), because
the player's own calls would hang behind a request that waits for a part in the making, and Qt's thread with them (U1).
What the gateway does not answer in time is done anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

from PySide6.QtCore import QEvent, QObject, QPoint, QSize, Qt, QTimer, QUrl, Signal, SignalInstance
from PySide6.QtGui import (
    QAction,
    QActionGroup,
    QCloseEvent,
    QKeyEvent,
)
from PySide6.QtMultimedia import QAudio, QAudioOutput, QMediaMetaData, QMediaPlayer
from PySide6.QtMultimediaWidgets import QVideoWidget
from PySide6.QtWidgets import (
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.core.errors import ErrorInfo
from app.engine.api import (
    ChapterSnapshot,
    ClosePlayer,
    FilmSnapshot,
    GetFilm,
    OpenPlayer,
    PlayerSnapshot,
    SeekPlayer,
    TextSnapshot,
)
from app.ui.bridge import EngineBridge
from app.ui.notices import plain_label
from app.ui.player_parts import ControlBar, MessagePage, Preview, ThumbnailShelf
from app.ui.player_text import TextOverlay
from app.ui.playing import chapter_at, chapter_lines, chapter_name, next_chapter_s
from app.ui.presenters import playback_error_text
from app.ui.seeking import SeekGate, SeekStep
from app.ui.theme import DARK, SPACE, dress
from app.ui.wording import Wording, clean_line

_STEP_MS = 10_000
_BIG_STEP_MS = 60_000
_ANSWER_MS = 700
"""How long the gateway may take to answer before the player goes on without."""
_IDLE_MS = 2500
_TICK_MS = 500
_STALL_TICKS = 3
_ARRIVED_MS = 1500
_EARLY_END_MS = 5000
_END_MS = 300
"""How far before the end the last position to seek to lies: at the end itself the player fails."""


class PlayerState(StrEnum):
    """Where a player window is; see the drawing above."""

    OPENING = "opening"
    PLAYING = "playing"
    WAITING = "waiting"
    TROUBLE = "trouble"
    CLOSED = "closed"


def _settle_overrides(watched: QObject, signal: SignalInstance) -> None:
    """Have PySide find out now that Python overrides neither ``connectNotify`` nor ``disconnectNotify``.

    Threads of the player disconnect from its objects when they end. The first time, PySide looks for an override and
    takes the interpreter's lock for that, while the thread holds a lock of Qt's; Qt's thread, in a call from Python,
    may hold the first and wait for the second: both wait for ever (seen in one of some twenty closed windows on a
    loaded machine). What was found out is remembered for the object, and needs no lock any more.
    """
    receiver = QObject(watched)
    signal.connect(receiver.deleteLater)
    signal.disconnect(receiver.deleteLater)
    receiver.deleteLater()


class PlayerWindow(QWidget):
    """Plays one film; closes its session when it closes."""

    closed = Signal(str)
    """Media id."""

    def __init__(
        self,
        bridge: EngineBridge,
        media_id: str,
        title: str,
        wording: Wording,
        *,
        answer_ms: int = _ANSWER_MS,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent, Qt.WindowType.Window)
        self.state = PlayerState.OPENING
        self._bridge = bridge
        self._media_id = media_id
        self._wording = wording
        self._answer_ms = answer_ms
        self._session: PlayerSnapshot | None = None
        self._gate = SeekGate()
        self._asked_ms = 0
        self._after_end: Callable[[], None] | None = None
        self._settling_ms: int | None = None
        self._resume_ms = 0
        self._still_ticks = 0
        self._last_ms = -1
        self._thumbnails: ThumbnailShelf | None = None
        self._pointed: tuple[int, int] | None = None
        self._player = QMediaPlayer(self)
        self._output = QAudioOutput(self)
        _settle_overrides(self._player, self._player.positionChanged)
        _settle_overrides(self._output, self._output.volumeChanged)
        self._player.setAudioOutput(self._output)
        dress(self, DARK)
        self._build()
        self._connect()
        self._show_title(title)
        self.resize(960, 600)
        self.setFocus()
        self._open()

    # what it is made of

    def _build(self) -> None:
        self._video = QVideoWidget()
        for surface in (self._video, *self._video.findChildren(QWidget)):  # the inner one gets the mouse's events
            surface.setMouseTracking(True)
            surface.installEventFilter(self)
        self._player.setVideoOutput(self._video)
        self._message = MessagePage()
        self._pages = QStackedWidget()
        self._pages.setObjectName("screen")
        self._pages.addWidget(self._message)
        self._pages.addWidget(self._video)
        self._wait_note = plain_label("", is_muted=True)
        self._wait_note.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._wait_note.setContentsMargins(0, SPACE, 0, 0)
        self._wait_note.hide()
        self._text = TextOverlay(self._bridge, self._media_id, self._video.videoSink(), self)
        self._bar = ControlBar()
        self._preview = Preview(self)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self._pages, 1)
        column.addWidget(self._wait_note)
        column.addWidget(self._bar)
        self._idle = QTimer(self, singleShot=True, interval=_IDLE_MS)
        self._tick = QTimer(self, interval=_TICK_MS)
        self._answer = QTimer(self, singleShot=True, interval=self._answer_ms)
        self._ending = QTimer(self, singleShot=True, interval=self._answer_ms)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMinimumSize(QSize(420, 280))

    def _connect(self) -> None:
        self._bar.play_wanted.connect(self.toggle)
        self._bar.mute_wanted.connect(self._toggle_mute)
        self._bar.volume_wanted.connect(self._set_volume)
        self._bar.full_screen_wanted.connect(self.toggle_full_screen)
        self._bar.slider.sought.connect(self.seek)
        self._bar.slider.pointed.connect(self._point)
        self._bar.slider.left.connect(self._unpoint)
        self._bar.text.menu().aboutToShow.connect(self._check_text)
        self._message.retry_wanted.connect(self.retry)
        self._player.positionChanged.connect(self._on_position)
        self._player.playbackStateChanged.connect(self._on_playback)
        self._player.mediaStatusChanged.connect(self._on_status)
        self._player.tracksChanged.connect(self._on_tracks)
        self._player.errorOccurred.connect(self._on_error)
        self._idle.timeout.connect(self._hide_controls)
        self._tick.timeout.connect(self._watch)
        self._answer.timeout.connect(lambda: self._answered(self._asked_ms))
        self._ending.timeout.connect(self._ended)

    def _show_title(self, title: str) -> None:
        self.setWindowTitle((title or self.tr("Player")).replace("[*]", "[*][*]"))

    # the session

    def _open(self) -> None:
        self.state = PlayerState.OPENING
        self._message.say(self._wording.say("Opening…"), can_retry=False)
        self._pages.setCurrentWidget(self._message)
        self._bridge.send(OpenPlayer(media_id=self._media_id), self._opened, self._refused)
        if self.windowTitle() == self.tr("Player"):
            self._bridge.send(GetFilm(media_id=self._media_id), self._titled)

    def _titled(self, film: FilmSnapshot) -> None:
        if self.state != PlayerState.CLOSED:
            self._show_title(clean_line(film.title))

    def _opened(self, session: PlayerSnapshot) -> None:
        if self.state == PlayerState.CLOSED:
            self._bridge.send(ClosePlayer(token=session.token))
            return
        self._session = session
        self._thumbnails = ThumbnailShelf(session, self)
        self._thumbnails.arrived.connect(self._show_preview)
        self._bar.show_duration(round(session.duration_s * 1000))
        self._text.offer(session.text)
        self._list_text(session.text)
        self._list_chapters(session.chapters)
        self._pages.setCurrentWidget(self._video)
        self.state = PlayerState.PLAYING
        self._player.setSource(QUrl(session.auto))
        self._player.play()
        self._tick.start()

    def _refused(self, info: ErrorInfo) -> None:
        if self.state != PlayerState.CLOSED:
            self._trouble(clean_line(info.message))

    def _trouble(self, text: str) -> None:
        self.state = PlayerState.TROUBLE
        self._tick.stop()
        self._wait_note.hide()
        self._message.say(text, can_retry=True)
        self._pages.setCurrentWidget(self._message)
        self._bar.show()
        self._message.retry.setFocus()

    def retry(self) -> None:
        """Open a new session and go on where the film stopped."""
        if self.state == PlayerState.TROUBLE:
            self._resume_ms = self._bar.slider.value()
            self._end_session(self._open)

    def _end_session(self, then: Callable[[], None]) -> None:
        """Close the session at the gateway, then in the player, then go on; see the module's text for the order."""
        session, self._session = self._session, None
        self._tick.stop()
        self._answer.stop()
        self._gate.reset()
        self._settling_ms = None
        self._after_end = then
        if session is None:
            self._ended()
            return
        self._ending.start()
        self._bridge.send(ClosePlayer(token=session.token), lambda _none: self._ended(), lambda _info: self._ended())

    def _ended(self) -> None:
        then, self._after_end = self._after_end, None
        if then is not None:
            self._ending.stop()
            self._player.stop()
            self._player.setSource(QUrl())
            then()

    # intents

    def toggle(self) -> None:
        """Play or pause; from the end, begin again."""
        if self._player.mediaStatus() == QMediaPlayer.MediaStatus.EndOfMedia:
            self.seek(0)
            self._player.play()
        elif self._player.playbackState() == QMediaPlayer.PlaybackState.PlayingState:
            self._player.pause()
        else:
            self._player.play()

    def seek(self, position_ms: int) -> None:
        """Go to ``position_ms`` once the gateway knows."""
        if self._session is None:
            return
        position_ms = max(0, min(position_ms, self._bar.slider.maximum() - _END_MS))
        self._bar.show_position(position_ms)
        self._step(self._gate.want(position_ms))

    def seek_by(self, step_ms: int) -> None:
        """Go forward, or back, from where the film is or is going to be."""
        target = self._gate.target_ms if self._gate.target_ms is not None else self._settling_ms
        self.seek((target if target is not None else self._player.position()) + step_ms)

    def toggle_full_screen(self) -> None:
        """Enter or leave full screen."""
        if self.isFullScreen():
            self.showNormal()
        else:
            self.showFullScreen()
        is_full = self.isFullScreen()
        self._bar.full_screen.show_as(
            "window" if is_full else "fullscreen",
            self.tr("Leave full screen (F)") if is_full else self.tr("Full screen (F)"),
        )
        self._show_controls()

    def _toggle_mute(self) -> None:
        self._output.setMuted(not self._output.isMuted())
        self._bar.show_muted(is_muted=self._output.isMuted())

    def _set_volume(self, percent: int) -> None:
        self._output.setVolume(
            QAudio.convertVolume(
                percent / 100, QAudio.VolumeScale.LogarithmicVolumeScale, QAudio.VolumeScale.LinearVolumeScale
            )
        )
        self._output.setMuted(percent == 0)
        self._bar.show_muted(is_muted=percent == 0)

    # seeks

    def _step(self, step: SeekStep) -> None:
        if step.ask_ms is not None and self._session is not None:
            position_ms = self._asked_ms = step.ask_ms
            self._answer.start()
            command = SeekPlayer(token=self._session.token, position_ms=position_ms)
            self._bridge.send(
                command,
                lambda _none: self._answered(position_ms),
                lambda _info: self._answered(position_ms),
            )
        if step.jump_ms is not None:
            self._answer.stop()
            self._settling_ms = step.jump_ms
            self._still_ticks = 0
            self._player.setPosition(step.jump_ms)

    def _answered(self, position_ms: int) -> None:
        if self._session is not None:
            self._step(self._gate.answered(position_ms))

    # what the player tells

    def _on_position(self, position_ms: int) -> None:
        if self._settling_ms is not None and abs(position_ms - self._settling_ms) < _ARRIVED_MS:
            self._settling_ms = None
        if self._settling_ms is None and self._gate.target_ms is None and self._session is not None:
            self._bar.show_position(position_ms)
        self._show_text()

    def _show_text(self) -> None:
        is_still = self._player.playbackState() != QMediaPlayer.PlaybackState.PlayingState
        self._text.show_at(self._player.position(), is_still=is_still)

    def _on_playback(self, state: QMediaPlayer.PlaybackState) -> None:
        self._bar.show_playing(is_playing=state == QMediaPlayer.PlaybackState.PlayingState)
        self._show_controls()

    def _on_status(self, status: QMediaPlayer.MediaStatus) -> None:
        kind = QMediaPlayer.MediaStatus
        if status in {kind.LoadedMedia, kind.BufferedMedia} and self._resume_ms > 0:
            resume_ms, self._resume_ms = self._resume_ms, 0
            self.seek(resume_ms)
        if status == kind.EndOfMedia and self._ended_early():
            self._trouble(playback_error_text("NetworkError", self._wording))

    def _ended_early(self) -> bool:
        return (
            self._session is not None
            and self._player.position() > 0
            and self._player.position() < self._bar.slider.maximum() - _EARLY_END_MS
        )

    def _on_error(self, error: QMediaPlayer.Error, _detail: str) -> None:
        if error != QMediaPlayer.Error.NoError and self._session is not None:
            self._trouble(playback_error_text(error.name, self._wording))

    def _watch(self) -> None:
        """Look whether the film moves; say so when it waits. Text that is still being made is asked for again."""
        self._text.ask()
        self._show_text()
        is_playing = self._player.playbackState() == QMediaPlayer.PlaybackState.PlayingState
        is_still = is_playing and self._player.position() == self._last_ms
        self._last_ms = self._player.position()
        self._still_ticks = self._still_ticks + 1 if is_still else 0
        is_waiting = self._still_ticks >= _STALL_TICKS
        self.state = PlayerState.WAITING if is_waiting else PlayerState.PLAYING
        self._wait_note.setText(self._wording.say("Waiting for this part of the film; it plays as soon as it is made."))
        self._wait_note.setVisible(is_waiting)
        if self._still_ticks == 0:
            self._settling_ms = None

    def _on_tracks(self) -> None:
        tracks = self._player.audioTracks()
        self._bar.tracks.setVisible(len(tracks) > 1)
        menu = self._bar.tracks.menu()
        menu.clear()
        group = QActionGroup(menu)
        for number, name in enumerate(self._track_names(tracks)):
            action = QAction(name.replace("&", "&&"), group)
            action.setCheckable(True)
            action.setChecked(number == self._player.activeAudioTrack())
            action.triggered.connect(lambda _checked=False, number=number: self._player.setActiveAudioTrack(number))
            menu.addAction(action)

    def _list_text(self, tracks: Sequence[TextSnapshot]) -> None:
        self._bar.text.setVisible(bool(tracks))
        menu = self._bar.text.menu()
        menu.clear()
        group = QActionGroup(menu)
        choices = [(None, self._wording.say("No subtitles")), *((one.name, clean_line(one.label)) for one in tracks)]
        for name, label in choices:
            action = QAction(label.replace("&", "&&"), group)
            action.setCheckable(True)
            action.setData(name)
            action.triggered.connect(lambda _checked=False, name=name: self._choose_text(name))
            menu.addAction(action)

    def _check_text(self) -> None:
        for action in self._bar.text.menu().actions():
            action.setChecked(action.data() == self._text.chosen)

    def _choose_text(self, name: str | None) -> None:
        self._text.choose(name)
        self._show_text()

    def _toggle_text(self) -> None:
        self._text.toggle()
        self._show_text()

    def _list_chapters(self, chapters: Sequence[ChapterSnapshot]) -> None:
        self._bar.chapters.setVisible(len(chapters) > 1)
        self._bar.slider.mark([round(one.start_s * 1000) for one in chapters if one.start_s > 0])
        menu = self._bar.chapters.menu()
        menu.clear()
        for one, line in zip(chapters, chapter_lines(chapters, self._wording), strict=True):
            action = QAction(line.replace("&", "&&"), menu)
            action.triggered.connect(lambda _checked=False, start_s=one.start_s: self.seek(round(start_s * 1000)))
            menu.addAction(action)

    def _step_chapter(self, step: int) -> None:
        chapters = self._session.chapters if self._session is not None else ()
        start_s = next_chapter_s(chapters, self._bar.slider.value() / 1000, step)
        if start_s is not None:
            self.seek(round(start_s * 1000))

    def _chapter_at(self, position_ms: int) -> str:
        chapters = self._session.chapters if self._session is not None else ()
        place = chapter_at(chapters, position_ms / 1000)
        return chapter_name(chapters, place, self._wording) if place is not None else ""

    def _track_names(self, tracks: list[QMediaMetaData]) -> list[str]:
        known = self._session.audio if self._session is not None else ()
        if len(known) == len(tracks):
            return [clean_line(track.label or track.language or track.name) for track in known]
        return [self._wording.say("Track {n}", n=number + 1) for number in range(len(tracks))]

    # the preview above the slider

    def _point(self, position_ms: int, x: int) -> None:
        self._pointed = (position_ms, x)
        self._show_preview()

    def _unpoint(self) -> None:
        self._pointed = None
        self._preview.hide()

    def _show_preview(self) -> None:
        if self._pointed is None or self._thumbnails is None:
            return
        position_ms, x = self._pointed
        above = self._bar.slider.mapToGlobal(QPoint(x, 0))
        picture = self._thumbnails.thumbnail(position_ms / 1000)
        self._preview.show_at(above, position_ms, picture, self._chapter_at(position_ms))

    # controls, keys, mouse

    def _show_controls(self) -> None:
        self._bar.show()
        self._video.unsetCursor()
        is_playing = self._player.playbackState() == QMediaPlayer.PlaybackState.PlayingState
        if self.isFullScreen() and is_playing:
            self._idle.start()
        else:
            self._idle.stop()

    def _hide_controls(self) -> None:
        if self.isFullScreen() and not self._bar.underMouse():
            self._bar.hide()
            self._video.setCursor(Qt.CursorShape.BlankCursor)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.MouseMove:
            self._show_controls()
        elif event.type() == QEvent.Type.MouseButtonDblClick:
            self.toggle_full_screen()
            return True  # else the outer surface gets it as well
        return super().eventFilter(watched, event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = _BIG_STEP_MS if event.modifiers() & Qt.KeyboardModifier.ShiftModifier else _STEP_MS
        actions: dict[Qt.Key, Callable[[], None]] = {
            Qt.Key.Key_Space: self.toggle,
            Qt.Key.Key_K: self.toggle,
            Qt.Key.Key_MediaTogglePlayPause: self.toggle,
            Qt.Key.Key_Left: lambda: self.seek_by(-step),
            Qt.Key.Key_Right: lambda: self.seek_by(step),
            Qt.Key.Key_Home: lambda: self.seek(0),
            Qt.Key.Key_Up: lambda: self._bar.volume.setValue(self._bar.volume.value() + 5),
            Qt.Key.Key_Down: lambda: self._bar.volume.setValue(self._bar.volume.value() - 5),
            Qt.Key.Key_PageDown: lambda: self._step_chapter(1),
            Qt.Key.Key_PageUp: lambda: self._step_chapter(-1),
            Qt.Key.Key_M: self._toggle_mute,
            Qt.Key.Key_C: self._toggle_text,
            Qt.Key.Key_F: self.toggle_full_screen,
            Qt.Key.Key_F11: self.toggle_full_screen,
            Qt.Key.Key_Escape: self._escape,
        }
        action = actions.get(Qt.Key(event.key()))
        if action is None:
            super().keyPressEvent(event)
            return
        action()
        self._show_controls()

    def _escape(self) -> None:
        if self.isFullScreen():
            self.toggle_full_screen()
        else:
            self.close()

    def closeEvent(self, event: QCloseEvent) -> None:
        super().closeEvent(event)
        if self.state == PlayerState.CLOSED:
            return
        self.state = PlayerState.CLOSED
        self._preview.hide()
        self._player.pause()
        self._end_session(self.deleteLater)
        self.closed.emit(self._media_id)
