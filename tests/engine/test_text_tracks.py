"""Text from a file to the player: inside the film and beside it, whole, broken, and failing."""

from __future__ import annotations

import asyncio
import os
import subprocess
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

import av
import pytest

from app.core.errors import ErrorCode, ExpectedError
from app.engine import api
from app.engine.local import LocalEngine
from app.media.text import parse_webvtt
from tests.engine.stage import (
    add,
    dying_supervisor,
    engine_on,
    finished,
    job_of,
    make_busy_film,
    refusing_supervisor,
    until_queue,
)
from tests.engine.test_peers import device, linked

pytestmark = pytest.mark.slow

SRT = "1\n00:00:00,500 --> 00:00:01,500\nInside &amp; <i>there</i>\n\n2\n00:00:01,000 --> 00:00:09,000\nto the end\n"
MARKS = (
    ";FFMETADATA1\n[CHAPTER]\nTIMEBASE=1/1000\nSTART=0\nEND=1000\ntitle=Begin\n"
    "[CHAPTER]\nTIMEBASE=1/1000\nSTART=1000\nEND=9000\ntitle=End\n"
)


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return 3 s of film with an English text track and two chapters."""
    folder = tmp_path_factory.mktemp("text")
    plain, path = folder / "plain.mp4", folder / "Film.mkv"
    make_busy_film(plain, seconds=3, size=(160, 90), gop=24)
    (folder / "cues.txt").write_text(SRT)
    (folder / "marks").write_text(MARKS)
    inputs = ("-i", plain, "-f", "srt", "-i", folder / "cues.txt", "-f", "ffmetadata", "-i", folder / "marks")
    maps = ("-map", "0", "-map", "1", "-map_chapters", "2", "-c", "copy", "-c:s", "srt")
    tags = ("-metadata:s:s:0", "language=eng")
    command = ["ffmpeg", "-nostdin", "-y", "-v", "error", *map(str, (*inputs, *maps, *tags, path))]
    subprocess.run(command, check=True, timeout=60)
    return path


@pytest.fixture
def folder(film: Path, tmp_path: Path) -> Path:
    """Return a folder with the film, and beside it text files of which some are broken."""
    place = tmp_path / "films"
    place.mkdir()
    (place / "Film.mkv").write_bytes(film.read_bytes())
    (place / "Film.ru.srt").write_bytes("1\n00:00:01,000 --> 00:00:02,000\nПривет\n".encode("cp1251"))
    (place / "Film.de.forced.vtt").write_text("WEBVTT\n\n00:01.000 --> 00:02.000\nSchild\n")
    (place / "Film.broken.srt").write_bytes(bytes(100))
    (place / "Other.srt").write_text(SRT)
    return place


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[LocalEngine]:
    async with engine_on(tmp_path / "data") as engine:
        yield engine


def fetch(address: str) -> str:
    with urllib.request.urlopen(address, timeout=10) as answer:  # noqa: S310 (our own gateway)
        text: str = answer.read().decode()
        return text


async def fetched(address: str) -> str:
    return await asyncio.to_thread(fetch, address)


async def test_text_inside_and_beside_a_film_is_made_listed_and_served(engine: LocalEngine, folder: Path) -> None:
    job = await finished(engine, await add(engine, folder / "Film.mkv"))
    assert (job.state, job.error) == ("done", None)
    film = await engine.call(api.GetFilm(media_id=job.media_id))
    labels = [(one.name, one.label, one.language, one.is_forced) for one in film.text]
    assert labels == [("t0", "eng", "eng", False), ("t1", "de (forced)", "de", True), ("t2", "ru", "ru", False)]
    (warning,) = [one for one in film.warnings if "subtitle file" in one]
    assert "“Film.broken.srt” was left out" in warning
    cues = {one.name: await cues_of(engine, job.media_id, one.name) for one in film.text}
    assert cues["t0"] == [
        (0.5, 1, "Inside & there"),
        (1, 1.5, "Inside & there\nto the end"),
        (1.5, pytest.approx(film.duration_s, abs=0.001), "to the end"),
    ]
    assert cues["t1"] == [(1, 2, "Schild")]
    assert cues["t2"] == [(1, 2, "Привет")]
    player = await engine.call(api.OpenPlayer(media_id=job.media_id))
    master = await fetched(player.master)
    assert master.count("TYPE=SUBTITLES") == 3
    assert 'SUBTITLES="text"' in master
    assert "SUBTITLES" not in await fetched(player.auto)
    assert await asyncio.to_thread(languages_in, player.master) == ["eng", "de", "ru"]
    (inside,) = (line.split('URI="')[1].strip('"') for line in master.splitlines() if "/t0/" in line)
    playlist = player.master.replace("master.m3u8", inside)
    assert await asyncio.to_thread(cues_in, playlist) == [0.5, 1]
    text = parse_webvtt(await fetched(playlist.replace("index.m3u8", "0.vtt")))
    assert [one.text for one in text] == ["Inside &amp; <i>there</i>", "to the end"]


async def cues_of(engine: LocalEngine, media_id: str, name: str) -> list[tuple[float, float, str]]:
    """Return what the desktop player draws of a track."""
    cues = await engine.call(api.GetText(media_id=media_id, name=name))
    return [(one.start_s, one.end_s, one.text) for one in cues or ()]


def languages_in(master: str) -> list[str]:
    """Return the languages of the text tracks that FFmpeg finds in a stream."""
    with av.open(master, "r") as container:
        return [one.metadata["language"] for one in container.streams.subtitles if one.codec_context.name == "webvtt"]


def cues_in(playlist: str) -> list[float]:
    """Return when FFmpeg finds cues in a text track's own playlist; from a multivariant one it reads no text."""
    with av.open(playlist, "r") as container:
        packets = [one for one in container.demux() if one.size]
    return [float(one.pts * one.time_base) for one in packets if one.pts is not None and one.time_base is not None]


