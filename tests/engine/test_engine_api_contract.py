"""What every ``EngineApi`` must do, run on the engine in this process and on one reached over its socket."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import get_args

import aiohttp
import msgspec
import pytest

from app.core.errors import ErrorCode, ExpectedError
from app.core.ids import media_id_of
from app.core.paths import DataDir
from app.engine import api
from app.engine.local import LocalEngine
from app.engine.lock import read_endpoint
from app.engine.remote import RemoteEngine
from app.engine.server import EngineServer
from tests.engine.stage import engine_on, shards_in, variant_of


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """An engine whose library holds one film, and how to get at it."""

    engine: api.EngineApi
    local: LocalEngine
    root: Path
    connect: Callable[[], Awaitable[api.EngineApi]]


@pytest.fixture(params=["local", "remote"])
async def stage(request: pytest.FixtureRequest, library_root: Path) -> AsyncIterator[Stage]:
    clients: list[RemoteEngine] = []
    async with engine_on(library_root, work=False) as local:
        server = EngineServer(local)
        await server.start()

        async def connect() -> api.EngineApi:
            if request.param == "local":
                return local
            endpoint = read_endpoint(DataDir(root=library_root))
            assert endpoint is not None
            clients.append(await RemoteEngine.connect(endpoint))
            return clients[-1]

        yield Stage(engine=await connect(), local=local, root=library_root, connect=connect)
        for client in clients:
            await client.close()
        await server.close()


@pytest.fixture
async def film(stage: Stage) -> api.FilmSnapshot:
    (only,) = await stage.engine.call(api.ListLibrary())
    return only


async def refused(work: Awaitable[object]) -> ErrorCode:
    """Return the code with which ``work`` is refused; its sentence must say something."""
    with pytest.raises(ExpectedError) as caught:
        await work
    assert caught.value.message.endswith((".", "?"))
    return caught.value.code


def test_the_wire_knows_every_command_and_its_reply() -> None:
    known = set(get_args(api.AnyCommand))
    assert known == set(api.Command.__subclasses__())
    assert {one for one in known if one.reply is None} == {api.SeekPlayer, api.ClosePlayer}


# Jobs


async def test_a_file_is_added_once(stage: Stage, small_film: Path, tmp_path: Path) -> None:
    other = variant_of(small_film, tmp_path / "other.mp4")
    added = await stage.engine.call(api.AddPath(path=os.fsencode(other)))
    assert added.job_id is not None
    assert (added.path, added.state, added.error, added.already) == (str(other), "queued", None, False)
    assert added.media_id == media_id_of(added.job_id)
    again = await stage.engine.call(api.AddPath(path=os.fsencode(other)))
    assert (again.job_id, again.media_id, again.already) == (added.job_id, added.media_id, True)


async def test_a_done_film_is_there_already(stage: Stage, film: api.FilmSnapshot, small_film: Path) -> None:
    again = await stage.engine.call(api.AddPath(path=os.fsencode(small_film)))
    assert (again.job_id, again.state, again.already) == (film.job_id, "done", True)


async def test_adding_a_film_in_the_trash_restores_it(stage: Stage, film: api.FilmSnapshot, small_film: Path) -> None:
    await stage.engine.call(api.RemoveFilm(media_id=film.media_id))
    again = await stage.engine.call(api.AddPath(path=os.fsencode(small_film)))
    assert (again.job_id, again.state, again.already) == (film.job_id, "done", True)
    assert [one.media_id for one in await stage.engine.call(api.ListLibrary())] == [film.media_id]


async def test_adding_a_cancelled_job_retries_it(stage: Stage, other_job: api.JobSnapshot, other_film: Path) -> None:
    await stage.engine.call(api.ChangeJob(job_id=other_job.id, action="cancel"))
    again = await stage.engine.call(api.AddPath(path=os.fsencode(other_film)))
    assert (again.job_id, again.state, again.already) == (other_job.id, "queued", True)


async def test_another_profile_is_another_job(stage: Stage, film: api.FilmSnapshot, small_film: Path) -> None:
    added = await stage.engine.call(api.AddPath(path=os.fsencode(small_film), profile="passthrough"))
    assert added.job_id not in {None, film.job_id}
    assert added.already is False


async def test_an_unknown_profile_is_a_bad_setting(stage: Stage, small_film: Path) -> None:
    command = api.AddPath(path=os.fsencode(small_film), profile="best")
    assert await refused(stage.engine.call(command)) is ErrorCode.BAD_SETTING


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("nothing.mp4", None, "not-found"),
        ("empty.mp4", b"", "empty"),
        ("page.mp4", b"<!doctype html><title>no</title>", "not-a-video"),
        ("picture.mp4", b"\x89PNG\r\n\x1a\n" + bytes(64), "picture"),
        ("list.mp4", b"#EXTM3U\n#EXTINF:1,\nhttp://127.0.0.1/a.ts\n", "playlist"),
        ("nul\0name.mp4", None, "not-found"),
    ],
)
async def test_what_can_never_be_a_film_is_refused_without_a_row(
    stage: Stage, tmp_path: Path, name: str, content: bytes | None, code: str
) -> None:
    path = os.fsencode(tmp_path) + b"/" + name.encode()
    if content is not None:
        await asyncio.to_thread(Path(os.fsdecode(path)).write_bytes, content)
    added = await stage.engine.call(api.AddPath(path=path))
    assert (added.job_id, added.media_id, added.state) == (None, None, "refused")
    assert added.error is not None
    assert added.error.code == code
    assert len(await stage.engine.call(api.ListJobs())) == 1


async def test_a_folder_is_refused(stage: Stage, tmp_path: Path) -> None:
    added = await stage.engine.call(api.AddPath(path=os.fsencode(tmp_path)))
    assert (added.job_id, added.state) == (None, "refused")


@pytest.fixture
def other_film(small_film: Path, tmp_path: Path) -> Path:
    return variant_of(small_film, tmp_path / "other.mp4")


@pytest.fixture
async def other_job(stage: Stage, other_film: Path) -> api.JobSnapshot:
    added = await stage.engine.call(api.AddPath(path=os.fsencode(other_film)))
    assert added.job_id is not None
    return await stage.engine.call(api.GetJob(job_id=added.job_id))


async def test_jobs_are_listed_in_the_order_of_adding(
    stage: Stage, film: api.FilmSnapshot, other_job: api.JobSnapshot
) -> None:
    jobs = await stage.engine.call(api.ListJobs())
    assert [one.id for one in jobs] == [film.job_id, other_job.id]
    assert [(one.title, one.state, one.progress) for one in jobs] == [("small", "done", 1.0), ("other", "queued", None)]
    assert all(one.tasks == () for one in jobs)


def test_a_job_shows_its_tasks_and_its_source(other_job: api.JobSnapshot, other_film: Path) -> None:
    assert [(task.kind, task.target, task.state) for task in other_job.tasks] == [("index", "index", "available")]
    assert other_job.source == str(other_film)
    assert other_job.size_bytes == other_film.stat().st_size
    assert other_job.actions == ("pause", "cancel", "remove")
    assert other_job.playable is False


async def test_ids_may_be_shortened_but_not_guessed(stage: Stage, film: api.FilmSnapshot) -> None:
    assert (await stage.engine.call(api.GetJob(job_id=film.job_id[:6]))).id == film.job_id
    assert (await stage.engine.call(api.GetFilm(media_id=film.media_id[:6].upper()))).media_id == film.media_id
    assert await refused(stage.engine.call(api.GetJob(job_id=film.job_id[:5]))) is ErrorCode.NO_SUCH_ID
    assert await refused(stage.engine.call(api.GetJob(job_id=""))) is ErrorCode.NO_SUCH_ID
    assert await refused(stage.engine.call(api.GetFilm(media_id="f" * 32))) is ErrorCode.NO_SUCH_ID


async def test_a_job_is_paused_resumed_cancelled_and_retried(stage: Stage, other_job: api.JobSnapshot) -> None:
    states = [
        (await stage.engine.call(api.ChangeJob(job_id=other_job.id, action=action))).state
        for action in ("pause", "pause", "resume", "resume", "cancel", "cancel", "retry", "retry")
    ]
    assert states == ["paused", "paused", "queued", "queued", "cancelled", "cancelled", "queued", "queued"]


@pytest.mark.parametrize("action", ["pause", "cancel", "retry"])
async def test_a_done_job_cannot_be_changed(stage: Stage, film: api.FilmSnapshot, action: str) -> None:
    command = api.ChangeJob(job_id=film.job_id, action=action)
    assert await refused(stage.engine.call(command)) is ErrorCode.ALREADY_DONE


async def test_a_job_that_is_not_done_is_removed_for_good(stage: Stage, other_job: api.JobSnapshot) -> None:
    removed = await stage.engine.call(api.ChangeJob(job_id=other_job.id, action="remove"))
    assert removed.id == other_job.id
    assert await refused(stage.engine.call(api.GetJob(job_id=other_job.id))) is ErrorCode.NO_SUCH_ID


async def test_priority_is_kept_within_bounds(stage: Stage, other_job: api.JobSnapshot) -> None:
    assert (await stage.engine.call(api.SetPriority(job_id=other_job.id, priority=1000))).id == other_job.id
    command = api.SetPriority(job_id=other_job.id, priority=1001)
    assert await refused(stage.engine.call(command)) is ErrorCode.BAD_SETTING


# Films


async def test_the_library_tells_what_a_film_has(stage: Stage, film: api.FilmSnapshot) -> None:
    assert (film.title, film.state, film.has_poster, film.progress) == ("small", "ready", True, None)
    assert film.duration_s == pytest.approx(6, abs=0.05)
    assert [(one.name, one.width, one.height, one.kind) for one in film.renditions] == [
        ("180", 320, 180, "passthrough")
    ]
    assert all(one.peak and one.average and one.peak >= one.average for one in film.renditions)
    assert [one.name for one in film.audio] == ["a0"]
    assert await stage.engine.call(api.GetFilm(media_id=film.media_id)) == film


async def test_a_film_has_a_poster_and_one_in_the_making_has_none(
    stage: Stage, film: api.FilmSnapshot, other_job: api.JobSnapshot
) -> None:
    poster = await stage.engine.call(api.GetPoster(media_id=film.media_id))
    assert poster is not None
    assert poster.startswith(b"\xff\xd8")
    assert await refused(stage.engine.call(api.GetPoster(media_id="0" * 32))) is ErrorCode.NO_SUCH_ID
    assert await stage.engine.call(api.GetPoster(media_id=other_job.media_id)) is None


async def test_text_that_a_film_has_not_is_refused(
    stage: Stage, film: api.FilmSnapshot, other_job: api.JobSnapshot
) -> None:
    assert (film.text, film.chapters) == ((), ())
    assert await refused(stage.engine.call(api.GetText(media_id=film.media_id, name="t0"))) is ErrorCode.NO_SUCH_ID
    assert await refused(stage.engine.call(api.GetText(media_id=film.media_id, name="a0"))) is ErrorCode.NO_SUCH_ID
    assert await refused(stage.engine.call(api.GetText(media_id=other_job.media_id, name="t0"))) is ErrorCode.NOT_DONE


async def test_a_film_goes_to_the_trash_and_comes_back(stage: Stage, film: api.FilmSnapshot) -> None:
    assert (await stage.engine.call(api.RemoveFilm(media_id=film.media_id))).state == "trashed"
    assert [one.media_id for one in await stage.engine.call(api.ListTrash())] == [film.media_id]
    assert await stage.engine.call(api.ListLibrary()) == ()
    assert await stage.engine.call(api.RestoreFilm(media_id=film.media_id)) == film
    assert await stage.engine.call(api.ListTrash()) == ()


async def test_emptying_the_trash_says_how_many_went(stage: Stage, film: api.FilmSnapshot) -> None:
    assert await stage.engine.call(api.EmptyTrash()) == 0
    await stage.engine.call(api.RemoveFilm(media_id=film.media_id))
    assert await stage.engine.call(api.EmptyTrash()) == 1
    assert shards_in(stage.root) == {}
    assert await refused(stage.engine.call(api.RestoreFilm(media_id=film.media_id))) is ErrorCode.NO_SUCH_ID


async def test_a_player_gets_addresses_that_play_until_it_is_closed(stage: Stage, film: api.FilmSnapshot) -> None:
    player = await stage.engine.call(api.OpenPlayer(media_id=film.media_id[:8]))
    assert (player.media_id, player.duration_s) == (film.media_id, film.duration_s)
    assert player.sheets is not None
    assert player.sheet_layout is not None
    async with aiohttp.ClientSession() as session:
        for url in (player.master, player.auto, player.sheets + "0.jpg"):
            async with session.get(url) as answer:
                assert answer.status == 200, url
        await stage.engine.call(api.SeekPlayer(token=player.token, position_ms=3000))
        await stage.engine.call(api.ClosePlayer(token=player.token))
        async with session.get(player.master) as answer:
            assert answer.status == 404
    command = api.SeekPlayer(token=player.token, position_ms=0)
    assert await refused(stage.engine.call(command)) is ErrorCode.NO_SUCH_ID


async def test_a_film_that_was_not_looked_at_cannot_be_played_yet(stage: Stage, other_job: api.JobSnapshot) -> None:
    command = api.OpenPlayer(media_id=other_job.media_id)
    assert await refused(stage.engine.call(command)) is ErrorCode.NOT_DONE


def names_in(folder: Path, *, starting: tuple[str, ...]) -> list[str]:
    return [one.name for one in folder.iterdir() if one.name.startswith(starting)]


@pytest.mark.slow
async def test_a_film_is_exported_with_progress_and_never_over_a_file(
    stage: Stage, film: api.FilmSnapshot, tmp_path: Path
) -> None:
    target = tmp_path / "out.mp4"
    shares: list[float] = []
    command = api.ExportFilm(media_id=film.media_id, path=os.fsencode(target))
    size = await stage.engine.call(command, progress=lambda share, _what: shares.append(share))
    assert size == len(await asyncio.to_thread(target.read_bytes)) > 50_000
    assert shares == sorted(shares)
    assert all(0 <= one <= 1 for one in shares)
    assert await refused(stage.engine.call(command)) is ErrorCode.ALREADY_DONE
    await stage.engine.call(msgspec.structs.replace(command, overwrite=True))
    assert names_in(tmp_path, starting=(".", "out")) == ["out.mp4"]


async def test_an_export_into_nowhere_fails_and_leaves_nothing(
    stage: Stage, film: api.FilmSnapshot, tmp_path: Path, other_job: api.JobSnapshot
) -> None:
    nowhere = api.ExportFilm(media_id=film.media_id, path=os.fsencode(tmp_path / "no folder" / "out.mp4"))
    with pytest.raises(ExpectedError):
        await stage.engine.call(nowhere)
    unfinished = api.ExportFilm(media_id=other_job.media_id, path=os.fsencode(tmp_path / "out.mp4"))
    assert await refused(stage.engine.call(unfinished)) is ErrorCode.NOT_DONE


# The rest


async def test_settings_are_shown_and_changed(stage: Stage) -> None:
    assert (await stage.engine.call(api.GetConfig()))["vault.copies"] == 2
    assert (await stage.engine.call(api.SetConfig(key="vault.copies", value="3")))["vault.copies"] == 3
    assert (await stage.engine.call(api.SetConfig(key="vault.quota", value="1.5G")))["vault.quota"] == 1_500_000_000
    assert await refused(stage.engine.call(api.SetConfig(key="vault.copies", value="none"))) is ErrorCode.BAD_SETTING
    assert await refused(stage.engine.call(api.SetConfig(key="no.such", value="1"))) is ErrorCode.BAD_SETTING
    assert (await stage.engine.call(api.GetConfig()))["vault.copies"] == 3


async def test_verify_finds_a_flipped_byte_and_a_missing_shard(stage: Stage, film: api.FilmSnapshot) -> None:
    clean = await stage.engine.call(api.VerifyVault())
    vault = DataDir(root=stage.root).vault
    shards = sorted(shards_in(stage.root), key=lambda name: -(vault / name[:2] / name).stat().st_size)
    assert (clean.clean, clean.shards) == (True, len(shards))
    damaged, missing = (vault / name[:2] / name for name in shards[:2])  # the largest: segments, not lists of them
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    missing.unlink()
    shares: list[float] = []
    report = await stage.engine.call(api.VerifyVault(), progress=lambda share, _what: shares.append(share))
    assert (report.damaged, report.missing) == ((shards[0],), (shards[1],))
    assert [one.media_id for one in report.affected] == [film.media_id]
    assert report.clean is False
    assert shares == sorted(shares)


@pytest.mark.slow
async def test_the_doctor_looks_at_the_machine(stage: Stage) -> None:
    report = await stage.engine.call(api.RunDoctor())
    assert report.encoders["libx264"] == "works"
    assert report.data_dir == str(stage.root)
    assert report.vault_bytes == sum(shards_in(stage.root).values())
    assert {"python", "av", "sqlite"} <= set(report.versions)


async def test_status_says_whether_anything_works(stage: Stage) -> None:
    status = await stage.engine.call(api.GetStatus())
    assert status == api.EngineStatus(working=False, trouble=None, idle=True)


# Events


async def test_the_first_event_holds_everything_and_the_next_what_changed(
    stage: Stage, film: api.FilmSnapshot, other_job: api.JobSnapshot
) -> None:
    events = aiter(stage.engine.events())
    first = await anext(events)
    assert {one.id for one in first.jobs} == {film.job_id, other_job.id}
    assert first.library is True
    assert first.status == await stage.engine.call(api.GetStatus())
    await stage.engine.call(api.ChangeJob(job_id=other_job.id, action="pause"))
    while not (found := [one for one in (await anext(events)).jobs if one.state == "paused"]):
        pass
    assert [one.id for one in found] == [other_job.id]
    await stage.engine.call(api.ChangeJob(job_id=other_job.id, action="remove"))
    while not (gone := (await anext(events)).gone):
        pass
    assert gone == (other_job.id,)
    await stage.engine.call(api.RemoveFilm(media_id=film.media_id))
    while not (event := await anext(events)).library:
        pass
    assert event.gone == ()


async def test_two_clients_at_once_see_each_others_changes(stage: Stage, other_job: api.JobSnapshot) -> None:
    second = await stage.connect()
    events = aiter(second.events())
    await anext(events)
    commands = [api.ChangeJob(job_id=other_job.id, action="pause"), api.ListJobs(), api.GetStatus(), api.GetConfig()]
    await asyncio.gather(*(one.call(command) for one in (stage.engine, second) for command in commands))
    while not any(one.state == "paused" for one in (await anext(events)).jobs):
        pass


async def test_a_call_that_is_cancelled_harms_nobody(stage: Stage) -> None:
    for _ in range(20):
        call = asyncio.ensure_future(stage.engine.call(api.ListJobs()))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert len(await stage.engine.call(api.ListJobs())) == 1


async def test_lost_results_are_made_again_by_retry(stage: Stage, film: api.FilmSnapshot) -> None:
    name = max(shards_in(stage.root).items(), key=lambda one: one[1])[0]
    (DataDir(root=stage.root).vault / name[:2] / name).unlink()
    job = await stage.engine.call(api.ChangeJob(job_id=film.job_id, action="retry"))
    assert job.state == "queued"
