"""The child's door to a source: allow-listed demuxers, no protocol but the descriptor it was given.

A user's file is hostile until shown otherwise: it is opened by descriptor (so no name is ever parsed), only with
demuxers that cannot reach other files, and every FFmpeg error leaves here as one of ours.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
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
WRAPPING_FORMATS = {"mpegts", "mpeg"}
"""Transport and program streams: their clock has 33 bits, and begins anew after 26.5 hours."""
_CLOCK_ROUND = 1 << 33
_LONGEST_DELAY = 10 * 90_000

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
        return read_packets(self.container, [stream])


def read_packets(container: av.container.InputContainer, wanted: Sequence[Any]) -> Iterator[Any]:
    """Yield the packets of the ``wanted`` streams; at the end an empty one each, so that decoders give all they hold.

    Broadcasts and Flash may bring further streams on the way; PyAV stumbles over those at the end, when everything
    that was wanted has been given.
    """
    wraps = container.format.name in WRAPPING_FORMATS
    try:
        for packet in container.demux(list(wanted)):
            if wraps and packet.pts is not None and packet.dts is not None:
                packet.pts = packet.dts + settled_delay(packet.pts - packet.dts)
            yield packet
    except IndexError:
        return


def settled_delay(delay: int) -> int:
    """Return by how much a picture is shown after it was decoded, when a clock of 33 bits says ``delay``.

    Showing and decoding are never far apart: the clock went round between the two, or one of them is wrong.
    """
    half = _CLOCK_ROUND // 2
    delay = (delay + half) % _CLOCK_ROUND - half
    return delay if abs(delay) <= _LONGEST_DELAY else 0


@contextlib.contextmanager
def open_source(handle: SourceHandle) -> Iterator[OpenSource]:
    """Open the source that the parent passed; raises ``ExpectedError`` for what is no film."""
    if handle.remote is not None:
        with RemoteFile(handle.remote) as remote:
            yield from _opened(remote, lambda: _open_file(remote))
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
        options = {**_OPTIONS, "fd": str(fd), "protocol_whitelist": "fd"}
        return av.open("fd:", "r", options=options, metadata_errors="replace")
    # Windows: FFmpeg's fd protocol needs the C runtime's table, which another runtime's descriptor is not in.
    return _open_file(os.fdopen(os.dup(fd), "rb"))


def _open_file(file: Any) -> av.container.InputContainer:
    options = {**_OPTIONS, "protocol_whitelist": "none"}
    container: av.container.InputContainer = av.open(
        file, "r", options=options, buffer_size=_BUFFER_BYTES, metadata_errors="replace"
    )
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
