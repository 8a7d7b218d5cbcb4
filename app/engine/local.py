"""The engine in this process: it holds the data directory's lock and carries out the commands of ``app.engine.api``."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import platform
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec
import psutil

import app
from app.core.clock import Clock, SystemClock
from app.core.database import SQLITE_VERSION
from app.core.device import Device
from app.core.errors import BugError, ErrorCode, ExpectedError
from app.core.paths import DataDir
from app.engine import api
from app.engine.adding import add_path
from app.engine.devices import Devices
from app.engine.exporting import export_film
from app.engine.films import EngineFilms
from app.engine.housekeeping import Housekeeper, bundles_of, inputs_of, missing_of, roots_of_job
from app.engine.keeping import FilmKeeper
from app.engine.kernel import TROUBLES, Kernel
from app.engine.lock import EngineLock
from app.engine.peers import Peers
from app.engine.rates import RateMeter
from app.engine.reserve import Reserve
from app.engine.snapshots import (
    JobView,
    LiveTask,
    chapter_snapshots,
    cue_snapshots,
    job_snapshot,
    running_milli,
    text_snapshots,
    track_snapshots,
)
from app.engine.telling import ToldStates
from app.engine.views import FILMS_PAGE, JobViews, read_film_of, read_films
from app.engine.wanted import WantedTasks
from app.engine.watching import LeaseWatch
from app.engine.worker import Slots, Worker
from app.media.plan import ticks_to_s
from app.playback.source import StillKind
from app.queue.machine import JobState, outcome_counts
from app.queue.rows import JobRow, TaskRow
from app.queue.store import JobStore
from app.storage.collection import GRACE_MS
from app.storage.opening import Storage
from app.storage.source import display_path, fingerprint, look_at
from app.storage.source_ledger import KnownSource
from app.transcode.supervisor import Supervisor

if TYPE_CHECKING:
    from app.engine.connecting import Connector
    from app.engine.pairing import Pairing
    from app.playback.gateway import Gateway
    from app.sync.pairing_discovery import PairingDirectory

R = TypeVar("R")
_log = logging.getLogger(__name__)

EVENT_INTERVAL_S = 0.25
_JOBS_PAGE = 100
"""Most jobs that are read or told at once: what comes next on the queue's thread waits so long."""
_MEMORY_FOR_TWO = 8 << 30
COLLECT_INTERVAL_S = 3600.0
FIRST_COLLECT_S = 30.0
TRASH_MS = 30 * 24 * 3600 * 1000


