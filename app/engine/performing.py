"""Doing one task: the source is looked at, a child works, what it makes is sealed and noted, the result is written.

A segment is sealed and noted as soon as the child hands it over, so players have it at once; when the task completes
they become its bundle, and only then the notes are dropped.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from app.core.encoding import encode_canonical
from app.core.errors import BugError, ErrorCode, ExpectedError
from app.engine.kernel import Kernel
from app.engine.peers import Peers
from app.engine.publishing import build_film
from app.engine.sidecars import find_texts
from app.media.film import Bundle, BundleEntry, PublishStage, StillsResult, TaskResult
from app.media.plan import Plan
from app.playback.source import INIT_NUMBER
from app.queue.machine import outcome_counts, tasks_that_count
from app.queue.pool import Needs
from app.queue.rows import JobRow, Lease, TaskRow
from app.queue.store import JobStore
from app.queue.targets import (
    ResourceClass,
    Target,
    TaskKind,
    TextInput,
    decode_text_inputs,
    encode_index_result,
    parse_target,
    resource_of,
    tasks_of_plan,
)
from app.storage.opening import Storage
from app.storage.segments import LeaseKey, MadeSegment
from app.storage.source_ledger import KnownSource, SourceState
from app.transcode.messages import (
    Done,
    IndexSource,
    InitMade,
    MakeAudio,
    MakeStills,
    MakeText,
    MakeVideo,
    Progressed,
    Report,
    SegmentMade,
    SourceHandle,
    StillMade,
    TextFound,
)
from app.transcode.remote_source import serve_source
from app.transcode.supervisor import ChildControl, OnReport

_NO_SOURCE = SourceHandle()
_SEALED_AT_ONCE = 3
"""Pieces of one task that are sealed beside each other while its child goes on."""


class Running:
    """A task that this engine holds the lease of."""

    def __init__(
        self, *, task: asyncio.Task[None] | None, row: TaskRow, job: JobRow, lease: Lease, plan: Plan | None
    ) -> None:
        self.task = task
        self.row = row
        self.job = job
        self.lease = lease
        self.plan = plan
        self.target: Target = parse_target(row.target)
        self.resource: ResourceClass = resource_of(self.target, plan)
        self.control = ChildControl()
        self.milli = 0
        self.film_ticks = 0
        self.last_segment: dict[str, int] = {}
        """Rendition or track → the last segment that was made."""
        self.paused = False
        self.gave_way = False
        self.steps_aside = False
        """Whether it rests while a preview of it is made; it keeps its slot."""
        self.released = False
        self.unwanted = False
        """Whether the lease is over already, so that no end is to be written."""
        self.text_inputs: dict[str, TextInput] = {}
        """What an ``index`` read of the text tracks, sealed, by track."""
        self.bundle: str | None = None
        """What it made, sealed together; an outcome may or may not have come to name it."""
        self.keeps_notes = False
        """Whether the notes of what it made stay when it ends: who dropped it collects by them."""
        self.is_writing = False
        """Whether its result is being written: what it made is decided by the queue alone from here on."""
        self.needs = Needs()
        """What it takes; its room on the disk is set apart while it runs."""
        self.was_frozen = False
        """Whether it ever rested, so that its time tells nothing of this device's speed."""
        self._frozen_since_s: float | None = None

    @property
    def job_id(self) -> str:
        """The job it belongs to."""
        return self.row.job_id

    @property
    def key(self) -> LeaseKey:
        """Names the lease in the table of segments."""
        return LeaseKey(task_id=self.row.id, epoch=self.lease.epoch, token=self.lease.token)

    def abandon(self) -> None:
        """Stop, because the lease is over: what it makes is not wanted."""
        self.unwanted = True
        self.cancel()

    def cancel(self) -> None:
        """Stop, once: a second cancellation would hit the cleaning up after the first."""
        if self.task is not None and not self.task.cancelling():
            self.task.cancel()

    def pause(self) -> None:
        """Rest, because the owner paused the job."""
        self.paused = True
        self._freeze()

    def resume(self) -> None:
        """Go on, because the owner resumed the job."""
        self.paused = False
        self._thaw()

    def give_way(self) -> None:
        """Rest until a chunk that somebody waits for is done."""
        self.gave_way = True
        self._freeze()

    def take_back(self) -> None:
        """Go on after that."""
        self.gave_way = False
        self._thaw()

    def step_aside(self) -> None:
        """Rest while a piece of this task is made ahead for somebody who waits."""
        self.steps_aside = True
        self._freeze()

    def step_back(self) -> None:
        """Go on after that."""
        self.steps_aside = False
        self._thaw()

    def _freeze(self) -> None:
        self.was_frozen = True
        self.control.freeze()

    def _thaw(self) -> None:
        if not (self.paused or self.gave_way or self.steps_aside):
            self.control.thaw()

    def release_when_frozen_for(self, limit_s: float, now_s: float) -> None:
        """Give the task back when it was frozen for ``limit_s`` (whole chunks stay)."""
        if not self.control.is_frozen:
            self._frozen_since_s = None
        elif self._frozen_since_s is None:
            self._frozen_since_s = now_s
        elif now_s - self._frozen_since_s >= limit_s:
            self.released = True
            self.cancel()


