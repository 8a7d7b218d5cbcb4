"""The rows of the queue as values, and their encoding.

A row is written as canonical JSON. A newer version of this program may add fields at any level; they are kept as they
are in ``extra`` and written back, so that an old device in between loses nothing. Integers stay below 2^53.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Generic, TypeVar, cast, get_args, get_origin

import msgspec
from msgspec import Meta

from app.core.encoding import decode_canonical, encode_canonical
from app.core.errors import ErrorCode, ExpectedError
from app.core.ids import media_id_of

ROW_SCHEMA = 1
MAX_NUMBER = 2**53 - 1
MAX_MESSAGE_LENGTH = 2000

T = TypeVar("T")
Count = Annotated[int, Meta(ge=0, le=MAX_NUMBER)]
Milli = Annotated[int, Meta(ge=0, le=1000)]
Priority = Annotated[int, Meta(ge=-1000, le=1000)]

_EXTRA = "?"
_NO_EXTRA = b'{"?":[],'
_SOME_EXTRA = b'{"?":[['
_MAYBE_EXTRA = (b'"?"', b"\\u003f", b"\\u003F")


class Kept(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"extra": _EXTRA}):
    """A value that keeps the fields it does not know: (name, canonical JSON), sorted by name."""

    extra: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.extra:
            known = self.__struct_encode_fields__
            kept = {name: text for name, text in sorted(self.extra) if name not in known}
            msgspec.structs.force_setattr(self, "extra", tuple(kept.items()))


class Register(Kept, Generic[T], frozen=True, kw_only=True):
    """A value that the owner can change anywhere; the higher stamp counts, then the device."""

    value: T
    stamp: Count = 0
    """Milliseconds since 1970, pushed up so that it exceeds all stamps of the row that its writer had seen."""
    device: str = ""


class JobParams(Kept, frozen=True, kw_only=True):
    """How the job is to be done."""

    profile: str
    options: str = "{}"
    """Canonical JSON of what kinds other than ``hls`` need; empty in a tombstone, and that wins."""


class Source(Kept, frozen=True, kw_only=True):
    """The user's file."""

    fingerprint: str
    size_bytes: Count
    name: str
    """For showing only."""


class Added(Kept, frozen=True, kw_only=True):
    """When and where a job was added."""

    at_ms: Count
    device: str
    number: Count
    """Counts the jobs added on that device; orders those of one millisecond."""


class JobRow(Kept, frozen=True, kw_only=True):
    """What the user asked for, and the intent since."""

    schema: Count = ROW_SCHEMA
    id: str
    kind: str
    params: JobParams
    source: Register[Source | None]
    """None when the job was removed: nothing of the user's file stays in a tombstone."""
    added: Added
    round: Count = 1
    """Grows with each Retry."""
    cancelled_round: Count = 0
    """The job is cancelled while this is at least ``round``; only grows."""
    paused: Register[bool] = Register(value=False)
    priority: Register[Priority] = Register(value=0)
    trashed: Register[bool] = Register(value=False)
    removed: bool = False
    """A tombstone, kept for ever."""

    @property
    def fingerprint(self) -> str:
        """What names the source's content; empty in a tombstone."""
        return self.source.value.fingerprint if self.source.value else ""

    @property
    def name(self) -> str:
        """The source's file name, for showing."""
        return self.source.value.name if self.source.value else ""

    @property
    def size_bytes(self) -> int:
        """The source's size."""
        return self.source.value.size_bytes if self.source.value else 0

    @property
    def profile(self) -> str:
        """The profile asked for."""
        return self.params.profile

    @property
    def media_id(self) -> str:
        """The id of the film that this job makes."""
        return media_id_of(self.id)


class LeaseFlag(StrEnum):
    """What a beat says about the work."""

    RUNNING = "running"
    FROZEN = "frozen"
    PAUSED = "paused"


class Lease(Kept, frozen=True, kw_only=True):
    """The right of one process to do a task."""

    epoch: Count
    device: str
    boot: Count
    token: str
    round: Count
    beat: Count = 0
    flag: LeaseFlag = LeaseFlag.RUNNING
    progress: Milli = 0
    """In thousandths."""


class EndRank(StrEnum):
    """How a lease ended; the later of these wins over the earlier."""

    DIED = "died"
    FREED = "freed"
    TRANSIENT = "transient"
    PERMANENT = "permanent"

    @property
    def height(self) -> int:
        """Position in the order of ranks."""
        return list(EndRank).index(self)


