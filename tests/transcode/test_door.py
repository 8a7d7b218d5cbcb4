"""The child's door to a source: nothing but the file itself is ever opened."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import av
import pytest
from av.error import FFmpegError

from app.core.errors import ErrorCode, ExpectedError
from app.transcode import opening
from app.transcode.messages import SourceHandle
from app.transcode.opening import OpenSource, open_source
from tests.transcode.lab import index


@contextlib.contextmanager
def opened(path: Path) -> Iterator[OpenSource]:
    fd = os.open(path, os.O_RDONLY)
    try:
        with open_source(SourceHandle(fd=fd)) as source:
            yield source
    finally:
        os.close(fd)


SCRIPTS = {
    "hls": "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n{target}\n#EXT-X-ENDLIST\n",
    "hls key": '#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXT-X-KEY:METHOD=AES-128,URI="{target}"\n#EXTINF:10,\nx.ts\n',
    "concat": "ffconcat version 1.0\nfile '{target}'\n",
    "dash": '<?xml version="1.0"?><MPD><Period><BaseURL>{target}</BaseURL></Period></MPD>',
}


@pytest.fixture(params=["both walls", "protocols alone"])
def walls(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Try with and without the allow-list of demuxers: protocols alone must hold too."""
    if request.param == "protocols alone":
        monkeypatch.setattr(opening, "_OPTIONS", {})


@pytest.mark.usefixtures("walls")
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_that_passes_the_first_look_still_opens_no_other_file(tmp_path: Path, name: str) -> None:
    """A pipe stands for the other file: who opens it waits, so the test would not end."""
    target = tmp_path / "secret.ts"
    os.mkfifo(target)
    path = tmp_path / "film.mp4"
    path.write_text(SCRIPTS[name].format(target=f"file://{target}"))
    fd = os.open(path, os.O_RDONLY)
    try:
        with pytest.raises(FFmpegError):
            opening._open(fd)
    finally:
        os.close(fd)


@pytest.mark.usefixtures("walls")
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_that_passes_the_first_look_still_fetches_no_address(tmp_path: Path, name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        path = tmp_path / "film.mp4"
        path.write_text(SCRIPTS[name].format(target=f"http://127.0.0.1:{server.getsockname()[1]}/x.ts"))
        fd = os.open(path, os.O_RDONLY)
        try:
            with pytest.raises(FFmpegError):
                opening._open(fd)
        finally:
            os.close(fd)
        with pytest.raises(BlockingIOError):
            server.accept()


def test_a_format_that_is_not_on_the_list_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "film.mp4"
    path.write_text("1\n00:00:01,000 --> 00:00:02,000\nhello\n\n")
    with av.open(str(path), "r") as container:
        assert container.format.name == "srt", "FFmpeg itself would open it"
    fd = os.open(path, os.O_RDONLY)
    try:
        with pytest.raises(FFmpegError):
            opening._open(fd)
    finally:
        os.close(fd)


def test_a_numbered_name_is_no_sequence(film: Path, tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"clip{number:03d}.mp4").write_bytes(film.read_bytes())
    path = tmp_path / "clip%03d.mp4"
    path.write_bytes(b"")
    with pytest.raises(ExpectedError) as caught:
        index(path)
    assert caught.value.code is ErrorCode.EMPTY


def test_the_descriptor_stays_with_its_owner(film: Path) -> None:
    fd = os.open(film, os.O_RDONLY)
    for _ in range(3):
        with open_source(SourceHandle(fd=fd)) as source:
            assert source.size_bytes == film.stat().st_size
    os.fstat(fd)
    os.close(fd)


def test_opening_leaves_no_descriptor_behind(film: Path) -> None:
    def count() -> int:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 (names are numbers of this process)

    before = count()
    for _ in range(20):
        with opened(film):
            pass
    assert count() == before


def test_the_name_says_nothing_about_what_is_inside(film: Path, tmp_path: Path) -> None:
    for name in ("film.avi", "film", "film.mp3", "film.m3u8", "film.jpg"):
        path = tmp_path / name
        path.write_bytes(film.read_bytes())
        assert index(path)[1].renditions
