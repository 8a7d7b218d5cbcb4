"""Where the segments of a film are, for the gateway and for export: published, finished, or still being made.

::

    published   Film ─► bundle ─► segment            (nothing else is read once a film is full)
    finished    outcome of the chunk's task ─► bundle ─► segment
    running     table of made segments ─► segment
    nowhere     the chunk's task is moved to the front, and the request waits
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import ExitStack

import msgspec

from app.core.encoding import decode_canonical
from app.core.errors import ErrorCode, ExpectedError
from app.core.ids import task_id_of
from app.engine.kernel import Kernel
from app.engine.publishing import published_plan
from app.engine.wanted import WantedTasks
from app.media.film import Film, PublishStage, StillsResult, TaskResult
from app.media.plan import Plan, plan_hash
from app.playback.source import INIT_NUMBER, FilmLayout, StillKind, film_layout
from app.queue.machine import JobState, TaskState, held_state, job_status, outcome_counts, tasks_that_count
from app.queue.rows import JobRow, TaskRow
from app.queue.store import JobStore
from app.queue.targets import Target, TaskKind, decode_index_result, format_target
from app.storage.shard_store import MissingShardError

Bring = Callable[[str], Awaitable[None]]

_CACHED_BUNDLES = 512
_CACHED_VIEWS = 64
_MADE_OF_SEGMENTS = tuple(f"{kind}/" for kind in (TaskKind.VIDEO, TaskKind.AUDIO, TaskKind.TEXT))


class FilmView(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one film at one moment."""

    job_id: str
    fingerprint: str
    plan: Plan
    plan_hash: str
    layout: FilmLayout
    bundles: dict[str, str]
    """Task target → bundle, of what is finished."""
    stills: StillsResult | None
    state: JobState
    reason: str | None
    error: ExpectedError | None
    is_full: bool

    def target_of(self, name: str, number: int) -> str:
        """Return the target of the task that makes a piece; raises ``ExpectedError`` no-such-id."""
        if not self.layout.has_piece(name, number):
            raise ExpectedError(
                ErrorCode.NO_SUCH_ID, f"This film has no piece {name}/{number}; load its playlist again."
            )
        if any(track.name == name for track in self.plan.text):
            return format_target(Target(kind=TaskKind.TEXT, plan=self.plan_hash, name=name))
        if any(track.name == name for track in self.plan.audio):
            return format_target(Target(kind=TaskKind.AUDIO, plan=self.plan_hash, name=name))
        chunk = self.plan.chunk_of(max(number, 0))
        of = self.plan.set_of(name).name
        return format_target(Target(kind=TaskKind.VIDEO, plan=self.plan_hash, name=of, chunk=chunk.number))


def view_of(store: JobStore, job: JobRow) -> FilmView:
    """Read a film's view from the queue; raises ``ExpectedError`` not-done while there is no plan."""
    tasks = tasks_that_count(job, store.tasks(job.id))
    status = job_status(job, tasks)
    published = store.published(job.id)
    film = decode_canonical(published[1].value, Film) if published else None
    is_full = film is not None and film.stage is PublishStage.FULL
    goes_on = status.state in {JobState.QUEUED, JobState.PROCESSING, JobState.PAUSED}
    if film is not None and (is_full or not goes_on):
        plan = published_plan(film)
    else:
        index = store.accepted_index(job.id)
        if index is None:
            raise _no_plan(job, status.error.message if status.error else None)
        plan = decode_index_result(index.value)
    name = plan_hash(film.plan if film is not None else plan)
    bundles = _bundles_of_film(film, name) if film is not None else {}
    stills = film.stills if film is not None else None
    if not is_full:
        done = {task.target: task.outcome.value for task in tasks if task.outcome and outcome_counts(job, task)}
        bundles |= _bundles_of_outcomes(done)
        stills = stills or _stills_of(done)
    return FilmView(
        job_id=job.id,
        fingerprint=job.fingerprint,
        plan=plan,
        plan_hash=name,
        layout=film_layout(
            plan,
            measured=film.rates if film is not None else (),
            is_complete=is_full,
            stills=stills.info if stills is not None else None,
            lacking=_lacking(job, tasks, plan, name, bundles, goes_on=goes_on and not is_full),
        ),
        bundles=bundles,
        stills=stills,
        state=status.state,
        reason=status.reason,
        error=ExpectedError(ErrorCode(status.error.code), status.error.message) if status.error else None,
        is_full=is_full,
    )


