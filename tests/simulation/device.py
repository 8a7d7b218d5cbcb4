"""A device of the simulation: a disk that survives, a clock that lies, and an engine that lives now and then.

The engine is thin: it calls the real store, merge, observer, settling, schedule and replication as the real one is to,
and only "encoding" is a matter of waiting.
"""

# ruff: noqa: S311 (chance that can be replayed, not a secret)

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

from app.core.database import Database
from app.core.errors import ErrorCode, ExpectedError, StaleError
from app.media.film import PublishStage
from app.media.plan import Plan
from app.queue.benching import Bench
from app.queue.losses import is_result_lost
from app.queue.machine import TaskState, accepted_plan, held_state, index_task_id, outcome_counts, tasks_that_count
from app.queue.memory_store import MemoryJobStore, MemoryRowTable
from app.queue.observing import LeaseObserver
from app.queue.row_store import RowJobStore
from app.queue.rows import EndRank, JobRow, Lease, LeaseFlag, TaskRow
from app.queue.schedule import Candidate, candidate_of, choose_task
from app.queue.settling import Settling
from app.queue.sqlite_store import SqliteJobStore
from app.queue.targets import (
    ResourceClass,
    TaskKind,
    decode_index_result,
    encode_index_result,
    find_target,
    is_vital,
    tasks_of_plan,
)
from app.sync.replication import Message, Replication
from tests.simulation.films import Result, SimFilm, bundles_in, encode_result, plan_of
from tests.simulation.timeline import Timeline

if TYPE_CHECKING:
    from tests.simulation.world import World

BEAT_S = 12.0
TICK_S = (2.0, 4.5)
RELEASE_PAUSED_S = 600.0
CARE_S = 25.0
"""How often the vault is looked after."""
WORK_S = {TaskKind.INDEX: 3.0, TaskKind.AUDIO: 6.0, TaskKind.STILLS: 3.0, TaskKind.PUBLISH: 0.5}


class Disk:
    """What survives a crash: rows, the device's identity and boot number, and the vault."""

    def __init__(self, device_id: str, *, database: Database | None) -> None:
        self.device_id = device_id
        self.boot = 0
        self.database = database
        self.rows = MemoryRowTable()
        self.vault: set[str] = set()

    def copy(self) -> Disk:
        """Return the same once more: a backup, or a copied folder."""
        twin = Disk(self.device_id, database=Database(None) if self.database else None)
        twin.boot, twin.rows, twin.vault = self.boot, self.rows.copy(), set(self.vault)
        if self.database and twin.database:
            self.database._connection.backup(twin.database._connection)
        return twin

    def open(self, clock: SimClock, chance: Random) -> RowJobStore:
        """Return the store for the device's next life."""
        self.boot += 1

        def draw_id() -> str:
            return f"{chance.getrandbits(128):032x}"

        if self.database:
            return SqliteJobStore(
                database=self.database, device=self.device_id, boot=self.boot, clock=clock, draw_id=draw_id
            )
        return MemoryJobStore(device=self.device_id, boot=self.boot, clock=clock, rows=self.rows, draw_id=draw_id)


class SimClock:
    """A wall clock that may be wrong by hours and jump, and a monotonic one that may stand still in sleep."""

    def __init__(self, timeline: Timeline, chance: Random) -> None:
        self._timeline = timeline
        self.offset_s = chance.choice((0.0, chance.uniform(-2, 2), chance.uniform(-86_400, 86_400)))
        self._stops_in_sleep = chance.random() < 0.5
        self.slept_s = 0.0

    def wall_ms(self) -> int:
        return max(0, round((1_700_000_000 + self.offset_s + self._timeline.now_s) * 1000))

    def monotonic_s(self) -> float:
        return self._timeline.now_s - (self.slept_s if self._stops_in_sleep else 0.0)


class Work:
    """A task that an engine has claimed."""

    def __init__(self, job: JobRow, task: TaskRow, lease: Lease, *, seconds: float) -> None:
        self.job, self.task, self.lease = job, task, lease
        self.seconds = seconds
        self.done_s = 0.0
        self.has_started = False
        self.paused_s = 0.0
        self.is_paused = False
        self.is_calm = False
        """Whether it was begun while all devices heard each other."""


