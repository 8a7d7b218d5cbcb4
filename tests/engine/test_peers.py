"""Several engines in one process, linked by channels in memory: one queue, one library, one pool."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from app.core.clock import SystemClock
from app.core.encoding import decode_canonical
from app.core.errors import ErrorCode, ErrorInfo
from app.core.paths import DataDir
from app.core.settings import SettingsFile
from app.engine import api
from app.engine.housekeeping import bundles_in, missing_of
from app.engine.local import LocalEngine
from app.engine.peers import COPY_SIGNS, Link
from app.media.film import Film, PublishStage
from app.sync.memory_channel import memory_channels
from app.sync.session import Goodbye, Ping, encode_spoken
from tests.engine.stage import add, change, finished, until, until_job, until_queue


def settle(root: Path, *, work: bool) -> None:
    root.mkdir(exist_ok=True)
    settings = SettingsFile(DataDir(root=root).settings)
    settings.set("listen.host", "127.0.0.1")
    settings.set("discovery", "off")
    settings.set("worker.enabled", "on" if work else "off")


@asynccontextmanager
async def device(root: Path, keys: Path | None = None, *, work: bool = True) -> AsyncIterator[LocalEngine]:
    """Lend an engine of the same owner as the one whose data directory is ``keys``; it stays on loopback."""
    settle(root, work=work)
    if keys is not None:
        shutil.copytree(
            DataDir(root=keys).keys, DataDir(root=root).keys, ignore=shutil.ignore_patterns("identity*", "device*")
        )
    engine = await LocalEngine.start(DataDir(root=root), work=True, clock=SystemClock())
    engine.peers.is_member = lambda _device: True  # they were not paired, only given the same owner's keys
    try:
        yield engine
    finally:
        await engine.close()


def link_pair() -> tuple[Link, Link]:
    control, bulk = memory_channels(), memory_channels()
    return Link(control=control[0], bulk=bulk[0]), Link(control=control[1], bulk=bulk[1])


@asynccontextmanager
async def linked(left: LocalEngine, right: LocalEngine) -> AsyncIterator[list[asyncio.Task[ErrorInfo]]]:
    """Link two engines for as long as the block lasts."""
    mine, theirs = link_pair()
    tasks = [asyncio.create_task(left.peers.serve(mine)), asyncio.create_task(right.peers.serve(theirs))]
    try:
        await until(lambda: left.peers.is_connected(right.device.id) and right.peers.is_connected(left.device.id))
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def library_of(engine: LocalEngine) -> list[str]:
    return [film.title for film in await engine.call(api.ListLibrary())]


async def play(engine: LocalEngine, media_id: str) -> int:
    """Read a film's every segment of one rendition through the engine's gateway; return the bytes."""
    player = await engine.call(api.OpenPlayer(media_id=media_id))
    root = player.master.rsplit("/", 1)[0]
    size = 0
    async with aiohttp.ClientSession() as session:

        async def read(name: str) -> bytes:
            async with session.get(f"{root}/{name}") as answer:
                assert answer.status == 200, (name, answer.status)
                return await answer.read()

        master = (await read("master.m3u8")).decode()
        playlist = next(line for line in master.splitlines() if line and not line.startswith("#"))
        folder = playlist.rpartition("/")[0]
        for line in (await read(playlist)).decode().splitlines():
            if line and not line.startswith("#"):
                size += len(await read(f"{folder}/{line}" if folder else line))
    await engine.call(api.ClosePlayer(token=player.token))
    return size


async def test_a_film_added_on_one_device_is_in_the_library_of_the_other_and_plays_there(
    tmp_path: Path, small_film: Path
) -> None:
    async with device(tmp_path / "a") as a, device(tmp_path / "b", tmp_path / "a", work=False) as b, linked(a, b):
        job_id = await add(a, small_film)
        assert (await finished(b, job_id)).state == "done"
        (film,) = await b.call(api.ListLibrary())
        there = await play(b, film.media_id)
        assert there > 10_000
        assert there == await play(a, film.media_id)
        report = await b.call(api.VerifyVault(repair=False))
        assert (report.damaged, report.missing, report.stray, report.affected) == ((), (), (), ())


async def test_a_device_without_the_file_does_the_work_and_the_one_that_holds_it_plays(
    tmp_path: Path, small_film: Path
) -> None:
    """Reading the file's packets is done where it is; all the rest on the other device, which has no file."""
    async with device(tmp_path / "a") as a, device(tmp_path / "b", tmp_path / "a", work=False) as b, linked(a, b):
        job_id = await add(a, small_film)
        await until_queue(a, lambda store: store.accepted_plan_hash(job_id) is not None)
        await a.call(api.SetConfig(key="worker.enabled", value="off"))
        await b.call(api.SetConfig(key="worker.enabled", value="on"))
        done = await finished(a, job_id)
        assert (done.state, done.error) == ("done", None)
        makers = await makers_of(b)
        assert b.device.id in makers
        assert await play(a, done.media_id) > 10_000


async def makers_of(engine: LocalEngine) -> set[str]:
    tasks = await engine._kernel.queue(
        lambda store: [task for job in store.jobs() for task in store.tasks(job.id) if task.lease is not None]
    )
    return {task.lease.device for task in tasks if task.lease is not None}