class End(Kept, frozen=True, kw_only=True):
    """How the lease (epoch, token) ended without a result."""

    epoch: Count
    token: str
    round: Count
    rank: EndRank
    code: str
    message: str
    device: str
    """Who held the lease."""
    fenced: bool = False
    """Whether the holder was alive and found that it had been given up."""


class Outcome(Kept, frozen=True, kw_only=True):
    """The result of a task."""

    epoch: Count
    token: str
    round: Count
    value: str
    """Canonical JSON of the result."""


class TaskRow(Kept, frozen=True, kw_only=True):
    """One piece of a job, that one device does."""

    schema: Count = ROW_SCHEMA
    id: str
    job_id: str
    kind: str
    target: str
    fingerprint: str
    lease: Lease | None = None
    ends: tuple[End, ...] = ()
    """At most one per (epoch, token), sorted by it."""
    outcome: Outcome | None = None
    void: Count = 0
    """Outcomes of epochs up to this one are lost and do not count."""

    def __post_init__(self) -> None:
        super().__post_init__()
        keys = [(end.epoch, end.token) for end in self.ends]
        if any(first >= second for first, second in pairwise(keys)):
            msgspec.structs.force_setattr(self, "ends", join_ends(self.ends))


R = TypeVar("R", JobRow, TaskRow)


def join_ends(ends: tuple[End, ...]) -> tuple[End, ...]:
    """Return the highest end of each lease, sorted by (epoch, token)."""
    best: dict[tuple[int, str], End] = {}
    for end in ends:
        key = (end.epoch, end.token)
        known = best.get(key)
        best[key] = end if known is None else max(known, end, key=lambda one: (one.rank.height, encode_value(one)))
    return tuple(best[key] for key in sorted(best))


def clean_text(text: str) -> str:
    """Return ``text`` as it can be stored: without lone surrogates, of bounded length."""
    return text[:MAX_MESSAGE_LENGTH].encode("utf-8", "replace").decode()


def encode_value(value: Kept) -> bytes:
    """Return the canonical bytes of a row or a part of one, unknown fields in their old places.

    A value without unknown fields is encoded as it is, and the empty ``extra`` cut out of each object: it sorts before
    all names, and no string can hold these bytes, since the quotes in it are escaped.
    """
    encoded = encode_canonical(value)
    if _SOME_EXTRA in encoded:
        return encode_canonical(_spread(msgspec.to_builtins(value)))
    return encoded.replace(_NO_EXTRA, b"{")


def _spread(data: Any) -> Any:
    if isinstance(data, dict):
        extra = data.pop(_EXTRA, ())
        spread = {name: _spread(value) for name, value in data.items()}
        return spread | {name: msgspec.Raw(text.encode()) for name, text in extra}
    return [_spread(one) for one in data] if isinstance(data, (list, tuple)) else data


def decode_row(document: bytes | str, kind: type[R]) -> R:
    """Return the row in ``document``; raises ``ExpectedError`` bad-message when it is none."""
    data = document.encode() if isinstance(document, str) else document
    plain, escaped, escaped_otherwise = _MAYBE_EXTRA
    if not (plain in data or escaped in data or escaped_otherwise in data):
        try:
            return msgspec.json.decode(data, type=kind)
        except msgspec.DecodeError:
            pass  # unknown fields, or not a row at all: looked at more slowly
    try:
        return msgspec.convert(_gather(decode_canonical(data, cast("type[Any]", Any)), kind), kind)
    except msgspec.ValidationError as error:
        raise ExpectedError(ErrorCode.BAD_MESSAGE, f"{kind.__name__} cannot be read: {error}") from error


def _gather(data: Any, kind: Any) -> Any:
    if isinstance(data, list):
        return [_gather(one, kind) for one in data]
    if not isinstance(data, dict):
        return data
    names, nested = _shape(kind)
    gathered = {name: _gather(data[name], nested[name]) if name in nested else data[name] for name in names & set(data)}
    extra = sorted((name, encode_canonical(value).decode()) for name, value in data.items() if name not in names)
    return gathered | {_EXTRA: extra}


@cache
def _shape(kind: Any) -> tuple[frozenset[str], dict[str, Any]]:
    fields = [field for field in msgspec.structs.fields(kind) if field.encode_name != _EXTRA]
    nested = {field.encode_name: _struct_in(field.type) for field in fields}
    return frozenset(nested), {name: inner for name, inner in nested.items() if inner is not None}


def _struct_in(annotation: Any) -> Any:
    plain = get_origin(annotation) or annotation
    if isinstance(plain, type) and issubclass(plain, Kept):
        return annotation
    return next((inner for inner in map(_struct_in, get_args(annotation)) if inner is not None), None)
