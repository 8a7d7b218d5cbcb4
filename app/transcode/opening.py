"""The child's door to a source: allow-listed demuxers, no protocol but the descriptor it was given.

A user's file is hostile until shown otherwise: it is opened by descriptor (so no name is ever parsed), only with
demuxers that cannot reach other files, and every FFmpeg error leaves here as one of ours.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import av
import av.container
from av.error import DecoderNotFoundError, FFmpegError
from av.stream import Discard

from app.core.errors import ErrorCode, ExpectedError
from app.transcode.messages import SourceHandle
from app.transcode.remote_source import RemoteFile
from app.transcode.sniff import BoxFacts, ByteFile, Readable, refuse_what_is_no_film

DEMUXERS = (
    "mov,matroska,webm,avi,mpegts,mpeg,mpegvideo,flv,asf,ogg,rm,gif,apng,h264,hevc,m4v,mxf,nut,wtv,dv,ivf,obu,"
    "yuv4mpegpipe,vc1,wav,w64,mp3,flac,aac,ac3,eac3,aiff,caf,amr"
)
"""Self-contained formats only: never a playlist, a script, a sequence of pictures or a network stream."""

_BUFFER_BYTES = 256 << 10
"""Of one read from afar."""

_OPTIONS = {"format_whitelist": DEMUXERS, "max_streams": "256"}


class OpenSource:
    """An open source: the container and what its bytes said."""

    def __init__(self, container: av.container.InputContainer, boxes: BoxFacts | None, size_bytes: int) -> None:
        self.container = container
        self.boxes = boxes
        self.size_bytes = size_bytes

    def packets_of(self, stream: Any) -> Iterator[Any]:
        """Yield the packets of one stream; in MP4, whose tables say where they lie, the others are not even read."""
        if self.container.format.name.startswith("mov"):
            for other in self.container.streams:
                if other.index != stream.index:
                    other.discard = Discard.all
        packets: Iterator[Any] = self.container.demux(stream)
        return packets


@contextlib.contextmanager
def open_source(handle: SourceHandle) -> Iterator[OpenSource]:
    """Open the source that the parent passed; raises ``ExpectedError`` for what is no film."""
    if handle.remote is not None:
        with RemoteFile(handle.remote) as remote:
            yield from _opened(_RemoteBytes(remote), lambda: _open_file(remote))
        return
    with _descriptor(handle) as fd:
        yield from _opened(ByteFile(fd), lambda: _open(fd))


def _opened(file: Readable, open_container: Callable[[], av.container.InputContainer]) -> Iterator[OpenSource]:
    boxes = refuse_what_is_no_film(file)
    try:
        container = open_container()
    except FFmpegError as error:
        raise _opening_error(error) from error
    with container:
        yield OpenSource(container, boxes, file.size)


class _RemoteBytes:
    """A remote file for a first look at its bytes."""

    def __init__(self, file: RemoteFile) -> None:
        self._file = file
        self.size = file.size

    def read(self, offset: int, length: int) -> bytes:
        return self._file.read_at(offset, length)


@contextlib.contextmanager
def _descriptor(handle: SourceHandle) -> Iterator[int]:
    if handle.fd is not None:
        yield handle.fd
        return
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0)
    fd = os.open(os.fsdecode(handle.path or b""), flags)
    try:
        yield fd
    finally:
        os.close(fd)


def _open(fd: int) -> av.container.InputContainer:
    os.lseek(fd, 0, os.SEEK_SET)
    if os.name == "posix":
        return av.open("fd:", "r", options={**_OPTIONS, "fd": str(fd), "protocol_whitelist": "fd"})
    # Windows: FFmpeg's fd protocol needs the C runtime's table, which another runtime's descriptor is not in.
    return _open_file(os.fdopen(os.dup(fd), "rb"))


def _open_file(file: Any) -> av.container.InputContainer:
    options = {**_OPTIONS, "protocol_whitelist": "none"}
    container: av.container.InputContainer = av.open(file, "r", options=options, buffer_size=_BUFFER_BYTES)
    return container


def _opening_error(error: FFmpegError) -> ExpectedError:
    if isinstance(error, DecoderNotFoundError):
        return ExpectedError(ErrorCode.NO_DECODER, "No decoder for this film is at hand.")
    return ExpectedError(
        ErrorCode.NOT_A_VIDEO,
        f"This is not a video that can be read ({error.strerror}). If it plays elsewhere, convert it to MKV or MP4.",
    )


def to_ticks(value: int, time_base: Any) -> int:
    """Return ``value`` units of ``time_base`` (seconds per unit, a fraction) in ticks of 1/90000 s, rounded."""
    denominator: int = time_base.denominator
    rounded: int = (value * time_base.numerator * 180_000 + denominator) // (2 * denominator)
    return rounded


def from_ticks(ticks: int, time_base: Any) -> int:
    """Return ``ticks`` in units of ``time_base``, rounded down."""
    return int(ticks * time_base.denominator // (90_000 * time_base.numerator))
