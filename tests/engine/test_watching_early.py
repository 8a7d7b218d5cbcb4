"""Watching a film while it is made: what is waited for comes first, sound is made ahead, a pause answers at once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import msgspec
import psutil
import pytest

from app.engine import api
from app.engine.local import LocalEngine
from app.engine.worker import Slots
from app.queue.targets import ResourceClass
from tests.engine.stage import add, change, children_of, engine_on, job_of, make_busy_film, until, until_job

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def long_film(media: Path) -> Path:
    """Six minutes of small pictures, with sound that must be encoded."""
    path = media / "long.mkv"
    make_busy_film(path, seconds=360, fps=2, size=(128, 72), gop=12)
    return path


class Watched(msgspec.Struct, frozen=True, kw_only=True):
    """A film in the making with a player on it."""

    engine: LocalEngine
    job_id: str
    player: api.PlayerSnapshot
    session: aiohttp.ClientSession
    playlist: str
    """Address of the only rendition's playlist."""
    names: tuple[str, ...]
    """Addresses of its segments."""


async def watch(engine: LocalEngine, session: aiohttp.ClientSession, job_id: str) -> Watched:
    """Open a player as soon as the film can be played."""
    job = await until_job(engine, job_id, lambda one: one.playable)
    player = await engine.call(api.OpenPlayer(media_id=job.media_id))
    async with session.get(player.master) as answer:
        master = await answer.text()
    (uri,) = re.findall(r"^[^#\n]+m3u8$", master, re.MULTILINE)
    playlist = player.master.rsplit("/", 1)[0] + "/" + uri
    async with session.get(playlist) as answer:
        text = await answer.text()
    folder = playlist.rsplit("/", 1)[0] + "/"
    names = tuple(folder + line for line in text.splitlines() if line and not line.startswith("#"))
    return Watched(engine=engine, job_id=job_id, player=player, session=session, playlist=playlist, names=names)


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as client:
        yield client


@pytest.fixture
async def watched(root: Path, busy_film: Path, session: aiohttp.ClientSession) -> AsyncIterator[Watched]:
    async with engine_on(root, slots=Slots(heavy=1, light=1)) as engine:
        yield await watch(engine, session, await add(engine, busy_film))


def _running_chunks(engine: LocalEngine) -> dict[int, bool]:
    """Return chunk → whether it is frozen, of the chunks that are being made."""
    heavy = (one for one in engine._worker.running.values() if one.resource is ResourceClass.HEAVY)
    return {one.target.chunk: one.control.is_frozen for one in heavy}


async def test_the_whole_film_is_listed_and_what_is_not_made_is_answered_when_it_is(watched: Watched) -> None:
    assert len(watched.names) == 12
    async with watched.session.get(watched.names[0]) as answer:
        assert answer.status == 200
        assert b"moof" in await answer.read()


async def test_a_late_segment_that_is_waited_for_moves_its_chunk_to_the_front(watched: Watched) -> None:
    """The chunk that runs is frozen meanwhile and goes on, as the same process, before anything new is begun."""
    engine = watched.engine
    await until(lambda: _running_chunks(engine) == {1: False})
    (first,) = (one.row.id for one in engine._worker.running.values() if one.target.chunk == 1)
    waiting = asyncio.ensure_future(watched.session.get(watched.names[-1]))
    await until(lambda: _running_chunks(engine) == {1: True, 3: False})
    async with await waiting as answer:
        assert answer.status == 200
        data = await answer.read()
    assert b"moof" in data
    await until(lambda: _running_chunks(engine) == {1: False})
    assert first in engine._worker.running
    assert [task.attempts for task in (await job_of(engine, watched.job_id)).tasks if task.attempts] == []


