"""Plays an address with QMediaPlayer and says which frames and beeps came out, and when.

Run as a process of its own (``python -m tests.judges.qt_judge``), offscreen and without a sound device, so that a
player that hangs can be ended. The scenario comes on standard input, the report goes to standard output, both JSON.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from tests.judges.barcode import Gray, read_frame_number
from tests.judges.seen import FrameSeen, SoundLine

if TYPE_CHECKING:
    from PySide6.QtMultimedia import QAudioBuffer, QMediaPlayer, QVideoFrame

ROOT = Path(__file__).resolve().parents[2]


class PlayOn(msgspec.Struct, frozen=True, kw_only=True, tag="play"):
    """Play until a moment, or to the end."""

    until_s: float = 1e9


class SeekTo(msgspec.Struct, frozen=True, kw_only=True, tag="seek"):
    """Go somewhere, and go on playing."""

    to_s: float
    tell: str | None = None
    """An address that is fetched first: how the test tells the gateway of the seek."""


class Stall(msgspec.Struct, frozen=True, kw_only=True, tag="stall"):
    """Play until no frame has come for this long."""

    quiet_s: float


QtStep = PlayOn | SeekTo | Stall


class QtScenario(msgspec.Struct, frozen=True, kw_only=True):
    """What the player is to do."""

    url: str
    steps: tuple[QtStep, ...]
    limit_s: float


class QtReport(msgspec.Struct, frozen=True, kw_only=True):
    """What came out."""

    frames: tuple[FrameSeen, ...]
    widths: tuple[int, ...]
    beeps: tuple[float, ...]
    errors: tuple[str, ...]
    duration_s: float
    audio_tracks: int
    timed_out: bool


def missing_tool() -> str | None:
    """Return why this judge cannot sit, or None."""
    if find_spec("PySide6") is None or find_spec("PySide6.QtMultimedia") is None:
        return "PySide6 with Multimedia is not installed; install the project's dependencies"
    return None


async def play_with_qt(url: str, steps: Sequence[QtStep], *, limit_s: float = 40.0) -> QtReport:
    """Carry out ``steps`` on ``url`` in a child process; the report says when ``limit_s`` was not enough."""
    scenario = msgspec.json.encode(QtScenario(url=url, steps=tuple(steps), limit_s=limit_s))
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.judges.qt_judge"),
        cwd=ROOT,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen", "QT_LOGGING_RULES": "*.debug=false"},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        output, messages = await asyncio.wait_for(child.communicate(scenario), limit_s + 15)
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    if child.returncode:
        raise AssertionError(f"the Qt judge ended with {child.returncode}: {messages.decode(errors='replace')}")
    return msgspec.json.decode(output, type=QtReport)


class _Playback:
    """One run of a scenario on Qt's event loop."""

    def __init__(self, scenario: QtScenario, player: QMediaPlayer, finish: Callable[[], None]) -> None:
        self._scenario = scenario
        self._player = player
        self._finish = finish
        self._left = list(scenario.steps)
        self._step: QtStep | None = None
        self._frames: list[FrameSeen] = []
        self._widths: list[int] = []
        self._sound: SoundLine | None = None
        self._errors: list[str] = []
        self.timed_out = False
        self.quiet_ticks = 0

    def start(self) -> None:
        self._player.setSource(self._scenario.url)
        self._player.play()
        self._next_step()

    def see(self, frame: QVideoFrame) -> None:
        gray = _luma(frame)
        if gray is None:
            return
        self.quiet_ticks = 0
        self._frames.append(FrameSeen(number=read_frame_number(gray), time_s=frame.startTime() / 1e6))
        self._widths.append(gray.shape[1])
        if isinstance(self._step, PlayOn) and frame.startTime() / 1e6 >= self._step.until_s:
            self._next_step()

    def hear(self, buffer: QAudioBuffer) -> None:
        if self._sound is None:
            self._sound = SoundLine(rate=buffer.format().sampleRate())
        samples = np.frombuffer(bytes(buffer.constData()), dtype=np.float32)
        self._sound.put(buffer.startTime() / 1e6, samples[:: buffer.format().channelCount()])

    def fail(self, message: str) -> None:
        self._errors.append(message)
        self._finish()

    def end_of_media(self) -> None:
        if isinstance(self._step, PlayOn):
            self._next_step()

    def tick(self, tick_s: float) -> None:
        self.quiet_ticks += 1
        if isinstance(self._step, Stall) and self.quiet_ticks * tick_s >= self._step.quiet_s:
            self._next_step()

    def report(self) -> QtReport:
        return QtReport(
            frames=tuple(self._frames),
            widths=tuple(self._widths),
            beeps=tuple(self._sound.beeps() if self._sound else ()),
            errors=tuple(self._errors),
            duration_s=self._player.duration() / 1000,
            audio_tracks=len(self._player.audioTracks()),
            timed_out=self.timed_out,
        )

    def _next_step(self) -> None:
        if not self._left:
            self._step = None
            self._finish()
            return
        self._step = self._left.pop(0)
        self.quiet_ticks = 0
        if isinstance(self._step, SeekTo):
            if self._step.tell:
                _fetch(self._step.tell)
            self._player.setPosition(round(self._step.to_s * 1000))
            self._player.play()
            self._next_step()


