"""Cutting a stream into frames."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import ErrorCode
from app.sync.channel import MAX_MESSAGE_BYTES, MAX_REASON_BYTES, ChannelClosedError
from app.sync.frames import HEADER_BYTES, Frame, FrameDecoder, FrameKind, encode_header

BODIES = {FrameKind.MESSAGE: 3000, FrameKind.PING: 0, FrameKind.CLOSE: MAX_REASON_BYTES, FrameKind.WELCOME: 64}
FRAMES = st.sampled_from(FrameKind).flatmap(
    lambda kind: st.binary(max_size=BODIES[kind]).map(lambda body: Frame(kind, body))
)


def decode(decoder: FrameDecoder, data: bytes) -> list[Frame]:
    frames = []
    while data:
        room = decoder.room()
        count = min(len(room), len(data))
        room[:count] = data[:count]
        data = data[count:]
        frame = decoder.wrote(count)
        if frame is not None:
            frames.append(frame)
    return frames


@given(frames=st.lists(FRAMES, max_size=8), cut=st.integers(1, 2000))
def test_frames_come_out_as_they_went_in_however_the_stream_is_cut(frames: list[Frame], cut: int) -> None:
    stream = b"".join(encode_header(one.kind, len(one.body)) + one.body for one in frames)
    decoder = FrameDecoder()
    found = [one for start in range(0, len(stream), cut) for one in decode(decoder, stream[start : start + cut])]
    assert found == frames


@given(data=st.binary(max_size=300))
def test_hostile_bytes_end_in_one_known_way(data: bytes) -> None:
    assert outcome_of(data) in (ErrorCode.BAD_MESSAGE, *range(len(data) + 1))


def outcome_of(data: bytes) -> ErrorCode | int:
    """Return how many bytes were in whole frames, or how the stream ended."""
    try:
        return sum(HEADER_BYTES + len(frame.body) for frame in decode(FrameDecoder(), data))
    except ChannelClosedError as error:
        return error.code


@pytest.mark.parametrize(
    ("kind", "length"),
    [(0, MAX_MESSAGE_BYTES + 1), (0, 0xFFFFFF), (1, 1), (2, MAX_REASON_BYTES + 1), (3, 65), (4, 0), (255, 0)],
)
def test_what_no_frame_may_be_is_refused_by_its_header_before_memory_is_taken(kind: int, length: int) -> None:
    decoder = FrameDecoder()
    with pytest.raises(ChannelClosedError, match="makes no sense"):
        decode(decoder, bytes([kind]) + length.to_bytes(3, "big"))
    assert len(decoder.room()) <= HEADER_BYTES
