"""The parent's end of a child's reports: read by a thread of its own, so that the event loop copies no media."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO

from app.transcode.messages import Report, decode_report, frame_length

_HEADER_BYTES = 4


class ReportPipe:
    """A pipe from one child; ``child_end`` is what the child writes to. Made for one child, ended by ``close``."""

    def __init__(self) -> None:
        reading, writing = os.pipe()
        self.child_end = writing
        self._holds_child_end = True
        self._file = os.fdopen(reading, "rb", buffering=0)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="reports")

    def started(self) -> None:
        """Let go of the child's end once the child has it; only then the reports can end."""
        if self._holds_child_end:
            self._holds_child_end = False
            os.close(self.child_end)

    async def next_report(self) -> Report | None:
        """Wait for the next report; None when the child has closed its end.

        Raises ``BugError`` or ``msgspec.MsgspecError`` when it is unreadable.
        """
        return await asyncio.get_running_loop().run_in_executor(self._thread, _read_report, self._file)

    async def close(self) -> None:
        """Stop reading; the child must have ended, because a read that waits ends only with it.

        It is closed all the same when the caller is cancelled meanwhile.
        """
        self.started()
        closing = asyncio.get_running_loop().run_in_executor(self._thread, self._file.close)
        self._thread.shutdown(wait=False)
        await asyncio.shield(closing)


def _read_report(file: BinaryIO) -> Report | None:
    header = _read_exactly(file, _HEADER_BYTES)
    payload = None if header is None else _read_exactly(file, frame_length(header))
    return None if payload is None else decode_report(payload)


def _read_exactly(file: BinaryIO, size: int) -> bytearray | None:
    """Return the next ``size`` bytes, None when the pipe ends before."""
    data = bytearray(size)
    rest = memoryview(data)
    while rest:
        count = file.readinto(rest)  # type: ignore[attr-defined]  # an unbuffered file is a FileIO
        if not count:
            return None
        rest = rest[count:]
    return data