async def test_pause_and_cancel_on_one_device_stop_the_work_of_the_other(tmp_path: Path, busy_film: Path) -> None:
    async with device(tmp_path / "a") as a, device(tmp_path / "b", tmp_path / "a", work=False) as b, linked(a, b):
        job_id = await add(a, busy_film)
        await until(lambda: any(one.target.kind == "video" for one in a._worker.running.values()))
        await until_job(b, job_id, lambda job: job.state == "processing")
        await change(b, job_id, "pause")
        await until(lambda: all(one.paused for one in a._worker.running.values()))
        await change(b, job_id, "resume")
        await until(lambda: not any(one.paused for one in a._worker.running.values()))
        await change(b, job_id, "cancel")
        await until(lambda: not a._worker.running)
        assert (await until_job(a, job_id, lambda job: job.state == "cancelled")).error is None


async def test_changes_made_apart_are_exchanged_when_devices_meet(tmp_path: Path, small_film: Path) -> None:
    async with device(tmp_path / "a") as a, device(tmp_path / "b", tmp_path / "a", work=False) as b:
        job_id = await add(a, small_film)
        await finished(a, job_id)
        assert await library_of(b) == []
        async with linked(a, b):
            await until_queue(b, lambda store: bool(store.library()))
        async with linked(a, b):
            await until_queue(b, lambda store: bool(store.library()))
        assert len(await library_of(b)) == 1


async def test_a_film_whose_only_holder_is_away_says_so_and_plays_when_it_is_back(
    tmp_path: Path, small_film: Path
) -> None:
    async with device(tmp_path / "a") as a, device(tmp_path / "b", tmp_path / "a", work=False) as b:
        async with linked(a, b):
            job_id = await add(a, small_film)
            media_id = (await finished(b, job_id)).media_id
        player = await b.call(api.OpenPlayer(media_id=media_id))
        async with aiohttp.ClientSession() as session, session.get(player.auto) as answer:
            assert answer.status == 200  # the plan is here; the pieces are not
        async with linked(a, b):
            assert await play(b, media_id) > 10_000


async def test_a_peers_bad_bytes_end_its_session_and_nothing_else(tmp_path: Path, small_film: Path) -> None:
    async with device(tmp_path / "a") as a, device(tmp_path / "b", tmp_path / "a", work=False) as b, linked(a, b):
        for bad in (b"", b"\xc1", b"\x00" * 1000, encode_spoken(Ping()), encode_spoken(Goodbye(reason="so"))):
            mine, theirs = link_pair()
            serving = asyncio.create_task(a.peers.serve(mine))
            await theirs.control.send(bad)
            ended = await asyncio.wait_for(serving, 20)
            assert ended.code in {ErrorCode.BAD_MESSAGE, ErrorCode.DISCONNECTED}
            assert ended.message
        assert a.peers.is_connected(b.device.id)
        job_id = await add(b, small_film)
        await until_queue(a, lambda store: job_id in store.job_ids())


async def test_a_copy_of_a_data_directory_is_not_talked_to(tmp_path: Path) -> None:
    async with device(tmp_path / "a"):
        pass
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    async with device(tmp_path / "a") as a, device(tmp_path / "copy") as copy:
        mine, theirs = link_pair()
        ended = await asyncio.gather(a.peers.serve(mine), copy.peers.serve(theirs))
        assert ErrorCode.NOT_TRUSTED in {one.code for one in ended}
        assert any("copy" in one.message for one in ended)


async def test_the_other_device_keeps_a_copy_that_plays_when_the_first_is_gone(
    tmp_path: Path, small_film: Path
) -> None:
    async with device(tmp_path / "b_keys"):
        pass
    async with device(tmp_path / "b", tmp_path / "b_keys", work=False) as b:
        async with device(tmp_path / "a", tmp_path / "b_keys") as a, linked(a, b):
            job_id = await add(a, small_film)
            media_id = (await finished(b, job_id)).media_id
            await until_async(lambda: is_whole(b))
        assert not b.peers.connected()
        assert await play(b, media_id) > 10_000


async def is_whole(engine: LocalEngine) -> bool:
    """Whether every piece of every film is here."""
    entries = await engine._kernel.queue(lambda store: store.library())
    films = [decode_canonical(one.outcome.value, Film) for one in entries if one.stage is PublishStage.FULL]
    bundles = [bundle for film in films for bundle in bundles_in(film)]
    found = [await engine._kernel.store(lambda storage, one=one: missing_of(storage, one)) for one in bundles]  # type: ignore[misc]
    return bool(found) and not any(found)


async def until_async(is_so: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await is_so():  # noqa: ASYNC110 (files tell nobody when they come)
            await asyncio.sleep(0.05)


async def test_a_device_that_is_out_loses_its_session_and_gets_no_new_one(tmp_path: Path, small_film: Path) -> None:
    async with device(tmp_path / "a") as a, device(tmp_path / "b", tmp_path / "a", work=False) as b:
        async with linked(a, b) as tasks:
            await a.peers.end_all_but({a.device.id})
            ended = await asyncio.wait_for(tasks[1], 20)
            assert (ended.code, "does not belong" in ended.message) == (ErrorCode.DISCONNECTED, True)
        a.peers.is_member = lambda device: device == a.device.id
        job_id = await add(a, small_film)
        mine, theirs = link_pair()
        here, there = await asyncio.gather(a.peers.serve(mine), b.peers.serve(theirs))
        assert here.code == ErrorCode.NOT_TRUSTED
        assert "does not belong" in there.message
        assert await b._kernel.queue(lambda store: job_id not in store.job_ids())


async def test_two_computers_that_push_each_other_out_are_called_copies(tmp_path: Path) -> None:
    async with device(tmp_path / "a", work=False) as a:
        for _ in range(COPY_SIGNS):
            assert not a.peers.troubles
            a.peers._note_displaced("d", "Tower")
        assert "copies" in a.peers.troubles["d"].message
        assert "Tower" in a.peers.troubles["d"].message
