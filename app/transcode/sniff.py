"""A first look at a file's bytes, before any demuxer sees it: what it surely is not, in words a person understands.

FFmpeg's allow-list of demuxers refuses all the rest, but can only say "invalid data"; the sentences come from here.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec

from app.core.errors import ErrorCode, ExpectedError

HEAD_BYTES = 4096
_MOOV_LIMIT = 256 << 20
_MATROSKA_HEADERS = 1 << 16
"""Bytes from the start in which the tracks are described, before any picture."""
_PROTECTED_ENTRIES = {b"encv", b"enca", b"drmi", b"drms"}
_PICTURE_BRANDS = {b"heic", b"heix", b"mif1", b"avif", b"msf1", b"heim", b"heis"}


class BoxFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What an ISO media file's boxes say before it is opened."""

    has_movie: bool
    is_protected: bool
    dolby_vision_profile: int | None = None


class Readable(Protocol):
    """A file of known size that is read anywhere."""

    size: int

    def read_at(self, offset: int, length: int) -> bytes:
        """Return up to ``length`` bytes at ``offset``."""
        ...


class ByteFile:
    """Positioned reads on an open descriptor; the descriptor's own position is left alone."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.size = os.fstat(fd).st_size

    def read_at(self, offset: int, length: int) -> bytes:
        """Return up to ``length`` bytes at ``offset``."""
        if hasattr(os, "pread"):
            return os.pread(self._fd, length, offset)
        position = os.lseek(self._fd, 0, os.SEEK_CUR)
        try:
            os.lseek(self._fd, offset, os.SEEK_SET)
            return os.read(self._fd, length)
        finally:
            os.lseek(self._fd, position, os.SEEK_SET)


def refuse_what_is_no_film(file: Readable) -> BoxFacts | None:
    """Return what ISO boxes say (None for other formats); raise ``ExpectedError`` for what can never be a film."""
    if file.size == 0:
        raise ExpectedError(ErrorCode.EMPTY, "The file is empty. If it is still being copied, add it again afterwards.")
    head = file.read_at(0, HEAD_BYTES)
    for looks_like, error in _REFUSALS:
        if looks_like(head):
            raise error()
    if head[4:8] in {b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot"}:
        return _refuse_broken_boxes(file)
    if head.startswith(b"\x1aE\xdf\xa3"):
        return BoxFacts(has_movie=True, is_protected=False, dolby_vision_profile=_profile_in_matroska(file))
    return None


def _refuse_broken_boxes(file: Readable) -> BoxFacts:
    facts = read_box_facts(file)
    if not facts.has_movie:
        raise ExpectedError(
            ErrorCode.TRUNCATED,
            "The file has no index (“moov”): the recording or the copy was interrupted. Copy it again from the "
            "camera, or repair it with a tool such as untrunc.",
        )
    if facts.is_protected:
        raise ExpectedError(
            ErrorCode.PROTECTED, "The film is copy-protected (DRM); only the shop's own player can open it."
        )
    return facts


def read_box_facts(file: Readable) -> BoxFacts:
    """Walk the top-level boxes of an ISO media file."""
    has_movie = False
    movie = b""
    for kind, start, end in _top_boxes(file):
        if kind == b"moov" and end <= file.size:
            has_movie = True
            movie = file.read_at(start, min(end - start, _MOOV_LIMIT))
    return BoxFacts(
        has_movie=has_movie,
        is_protected=any(kind in _PROTECTED_ENTRIES for kind in _sample_entries(movie)),
        dolby_vision_profile=_dolby_vision_profile(movie),
    )


def _top_boxes(file: Readable) -> Iterator[tuple[bytes, int, int]]:
    position = 0
    while position + 8 <= file.size:
        header = file.read_at(position, 16)
        if len(header) < 8:
            return
        size, kind = struct.unpack_from(">I4s", header)
        if size == 1 and len(header) == 16:
            size = struct.unpack_from(">Q", header, 8)[0]
        elif size == 0:
            size = file.size - position
        if size < 8:
            return
        yield kind, position, position + size
        position += size


def _sample_entries(movie: bytes) -> Iterator[bytes]:
    """Yield the type of the first sample entry of every track (ISO/IEC 14496-12, ``stsd``)."""
    place = movie.find(b"stsd")
    while place >= 0:
        yield movie[place + 16 : place + 20]
        place = movie.find(b"stsd", place + 4)


def _dolby_vision_profile(movie: bytes) -> int | None:
    """Return the profile of a ``dvcC`` or ``dvvC`` box (Dolby Vision in ISO media, 7 bits after two version bytes)."""
    for kind in (b"dvcC", b"dvvC"):
        place = movie.find(kind)
        if place >= 0 and place + 8 <= len(movie):
            return movie[place + 6] >> 1
    return None


def _profile_in_matroska(file: Readable) -> int | None:
    """Return the profile in a track's BlockAdditionMapping: its type names the box, its extra data are the body."""
    head = file.read_at(0, _MATROSKA_HEADERS)
    place = max(head.find(b"\x41\xe7\x84dvcC"), head.find(b"\x41\xe7\x84dvvC"))
    data = head.find(b"\x41\xed", place, place + 64) if place >= 0 else -1
    return head[data + 5] >> 1 if 0 <= data < len(head) - 5 else None


