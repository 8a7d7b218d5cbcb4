"""``EngineFilms`` as the gateway's source: the contract of all sources, and where pieces come from at each stage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from app.core.clock import ManualClock
from app.core.encoding import encode_canonical
from app.core.errors import ErrorCode, ExpectedError
from app.core.ids import task_id_of
from app.core.paths import DataDir
from app.engine.films import EngineFilms
from app.engine.kernel import Kernel
from app.engine.peers import Peers
from app.engine.wanted import WantedTasks
from app.media.film import Bundle, BundleEntry, TaskResult
from app.media.plan import Plan, plan_hash
from app.playback.source import StillKind
from app.queue.rows import EndRank, JobParams, Lease
from app.queue.store import JobStore
from app.queue.targets import encode_index_result, tasks_of_plan
from app.storage.segments import LeaseKey, MadeSegment
from tests.engine.stage import until
from tests.playback.films import make_plan
from tests.playback.source_contract import FilmSourceContract


class EngineStage:
    """A film in the making on a real queue and a real vault, made by hand."""

    name = "720"

    def __init__(self, kernel: Kernel, job_id: str, media_id: str, plan: Plan) -> None:
        self.kernel = kernel
        self.job_id = job_id
        self.media_id = media_id
        self.plan = plan
        self.wanted = WantedTasks()
        self.source = EngineFilms(kernel, self.wanted, bring=Peers(kernel).bring)

    async def make(self, number: int, data: bytes) -> None:
        await self.kernel.store(lambda storage: storage.segments.note(self._piece(number, data)))
        self.kernel.changed.set()

    def _piece(self, number: int, data: bytes) -> MadeSegment:
        return MadeSegment(
            lease=LeaseKey(task_id="t", epoch=1, token="k"),  # noqa: S106 (a made-up lease)
            job_id=self.job_id,
            plan=plan_hash(self.plan),
            name=self.name,
            number=number,
            capability=self.kernel.storage.vault.write_bytes(data, pad=True),
            size_bytes=len(data),
        )

    async def pause(self) -> None:
        await self.kernel.change(lambda store: store.pause_job(self.job_id))

    def task(self, kind: str) -> str:
        """Return the id of the job's only task of that kind."""
        name = plan_hash(self.plan)
        target = {"video": f"video/{name}/all/0", "audio": f"audio/{name}/a0"}[kind]
        return task_id_of(job_id=self.job_id, kind=kind, target=target, fingerprint="f")


def _put_film(store: JobStore, plan: Plan) -> tuple[str, str]:
    job = store.add_job(
        kind="hls", params=JobParams(profile="default"), fingerprint="f", size_bytes=1, name="film.mp4", now_ms=1
    )
    (index,) = store.tasks(job.id)
    lease = store.claim(index.id)
    store.complete(index.id, lease, value=encode_index_result(plan), next_tasks=tasks_of_plan(plan))
    return job.id, job.media_id


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[EngineStage]:
    kernel = Kernel(DataDir(root=_made(tmp_path / "data")), clock=ManualClock())
    plan = make_plan()
    yield EngineStage(kernel, *(await kernel.change(lambda store: _put_film(store, plan))), plan)
    await kernel.close()


def _made(root: Path) -> Path:
    root.mkdir()
    return root


class TestEngineFilms(FilmSourceContract):
    """The suite that the memory source passes too."""


async def test_a_piece_that_is_waited_for_makes_its_task_wanted(stage: EngineStage) -> None:
    heard = asyncio.Event()
    stage.wanted.on_wanted = heard.set
    waiting = asyncio.ensure_future(stage.source.segment(stage.media_id, "720", 2))
    await heard.wait()
    assert stage.wanted.task_ids == {stage.task("video")}
    assert stage.wanted.pieces(stage.job_id, "720") == (2,)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert stage.wanted.task_ids == frozenset()


async def test_a_wait_looks_only_when_something_changed(stage: EngineStage) -> None:
    """Becoming wanted wakes all who watch; a wait that woke itself would never rest."""
    stage.wanted.on_wanted = stage.kernel.changed.set
    waits = [asyncio.ensure_future(stage.source.segment(stage.media_id, "720", number)) for number in (1, 2, 3)]
    await until(lambda: stage.wanted.pieces(stage.job_id, "720") == (1, 2, 3))
    with stage.kernel.changed.watch() as changed, pytest.raises(TimeoutError):
        await asyncio.wait_for(changed.wait(), 0.3)
    for one in waits:
        one.cancel()
    await asyncio.gather(*waits, return_exceptions=True)


