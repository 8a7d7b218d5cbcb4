"""Addresses under a token, read and written, and byte ranges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.playback.addresses import (
    AUTO,
    MediaPlaylistAddress,
    PieceAddress,
    StillAddress,
    format_media_playlist,
    format_piece,
    parse_address,
)
from app.playback.ranges import RangeOutcome, parse_range
from app.playback.source import INIT_NUMBER, StillKind

HASH = "0123456789abcdef"


@given(number=st.integers(INIT_NUMBER, 10**9 - 1), name=st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True))
def test_what_is_written_is_read_back(number: int, name: str) -> None:
    address = parse_address(format_piece(HASH, name, number))
    assert address == PieceAddress(plan_hash=HASH, name=name, number=number)


def test_a_media_playlist_is_read_back() -> None:
    assert parse_address(format_media_playlist(HASH, "720")) == MediaPlaylistAddress(plan_hash=HASH, name="720")


def test_the_adapting_playlist_is_under_no_plan() -> None:
    assert parse_address("auto/video.m3u8") == MediaPlaylistAddress(plan_hash=None, name=AUTO)
    assert parse_address(f"{HASH}/auto/index.m3u8") is None


def test_stills_are_read() -> None:
    assert parse_address("poster.jpg") == StillAddress(kind=StillKind.POSTER, number=0)
    assert parse_address("sheets/12.jpg") == StillAddress(kind=StillKind.SHEET, number=12)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "master.m3u8/",
        "../master.m3u8",
        f"{HASH}/720/01.m4s",
        f"{HASH}/720/-1.m4s",
        f"{HASH}/720/1.m4s\n",
        f"{HASH}/720/\N{ARABIC-INDIC DIGIT ONE}.m4s",
        f"{HASH}/7.20/1.m4s",
        f"{HASH}/720/1.ts",
        "xyz/720/1.m4s",
        "sheets/x.jpg",
        "sheets/1000000000.jpg",
    ],
)
def test_anything_else_is_no_address(path: str) -> None:
    assert parse_address(path) is None


@given(path=st.text(max_size=40))
def test_no_path_breaks_the_reader(path: str) -> None:
    parse_address(path)


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        ("bytes=0-9", range(10)),
        ("bytes=5-", range(5, 100)),
        ("bytes=-10", range(90, 100)),
        ("bytes=-1000", range(100)),
        ("bytes=90-1000", range(90, 100)),
        ("bytes=100-", RangeOutcome.UNSATISFIABLE),
        ("bytes=-0", RangeOutcome.UNSATISFIABLE),
        ("bytes=9-5", RangeOutcome.WHOLE),
        ("bytes=-", RangeOutcome.WHOLE),
        ("bytes=0-1,5-6", RangeOutcome.WHOLE),
        ("lines=0-1", RangeOutcome.WHOLE),
        ("bytes=a-b", RangeOutcome.WHOLE),
        (None, RangeOutcome.WHOLE),
    ],
)
def test_a_range_header_means(header: str | None, wanted: range | RangeOutcome) -> None:
    assert parse_range(header, 100) == wanted


@given(first=st.integers(0, 300), last=st.integers(0, 300), size=st.integers(0, 200))
def test_a_range_must_lie_within_the_body(first: int, last: int, size: int) -> None:
    wanted = parse_range(f"bytes={first}-{last}", size)
    if isinstance(wanted, range):
        assert 0 <= wanted.start < wanted.stop <= size
        assert wanted == range(first, min(last + 1, size))
    else:
        assert last < first or first >= size
