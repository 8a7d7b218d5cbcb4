"""H.264 network abstraction layer units: splitting, re-framing and the few facts we read from them.

Source: ITU-T H.264, Annex B (start codes) and ISO/IEC 14496-15 (``avcC``, length-prefixed units).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from app.core.errors import ErrorCode, ExpectedError

SLICE, IDR_SLICE, SPS, PPS, ACCESS_UNIT_DELIMITER, END_OF_SEQUENCE, END_OF_STREAM = 1, 5, 7, 8, 9, 10, 11

_START_CODE = b"\x00\x00\x01"


def unit_type(unit: bytes) -> int:
    """Return the type of one H.264 unit, 0 when it is empty."""
    return unit[0] & 0x1F if unit else 0


def split_annex_b(data: bytes) -> Iterator[bytes]:
    """Yield the units of a byte stream with start codes."""
    start = data.find(_START_CODE)
    while start >= 0:
        begin = start + 3
        start = data.find(_START_CODE, begin)
        unit = data[begin:] if start < 0 else data[begin:start]
        unit = unit.rstrip(b"\x00")
        if unit:
            yield unit


def split_length_prefixed(data: bytes, length_size: int) -> Iterator[bytes]:
    """Yield the units of a sample with ``length_size``-byte lengths; a cut sample ends the walk."""
    position = 0
    while position + length_size <= len(data):
        size = int.from_bytes(data[position : position + length_size], "big")
        position += length_size
        if size:
            yield data[position : position + size]
        position += size


def is_well_framed(data: bytes, length_size: int) -> bool:
    """Whether the lengths of a sample add up and each unit begins as a unit must; damaged samples rarely pass."""
    position = 0
    while position + length_size < len(data):
        size = int.from_bytes(data[position : position + length_size], "big")
        position += length_size
        if size and (position >= len(data) or data[position] & 0x80):
            return False
        position += size
    return position == len(data)


def join_length_prefixed(units: Sequence[bytes]) -> bytes:
    """Return one sample with 4-byte lengths."""
    return b"".join(len(unit).to_bytes(4, "big") + unit for unit in units)


class ParameterSets:
    """SPS and PPS of a stream and how its samples are framed, from its codec private data."""

    def __init__(self, extradata: bytes | None) -> None:
        self.length_size = 0
        """Bytes of each length prefix; 0 when samples have start codes."""
        self.units: tuple[bytes, ...] = ()
        if extradata and extradata[0] == 1:
            self._read_avcc(extradata)
        elif extradata:
            self.units = tuple(u for u in split_annex_b(extradata) if unit_type(u) in {SPS, PPS})

    def _read_avcc(self, data: bytes) -> None:
        if len(data) < 7:
            raise ExpectedError(ErrorCode.TRUNCATED, "The film's H.264 header is cut short.")
        self.length_size = (data[4] & 3) + 1
        units: list[bytes] = []
        position = 5
        for mask in (0x1F, 0xFF):
            if position >= len(data):
                break
            count = data[position] & mask
            position += 1
            for _ in range(count):
                size = int.from_bytes(data[position : position + 2], "big")
                units.append(data[position + 2 : position + 2 + size])
                position += 2 + size
        self.units = tuple(units)

    def split(self, sample: bytes) -> list[bytes]:
        """Return the units of one sample of this stream."""
        if self.length_size:
            return list(split_length_prefixed(sample, self.length_size))
        return list(split_annex_b(sample))

    @property
    def codecs(self) -> str:
        """The RFC 6381 string, from profile, constraints and level of the first SPS; empty without one."""
        sps = next((u for u in self.units if unit_type(u) == SPS), b"")
        return f"avc1.{sps[1]:02x}{sps[2]:02x}{sps[3]:02x}" if len(sps) > 3 else ""


def is_idr(units: Sequence[bytes]) -> bool:
    """Whether a sample is an instantaneous decoder refresh: nothing after it refers to anything before it."""
    return any(unit_type(unit) == IDR_SLICE for unit in units)


def playable_sample(units: Sequence[bytes], parameter_sets: Sequence[bytes]) -> bytes:
    """Return a CMAF sample: no delimiters, and before an IDR the parameter sets in band.

    In-band sets of the source win over ``parameter_sets``: they may have changed since the header was written.
    """
    kept = [unit for unit in units if unit_type(unit) not in {ACCESS_UNIT_DELIMITER, END_OF_SEQUENCE, END_OF_STREAM}]
    if is_idr(kept) and not any(unit_type(unit) == SPS for unit in kept):
        kept = [*parameter_sets, *kept]
    return join_length_prefixed(kept)
