"""Draws the window in its states to PNG files, to be looked at: ``python -m tests.ui.screenshots FOLDER``.

``python -m tests.ui.screenshots FOLDER 1 devices`` draws only the devices, at the scale that Qt was told.
Light and dark, at 100 % and 200 %; each scale in a process of its own, as Qt reads it once.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import msgspec
from PySide6.QtCore import QBuffer, QByteArray, QElapsedTimer, QIODevice, QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QColor, QDragEnterEvent, QImage, QLinearGradient, QPainter
from PySide6.QtWidgets import QApplication, QWidget

from app.core.errors import ErrorCode, ErrorInfo
from app.engine.api import (
    AddResult,
    EngineStatus,
    JoinSpace,
    ListDevices,
    PlayerSnapshot,
    RenditionSnapshot,
    SheetLayout,
    TrackSnapshot,
)
from app.ui.bridge import EngineBridge
from app.ui.controller import Controller
from app.ui.device_dialogs import AskingDialog, ConfirmWordsDialog, InviteDialog, JoinDialog, ShutOutDialog
from app.ui.device_presenters import DeviceAction
from app.ui.main_window import MainWindow
from app.ui.presenters import AddTally, Notice, Section, Tone
from app.ui.theme import DARK, LIGHT, Tokens, apply_theme
from app.ui.wording import Wording
from tests.ui.fake_engine import WORDS, FakeEngine, make_device, make_film, make_job

_HD = (
    RenditionSnapshot(name="v1080", width=1920, height=1080, kind="h264", codecs="avc1.640028", average=5_400_000),
    RenditionSnapshot(name="v720", width=1280, height=720, kind="h264", codecs="avc1.64001f", average=2_700_000),
)
_SOUND = (
    TrackSnapshot(name="a1", label="Stereo", language="de"),
    TrackSnapshot(name="a2", label="Commentary", language="en"),
)
_DAY_MS = 86_400_000
_NOW_MS = 1_760_000_000_000


def picture(hue: int) -> bytes:
    """Return a small landscape as JPEG."""
    image = QImage(960, 540, QImage.Format.Format_RGB32)
    painter = QPainter(image)
    sky = QLinearGradient(QPointF(0, 0), QPointF(0, 540))
    sky.setColorAt(0, QColor.fromHsv(hue, 150, 120))
    sky.setColorAt(0.7, QColor.fromHsv((hue + 30) % 360, 110, 240))
    painter.fillRect(image.rect(), sky)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    for step in range(4):
        painter.setBrush(QColor.fromHsv((hue + 200) % 360, 120, 110 - 22 * step))
        painter.drawEllipse(QPoint(150 + 260 * step, 620 + 20 * step), 420, 260)
    painter.end()
    data = QByteArray()
    buffer = QBuffer(data)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    image.save(buffer, "JPEG", 88)  # type: ignore[call-overload]
    return bytes(data.data())


def fill(engine: FakeEngine) -> None:
    """Put films and jobs of all kinds into ``engine``."""
    titles = (
        "Nosferatu",
        "Sommer 2019 in Lissabon",
        "The Cabinet of Dr. Caligari",
        "Geburtstag Oma (vollständig, mit der langen Rede von Onkel Wilhelm am Abend)",
        "Metropolis",
        "Battleship Potemkin",
        "Steamboat Bill, Jr.",
        "千と千尋",
        "Safety Last!",
    )
    films = [
        make_film(
            title, renditions=_HD, audio=_SOUND, added_at_ms=_NOW_MS - number * _DAY_MS, duration_s=900 + 1234 * number
        )
        for number, title in enumerate(titles)
    ]
    films[1] = msgspec.structs.replace(films[1], state="making", progress=0.42, size_bytes=0)
    films[4] = msgspec.structs.replace(films[4], warnings=("Sound ends 2 s before the picture.",))
    for number in (0, 2, 5, 8):
        films[number] = msgspec.structs.replace(films[number], has_poster=True)
        engine.posters[films[number].media_id] = picture(number * 40)
    trashed = make_film("Test recording", state="trashed", trashed_at_ms=_NOW_MS - 4 * _DAY_MS, renditions=_HD)
    jobs = [
        make_job("Sommer 2019 in Lissabon", "processing", progress=0.42, rate_x=1.84, eta_s=252.0, playable=True),
        make_job("The Passion of Joan of Arc", "processing", progress=None),
        make_job("Geburtstag Oma (vollständig, mit der langen Rede von Onkel Wilhelm am Abend)", "queued"),
        make_job("Sunrise", "queued", reason="Waiting for a device that can decode this"),
        make_job("The General", "paused", progress=0.17),
        make_job("Nosferatu", "done", duration_s=5640.0, playable=True),
        make_job("Metropolis", "done", duration_s=9000.0, playable=True, warnings=("Sound ends early",)),
        make_job("Old tape", "cancelled"),
    ]
    engine.put_films(*films, trashed)
    engine.put_jobs(*(msgspec.structs.replace(job, added_at_ms=_NOW_MS + n) for n, job in enumerate(jobs)))


def fail(engine: FakeEngine) -> None:
    """Put troubles into ``engine``."""
    message = (
        "The file ends in the middle of the film (at 0:41:07 of 1:34:00). It was probably not copied completely; "
        "copy it again and press Retry."
    )
    engine.put_jobs(
        make_job(
            "Cut short", "error", error=ErrorInfo(code=str(ErrorCode.TRUNCATED), message=message), added_at_ms=_NOW_MS
        ),
        make_job(
            "Changed",
            "error",
            error=ErrorInfo(
                code="source-changed",
                message="The file has changed since it was added. Press Retry to use it as it is now.",
            ),
            added_at_ms=_NOW_MS + 1,
        ),
        make_job("Sunrise", "queued", reason="Waiting until there is room on the disk", added_at_ms=_NOW_MS + 2),
    )
    trouble = ErrorInfo(
        code="disk-full",
        message="The disk that holds the vault is full. Free some space; work goes on by itself, nothing is lost.",
    )
    engine.set_status(EngineStatus(working=True, idle=False, trouble=trouble))


class Studio:
    """Windows, and a camera."""

    def __init__(self, folder: Path, app: QApplication, scale: str) -> None:
        self._folder = folder
        self._app = app
        self._scale = scale
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def wait(self, milliseconds: int) -> None:
        """Let events happen."""
        timer = QElapsedTimer()
        timer.start()
        while timer.elapsed() < milliseconds:
            self._app.processEvents()

    def shoot(self, widget: QWidget, name: str, tokens: Tokens) -> None:
        """Save what ``widget`` looks like."""
        self.wait(300)
        look = "dark" if tokens.is_dark else "light"
        widget.grab().save(str(self._folder / f"{name}-{look}-{self._scale}x.png"))

    def shoot_dialog(self, window: MainWindow, name: str, tokens: Tokens, *, closes: bool = False) -> None:
        """Save what the dialog in front of ``window`` looks like."""
        self.wait(300)
        dialog = window.findChildren(AskingDialog)[0]
        self.shoot(dialog, f"devices-{name}", tokens)
        if closes:
            dialog.close()
            self.wait(100)

    def open(self, prepare: Callable[[FakeEngine], None], tokens: Tokens) -> tuple[MainWindow, FakeEngine]:
        """Return a window on a fresh engine."""
        apply_theme(self._app, tokens)
        engine = FakeEngine(self._loop)
        prepare(engine)
        bridge = EngineBridge(engine, self._loop)
        window = MainWindow(Controller(bridge, Wording()))
        bridge.start()
        window.show()
        self.wait(500)
        return window, engine


def shoot_all(studio: Studio, tokens: Tokens) -> None:
    """Take every picture in one appearance."""
    window, _engine = studio.open(lambda _engine: None, tokens)
    studio.shoot(window, "empty", tokens)
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile("/tmp/a.mp4")])  # noqa: S108
    enter = QDragEnterEvent(
        QPointF(9, 9), Qt.DropAction.CopyAction, mime, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    )
    QApplication.sendEvent(window, enter)
    studio.shoot(window, "drop", tokens)
    window.close()
    window, engine = studio.open(fill, tokens)
    window.library.setCurrentIndex(window.library.model().index(2, 0))
    window.library.setFocus()
    studio.shoot(window, "library", tokens)
    window._controller.show_film_details(next(iter(engine.films)))
    studio.wait(200)
    studio.shoot(window.findChildren(QWidget, "details")[0], "details", tokens)
    window.show_section(Section.QUEUE)
    window.queue.list.setCurrentIndex(window.queue.list.model().index(0, 0))
    window.queue.list.setFocus()
    studio.shoot(window, "queue", tokens)
    window.resize(640, 440)
    studio.shoot(window, "narrow", tokens)
    window.close()
    window, _engine = studio.open(fail, tokens)
    window.show_section(Section.QUEUE)
    tally = AddTally(sent=5, added=2, is_over=True)
    for name, message in (
        ("holiday.txt", "This is not a video."),
        ("broken.mp4", "The file is empty; copy it again."),
        ("film.mkv", "The film is protected and cannot be read."),
    ):
        error = ErrorInfo(code="not-a-video", message=message)
        tally = tally.with_result(
            AddResult(path=f"/films/{name}", job_id=None, media_id=None, state="refused", error=error)
        )
    window._controller.intake.told.emit(tally)
    window.notices.put(
        Notice(
            key="x",
            tone=Tone.WORKING,
            text="Exporting “Nosferatu”… 42 %",
            progress=0.42,
            action="Stop",
            is_dismissible=False,
        )
    )
    window.notices.put(Notice(key="y", tone=Tone.QUIET, text="“Metropolis” is in the Trash.", action="Undo"))
    studio.shoot(window, "failing", tokens)
    window.close()
    shoot_devices(studio, tokens)
    shoot_player(studio, tokens)


def know_devices(engine: FakeEngine) -> None:
    """Put devices in all conditions into ``engine``."""
    away = ErrorInfo(
        code="unreachable",
        message="The device cannot be reached at 192.168.1.31:45001, [fd00::31]:45001: no answer in 5 s.",
    )
    stranger = ErrorInfo(code="not-trusted", message="What answers there is not the device that was looked for.")
    engine.put_devices(
        make_device("Laptop", path="lan", rate_bytes_s=48_300_000, added_at_ms=_NOW_MS),
        make_device("Office, third floor", path="direct", rate_bytes_s=5_210_000),
        make_device("Summer house", path="relay", rate_bytes_s=412_000),
        make_device("Media centre", trouble=away),
        make_device("Attic", trouble=stranger),
        make_device("Old phone", state="revoked", revoked_at_ms=_NOW_MS, revoked_by="Laptop"),
    )


def shoot_devices(studio: Studio, tokens: Tokens) -> None:
    """Take pictures of the devices and their dialogs."""
    window, engine = studio.open(lambda _engine: None, tokens)
    window.show_section(Section.DEVICES)
    studio.shoot(window, "devices-alone", tokens)
    engine.words_pending = False
    engine.put_devices(make_device("Laptop", path="lan", rate_bytes_s=48_300_000))
    studio.wait(1700)
    studio.shoot(window, "devices-two", tokens)
    engine.refuse(ListDevices, ErrorCode.ENGINE_GONE, "The engine has stopped. Start Hearthreel again to go on.")
    studio.wait(1700)
    studio.shoot(window, "devices-failing", tokens)
    window.close()
    window, engine = studio.open(know_devices, tokens)
    window.show_section(Section.DEVICES)
    studio.shoot(window, "devices-many", tokens)
    window.resize(640, 440)
    studio.shoot(window, "devices-narrow", tokens)
    desk = window.desk
    desk.add_device()
    studio.shoot_dialog(window, "invite", tokens)
    engine.try_code(
        0.34,
        "A device gave a wrong code, or somebody between the two tried to listen; nothing was given "
        "away. 2 tries left.",
    )
    studio.shoot_dialog(window, "invite-warned", tokens)
    engine.try_code(1.0, "A device gave a wrong code. 0 tries left.")
    engine.end_code(ErrorCode.CODE_EXPIRED, "void")
    studio.shoot_dialog(window, "invite-failed", tokens, closes=False)
    window.findChildren(InviteDialog)[0].open_code()
    studio.wait(300)
    engine.let_in("Bedroom")
    studio.shoot_dialog(window, "invite-joined", tokens, closes=True)
    shoot_joining(studio, window, engine, tokens)
    shoot_words(studio, window, tokens)
    window.close()


def shoot_joining(studio: Studio, window: MainWindow, engine: FakeEngine, tokens: Tokens) -> None:
    """Take pictures of joining, and of shutting out."""
    desk = window.desk
    desk.join()
    studio.shoot_dialog(window, "join", tokens)
    engine.refuse(JoinSpace, ErrorCode.UNREACHABLE, "nobody")
    join = window.findChildren(JoinDialog)[0]
    join.code.setText("417-220-935")
    join.send()
    studio.shoot_dialog(window, "join-failed", tokens)
    del engine.refusals[JoinSpace]
    join.send()
    studio.shoot_dialog(window, "join-joined", tokens, closes=True)
    row = desk.watch.page.members[1]
    desk.view.wanted.emit(row, DeviceAction.SHUT_OUT)
    studio.shoot_dialog(window, "shut-out", tokens)
    window.findChildren(ShutOutDialog)[0].send()
    studio.shoot_dialog(window, "shut-out-done", tokens, closes=True)


def shoot_words(studio: Studio, window: MainWindow, tokens: Tokens) -> None:
    """Take pictures of the words."""
    desk = window.desk
    desk.show_words()
    studio.shoot_dialog(window, "words", tokens, closes=True)
    desk.confirm_words()
    confirm = window.findChildren(ConfirmWordsDialog)[0]
    for field in confirm.fields.values():
        field.setText("wrong")
    confirm.send()
    studio.shoot_dialog(window, "words-wrong", tokens)
    for number, field in confirm.fields.items():
        field.setText(WORDS[number - 1])
    confirm.send()
    studio.shoot_dialog(window, "words-confirmed", tokens, closes=True)


def shoot_player(studio: Studio, tokens: Tokens) -> None:
    """Take pictures of the player, with words and with controls."""
    window, engine = studio.open(fill, tokens)
    media_id = next(iter(engine.films))
    window.play(media_id)
    studio.wait(300)
    studio.shoot(window.players[media_id], "player-refused", tokens)
    window.players[media_id].close()
    layout = SheetLayout(interval_s=10, columns=5, rows=5, tile_width=160, tile_height=90, count=90)
    engine.player = PlayerSnapshot(
        token=media_id, media_id=media_id, master="", auto="", duration_s=5640, audio=_SOUND, sheet_layout=layout
    )
    window.play(media_id)
    studio.wait(300)
    player = window.players[media_id]
    player._bar.tracks.show()
    player._bar.show_position(1_234_000)
    studio.shoot(player, "player", tokens)
    window.close()


def main() -> int:
    """Draw all, or one scale when it is named."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    if len(sys.argv) == 2:
        for scale in ("1", "2"):
            environment = {**os.environ, "QT_SCALE_FACTOR": scale}
            command = [sys.executable, "-m", "tests.ui.screenshots", str(folder), scale]
            subprocess.run(command, env=environment, check=True)
        return 0
    app = QApplication([])
    studio = Studio(folder, app, sys.argv[2])
    for tokens in (LIGHT, DARK):
        (shoot_devices if "devices" in sys.argv[3:] else shoot_all)(studio, tokens)
    return 0


if __name__ == "__main__":
    sys.stdout.flush()
    os._exit(main())