def default_slots() -> Slots:
    """Return how much this machine does at once.

    A chunk could use all cores, but not while it starts and ends; where there is memory, a second one fills the gaps.
    """
    cores = os.cpu_count() or 1
    heavy = max(1, cores // 4)
    if psutil.virtual_memory().total >= _MEMORY_FOR_TWO:
        heavy = max(2, heavy)
    return Slots(heavy=heavy, light=max(3, min(4, cores)))


class LocalEngine:
    """Implements ``EngineApi``. Made by ``start``, ended by ``close``; lives on one event loop."""

    def __init__(
        self,
        kernel: Kernel,
        lock: EngineLock,
        *,
        slots: Slots | None = None,
        directory: PairingDirectory | None = None,
    ) -> None:
        self._kernel = kernel
        self.lock = lock
        self._wanted = WantedTasks()
        self.peers = Peers(kernel)
        """The other devices; whoever opens links to them hands them over."""
        self._films = EngineFilms(kernel, self._wanted, bring=self.peers.bring)
        self._worker = Worker(kernel, self._films, self._wanted, peers=self.peers, slots=slots or default_slots())
        self._watch = LeaseWatch(kernel, self._worker.own_tokens)
        self._gateway: Gateway | None = None
        self._gateway_opening = asyncio.Lock()
        self.devices = Devices(kernel)
        self.peers.take_statements = self.devices.take_statements
        self.peers.is_member = self.devices.is_member
        self._connector: asyncio.Future[Connector] = asyncio.get_running_loop().create_future()
        self._is_pairing = False
        self._pairing: Pairing | None = None
        self._directory = directory
        self._housekeeper = Housekeeper(kernel)
        self._rates = RateMeter(kernel.clock)
        self._subscribers: set[asyncio.Queue[api.Changed]] = set()
        self._views = JobViews()
        """Used on the queue's thread only."""
        self._told = ToldStates()
        self._tasks: list[asyncio.Task[None]] = []
        self._may_work = False
        self._works = False
        self._untold: set[str] = set()
        """Jobs that changed since subscribers were told."""
        self._handlers: Mapping[type, Callable[..., Awaitable[Any]]] = {
            api.AddPath: self._add,
            api.ListJobs: self._list_jobs,
            api.ListQueue: self._list_queue,
            api.GetJob: self._get_job,
            api.ChangeJob: self._change_job,
            api.SetPriority: self._set_priority,
            api.ListLibrary: self._list_library,
            api.GetFilm: self._get_film,
            api.GetPoster: self._get_poster,
            api.GetText: self._get_text,
            api.RemoveFilm: self._remove_film,
            api.ListTrash: self._list_trash,
            api.RestoreFilm: self._restore_film,
            api.EmptyTrash: self._empty_trash,
            api.OpenPlayer: self._open_player,
            api.SeekPlayer: self._seek_player,
            api.ClosePlayer: self._close_player,
            api.ExportFilm: self._export,
            api.GetConfig: self._get_config,
            api.SetConfig: self._set_config,
            api.VerifyVault: self._verify,
            api.RunDoctor: self._doctor,
            api.GetStatus: self._get_status,
            api.ListDevices: self._list_devices,
            api.RevokeDevice: self.devices.revoke,
            api.ShowWords: self.devices.show_words,
            api.ConfirmWords: self.devices.confirm_words,
            api.RestoreOwner: self.devices.restore,
            api.OpenPairing: self._open_pairing,
            api.AwaitPairing: self._await_pairing,
            api.JoinSpace: self._join_space,
        }

    @classmethod
    async def start(
        cls,
        data: DataDir,
        *,
        work: bool,
        clock: Clock | None = None,
        supervisor: Supervisor | None = None,
        slots: Slots | None = None,
        directory: PairingDirectory | None = None,
    ) -> LocalEngine:
        """Take the lock, open everything and (with ``work`` and worker.enabled) begin to work.

        Raises ``ExpectedError`` engine-running, read-only, disk-full, database-damaged, data-too-new.
        """
        lock = EngineLock(data)
        lock.acquire()
        try:
            kernel = await asyncio.to_thread(_open_kernel, data, clock or SystemClock(), supervisor)
        except BaseException:
            lock.release()
            raise
        engine = cls(kernel, lock, slots=slots, directory=directory)
        engine._may_work = work
        try:
            await engine.devices.follow()
            engine._tasks = [
                asyncio.create_task(engine._tell()),
                asyncio.create_task(engine._keep_house()),
                asyncio.create_task(engine._watch.run()),
                asyncio.create_task(FilmKeeper(kernel, engine.devices, engine.peers).run()),
            ]
            await engine._follow_settings()
            if work:
                engine.devices.will_listen = True
                engine._tasks.append(asyncio.create_task(engine._stay_connected()))
        except BaseException:
            await engine.close()
            raise
        return engine

    @property
    def device(self) -> Device:
        """Who this engine is among the owner's devices."""
        return self._kernel.device

    async def close(self) -> None:
        """Give back what is being done, close everything, release the lock."""
        async with contextlib.AsyncExitStack() as rest:
            rest.callback(self.lock.release)
            rest.push_async_callback(self._kernel.close)
            rest.push_async_callback(self._worker.stop)
            if self._gateway is not None:
                rest.push_async_callback(self._gateway.close)
            if self._pairing is not None:
                rest.push_async_callback(self._pairing.close)
            await self.peers.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _stay_connected(self) -> None:
        """Keep links to the owner's other devices, as soon as there are any."""
        with self._kernel.changed.watch() as changed:
            while not self._is_pairing and len((await self.devices.membership()).devices) < 2:
                changed.clear()
                await changed.wait()
        from app.engine.connecting import Connector  # noqa: PLC0415 (its TLS library takes a while to load)

        connector = Connector(self._kernel, self.devices, self.peers)
        self._connector.set_result(connector)
        await connector.run()

    async def _follow_settings(self) -> None:
        """Begin or end to work, as the settings say."""
        works = self._may_work and bool(self._kernel.settings.get("worker.enabled"))
        if works == self._works:
            return
        self._works = works
        if works:
            self._worker.start()
        else:
            await self._worker.stop()
        self._kernel.changed.set()

    async def call(self, command: api.Command[R], *, progress: api.Progress | None = None) -> R:
        handler = self._handlers.get(type(command))
        if handler is None:
            raise BugError(f"no such command: {type(command).__name__}")
        if isinstance(command, (api.ExportFilm, api.VerifyVault, api.AwaitPairing)):
            return cast("R", await handler(command, progress or _say_nothing))
        return cast("R", await handler(command))

    # Jobs

    async def _add(self, command: api.AddPath) -> api.AddResult:
        return await add_path(self._kernel, command)

    async def _list_jobs(self, command: api.ListJobs) -> tuple[api.JobSnapshot, ...]:
        """Read a page at a time, so that claims come in between."""
        found: list[api.JobSnapshot] = []
        after, left = command.after, command.limit
        while left is None or left > 0:
            size = _JOBS_PAGE if left is None else min(_JOBS_PAGE, left)
            views = await self._read_jobs(after, size)
            found += await self._shown(views)
            if len(views) < size:
                break
            after = views[-1].job.id
            left = None if left is None else left - len(views)
        return tuple(found)

    async def _read_jobs(self, after: str | None, limit: int) -> list[JobView]:
        return await self._kernel.queue(lambda store: self._views.read_jobs(store, after=after, limit=limit))

    async def _list_queue(self, command: api.ListQueue) -> api.QueuePage:
        limit = min(max(1, command.limit), _JOBS_PAGE)
        views, more = await self._kernel.queue(
            lambda store: self._views.read_queue(store, after=command.after, limit=limit)
        )
        return api.QueuePage(jobs=await self._shown(views), next=more)

    async def _get_job(self, command: api.GetJob) -> api.JobSnapshot:
        job_id = await self._job_id(command.job_id)
        return await self._job_snapshot(job_id, with_tasks=True)

    async def _job_id(self, prefix: str) -> str:
        return await self._kernel.queue(lambda store: store.resolve_job(prefix))

    async def _job_snapshot(self, job_id: str, *, with_tasks: bool = False) -> api.JobSnapshot:
        def read(store: JobStore) -> tuple[JobView, tuple[TaskRow, ...]]:
            view = self._views.read(store, store.job(job_id))
            return view, store.tasks(job_id) if with_tasks else ()

        view, tasks = await self._kernel.queue(read)
        (snapshot,) = await self._shown([view], tasks=tasks)
        return snapshot

    async def _shown(self, views: Sequence[JobView], *, tasks: Sequence[TaskRow] = ()) -> tuple[api.JobSnapshot, ...]:
        """Return what is shown of jobs that were read, with ``tasks`` if it is only one."""
        live: dict[str, dict[str, LiveTask]] = {}
        for task_id, one in self._worker.running.items():
            live.setdefault(one.job_id, {})[task_id] = LiveTask(milli=one.milli, rate_x=None)
        millis = await self._never_less(views, live)
        ids = [one.job.id for one in views]
        sources = await self._kernel.store(lambda storage: storage.sources.find_some(ids))
        return tuple(
            self._snapshot(
                view,
                milli=millis[view.job.id],
                source=sources.get(view.job.id),
                live=live.get(view.job.id, {}),
                tasks=tasks,
            )
            for view in views
        )

    def _snapshot(
        self,
        view: JobView,
        *,
        milli: int,
        source: KnownSource | None,
        live: Mapping[str, LiveTask],
        tasks: Sequence[TaskRow],
    ) -> api.JobSnapshot:
        moves = view.status.state is JobState.PROCESSING
        duration = ticks_to_s(view.plan.duration_ticks) if view.plan is not None else 0.0
        return job_snapshot(
            view,
            milli=milli,
            rate_x=self._rates.rate(view.job.id, milli / 1000 * duration) if moves else None,
            reason=self._why_waiting(view.job.id),
            source=display_path(source.path) if source is not None else None,
            live=live,
            tasks=tasks,
        )

    async def _never_less(self, views: Sequence[JobView], live: Mapping[str, Mapping[str, LiveTask]]) -> dict[str, int]:
        """Return jobs' progress, which does not fall within a round; a disk that cannot be written hides nothing."""
        millis = [(one.job, running_milli(one, live.get(one.job.id, {}))) for one in views]
        moving = [pair for view, pair in zip(views, millis, strict=True) if view.status.state is not JobState.DONE]
        finished = {job.id: milli for job, milli in millis}
        try:
            return finished | await self._kernel.queue(lambda store: store.note_progress_of(moving))
        except ExpectedError as error:
            if error.code not in TROUBLES:
                raise
            return finished | await self._kernel.queue(
                lambda store: {job.id: max(milli, store.progress_of(job)) for job, milli in moving}
            )

    def _why_waiting(self, job_id: str) -> str | None:
        if self._kernel.trouble is not None:
            return self._kernel.trouble.message
        if not self._works:
            if self._may_work:
                return "This device does not work (worker.enabled is off), and no other one has taken it yet."
            return "Nothing works on it now; open the app or run “hearthreel worker”."
        return self._worker.reasons.get(job_id)

    async def _change_job(self, command: api.ChangeJob) -> api.JobSnapshot:
        job_id = await self._job_id(command.job_id)
        actions: dict[str, Callable[[str], Awaitable[None]]] = {
            "pause": self._pause,
            "resume": self._resume,
            "cancel": self._cancel,
            "retry": self._retry,
            "remove": self._remove,
        }
        action = actions.get(command.action)
        if action is None:
            raise BugError(f"no such action: {command.action}")
        before = await self._job_snapshot(job_id)
        await action(job_id)
        return before if command.action == "remove" else await self._job_snapshot(job_id, with_tasks=True)

    async def _pause(self, job_id: str) -> None:
        await self._kernel.change(lambda store: store.pause_job(job_id))
        self._worker.pause(job_id)

    async def _resume(self, job_id: str) -> None:
        await self._kernel.change(lambda store: store.resume_job(job_id))
        self._worker.resume(job_id)

    async def _cancel(self, job_id: str) -> None:
        def cancel(store: JobStore) -> tuple[str, ...]:
            before = roots_of_job(store.job(job_id), store.tasks(job_id))
            store.cancel_job(job_id)
            after = roots_of_job(store.job(job_id), store.tasks(job_id))
            return tuple(one for one in before.capabilities if one not in after.capabilities)

        with self._worker.renouncing(job_id):
            lost = await self._kernel.change(cancel)
        await self._give_back(job_id, lost)

    async def _retry(self, job_id: str) -> None:
        """Begin a new round, in which lost results are made again.

        Until a plan is accepted the source may be another version of the file.
        """
        source = await self._kernel.store(lambda storage: storage.sources.find(job_id))
        has_plan = await self._kernel.queue(lambda store: store.accepted_plan_hash(job_id)) is not None
        lost = await self._lost_tasks(job_id)
        if source is None or has_plan or lost:
            await self._kernel.change(lambda store: store.retry_job(job_id, void=lost))
            return
        seen = await self._kernel.store(lambda _storage: look_at(source.path))
        name = await self._kernel.store(lambda _storage: fingerprint(source.path))
        now = msgspec.structs.replace(source, fingerprint=name, seen=seen)
        await self._kernel.store(lambda storage: storage.sources.remember(now))
        await self._kernel.change(lambda store: store.retry_job(job_id, fingerprint=name, size_bytes=seen.size_bytes))

    async def _lost_tasks(self, job_id: str) -> tuple[str, ...]:
        """Return the ids of the job's tasks whose results count but which nobody who can be reached holds whole."""
        done = await self._kernel.queue(
            lambda store: {
                task.id: bundles_of(task) for task in store.tasks(job_id) if outcome_counts(store.job(job_id), task)
            }
        )
        missing = await self._kernel.store(
            lambda storage: {
                task_id: [missing_of(storage, one) for one in bundles] for task_id, bundles in done.items()
            }
        )
        wanted = {name for found in missing.values() for names in found if names is not None for name in names}
        elsewhere = await self.peers.have(wanted) if wanted else frozenset()
        return tuple(
            task_id
            for task_id, found in missing.items()
            if any(names is None or not names <= elsewhere for names in found)
        )

    async def _remove(self, job_id: str) -> None:
        """Remove a job: a published film goes to the Trash, anything else is forgotten at once."""
        is_published = await self._kernel.queue(lambda store: store.published(job_id)) is not None
        await (self._trash(job_id) if is_published else self._forget(job_id))

    async def _trash(self, job_id: str) -> None:
        await self._kernel.change(lambda store: store.trash_job(job_id))
        await self._worker.release(job_id)

    async def _forget(self, *job_ids: str) -> None:
        """Remove jobs for ever and give their space back, all at once: a collection looks at the whole library."""
        lost: list[str] = []
        for job_id in job_ids:
            with self._worker.renouncing(job_id):
                lost += await self._kernel.change(partial(_remove_rows, job_id))
            lost += await self._end_work(job_id)
        await self._collect(lost)
        for job_id in job_ids:
            await self._kernel.store(partial(_forget_source, job_id))

    async def _give_back(self, job_id: str, capabilities: tuple[str, ...] = ()) -> None:
        """End a job's children and collect what they made."""
        await self._collect((*capabilities, *await self._end_work(job_id)))

    async def _end_work(self, job_id: str) -> tuple[str, ...]:
        """End a job's children; return what they made."""
        bundles = await self._worker.drop(job_id)
        made = await self._kernel.store(lambda storage: storage.segments.of_job(job_id))
        await self._kernel.store(lambda storage: storage.segments.drop_job(job_id))
        return (*bundles, *made)

    async def _collect(self, capabilities: Iterable[str]) -> None:
        grace_ms = GRACE_MS if self._worker.running else 0  # nothing is being made: what failed attempts left goes too
        await self._housekeeper.collect(removed=capabilities, grace_ms=grace_ms)

    async def _set_priority(self, command: api.SetPriority) -> api.JobSnapshot:
        job_id = await self._job_id(command.job_id)
        await self._kernel.change(lambda store: store.set_priority(job_id, command.priority))
        return await self._job_snapshot(job_id, with_tasks=True)

    # Films

    async def _films_of(
        self, *, trashed: bool, after: str | None = None, limit: int | None = None
    ) -> list[api.FilmSnapshot]:
        """Read films newest first, a page at a time, so that claims come in between."""
        films: list[api.FilmSnapshot] = []
        is_over = False
        while not is_over and (limit is None or len(films) < limit):
            page, after = await self._kernel.queue(
                lambda store, after=after: read_films(  # type: ignore[misc]
                    store, after=after, trashed=trashed, limit=min(limit or FILMS_PAGE, FILMS_PAGE)
                )
            )
            films += page
            is_over = after is None
        return films[:limit]

    async def _list_library(self, command: api.ListLibrary) -> tuple[api.FilmSnapshot, ...]:
        after = None
        if command.after is not None:
            media_id = command.after
            after = await self._kernel.queue(lambda store: store.job_id_of_media(media_id))
        return tuple(await self._films_of(trashed=False, after=after, limit=command.limit))

    async def _list_trash(self, _command: api.ListTrash) -> tuple[api.FilmSnapshot, ...]:
        return tuple(reversed(await self._films_of(trashed=True)))

    async def _get_film(self, command: api.GetFilm) -> api.FilmSnapshot:
        job = await self._media_job(command.media_id)
        return await self._kernel.queue(lambda store: read_film_of(store, job.id))

    async def _media_job(self, prefix: str) -> JobRow:
        return await self._kernel.queue(lambda store: store.job_by_media_id(store.resolve_media(prefix)))

    async def _get_poster(self, command: api.GetPoster) -> bytes | None:
        job = await self._media_job(command.media_id)
        try:
            return await self._films.still(job.media_id, StillKind.POSTER, 0)
        except ExpectedError as error:
            if error.code == ErrorCode.NOT_DONE:
                return None
            raise

    async def _get_text(self, command: api.GetText) -> tuple[api.CueSnapshot, ...] | None:
        job = await self._media_job(command.media_id)
        data = await self._films.text(job.media_id, command.name)
        return cue_snapshots(data) if data is not None else None

    async def _remove_film(self, command: api.RemoveFilm) -> api.FilmSnapshot:
        job = await self._media_job(command.media_id)
        film = await self._get_film(api.GetFilm(media_id=job.media_id))
        if command.now or film.state == "making":
            await self._forget(job.id)
            return film
        await self._trash(job.id)
        return await self._get_film(api.GetFilm(media_id=job.media_id))

    async def _restore_film(self, command: api.RestoreFilm) -> api.FilmSnapshot:
        job = await self._media_job(command.media_id)
        await self._kernel.change(lambda store: store.restore_job(job.id))
        return await self._get_film(api.GetFilm(media_id=job.media_id))

    async def _empty_trash(self, _command: api.EmptyTrash) -> int:
        trash = await self._list_trash(api.ListTrash())
        if trash:
            await self._forget(*(film.job_id for film in trash))
        return len(trash)

    async def _open_player(self, command: api.OpenPlayer) -> api.PlayerSnapshot:
        job = await self._media_job(command.media_id)
        addresses = await (await self._open_gateway()).open_session(job.media_id)
        layout = await self._films.layout(job.media_id)
        info = layout.stills
        return api.PlayerSnapshot(
            token=addresses.token,
            media_id=job.media_id,
            master=addresses.master,
            auto=addresses.auto,
            duration_s=ticks_to_s(layout.plan.duration_ticks),
            audio=track_snapshots(layout.plan),
            text=text_snapshots(layout.text),
            chapters=chapter_snapshots(layout.plan),
            sheets=addresses.sheets,
            sheet_layout=api.SheetLayout(
                interval_s=ticks_to_s(info.interval_ticks),
                columns=info.columns,
                rows=info.rows,
                tile_width=info.tile_width,
                tile_height=info.tile_height,
                count=info.count,
            )
            if info is not None
            else None,
        )

    async def _seek_player(self, command: api.SeekPlayer) -> None:
        if self._gateway is not None:
            await self._gateway.seek(command.token, command.position_ms)

    async def _close_player(self, command: api.ClosePlayer) -> None:
        if self._gateway is not None:
            self._gateway.close_session(command.token)

    async def _open_gateway(self) -> Gateway:
        """Return the gateway, which the first player starts: its web server takes a quarter of a second to load."""
        async with self._gateway_opening:
            if self._gateway is None:
                from app.playback.gateway import Gateway  # noqa: PLC0415 (see above)

                gateway = Gateway(self._films)
                await gateway.start()
                self._gateway = gateway
            return self._gateway

    async def _export(self, command: api.ExportFilm, progress: api.Progress) -> int:
        job = await self._media_job(command.media_id)
        return await export_film(
            self._kernel,
            self._films,
            job.media_id,
            command.path,
            overwrite=command.overwrite,
            progress=lambda share: progress(share, "writing"),
        )

    # Devices and pairing

    async def _list_devices(self, command: api.ListDevices) -> api.SpaceSnapshot:
        space = await self.devices.space(command)
        links = {one.device: one for one in self.peers.connected()}
        troubles = (self._connector.result().troubles if self._connector.done() else {}) | self.peers.troubles
        shown = []
        for device in space.devices:
            link = links.get(device.id)
            shown.append(
                msgspec.structs.replace(
                    device,
                    path=link.path if link else None,
                    rate_bytes_s=round(link.bytes_per_s) if link and link.bytes_per_s else None,
                    trouble=self.peers.troubles.get(device.id) if link else troubles.get(device.id),
                )
            )
        return msgspec.structs.replace(space, devices=tuple(shown))

    async def _open_pairing(self, command: api.OpenPairing) -> api.PairingSnapshot:
        """Show a code; an engine that stays is reachable from now on, so that whoever joins can connect to it."""
        if self._may_work:
            self._is_pairing = True
            self._kernel.changed.set()
            await (await asyncio.shield(self._connector)).listening.wait()
        return await self._pairings().open(command)

    async def _await_pairing(self, command: api.AwaitPairing, progress: api.Progress) -> api.PairedSnapshot:
        return await self._pairings().wait(command, progress)

    async def _join_space(self, command: api.JoinSpace) -> api.PairedSnapshot:
        return await self._pairings().join(command)

    def _pairings(self) -> Pairing:
        """Return what pairs, loaded by the first who needs it: SPAKE2 and mDNS take a fifth of a second."""
        if self._pairing is None:
            from app.engine.pairing import Pairing  # noqa: PLC0415 (see above)

            self._pairing = Pairing(self._kernel, self.devices, directory=self._directory)
        return self._pairing

    # The rest

    async def _get_config(self, _command: api.GetConfig) -> dict[str, Any]:
        return self._kernel.settings.all()

    async def _set_config(self, command: api.SetConfig) -> dict[str, Any]:
        self._kernel.settings.set(command.key, command.value)
        await self._follow_settings()
        return self._kernel.settings.all()

    async def _verify(self, command: api.VerifyVault, progress: api.Progress) -> api.VerifyReport:
        loop = asyncio.get_running_loop()
        return await self._housekeeper.verify(
            repair=command.repair,
            progress=lambda share: cast("None", loop.call_soon_threadsafe(progress, share, "checking")),
        )

    async def _doctor(self, _command: api.RunDoctor) -> api.DoctorReport:
        usage = await self._kernel.store(lambda storage: storage.vault.usage())
        space = await self._kernel.store(lambda storage: storage.space())
        return api.DoctorReport(
            version=app.__version__,
            data_dir=str(self._kernel.data.root),
            versions=_versions(),
            encoders=await self._kernel.supervisor.try_encoders(),
            disk_free_bytes=space.free_bytes,
            vault_bytes=usage.size_bytes,
            database="ok",
            device=self._kernel.device.id,
            secrets=self._kernel.identity.place_in_words,
        )

    async def _get_status(self, _command: api.GetStatus) -> api.EngineStatus:
        return self._status()

    def _status(self) -> api.EngineStatus:
        return api.EngineStatus(
            working=self._works, trouble=self._kernel.trouble, idle=self._worker.is_idle or not self._works
        )

    # Telling and housekeeping

    async def events(self) -> AsyncIterator[api.Changed]:
        mailbox: asyncio.Queue[api.Changed] = asyncio.Queue()
        self._subscribers.add(mailbox)  # before looking, so that no change falls between
        try:
            page = await self._list_queue(api.ListQueue())
            yield api.Changed(jobs=page.jobs, library=True, status=self._status(), more=page.next)
            while True:
                yield await mailbox.get()
        finally:
            self._subscribers.discard(mailbox)

    async def _tell(self) -> None:
        """Tell subscribers what changed, at most four times a second."""
        last_status: api.EngineStatus | None = None
        with self._kernel.changed.watch() as changed:
            while True:
                with contextlib.suppress(TimeoutError):
                    looks_again = self._worker.running or self._untold
                    await asyncio.wait_for(changed.wait(), EVENT_INTERVAL_S if looks_again else None)
                changed.clear()
                try:
                    last_status = await self._tell_once(last_status)
                except ExpectedError as error:
                    _log.info("changes could not be read: %s", error)
                except Exception:  # noqa: BLE001 (the edge of the telling: one snapshot must not silence all)
                    _log.exception("changes could not be told")
                await asyncio.sleep(EVENT_INTERVAL_S)

    async def _tell_once(self, last_status: api.EngineStatus | None) -> api.EngineStatus:
        self._untold |= await self._kernel.queue(lambda store: store.take_changed())
        status = self._status()
        if not self._subscribers:
            self._untold.clear()
            self._told.forget()
            return status
        rows_changed = frozenset(itertools.islice(self._untold, _JOBS_PAGE))
        asked = rows_changed | {one.job_id for one in self._worker.running.values()}
        views, gone = await self._kernel.queue(lambda store: self._views.read_some(store, asked))
        snapshots = await self._shown(views)
        jobs = tuple(one for one in snapshots if self._told.is_news(one))
        library = [self._told.is_film_news(one) for one in views if one.job.id in rows_changed]
        for job_id in gone:
            self._told.drop(job_id)
        self._untold -= rows_changed
        if jobs or gone or status != last_status:
            event = api.Changed(jobs=jobs, gone=tuple(gone), library=any(library) or bool(gone), status=status)
            for mailbox in self._subscribers:
                mailbox.put_nowait(event)
        return status

    async def _keep_house(self) -> None:
        """Empty the Trash of old films and collect, now and then."""
        await asyncio.sleep(FIRST_COLLECT_S)
        await self._check_database()
        while True:
            try:
                await self._empty_old_trash()
                report = await self._housekeeper.collect()
                if report.blocked_by:
                    _log.warning("collection waits: a film cannot be read to its end; run verify")
            except ExpectedError as error:
                _log.info("housekeeping waits: %s", error)
            await asyncio.sleep(COLLECT_INTERVAL_S)

    async def _check_database(self) -> None:
        """Stop all work when a database that was too large to be checked at start turns out to be damaged."""
        try:
            await self._kernel.check_large_database()
        except ExpectedError as error:
            _log.error("%s", error)
            await self._worker.stop()
            self._kernel.trouble = error.info
            self._kernel.changed.set()

    async def _empty_old_trash(self) -> None:
        oldest = self._kernel.clock.wall_ms() - TRASH_MS
        trash = await self._list_trash(api.ListTrash())
        old = [film.job_id for film in trash if film.trashed_at_ms is not None and film.trashed_at_ms < oldest]
        if old:
            await self._forget(*old)


def _remove_rows(job_id: str, store: JobStore) -> tuple[str, ...]:
    """Remove a job; return what its results named."""
    kept = [one for task in store.tasks(job_id) for one in (*bundles_of(task), *inputs_of(task))]
    store.remove_job(job_id)
    return tuple(dict.fromkeys(kept))


def _forget_source(job_id: str, storage: Storage) -> None:
    storage.sources.forget(job_id)


def _open_kernel(data: DataDir, clock: Clock, supervisor: Supervisor | None) -> Kernel:
    """Open the stores; on a disk without a byte left, with the space that was put aside for this."""
    reserve = Reserve(data.root)
    try:
        kernel = Kernel(data, clock=clock, supervisor=supervisor)
    except ExpectedError as error:
        if error.code != ErrorCode.DISK_FULL or not reserve.give_up():
            raise
        return Kernel(data, clock=clock, supervisor=supervisor)
    reserve.put_aside()
    return kernel


def _say_nothing(_share: float, _what: str) -> None:
    pass


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "sqlite": SQLITE_VERSION, "system": platform.platform()}
    for name in ("av", "PySide6", "aiortc", "PyNaCl", "sqlite-utils", "msgspec"):
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