def _fetch(url: str) -> None:
    from urllib.request import urlopen  # noqa: PLC0415 (only this step needs it)

    with urlopen(url, timeout=5) as answer:  # noqa: S310 (a loopback address that the test made)
        answer.read()


def _luma(frame: QVideoFrame) -> Gray | None:
    """Return the brightness plane of a planar or semiplanar frame; None for an empty frame."""
    from PySide6.QtMultimedia import QVideoFrame as Frame  # noqa: PLC0415 (the parent process does without Qt)

    if not frame.isValid() or not frame.map(Frame.MapMode.ReadOnly):
        return None
    try:
        stride, height, width = frame.bytesPerLine(0), frame.height(), frame.width()
        plane = np.frombuffer(bytes(frame.bits(0)), dtype=np.uint8)[: stride * height]
        return plane.reshape(height, stride)[:, :width].copy()
    finally:
        frame.unmap()


def main() -> None:
    """Play the scenario on standard input and print the report."""
    from app.ui.refcounts import pin_singletons  # noqa: PLC0415

    pin_singletons()
    from PySide6.QtCore import QTimer  # noqa: PLC0415 (the parent process does without Qt)
    from PySide6.QtGui import QGuiApplication  # noqa: PLC0415
    from PySide6.QtMultimedia import (  # noqa: PLC0415
        QAudioBufferOutput,
        QAudioFormat,
        QMediaPlayer,
        QVideoSink,
    )

    scenario = msgspec.json.decode(sys.stdin.buffer.read(), type=QtScenario)
    application = QGuiApplication(sys.argv[:1])
    player, sink = QMediaPlayer(), QVideoSink()
    sound_format = QAudioFormat()
    sound_format.setSampleRate(48_000)
    sound_format.setChannelCount(1)
    sound_format.setSampleFormat(QAudioFormat.SampleFormat.Float)
    ear = QAudioBufferOutput(sound_format)
    player.setVideoSink(sink)
    player.setAudioBufferOutput(ear)
    playback = _Playback(scenario, player, application.quit)
    sink.videoFrameChanged.connect(playback.see)
    ear.audioBufferReceived.connect(playback.hear)
    player.errorOccurred.connect(lambda _, message: playback.fail(message))
    player.mediaStatusChanged.connect(
        lambda status: playback.end_of_media() if status is QMediaPlayer.MediaStatus.EndOfMedia else None
    )
    ticker = QTimer(interval=50)
    ticker.timeout.connect(lambda: playback.tick(0.05))
    ticker.start()

    def give_up() -> None:
        playback.timed_out = True
        application.quit()

    QTimer.singleShot(round(scenario.limit_s * 1000), give_up)
    QTimer.singleShot(0, playback.start)
    application.exec()
    sys.stdout.buffer.write(msgspec.json.encode(playback.report()))
    sys.stdout.flush()
    os._exit(0)  # a player that waits for a server would not let go


if __name__ == "__main__":
    main()
