"""The user's file: fingerprints, looks, and names that are safe to show."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import ErrorCode, ExpectedError
from app.storage.source import (
    MIB,
    display_name,
    display_path,
    fingerprint,
    fingerprint_ranges,
    is_still_changing,
    look_at,
)


def path_in(folder: Path, content: bytes, name: str = "film.mp4") -> bytes:
    (folder / name).write_bytes(content)
    return os.fsencode(folder / name)


def code_of(path: bytes) -> ErrorCode:
    with pytest.raises(ExpectedError) as caught:
        fingerprint(path)
    assert display_name(path) in caught.value.message
    return caught.value.code


def test_a_fingerprint_names_the_content_not_the_file(tmp_path: Path) -> None:
    first = fingerprint(path_in(tmp_path, b"film", "a.mp4"))
    assert len(first) == 32
    assert int(first, 16) >= 0
    assert fingerprint(path_in(tmp_path, b"film", "b.mkv")) == first
    assert fingerprint(path_in(tmp_path, b"filn", "c.mp4")) != first
    assert fingerprint(path_in(tmp_path, b"film\0", "d.mp4")) != first


def test_a_huge_file_is_named_by_reading_three_mebibytes(tmp_path: Path) -> None:
    path = tmp_path / "sparse.mp4"
    with path.open("wb") as file:
        file.truncate(5 * 1024**3)
    empty = fingerprint(os.fsencode(path))
    ranges = fingerprint_ranges(5 * 1024**3)
    assert sum(length for _offset, length in ranges) == 3 * MIB
    for offset, length in (ranges[0], ranges[7], ranges[-1]):
        with path.open("r+b") as file:
            file.seek(offset + length - 1)
            file.write(b"x")
        assert fingerprint(os.fsencode(path)) != empty
        with path.open("r+b") as file:
            file.seek(offset + length - 1)
            file.write(b"\0")
    assert fingerprint(os.fsencode(path)) == empty


@given(st.integers(1, 2**45))
def test_the_ranges_of_a_fingerprint_lie_in_the_file_from_start_to_end(size: int) -> None:
    ranges = fingerprint_ranges(size)
    assert ranges[0][0] == 0
    assert ranges == sorted(ranges)
    assert max(offset + length for offset, length in ranges) == size
    assert all(first[0] + first[1] <= second[0] for first, second in pairwise(ranges))
    assert sum(length for _offset, length in ranges) <= 4 * MIB
    if size <= 4 * MIB:
        assert ranges == [(0, size)]


def test_what_is_not_there_or_empty_or_no_file_has_its_own_code(tmp_path: Path) -> None:
    assert code_of(os.fsencode(tmp_path / "absent.mp4")) == ErrorCode.NOT_FOUND
    assert code_of(os.fsencode(tmp_path / ("x" * 300))) == ErrorCode.NOT_FOUND
    assert code_of(path_in(tmp_path, b"")) == ErrorCode.EMPTY
    assert code_of(os.fsencode(tmp_path)) == ErrorCode.UNREADABLE
    assert code_of(b"/tmp/a\0b") == ErrorCode.NOT_FOUND
    assert code_of(os.fsencode(tmp_path / "film.mp4" / "inside")) == ErrorCode.NOT_FOUND


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such pipes")
def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.mp4")
    assert code_of(os.fsencode(tmp_path / "pipe.mp4")) == ErrorCode.UNREADABLE


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may read everything")
def test_a_file_that_may_not_be_read_is_unreadable(tmp_path: Path) -> None:
    path = path_in(tmp_path, b"film")
    (tmp_path / "film.mp4").chmod(0)
    assert code_of(path) == ErrorCode.UNREADABLE


def test_a_file_that_grows_between_two_looks_is_still_changing(tmp_path: Path) -> None:
    path = path_in(tmp_path, b"film")
    first = look_at(path)
    assert not is_still_changing(first, look_at(path))
    with (tmp_path / "film.mp4").open("ab") as file:
        file.write(b"more")
    assert is_still_changing(first, look_at(path))


def test_a_file_rewritten_in_place_is_still_changing(tmp_path: Path) -> None:
    path = path_in(tmp_path, b"film")
    first = look_at(path)
    os.utime(path, ns=(first.mtime_ns, first.mtime_ns + 1_000_000))
    assert is_still_changing(first, look_at(path))


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (b"/films/Am\xc3\xa9lie.mkv", "Amélie.mkv"),
        (b"/films/Ame\xcc\x81lie.mkv", "Ame\u0301lie.mkv"),
        ("/films/🎬 👨‍👩‍👧.mp4".encode(), "🎬 👨‍👩‍👧.mp4"),
        (b"/films/\xff\xfe.mp4", "\ufffd\ufffd.mp4"),
        (b"/films/two\nlines\t.mp4", "two␊lines␉.mp4"),
        (b"/films/\x1b[31mred\x7f.mp4", "␛[31mred␡.mp4"),
        ("/films/\u202egpj.exe".encode(), "⟨U+202E⟩gpj.exe"),
        (
            "/films/a\u2066b\u2069\u200f\u061c\u2028\x85.mp4".encode(),
            "a⟨U+2066⟩b⟨U+2069⟩⟨U+200F⟩⟨U+061C⟩⟨U+2028⟩⟨U+0085⟩.mp4",
        ),
        (b"/films/-i.mp4", "-i.mp4"),
        (b"/films/folder/", "folder"),
        (b"plain", "plain"),
        (b"/", "/"),
    ],
)
def test_names_are_shown_safely(path: bytes, shown: str) -> None:
    assert display_name(path) == shown


@given(st.binary(max_size=100))
def test_any_path_can_be_shown_on_one_line_of_valid_text(path: bytes) -> None:
    shown = display_path(path)
    shown.encode("utf-8")
    assert len(shown.splitlines()) <= 1
    assert shown.isprintable() or not any(ord(letter) < 0x20 for letter in shown)
