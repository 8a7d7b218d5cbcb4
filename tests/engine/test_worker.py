"""The worker with real children: jobs from adding to the end, and what owners, disks and crashes do to them."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
from collections import namedtuple
from pathlib import Path

import psutil
import pytest

from app.core.clock import ManualClock
from app.core.errors import ErrorCode, ExpectedError
from app.engine import api
from app.engine.local import LocalEngine
from app.media.film import PublishStage
from tests.engine.stage import (
    add,
    change,
    children_of,
    dying_supervisor,
    engine_on,
    finished,
    job_of,
    left_in,
    make_busy_film,
    rates_of,
    refusing_supervisor,
    shards_in,
    until,
    until_job,
    until_queue,
)

pytestmark = pytest.mark.slow

_Usage = namedtuple("_Usage", "total used free")  # noqa: PYI024 (the shape of shutil's own)


def _is_encoding(job: api.JobSnapshot) -> bool:
    """Whether part of the film is made: its progress tells of work inside a task."""
    return job.state == "processing" and (job.progress or 0) > 0.02


def _segments(engine: LocalEngine, job_id: str) -> tuple[str, ...]:
    return engine._kernel.storage.segments.of_job(job_id)


async def test_a_film_that_is_added_is_done_and_plays(root: Path, small_film: Path) -> None:
    async with engine_on(root) as engine:
        job = await finished(engine, await add(engine, small_film))
        assert (job.state, job.progress, job.error, job.actions) == ("done", 1.0, None, ("remove",))
        assert job.duration_s == pytest.approx(6, abs=0.1)
        film = await engine.call(api.GetFilm(media_id=job.media_id))
        assert film.state == "ready"
        assert film.size_bytes > 0
        assert [one.name for one in film.renditions] == ["180"]
        poster = await engine.call(api.GetPoster(media_id=job.media_id))
        assert poster is not None
        assert poster.startswith(b"\xff\xd8")
        assert (await engine.call(api.VerifyVault())).clean
        assert _segments(engine, job.id) == ()
        assert children_of() == []


async def test_progress_never_falls_within_a_round(root: Path, small_film: Path) -> None:
    async with engine_on(root) as engine:
        seen: list[api.JobSnapshot] = []
        job_id = await add(engine, small_film)
        async for event in engine.events():
            seen += [job for job in event.jobs if job.id == job_id]
            if seen[-1].state == "done":
                break
        progress = rates_of(seen)
        assert progress == sorted(progress)
        assert progress[-1] == 1.0


async def test_pause_freezes_the_children_at_once_and_resume_lets_them_go_on(root: Path, busy_film: Path) -> None:
    async with engine_on(root) as engine:
        job_id = await add(engine, busy_film)
        await until_job(engine, job_id, _is_encoding)
        paused = await change(engine, job_id, "pause")
        assert paused.state == "paused"
        assert "resume" in paused.actions
        stopped = children_of()
        assert stopped
        await until(lambda: all(one.status() == psutil.STATUS_STOPPED for one in stopped), patience_s=1)
        used = [one.cpu_times().user for one in stopped]
        before = (await job_of(engine, job_id)).progress
        await _look_away(0.5)
        assert [one.cpu_times().user for one in stopped] == used
        assert (await job_of(engine, job_id)).progress == before
        assert children_of() == stopped
        held = {task_id: one.lease.epoch for task_id, one in engine._worker.running.items()}
        await change(engine, job_id, "resume")
        await until_job(engine, job_id, lambda job: (job.progress or 0) > (before or 0) and job.state == "processing")
        leases = await engine._kernel.queue(lambda store: {task_id: store.task(task_id).lease for task_id in held})
        assert {task_id: lease and lease.epoch for task_id, lease in leases.items()} == held


async def _look_away(seconds: float) -> None:
    """Let real time pass, where the point is that nothing happens in it."""
    await asyncio.sleep(seconds)


async def test_a_paused_job_is_paused_after_a_restart_and_then_goes_on(root: Path, busy_film: Path) -> None:
    async with engine_on(root) as engine:
        job_id = await add(engine, busy_film)
        await until_job(engine, job_id, _is_encoding)
        await change(engine, job_id, "pause")
        before = (await job_of(engine, job_id)).progress or 0
    assert children_of() == []
    async with engine_on(root) as engine:
        again = await job_of(engine, job_id)
        assert again.state == "paused"
        assert (again.progress or 0) >= before
        assert children_of() == []
        await change(engine, job_id, "resume")
        await until_job(engine, job_id, lambda job: job.state == "processing" and (job.progress or 0) > before)


async def test_cancel_ends_the_children_within_two_seconds_and_leaves_nothing(root: Path, busy_film: Path) -> None:
    async with engine_on(root) as engine:
        job_id = await add(engine, busy_film)
        await until_job(engine, job_id, lambda job: (job.progress or 0) > 0.1)
        assert shards_in(root)
        async with asyncio.timeout(2):
            cancelled = await change(engine, job_id, "cancel")
        assert cancelled.state == "cancelled"
        assert cancelled.actions == ("retry", "remove")
        assert children_of() == []
        assert left_in(root) == {}
        assert _segments(engine, job_id) == ()
        assert (await engine.call(api.ListLibrary())) == ()
        assert (await engine.call(api.VerifyVault())).clean
        await change(engine, job_id, "retry")
        await until_job(engine, job_id, _is_encoding)
        await change(engine, job_id, "cancel")
        assert (left_in(root), children_of()) == ({}, [])


async def test_cancel_at_any_moment_leaves_no_shard(root: Path, busy_film: Path) -> None:
    """Segments are sealed on threads that cannot be stopped half-way; they must not write behind the cancel."""
    async with engine_on(root) as engine:
        job_id = await add(engine, busy_film)
        for count in range(1, 8):
            await until(lambda count=count: len(_segments(engine, job_id)) >= count)  # type: ignore[misc]
            await change(engine, job_id, "cancel")
            assert (left_in(root), _segments(engine, job_id)) == ({}, ())
            await change(engine, job_id, "retry")


async def test_a_paused_job_can_be_cancelled(root: Path, busy_film: Path) -> None:
    async with engine_on(root) as engine:
        job_id = await add(engine, busy_film)
        await until_job(engine, job_id, _is_encoding)
        await change(engine, job_id, "pause")
        await change(engine, job_id, "cancel")
        assert (children_of(), left_in(root)) == ([], {})


async def test_remove_of_a_running_job_forgets_it_at_once(root: Path, busy_film: Path) -> None:
    async with engine_on(root) as engine:
        job_id = await add(engine, busy_film)
        await until_job(engine, job_id, _is_encoding)
        await change(engine, job_id, "remove")
        assert (children_of(), left_in(root)) == ([], {})
        assert (await engine.call(api.ListJobs())) == ()
        with pytest.raises(ExpectedError, match="nothing with the id"):
            await job_of(engine, job_id)
    assert os.path.exists(busy_film)  # noqa: PTH110, ASYNC240 (a look at the test's own file)


async def test_a_removed_film_goes_to_the_trash_and_comes_back(library_root: Path) -> None:
    async with engine_on(library_root) as engine:
        (film,) = await engine.call(api.ListLibrary())
        before = shards_in(library_root)
        await change(engine, film.job_id, "remove")
        assert (await engine.call(api.ListLibrary())) == ()
        (trashed,) = await engine.call(api.ListTrash())
        assert trashed.state == "trashed"
        assert trashed.trashed_at_ms is not None
        assert shards_in(library_root) == before
        restored = await engine.call(api.RestoreFilm(media_id=film.media_id))
        assert restored.state == "ready"
        assert (await engine.call(api.ListTrash())) == ()


async def test_emptying_the_trash_gives_the_space_back(library_root: Path, busy_film: Path) -> None:
    async with engine_on(library_root) as engine:
        (film,) = await engine.call(api.ListLibrary())
        before = shards_in(library_root)
        job_id = await add(engine, busy_film)
        await until_job(engine, job_id, lambda job: (job.progress or 0) > 0.1)
        await change(engine, job_id, "cancel")
        assert left_in(library_root).items() <= before.items()
        await engine.call(api.RemoveFilm(media_id=film.media_id))
        assert await engine.call(api.EmptyTrash()) == 1
        assert left_in(library_root) == {}
        assert {job.id for job in await engine.call(api.ListJobs())} == {job_id}


async def test_a_film_is_removed_at_once_when_asked(library_root: Path) -> None:
    async with engine_on(library_root) as engine:
        (film,) = await engine.call(api.ListLibrary())
        await engine.call(api.RemoveFilm(media_id=film.media_id, now=True))
        assert shards_in(library_root) == {}
        assert (await engine.call(api.ListTrash())) == ()


async def test_a_film_waits_thirty_days_in_the_trash(
    library_root: Path, monkeypatch: pytest.MonkeyPatch, clock: ManualClock
) -> None:
    monkeypatch.setattr("app.engine.local.FIRST_COLLECT_S", 0.0)
    monkeypatch.setattr("app.engine.local.COLLECT_INTERVAL_S", 0.01)
    async with engine_on(library_root, clock=clock) as engine:
        (film,) = await engine.call(api.ListLibrary())
        await engine.call(api.RemoveFilm(media_id=film.media_id))
        clock.advance(29.9 * 24 * 3600)
        await _look_away(0.2)
        assert len(await engine.call(api.ListTrash())) == 1
        clock.advance(0.2 * 24 * 3600)
        await until(lambda: not shards_in(library_root))


async def test_a_source_that_goes_away_is_an_error_until_it_is_back(
    root: Path, busy_film: Path, tmp_path: Path
) -> None:
    film = tmp_path / "film.mp4"
    shutil.copy(busy_film, film)
    async with engine_on(root) as engine:
        job_id = await add(engine, film)
        await until_job(engine, job_id, _is_encoding)
        await engine.call(api.SetConfig(key="worker.enabled", value="off"))
        film.rename(tmp_path / "elsewhere.mp4")
        await engine.call(api.SetConfig(key="worker.enabled", value="on"))
        failed = await finished(engine, job_id)
        assert failed.state == "error"
        assert failed.error is not None
        assert failed.error.code == ErrorCode.SOURCE_GONE
        assert "retry" in failed.actions
        (tmp_path / "elsewhere.mp4").rename(film)
        await change(engine, job_id, "retry")
        await until_job(engine, job_id, _is_encoding)


async def test_a_source_that_changes_is_an_error(root: Path, small_film: Path, tmp_path: Path) -> None:
    film = tmp_path / "film.mp4"
    shutil.copy(small_film, film)
    async with engine_on(root, work=False) as engine:
        job_id = await add(engine, film)
    with film.open("r+b") as file:
        file.seek(-10, os.SEEK_END)
        file.write(b"otherwise!")
    async with engine_on(root) as engine:
        failed = await finished(engine, job_id)
        assert failed.error is not None
        assert failed.error.code == ErrorCode.SOURCE_CHANGED
        shutil.copy(small_film, film)
        await change(engine, job_id, "retry")
        assert (await finished(engine, job_id)).state == "done"


async def test_retry_before_there_is_a_plan_takes_the_file_as_it_is_now(
    root: Path, small_film: Path, tmp_path: Path
) -> None:
    film = tmp_path / "film.mp4"
    shutil.copy(small_film, film)
    async with engine_on(root, work=False) as engine:
        job_id = await add(engine, film)
    with film.open("ab") as file:
        file.write((16).to_bytes(4, "big") + b"free" + bytes(8))
    async with engine_on(root) as engine:
        failed = await finished(engine, job_id)
        assert failed.error is not None
        assert failed.error.code == ErrorCode.SOURCE_CHANGED
        await change(engine, job_id, "retry")
        done = await finished(engine, job_id)
        assert (done.state, done.size_bytes) == ("done", film.stat().st_size)


async def test_a_film_added_again_at_another_place_is_found_there(root: Path, small_film: Path, tmp_path: Path) -> None:
    film = tmp_path / "film.mp4"
    shutil.copy(small_film, film)
    async with engine_on(root, work=False) as engine:
        job_id = await add(engine, film)
    film.unlink()
    async with engine_on(root) as engine:
        assert (await finished(engine, job_id)).state == "error"
        again = await engine.call(api.AddPath(path=os.fsencode(small_film)))
        assert (again.job_id, again.already, again.state) == (job_id, True, "queued")
        assert (await finished(engine, job_id)).state == "done"


async def test_a_child_that_crashes_is_a_failed_attempt_and_the_job_goes_on(
    root: Path, small_film: Path, tmp_path: Path, clock: ManualClock
) -> None:
    supervisor = dying_supervisor(tmp_path / "tally", on="MakeAudio", times=1)
    async with engine_on(root, clock=clock, supervisor=supervisor) as engine:
        job_id = await add(engine, small_film)
        tried = await until_job(engine, job_id, lambda job: "attempt 2 of 3" in (job.reason or ""))
        assert tried.state in {"queued", "processing"}
        failed = [
            (task.kind, task.attempts, task.error) for task in (await job_of(engine, job_id)).tasks if task.attempts
        ]
        assert [(kind, attempts) for kind, attempts, _ in failed] == [("audio", 1)], failed
        clock.advance(6)
        await change(engine, job_id, "resume")
        assert (await finished(engine, job_id)).state == "done"


async def test_three_crashes_are_an_error_and_retry_begins_anew(
    root: Path, small_film: Path, tmp_path: Path, clock: ManualClock
) -> None:
    supervisor = dying_supervisor(tmp_path / "tally", on="MakeAudio", times=3)
    async with engine_on(root, clock=clock, supervisor=supervisor) as engine:
        job_id = await add(engine, small_film)
        for attempt, rest_s in ((2, 6), (3, 31)):
            text = f"attempt {attempt} of 3"
            await until_job(engine, job_id, lambda job, text=text: text in (job.reason or ""))  # type: ignore[misc]
            clock.advance(rest_s)
            await engine.call(api.SetPriority(job_id=job_id, priority=attempt))
        failed = await finished(engine, job_id)
        assert failed.state == "error"
        assert failed.error is not None
        assert failed.error.code == ErrorCode.WORKER_CRASHED
        assert "signal 9" in failed.error.message
        assert (await engine.call(api.GetStatus())).trouble is None
        await change(engine, job_id, "retry")
        assert (await finished(engine, job_id)).state == "done"


async def test_an_error_that_no_other_try_can_help_is_final_at_once(
    root: Path, small_film: Path, tmp_path: Path
) -> None:
    async with engine_on(root, supervisor=refusing_supervisor(tmp_path / "tally", on="MakeAudio")) as engine:
        job_id = await add(engine, small_film)
        failed = await finished(engine, job_id)
        assert (failed.state, failed.reason) == ("error", "It is locked.")
        assert failed.error is not None
        assert failed.error.code == ErrorCode.PROTECTED
        await change(engine, job_id, "retry")
        assert (await finished(engine, job_id)).state == "done"


async def test_a_full_disk_rests_all_work_and_it_goes_on_by_itself(
    root: Path, small_film: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = shutil.disk_usage(root.parent)
    full = [True]
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: _Usage(real.total, real.total, 0) if full[0] else real)
    async with engine_on(root, clock=clock) as engine:
        job_id = await add(engine, small_film)
        await until(lambda: engine._kernel.trouble is not None)
        status = await engine.call(api.GetStatus())
        assert status.trouble is not None
        assert status.trouble.code == ErrorCode.DISK_FULL
        waiting = await until_job(engine, job_id, lambda job: job.state == "queued")
        assert "full" in (waiting.reason or "") or "left" in (waiting.reason or "")
        assert all(task.attempts == 0 for task in (await job_of(engine, job_id)).tasks)
        await until(lambda: not engine._worker.running)
        clock.advance(11)
        await engine.call(api.SetPriority(job_id=job_id, priority=2))
        await _look_away(0.3)
        assert (engine._worker.running, (await engine.call(api.GetStatus())).trouble) == ({}, status.trouble)
        full[0] = False
        clock.advance(11)
        await engine.call(api.SetPriority(job_id=job_id, priority=1))
        assert (await finished(engine, job_id)).state == "done"
        assert (await engine.call(api.GetStatus())).trouble is None
        assert (await engine.call(api.VerifyVault())).clean


async def test_an_end_that_cannot_be_written_is_written_when_the_disk_can_be_written_again(
    root: Path, busy_film: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the task would count as held for ever, by nobody."""
    async with engine_on(root, clock=clock) as engine:
        job_id = await add(engine, busy_film)
        await until_job(engine, job_id, _is_encoding)
        database = engine._kernel._queue_database._connection
        real = shutil.disk_usage(root.parent)
        database.execute("PRAGMA query_only = 1")
        monkeypatch.setattr(shutil, "disk_usage", lambda _path: _Usage(real.total, real.total, 0))
        held = {task_id for task_id, one in engine._worker.running.items() if one.target.kind == "video"}
        assert held
        await until(lambda: not engine._worker.running)
        assert (await engine.call(api.GetStatus())).trouble is not None
        assert held <= await engine._kernel.queue(lambda store: {task.id for task in store.live_leases()})
        monkeypatch.undo()
        database.execute("PRAGMA query_only = 0")
        clock.advance(11)
        await engine.call(api.SetPriority(job_id=job_id, priority=1))
        await until(lambda: bool(held & set(engine._worker.running)))


