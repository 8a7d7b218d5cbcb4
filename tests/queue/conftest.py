"""Plans and stores that the queue's tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.core.clock import ManualClock
from app.core.database import Database
from app.media.plan import AudioKind, AudioTrack, Chunk, Plan, Rendition, RenditionKind, RenditionSet
from app.queue.memory_store import MemoryJobStore, MemoryRowTable
from app.queue.row_store import RowJobStore
from app.queue.sqlite_store import SqliteJobStore

StoreMaker = Callable[..., RowJobStore]


def _rendition(name: str, kind: RenditionKind) -> Rendition:
    return Rendition(name=name, kind=kind, width=1280, height=720, codecs="avc1.640028", max_rate=3_000_000)


def make_plan(*, chunks: int = 3, passthrough: bool = True, copied: bool = True, fingerprint: str = "f1") -> Plan:
    renditions = [_rendition("source", RenditionKind.PASSTHROUGH)] if passthrough else []
    sets = [RenditionSet(name="copy", renditions=("source",), weight=0)] if passthrough else []
    return Plan(
        fingerprint=fingerprint,
        profile="default",
        video_stream=0,
        origin_ticks=0,
        borders=tuple(range(0, 540_000 * (chunks + 1), 540_000)),
        chunks=tuple(Chunk(number=n, first_segment=n, end_segment=n + 1, copied=copied) for n in range(chunks)),
        renditions=(*renditions, _rendition("480", RenditionKind.ENCODE)),
        sets=(*sets, RenditionSet(name="ladder", renditions=("480",), weight=400)),
        audio=(AudioTrack(name="a0", stream_index=1, kind=AudioKind.ENCODE, sample_rate=48_000, label="Sound"),),
        frame_rate=(30, 1),
        frame_ticks=3000,
    )


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def plan() -> Plan:
    return make_plan()


@pytest.fixture
def plan_maker() -> Callable[..., Plan]:
    return make_plan


@pytest.fixture(params=["memory", "sqlite"])
def store_maker(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[StoreMaker]:
    """Return a function that opens the same rows again, as a later life of the device or another process would."""
    table, opened = MemoryRowTable(), []

    def make(*, boot: int = 1, device: str = "dev-a") -> RowJobStore:
        if request.param == "memory":
            return MemoryJobStore(device=device, boot=boot, clock=clock, rows=table)
        database = Database(tmp_path / "queue.db")
        opened.append(database)
        return SqliteJobStore(database=database, device=device, boot=boot, clock=clock)

    yield make
    for database in opened:
        database.close()


@pytest.fixture
def store(store_maker: StoreMaker) -> RowJobStore:
    return store_maker()
