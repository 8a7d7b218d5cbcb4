"""The engine's worker: takes tasks by the rules of ``app.queue.schedule``, does them in media children, writes results.

::

    wait for a change ──► choose ──► claim ──► perform ──► complete ──► wait …
                             │                    │
                      why nothing is done         ├─ failed: end (transient, permanent)
                                                  ├─ the machine's fault (disk full …): end (freed), rest, go on
                                                  ├─ stale (cancelled, removed): drop
                                                  └─ the engine stops: end (freed)

A paused job's children are frozen at once and hold no slot. When somebody waits to watch a chunk and all slots are
taken, a running chunk is frozen until that one is done; it goes on before anything new is begun. An end that could
not be written (the disk is full) is written later, before anything else is done: until then the task counts as held.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import msgspec

from app.core.errors import ErrorCode, ExpectedError, StaleError, mistake_of_ours
from app.engine.abilities import AbilityMeter
from app.engine.choosing import FEW, MOST, Plans, TaskChoices
from app.engine.films import EngineFilms
from app.engine.kernel import TROUBLES, Kernel
from app.engine.peers import Peers
from app.engine.performing import Performer, Running
from app.engine.preview import Previewer
from app.engine.wanted import WantedTasks
from app.media.plan import Plan
from app.queue.abilities import Abilities
from app.queue.benching import Bench
from app.queue.needs import needs_of
from app.queue.pool import Peer
from app.queue.rows import EndRank, JobRow, Lease, LeaseFlag, TaskRow
from app.queue.schedule import Candidate, Decision, choose_task
from app.queue.store import JobStore
from app.queue.targets import ResourceClass, TaskKind, find_target
from app.transcode.supervisor import ChildError

_log = logging.getLogger(__name__)

HEARTBEAT_S = 12.0
RELEASE_PAUSED_S = 600.0
TROUBLE_REST_S = 10.0
STOP_S = 5.0
ROOM_BYTES = 64 << 20
"""What must be free above the disk's floor before work goes on after the disk was full."""
_STALE_REST_S = 0.1


class Slots:
    """How many tasks of each class run at once."""

    def __init__(self, *, heavy: int, light: int) -> None:
        self._limits = {ResourceClass.HEAVY: heavy, ResourceClass.LIGHT: light, ResourceClass.INLINE: 1}

    def free(self, running: list[Running]) -> dict[ResourceClass, int]:
        """Return how many tasks of each class may be begun beside ``running``; frozen ones take no slot."""
        busy = [one.resource for one in running if not (one.paused or one.gave_way)]
        return {kind: limit - busy.count(kind) for kind, limit in self._limits.items()}


class UnwrittenEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a lease ended, while that could not be written."""

    running: Running
    rank: EndRank
    code: ErrorCode
    message: str


class Worker:
    """Does the work of one engine."""

    def __init__(self, kernel: Kernel, films: EngineFilms, wanted: WantedTasks, *, peers: Peers, slots: Slots) -> None:
        self._kernel = kernel
        self._peers = peers
        self._films = films
        self._wanted = wanted
        self._slots = slots
        self._performer = Performer(kernel, peers)
        self._previewer = Previewer(kernel, wanted)
        self._plans = Plans()
        self._choices = TaskChoices(kernel, self._plans)
        self._bench = Bench()
        self._meter = AbilityMeter()
        self.running: dict[str, Running] = {}
        """Task id → what runs now."""
        self.reasons: Mapping[str, str] = {}
        """Job → why none of its tasks is begun here, as it was when the worker last looked."""
        self.is_idle = False
        """Whether there is nothing that this engine can do now."""
        self._unwritten: list[UnwrittenEnd] = []
        self._renounced: dict[str, list[Running]] = {}
        self._resting_until_s = 0.0
        self._obeyed = -1
        self._loop_task: asyncio.Task[None] | None = None
        wanted.on_wanted = self._kernel.changed.set

    def start(self) -> None:
        """Begin to work."""
        self._loop_task = asyncio.create_task(self._run(), name="worker")

    async def stop(self) -> None:
        """End what runs as *freed* within 5 s and stop."""
        if self._loop_task is not None:
            self._loop_task.cancel()
            await asyncio.gather(self._loop_task, return_exceptions=True)
        await _stop(self.running.values())
        await self._previewer.close()
        self._peers.announce(msgspec.structs.replace(self._peers.abilities, works=False, free_slots=0))

    def own_tokens(self) -> frozenset[str]:
        """Return the tokens of the leases that this process holds."""
        return frozenset(one.lease.token for one in self.running.values())

    # What people do to jobs

    def pause(self, job_id: str) -> None:
        """Freeze the job's children at once."""
        for one in self._of(job_id):
            one.pause()
        self._previewer.stop(job_id)
        self._kernel.changed.set()

    def resume(self, job_id: str) -> None:
        """Let the job's children go on."""
        for one in self._of(job_id):
            one.resume()
        self._kernel.changed.set()

    @contextmanager
    def renouncing(self, job_id: str) -> Iterator[None]:
        """Change the job's rows inside; then ``drop`` must follow, which finds the notes of what was made."""
        running = self._renounced[job_id] = self._of(job_id)
        for one in running:
            one.keeps_notes = True
        try:
            yield
        except BaseException:
            del self._renounced[job_id]
            for one in running:
                one.keeps_notes = False
            raise

    async def drop(self, job_id: str) -> tuple[str, ...]:
        """End the job's children and wait until they are gone; their results are not wanted, their notes stay.

        Returns the bundles that they sealed since ``renouncing``.
        """
        ended = [*self._renounced.pop(job_id, ()), *self._of(job_id)]
        for one in self._of(job_id):
            one.unwanted = one.keeps_notes = True
        await self.release(job_id)
        return tuple(one.bundle for one in ended if one.bundle is not None)

    async def release(self, job_id: str) -> None:
        """End the job's children as *freed* and wait until they are gone."""
        await _stop(self._of(job_id))
        await self._previewer.drop(job_id)

    def _of(self, job_id: str) -> list[Running]:
        return [one for one in self.running.values() if one.job_id == job_id]

    # The loop

    async def _run(self) -> None:
        with self._kernel.changed.watch() as changed:
            while True:
                changed.clear()
                try:
                    delay_s = await self._step()
                except Exception as error:  # noqa: BLE001 (the edge of the worker: a bug must not end all work in silence)
                    _log.exception("the choice of the next task")
                    delay_s = self._rest(mistake_of_ours(error))
                if delay_s == 0:
                    continue
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), delay_s)

    async def _step(self) -> float | None:
        """Begin one task if there is one; return 0 to look again at once, else how long to wait at most."""
        now_s = self._kernel.clock.monotonic_s()
        if now_s < self._resting_until_s:
            return self._resting_until_s - now_s
        try:
            await self._obey()
            await self._check_room()
            await self._write_ends()
            decision = await self._decide(now_s)
            if decision.task_id is not None:
                await self._begin(decision.task_id)
                return 0
        except StaleError:
            return _STALE_REST_S
        except ExpectedError as error:
            return self._rest(error)
        self._note_idle(decision)
        if decision.look_again_at_s is not None:
            return max(0.05, decision.look_again_at_s - now_s)
        return None

    async def _obey(self) -> None:
        """Let what runs follow the rows, which may have come from elsewhere: paused, resumed, not wanted any more."""
        version = self._kernel.version
        if version == self._obeyed or not self.running:
            return
        held = [one for one in self.running.values() if not one.is_writing]

        def look(store: JobStore) -> list[tuple[bool, bool]]:
            return [(store.holds(one.row.id, one.lease), _is_paused(store, one.job_id)) for one in held]

        for one, (holds, paused) in zip(held, await self._kernel.queue(look), strict=True):
            if one.is_writing:
                continue
            if not holds:
                one.abandon()
            elif paused and not one.paused:
                one.pause()
            elif one.paused and not paused:
                one.resume()
        self._obeyed = version

    def _note_idle(self, decision: Decision) -> None:
        """Note, for whoever asks, that nothing was begun and why; tell when that is new."""
        is_idle = not self.running and decision.look_again_at_s is None
        is_news = (
            is_idle != self.is_idle
            or decision.reasons.keys() != self.reasons.keys()
            or (is_idle and self._kernel.trouble is not None)
        )
        self.reasons, self.is_idle = decision.reasons, is_idle
        if is_idle:
            self._kernel.trouble = None
        if is_news:
            self._kernel.changed.set()

    def _rest(self, error: ExpectedError) -> float:
        """Say why the machine cannot work now; return in how many seconds to look again."""
        self._kernel.trouble = error.info
        self._resting_until_s = self._kernel.clock.monotonic_s() + TROUBLE_REST_S
        self._kernel.changed.set()
        return TROUBLE_REST_S

    async def _check_room(self) -> None:
        """After a full disk: raise the same error until there is room, so that no work is begun in vain."""
        trouble = self._kernel.trouble
        if trouble is not None and trouble.code == ErrorCode.DISK_FULL:
            space = await self._kernel.store(lambda storage: storage.space())
            if space.free_bytes < space.floor_bytes + ROOM_BYTES:
                raise ExpectedError(ErrorCode.DISK_FULL, trouble.message)

    async def _write_ends(self) -> None:
        """Write the ends that could not be written when they happened."""
        while self._unwritten:
            await self._write_end(self._unwritten[0])
            self._unwritten.pop(0)

    def _may_wait(self, candidate: Candidate) -> bool:
        """Whether a task should leave the machine to a first chunk, which is what somebody can begin to watch."""
        is_heavy = candidate.resource is ResourceClass.HEAVY and candidate.task_id not in self._wanted.task_ids
        if not is_heavy and candidate.target.kind is not TaskKind.STILLS:
            return False
        videos = (one for one in self.running.values() if one.target.kind is TaskKind.VIDEO)
        return any(
            one.target.chunk == 0 and one.resource is ResourceClass.HEAVY and not one.control.is_frozen
            for one in videos
        )

    async def _decide(self, now_s: float) -> Decision:
        wanted = self._wanted.task_ids
        startable = await self._startable(wanted, now_s, most=FEW)
        if not any(one.task_id in wanted and one.resource is ResourceClass.HEAVY for one in startable):
            self._give_way_back()
        free = self._slots.free(list(self.running.values()))
        me, peers = await self._abilities(), self._others()
        self._peers.announce(me)
        if peers and self._bench.is_benched(now_s):
            reason = "This device rests, because work on several films failed here."
            return Decision(reason=reason, look_again_at_s=self._bench.until_s)
        decision = choose_task(startable, wanted=wanted, free=free, now_s=now_s, me=me, peers=peers)
        if decision.task_id is None and not self._choices.has_read_all:
            startable = await self._startable(wanted, now_s, most=MOST)
            decision = choose_task(startable, wanted=wanted, free=free, now_s=now_s, me=me, peers=peers)
        if self._must_give_way(startable, wanted, free, decision):
            free[ResourceClass.HEAVY] += 1
            decision = choose_task(startable, wanted=wanted, free=free, now_s=now_s, me=me, peers=peers)
        await self._previewer.look(self.running.values())
        if decision.trouble is not None:
            raise ExpectedError(ErrorCode(decision.trouble.code), decision.trouble.message)
        return decision

    async def _startable(self, wanted: frozenset[str], now_s: float, *, most: int) -> list[Candidate]:
        running_jobs = frozenset(one.job_id for one in self.running.values())
        candidates = await self._choices.read(wanted=wanted, running_jobs=running_jobs, now_s=now_s, most=most)
        return [one for one in candidates if one.task_id not in self.running and not self._may_wait(one)]

    async def _abilities(self) -> Abilities:
        space = await self._kernel.store(lambda storage: storage.space())
        free = self._slots.free(list(self.running.values()))
        return self._meter.abilities(
            works=True,
            free_slots=free[ResourceClass.HEAVY],
            space=space,
            reserved_bytes=sum(one.needs.disk_bytes for one in self.running.values()),
        )

    def _others(self) -> tuple[Peer, ...]:
        return tuple(
            Peer(device=one.device, name=one.name, abilities=one.abilities, bytes_per_s=one.bytes_per_s)
            for one in self._peers.connected()
        )

    def _must_give_way(
        self,
        startable: list[Candidate],
        wanted: frozenset[str],
        free: dict[ResourceClass, int],
        decision: Decision,
    ) -> bool:
        """Freeze a running chunk when somebody waits to watch another one and there is no room; True if it did."""
        waited_for = [one for one in startable if one.task_id in wanted and one.resource is ResourceClass.HEAVY]
        if not waited_for or free[ResourceClass.HEAVY] > 0 or decision.task_id in wanted:
            return False
        movable = [
            one
            for task_id, one in self.running.items()
            if one.resource is ResourceClass.HEAVY and task_id not in wanted and not one.control.is_frozen
        ]
        if not movable:
            return False
        movable[-1].give_way()
        return True

    def _give_way_back(self) -> None:
        """Thaw chunks that gave way, as far as there is room."""
        for one in self.running.values():
            if one.gave_way and self._slots.free(list(self.running.values()))[ResourceClass.HEAVY] > 0:
                one.take_back()

    # One task

    async def _begin(self, task_id: str) -> None:
        def claim(store: JobStore) -> tuple[Lease, TaskRow, JobRow, Plan | None]:
            lease = store.claim(task_id)
            task = store.task(task_id)
            job = store.job(task.job_id)
            target = find_target(task.target)
            return lease, task, job, self._plans.of_task(store, job, target)

        lease, task, job, plan = await self._kernel.change(claim)
        self._kernel.trouble = None
        self.is_idle = False
        running = Running(task=None, row=task, job=job, lease=lease, plan=plan)
        running.needs = needs_of(job, running.target, plan, undone_weight=0, has_source=True)
        self.running[task_id] = running
        running.task = asyncio.create_task(self._hold(running), name=task.target)

    async def _hold(self, running: Running) -> None:
        """Hold the lease while the task is done, and see it ended whatever happens."""
        beats = asyncio.create_task(self._beat(running))
        try:
            await self._perform(running)
        finally:
            beats.cancel()
            await asyncio.gather(beats, return_exceptions=True)
            self.running.pop(running.row.id, None)
            self._kernel.changed.set()

    async def _perform(self, running: Running) -> None:
        try:
            await self._peers.settle(running.row.id, running.lease)
            started_s = self._kernel.clock.monotonic_s()
            await self._performer.perform(running)
            self._note_success(running, self._kernel.clock.monotonic_s() - started_s)
        except StaleError:
            running.unwanted = True
            await self._end(running, EndRank.FREED, ErrorCode.CANCELLED, "It was not wanted any more.")
        except asyncio.CancelledError:
            await self._end(running, EndRank.FREED, ErrorCode.CANCELLED, "The engine stopped; it goes on later.")
            raise
        except ChildError as error:
            rank = EndRank.PERMANENT if error.permanent else EndRank.TRANSIENT
            self._note_failure(running, rank)
            await self._end(running, rank, error.code, error.message)
        except ExpectedError as error:
            if error.code == ErrorCode.DISCONNECTED:
                await self._end(running, EndRank.FREED, error.code, error.message)
            elif error.code in TROUBLES:
                self._rest(error)  # before the end, or the task would be begun again at once
                await self._end(running, EndRank.FREED, error.code, error.message)
            else:
                await self._end(running, _rank_of(error), error.code, error.message)
        except Exception as error:  # noqa: BLE001 (the edge of the worker: one task fails, nothing else)
            _log.exception("task %s", running.row.target)
            await self._end(running, EndRank.TRANSIENT, ErrorCode.INTERNAL, mistake_of_ours(error).message)

    def _note_success(self, running: Running, took_s: float) -> None:
        self._bench.succeeded()
        if not running.was_frozen:
            beside = sum(one.resource is ResourceClass.HEAVY for one in self.running.values())
            self._meter.note_chunk(work=running.needs.work, took_s=took_s, beside=beside)

    def _note_failure(self, running: Running, rank: EndRank) -> None:
        if rank is EndRank.TRANSIENT:
            self._bench.failed(running.job_id, now_s=self._kernel.clock.monotonic_s())

    async def _end(self, running: Running, rank: EndRank, code: ErrorCode, message: str) -> None:
        """Write the end of a lease and forget what it made; what cannot be written now is written later."""
        end = UnwrittenEnd(running=running, rank=rank, code=code, message=message)
        try:
            await self._write_end(end)
        except ExpectedError as error:
            _log.info("the end of %s could not be written yet: %s", running.row.target, error)
            self._unwritten.append(end)
            self._rest(error)

    async def _write_end(self, end: UnwrittenEnd) -> None:
        running = end.running
        with contextlib.suppress(StaleError):
            if running.unwanted:
                await self._kernel.change(lambda store: store.give_up(running.row.id, running.lease))
            else:
                await self._kernel.change(
                    lambda store: store.end(
                        running.row.id, running.lease, rank=end.rank, code=end.code, message=end.message
                    )
                )
        if not running.keeps_notes:
            await self._performer.forget(running)

    async def _beat(self, running: Running) -> None:
        """Give signs of life, with progress; a stale answer ends the work."""
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            running.release_when_frozen_for(RELEASE_PAUSED_S, self._kernel.clock.monotonic_s())
            flag = LeaseFlag.RUNNING
            if running.paused:
                flag = LeaseFlag.PAUSED
            elif running.control.is_frozen:
                flag = LeaseFlag.FROZEN
            try:
                running.lease = await self._kernel.change(
                    lambda store, flag=flag: store.beat(  # type: ignore[misc]
                        running.row.id, running.lease, progress_milli=running.milli, flag=flag
                    )
                )
            except StaleError:
                running.abandon()
                return
            except ExpectedError as error:
                _log.info("a sign of life of %s was not written: %s", running.row.target, error)


async def _stop(running: Iterable[Running]) -> None:
    """End what runs and wait, with a bound, until it is gone."""
    tasks = []
    for one in running:
        one.cancel()
        if one.task is not None:
            tasks.append(one.task)
    if tasks:
        await asyncio.wait(tasks, timeout=STOP_S)


def _is_paused(store: JobStore, job_id: str) -> bool:
    try:
        return store.job(job_id).paused.value
    except ExpectedError:
        return False


def _rank_of(error: ExpectedError) -> EndRank:
    """Return how an error of the world ends a lease: what another try cannot change is permanent."""
    lasting = {
        ErrorCode.SOURCE_CHANGED,
        ErrorCode.SOURCE_GONE,
        ErrorCode.NOT_FOUND,
        ErrorCode.UNREADABLE,
        ErrorCode.EMPTY,
        ErrorCode.DAMAGED_SOURCE,
        ErrorCode.RESULT_LOST,
    }
    return EndRank.PERMANENT if error.code in lasting else EndRank.TRANSIENT
