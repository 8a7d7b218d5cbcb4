"""Adding: paths in, one ``AddPath`` each, a few at a time; what was refused is told together at the end (U4)."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from urllib.parse import unquote_to_bytes

import msgspec
from PySide6.QtCore import QObject, QUrl, Signal

from app.core.errors import ErrorCode, ErrorInfo, ExpectedError
from app.engine.api import AddPath, AddResult
from app.ui.background import Background
from app.ui.bridge import EngineBridge, error_info_of
from app.ui.presenters import AddTally

ExpandPaths = Callable[[Sequence[bytes]], Iterable[bytes]]
"""Turns files and folders into files; called on a thread of its own, may yield slowly."""

_AT_ONCE = 4


def keep_paths(paths: Sequence[bytes]) -> Iterable[bytes]:
    """Return ``paths`` as they are: the expansion that knows no folders."""
    return paths


def path_of_url(url: QUrl) -> bytes | None:
    """Return the path of a local file, byte for byte also where its name is not UTF-8; None for other addresses."""
    if not url.isLocalFile():
        return None
    if os.name == "nt":
        return os.fsencode(url.toLocalFile())
    return unquote_to_bytes(url.path(QUrl.ComponentFormattingOption.FullyEncoded).encode())


class Intake(QObject):
    """Adds paths; what comes while it is busy joins the same tally."""

    told = Signal(object)
    """``AddTally``, after each change."""

    def __init__(
        self,
        bridge: EngineBridge,
        background: Background,
        expand_paths: ExpandPaths = keep_paths,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._bridge = bridge
        self._background = background
        self._expand_paths = expand_paths
        self._tally = AddTally(is_over=True)
        self._waiting: deque[bytes] = deque()
        self._running = 0
        self._walks = 0

    @property
    def unsent(self) -> int:
        """How many known paths the engine has not been asked about yet; folders being walked count as one."""
        return len(self._waiting) + self._walks

    def add(self, paths: Sequence[bytes], refused: Sequence[tuple[str, str]] = ()) -> None:
        """Add files and folders; ``refused`` are names of what came along but is no path here, with the reason."""
        if not paths and not refused:
            return
        if self._tally.is_over:
            self._tally = AddTally()
        for name, message in refused:
            info = ErrorInfo(code=str(ErrorCode.NOT_FOUND), message=message)
            self._tally = self._tally.with_refusal(name, info)
        self._tally = msgspec.structs.replace(self._tally, sent=self._tally.sent + len(refused))
        if paths:
            self._walks += 1
            self._background.stream(lambda: self._expand_paths(paths), self._found, self._walked)
        self._tell()

    def stop(self) -> None:
        """Forget what has not been asked for yet."""
        self._waiting.clear()

    def _found(self, paths: list[bytes]) -> None:
        self._waiting.extend(paths)
        self._tally = msgspec.structs.replace(self._tally, sent=self._tally.sent + len(paths))
        self._send_next()
        self._tell()

    def _walked(self, problem: Exception | None) -> None:
        self._walks -= 1
        if problem is not None:
            self._tally = self._tally.with_refusal(*_walk_problem(problem))
        self._tell()

    def _send_next(self) -> None:
        while self._waiting and self._running < _AT_ONCE:
            self._running += 1
            self._send(self._waiting.popleft())

    def _send(self, path: bytes) -> None:
        self._bridge.send(
            AddPath(path=path),
            on_reply=self._answered,
            on_error=lambda info: self._failed(path, info),
        )

    def _answered(self, result: AddResult) -> None:
        self._tally = self._tally.with_result(result)
        self._settled()

    def _failed(self, path: bytes, info: ErrorInfo) -> None:
        self._tally = self._tally.with_refusal(path.decode("utf-8", "replace"), info)
        self._settled()

    def _settled(self) -> None:
        self._running -= 1
        self._send_next()
        self._tell()

    def _tell(self) -> None:
        is_over = not (self._waiting or self._running or self._walks)
        self._tally = msgspec.structs.replace(self._tally, is_over=is_over)
        self.told.emit(self._tally)


def _walk_problem(problem: Exception) -> tuple[str, ErrorInfo]:
    if isinstance(problem, OSError) and not isinstance(problem, ExpectedError):
        name = problem.filename
        shown = name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name or "")
        message = f"It cannot be read ({problem.strerror or problem}). Allow reading it and add it again."
        return shown, ErrorInfo(code=str(ErrorCode.UNREADABLE), message=message)
    return "", error_info_of(problem)
