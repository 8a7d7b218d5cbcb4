"""The queue with a long history: ``python -m tests.bench.queue [--quick]``.

100,000 jobs and 1,000,000 rows (``history``) are made once, which takes some minutes, and kept in ``.bench/``; each
run works on a copy. The engine is measured as its users meet it: in a process of its own, through its commands; a claim
by what the worker does for one. Times are medians, and in brackets what nine of ten stayed below. ``--quick`` takes a
few hundredths of all, to see that the benchmark itself works; ``make bench`` does so until the long history is there.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import psutil

from app.core.clock import SystemClock
from app.core.database import Database
from app.core.paths import DataDir
from app.engine import api, local
from app.engine.choosing import FEW
from app.engine.local import LocalEngine
from app.engine.worker import Slots
from app.queue.feed import FeedCursor
from app.queue.row_table import JobPart
from app.queue.rows import JobParams, JobRow
from app.queue.schedule import choose_task
from app.queue.sqlite_store import SqliteJobStore
from app.queue.store import JobStore
from app.queue.targets import ResourceClass
from app.storage.opening import Storage
from app.storage.source import SourceStat
from app.storage.source_ledger import KnownSource
from app.sync.replication import Message, Replication, Rows
from tests.bench.history import FULL_SIZE, OPEN_JOBS, QUICK_SIZE, HistorySize, history
from tests.bench.rivals import claim_rates
from tests.bench.table import Row, print_table

FOLDER = Path(".bench")
MIB = 1 << 20
FED_ROWS = 100_000
_CLAIMS = 200
_REPEATS = 15
_IDLE_S = 20.0
_TICK_S = 1.0
_PEERS = 3

T = TypeVar("T")


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Times of one thing done often, in milliseconds."""

    median_ms: float
    slow_ms: float
    """Nine of ten were faster."""

    @classmethod
    def of(cls, times_s: list[float]) -> Spread:
        """Return the spread of times in seconds."""
        ordered = sorted(times_s)
        slow = ordered[min(len(ordered) - 1, len(ordered) * 9 // 10)]
        return cls(median_ms=statistics.median(ordered) * 1000, slow_ms=slow * 1000)

    def __str__(self) -> str:
        return f"{self.median_ms:.1f} ms ({self.slow_ms:.1f} ms)"


class EngineFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine with a long history takes."""

    start_s: float
    first_page_ms: float
    pages: Spread
    library_page: Spread
    change: Spread
    claims: Spread
    all_jobs_s: float
    idle_share: float
    memory_bytes: int
    """Highest resident size over all of this, beyond that of an engine with an empty queue."""


def known_size() -> HistorySize:
    """Return the full size if its history was made already, else one that is made in seconds."""
    return FULL_SIZE if (FOLDER / FULL_SIZE.name).exists() else QUICK_SIZE


def queue(*, size: HistorySize) -> list[Row]:
    """Measure everything."""
    full = history(FOLDER, size)
    figures = _in_own_process(full)
    bare = _in_own_process(None)
    lines = _held(full)
    rows: list[Row] = [
        ("queue: what it holds", lines, f"{full.stat().st_size / MIB:.0f} MiB", ""),
        ("queue: choose and claim a task", str(figures.claims), f"in an empty queue {bare.claims}", "< 5 ms"),
        ("queue: first page, cold", f"{figures.first_page_ms:.1f} ms", "", "< 50 ms"),
        ("queue: first page, again", str(figures.pages), "", "< 50 ms"),
        ("queue: first page of the library", str(figures.library_page), "", "< 50 ms"),
        ("queue: change a job and tell of it", str(figures.change), f"in an empty queue {bare.change}", ""),
        ("queue: list all jobs (hearthreel jobs)", f"{figures.all_jobs_s:.1f} s", "", ""),
        ("queue: start of the engine", f"{figures.start_s:.1f} s", f"with an empty queue {bare.start_s:.1f} s", ""),
        ("queue: memory beyond an empty engine's", _beyond(figures, bare), "", "bounded"),
        ("queue: CPU of an idle engine, 3 peers", f"{figures.idle_share:.2%}", "", "none to speak of"),
        feeding(full),
    ]
    return rows + rivals()


def _held(full: Path) -> str:
    database = Database(full)
    try:
        jobs, tasks = ((database.row(f"SELECT count(*) AS n FROM {one}") or {"n": 0})["n"] for one in ("jobs", "tasks"))  # noqa: S608 (our tables)
    finally:
        database.close()
    return f"{jobs:,} jobs, {jobs + tasks:,} rows"


def _beyond(figures: EngineFigures, bare: EngineFigures) -> str:
    return f"{(figures.memory_bytes - bare.memory_bytes) / MIB:.0f} MiB"


def rivals() -> list[Row]:
    """Claims a second of other queues, in turn with ours."""
    rates = claim_rates(FOLDER)
    ours = rates[0].per_s
    rows: list[Row] = []
    for rate in rates:
        if rate.missing:
            rows.append((f"claims: {rate.rival.name}", "", rate.missing, ""))
        else:
            ratio = f"{ours / rate.per_s:.2f} times" if rate is not rates[0] else ""
            rows.append((f"claims: {rate.rival.name}", f"{rate.per_s:.0f}/s", rate.rival.durability, ratio))
    return rows


def feeding(full: Path) -> Row:
    """Feed the first 100,000 rows of the history to an empty replica, by the messages that two devices exchange."""
    with _copy(full) as giving, tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        giver, taker = Database(giving), Database(Path(folder) / "taker.db")
        try:
            started = time.perf_counter()
            number = _feed(_store(giver, "giver"), _store(taker, "taker"))
            spent = time.perf_counter() - started
        finally:
            giver.close()
            taker.close()
    return (
        "queue: feed an empty replica",
        f"{number:,} rows in {spent:.1f} s",
        f"{number / spent:.0f} rows/s",
        "< 30 s",
    )


def _store(database: Database, device: str) -> SqliteJobStore:
    return SqliteJobStore(database=database, device=device, boot=2, clock=SystemClock())


def _feed(giver: JobStore, taker: JobStore) -> int:
    """Return how many rows went over until there were enough, or no more."""
    ours, theirs = Replication(store=giver, peer="taker"), Replication(store=taker, peer="giver")
    asked: list[Message] = list(theirs.connected(0.0))
    number = 0
    while asked and number < FED_ROWS:
        given = [reply for message in asked for reply in ours.receive(message, 0.0).replies]
        number += sum(len(one.rows) for one in given if isinstance(one, Rows))
        asked = [reply for message in given for reply in theirs.receive(message, 0.0).replies]
    return number


@contextmanager
def _copy(full: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        copy = Path(folder) / "copy.db"
        shutil.copyfile(full, copy)
        yield copy


def _in_own_process(full: Path | None) -> EngineFigures:
    """Measure an engine whose memory nobody else has grown."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(engine_figures, full).result()


def engine_figures(full: Path | None) -> EngineFigures:
    """Measure an engine with a history, or with an empty queue."""
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        data = DataDir(root=Path(folder).absolute())
        if full is not None:
            shutil.copyfile(full, data.database)
        return asyncio.run(_measure_engine(data, is_empty=full is None))


async def _measure_engine(data: DataDir, *, is_empty: bool) -> EngineFigures:
    process = psutil.Process()
    started = time.perf_counter()
    async with _engine(data) as engine:
        start_s = time.perf_counter() - started
        if is_empty:
            await engine._kernel.change(_add_jobs)
        first_s = await _time(lambda: engine.call(api.ListQueue()))
        pages = [await _time(lambda: engine.call(api.ListQueue())) for _ in range(_REPEATS)]
        films = [await _time(lambda: engine.call(api.ListLibrary(limit=api.QUEUE_PAGE))) for _ in range(_REPEATS)]
        changes = await _changes(engine)
        await engine._kernel.store(partial(_hold_sources, await engine._kernel.queue(_unfinished)))
        claims = [await _time(lambda: _choose_and_claim(engine)) for _ in range(20 if is_empty else _CLAIMS)]
        idle_share = 0.0 if is_empty else await _idle(engine)
        all_jobs_s = await _time(lambda: engine.call(api.ListJobs()))
        memory = process.memory_info().rss
    return EngineFigures(
        start_s=start_s,
        first_page_ms=first_s * 1000,
        pages=Spread.of(pages),
        library_page=Spread.of(films),
        change=Spread.of(changes),
        claims=Spread.of(claims),
        all_jobs_s=all_jobs_s,
        idle_share=idle_share,
        memory_bytes=memory,
    )


@asynccontextmanager
async def _engine(data: DataDir) -> Any:
    """Lend an engine whose worker looks for work and has no room for any."""
    local.FIRST_COLLECT_S = 3600.0  # there is no vault behind the history: collecting would only be in the way
    engine = await LocalEngine.start(data, work=True, slots=Slots(heavy=0, light=0))
    try:
        yield engine
    finally:
        await engine.close()


def _add_jobs(store: JobStore) -> None:
    for number in range(50):
        store.add_job(
            kind="hls",
            params=JobParams(profile="default"),
            fingerprint=f"{number:064x}",
            size_bytes=1,
            name=f"{number}.mkv",
            now_ms=number,
        )


def _unfinished(store: JobStore) -> tuple[JobRow, ...]:
    return store.job_page(JobPart.UNFINISHED, limit=OPEN_JOBS)


def _hold_sources(jobs: tuple[JobRow, ...], storage: Storage) -> None:
    """Let this device hold the files of what is to be done, or it would wait for another one."""
    for job in jobs:
        seen = SourceStat(size_bytes=job.size_bytes, mtime_ns=1, inode="1")
        source = KnownSource(job_id=job.id, fingerprint=job.fingerprint, path=b"/films/" + job.id.encode(), seen=seen)
        storage.sources.remember(source)


async def _time(action: Callable[[], Awaitable[T]]) -> float:
    started = time.perf_counter()
    await action()
    return time.perf_counter() - started


async def _choose_and_claim(engine: LocalEngine) -> None:
    """Do what the worker does to begin a task: read what is open, choose, claim."""
    worker, kernel = engine._worker, engine._kernel
    now_s = kernel.clock.monotonic_s()
    candidates = await worker._startable(frozenset(), now_s, most=FEW)
    free = {ResourceClass.HEAVY: 1, ResourceClass.LIGHT: 1, ResourceClass.INLINE: 1}
    decision = choose_task(candidates, wanted=frozenset(), free=free, now_s=now_s)
    task_id = decision.task_id
    if task_id is None:
        raise SystemExit(f"nothing could be claimed: {decision.reason}")
    await kernel.queue(lambda store: store.claim(task_id))


async def _changes(engine: LocalEngine) -> list[float]:
    """Change the priority of jobs, and time what it takes to write that, to read what changed, and to tell of it."""
    spent = []
    events = aiter(engine.events())
    first = await anext(events)  # from now on somebody is to be told
    for number, job in enumerate(first.jobs[:_REPEATS]):
        changed = await _time(partial(engine.call, api.SetPriority(job_id=job.id, priority=number + 1)))
        spent.append(changed + await _time(lambda: _tell(engine)))
    return spent


async def _tell(engine: LocalEngine) -> None:
    await engine._tell_once(None)


async def _idle(engine: LocalEngine) -> float:
    """Return the share of one core that an engine takes which has a subscriber and three peers, and nothing to do."""

    async def listen() -> None:
        async for _ in engine.events():
            pass

    def connect(store: JobStore) -> list[Replication]:
        peers = [Replication(store=store, peer=f"peer-{number}") for number in range(_PEERS)]
        for peer in peers:
            peer.connected(0.0)
            peer.receive(Rows(since=None, rows=(), cursor=FeedCursor(generation="g", number=0), more=False), 0.0)
        return peers

    listener = asyncio.create_task(listen())
    peers = await engine._kernel.queue(connect)
    await asyncio.sleep(_TICK_S)
    wall, cpu = time.perf_counter(), time.process_time()
    while (now_s := time.perf_counter() - wall) < _IDLE_S:
        await engine._kernel.queue(partial(_tick, peers, now_s))
        await asyncio.sleep(_TICK_S)
    share = (time.process_time() - cpu) / (time.perf_counter() - wall)
    listener.cancel()
    return share


def _tick(peers: list[Replication], now_s: float, _store: JobStore) -> None:
    for peer in peers:
        peer.tick(now_s)


def main() -> None:
    """Print the table of the queue alone."""
    size = QUICK_SIZE if "--quick" in sys.argv[1:] else FULL_SIZE
    print_table(queue(size=size), title=f"queue, {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