def _no_plan(job: JobRow, trouble: str | None) -> ExpectedError:
    return ExpectedError(
        ErrorCode.NOT_DONE, trouble or f"“{job.name}” cannot be played yet: it is still being looked at."
    )


def _lacking(
    job: JobRow, tasks: Iterable[TaskRow], plan: Plan, name: str, bundles: Mapping[str, str], *, goes_on: bool
) -> frozenset[str]:
    """Return the text tracks that will not come: those that failed, or once nothing is made any more, are not there."""
    failed = {task.target for task in tasks if held_state(job, task) is TaskState.FAILED}
    targets = {track.name: format_target(Target(kind=TaskKind.TEXT, plan=name, name=track.name)) for track in plan.text}
    return frozenset(
        track for track, target in targets.items() if target not in bundles and (target in failed or not goes_on)
    )


def _bundles_of_film(film: Film, plan: str) -> dict[str, str]:
    chunks = {
        format_target(Target(kind=TaskKind.VIDEO, plan=plan, name=one.set, chunk=one.chunk)): one.bundle
        for one in film.video
    }
    tracks = {format_target(Target(kind=TaskKind.AUDIO, plan=plan, name=one.track)): one.bundle for one in film.audio}
    texts = {format_target(Target(kind=TaskKind.TEXT, plan=plan, name=one.track)): one.bundle for one in film.text}
    return chunks | tracks | texts


def _bundles_of_outcomes(done: Mapping[str, str]) -> dict[str, str]:
    return {
        target: decode_canonical(value, TaskResult).bundle
        for target, value in done.items()
        if target.startswith(_MADE_OF_SEGMENTS)
    }


def _stills_of(done: Mapping[str, str]) -> StillsResult | None:
    value = next((value for target, value in done.items() if target.startswith(f"{TaskKind.STILLS}/")), None)
    return decode_canonical(value, StillsResult) if value is not None else None