class Performer:
    """Carries tasks out."""

    def __init__(self, kernel: Kernel, peers: Peers) -> None:
        self._kernel = kernel
        self._peers = peers

    async def perform(self, running: Running) -> None:
        """Do the task and write its result.

        Raises ``StaleError`` when the result is not wanted any more, ``ExpectedError`` for what went wrong.
        """
        match running.target.kind:
            case TaskKind.INDEX:
                await self._index(running)
            case TaskKind.VIDEO | TaskKind.AUDIO:
                await self._make(running)
            case TaskKind.TEXT:
                await self._text(running)
            case TaskKind.STILLS:
                await self._stills(running)
            case TaskKind.PUBLISH:
                await self._publish(running)

    async def forget(self, running: Running) -> None:
        """Drop the notes of what an ended lease made; the shards go with a later collection."""
        await self._kernel.store(lambda storage: storage.segments.drop(running.key))

    async def _index(self, running: Running) -> None:
        job = running.job
        beside = await find_texts(self._kernel, (await self._source(job)).path)
        request = IndexSource(
            source=_NO_SOURCE,
            profile=job.profile,
            fingerprint=job.fingerprint,
            sidecars=tuple(one.sidecar for one in beside.texts),
        )
        done = await self._run_child(running, request)
        if done.plan is None:
            raise BugError("the index gave no plan")
        plan = msgspec.structs.replace(done.plan, warnings=(*done.plan.warnings, *beside.warnings))
        texts = {one.sidecar.digest: one.raw for one in beside.texts}
        for track in plan.text:
            if track.sidecar:
                await self._keep_text(running, TextFound(track=track.name, data=texts[track.sidecar]))
        inputs = tuple(running.text_inputs[track.name] for track in plan.text)
        await self._complete(running, encode_index_result(plan, inputs), next_tasks=tasks_of_plan(plan))

    async def _make(self, running: Running) -> None:
        plan = _plan_of(running)
        target = running.target
        request: Any
        if target.kind is TaskKind.VIDEO:
            request = MakeVideo(source=_NO_SOURCE, plan=plan, set=target.name, chunk=target.chunk)
        else:
            request = MakeAudio(source=_NO_SOURCE, plan=plan, track=target.name)
        done = await self._run_child(running, request)
        bundle = await self._bundle(running)
        result = TaskResult(bundle=bundle, facts=done.facts, warnings=done.warnings)
        await self._complete(running, encode_canonical(result).decode())
        await self.forget(running)

    async def _text(self, running: Running) -> None:
        """Make a text track from what ``index`` kept of it; the source is not needed."""
        plan = _plan_of(running)
        raw = await self._text_input(running)
        request = MakeText(track=running.target.name, raw=raw, duration_ticks=plan.duration_ticks)
        made: list[Report] = []

        async def take(report: Report) -> None:
            made.append(report)

        done = await self._kernel.supervisor.run(request, on_report=take, control=running.control)
        for report in made:
            await self._take(running, report)
        result = TaskResult(bundle=await self._bundle(running), facts=done.facts)
        await self._complete(running, encode_canonical(result).decode())
        await self.forget(running)

    async def _text_input(self, running: Running) -> bytes:
        """Return what ``index`` kept of a text track, here or on another device.

        Raises ``ExpectedError`` result-lost when nobody can have it, disconnected when the device is away that added
        the film and so probably read it.
        """
        index = await self._kernel.queue(lambda store: store.accepted_index(running.job_id))
        inputs = decode_text_inputs(index.value) if index is not None else ()
        capability = next((one.capability for one in inputs if one.track == running.target.name), None)
        lost = ExpectedError(ErrorCode.RESULT_LOST, "What was read of the subtitles is lost.")
        if capability is None:
            raise lost
        try:
            await self._peers.bring(capability)
            return await self._kernel.store(lambda storage: storage.vault.read_all(capability))
        except ExpectedError as error:
            adder = running.job.added.device
            if error.code != ErrorCode.MISSING_SHARD:
                raise
            if adder == self._kernel.device.id or self._peers.is_connected(adder):
                raise lost from error
            raise ExpectedError(
                ErrorCode.DISCONNECTED, "The device that read the subtitles cannot be reached now."
            ) from error

    async def _stills(self, running: Running) -> None:
        done = await self._run_child(running, MakeStills(source=_NO_SOURCE, plan=_plan_of(running)))
        if done.stills is None:
            raise BugError("the stills came without their layout")
        result = StillsResult(bundle=await self._bundle(running), info=done.stills)
        await self._complete(running, encode_canonical(result).decode())
        await self.forget(running)

    async def _publish(self, running: Running) -> None:
        plan = _plan_of(running)
        stage = PublishStage(running.target.name)

        def publish(store: JobStore) -> None:
            job = store.job(running.job_id)
            outcomes = {
                task.target: task.outcome.value
                for task in tasks_that_count(job, store.tasks(job.id))
                if task.outcome is not None and outcome_counts(job, task)
            }
            film = build_film(plan=plan, media_id=job.media_id, stage=stage, outcomes=outcomes)
            store.complete(running.row.id, running.lease, value=encode_canonical(film).decode())
            if stage is PublishStage.FULL:
                store.compact_job(job.id)

        running.is_writing = True
        await self._kernel.change(publish)

    async def _complete(self, running: Running, value: str, *, next_tasks: tuple[Any, ...] = ()) -> None:
        running.is_writing = True
        await self._kernel.change(
            lambda store: store.complete(running.row.id, running.lease, value=value, next_tasks=next_tasks)
        )

    async def _bundle(self, running: Running) -> str:
        """Seal the list of what this lease made."""

        def seal(storage: Any) -> str:
            entries: tuple[BundleEntry, ...] = storage.segments.take(running.key)
            capability: str = storage.vault.write_bundle(Bundle(entries=entries))
            running.bundle = capability
            return capability

        return await self._kernel.store(seal)

    async def _run_child(self, running: Running, request: Any) -> Done:
        """Run ``request`` on the job's source, be it here or on another device.

        Raises ``ExpectedError`` disconnected when the device that holds the source went away meanwhile.
        """
        try:
            async with asyncio.TaskGroup() as sealing:
                room = asyncio.Semaphore(_SEALED_AT_ONCE)

                async def take(report: Report) -> None:
                    if isinstance(report, Progressed):
                        running.milli, running.film_ticks = report.milli, report.film_ticks
                        return
                    await room.acquire()
                    sealing.create_task(self._take(running, report)).add_done_callback(lambda _: room.release())

                done = await self._run_on_source(running, request, take)
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        return done

    async def _run_on_source(self, running: Running, request: Any, take: OnReport) -> Done:
        job = running.job
        if await self._kernel.store(lambda storage: find_source(storage, job)) is None and self._is_elsewhere(running):
            return await self._run_from_afar(running, request, take)
        source = await self._source(job)
        done = await self._kernel.supervisor.run_on_source(
            request, source.path, on_report=take, control=running.control
        )
        await self._source(job)  # still what was added, after it was read
        return done

    def _is_elsewhere(self, running: Running) -> bool:
        return running.target.kind is not TaskKind.INDEX and self._peers.is_connected(running.job.added.device)

    async def _run_from_afar(self, running: Running, request: Any, take: OnReport) -> Done:
        """Run ``request`` on a source that a connected device holds, reading only the parts that are needed."""
        job = running.job

        async def read(offset: int, length: int) -> bytes:
            return await self._peers.read_source(job.fingerprint, offset, length)

        async with serve_source(size_bytes=job.size_bytes, read=read) as (source, reads):
            try:
                return await self._kernel.supervisor.run_from_afar(
                    request, source, on_report=take, control=running.control
                )
            except ExpectedError as error:
                if reads.failure is not None:
                    raise reads.failure from error
                raise

    async def _source(self, job: JobRow) -> KnownSource:
        """Return the job's source; raises ``ExpectedError`` source-gone or source-changed."""
        source = await self._kernel.store(lambda storage: find_source(storage, job))
        if source is None:
            raise ExpectedError(ErrorCode.SOURCE_GONE, f"This device does not hold “{job.name}”; add the file again.")
        state = await self._kernel.store(lambda storage: storage.sources.state(source))
        if state is SourceState.GONE:
            raise ExpectedError(
                ErrorCode.SOURCE_GONE, f"“{job.name}” is not where it was; bring the file back, then retry."
            )
        if state is SourceState.CHANGED:
            raise ExpectedError(
                ErrorCode.SOURCE_CHANGED,
                f"“{job.name}” was changed since it was added; remove it, then add it anew.",
            )
        return source

    async def _take(self, running: Running, report: Report) -> None:
        match report:
            case InitMade():
                await self._keep(running, report.name, INIT_NUMBER, report.data, 0)
            case SegmentMade():
                await self._keep(running, report.name, report.number, report.data, report.duration_ticks)
                last = running.last_segment.get(report.name, report.number)
                running.last_segment[report.name] = max(last, report.number)
            case StillMade():
                await self._keep(running, report.name, report.number, report.data, 0)
            case TextFound():
                await self._keep_text(running, report)
            case _:
                raise BugError(f"unexpected report {type(report).__name__}")

    async def _keep_text(self, running: Running, found: TextFound) -> None:
        """Seal what was read of a text track, for its task."""
        capability = await self._kernel.store(lambda storage: storage.vault.write_bytes(found.data, pad=True))
        running.text_inputs[found.track] = TextInput(track=found.track, capability=capability)

    async def _keep(self, running: Running, name: str, number: int, data: bytes, duration: int) -> None:
        """Seal one piece and note it, so that players have it."""

        def keep(storage: Any) -> None:
            capability = storage.vault.write_bytes(data, pad=True)
            storage.segments.note(
                MadeSegment(
                    lease=running.key,
                    job_id=running.job_id,
                    plan=running.target.plan,
                    name=name,
                    number=number,
                    capability=capability,
                    size_bytes=len(data),
                    duration_ticks=duration,
                )
            )

        await self._kernel.store(keep)
        self._kernel.changed.set()


def find_source(storage: Storage, job: JobRow) -> KnownSource | None:
    """Return where this device has the content of a job: its own entry, else any with that content."""
    own = storage.sources.find(job.id)
    if own is not None and own.fingerprint == job.fingerprint:
        return own
    return next(iter(storage.sources.find_by_fingerprint(job.fingerprint)), None)


def _plan_of(running: Running) -> Plan:
    if running.plan is None:
        raise BugError(f"{running.row.target} was claimed without its plan")
    return running.plan
