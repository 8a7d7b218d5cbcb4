"""S1: nothing of a film lies readable on the disk, while it is made and after; scratch of the children included."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import psutil
import pytest

from app.engine import api
from app.engine.local import LocalEngine
from app.playback.source import StillKind
from tests.end_to_end.shows import make_film
from tests.engine.stage import FINAL, add, children_of, engine_on, job_of

pytestmark = pytest.mark.slow

MARKS = {
    "fragment": b"\x00\x00\x00\x10mfhd\x00\x00\x00\x00",
    "movie header": b"\x00\x00\x00\x6cmvhd\x00\x00\x00\x00",
    "encoder's signature": b"x264 - core ",
    "picture": b"\xff\xd8\xff",
}
"""What the pieces of a film begin with or hold; long enough not to turn up by chance in a few MiB of ciphertext."""


def files_with(folders: tuple[Path, ...], needles: dict[str, bytes]) -> list[tuple[str, str]]:
    """Return (file, needle) for everything that is found in the clear."""
    found = []
    for path in [path for folder in folders for path in folder.rglob("*") if path.is_file()]:
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            continue
        found += [(path.name, name) for name, needle in needles.items() if needle in data]
    return found


def paths_written_in(child: psutil.Process) -> set[str]:
    """Return the files that a process has open for writing."""
    try:
        return {one.path for one in child.open_files() if getattr(one, "mode", "r") != "r"}
    except psutil.Error:
        return set()


async def pieces_of(engine: LocalEngine, media_id: str) -> dict[str, bytes]:
    """Return all pieces of a finished film, by name."""
    films = engine._films
    view = await films.view(media_id)
    names = [*(one.name for one in view.plan.renditions), *(one.name for one in view.plan.audio)]
    pieces = {
        f"{name}/{number}": await films.segment(media_id, name, number)
        for name in names
        for number in range(-1, view.plan.segment_count)
    }
    return pieces | {"poster": await films.still(media_id, StillKind.POSTER, 0)}


def slices_of(pieces: dict[str, bytes]) -> dict[str, bytes]:
    """Return 24 bytes from the middle of each piece that is not too small to be told apart."""
    return {name: data[len(data) // 2 :][:24] for name, data in pieces.items() if len(data) > 2000}


@pytest.fixture(scope="module")
def short_film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a film that must be encoded."""
    return make_film(tmp_path_factory.mktemp("short") / "short.mp4", gop=250, pixel_format="yuv420p10le", seconds=8)


async def test_nothing_of_a_film_is_readable_on_the_disk(
    tmp_path: Path, short_film: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, scratch = tmp_path / "data", tmp_path / "scratch"
    await asyncio.to_thread(scratch.mkdir)
    for name in ("TMPDIR", "TEMP", "TMP", "HOME"):
        monkeypatch.setenv(name, str(scratch))
    marks = {name: mark for name, mark in MARKS.items() if name != "picture"}
    source = await asyncio.to_thread(short_film.read_bytes)
    needles = marks | {"source": source[len(source) // 2 :][:24]}
    written: set[str] = set()
    looks = 0
    async with engine_on(root) as engine:
        job_id = await add(engine, short_film)
        while (job := await job_of(engine, job_id)).state not in FINAL:
            written |= {path for child in children_of() for path in paths_written_in(child)}
            assert await asyncio.to_thread(files_with, (root, scratch), needles) == []
            looks += job.progress is not None
        assert job.state == "done"
        pieces = await pieces_of(engine, job.media_id)
        await engine.call(api.VerifyVault())
        all_needles = needles | slices_of(pieces)
        assert await asyncio.to_thread(files_with, (root, scratch), all_needles) == []
    assert await asyncio.to_thread(files_with, (root, scratch), all_needles) == []
    assert looks > 3
    assert written == set()
    assert await asyncio.to_thread(os.listdir, scratch) == []
    _check_that_the_needles_prick(pieces, source, all_needles, tmp_path)


def _check_that_the_needles_prick(
    pieces: dict[str, bytes], source: bytes, needles: dict[str, bytes], tmp_path: Path
) -> None:
    """Put the film into the clear and find every needle, so that not finding them means something."""
    clear = tmp_path / "clear"
    clear.mkdir()
    for number, data in enumerate((*pieces.values(), source)):
        (clear / str(number)).write_bytes(data)
    assert {name for _file, name in files_with((clear,), needles)} == set(needles)
    assert pieces["poster"].startswith(MARKS["picture"])
