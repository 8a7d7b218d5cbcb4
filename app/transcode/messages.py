"""What the engine and a media child say to each other over the child's pipes.

A frame is four bytes of length (big endian), then one MessagePack map. The parent sends one request and nothing else;
the child answers with any number of reports and ends with ``Done`` or ``Failed``. Both sides decode strictly.
"""

from __future__ import annotations

import struct
from typing import BinaryIO

import msgspec

from app.core.errors import BugError
from app.media.chapters import Chapter
from app.media.film import RenditionFacts, StillsInfo
from app.media.plan import Plan
from app.media.sidecar import Sidecar
from app.media.source import SourceInfo

MAX_FRAME_BYTES = 256 << 20
_LENGTH = struct.Struct(">I")


class RemoteSource(msgspec.Struct, frozen=True, kw_only=True):
    """Where a source that another device holds is read: see ``app.transcode.remote_source``."""

    port: int
    token: bytes
    size_bytes: int

    def __repr__(self) -> str:
        return f"RemoteSource({self.size_bytes} bytes)"


class SourceHandle(msgspec.Struct, frozen=True, kw_only=True):
    """How the child reaches the source: an inherited descriptor, (where there are none) a path, or from afar."""

    fd: int | None = None
    path: bytes | None = None
    remote: RemoteSource | None = None


class ProbeSource(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Say what the file is, from its headers."""

    source: SourceHandle


class IndexSource(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Read all packets and make the plan."""

    source: SourceHandle
    profile: str
    fingerprint: str
    sidecars: tuple[Sidecar, ...] = ()
    """Readable text files beside the source."""


class ReadSidecar(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Say whether a file beside the source is text with times, and take it apart."""

    data: bytes
    kind: str
    """The end of its name: srt, ass, ssa, vtt."""
    language: str = ""
    charset: str = "auto"


class MakeText(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Make the WebVTT file of a text track from what ``index`` kept of it; no source is needed."""

    track: str
    raw: bytes
    duration_ticks: int


class MakeVideo(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Make one chunk of a set of renditions."""

    source: SourceHandle
    plan: Plan
    set: str
    chunk: int
    threads: int = 0
    """Cores to use; 0 is all of them."""
    only: str = ""
    """One rendition of the set, for a viewer who waits; empty makes all."""
    segments: tuple[int, int] | None = None
    """First segment and one past the last, inside the chunk, for a viewer who waits; None makes the whole chunk."""


class MakeAudio(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Make a sound track, from ``first_segment`` to its end (or to ``end_segment``)."""

    source: SourceHandle
    plan: Plan
    track: str
    first_segment: int = 0
    end_segment: int | None = None


class MakeStills(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Make the poster and the trickplay sheets."""

    source: SourceHandle
    plan: Plan


class JoinedText(msgspec.Struct, frozen=True, kw_only=True):
    """A text track of an exported film."""

    label: str
    language: str
    data: bytes
    """Its WebVTT file."""
    is_forced: bool = False


class JoinFilm(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Remux fragmented MP4 streams that arrive on descriptors, and text, into one plain MP4 file."""

    inputs: tuple[int, ...]
    labels: tuple[str, ...]
    languages: tuple[str, ...]
    output_fd: int
    duration_ticks: int
    text: tuple[JoinedText, ...] = ()
    chapters: tuple[Chapter, ...] = ()


class PlayThrough(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Decode streams that arrive on descriptors to their ends and say what was in them."""

    inputs: tuple[int, ...]


class MakeSample(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Write a short film with picture and sound."""

    output_fd: int
    seconds: int


class StreamFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What came out of a stream that was played through."""

    frames: int
    first_s: float
    end_s: float
    errors: int
    detail: str
    """Size of the picture, or the sound's rate and channels."""


class TryEncoders(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Encode one real frame with every H.264 encoder that is built in."""


SourceRequest = ProbeSource | IndexSource | MakeVideo | MakeAudio | MakeStills
Request = SourceRequest | ReadSidecar | MakeText | JoinFilm | PlayThrough | MakeSample | TryEncoders


class Progressed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """How far the task is: 0 to 1000, and film seconds made so far."""

    milli: int
    film_ticks: int = 0


class InitMade(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The init section of a rendition or track."""

    name: str
    data: bytes


class SegmentMade(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One finished media segment."""

    name: str
    number: int
    data: bytes
    duration_ticks: int


class StillMade(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A JPEG: the poster or one sheet."""

    name: str
    number: int
    data: bytes


class TextFound(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What ``index`` keeps of a text track inside the source, for its ``text`` task."""

    track: str
    data: bytes


class SidecarText(msgspec.Struct, frozen=True, kw_only=True):
    """What was found in a file beside the source."""

    codec: str
    charset: str
    raw: bytes
    """The whole track, for its ``text`` task."""


class Done(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The request is carried out; what belongs to it is filled in."""

    info: SourceInfo | None = None
    plan: Plan | None = None
    facts: tuple[RenditionFacts, ...] = ()
    warnings: tuple[str, ...] = ()
    stills: StillsInfo | None = None
    encoders: dict[str, str] = {}
    streams: tuple[StreamFacts, ...] = ()
    size_bytes: int = 0
    sidecar: SidecarText | None = None


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """It could not be done; *permanent* when another attempt cannot help."""

    code: str
    message: str
    permanent: bool


Report = Progressed | InitMade | SegmentMade | StillMade | TextFound | Done | Failed
Piece = InitMade | SegmentMade | StillMade | TextFound

_encoder = msgspec.msgpack.Encoder()
_request_decoder = msgspec.msgpack.Decoder(Request)
_report_decoder = msgspec.msgpack.Decoder(Report)


def encode_frame(message: Request | Report) -> bytearray:
    """Return one message with its length in front."""
    frame = bytearray(_LENGTH.size)
    _encoder.encode_into(message, frame, _LENGTH.size)
    _LENGTH.pack_into(frame, 0, len(frame) - _LENGTH.size)
    return frame


def frame_length(header: bytes | bytearray) -> int:
    """Return the payload length that four header bytes announce; ``BugError`` when it is absurd."""
    length: int = _LENGTH.unpack(header)[0]
    if length > MAX_FRAME_BYTES:
        raise BugError(f"a media child announced a message of {length} bytes")
    return length


def decode_report(payload: bytes | bytearray) -> Report:
    """Return the report in ``payload``."""
    return _report_decoder.decode(payload)


def read_request(stream: BinaryIO) -> Request | None:
    """Return the one request on the child's standard input, None when the parent went away."""
    header = stream.read(_LENGTH.size)
    if len(header) < _LENGTH.size:
        return None
    payload = stream.read(frame_length(header))
    return _request_decoder.decode(payload)