class EngineFilms:
    """The gateway's source of films. Implements ``app.playback.source.FilmSource``."""

    def __init__(self, kernel: Kernel, wanted: WantedTasks, *, bring: Bring) -> None:
        """``bring`` fetches from other devices what reading a capability needs."""
        self._kernel = kernel
        self._bring = bring
        self._wanted = wanted
        self._views: OrderedDict[str, tuple[int, FilmView]] = OrderedDict()
        """Media id → (version of the queue, what was read from it)."""
        self._bundles: OrderedDict[str, dict[tuple[str, int], str]] = OrderedDict()

    async def view(self, media_id: str) -> FilmView:
        """Return what is known of a film; raises ``ExpectedError`` no-such-id, not-done."""
        version = self._kernel.version
        known = self._views.get(media_id)
        if known is not None and known[0] == version:
            return known[1]
        view = await self._kernel.queue(lambda store: view_of(store, store.job_by_media_id(media_id)))
        self._views[media_id] = version, view
        while len(self._views) > _CACHED_VIEWS:
            self._views.popitem(last=False)
        return view

    async def layout(self, media_id: str) -> FilmLayout:
        return (await self.view(media_id)).layout

    async def is_paused(self, media_id: str) -> bool:
        return (await self.view(media_id)).state is JobState.PAUSED

    async def is_made(self, media_id: str, name: str, number: int) -> bool:
        view = await self.view(media_id)
        return (await self.find(view, name, number)) is not None

    async def init_section(self, media_id: str, name: str) -> bytes:
        return await self._piece(media_id, name, INIT_NUMBER)

    async def segment(self, media_id: str, name: str, number: int) -> bytes:
        return await self._piece(media_id, name, number)

    async def still(self, media_id: str, kind: StillKind, number: int) -> bytes:
        view = await self.view(media_id)
        if view.stills is None:
            raise ExpectedError(ErrorCode.NOT_DONE, "There are no pictures of this film yet.")
        capability = (await self._entries(view.stills.bundle)).get((str(kind), number))
        if capability is None:
            raise ExpectedError(ErrorCode.NO_SUCH_ID, "This film has no such picture.")
        return await self._read(capability)

    async def _read(self, capability: str) -> bytes:
        """Return a piece from the vault, else from another device; raises missing-shard when nobody has it."""
        try:
            return await self._kernel.store(lambda storage: storage.vault.read_all(capability))
        except MissingShardError:
            await self._bring(capability)
            return await self._kernel.store(lambda storage: storage.vault.read_all(capability))

    async def have_here(self, capabilities: Iterable[str]) -> None:
        """Bring pieces into this device's vault; raises missing-shard when nobody has one."""
        for capability in capabilities:
            await self._bring(capability)

    async def text(self, media_id: str, name: str) -> bytes | None:
        """Return a text track's WebVTT file, None while it is not made; raises no-such-id when it will not be."""
        view = await self.view(media_id)
        if name in view.layout.lacking or not view.layout.is_text(name):
            raise ExpectedError(ErrorCode.NO_SUCH_ID, "This film has no such subtitles; it plays without them.")
        capability = await self.find(view, name, 0)
        if capability is None:
            return None
        return await self._read(capability)

    async def _piece(self, media_id: str, name: str, number: int) -> bytes:
        """Return a piece, waiting until it is made.

        It becomes wanted once for the whole wait, since becoming wanted wakes all who watch, this wait too.
        """
        wanted_task: str | None = None
        with self._kernel.changed.watch() as changed, ExitStack() as wish:
            while True:
                changed.clear()
                view = await self.view(media_id)
                capability = await self.find(view, name, number)
                if capability is not None:
                    return await self._read(capability)
                self._refuse_waiting(view, name)
                preview = self._wanted.preview(view.job_id, name, number)
                if preview is not None:
                    return preview
                task_id = self._task_of(view, name, number)
                if task_id != wanted_task:
                    wish.pop_all().close()
                    wish.enter_context(self._wanted.waiting(task_id, name, number, view))
                    wanted_task = task_id
                await changed.wait()

    def _task_of(self, view: FilmView, name: str, number: int) -> str:
        target = view.target_of(name, number)
        kind = target.split("/", 1)[0]
        return task_id_of(job_id=view.job_id, kind=kind, target=target, fingerprint=view.fingerprint)

    @staticmethod
    def _refuse_waiting(view: FilmView, name: str) -> None:
        """Raise where waiting is in vain."""
        if name in view.layout.lacking:
            raise ExpectedError(ErrorCode.NO_SUCH_ID, "These subtitles could not be made; the film plays without them.")
        if view.is_full:
            raise ExpectedError(ErrorCode.RESULT_LOST, "A piece of this film is lost; run verify, then retry its job.")
        if view.state is JobState.PAUSED:
            raise ExpectedError(ErrorCode.NOT_DONE, "This film is paused; resume its job to make the rest.")
        if view.error is not None:
            raise view.error
        if view.state is JobState.CANCELLED:
            raise ExpectedError(ErrorCode.CANCELLED, "This film's job was cancelled; retry it to make the rest.")

    async def find(self, view: FilmView, name: str, number: int) -> str | None:
        """Return the capability of a piece, None while it is not made."""
        bundle = view.bundles.get(view.target_of(name, number))
        if bundle is not None:
            return (await self._entries(bundle)).get((name, number))
        if view.is_full:
            return None
        made = await self._kernel.store(
            lambda storage: storage.segments.find(job_id=view.job_id, plan=view.plan_hash, name=name, number=number)
        )
        return made.capability if made is not None else None

    async def _entries(self, bundle: str) -> dict[tuple[str, int], str]:
        known = self._bundles.get(bundle)
        if known is None:
            await self._bring(bundle)
            read = await self._kernel.store(lambda storage: storage.vault.read_bundle(bundle))
            known = {(entry.name, entry.number): entry.capability for entry in read.entries}
            self._bundles[bundle] = known
            while len(self._bundles) > _CACHED_BUNDLES:
                self._bundles.popitem(last=False)
        return known
