"""What the engine's tests stand on: small films, engines on fresh data directories, ways to wait without sleeping."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import psutil

from app.core.clock import ManualClock
from app.core.paths import DataDir
from app.engine import api
from app.engine.local import LocalEngine
from app.engine.worker import Slots
from app.queue.store import JobStore
from app.transcode.supervisor import Supervisor

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 180.0
"""Longest wait for anything; a test that needs it has failed."""
_POLL_S = 0.01
FINAL = frozenset({"done", "error", "cancelled"})


def make_busy_film(
    path: Path, *, seconds: int, fps: int = 24, size: tuple[int, int] = (640, 360), gop: int = 1_000_000
) -> None:
    """Write a film of moving noise; with one keyframe its picture must be encoded, and that takes a while.

    Its sound is AAC, which can be copied, but in Matroska FLAC, which must be encoded.
    """
    width, height = size
    coarse = np.random.default_rng(7).integers(16, 235, (height // 4, width // 4), dtype=np.uint8)
    base = np.kron(coarse, np.ones((4, 4), dtype=np.uint8))
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=fps, options={"preset": "ultrafast", "crf": "30"})
        stream.width, stream.height, stream.pix_fmt, stream.gop_size = width, height, "yuv420p", gop
        stream.time_base = Fraction(1, fps)
        sound: Any = container.add_stream("flac" if path.suffix == ".mkv" else "aac", rate=48_000)
        sound.layout = "stereo"
        for number in range(seconds * fps):
            gray = np.roll(base, (number * 3, number * 5), axis=(0, 1))
            frame = av.VideoFrame.from_ndarray(gray, format="gray").reformat(format="yuv420p")
            frame.pts, frame.time_base = number, Fraction(1, fps)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
        for second in range(seconds):
            block = np.zeros((2, 48_000), dtype=np.float32)
            silence = av.AudioFrame.from_ndarray(block, format="fltp", layout="stereo")
            silence.sample_rate, silence.pts, silence.time_base = 48_000, second * 48_000, Fraction(1, 48_000)
            container.mux(sound.encode(silence))
        container.mux(sound.encode(None))


@asynccontextmanager
async def engine_on(
    root: Path,
    *,
    work: bool = True,
    clock: ManualClock | None = None,
    supervisor: Supervisor | None = None,
    slots: Slots | None = None,
) -> AsyncIterator[LocalEngine]:
    """Lend an engine on the data directory ``root``, whose clock moves only by hand."""
    data = DataDir(root=root)
    engine = await LocalEngine.start(data, work=work, clock=clock or ManualClock(), supervisor=supervisor, slots=slots)
    try:
        yield engine
    finally:
        await engine.close()


async def add(engine: api.EngineApi, path: Path) -> str:
    """Add a film that must not be refused; return its job's id."""
    added = await engine.call(api.AddPath(path=os.fsencode(path)))
    assert added.job_id is not None, added.error
    return added.job_id


async def change(engine: api.EngineApi, job_id: str, action: str) -> api.JobSnapshot:
    """Pause, resume, cancel, retry or remove a job."""
    return await engine.call(api.ChangeJob(job_id=job_id, action=action))


async def job_of(engine: api.EngineApi, job_id: str) -> api.JobSnapshot:
    """Return a job with its tasks."""
    return await engine.call(api.GetJob(job_id=job_id))


async def until_job(
    engine: api.EngineApi, job_id: str, is_so: Callable[[api.JobSnapshot], bool], *, patience_s: float = PATIENCE_S
) -> api.JobSnapshot:
    """Follow the engine's events until a job is as wanted; return it."""
    last: api.JobSnapshot | None = None
    try:
        async with asyncio.timeout(patience_s):
            async for event in engine.events():
                for job in event.jobs:
                    if job.id == job_id:
                        last = job
                        if is_so(job):
                            return job
    except TimeoutError:
        raise AssertionError(f"the job did not become what was wanted; last it was {last}") from None
    raise AssertionError("the events ended")


async def finished(engine: api.EngineApi, job_id: str) -> api.JobSnapshot:
    """Return a job when it has come to an end."""
    return await until_job(engine, job_id, lambda job: job.state in FINAL)


async def until(is_so: Callable[[], bool], *, patience_s: float = PATIENCE_S) -> None:
    """Look again and again, with a bound, for what tells nobody when it changes."""
    try:
        async with asyncio.timeout(patience_s):
            while not is_so():  # noqa: ASYNC110 (what is looked at tells nobody when it changes)
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise AssertionError("it did not happen in time") from None


async def until_queue(engine: LocalEngine, is_so: Callable[[JobStore], bool]) -> None:
    """Look again and again at the queue, on its own thread."""
    async with asyncio.timeout(PATIENCE_S):
        while not await engine._kernel.queue(is_so):  # noqa: ASYNC110 (rows tell nobody when they change)
            await asyncio.sleep(_POLL_S)


def variant_of(film: Path, path: Path) -> Path:
    """Write a film with the same pictures and another fingerprint to ``path``."""
    path.write_bytes(film.read_bytes() + (8).to_bytes(4, "big") + b"free")
    return path


def children_of(pid: int | None = None) -> list[psutil.Process]:
    """Return the media children of a process, this one if none is named."""
    found = []
    for one in psutil.Process(pid).children(recursive=True):
        try:
            if "app.transcode.child" in " ".join(one.cmdline()) and one.status() != psutil.STATUS_ZOMBIE:
                found.append(one)
        except psutil.Error:
            continue
    return found


def shards_in(root: Path) -> dict[str, int]:
    """Return name → size of all shards on the disk."""
    vault = DataDir(root=root).vault
    return {one.name: one.stat().st_size for one in vault.glob("[0-9a-f][0-9a-f]/*")}


INIT_SECTION_BYTES = 1024


def left_in(root: Path) -> dict[str, int]:
    """Return the shards that a cancelled job should not have left.

    Init sections do not count: each chunk writes the same one, which spares it until the grace period is over.
    """
    return {name: size for name, size in shards_in(root).items() if size >= INIT_SECTION_BYTES}


def rates_of(jobs: Iterable[api.JobSnapshot]) -> list[float]:
    """Return the progress of snapshots, None left out."""
    return [one.progress for one in jobs if one.progress is not None]


_FAILING_CHILD = """
import os, pathlib, sys
tally = pathlib.Path({tally!r})
if {word!r} in sys.stdin.buffer.peek(512):
    failed = len(tally.read_bytes()) if tally.exists() else 0
    if failed < {times}:
        tally.write_bytes(bytes(failed + 1))
        {how}
from app.transcode.child import main
sys.exit(main())
"""
_DIE = "os.kill(os.getpid(), 9)"
_REFUSE = """
        from app.transcode.messages import Failed, encode_frame
        sys.stdout.buffer.write(encode_frame(Failed(code="protected", message="It is locked.", permanent=True)))
        sys.exit()
"""


def dying_supervisor(tally: Path, *, on: str, times: int) -> Supervisor:
    """Return a supervisor whose children kill themselves the first ``times`` times that they are asked for ``on``."""
    return _failing_supervisor(tally, on=on, times=times, how=_DIE)


def refusing_supervisor(tally: Path, *, on: str) -> Supervisor:
    """Return a supervisor whose children say, when they are first asked for ``on``, that it can never be done."""
    return _failing_supervisor(tally, on=on, times=1, how=_REFUSE)


def _failing_supervisor(tally: Path, *, on: str, times: int, how: str) -> Supervisor:
    program = _FAILING_CHILD.format(tally=str(tally), word=on.encode(), times=times, how=how)
    return Supervisor(command=(sys.executable, "-P", "-c", program))
