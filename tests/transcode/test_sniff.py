"""The first look at a file: what it surely is not, said by its stable code."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import ErrorCode, ExpectedError
from app.transcode.sniff import BoxFacts, ByteFile, read_box_facts, refuse_what_is_no_film


def box(kind: bytes, payload: bytes = b"") -> bytes:
    return struct.pack(">I4s", len(payload) + 8, kind) + payload


FTYP = box(b"ftyp", b"isom\0\0\0\0isom")
MOVIE = FTYP + box(b"moov", box(b"trak")) + box(b"mdat", b"data")

PLAYLISTS = {
    "hls": b"#EXTM3U\n#EXTINF:10,\nfile:///etc/passwd\n",
    "hls after a mark": b"\xef\xbb\xbf#EXTM3U\n",
    "hls after blank lines": b"\r\n\r\n#extm3u\n",
    "concat": b"ffconcat version 1.0\nfile '/etc/passwd'\n",
    "winamp": b"[playlist]\nFile1=x.mp4\n",
    "windows media": b'<ASX version="3.0"><entry/></ASX>',
    "smil": b"<smil><body/></smil>",
    "dash": b'<?xml version="1.0"?>\n<MPD xmlns="urn:mpeg:dash:schema:mpd:2011"/>',
    "xspf": b'<?xml version="1.0"?><playlist xmlns="http://xspf.org/ns/0/"/>',
    "script": b"#!/bin/sh\nrm -rf /\n",
}
PICTURES = {
    "jpeg": b"\xff\xd8\xff\xe0" + bytes(60),
    "png": b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + bytes(40),
    "webp": b"RIFF\x20\0\0\0WEBPVP8 " + bytes(40),
    "bmp": b"BM" + bytes(60),
    "tiff, little endian": b"II*\0" + bytes(60),
    "tiff, big endian": b"MM\0*" + bytes(60),
    "photoshop": b"8BPS\0\1" + bytes(60),
    "icon": b"\0\0\1\0\1\0\x10\x10" + bytes(60),
    "heic": box(b"ftyp", b"heic\0\0\0\0mif1") + bytes(60),
    "avif": box(b"ftyp", b"avif\0\0\0\0mif1") + bytes(60),
}
DOCUMENTS = {
    "zip": b"PK\x03\x04" + bytes(30),
    "pdf": b"%PDF-1.7\n\x80\x81",
    "rar": b"Rar!\x1a\x07" + bytes(30),
    "7z": b"7z\xbc\xaf\x27\x1c" + bytes(30),
    "gzip": b"\x1f\x8b\x08" + bytes(30),
    "elf": b"\x7fELF" + bytes(30),
    "exe": b"MZ" + bytes(30),
    "sqlite": b"SQLite format 3\0" + bytes(30),
    "html": b"<!DOCTYPE html><title>404</title>",
    "svg": b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    "json": b'{"a": 1}',
    "subtitles": "1\n00:00:01,000 --> 00:00:02,000\nÜber\n".encode(),
    "ass": b"\xef\xbb\xbf[Script Info]\nScriptType: v4.00+\n",
    "text cut in a letter": ("a" * 2047 + "ü").encode(),
    "one letter": b"x",
}
FILMS = {
    "mp4": MOVIE,
    "matroska": b"\x1aE\xdf\xa3" + bytes(60),
    "avi": b"RIFF\0\0\0\0AVI LIST" + bytes(60),
    "ts": b"\x47\x40\x11\x10" + bytes(184),
    "m2ts": b"\0\0\0\0\x47\x40\x11\x10" + bytes(184),
    "program stream": b"\0\0\1\xba\x44" + bytes(60),
    "mpeg video": b"\0\0\1\xb3\x14" + bytes(60),
    "mpeg-4 video": b"\0\0\1\0\0\0\1\x20" + bytes(60),
    "raw h.264": b"\0\0\0\1\x67\x64" + bytes(60),
    "flv": b"FLV\1\5\0\0\0\x09" + bytes(60),
    "ogg": b"OggS\0\2" + bytes(60),
    "asf": b"\x30\x26\xb2\x75\x8e\x66\xcf\x11" + bytes(60),
    "gif": b"GIF89a\x80\x40" + bytes(60),
    "animated png": b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + bytes(17) + b"\0\0\0\x08acTL" + bytes(20),
    "yuv4mpeg": b"YUV4MPEG2 W320 H180 F30:1\nFRAME\n",
}


def look(tmp_path: Path, data: bytes) -> BoxFacts | None:
    path = tmp_path / "file.mp4"
    path.write_bytes(data)
    fd = os.open(path, os.O_RDONLY)
    try:
        return refuse_what_is_no_film(ByteFile(fd))
    finally:
        os.close(fd)


def refusal(tmp_path: Path, data: bytes) -> ErrorCode:
    with pytest.raises(ExpectedError) as caught:
        look(tmp_path, data)
    assert caught.value.message.endswith(".")
    return caught.value.code


@pytest.mark.parametrize("name", PLAYLISTS)
def test_playlists_and_scripts_are_refused_as_such(tmp_path: Path, name: str) -> None:
    assert refusal(tmp_path, PLAYLISTS[name]) is ErrorCode.PLAYLIST


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_refused_as_such(tmp_path: Path, name: str) -> None:
    assert refusal(tmp_path, PICTURES[name]) is ErrorCode.PICTURE


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_and_text_are_no_videos(tmp_path: Path, name: str) -> None:
    assert refusal(tmp_path, DOCUMENTS[name]) is ErrorCode.NOT_A_VIDEO


@pytest.mark.parametrize("name", FILMS)
def test_what_may_be_a_film_is_left_to_the_demuxers(tmp_path: Path, name: str) -> None:
    look(tmp_path, FILMS[name])


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path, b"") is ErrorCode.EMPTY


def test_an_animated_webp_has_no_decoder(tmp_path: Path) -> None:
    assert refusal(tmp_path, b"RIFF\x20\0\0\0WEBPVP8X" + bytes(14) + b"ANIM" + bytes(20)) is ErrorCode.NO_DECODER


@pytest.mark.parametrize(
    "data",
    [FTYP + box(b"mdat", bytes(50)), MOVIE[:30], FTYP + struct.pack(">I4s", 5000, b"moov") + bytes(100), FTYP],
    ids=["no index", "cut in the index", "index longer than the file", "nothing else"],
)
def test_an_mp4_without_its_index_is_truncated(tmp_path: Path, data: bytes) -> None:
    assert refusal(tmp_path, data) is ErrorCode.TRUNCATED


def test_a_protected_film_is_refused(tmp_path: Path) -> None:
    movie = box(
        b"moov", box(b"stsd", bytes(4) + (1).to_bytes(4, "big") + box(b"encv", box(b"sinf", box(b"frma", b"avc1"))))
    )
    assert refusal(tmp_path, FTYP + movie) is ErrorCode.PROTECTED


def test_the_words_of_protection_alone_are_none(tmp_path: Path) -> None:
    assert look(tmp_path, FTYP + box(b"moov", box(b"udta", b"about encv boxes"))) is not None


def test_the_dolby_vision_profile_is_read(tmp_path: Path) -> None:
    facts = look(tmp_path, FTYP + box(b"moov", box(b"dvcC", bytes([1, 0, 5 << 1, 0]))))
    assert facts is not None
    assert facts.dolby_vision_profile == 5


def test_a_box_of_64_bit_length_and_one_to_the_end_are_walked(tmp_path: Path) -> None:
    wide = struct.pack(">I4sQ", 1, b"mdat", 16 + 30) + bytes(30)
    rest = struct.pack(">I4s", 0, b"mdat") + bytes(30)
    facts = look(tmp_path, FTYP + wide + box(b"moov") + rest)
    assert facts == BoxFacts(has_movie=True, is_protected=False)


@given(data=st.binary(min_size=1, max_size=200))
def test_arbitrary_boxes_end(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "arbitrary"
    path.write_bytes(FTYP + data)
    fd = os.open(path, os.O_RDONLY)
    try:
        read_box_facts(ByteFile(fd))
    finally:
        os.close(fd)
