"""A queue with a long history: realistic rows, made the same way each time and kept in ``.bench/``.

Rows go in as those of a peer do, through ``JobStore.apply_rows``: there is no other way into the tables than the one
that devices use, so the facts beside the documents are right, and the rows are in the feed.

::

    done        6 of 10 jobs: the job and its film; the other rows were compacted
    removed     2 of 10: the tombstone alone
    given up    cancelled half-way, with the tasks they had; as many as the wanted number of rows takes
    open        a few hundred: most have their plan and wait, some are paused, some failed, a dozen is very long
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import msgspec

from app.core.clock import SystemClock
from app.core.database import Database
from app.core.encoding import encode_canonical
from app.core.ids import media_id_of, task_id_of
from app.media.film import ChunkRef, Film, PublishStage, RenditionFacts, RenditionRate, TaskResult, TrackRef
from app.media.plan import AudioKind, AudioTrack, Chunk, Plan, Rendition, RenditionKind, RenditionSet
from app.queue.feed import FeedCursor, FeedRow, RowKind
from app.queue.rows import (
    Added,
    End,
    EndRank,
    JobParams,
    JobRow,
    Lease,
    Outcome,
    Register,
    Source,
    TaskRow,
    encode_value,
)
from app.queue.sqlite_store import SqliteJobStore
from app.queue.targets import INDEX_SPEC, TaskKind, TaskSpec, encode_index_result, tasks_of_plan

OPEN_JOBS = 300
_SEED = 20_260_101
_FIRST_DAY_MS = 1_600_000_000_000
_SEGMENT_TICKS = 540_000
_SEGMENTS_OF_CHUNK = 5
_DEVICES = ("desktop", "laptop", "shelf")
_ROWS_OF_BATCH = 2000
_PEER = "history"
_NAMES = ("Summer holidays", "Birthday", "Ferry to the islands", "Concert", "The long way home", "Rehearsal", "Garden")
_FINISHED_LENGTHS = (*((3, 60),) * 16, *((300, 500),) * 3, (900, 1500))
"""Ranges of segments: mostly clips, some episodes, a few feature films."""
_RUNGS = ((1920, 1080, 6_000_000), (1280, 720, 3_000_000), (854, 480, 1_400_000), (640, 360, 800_000))


class HistorySize(msgspec.Struct, frozen=True, kw_only=True):
    """How long a history is."""

    jobs: int
    rows: int

    @property
    def name(self) -> str:
        """What its file is called."""
        return f"history-{self.jobs}-{self.rows}.db"


FULL_SIZE = HistorySize(jobs=100_000, rows=1_000_000)
QUICK_SIZE = HistorySize(jobs=3_000, rows=30_000)


def history(folder: Path, size: HistorySize) -> Path:
    """Return the database of a history, which is made if it is not there yet."""
    folder.mkdir(exist_ok=True)
    path = folder / size.name
    if not path.exists():
        part = path.with_suffix(".part")
        database = Database(part)
        try:
            load(SqliteJobStore(database=database, device="bench", boot=1, clock=SystemClock()), size)
            database.checkpoint()
        finally:
            database.close()
        part.rename(path)
    return path


def load(store: SqliteJobStore, size: HistorySize) -> None:
    """Put a history into a store; what was interrupted goes on where it was, as with a peer."""
    cursor = store.peer_cursor(_PEER)
    rows = itertools.islice(feed_rows(size), cursor.number if cursor is not None else 0, None)
    while batch := tuple(itertools.islice(rows, _ROWS_OF_BATCH)):
        position = (cursor.number if cursor is not None else 0) + len(batch)
        reached = FeedCursor(generation=size.name, number=position)
        store.apply_rows(batch, from_peer=_PEER, peer_cursor=reached, since=cursor)
        cursor = reached


def feed_rows(size: HistorySize) -> Iterator[FeedRow]:
    """Yield the rows of a history, each task after its job."""
    for job, tasks in _Historian(size).jobs():
        yield FeedRow(kind=RowKind.JOB, document=encode_value(job).decode())
        for task in tasks:
            yield FeedRow(kind=RowKind.TASK, document=encode_value(task).decode())


class _Historian:
    def __init__(self, size: HistorySize) -> None:
        self._size = size
        self._random = random.Random(_SEED)  # noqa: S311 (the same history each time)
        self._rows = 0

    def jobs(self) -> Iterator[tuple[JobRow, tuple[TaskRow, ...]]]:
        size, number = self._size, 0
        finished, removed = size.jobs * 6 // 10, size.jobs * 2 // 10
        opened = min(OPEN_JOBS, size.jobs // 10)
        given_up = size.jobs - finished - removed - opened
        kinds = ["done"] * finished + ["removed"] * removed + ["open"] * opened + ["given up"] * given_up
        self._random.shuffle(kinds)
        tasks_of_open = opened * 35 + opened // 25 * size.rows // 500
        self._tasks_left = size.rows - size.jobs - finished - tasks_of_open
        for position, kind in enumerate(kinds):
            number += kind == "open"
            job = self._job(position)
            match kind:
                case "done":
                    yield job, (self._film(job),)
                case "removed":
                    empty = Register[Source | None](value=None, stamp=job.source.stamp + 1, device=job.added.device)
                    params = JobParams(profile=job.profile, options="")
                    yield msgspec.structs.replace(job, removed=True, source=empty, params=params), ()
                case "open":
                    yield self._open(job, number, opened)
                case _:
                    mean = max(4, self._tasks_left // max(1, given_up))
                    made = self._given_up(job, mean)
                    given_up, self._tasks_left = given_up - 1, self._tasks_left - len(made[1])
                    yield made

    def _digest(self, *parts: object) -> str:
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def _job(self, position: int) -> JobRow:
        at_ms = _FIRST_DAY_MS + position * 600_000
        device = _DEVICES[position % len(_DEVICES)]
        name = f"{self._random.choice(_NAMES)} {position}.mkv"
        source = Source(
            fingerprint=self._digest("source", position),
            size_bytes=self._random.randrange(10_000_000, 8_000_000_000),
            name=name,
        )
        return JobRow(
            id=self._digest("job", position)[:32],
            kind="hls",
            params=JobParams(profile="default"),
            source=Register[Source | None](value=source, stamp=at_ms, device=device),
            added=Added(at_ms=at_ms, device=device, number=position // len(_DEVICES) + 1),
        )

    def _film(self, job: JobRow) -> TaskRow:
        low, high = self._random.choice(_FINISHED_LENGTHS)
        plan = make_plan(job.fingerprint, self._random.randrange(low, high))
        film = Film(
            media_id=media_id_of(job.id),
            stage=PublishStage.FULL,
            plan=plan,
            video=tuple(
                ChunkRef(set=one.name, chunk=chunk.number, bundle=self._capability(job, chunk.number))
                for one in plan.sets
                for chunk in plan.chunks
            ),
            audio=tuple(TrackRef(track=one.name, bundle=self._capability(job, one.name)) for one in plan.audio),
            rates=tuple(
                RenditionRate(name=one.name, peak=one.max_rate, average=one.max_rate // 2) for one in plan.renditions
            ),
            size_bytes=plan.segment_count * 6_000_000,
        )
        return self._completed(job, tasks_of_plan(plan)[-1], encode_canonical(film).decode())

    def _given_up(self, job: JobRow, mean: int) -> tuple[JobRow, tuple[TaskRow, ...]]:
        tasks = self._random.randrange(max(4, mean // 2), max(5, mean * 3 // 2))
        plan = make_plan(job.fingerprint, max(1, tasks - 4) * _SEGMENTS_OF_CHUNK)
        return msgspec.structs.replace(job, cancelled_round=1), self._tasks(job, plan, done=self._random.random())

    def _open(self, job: JobRow, number: int, opened: int) -> tuple[JobRow, tuple[TaskRow, ...]]:
        """Return a job that is still to be done: every 25th very long, every 20th failed, every 15th paused."""
        if number % 25 == 0:
            chunks = self._size.rows // 500
            return job, self._tasks(job, make_plan(job.fingerprint, chunks * _SEGMENTS_OF_CHUNK), done=0.5)
        if number > opened * 2 // 3:
            return job, (_bare(job, INDEX_SPEC),)
        plan = make_plan(job.fingerprint, self._random.randrange(10, 400))
        tasks = self._tasks(job, plan, done=self._random.random() * 0.9)
        if number % 20 == 0:
            return job, (tasks[0], self._failed(job, tasks[1]), *tasks[2:])
        if number % 15 == 0:
            return msgspec.structs.replace(job, paused=Register(value=True, stamp=job.source.stamp + 1)), tasks
        return job, tasks

    def _tasks(self, job: JobRow, plan: Plan, *, done: float) -> tuple[TaskRow, ...]:
        specs = tasks_of_plan(plan)
        finished = int(done * (len(specs) - 2))
        index = self._completed(job, INDEX_SPEC, encode_index_result(plan))
        made = tuple(self._completed(job, spec, self._result(job, plan, spec)) for spec in specs[:finished])
        return (index, *made, *(_bare(job, spec) for spec in specs[finished:]))

    def _result(self, job: JobRow, plan: Plan, spec: TaskSpec) -> str:
        names = [one.name for one in plan.renditions] if spec.kind is TaskKind.VIDEO else ["a0"]
        facts = tuple(
            RenditionFacts(
                name=name,
                frames=900,
                first_ticks=0,
                end_ticks=_SEGMENT_TICKS * _SEGMENTS_OF_CHUNK,
                size_bytes=9_000_000,
                peak_rate=2_900_000,
                checked_frames=60,
            )
            for name in names
        )
        return encode_canonical(TaskResult(bundle=self._capability(job, spec.target), facts=facts)).decode()

    def _completed(self, job: JobRow, spec: TaskSpec, value: str) -> TaskRow:
        task = _bare(job, spec)
        token, device = self._digest("token", task.id)[:32], _DEVICES[len(value) % len(_DEVICES)]
        return msgspec.structs.replace(
            task,
            lease=Lease(epoch=1, device=device, boot=7, token=token, round=1, beat=9, progress=1000),
            outcome=Outcome(epoch=1, token=token, round=1, value=value),
        )

    def _failed(self, job: JobRow, task: TaskRow) -> TaskRow:
        ends = tuple(
            End(
                epoch=epoch,
                token=f"{epoch:032x}",
                round=1,
                rank=EndRank.TRANSIENT,
                code="worker-crashed",
                message="The media child crashed.",
                device="shelf",
            )
            for epoch in (1, 2, 3)
        )
        lease = Lease(epoch=3, device="shelf", boot=7, token=f"{3:032x}", round=1, beat=2)
        return msgspec.structs.replace(
            _bare(job, TaskSpec(kind=TaskKind(task.kind), target=task.target)), ends=ends, lease=lease
        )

    def _capability(self, job: JobRow, what: object) -> str:
        digest = hashlib.sha256(f"{job.id} {what}".encode()).digest()
        return "hr1." + base64.urlsafe_b64encode(digest * 2 + digest[:10]).decode()


def _bare(job: JobRow, spec: TaskSpec) -> TaskRow:
    task_id = task_id_of(job_id=job.id, kind=spec.kind, target=spec.target, fingerprint=job.fingerprint)
    return TaskRow(id=task_id, job_id=job.id, kind=spec.kind, target=spec.target, fingerprint=job.fingerprint)


def make_plan(fingerprint: str, segments: int) -> Plan:
    """Return the plan of a film of so many segments of six seconds: four rungs made together, one sound track."""
    firsts = (0, *range(1, segments, _SEGMENTS_OF_CHUNK))
    ends = (*firsts[1:], segments)
    return Plan(
        fingerprint=fingerprint,
        profile="default",
        video_stream=0,
        origin_ticks=0,
        borders=tuple(range(0, (segments + 1) * _SEGMENT_TICKS, _SEGMENT_TICKS)),
        chunks=tuple(
            Chunk(number=number, first_segment=first, end_segment=end, copied=False)
            for number, (first, end) in enumerate(zip(firsts, ends, strict=True))
        ),
        renditions=tuple(
            Rendition(
                name=str(height),
                kind=RenditionKind.ENCODE,
                width=width,
                height=height,
                codecs="avc1.640028",
                max_rate=rate,
            )
            for width, height, rate in _RUNGS
        ),
        sets=(RenditionSet(name="ladder", renditions=tuple(str(height) for _, height, _ in _RUNGS), weight=3633),),
        audio=(AudioTrack(name="a0", stream_index=1, kind=AudioKind.ENCODE, sample_rate=48_000, label="English"),),
        frame_rate=(30, 1),
        frame_ticks=3000,
    )