def _is_playlist(head: bytes) -> bool:
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    return text.startswith((b"#extm3u", b"ffconcat", b"[playlist]", b"<asx", b"<smil", b"#!", b"<playlist")) or (
        text.startswith(b"<?xml") and (b"<mpd" in text or b"<smil" in text or b"xspf" in text)
    )


def _is_picture(head: bytes) -> bool:
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return b"acTL" not in head
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return b"ANIM" not in head[:64]
    if head[4:8] == b"ftyp":
        return head[8:12] in _PICTURE_BRANDS
    if head.startswith(b"\x00\x00\x01\x00"):  # an icon holds at least one picture; MPEG-4 video has a start code here
        return head[4:6] not in {b"\x00\x00", b""}
    return head.startswith((b"\xff\xd8\xff", b"BM", b"II*\x00", b"MM\x00*", b"8BPS")) and not (
        head.startswith(b"BM") and len(head) < 26
    )


def _is_animated_webp(head: bytes) -> bool:
    return head.startswith(b"RIFF") and head[8:12] == b"WEBP" and b"ANIM" in head[:64]


def _is_document(head: bytes) -> bool:
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    return head.startswith(
        (
            b"PK\x03\x04",
            b"PK\x05\x06",
            b"%PDF",
            b"Rar!",
            b"7z\xbc\xaf",
            b"\x1f\x8b",
            b"\x7fELF",
            b"MZ",
            b"SQLite format 3",
        )
    ) or text.startswith((b"<!doctype", b"<html", b"<?xml", b"<svg", b"{"))


def _is_text(head: bytes) -> bool:
    """Whether the bytes are readable text: subtitles, logs, scripts."""
    try:
        text = head[:2048].decode()
    except UnicodeDecodeError as error:
        if error.start < len(head[:2048]) - 4:
            return False
        text = head[: error.start].decode()
    return all(char.isprintable() or char in "\t\r\n\f\ufeff" for char in text) and not text.startswith("YUV4MPEG2")


_REFUSALS: tuple[tuple[Callable[[bytes], bool], Callable[[], ExpectedError]], ...] = (
    (
        _is_playlist,
        lambda: ExpectedError(
            ErrorCode.PLAYLIST,
            "This is a playlist or script that names other files, not a film. Add the files themselves.",
        ),
    ),
    (_is_picture, lambda: ExpectedError(ErrorCode.PICTURE, "This is a picture, not a video.")),
    (
        _is_animated_webp,
        lambda: ExpectedError(
            ErrorCode.NO_DECODER, "Animated WebP cannot be decoded here. Convert it to MP4 or GIF and add that."
        ),
    ),
    (
        lambda head: _is_document(head) or _is_text(head),
        lambda: ExpectedError(ErrorCode.NOT_A_VIDEO, "This is not a video, whatever its name says. Nothing was added."),
    ),
)
