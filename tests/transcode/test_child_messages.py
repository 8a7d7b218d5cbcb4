"""Frames between engine and child: strict, bounded, whole."""

from __future__ import annotations

import io
import struct

import msgspec
import pytest

from app.core.errors import BugError
from app.media.film import RenditionFacts
from app.transcode.messages import (
    MAX_FRAME_BYTES,
    Done,
    Failed,
    IndexSource,
    InitMade,
    ProbeSource,
    Progressed,
    Report,
    SegmentMade,
    SourceHandle,
    StillMade,
    decode_report,
    encode_frame,
    frame_length,
    read_request,
)

FACTS = RenditionFacts(
    name="720", frames=60, first_ticks=0, end_ticks=180_000, size_bytes=5, peak_rate=9, checked_frames=60
)
REPORTS: list[Report] = [
    Progressed(milli=500, film_ticks=90_000),
    InitMade(name="720", data=b"\0moov"),
    SegmentMade(name="720", number=3, data=bytes(100_000), duration_ticks=540_000),
    StillMade(name="poster", number=0, data=b"\xff\xd8"),
    Done(facts=(FACTS,), warnings=("w",)),
    Failed(code="truncated", message="Ü", permanent=True),
]


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: type(report).__name__)
def test_a_report_survives_the_pipe(report: Report) -> None:
    frame = encode_frame(report)
    assert frame_length(frame[:4]) == len(frame) - 4
    assert decode_report(frame[4:]) == report


def test_a_request_survives_the_pipe() -> None:
    request = IndexSource(source=SourceHandle(fd=7), profile="default", fingerprint="f")
    assert read_request(io.BytesIO(encode_frame(request))) == request


def test_a_parent_that_went_away_asks_for_nothing() -> None:
    assert read_request(io.BytesIO(b"")) is None
    assert read_request(io.BytesIO(b"\0\0")) is None


def test_an_absurd_length_is_refused_before_anything_is_read() -> None:
    with pytest.raises(BugError):
        frame_length(struct.pack(">I", MAX_FRAME_BYTES + 1))
    assert frame_length(struct.pack(">I", MAX_FRAME_BYTES)) == MAX_FRAME_BYTES


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc1",
        encode_frame(ProbeSource(source=SourceHandle()))[4:],
        msgspec.msgpack.encode({"type": "Progressed", "milli": "many"}),
        msgspec.msgpack.encode({"type": "SegmentMade", "name": "720"}),
    ],
    ids=["empty", "not msgpack", "a request", "wrong type", "missing fields"],
)
def test_what_is_no_report_is_refused(payload: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        decode_report(payload)
