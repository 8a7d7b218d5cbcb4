"""The player, on a real small film that lies on the disk, and on addresses that do not answer."""

from __future__ import annotations

import http.server
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QColor, QImage, QMouseEvent
from PySide6.QtMultimedia import QMediaPlayer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.core.errors import ErrorCode
from app.engine.api import (
    ChapterSnapshot,
    ClosePlayer,
    CueSnapshot,
    GetText,
    OpenPlayer,
    PlayerSnapshot,
    SeekPlayer,
    SheetLayout,
    TextSnapshot,
)
from app.ui.bridge import EngineBridge
from app.ui.main_window import MainWindow
from app.ui.player_parts import SeekSlider
from app.ui.player_window import PlayerState, PlayerWindow
from app.ui.theme import DARK
from app.ui.wording import Wording
from tests.ui.fake_engine import FakeEngine, make_film

# pytest-qt's log handler is Python: a thread of the player that logs waits for it while Qt's thread, inside a call of
# the player, waits for that thread.
pytestmark = pytest.mark.no_qt_log
FIRST, SECOND = "first", "second"
MakePlayer = Callable[..., PlayerWindow]


@pytest.fixture(scope="session")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a film of 20 s with a sound track."""
    path = tmp_path_factory.mktemp("film") / "film.mp4"
    picture = ["-f", "lavfi", "-i", "testsrc=size=160x90:rate=10:duration=20"]
    sound = ["-f", "lavfi", "-i", "sine=duration=20"]
    codecs = ["-c:v", "libx264", "-preset", "ultrafast", "-g", "10", "-pix_fmt", "yuv420p", "-c:a", "aac"]
    subprocess.run(["ffmpeg", "-v", "error", *picture, *sound, *codecs, str(path)], check=True)
    return path


def session_on(url: str, **fields: object) -> PlayerSnapshot:
    """Return a player session whose playlist is ``url``."""
    usual: dict[str, object] = {"token": FIRST, "media_id": "m", "master": url, "auto": url, "duration_s": 20.0}
    return PlayerSnapshot(**{**usual, **fields})  # type: ignore[arg-type]


@pytest.fixture
def make_player(qtbot: QtBot, bridge: EngineBridge) -> Iterator[MakePlayer]:
    """Return a function that opens a player window."""
    made: list[PlayerWindow] = []

    def make(title: str = "Film", *, answer_ms: int = 400) -> PlayerWindow:
        player = PlayerWindow(bridge, "m", title, Wording(), answer_ms=answer_ms)
        player.show()
        made.append(player)
        return player

    yield make
    gone: list[object] = []
    for player in made:
        try:
            player.destroyed.connect(lambda: gone.append(None))
            player.close()
        except RuntimeError:
            gone.append(player)
    qtbot.waitUntil(lambda: len(gone) == len(made))


@pytest.fixture
def playing(qtbot: QtBot, engine: FakeEngine, film: Path, make_player: MakePlayer) -> PlayerWindow:
    """Return a player in which the film runs."""
    engine.player = session_on(film.as_uri())
    player = make_player()
    qtbot.waitUntil(lambda: player._player.position() > 0)
    return player


def test_a_film_plays_and_its_position_is_shown(qtbot: QtBot, playing: PlayerWindow) -> None:
    assert playing.state == PlayerState.PLAYING
    assert playing._bar.duration.text() == "0:20"
    qtbot.waitUntil(lambda: playing._bar.slider.value() > 100)
    assert playing._bar.play.accessibleName() == "Pause"


def test_the_gateway_hears_of_a_seek_before_the_player_jumps(
    qtbot: QtBot, playing: PlayerWindow, engine: FakeEngine
) -> None:
    engine.hold(SeekPlayer)
    playing._answer.setInterval(60_000)
    playing.seek(12_000)
    qtbot.waitUntil(lambda: engine.called(SeekPlayer) == [SeekPlayer(token=FIRST, position_ms=12_000)])
    assert playing._player.position() < 5000
    assert playing._bar.slider.value() == 12_000
    engine.release(SeekPlayer)
    qtbot.waitUntil(lambda: playing._player.position() >= 12_000)


def test_a_seek_to_the_end_stays_inside_the_film(qtbot: QtBot, playing: PlayerWindow) -> None:
    playing.seek(99_000)
    qtbot.waitUntil(lambda: playing._player.mediaStatus() == QMediaPlayer.MediaStatus.EndOfMedia)
    assert playing.state in {PlayerState.PLAYING, PlayerState.WAITING}
    QTest.keyClick(playing, Qt.Key.Key_Space)
    qtbot.waitUntil(lambda: 0 < playing._player.position() < 5000)


def test_a_gateway_that_does_not_answer_does_not_stop_a_seek(
    qtbot: QtBot, playing: PlayerWindow, engine: FakeEngine
) -> None:
    """U1: the window does not wait for work."""
    engine.hold(SeekPlayer)
    playing.seek(12_000)
    qtbot.waitUntil(lambda: playing._player.position() >= 12_000)
    engine.release(SeekPlayer)


def test_dragging_asks_only_for_the_newest_position(qtbot: QtBot, playing: PlayerWindow, engine: FakeEngine) -> None:
    engine.hold(SeekPlayer)
    playing._answer.setInterval(60_000)
    for position_ms in (3000, 6000, 9000, 15_000):
        playing.seek(position_ms)
    qtbot.waitUntil(lambda: len(engine.called(SeekPlayer)) == 1)
    engine.release(SeekPlayer)
    qtbot.waitUntil(lambda: playing._player.position() >= 15_000)
    assert [command.position_ms for command in engine.called(SeekPlayer)] == [3000, 15_000]


def test_keys_play_seek_mute_and_change_volume(qtbot: QtBot, playing: PlayerWindow) -> None:
    state = QMediaPlayer.PlaybackState
    QTest.keyClick(playing, Qt.Key.Key_Space)
    assert playing._player.playbackState() == state.PausedState
    QTest.keyClick(playing, Qt.Key.Key_Right)
    qtbot.waitUntil(lambda: playing._player.position() >= 10_000)
    QTest.keyClick(playing, Qt.Key.Key_Left)
    qtbot.waitUntil(lambda: playing._player.position() < 5000)
    QTest.keyClick(playing, Qt.Key.Key_M)
    assert playing._output.isMuted()
    assert playing._bar.mute.accessibleName() == "Sound on"
    QTest.keyClick(playing, Qt.Key.Key_Down)
    assert playing._bar.volume.value() == 95
    assert 0 < playing._output.volume() < 1
    QTest.keyClick(playing, Qt.Key.Key_K)
    assert playing._player.playbackState() == state.PlayingState


def test_the_slider_leaves_arrow_keys_to_the_window(qtbot: QtBot, playing: PlayerWindow, engine: FakeEngine) -> None:
    playing._player.pause()
    QTest.keyClick(playing._bar.slider, Qt.Key.Key_Right)
    qtbot.waitUntil(lambda: len(engine.called(SeekPlayer)) == 1)
    assert engine.called(SeekPlayer)[0].position_ms >= 10_000


def test_a_click_on_the_slider_goes_there(qtbot: QtBot, playing: PlayerWindow, engine: FakeEngine) -> None:
    slider = playing._bar.slider
    QTest.mouseClick(slider, Qt.MouseButton.LeftButton, pos=QPoint(slider.width() // 2, slider.height() // 2))
    qtbot.waitUntil(lambda: bool(engine.called(SeekPlayer)))
    assert abs(engine.called(SeekPlayer)[0].position_ms - 10_000) < 300


def test_full_screen_is_entered_and_left(playing: PlayerWindow) -> None:
    QTest.keyClick(playing, Qt.Key.Key_F)
    assert playing.isFullScreen()
    assert playing._bar.full_screen.accessibleName() == "Leave full screen (F)"
    playing._hide_controls()
    assert not playing._bar.isVisible()
    send_mouse(playing, QEvent.Type.MouseMove)
    assert playing._bar.isVisible()
    QTest.keyClick(playing, Qt.Key.Key_Escape)
    assert not playing.isFullScreen()
    assert playing.isVisible()


def send_mouse(player: PlayerWindow, kind: QEvent.Type) -> None:
    """Send a mouse event to where Qt sends those of a real mouse: the surface inside the video widget."""
    surface = player._video.findChildren(QWidget)[0]
    none = Qt.MouseButton.NoButton
    at = QPointF(9, 9)
    QApplication.sendEvent(surface, QMouseEvent(kind, at, at, none, none, Qt.KeyboardModifier.NoModifier))


def test_a_double_click_on_the_picture_enters_full_screen_once(playing: PlayerWindow) -> None:
    send_mouse(playing, QEvent.Type.MouseButtonDblClick)
    assert playing.isFullScreen()
    send_mouse(playing, QEvent.Type.MouseButtonDblClick)
    assert not playing.isFullScreen()


def test_escape_in_a_window_closes_it_and_its_session(qtbot: QtBot, playing: PlayerWindow, engine: FakeEngine) -> None:
    closed: list[str] = []
    playing.closed.connect(closed.append)
    QTest.keyClick(playing, Qt.Key.Key_Escape)
    assert not playing.isVisible()
    qtbot.waitUntil(lambda: engine.called(ClosePlayer) == [ClosePlayer(token=FIRST)])
    assert closed == ["m"]


def test_a_refused_film_says_why_and_can_be_tried_again(
    qtbot: QtBot, engine: FakeEngine, film: Path, make_player: MakePlayer
) -> None:
    engine.refuse(OpenPlayer, ErrorCode.RESULT_LOST, "<b>A part</b> of the film was lost.")
    player = make_player()
    qtbot.waitUntil(lambda: player.state == PlayerState.TROUBLE)
    assert player._message.text.text() == "<b>A part</b> of the film was lost."
    assert player._message.text.textFormat() == Qt.TextFormat.PlainText
    engine.refusals.clear()
    engine.player = session_on(film.as_uri())
    QTest.mouseClick(player._message.retry, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: player._player.position() > 0)
    assert player._pages.currentWidget() is player._video


def test_an_address_that_does_not_answer_says_so_in_words(
    qtbot: QtBot, engine: FakeEngine, make_player: MakePlayer
) -> None:
    engine.player = session_on("http://127.0.0.1:1/t/auto.m3u8")
    player = make_player()
    qtbot.waitUntil(lambda: player.state == PlayerState.TROUBLE)
    assert "ry again" in player._message.text.text()
    assert player._message.retry.isVisible()


def test_after_trouble_the_film_goes_on_where_it_was(
    qtbot: QtBot, playing: PlayerWindow, engine: FakeEngine, film: Path
) -> None:
    playing.seek(12_000)
    qtbot.waitUntil(lambda: playing._player.position() >= 12_000)
    playing._on_error(QMediaPlayer.Error.NetworkError, "connection reset")
    assert playing.state == PlayerState.TROUBLE
    engine.player = session_on(film.as_uri(), token=SECOND)
    playing.retry()
    qtbot.waitUntil(lambda: playing.state == PlayerState.PLAYING and playing._player.position() >= 12_000)
    assert engine.called(ClosePlayer) == [ClosePlayer(token=FIRST)]


def test_a_window_closed_while_its_session_opens_closes_the_session(
    qtbot: QtBot, engine: FakeEngine, film: Path, make_player: MakePlayer
) -> None:
    engine.player = session_on(film.as_uri())
    engine.hold(OpenPlayer)
    player = make_player()
    qtbot.waitUntil(lambda: bool(engine.called(OpenPlayer)))
    player.close()
    engine.release(OpenPlayer)
    qtbot.waitUntil(lambda: engine.called(ClosePlayer) == [ClosePlayer(token=FIRST)])


def test_a_film_that_stands_still_says_that_it_waits(qtbot: QtBot, playing: PlayerWindow) -> None:
    playing._tick.stop()
    playing._player.pause()
    qtbot.waitUntil(lambda: playing._player.playbackState() == QMediaPlayer.PlaybackState.PausedState)
    for _ in range(5):
        playing._watch()
    assert not playing._wait_note.isVisible()
    playing._player.setPlaybackRate(0.0)
    playing._player.play()
    for _ in range(5):
        playing._watch()
    assert playing.state == PlayerState.WAITING
    assert playing._wait_note.isVisible()


def test_a_title_cannot_be_a_place_holder(engine: FakeEngine, film: Path, make_player: MakePlayer) -> None:
    """U3: texts from files are never place holders."""
    engine.player = session_on(film.as_uri())
    assert make_player("A [*] film").windowTitle() == "A [*][*] film"


def test_a_title_that_is_not_known_is_asked_for(
    qtbot: QtBot, engine: FakeEngine, film: Path, make_player: MakePlayer
) -> None:
    engine.player = session_on(film.as_uri())
    engine.films["m"] = make_film("Nosferatu", media_id="m")
    player = make_player("")
    qtbot.waitUntil(lambda: player.windowTitle() == "Nosferatu")


def test_a_film_that_plays_is_brought_to_the_front_instead_of_opened_twice(
    qtbot: QtBot, window: MainWindow, engine: FakeEngine, film: Path
) -> None:
    engine.player = session_on(film.as_uri())
    window.play("m")
    window.play("m")
    assert len(window.players) == 1
    qtbot.waitUntil(lambda: len(engine.called(OpenPlayer)) == 1)
    window.close()
    assert window.players == {}
    qtbot.waitUntil(lambda: len(engine.called(ClosePlayer)) == 1)


def test_the_slider_maps_its_whole_width(qtbot: QtBot) -> None:
    slider = SeekSlider()
    qtbot.addWidget(slider)
    slider.resize(400, 24)
    slider.setRange(0, 1000)
    assert slider.position_at(-5) == 0
    assert slider.position_at(500) == 1000
    assert abs(slider.position_at(200) - 500) < 10


@pytest.fixture
def sheets(tmp_path: Path) -> Iterator[str]:
    """Return the address prefix of two trickplay sheets: left half red, right half blue."""
    image = QImage(320, 90, QImage.Format.Format_RGB32)
    image.fill(QColor("red"))
    for x in range(160, 320):
        for y in range(90):
            image.setPixelColor(x, y, QColor("blue"))
    image.save(str(tmp_path / "0.jpg"))

    class Quiet(http.server.SimpleHTTPRequestHandler):
        """Serves the folder without a log."""

        def log_message(self, *_args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), lambda *args, **kwargs: Quiet(*args, directory=str(tmp_path), **kwargs)
    )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def test_pointing_at_the_slider_shows_the_thumbnail_there(
    qtbot: QtBot, engine: FakeEngine, film: Path, make_player: MakePlayer, sheets: str
) -> None:
    layout = SheetLayout(interval_s=10, columns=2, rows=1, tile_width=160, tile_height=90, count=3)
    engine.player = session_on(film.as_uri(), sheets=sheets, sheet_layout=layout)
    player = make_player()
    qtbot.waitUntil(lambda: player._thumbnails is not None)
    player._point(12_000, 100)
    assert player._preview.isVisible()
    assert player._preview._time.text() == "0:12"
    qtbot.waitUntil(lambda: not player._preview._picture.pixmap().isNull())
    colour = player._preview._picture.pixmap().toImage().pixelColor(80, 45)
    assert colour.blue() > 200 > colour.red()
    player._point(20_000, 150)  # its sheet is not there
    assert not player._preview._picture.isVisible()
    player._unpoint()
    assert not player._preview.isVisible()


ENGLISH = TextSnapshot(name="t0", label="English & more", language="en")
SIGNS = TextSnapshot(name="t1", label="Deutsch (forced)", language="de", is_forced=True)
CUES = (CueSnapshot(start_s=0, end_s=9, text="first"), CueSnapshot(start_s=10, end_s=25, text="second\nline"))


def shown_text(player: PlayerWindow) -> str:
    return player._video.videoSink().subtitleText()


def test_text_is_off_until_it_is_chosen(qtbot: QtBot, engine: FakeEngine, film: Path, make_player: MakePlayer) -> None:
    engine.text["t0"] = CUES
    engine.player = session_on(film.as_uri(), text=(ENGLISH,))
    player = make_player()
    qtbot.waitUntil(lambda: player._player.position() > 500)
    assert shown_text(player) == ""
    assert engine.called(GetText) == []
    menu = player._bar.text.menu()
    assert player._bar.text.isVisible()
    assert [action.text() for action in menu.actions()] == ["No subtitles", "English && more"]
    menu.actions()[1].trigger()
    qtbot.waitUntil(lambda: shown_text(player) == "first")
    menu.aboutToShow.emit()
    assert [action.isChecked() for action in menu.actions()] == [False, True]
    player.seek(12_000)
    qtbot.waitUntil(lambda: shown_text(player) == "second\nline")
    QTest.keyClick(player, Qt.Key.Key_C)
    assert shown_text(player) == ""
    QTest.keyClick(player, Qt.Key.Key_C)
    assert shown_text(player) == "second\nline"


def test_text_changes_while_the_film_stands_still(
    qtbot: QtBot, engine: FakeEngine, film: Path, make_player: MakePlayer
) -> None:
    engine.text["t0"] = CUES
    engine.player = session_on(film.as_uri(), text=(ENGLISH,))
    player = make_player()
    qtbot.waitUntil(lambda: player._player.position() > 0)
    player.toggle()
    player._choose_text("t0")
    qtbot.waitUntil(lambda: shown_text(player) == "first")
    assert player._video.videoSink().videoFrame().subtitleText() == "first"


def test_forced_text_is_shown_unasked_and_asked_for_again_while_it_is_made(
    qtbot: QtBot, engine: FakeEngine, film: Path, make_player: MakePlayer
) -> None:
    engine.player = session_on(film.as_uri(), text=(ENGLISH, SIGNS))
    player = make_player()
    qtbot.waitUntil(lambda: len(engine.called(GetText)) >= 2)
    assert {one.name for one in engine.called(GetText)} == {"t1"}
    engine.text["t1"] = CUES
    qtbot.waitUntil(lambda: shown_text(player) == "first")


def test_text_that_cannot_be_had_leaves_the_film_playing(
    qtbot: QtBot, engine: FakeEngine, film: Path, make_player: MakePlayer
) -> None:
    engine.refuse(GetText, ErrorCode.NO_SUCH_ID, "There is none.")
    engine.player = session_on(film.as_uri(), text=(SIGNS,))
    player = make_player()
    qtbot.waitUntil(lambda: len(engine.called(GetText)) == 1 and player._player.position() > 1500)
    assert len(engine.called(GetText)) == 1
    assert player.state == PlayerState.PLAYING


def test_a_film_without_text_and_chapters_offers_none(playing: PlayerWindow) -> None:
    assert not playing._bar.text.isVisible()
    assert not playing._bar.chapters.isVisible()
    QTest.keyClick(playing, Qt.Key.Key_C)
    QTest.keyClick(playing, Qt.Key.Key_PageDown)
    assert shown_text(playing) == ""
    assert playing.state == PlayerState.PLAYING


CHAPTERS = (
    ChapterSnapshot(start_s=0, end_s=8, title="Begin"),
    ChapterSnapshot(start_s=8, end_s=15, title=""),
    ChapterSnapshot(start_s=15, end_s=20, title="End\nline"),
)


def test_a_chapter_is_named_marked_and_jumped_to(
    qtbot: QtBot, engine: FakeEngine, film: Path, make_player: MakePlayer
) -> None:
    engine.player = session_on(film.as_uri(), chapters=CHAPTERS)
    player = make_player()
    qtbot.waitUntil(lambda: player._player.position() > 0)
    assert player._bar.chapters.isVisible()
    actions = player._bar.chapters.menu().actions()
    assert [one.text() for one in actions] == [
        "0:00  Begin",
        "0:08  Chapter 2",
        "0:15  End\N{REPLACEMENT CHARACTER}line",
    ]
    assert player._bar.slider._marks == (8000, 15_000)
    slider = player._bar.slider
    picture = slider.grab().toImage()
    marked = [x for x in range(slider.width()) if picture.pixelColor(x, slider.height() // 2 - 5) == QColor(DARK.muted)]
    assert [round(slider.position_at(x), -3) for x in marked[::2]] == [8000, 15_000]
    player._point(9000, 50)
    assert player._preview._chapter.text() == "Chapter 2"
    actions[2].trigger()
    qtbot.waitUntil(lambda: player._player.position() >= 15_000)
    QTest.keyClick(player, Qt.Key.Key_PageUp)
    qtbot.waitUntil(lambda: 8000 <= player._player.position() < 15_000)
    QTest.keyClick(player, Qt.Key.Key_PageDown)
    qtbot.waitUntil(lambda: player._player.position() >= 15_000)