async def test_a_missing_segment_of_a_paused_film_is_answered_at_once(watched: Watched) -> None:
    waiting = asyncio.ensure_future(watched.session.get(watched.names[-1]))
    await until(lambda: bool(watched.engine._wanted.task_ids))
    await change(watched.engine, watched.job_id, "pause")
    async with asyncio.timeout(2):
        with pytest.raises(aiohttp.ClientError):
            async with await waiting as answer:
                await answer.read()
        async with watched.session.get(watched.names[-1]) as answer:
            assert answer.status == 503
            assert answer.headers["X-Error-Code"] == "not-done"
            assert "resume" in await answer.text()
        async with watched.session.get(watched.player.master) as answer:
            assert answer.status == 200


async def test_a_cancelled_film_is_answered_at_once(watched: Watched) -> None:
    waiting = asyncio.ensure_future(watched.session.get(watched.names[-1]))
    await until(lambda: bool(watched.engine._wanted.task_ids))
    await change(watched.engine, watched.job_id, "cancel")
    async with asyncio.timeout(2):
        with pytest.raises(aiohttp.ClientError):
            async with await waiting as answer:
                await answer.read()
        async with watched.session.get(watched.names[-1]) as answer:
            assert answer.status in {404, 410, 503}


async def test_who_goes_away_is_not_waited_for(watched: Watched) -> None:
    waiting = asyncio.ensure_future(watched.session.get(watched.names[-1]))
    await until(lambda: bool(watched.engine._wanted.task_ids))
    async with await waiting as answer:
        answer.close()
    await until(lambda: not watched.engine._wanted.task_ids)


async def test_sound_far_ahead_is_made_there_and_joins_the_track(root: Path, long_film: Path) -> None:
    """Who jumps far ahead must not wait for all the sound before; what was made ahead lies on the track's own grid."""
    async with engine_on(root, slots=Slots(heavy=1, light=1)) as engine:
        job_id = await add(engine, long_film)
        job = await until_job(engine, job_id, lambda one: one.playable)
        film = engine._films
        view = await film.view(job.media_id)
        late = view.plan.segment_count - 3
        ahead = await asyncio.wait_for(film.segment(job.media_id, "a0", late), 20)
        was_made_ahead = not await film.is_made(job.media_id, "a0", late)
        assert was_made_ahead, "the track itself was as fast; the film is too short for this test"
        await change(engine, job_id, "pause")
        await until(lambda: all(one.status() == psutil.STATUS_STOPPED for one in children_of()), patience_s=2)
        await change(engine, job_id, "resume")
        await until_job(engine, job_id, lambda one: one.state == "done")
        assert _grid(ahead) == _grid(await film.segment(job.media_id, "a0", late))


def _grid(segment: bytes) -> list[tuple[int, int]]:
    """Return (first decode time, samples) of each fragment, from its ``tfdt`` (version 1) and ``trun`` boxes."""
    times = [int.from_bytes(segment[one.end() + 4 : one.end() + 12], "big") for one in re.finditer(b"tfdt", segment)]
    counts = [int.from_bytes(segment[one.end() + 4 : one.end() + 8], "big") for one in re.finditer(b"trun", segment)]
    assert times
    return list(zip(times, counts, strict=True))


async def test_a_picture_in_the_middle_of_a_chunk_is_made_ahead_of_it(root: Path, media: Path) -> None:
    """Who jumps into a chunk must not wait for all of it; one rendition of one stretch comes first, at its borders."""
    film = media / "chunky.mkv"
    make_busy_film(film, seconds=34, fps=30, size=(1280, 720), gop=60)
    async with engine_on(root, slots=Slots(heavy=1, light=2)) as engine:
        job = await until_job(engine, await add(engine, film), lambda one: one.playable)
        films = engine._films
        plan = (await films.view(job.media_id)).plan
        name = plan.renditions[-1].name
        chunk = max(plan.chunks, key=lambda one: one.end_segment - one.first_segment)
        wanted = chunk.end_segment - 1
        assert wanted > chunk.first_segment + 1
        ahead = await asyncio.wait_for(films.segment(job.media_id, name, wanted), 60)
        assert not await films.is_made(job.media_id, name, wanted - 1), "the chunk itself was as fast"
        await until_job(engine, job.id, lambda one: one.state == "done")
        assert _grid(ahead) == _grid(await films.segment(job.media_id, name, wanted))
