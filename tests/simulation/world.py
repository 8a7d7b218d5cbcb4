"""One simulated history: devices, a network that loses things, misfortunes, users, and what must hold all along.

A history is a function of its seed and profile. ``BreachError`` says which invariant broke, with the seed to replay it.
"""

# ruff: noqa: S311 (chance that can be replayed, not a secret)

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from random import Random

import msgspec
from msgspec.structs import replace

from app.core.database import Database
from app.core.errors import ExpectedError
from app.media.film import PublishStage
from app.queue.feed import RowKind, read_job, read_task
from app.queue.machine import MAX_ATTEMPTS, JobState, TaskState, attempts, held_state, job_status, tasks_that_count
from app.queue.merge import merge_job, merge_task
from app.queue.row_store import RowJobStore
from app.queue.rows import End, EndRank, JobParams, JobRow, Lease, Outcome, TaskRow, decode_row
from app.sync.replication import Message
from tests.simulation.device import Disk, Engine, SimDevice, Work
from tests.simulation.films import SimFilm
from tests.simulation.ledger import Ledger
from tests.simulation.profiles import Profile, Rules
from tests.simulation.timeline import Timeline

LONGEST_REST_S = 4 * 3600.0
"""How long it may take, after all misfortune has ended, until everything is at rest."""
CALM_AFTER_S = 90.0
CHECK_S = 15.0
_RESTING = {JobState.DONE, JobState.ERROR, JobState.CANCELLED, JobState.PAUSED}


class BreachError(AssertionError):
    """An invariant did not hold."""