async def test_an_export_holds_text_and_chapters(engine: LocalEngine, folder: Path, tmp_path: Path) -> None:
    job = await finished(engine, await add(engine, folder / "Film.mkv"))
    path = tmp_path / "export.mp4"
    await engine.call(api.ExportFilm(media_id=job.media_id, path=os.fsencode(path)))
    with av.open(str(path), "r") as container:
        assert [one.metadata["language"] for one in container.streams.subtitles] == ["eng", "deu", "rus"]
        assert [one["metadata"]["title"] for one in container.chapters()] == ["Begin", "End"]


async def test_chapters_are_shown(engine: LocalEngine, folder: Path) -> None:
    job = await finished(engine, await add(engine, folder / "Film.mkv"))
    film = await engine.call(api.GetFilm(media_id=job.media_id))
    assert [(one.start_s, one.title) for one in film.chapters] == [(0, "Begin"), (pytest.approx(1, abs=0.05), "End")]
    assert film.chapters[-1].end_s == film.duration_s
    player = await engine.call(api.OpenPlayer(media_id=job.media_id))
    assert player.chapters == film.chapters


async def test_text_that_fails_must_not_keep_the_film_from_being_published(tmp_path: Path, folder: Path) -> None:
    supervisor = refusing_supervisor(tmp_path / "tally", on="MakeText")
    async with engine_on(tmp_path / "data", supervisor=supervisor) as engine:
        job = await finished(engine, await add(engine, folder / "Film.mkv"))
        assert job.state == "done"
        film = await engine.call(api.GetFilm(media_id=job.media_id))
        assert len(film.text) == 2
        assert len([one for one in film.warnings if "could not be made" in one]) == 1
        player = await engine.call(api.OpenPlayer(media_id=job.media_id))
        assert [one.name for one in player.text] == [one.name for one in film.text]
        (failed,) = {"t0", "t1", "t2"} - {one.name for one in film.text}
        with pytest.raises(ExpectedError) as caught:
            await engine.call(api.GetText(media_id=job.media_id, name=failed))
        assert caught.value.code is ErrorCode.NO_SUCH_ID
        assert (await fetched(player.master)).count("TYPE=SUBTITLES") == 2


async def test_a_subtitle_file_that_ends_its_child_costs_a_warning(tmp_path: Path, folder: Path) -> None:
    supervisor = dying_supervisor(tmp_path / "tally", on="ReadSidecar", times=2)
    async with engine_on(tmp_path / "data", supervisor=supervisor) as engine:
        job = await finished(engine, await add(engine, folder / "Film.mkv"))
        film = await engine.call(api.GetFilm(media_id=job.media_id))
        assert job.state == "done"
        assert len(film.text) == 2
        assert len([one for one in film.warnings if "was left out" in one]) == 2


async def test_what_is_found_beside_a_film_decides_the_name_of_its_plan(tmp_path: Path, folder: Path) -> None:
    async def plan_of(place: Path) -> str:
        async with engine_on(place) as engine:
            job_id = await add(engine, folder / "Film.mkv")
            task = next(one for one in (await job_of(engine, job_id)).tasks if one.kind == "index")
            assert task
            await finished(engine, job_id)
            (film,) = (one for one in (await job_of(engine, job_id)).tasks if one.kind == "publish")
            return film.target

    first = await plan_of(tmp_path / "one")
    (folder / "Film.ru.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\nOther words\n")
    assert await plan_of(tmp_path / "two") != first


async def test_a_device_without_the_file_makes_its_text_and_the_other_shows_it(tmp_path: Path, folder: Path) -> None:
    async with device(tmp_path / "a") as a, device(tmp_path / "b", tmp_path / "a", work=False) as b, linked(a, b):
        job_id = await add(a, folder / "Film.mkv")
        await until_queue(a, lambda store: store.accepted_plan_hash(job_id) is not None)
        await a.call(api.SetConfig(key="worker.enabled", value="off"))
        await b.call(api.SetConfig(key="worker.enabled", value="on"))
        job = await finished(a, job_id)
        assert (job.state, job.error) == ("done", None)
        film = await a.call(api.GetFilm(media_id=job.media_id))
        assert [one.name for one in film.text] == ["t0", "t1", "t2"]
        assert await cues_of(a, job.media_id, "t2") == [(1, 2, "Привет")]
