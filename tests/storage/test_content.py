"""Cutting contents into pieces."""

from __future__ import annotations

import pytest

from app.storage.content import cut


@pytest.mark.parametrize(
    ("content", "size", "pieces"),
    [
        (b"", None, [b""]),
        (b"abc", None, [b"abc"]),
        (b"abcd", None, [b"abcd"]),
        (b"abcdefghi", None, [b"abcd", b"efgh", b"i"]),
        (b"abc", 4, [b"abc\0"]),
        (b"abcdef", 7, [b"abcd", b"ef\0"]),
        (b"abcd", 6, [b"abcd", b"\0\0"]),
        (b"abc", 9, [b"abc\0", b"\0\0\0\0", b"\0"]),
    ],
)
def test_a_content_is_cut_and_followed_by_zeros(content: bytes, size: int | None, pieces: list[bytes]) -> None:
    assert list(cut(content, 4, size=size)) == pieces