class Engine:
    """One life of a device."""

    def __init__(self, device: SimDevice, world: World) -> None:
        self.device, self.world = device, world
        self.chance = Random(world.chance.getrandbits(64))
        self.store = device.disk.open(device.clock, self.chance)
        self.store.end_forgotten_leases()
        self.observer = LeaseObserver(random=self.chance)
        self.settling = Settling(settle_s=2.0)
        self.bench = Bench()
        self.works: dict[str, Work] = {}
        self.sessions: dict[str, Replication] = {}
        self.is_alive = True
        self._plans: dict[str, Plan] = {}
        self._ticked_at_s = self.now_s
        self._beat_at_s = self._care_at_s = 0.0
        self._unreached_s: dict[str, float] = {}
        self._schedule()

    @property
    def now_s(self) -> float:
        return self.device.clock.monotonic_s()

    def _schedule(self) -> None:
        self.world.timeline.after(self.chance.uniform(*TICK_S), self._tick_if_awake)

    def _tick_if_awake(self) -> None:
        if not self.is_alive:
            return
        if not self.device.is_asleep:
            self.tick()
        self._schedule()

    def tick(self) -> None:
        passed_s = min(self.now_s - self._ticked_at_s, 5.0)
        self._ticked_at_s = self.now_s
        steps = (self._observe, self._beat, lambda: self._work(passed_s), self.look, lambda: self._care(passed_s))
        for step in (*steps, self._talk):
            if self.is_alive:
                step()

    # Sessions

    def connect(self, peer: SimDevice) -> None:
        session = Replication(store=self.store, peer=peer.disk.device_id)
        self.sessions[peer.name] = session
        self.send(peer.name, session.connected(self.now_s))

    def disconnect(self, peer: str) -> None:
        if self.sessions.pop(peer, None):
            self.settling.lost(peer)

    def send(self, peer: str, messages: tuple[Message, ...]) -> None:
        if messages and self.device.dies_before_sending:
            self.device.dies_before_sending = False
            self.world.crash(self.device)
        if self.is_alive:
            for message in messages:
                self.world.carry(self.device.name, peer, message)

    def receive(self, peer: str, message: Message) -> None:
        session = self.sessions.get(peer)
        if session is None:
            return
        received = session.receive(message, self.now_s)
        if received.answered:
            self.settling.answered(peer, received.answered)
        self.device.heard_own_news += len(received.own_news)
        self.send(peer, received.replies)
        if self.is_alive and received.answered:
            self.look()

    def _talk(self) -> None:
        for peer, session in list(self.sessions.items()):
            self.send(peer, session.tick(self.now_s))

    # Leases

    def _observe(self) -> None:
        leased = [(self.store.job(task.job_id), task) for task in self.store.live_leases()]
        own = {work.lease.token for work in self.works.values()}
        for over in self.observer.tick(leased, own=own, revoked=self.world.revoked, now_s=self.now_s):
            before = self.store.task(over.task_id)
            try:
                self.store.reclaim(over.task_id, over.lease, rank=over.rank, code=over.code, message=over.message)
            except StaleError:
                self.world.check(self.store.task(over.task_id) == before, "Q2", "a refused reclaim changed a row")

    def _beat(self) -> None:
        if self.now_s < self._beat_at_s:
            return
        self._beat_at_s = self.now_s + BEAT_S
        for work in list(self.works.values()):
            flag = LeaseFlag.PAUSED if work.is_paused else LeaseFlag.RUNNING
            milli = min(999, int(1000 * work.done_s / work.seconds))
            try:
                work.lease = self.store.beat(work.task.id, work.lease, progress_milli=milli, flag=flag)
            except StaleError:
                self.drop(work)

    def drop(self, work: Work) -> None:
        """Stop what is not wanted any more, and say that it was dropped by the living."""
        self.works.pop(work.task.id, None)
        with suppress(StaleError):
            self.store.give_up(work.task.id, work.lease)

    def _work(self, passed_s: float) -> None:
        for work in list(self.works.values()):
            if not self.store.holds(work.task.id, work.lease):
                self.drop(work)
                continue
            work.is_paused = self.store.job(work.job.id).paused.value
            work.paused_s = work.paused_s + passed_s if work.is_paused else 0.0
            if work.paused_s > RELEASE_PAUSED_S:
                del self.works[work.task.id]
                self._fail(work, EndRank.FREED)
                continue
            if work.has_started and not work.is_paused:
                work.done_s += passed_s
                if work.done_s >= work.seconds:
                    self._finish(work)
            if not self.is_alive:
                return

    def look(self) -> None:
        """Start what has settled; claim what comes next."""
        self._start_settled()
        for _ in range(3):
            if not self.is_alive or not self._claim_next():
                break
        if self.is_alive:
            self._start_settled()

    def _start_settled(self) -> None:
        for claim in self.settling.take_settled(self.now_s):
            work = self.works.get(claim.task_id)
            if work is None or work.lease.token != claim.lease.token:
                continue
            if self.store.holds(claim.task_id, claim.lease):
                self._start(work)
            else:
                self.drop(work)

    def _start(self, work: Work) -> None:
        work.has_started = True
        self.world.note_start(self, work)

    def _claim_next(self) -> bool:
        if self.bench.is_benched(self.now_s):
            return False
        candidates = [one for one in self._candidates() if one.task_id not in self.works]
        task_id = choose_task(candidates, wanted=(), free=self._free(), now_s=self.now_s).task_id
        if task_id is None:
            return False
        try:
            lease = self.store.claim(task_id)
        except StaleError:
            return False
        task = self.store.task(task_id)
        job = self.store.job(task.job_id)
        self.world.note_claim(self, job, task, lease)
        work = self.works[task_id] = Work(job, task, lease, seconds=self._seconds(task))
        self._announce(work)
        return True

    def _announce(self, work: Work) -> None:
        peers = tuple(self.sessions) if self.world.rules.settles else ()
        self.settling.announce(work.task.id, work.lease, peers=peers, now_s=self.now_s)
        for peer in peers:
            if peer in self.sessions:
                self.send(peer, (self.sessions[peer].claim(work.task.id, work.lease.token),))

    def _seconds(self, task: TaskRow) -> float:
        kind = TaskKind(task.kind)
        return WORK_S[kind] if kind in WORK_S else self.chance.uniform(*self.world.profile.chunk_s)

    def _free(self) -> dict[ResourceClass, int]:
        busy = [self._resource(work.task) for work in self.works.values() if not work.is_paused]
        return {kind: 1 - busy.count(kind) for kind in ResourceClass}

    def _resource(self, task: TaskRow) -> ResourceClass:
        heavy = {TaskKind.VIDEO: ResourceClass.HEAVY, TaskKind.PUBLISH: ResourceClass.INLINE}
        return heavy.get(TaskKind(task.kind), ResourceClass.LIGHT)

    def _candidates(self) -> list[Candidate]:
        found = []
        for task in self.store.all_open_tasks():
            job = self.store.job(task.job_id)
            plan = None if task.kind == TaskKind.INDEX else self._plan(job)
            if task.kind == TaskKind.INDEX or plan is not None:
                done, failed = self._settled_targets(job) if task.kind == TaskKind.PUBLISH else (set(), set())
                rests = self.store.resting_until_s(task.id)
                found.append(candidate_of(job, task, plan=plan, completed=done, failed=failed, resting_until_s=rests))
        return found

    def _plan(self, job: JobRow) -> Plan | None:
        index = self.store.accepted_index(job.id)
        name = self.store.accepted_plan_hash(job.id)
        if index is None or name is None:
            return None
        if name not in self._plans:
            self._plans[name] = decode_index_result(index.value)
        return self._plans[name]

    def _settled_targets(self, job: JobRow) -> tuple[set[str], set[str]]:
        tasks = tasks_that_count(job, self.store.tasks(job.id))
        done = {task.target for task in tasks if outcome_counts(job, task)}
        return done, {task.target for task in tasks if held_state(job, task) is TaskState.FAILED}

    # Results

    def _finish(self, work: Work) -> None:
        fate = self.world.fate_of(self, work)
        if fate == "crash":
            self.world.crash(self.device)
            return
        self.works.pop(work.task.id)
        try:
            if fate == "done":
                self._complete(work)
            else:
                self._fail(work, EndRank(fate))
        except StaleError:
            self.drop(work)

    def _fail(self, work: Work, rank: EndRank) -> None:
        self.store.end(work.task.id, work.lease, rank=rank, code=ErrorCode.WORKER_CRASHED, message="It went wrong.")
        if rank is not EndRank.FREED:
            self.bench.failed(work.job.id, now_s=self.now_s)

    def _complete(self, work: Work) -> None:
        job, task = self.store.job(work.job.id), self.store.task(work.task.id)
        if task.kind == TaskKind.INDEX:
            plan = plan_of(job.fingerprint, planner=self.device.planner)
            self.store.complete(task.id, work.lease, value=encode_index_result(plan), next_tasks=tasks_of_plan(plan))
        elif task.kind == TaskKind.PUBLISH:
            self._publish(job, task, work)
        else:
            bundle = f"{task.id}:{work.lease.token}"
            self.store.complete(task.id, work.lease, value=encode_result(Result(bundle=bundle)))
            self._keep(bundle)
        self.bench.succeeded()

    def _publish(self, job: JobRow, task: TaskRow, work: Work) -> None:
        made = [one for one in tasks_that_count(job, self.store.tasks(job.id)) if one.kind != TaskKind.PUBLISH]
        lacking = [one for one in made if not outcome_counts(job, one) and is_vital_task(one)]
        if lacking or accepted_plan(job, self.store.task(index_task_id(job))) not in task.target:
            self._fail(work, EndRank.FREED)
            return
        parts = [one for one in made if one.outcome and outcome_counts(job, one) and one.kind != TaskKind.INDEX]
        if self.world.rules.publishes_by_value:
            bundles = [bundle for one in parts if one.outcome for bundle in bundles_in(one.kind, one.outcome.value)]
            film = SimFilm(bundles=tuple(bundles))
        else:
            film = SimFilm(tasks=tuple(one.id for one in parts))
        self.store.complete(task.id, work.lease, value=encode_result(film))
        self.store.compact_job(job.id)

    # The vault

    def _keep(self, bundle: str) -> None:
        """Put a bundle into the vault, and say so: statements of holders are rows of their own, not simulated here."""
        self.device.disk.vault.add(bundle)
        self.world.holders[bundle].add(self.device.name)

    def live_bundles(self) -> dict[str, TaskRow]:
        """Return what results name, as far as they count here, and the task to give up when it is lost."""
        found: dict[str, TaskRow] = {}
        for job in self.store.jobs():
            for task in self.store.tasks(job.id):
                if task.outcome and outcome_counts(job, task):
                    found |= dict.fromkeys(bundles_in(task.kind, task.outcome.value), task)
        return found

    def _care(self, passed_s: float) -> None:
        for peer in self.world.member_names():
            is_there = peer in self.sessions or peer == self.device.name
            self._unreached_s[peer] = 0.0 if is_there else self._unreached_s.get(peer, 0.0) + passed_s
        if self.now_s < self._care_at_s:
            return
        self._care_at_s = self.now_s + CARE_S
        for bundle, task in self.live_bundles().items():
            if bundle not in self.device.disk.vault:
                self._fetch_or_mourn(bundle, task)

    def _fetch_or_mourn(self, bundle: str, task: TaskRow) -> None:
        """Copy what a peer has; give up what nobody has. Not being able to fetch is no failure."""
        peers = [self.world.devices[name] for name in self.sessions if name in self.world.devices]
        if any(bundle in peer.disk.vault for peer in peers):
            if self.chance.random() < self.world.profile.spread:
                self._keep(bundle)
            return
        lost = is_result_lost(
            holders=self.world.holders[bundle],
            revoked=self.world.revoked_names(),
            denied={self.device.name, *(peer.name for peer in peers)},
            silent_s=self._unreached_s,
            is_published=task.kind == TaskKind.PUBLISH,
            can_be_made_here=True,
        )
        if lost:
            with suppress(ExpectedError):
                self.store.raise_void(task.id)


def is_vital_task(task: TaskRow) -> bool:
    target = find_target(task.target)
    return target is not None and is_vital(target)


class SimDevice:
    """A device, whether its engine lives or not."""

    def __init__(self, name: str, disk: Disk, timeline: Timeline, chance: Random, *, planner: int) -> None:
        self.name, self.disk = name, disk
        self.clock = SimClock(timeline, chance)
        self.planner = planner
        self.engine: Engine | None = None
        self.is_asleep = False
        self.asleep_since_s = 0.0
        self.dies_before_sending = False
        self.backup: Disk | None = None
        self.heard_own_news = 0
        self.is_copy = False

    @property
    def is_up(self) -> bool:
        """Whether it can be talked to."""
        return self.engine is not None and not self.is_asleep

    def film_stage(self, job_id: str) -> PublishStage | None:
        """Return how much of a film is published here."""
        film = self.engine.store.published(job_id) if self.engine else None
        return film[0] if film else None