async def test_a_database_that_another_program_holds_for_some_seconds_is_waited_for(
    root: Path, small_film: Path
) -> None:
    async with engine_on(root) as engine:
        job_id = await add(engine, small_film)
        other = sqlite3.connect(root / "hearthreel.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        await _look_away(2)
        other.execute("ROLLBACK")
        other.close()
        assert (await finished(engine, job_id)).state == "done"


async def test_a_crash_loop_of_the_whole_engine_does_not_last_for_ever(root: Path, small_film: Path) -> None:
    """A lease that its engine never ended is ended at the next start; the fifth such end costs an attempt."""
    async with engine_on(root, work=False) as engine:
        job_id = await add(engine, small_film)
    for _ in range(7):
        async with engine_on(root, work=False) as engine:
            await engine._kernel.queue(lambda store: store.claim(store.all_open_tasks()[0].id))
    async with engine_on(root, work=False) as engine:
        failed = await job_of(engine, job_id)
        assert failed.state == "error"
        assert failed.error is not None
        assert failed.error.code == ErrorCode.ENGINE_GONE
        await change(engine, job_id, "retry")
        assert (await job_of(engine, job_id)).state == "queued"


async def test_a_partly_published_film_that_is_removed_can_be_restored(root: Path, tmp_path: Path) -> None:
    """The quick stage is a film already; removing its job must not destroy it."""
    film = tmp_path / "two rungs.mp4"
    make_busy_film(film, seconds=12, size=(960, 540), gop=48)
    async with engine_on(root) as engine:
        job_id = await add(engine, film)
        await until_queue(engine, lambda store: (store.published(job_id) or ("",))[0] == PublishStage.QUICK)
        await change(engine, job_id, "remove")
        assert children_of() == []
        (trashed,) = await engine.call(api.ListTrash())
        restored = await engine.call(api.RestoreFilm(media_id=trashed.media_id))
        assert restored.state == "partial"
        assert (await finished(engine, job_id)).state == "done"
        assert (await engine.call(api.GetFilm(media_id=trashed.media_id))).state == "ready"


async def test_a_film_that_lost_a_shard_is_made_again_by_retry(library_root: Path) -> None:
    async with engine_on(library_root) as engine:
        (film,) = await engine.call(api.ListLibrary())
        name = max(shards_in(library_root).items(), key=lambda one: one[1])[0]
        (engine._kernel.data.vault / name[:2] / name).unlink()
        assert (await engine.call(api.VerifyVault())).missing == (name,)
        with pytest.raises(ExpectedError) as caught:
            await _read_all(engine, film)
        assert caught.value.code == ErrorCode.MISSING_SHARD
        await change(engine, film.job_id, "retry")
        assert (await finished(engine, film.job_id)).state == "done"
        await _read_all(engine, film)
        assert (await engine.call(api.VerifyVault())).clean


async def _read_all(engine: LocalEngine, film: api.FilmSnapshot) -> None:
    layout = await engine._films.layout(film.media_id)
    for name in (film.renditions[0].name, film.audio[0].name):
        for number in range(-1, layout.plan.segment_count):
            assert await engine._films.segment(film.media_id, name, number)


async def test_turning_the_worker_off_ends_its_children_and_on_begins_again(root: Path, busy_film: Path) -> None:
    async with engine_on(root) as engine:
        job_id = await add(engine, busy_film)
        await until_job(engine, job_id, _is_encoding)
        await engine.call(api.SetConfig(key="worker.enabled", value="off"))
        assert children_of() == []
        status = await engine.call(api.GetStatus())
        assert (status.working, status.idle) == (False, True)
        assert "worker.enabled is off" in ((await job_of(engine, job_id)).reason or "")
        await engine.call(api.SetConfig(key="worker.enabled", value="on"))
        await until_job(engine, job_id, _is_encoding)
