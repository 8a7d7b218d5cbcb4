"""An engine in memory: a small true implementation of ``EngineApi`` whose jobs do what a test tells them to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar, cast

import msgspec

from app.core.errors import ErrorCode, ErrorInfo, ExpectedError
from app.core.ids import media_id_of, new_id
from app.engine.api import (
    AddPath,
    AddResult,
    AwaitPairing,
    Changed,
    ChangeJob,
    ClosePlayer,
    Command,
    ConfirmWords,
    CueSnapshot,
    DeviceSnapshot,
    EmptyTrash,
    EngineStatus,
    ExportFilm,
    FilmSnapshot,
    GetFilm,
    GetJob,
    GetPoster,
    GetText,
    JobSnapshot,
    JoinSpace,
    ListDevices,
    ListLibrary,
    ListQueue,
    ListTrash,
    OpenPairing,
    OpenPlayer,
    PairedSnapshot,
    PairingSnapshot,
    PlayerSnapshot,
    Progress,
    QueueCursor,
    QueuePage,
    RemoveFilm,
    RestoreFilm,
    RevokeDevice,
    RevokedSnapshot,
    SeekPlayer,
    ShowWords,
    SpaceSnapshot,
    WordsSnapshot,
)

R = TypeVar("R")

ACTIONS = {
    "queued": ("pause", "cancel", "remove"),
    "processing": ("pause", "cancel", "remove"),
    "paused": ("resume", "cancel", "remove"),
    "done": ("remove",),
    "error": ("retry", "remove"),
    "cancelled": ("retry", "remove"),
}
_AFTER = {"pause": "paused", "resume": "queued", "cancel": "cancelled", "retry": "queued"}


def make_job(title: str, state: str = "queued", **fields: Any) -> JobSnapshot:
    """Return a job; ``fields`` replace what is usual."""
    job_id = fields.pop("id", new_id())
    usual: dict[str, Any] = {
        "id": job_id,
        "media_id": media_id_of(job_id),
        "title": title,
        "profile": "default",
        "state": state,
        "added_at_ms": 1_700_000_000_000,
        "size_bytes": 1_240_000_000,
        "actions": ACTIONS[state],
    }
    return JobSnapshot(**{**usual, **fields})


def make_film(title: str, **fields: Any) -> FilmSnapshot:
    """Return a film; ``fields`` replace what is usual."""
    job_id = fields.pop("job_id", new_id())
    usual: dict[str, Any] = {
        "media_id": media_id_of(job_id),
        "job_id": job_id,
        "title": title,
        "state": "ready",
        "duration_s": 5400.0,
        "size_bytes": 1_240_000_000,
        "added_at_ms": 1_700_000_000_000,
    }
    return FilmSnapshot(**{**usual, **fields})


def make_device(name: str, **fields: Any) -> DeviceSnapshot:
    """Return a device; ``fields`` replace what is usual."""
    usual: dict[str, Any] = {
        "id": new_id(),
        "name": name,
        "this": False,
        "state": "member",
        "added_at_ms": 1_700_000_000_000,
        "added_by": "Desk",
    }
    return DeviceSnapshot(**{**usual, **fields})


WORDS = tuple(f"word{number}" for number in range(1, 25))


class FakeEngine:
    """Everything happens in ``loop``; the methods for tests may be called from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.calls: list[Command[Any]] = []
        self.jobs: dict[str, JobSnapshot] = {}
        self.films: dict[str, FilmSnapshot] = {}
        self.posters: dict[str, bytes] = {}
        self.player: PlayerSnapshot | None = None
        self.text: dict[str, tuple[CueSnapshot, ...]] = {}
        self.refusals: dict[type[Command[Any]], Callable[[Any], Exception | None]] = {}
        self.page = 50
        """How many jobs the first event and each page hold."""
        self.devices: dict[str, DeviceSnapshot] = {}
        self.words_pending = True
        self.codes = 0
        """How many codes were shown so far."""
        self._pairing: asyncio.Future[PairedSnapshot] | None = None
        self._tell_pairing: Progress | None = None
        self.put_devices(make_device("Desk", this=True, added_by="words"))
        self.status = EngineStatus(working=True, idle=False)
        self.held: dict[type[Command[Any]], asyncio.Event] = {}
        self.listeners: list[asyncio.Queue[Changed | None]] = []
        self._loop = loop

    # for tests

    def put_jobs(self, *jobs: JobSnapshot) -> None:
        """Add or change jobs and tell of them."""
        self._loop.call_soon_threadsafe(self._put_jobs, jobs)

    def put_films(self, *films: FilmSnapshot) -> None:
        """Add or change films and tell of them."""
        self._loop.call_soon_threadsafe(self._put_films, films)

    def put_devices(self, *devices: DeviceSnapshot) -> None:
        """Add or change devices; as the true engine, tell nobody."""
        self.devices.update({device.id: device for device in devices})

    def try_code(self, used: float, message: str) -> None:
        """Be somebody who comes with a wrong code."""
        self._loop.call_soon_threadsafe(lambda: self._tell_pairing and self._tell_pairing(used, message))

    def let_in(self, name: str) -> None:
        """Be a device that joins with the code that is shown."""
        self.put_devices(make_device(name))
        paired = PairedSnapshot(id="id", name=name, devices=len(self.devices))
        self._loop.call_soon_threadsafe(lambda: self._waiting.set_result(paired))

    def end_code(self, code: ErrorCode, message: str) -> None:
        """Let the code that is shown become void."""
        error = ExpectedError(code, message)
        self._loop.call_soon_threadsafe(lambda: self._waiting.set_exception(error))

    @property
    def _waiting(self) -> asyncio.Future[PairedSnapshot]:
        assert self._pairing is not None, "no code is shown"
        return self._pairing

    @property
    def is_code_open(self) -> bool:
        """Whether somebody waits for a device to join."""
        return self._pairing is not None and not self._pairing.done()

    def drop_job(self, job_id: str) -> None:
        """Forget a job and tell of it."""
        self._loop.call_soon_threadsafe(self._drop_job, job_id)

    def set_status(self, status: EngineStatus) -> None:
        """Become ``status`` and tell of it."""
        self._loop.call_soon_threadsafe(self._set_status, status)

    def break_events(self) -> None:
        """End all event streams, as an engine of another process does when it ends."""
        for queue in tuple(self.listeners):
            self._loop.call_soon_threadsafe(queue.put_nowait, None)

    def hold(self, kind: type[Command[Any]]) -> None:
        """Let commands of ``kind`` wait until ``release``."""
        self.held[kind] = asyncio.Event()

    def release(self, kind: type[Command[Any]]) -> None:
        """Let held commands of ``kind`` go on."""
        event = self.held.pop(kind)
        self._loop.call_soon_threadsafe(event.set)

    def refuse(self, kind: type[Command[Any]], code: ErrorCode, message: str) -> None:
        """Refuse all commands of ``kind``."""
        self.refusals[kind] = lambda _command: ExpectedError(code, message)

    def called(self, kind: type[Command[Any]]) -> list[Any]:
        """Return the commands of ``kind`` so far."""
        return [command for command in self.calls if isinstance(command, kind)]

    # the engine's API

    async def call(self, command: Command[R], *, progress: Progress | None = None) -> R:
        self.calls.append(command)
        if (event := self.held.get(type(command))) is not None:
            await event.wait()
        refusal = self.refusals.get(type(command), lambda _command: None)(command)
        if refusal is not None:
            raise refusal
        if isinstance(command, AwaitPairing):
            return cast("R", await self._await_pairing(progress))
        return cast("R", self._answer(command, progress))

    async def events(self) -> AsyncIterator[Changed]:
        queue: asyncio.Queue[Changed | None] = asyncio.Queue()
        self.listeners.append(queue)
        try:
            first = self._queue_page(None)
            yield Changed(jobs=first.jobs, library=True, status=self.status, more=first.next)
            while (event := await queue.get()) is not None:
                yield event
        finally:
            self.listeners.remove(queue)

    def _answer(self, command: Command[Any], progress: Progress | None) -> object:  # noqa: C901, PLR0911, PLR0912
        match command:
            case AddPath(path=path):
                return self._add(path)
            case ChangeJob(job_id=job_id, action=action):
                return self._change(job_id, action)
            case GetJob(job_id=job_id):
                return self.jobs[job_id]
            case ListQueue(after=after):
                return self._queue_page(after)
            case ListLibrary():
                return tuple(film for film in self.films.values() if film.state != "trashed")
            case ListTrash():
                return tuple(film for film in self.films.values() if film.state == "trashed")
            case GetFilm(media_id=media_id):
                if media_id not in self.films:
                    raise ExpectedError(ErrorCode.NO_SUCH_ID, "There is no such film.")
                return self.films[media_id]
            case GetPoster(media_id=media_id):
                return self.posters.get(media_id)
            case GetText(name=name):
                return self.text.get(name)
            case RemoveFilm(media_id=media_id, now=now):
                return self._remove(media_id, now=now)
            case RestoreFilm(media_id=media_id):
                return self._set_film(media_id, state="ready", trashed_at_ms=None)
            case EmptyTrash():
                return self._empty()
            case OpenPlayer():
                if self.player is None:
                    raise ExpectedError(ErrorCode.NOT_DONE, "The film cannot be played yet; wait for its first part.")
                return self.player
            case SeekPlayer() | ClosePlayer():
                return None
            case ExportFilm(media_id=media_id):
                if progress is not None:
                    progress(0.5, "writing")
                return self.films[media_id].size_bytes
            case ListDevices():
                return SpaceSnapshot(
                    owner="0" * 64,
                    vault_key="k",
                    words_pending=self.words_pending,
                    devices=tuple(self.devices.values()),
                )
            case OpenPairing():
                return self._open_pairing()
            case JoinSpace():
                self.put_devices(make_device("Laptop", path="lan"))
                return PairedSnapshot(id="id", name="Laptop", devices=len(self.devices))
            case RevokeDevice(device_id=device_id):
                return self._revoke(device_id)
            case ShowWords():
                return WordsSnapshot(words=WORDS)
            case ConfirmWords(words=words):
                return self._confirm(words)
            case _:
                raise NotImplementedError(type(command).__name__)

    def _open_pairing(self) -> PairingSnapshot:
        self.codes += 1
        code = f"417-220-93{self.codes}"
        return PairingSnapshot(
            code=code,
            link=f"hearthreel://pair/{code.replace('-', '')}?at=192.168.1.20:45001",
            addresses=("192.168.1.20:45001", "[fd00::20]:45001"),
            found_by_code=True,
            valid_s=600,
        )

    async def _await_pairing(self, progress: Progress | None) -> PairedSnapshot:
        self._pairing = self._loop.create_future()
        self._tell_pairing = progress
        return await self._pairing

    def _revoke(self, device_id: str) -> RevokedSnapshot:
        device = msgspec.structs.replace(
            self.devices[device_id], state="revoked", path=None, revoked_at_ms=1_700_000_000_000, revoked_by="Desk"
        )
        self.put_devices(device)
        return RevokedSnapshot(
            device=device, vault_key="k2", still_holds=f"{device.name} keeps titles and keys of up to 12 films."
        )

    def _confirm(self, words: dict[int, str]) -> bool:
        for number, word in words.items():
            if WORDS[number - 1] != word:
                raise ExpectedError(ErrorCode.BAD_WORDS, f"Word {number} is another one.")
        self.words_pending = False
        return True

    def _queue_page(self, after: QueueCursor | None) -> QueuePage:
        parts: dict[str, list[JobSnapshot]] = {"unfinished": [], "finished": []}
        for job in self.jobs.values():
            parts["finished" if job.state in {"done", "cancelled"} else "unfinished"].append(job)
        parts["finished"].reverse()
        shown = [(part, job) for part, jobs in parts.items() for job in jobs]
        first = 0
        if after is not None:
            ids = [job.id for _, job in shown]
            first = ids.index(after.after) + 1 if after.after is not None else len(parts["unfinished"])
        page = shown[first : first + self.page]
        is_last = first + self.page >= len(shown)
        cursor = None if is_last else QueueCursor(part=page[-1][0], after=page[-1][1].id)
        return QueuePage(jobs=tuple(job for _, job in page), next=cursor)

    def _add(self, path: bytes) -> AddResult:
        shown = path.decode("utf-8", "replace")
        name = shown.rpartition("/")[2]
        if not name.endswith((".mp4", ".mkv")):
            error = ErrorInfo(code=str(ErrorCode.NOT_A_VIDEO), message=f"“{name}” is not a video file.")
            return AddResult(path=shown, job_id=None, media_id=None, state="refused", error=error)
        known = next((job for job in self.jobs.values() if job.source == shown), None)
        job = known or make_job(name.rpartition(".")[0], source=shown)
        self._put_jobs((job,))
        return AddResult(path=shown, job_id=job.id, media_id=job.media_id, state=job.state, already=known is not None)

    def _change(self, job_id: str, action: str) -> JobSnapshot:
        job = self.jobs[job_id]
        if action not in job.actions:
            raise ExpectedError(ErrorCode.ALREADY_DONE, f"“{job.title}” is done already; nothing was changed.")
        if action == "remove":
            self._drop_job(job_id)
            return job
        state = _AFTER[action]
        changed = msgspec.structs.replace(job, state=state, actions=ACTIONS[state], error=None)
        self._put_jobs((changed,))
        return changed

    def _remove(self, media_id: str, *, now: bool) -> FilmSnapshot:
        if now:
            film = self.films.pop(media_id)
            self._tell(Changed(library=True))
            return film
        return self._set_film(media_id, state="trashed", trashed_at_ms=1_700_000_000_000)

    def _set_film(self, media_id: str, **fields: Any) -> FilmSnapshot:
        film = msgspec.structs.replace(self.films[media_id], **fields)
        self._put_films((film,))
        return film

    def _empty(self) -> int:
        gone = [film.media_id for film in self.films.values() if film.state == "trashed"]
        for media_id in gone:
            del self.films[media_id]
        self._tell(Changed(library=True))
        return len(gone)

    def _put_jobs(self, jobs: tuple[JobSnapshot, ...]) -> None:
        self.jobs.update({job.id: job for job in jobs})
        self._tell(Changed(jobs=jobs))

    def _put_films(self, films: tuple[FilmSnapshot, ...]) -> None:
        self.films.update({film.media_id: film for film in films})
        self._tell(Changed(library=True))

    def _drop_job(self, job_id: str) -> None:
        self.jobs.pop(job_id, None)
        self._tell(Changed(gone=(job_id,)))

    def _set_status(self, status: EngineStatus) -> None:
        self.status = status
        self._tell(Changed(status=status))

    def _tell(self, event: Changed) -> None:
        for queue in self.listeners:
            queue.put_nowait(event)