class World:
    """A history in the making."""

    def __init__(self, seed: int, profile: Profile, *, rules: Rules | None = None, sqlite: bool = False) -> None:
        self.seed, self.profile, self.rules, self.sqlite = seed, profile, rules or Rules(), sqlite
        self.chance = Random(f"{seed} {profile.name}")
        self.timeline = Timeline()
        self.devices: dict[str, SimDevice] = {}
        self.revoked: set[str] = set()
        self.holders: defaultdict[str, set[str]] = defaultdict(set)
        """Bundle → names of devices that ever said that they have it."""
        self._ids: dict[str, str] = {}
        self.ledger = Ledger()
        self.history: list[str] = []
        self.starts: Counter[tuple[str, int]] = Counter()
        self._claimers: dict[str, Engine] = {}
        """Token → the life that claimed with it."""
        self.events: Counter[str] = Counter()
        self._groups: dict[str, int] = {}
        self._films: dict[str, dict[str, int]] = {}
        self._fates: dict[str, str] = {}
        self._calm_since_s: float | None = 0.0 if profile.promises_single_runs else None
        self._hiccup_until_s = -1.0
        for number in range(profile.devices):
            self._new_device(f"n{number}")

    # The run

    def run(self) -> World:
        """Live through chaos, let everything come to rest, check; raises ``BreachError``."""
        for name in list(self.devices):
            self._start(name)
        self._every(1.0, self._mesh)
        self._every(CHECK_S, self._check_all_along)
        self._plan_misfortunes()
        self._plan_users()
        self.timeline.run_until(self.profile.chaos_s)
        self._end_misfortunes()
        self._come_to_rest()
        self._check_end()
        return self

    def say(self, text: str) -> None:
        """Add a line to the history."""
        self.history.append(f"{self.timeline.now_s:8.1f} {text}")

    def check(self, holds: bool, invariant: str, text: str) -> None:  # noqa: FBT001 (reads as a sentence)
        """Raise ``BreachError`` unless ``holds``."""
        if not holds:
            lines = "\n".join(self.history[-25:])
            raise BreachError(f"{invariant}: {text}\nseed {self.seed}, profile {self.profile.name}\n{lines}")

    def _every(self, seconds: float, event: Callable[[], None]) -> None:
        def again() -> None:
            event()
            self.timeline.after(seconds, again)

        self.timeline.after(seconds, again)

    # Devices

    def _new_device(self, name: str) -> None:
        device_id = f"{self.chance.getrandbits(128):032x}"
        disk = Disk(device_id, database=Database(None) if self.sqlite else None)
        self._ids[name] = device_id
        planner = self.chance.choice((1, 1, 1, 2))
        self.devices[name] = SimDevice(name, disk, self.timeline, self.chance, planner=planner)

    def _start(self, name: str) -> None:
        device = self.devices.get(name)
        if device is not None and device.engine is None:
            device.engine = Engine(device, self)
            self.say(f"{name} starts")

    def crash(self, device: SimDevice, *, restart: bool = True) -> None:
        """Kill an engine in the middle of whatever it does."""
        engine, device.engine = device.engine, None
        if engine is None:
            return
        engine.is_alive = False
        self.say(f"{device.name} crashes")
        if restart:
            self.timeline.after(self.chance.uniform(2, 60), lambda: self._start(device.name))

    def member_names(self) -> tuple[str, ...]:
        """Return the devices of the space, copies too while they live."""
        return tuple(self.devices)

    def revoked_names(self) -> set[str]:
        """Return the devices that users have removed from the space, and copies that were thrown away."""
        return {
            name for name in self._all_names() - set(self.devices) if self._ids.get(name, "") in {"", *self.revoked}
        }

    def _all_names(self) -> set[str]:
        return set(self._ids).union(*self.holders.values())

    def engines(self) -> Iterator[Engine]:
        """Return the engines that live, asleep or not."""
        return (device.engine for device in self.devices.values() if device.engine)

    # The network

    def linked(self, one: str, other: str) -> bool:
        """Whether a message can get from one device to the other now."""
        a, b = self.devices.get(one), self.devices.get(other)
        if a is None or b is None or not a.is_up or not b.is_up or a.disk.device_id == b.disk.device_id:
            return False
        return self._groups.get(one, 0) == self._groups.get(other, 0)

    def _mesh(self) -> None:
        names = list(self.devices)
        for one in names:
            for other in names:
                if one < other:
                    self._mend(one, other, is_linked=self.linked(one, other))
        for engine in list(self.engines()):
            for gone in set(engine.sessions) - set(names):
                engine.disconnect(gone)

    def _mend(self, one: str, other: str, *, is_linked: bool) -> None:
        pairs = [(self.devices[one].engine, other), (self.devices[other].engine, one)]
        whole = all(engine is not None and peer in engine.sessions for engine, peer in pairs)
        if is_linked == whole:
            return
        for engine, peer in pairs:
            if engine is not None:
                engine.disconnect(peer)
        if is_linked:
            for engine, peer in pairs:
                if engine is not None and engine.is_alive:
                    engine.connect(self.devices[peer])

    def carry(self, sender: str, receiver: str, message: Message) -> None:
        """Carry a message: late, twice, or never."""
        if self.chance.random() < self._loss():
            return
        copies = 2 if self.chance.random() < self.profile.doubling else 1
        for _ in range(copies):
            self.timeline.after(self._delay_s(), lambda: self._deliver(sender, receiver, message))

    def _loss(self) -> float:
        return 0.0 if self._calm_since_s is not None else self.profile.loss

    def _delay_s(self) -> float:
        shortest, longest = self.profile.delay_s
        return self.chance.uniform(shortest, min(longest, 0.45) if self._calm_since_s is not None else longest)

    def _deliver(self, sender: str, receiver: str, message: Message) -> None:
        if self.linked(sender, receiver):
            engine = self.devices[receiver].engine
            if engine is not None:
                engine.receive(sender, message)

    # Misfortunes

    def _plan_misfortunes(self) -> None:
        profile = self.profile
        kinds: tuple[tuple[str, float, Callable[[], None]], ...] = (
            ("partition", profile.partition_every_s, self._partition),
            ("crash", profile.crash_every_s, self._crash_one),
            ("suspend", profile.suspend_every_s, self._suspend_one),
            ("clock step", profile.clock_step_every_s, self._step_clock),
            ("wipe", profile.wipe_every_s, self._wipe_one),
            ("backup", profile.restore_every_s / 2, self._back_up_one),
            ("restore", profile.restore_every_s, self._restore_one),
            ("copy", profile.copy_every_s, self._copy_one),
        )
        for name, mean_s, event in kinds:
            self._plan(name, mean_s, event)
        if profile.hiccup_s:
            self._hiccup_until_s = profile.hiccup_s

    def _plan(self, name: str, mean_s: float, event: Callable[[], None]) -> None:
        if not mean_s:
            return

        def happen() -> None:
            self.events[name] += 1
            event()

        at_s = self.chance.expovariate(1 / mean_s)
        while at_s < self.profile.chaos_s:
            self.timeline.after(at_s, happen)
            at_s += self.chance.expovariate(1 / mean_s)

    def _any(self, fits: Callable[[SimDevice], bool]) -> SimDevice | None:
        found = [device for device in self.devices.values() if fits(device)]
        return self.chance.choice(found) if found else None

    def _partition(self) -> None:
        self._groups = {name: self.chance.randrange(2) for name in self.devices}
        self.say(f"partition {self._groups}")
        self.timeline.after(self.chance.uniform(*self.profile.partition_s), self._heal)

    def _heal(self) -> None:
        self._groups = {}
        self.say("the partition heals")

    def _crash_one(self) -> None:
        device = self._any(lambda one: one.is_up)
        if device is None:
            return
        if self.chance.random() < 0.5:
            device.dies_before_sending = True
        else:
            self.crash(device)

    def _suspend_one(self) -> None:
        device = self._any(lambda one: one.is_up)
        if device is None:
            return
        device.is_asleep = True
        device.asleep_since_s = self.timeline.now_s
        self.say(f"{device.name} sleeps")
        self.timeline.after(self.chance.uniform(20, 400), lambda: self._wake(device))

    def _wake(self, device: SimDevice) -> None:
        if not device.is_asleep:
            return
        device.is_asleep = False
        device.clock.slept_s += self.timeline.now_s - device.asleep_since_s
        if device.engine is not None:
            device.engine.observer.wake()
        self.say(f"{device.name} wakes")

    def _step_clock(self) -> None:
        device = self._any(lambda _: True)
        if device is not None:
            device.clock.offset_s = self.chance.uniform(-6 * 3600, 6 * 3600)

    def _wipe_one(self) -> None:
        device = self._any(lambda one: not one.is_copy)
        if device is None:
            return
        self._remove(device)
        self.say(f"{device.name} is wiped")
        name = f"{device.name}'"
        self._new_device(name)
        self.timeline.after(self.chance.uniform(5, 40), lambda: self._start(name))
        self.timeline.after(self.chance.uniform(10, 60), lambda: self.revoked.add(device.disk.device_id))

    def _remove(self, device: SimDevice) -> None:
        self.crash(device, restart=False)
        del self.devices[device.name]
        self._films.pop(device.name, None)
        self._disk_lost()

    def _back_up_one(self) -> None:
        device = self._any(lambda one: not one.is_copy)
        if device is not None:
            device.backup = device.disk.copy()

    def _restore_one(self) -> None:
        device = self._any(lambda one: one.backup is not None and not one.is_copy)
        if device is None or device.backup is None:
            return
        self.crash(device)
        device.disk = device.backup.copy()
        self._films.pop(device.name, None)
        self._disk_lost()
        self.say(f"{device.name} is restored from its backup")

    def _copy_one(self) -> None:
        original = self._any(lambda one: not one.is_copy and f"{one.name}c" not in self.devices)
        if original is None:
            return
        copy = SimDevice(
            f"{original.name}c", original.disk.copy(), self.timeline, self.chance, planner=original.planner
        )
        copy.is_copy = True
        for bundle in copy.disk.vault:
            self.holders[bundle].add(copy.name)
        self.devices[copy.name] = copy
        self.say(f"{copy.name} is a copy of {original.name}")
        self._start(copy.name)
        self.timeline.after(self.chance.uniform(30, 150), lambda: self._end_copy(copy))

    def _end_copy(self, copy: SimDevice) -> None:
        """Throw a copy away: the user was asked, and keeps the original."""
        if self.devices.get(copy.name) is copy:
            self._remove(copy)
            self.say(f"{copy.name} is thrown away")

    def _disk_lost(self) -> None:
        self.ledger.disk_lost(self._rows_of_job)

    def _rows_of_job(self, job_id: str) -> Iterable[JobRow]:
        for device in self.devices.values():
            job = _job_on(device.disk, job_id)
            if job is not None:
                yield job

    def _end_misfortunes(self) -> None:
        self._heal()
        for device in list(self.devices.values()):
            device.dies_before_sending = False
            self._wake(device)
            if device.is_copy:
                self._end_copy(device)
            self._start(device.name)
        self._calm_since_s = self._calm_since_s or self.timeline.now_s + CALM_AFTER_S
        self.say("from here on all is well")

    # Work

    def fate_of(self, engine: Engine, work: Work) -> str:
        """Return how an attempt ends: done, crash, or the rank of its end."""
        job = engine.store.job(work.job.id)
        if self.timeline.now_s < self._hiccup_until_s:
            return "transient"
        fate = self._fates.get(job.fingerprint, "done")
        if fate == "permanent" and work.task.kind == "index":
            return "permanent"
        if fate == "crash" and work.task.target.endswith("ladder/0"):
            return "crash"
        unlucky = self._calm_since_s is None and self.chance.random() < self.profile.failures
        return "transient" if unlucky else "done"

    def note_claim(self, engine: Engine, job: JobRow, task: TaskRow, lease: Lease) -> None:
        """Check what must hold for every claim."""
        self._claimers[lease.token] = engine
        wanted = not (job.paused.value or job.removed or job.trashed.value or job.cancelled_round >= job.round)
        self.check(wanted, "Q6", f"{engine.device.name} claimed {task.target} of a job that is not to be worked on")

    def note_start(self, engine: Engine, work: Work) -> None:
        """Check that nobody else is at the same work while all hear each other."""
        self.events["work"] += 1
        key = work.task.id, work.lease.round
        self.starts[key] += 1
        if self._calm_since_s is None or self.timeline.now_s < self._calm_since_s:
            return
        work.is_calm = True
        for other in self.engines():
            twin = other.works.get(work.task.id)
            if other is not engine and twin is not None and twin.has_started and twin.is_calm:
                names = f"{engine.device.name} and {other.device.name}"
                self.check(False, "Q9", f"{names} do {work.task.target} at the same time")
        if self.profile.promises_single_runs and not self.profile.hiccup_s:
            self.check(self.starts[key] == 1, "Q9", f"{work.task.target} ran twice")

    # Users

    def _plan_users(self) -> None:
        for number in range(self.profile.jobs):
            content = f"f{number if self.chance.random() < 0.75 else self.chance.randrange(number + 1)}"
            if self.chance.random() < self.profile.bad_jobs:
                self._fates[content] = self.chance.choice(("permanent", "crash"))
            at_s = 0.5 if self.profile.hiccup_s else self.chance.uniform(0, 0.5 * self.profile.chaos_s)
            self.timeline.after(at_s, lambda content=content: self._add(content))  # type: ignore[misc]
        self._plan("intent", self.profile.intent_every_s, self._speak)

    def _add(self, content: str) -> None:
        device = self._any(lambda one: one.is_up)
        if device is None or device.engine is None:
            return
        store = device.engine.store
        if store.find_live_job(fingerprint=content, profile="default") is None:
            params, now_ms = JobParams(profile="default"), device.clock.wall_ms()
            job = store.add_job(
                kind="hls", params=params, fingerprint=content, size_bytes=9, name=content, now_ms=now_ms
            )
            self.ledger.added(job)
            self.say(f"{device.name} adds {content} as {job.id[:6]}")

    def _speak(self) -> None:
        device = self._any(lambda one: one.is_up)
        jobs = device.engine.store.jobs() if device and device.engine else ()
        if device is None or device.engine is None or not jobs:
            return
        store, job = device.engine.store, self.chance.choice(jobs)
        name, command = self.chance.choice(self._commands(store, job.id))
        try:
            after = command()
        except ExpectedError:
            return
        self.ledger.spoken(job, after)
        self.say(f"{device.name}: {name} {job.id[:6]}")

    def _commands(self, store: RowJobStore, job_id: str) -> list[tuple[str, Callable[[], JobRow]]]:
        plain: list[tuple[str, Callable[[], JobRow]]] = [
            ("pause", lambda: store.pause_job(job_id)),
            ("resume", lambda: store.resume_job(job_id)),
            ("priority", lambda: store.set_priority(job_id, self.chance.randrange(-3, 4))),
        ]
        if not self.profile.cancel:
            return plain
        return [
            *plain,
            ("resume", lambda: store.resume_job(job_id)),
            ("cancel", lambda: store.cancel_job(job_id)),
            ("retry", lambda: store.retry_job(job_id)),
            ("retry", lambda: store.retry_job(job_id)),
            ("trash", lambda: store.trash_job(job_id)),
            ("restore", lambda: store.restore_job(job_id)),
            ("restore", lambda: store.restore_job(job_id)),
            *(
                [("remove", lambda: self._removed(store, job_id))]
                if self.chance.random() < self.profile.removals
                else []
            ),
        ]

    def _removed(self, store: RowJobStore, job_id: str) -> JobRow:
        tombstone = store.remove_job(job_id)
        if not self.rules.keeps_tombstones:
            self.timeline.after(60, lambda: self._lose_tombstone(job_id))
        return tombstone

    def _lose_tombstone(self, job_id: str) -> None:
        for device in self.devices.values():
            found = device.disk.rows._jobs.get(job_id)
            if found is not None and found[0].removed:
                del device.disk.rows._jobs[job_id], device.disk.rows._feed[job_id]

    # Checks all along

    def _check_all_along(self) -> None:
        for device in self.devices.values():
            if device.engine is not None:
                self._check_films(device.name, device.engine.store)
        self._check_merge()

    def _check_films(self, name: str, store: RowJobStore) -> None:
        """Q6: what was published stays so, unless it was lost or removed."""
        seen = self._films.setdefault(name, {})
        now = {job.id: film[1].epoch for job in store.jobs() if (film := _full_film(store, job.id))}
        for job_id, epoch in seen.items():
            if job_id in now or job_id not in store.job_ids():
                continue
            voids = [task.void for task in store.tasks(job_id) if task.kind == "publish"]
            self.check(max(voids, default=0) >= epoch, "Q6", f"the film of {job_id[:6]} is gone from {name}")
        self._films[name] = now

    def _check_merge(self) -> None:
        """Q7: the rows that devices have now merge to the same whatever the order."""
        rows: dict[tuple[RowKind, str], list[JobRow | TaskRow]] = {}
        for engine in self.engines():
            for fed in engine.store._rows.fed(after=0, limit=6):
                row = read_job(fed.document) if fed.kind is RowKind.JOB else read_task(fed.document)
                rows.setdefault((fed.kind, fed.id), []).append(row)
        for replicas in rows.values():
            merged = {_merge_all(replicas), _merge_all(replicas[::-1]), _merge_all([*replicas, replicas[0]])}
            self.check(len(merged) == 1, "Q7", f"the order of merging decides about {replicas[0].id}")

    # The end

    def _come_to_rest(self) -> None:
        begin_s = self.timeline.now_s
        while self.timeline.now_s < begin_s + LONGEST_REST_S:
            self.timeline.run_until(self.timeline.now_s + 20)
            if self._unrest() is None:
                return
        self.check(False, "Q1 or Q5", f"not at rest after hours: {self._unrest()}")

    def _unrest(self) -> str | None:
        engines = list(self.engines())
        if len(engines) < len(self.devices) or any(device.is_asleep for device in self.devices.values()):
            return "somebody is away"
        if any(engine.works for engine in engines):
            return "somebody works"
        for engine in engines:
            for job in engine.store.jobs():
                state = job_status(job, engine.store.tasks(job.id)).state
                if state not in _RESTING and engine.store.twin_of(job.id) is None:
                    return f"{job.id[:6]} is {state} on {engine.device.name}"
                if state is JobState.DONE and (lost := self._lost(engine, job)):
                    return lost
        return self._difference(engines)

    def _lost(self, engine: Engine, job: JobRow) -> str | None:
        vaults: set[str] = set().union(*(device.disk.vault for device in self.devices.values()))
        film = engine.store.published(job.id)
        bundles = msgspec.json.decode(film[1].value, type=SimFilm).bundles if film else ()
        lost = set(bundles) - vaults
        return f"{job.id[:6]} is done, but nobody has {min(lost)[:12]}" if lost else None

    def _difference(self, engines: list[Engine]) -> str | None:
        first, *others = [set(engine.store.changes_since(None, limit=10**6).rows) for engine in engines]
        for engine, rows in zip(engines[1:], others, strict=True):
            if rows != first:
                names = f"{engines[0].device.name} and {engine.device.name}"
                some = sorted(row.document for row in rows ^ first)[:2]
                return f"{names} differ for ever in {len(rows ^ first)} rows: {some}"
        return None

    def _check_end(self) -> None:
        for engine in self.engines():
            for job_id in self.ledger.promises:
                job = engine.store._rows.job(job_id)
                is_here = job is not None or self.ledger.promises[job_id].is_removed
                self.check(is_here, "Q3, Q8", f"{job_id[:6]} never reached {engine.device.name}")
                if job is not None:
                    self._check_job(engine.store, job)

    def _check_job(self, store: RowJobStore, job: JobRow) -> None:
        breach = self.ledger.breach_of(job)
        self.check(breach is None, "Q6", f"{job.id[:6]}: {breach}")
        if job.removed:
            self.check(store._rows.tasks(job.id) == (), "Q8", f"{job.id[:6]} is removed and has tasks")
            return
        for task in tasks_that_count(job, store.tasks(job.id)):
            limit = MAX_ATTEMPTS * len(self.devices)
            self.check(attempts(job, task) <= limit, "Q5", f"{task.target} was tried {attempts(job, task)} times")
            if held_state(job, task) is TaskState.FAILED:
                self._check_failure(job, task)
        self._check_readable(store, job)

    def _check_failure(self, job: JobRow, task: TaskRow) -> None:
        wrong = [end for end in task.ends if end.round == job.round and self._is_wrong_death(end)]
        real = attempts(job, replace(task, ends=tuple(end for end in task.ends if end not in wrong)))
        permanent = any(end.rank is EndRank.PERMANENT for end in task.ends)
        text = f"{task.target} failed, though only {real} attempts really went wrong"
        self.check(permanent or real >= MAX_ATTEMPTS, "Q5", text)
        self.check(not self.profile.hiccup_s, "Q5", f"{task.target} failed over a trouble of seconds")

    def _is_wrong_death(self, end: End) -> bool:
        """Whether a life was taken for dead that goes on to this moment, and could have said so."""
        claimer = self._claimers.get(end.token)
        return end.rank is EndRank.DIED and claimer is not None and claimer.is_alive

    def _check_readable(self, store: RowJobStore, job: JobRow) -> None:
        film = _full_film(store, job.id)
        if film is None:
            return
        named = msgspec.json.decode(film[1].value, type=SimFilm).tasks
        lacking = [task_id for task_id in named if store._rows.task(task_id) is None]
        self.check(not lacking, "S4", f"the film of {job.id[:6]} names {len(lacking)} tasks that are gone")


def _full_film(store: RowJobStore, job_id: str) -> tuple[PublishStage, Outcome] | None:
    film = store.published(job_id)
    return film if film is not None and film[0] is PublishStage.FULL else None


def _job_on(disk: Disk, job_id: str) -> JobRow | None:
    if disk.database is None:
        return disk.rows.job(job_id)
    row = disk.database.row("SELECT document FROM jobs WHERE id = ?", (job_id,)) if _has_tables(disk.database) else None
    return decode_row(row["document"], JobRow) if row else None


def _has_tables(database: Database) -> bool:
    return database.row("SELECT 1 FROM sqlite_master WHERE name = 'jobs'") is not None


def _merge_all(rows: list[JobRow | TaskRow]) -> JobRow | TaskRow:
    merged = rows[0]
    for row in rows[1:]:
        if isinstance(merged, JobRow) and isinstance(row, JobRow):
            merged = merge_job(merged, row)
        elif isinstance(merged, TaskRow) and isinstance(row, TaskRow):
            merged = merge_task(merged, row)
    return merged