async def test_a_waiting_piece_comes_from_the_bundle_when_its_task_completes_at_once(stage: EngineStage) -> None:
    """Notes are dropped right after the outcome is written: nobody may wait on a view from before that."""
    for name in ("720", "360"):
        assert not await stage.source.is_made(stage.media_id, name, 0)
    waiting = asyncio.ensure_future(stage.source.segment(stage.media_id, "720", 1))
    await asyncio.sleep(0)
    pieces = {(name, n): f"{name}/{n}".encode() for name in ("720", "360") for n in range(-1, stage.plan.segment_count)}

    def complete(store: JobStore) -> None:
        vault = stage.kernel.storage.vault
        entries = [
            BundleEntry(name=name, number=number, capability=vault.write_bytes(data), size_bytes=len(data))
            for (name, number), data in pieces.items()
        ]
        result = TaskResult(bundle=vault.write_bundle(Bundle(entries=tuple(entries))))
        task_id = stage.task("video")
        store.complete(task_id, store.claim(task_id), value=encode_canonical(result).decode())

    await stage.kernel.change(complete)
    assert await asyncio.wait_for(waiting, 5) == b"720/1"
    assert await stage.source.is_made(stage.media_id, "360", 2)
    assert await stage.source.init_section(stage.media_id, "360") == b"360/-1"


async def test_a_failed_job_says_why_to_who_waits(stage: EngineStage) -> None:
    waiting = asyncio.ensure_future(stage.source.segment(stage.media_id, "720", 1))
    await asyncio.sleep(0)
    task_id = stage.task("video")

    def fail(store: JobStore) -> None:
        lease: Lease = store.claim(task_id)
        store.end(task_id, lease, rank=EndRank.PERMANENT, code=ErrorCode.DAMAGED_SOURCE, message="It is broken.")

    await stage.kernel.change(fail)
    with pytest.raises(ExpectedError, match="It is broken") as caught:
        await asyncio.wait_for(waiting, 5)
    assert caught.value.code is ErrorCode.DAMAGED_SOURCE


async def test_a_cancelled_or_removed_job_ends_waits(stage: EngineStage) -> None:
    waiting = asyncio.ensure_future(stage.source.segment(stage.media_id, "720", 1))
    await asyncio.sleep(0)
    await stage.kernel.change(lambda store: store.remove_job(stage.job_id))
    with pytest.raises(ExpectedError) as caught:
        await asyncio.wait_for(waiting, 5)
    assert caught.value.code is ErrorCode.NO_SUCH_ID


async def test_stills_are_not_done_before_they_are_made(stage: EngineStage) -> None:
    with pytest.raises(ExpectedError) as caught:
        await stage.source.still(stage.media_id, StillKind.POSTER, 0)
    assert caught.value.code is ErrorCode.NOT_DONE


async def test_sound_made_ahead_is_served_and_not_kept(stage: EngineStage) -> None:
    waiting = asyncio.ensure_future(stage.source.segment(stage.media_id, "a0", 3))
    await asyncio.sleep(0)
    stage.wanted.keep_preview(stage.job_id, "a0", 3, b"ahead")
    stage.kernel.changed.set()
    assert await asyncio.wait_for(waiting, 5) == b"ahead"
    assert stage.kernel.storage.segments.of_job(stage.job_id) == ()
    stage.wanted.forget_previews(stage.job_id)
    assert stage.wanted.preview(stage.job_id, "a0", 3) is None


def test_only_so_many_previews_are_kept() -> None:
    wanted = WantedTasks()
    for number in range(1000):
        wanted.keep_preview("job", "a0", number, b"x")
    kept = [number for number in range(1000) if wanted.preview("job", "a0", number) is not None]
    assert 12 <= len(kept) <= 100
    assert kept == list(range(1000 - len(kept), 1000))


def test_a_task_is_wanted_until_the_last_request_goes() -> None:
    class View(msgspec.Struct):
        job_id: str = "job"

    wanted = WantedTasks()
    with wanted.waiting("task", "720", 4, View()):
        with wanted.waiting("task", "720", 4, View()), wanted.waiting("task", "720", 2, View()):
            assert wanted.pieces("job", "720") == (2, 4)
        assert (wanted.task_ids, wanted.pieces("job", "720")) == (frozenset({"task"}), (4,))
        assert wanted.pieces("other", "720") == ()
    assert (wanted.task_ids, wanted.pieces("job", "720")) == (frozenset(), ())


async def test_what_no_device_has_is_missing(stage: EngineStage) -> None:
    """Shards are fetched side by side; who asked is told of one that nobody has."""
    vault = stage.kernel.storage.vault
    capability = vault.write_bytes(b"nobody has this")
    for name in vault.shards_of(capability):
        stage.kernel.storage.disk.delete(name)
    with pytest.raises(ExpectedError) as caught:
        await Peers(stage.kernel).bring(capability)
    assert caught.value.code is ErrorCode.MISSING_SHARD
