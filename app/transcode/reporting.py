"""How a child's work tells the parent what it made: the seam between media code and the pipe."""

from __future__ import annotations

import threading
import time
from typing import BinaryIO, Protocol

from app.transcode.messages import InitMade, Piece, Progressed, Report, SegmentMade, encode_frame

_PROGRESS_INTERVAL_S = 0.25


class Reporter(Protocol):
    """Takes what a task makes."""

    def progress(self, milli: int, film_ticks: int = 0) -> None:
        """Say how far the task is, 0 to 1000; may be dropped."""
        ...

    def made(self, report: Piece) -> None:
        """Hand over a finished piece; blocks while the parent is behind."""
        ...


class PipeReporter:
    """Writes reports to the parent's pipe; progress at most four times a second."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._last_progress_s = 0.0
        self._lock = threading.Lock()

    def progress(self, milli: int, film_ticks: int = 0) -> None:
        now_s = time.monotonic()
        if now_s - self._last_progress_s >= _PROGRESS_INTERVAL_S:
            self._last_progress_s = now_s
            self.send(Progressed(milli=milli, film_ticks=film_ticks))

    def made(self, report: Piece) -> None:
        self.send(report)

    def send(self, report: Report) -> None:
        """Write one report at once."""
        frame = encode_frame(report)
        with self._lock:
            self._stream.write(frame)
            self._stream.flush()


class MemoryReporter:
    """Keeps reports; for tests and for checking results inside the child."""

    def __init__(self) -> None:
        self.reports: list[Piece] = []
        self.milli: list[int] = []

    def progress(self, milli: int, film_ticks: int = 0) -> None:  # noqa: ARG002 (the seam's shape)
        self.milli.append(milli)

    def made(self, report: Piece) -> None:
        self.reports.append(report)

    def bytes_of(self, name: str) -> bytes:
        """Return init section and segments of ``name`` in order, as one stream."""
        inits = [one.data for one in self.reports if isinstance(one, InitMade) and one.name == name]
        segments = sorted(
            (one for one in self.reports if isinstance(one, SegmentMade) and one.name == name),
            key=lambda one: one.number,
        )
        return b"".join(inits[:1]) + b"".join(one.data for one in segments)
