"""The one way into the engine: commands in, snapshots and events out, all serialisable values.

The window, the tray and the command line use ``EngineApi`` and nothing else. It has two implementations with one
contract: ``app.engine.local.LocalEngine`` (this process holds the data directory) and
``app.engine.remote.RemoteEngine`` (another process does; loopback socket). A command is a
msgspec struct; its reply type stands beside it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import msgspec

from app.core.errors import ErrorInfo

QUEUE_PAGE = 50
"""Jobs of a page; a window shows a dozen or two at once."""

R_co = TypeVar("R_co", covariant=True)


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Base of everything the engine tells."""


class TaskSnapshot(Snapshot, frozen=True, kw_only=True):
    """One task, as shown by ``job show``."""

    id: str
    kind: str
    target: str
    state: str
    """available, leased, completed, failed, fallback_started or cancelled."""
    attempts: int = 0
    progress: float | None = None
    error: ErrorInfo | None = None


class JobSnapshot(Snapshot, frozen=True, kw_only=True):
    """One job, as the queue shows it."""

    id: str
    media_id: str
    title: str
    kind: str = "hls"
    profile: str
    state: str
    """queued, processing, paused, done, error or cancelled."""
    reason: str | None = None
    """Why it waits or what is wrong, in words a person can act on."""
    progress: float | None = None
    """0 to 1; None until the index is known."""
    rate_x: float | None = None
    """Film seconds made per second."""
    eta_s: float | None = None
    error: ErrorInfo | None = None
    warnings: tuple[str, ...] = ()
    added_at_ms: int
    size_bytes: int
    duration_s: float | None = None
    source: str | None = None
    """Path of the source on this device, for showing; lone surrogates are replaced."""
    playable: bool = False
    """Whether a player can be opened on it now."""
    actions: tuple[str, ...] = ()
    """Which of pause, resume, cancel, retry, remove make sense now."""
    tasks: tuple[TaskSnapshot, ...] = ()
    """Only filled by ``GetJob``."""


class QueueCursor(Snapshot, frozen=True, kw_only=True):
    """Where a page of the queue ended."""

    part: str
    """unfinished or finished: in which of the two the next page begins."""
    after: str | None = None
    """Id of the last job seen of that part; it may be gone or finished meanwhile."""


class QueuePage(Snapshot, frozen=True, kw_only=True):
    """Jobs as the queue shows them: what is unfinished in the order of adding, then what is finished, newest first."""

    jobs: tuple[JobSnapshot, ...]
    next: QueueCursor | None
    """To ask with for the next page; None when this was the last."""


class TrackSnapshot(Snapshot, frozen=True, kw_only=True):
    """One sound track of a film."""

    name: str
    label: str
    language: str


class TextSnapshot(Snapshot, frozen=True, kw_only=True):
    """One text track of a film."""

    name: str
    label: str
    language: str
    is_default: bool = False
    is_forced: bool = False
    is_hearing_impaired: bool = False


class CueSnapshot(Snapshot, frozen=True, kw_only=True):
    """Text and when it is shown; the cues of a track follow one another."""

    start_s: float
    end_s: float
    text: str
    """Plain, lines separated by a line feed."""


class ChapterSnapshot(Snapshot, frozen=True, kw_only=True):
    """One chapter of a film."""

    start_s: float
    end_s: float
    title: str
    """Empty when it is only called by its number."""


class RenditionSnapshot(Snapshot, frozen=True, kw_only=True):
    """One rendition of a film."""

    name: str
    width: int
    height: int
    kind: str
    codecs: str
    peak: int | None = None
    average: int | None = None


class FilmSnapshot(Snapshot, frozen=True, kw_only=True):
    """One film of the library."""

    media_id: str
    job_id: str
    title: str
    state: str
    """ready (all renditions), partial (quick stage published), making (plays while it is made), trashed."""
    duration_s: float
    size_bytes: int
    added_at_ms: int
    trashed_at_ms: int | None = None
    renditions: tuple[RenditionSnapshot, ...] = ()
    audio: tuple[TrackSnapshot, ...] = ()
    text: tuple[TextSnapshot, ...] = ()
    chapters: tuple[ChapterSnapshot, ...] = ()
    warnings: tuple[str, ...] = ()
    has_poster: bool = False
    copies: int = 1
    progress: float | None = None


class AddResult(Snapshot, frozen=True, kw_only=True):
    """What became of one path given to ``AddPath``."""

    path: str
    job_id: str | None
    media_id: str | None
    state: str
    """A job state, or ``refused``."""
    error: ErrorInfo | None = None
    already: bool = False


class SheetLayout(Snapshot, frozen=True, kw_only=True):
    """How thumbnails lie on trickplay sheets."""

    interval_s: float
    columns: int
    rows: int
    tile_width: int
    tile_height: int
    count: int


class PlayerSnapshot(Snapshot, frozen=True, kw_only=True):
    """An open player session: addresses under an unguessable token, valid until closed."""

    token: str
    media_id: str
    master: str
    """Multivariant playlist for hls.js, VLC, mpv, ffmpeg."""
    auto: str
    """Playlist in which the gateway adapts; for the desktop player."""
    duration_s: float
    audio: tuple[TrackSnapshot, ...] = ()
    text: tuple[TextSnapshot, ...] = ()
    chapters: tuple[ChapterSnapshot, ...] = ()
    sheets: str | None = None
    """Address prefix of the trickplay sheets (``sheets + "0.jpg"``), when there are any."""
    sheet_layout: SheetLayout | None = None


class AffectedFilm(Snapshot, frozen=True, kw_only=True):
    """A film, finished or in the making, that lost something."""

    media_id: str
    job_id: str
    title: str


class VerifyReport(Snapshot, frozen=True, kw_only=True):
    """What scrubbing the vault found."""

    shards: int
    size_bytes: int
    damaged: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    stray: tuple[str, ...] = ()
    affected: tuple[AffectedFilm, ...] = ()
    repaired: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.damaged or self.missing or self.stray)


class DoctorReport(Snapshot, frozen=True, kw_only=True):
    """What this installation can do."""

    version: str
    data_dir: str
    versions: dict[str, str]
    encoders: dict[str, str]
    """Encoder name → "works", or why not."""
    disk_free_bytes: int
    vault_bytes: int
    database: str
    """"ok", or what is wrong."""
    device: str = ""
    """The id of this device."""
    secrets: str = ""
    """Where the secret key of this device lies, in words."""
    player: str = ""


class DeviceSnapshot(Snapshot, frozen=True, kw_only=True):
    """One device of the owner."""

    id: str
    name: str
    this: bool
    """Whether it is the device that answers."""
    state: str
    """member or revoked."""
    added_at_ms: int
    added_by: str
    """The name of a device, or ``words``."""
    revoked_at_ms: int | None = None
    revoked_by: str | None = None
    path: str | None = None
    """How it is connected now: lan, direct, relay; None while it is not."""
    rate_bytes_s: int | None = None
    """What it gave lately, measured."""
    trouble: ErrorInfo | None = None
    """Why it is not connected, as of the last attempt."""


class SpaceSnapshot(Snapshot, frozen=True, kw_only=True):
    """The owner's devices, as this one knows them."""

    owner: str
    """The owner's public signing key in hex."""
    vault_key: str
    """The id of the key that seals new content here."""
    words_pending: bool
    """The owner's secret still waits on this device for its words to be confirmed."""
    devices: tuple[DeviceSnapshot, ...]


class RevokedSnapshot(Snapshot, frozen=True, kw_only=True):
    """What came of revoking a device."""

    device: DeviceSnapshot
    vault_key: str
    """The id of the key that seals new content from now on."""
    still_holds: str
    """What the device may still hold and do, in words."""


class WordsSnapshot(Snapshot, frozen=True, kw_only=True):
    """The owner's secret. Show it to the owner and to nobody else."""

    words: tuple[str, ...]


class PairingSnapshot(Snapshot, frozen=True, kw_only=True):
    """A code that lets one device in."""

    code: str
    link: str
    """Code and address as one text, for a QR code."""
    addresses: tuple[str, ...]
    """HOST:PORT, where this device listens for whoever has the code."""
    found_by_code: bool
    """Whether the code alone is enough on the local network."""
    valid_s: int


class PairedSnapshot(Snapshot, frozen=True, kw_only=True):
    """A device that is of the space now."""

    id: str
    name: str
    devices: int
    """How many belong to the space now."""


class Command(msgspec.Struct, Generic[R_co], frozen=True, kw_only=True, tag=True):
    """Base of everything the engine can be asked."""

    reply: ClassVar[Any] = None
    """Type of the reply, for decoding."""


class AddPath(Command[AddResult], frozen=True, kw_only=True, tag=True):
    """Add one file (folders are expanded by the client, see ``app.engine.folders``)."""

    reply: ClassVar[Any] = AddResult
    path: bytes
    """Absolute path as the file system spells it (``os.fsencode``)."""
    profile: str | None = None


class ListJobs(Command[tuple[JobSnapshot, ...]], frozen=True, kw_only=True, tag=True):
    """Jobs in the order of adding: all of them, or a page."""

    reply: ClassVar[Any] = tuple[JobSnapshot, ...]
    after: str | None = None
    """Id of the last job of the page before; it may be gone meanwhile."""
    limit: int | None = None


class ListQueue(Command[QueuePage], frozen=True, kw_only=True, tag=True):
    """A page of the queue in the order in which it is shown."""

    reply: ClassVar[Any] = QueuePage
    after: QueueCursor | None = None
    limit: int = QUEUE_PAGE


class GetJob(Command[JobSnapshot], frozen=True, kw_only=True, tag=True):
    """One job with its tasks."""

    reply: ClassVar[Any] = JobSnapshot
    job_id: str


class ChangeJob(Command[JobSnapshot], frozen=True, kw_only=True, tag=True):
    """Pause, resume, cancel, retry or remove a job."""

    reply: ClassVar[Any] = JobSnapshot
    job_id: str
    action: str
    """pause, resume, cancel, retry or remove."""


class SetPriority(Command[JobSnapshot], frozen=True, kw_only=True, tag=True):
    """Say how urgent a job is; higher goes first, 0 is usual."""

    reply: ClassVar[Any] = JobSnapshot
    job_id: str
    priority: int


class ListLibrary(Command[tuple[FilmSnapshot, ...]], frozen=True, kw_only=True, tag=True):
    """Films that can be played, newest first: all of them, or a page."""

    reply: ClassVar[Any] = tuple[FilmSnapshot, ...]
    after: str | None = None
    """Media id of the last film of the page before; it may be gone meanwhile."""
    limit: int | None = None


class GetFilm(Command[FilmSnapshot], frozen=True, kw_only=True, tag=True):
    """One film."""

    reply: ClassVar[Any] = FilmSnapshot
    media_id: str


class GetPoster(Command[bytes | None], frozen=True, kw_only=True, tag=True):
    """The poster of a film as JPEG, or None while there is none."""

    reply: ClassVar[Any] = bytes | None
    media_id: str


class GetText(Command[tuple[CueSnapshot, ...] | None], frozen=True, kw_only=True, tag=True):
    """The cues of a text track, or None while they are not made; raises no-such-id when they will not be."""

    reply: ClassVar[Any] = tuple[CueSnapshot, ...] | None
    media_id: str
    name: str


class RemoveFilm(Command[FilmSnapshot], frozen=True, kw_only=True, tag=True):
    """Put a film into the Trash, or delete it now."""

    reply: ClassVar[Any] = FilmSnapshot
    media_id: str
    now: bool = False


class ListTrash(Command[tuple[FilmSnapshot, ...]], frozen=True, kw_only=True, tag=True):
    """Films in the Trash."""

    reply: ClassVar[Any] = tuple[FilmSnapshot, ...]


class RestoreFilm(Command[FilmSnapshot], frozen=True, kw_only=True, tag=True):
    """Take a film out of the Trash."""

    reply: ClassVar[Any] = FilmSnapshot
    media_id: str


class EmptyTrash(Command[int], frozen=True, kw_only=True, tag=True):
    """Delete what is in the Trash; the reply is how many films went."""

    reply: ClassVar[Any] = int


class OpenPlayer(Command[PlayerSnapshot], frozen=True, kw_only=True, tag=True):
    """Open a player session on a film, finished or in the making."""

    reply: ClassVar[Any] = PlayerSnapshot
    media_id: str


class SeekPlayer(Command[None], frozen=True, kw_only=True, tag=True):
    """Tell the gateway that a player is about to seek; its waiting requests are closed."""

    token: str
    position_ms: int


class ClosePlayer(Command[None], frozen=True, kw_only=True, tag=True):
    """End a player session."""

    token: str


class ExportFilm(Command[int], frozen=True, kw_only=True, tag=True):
    """Write the best rendition with all tracks to a plain MP4 file; the reply is its size in bytes."""

    reply: ClassVar[Any] = int
    media_id: str
    path: bytes
    overwrite: bool = False


class GetConfig(Command[dict[str, Any]], frozen=True, kw_only=True, tag=True):
    """All settings."""

    reply: ClassVar[Any] = dict[str, Any]


class SetConfig(Command[dict[str, Any]], frozen=True, kw_only=True, tag=True):
    """Change one setting; the value is text as typed by a person."""

    reply: ClassVar[Any] = dict[str, Any]
    key: str
    value: str


class VerifyVault(Command[VerifyReport], frozen=True, kw_only=True, tag=True):
    """Read and check every shard."""

    reply: ClassVar[Any] = VerifyReport
    repair: bool = False


class RunDoctor(Command[DoctorReport], frozen=True, kw_only=True, tag=True):
    """Look at encoders, disk and versions."""

    reply: ClassVar[Any] = DoctorReport


class ListDevices(Command[SpaceSnapshot], frozen=True, kw_only=True, tag=True):
    """The owner's devices."""

    reply: ClassVar[Any] = SpaceSnapshot


class RevokeDevice(Command[RevokedSnapshot], frozen=True, kw_only=True, tag=True):
    """Shut a device out, and seal new content with a key that it does not have."""

    reply: ClassVar[Any] = RevokedSnapshot
    device_id: str
    words: str | None = None
    """The owner's 24 words: then it is the owner's word, which no device can undo."""


class ShowWords(Command[WordsSnapshot], frozen=True, kw_only=True, tag=True):
    """The 24 words, until they were confirmed."""

    reply: ClassVar[Any] = WordsSnapshot


class ConfirmWords(Command[bool], frozen=True, kw_only=True, tag=True):
    """Show that the words are written down; the owner's secret is then deleted from this device."""

    reply: ClassVar[Any] = bool
    words: dict[int, str]
    """At least three words, by their number from 1."""


class RestoreOwner(Command[SpaceSnapshot], frozen=True, kw_only=True, tag=True):
    """Make this device one of the owner's, with the 24 words alone."""

    reply: ClassVar[Any] = SpaceSnapshot
    words: str


class OpenPairing(Command[PairingSnapshot], frozen=True, kw_only=True, tag=True):
    """Listen for one device that shall join; a code that was open before becomes void."""

    reply: ClassVar[Any] = PairingSnapshot
    host: str = ""
    """The address to listen on; all if empty."""
    port: int = 0


class AwaitPairing(Command[PairedSnapshot], frozen=True, kw_only=True, tag=True):
    """Wait until a device has joined with the code; when this is withdrawn, the code becomes void.

    Progress tells, in words, of somebody who came and did not get in, and the share of the tries that is used up.
    """

    reply: ClassVar[Any] = PairedSnapshot
    code: str


class JoinSpace(Command[PairedSnapshot], frozen=True, kw_only=True, tag=True):
    """Join the space of the device that shows a code; the reply is that device."""

    reply: ClassVar[Any] = PairedSnapshot
    code: str
    """As typed, or the text of the QR code."""
    at: str | None = None
    """HOST:PORT; without, the local network is searched."""


class EngineStatus(Snapshot, frozen=True, kw_only=True):
    """Whether the engine works at all, and what holds it up."""

    working: bool
    """Whether workers are on (``worker.enabled``)."""
    trouble: ErrorInfo | None = None
    """Disk full, read-only …: work pauses until the cause is gone."""
    idle: bool
    """Nothing is left that this device can do now."""


class GetStatus(Command[EngineStatus], frozen=True, kw_only=True, tag=True):
    """How the engine is."""

    reply: ClassVar[Any] = EngineStatus


class Changed(Snapshot, frozen=True, kw_only=True):
    """Something changed: jobs that are new or different since the last event, jobs that are gone, the library.

    The first event holds the first page of the queue; ``ListQueue`` has the rest.
    """

    jobs: tuple[JobSnapshot, ...] = ()
    gone: tuple[str, ...] = ()
    library: bool = False
    status: EngineStatus | None = None
    more: QueueCursor | None = None
    """In the first event: where the queue goes on."""


AnyCommand = (
    AddPath
    | ListJobs
    | ListQueue
    | GetJob
    | ChangeJob
    | SetPriority
    | ListLibrary
    | GetFilm
    | GetPoster
    | GetText
    | RemoveFilm
    | ListTrash
    | RestoreFilm
    | EmptyTrash
    | OpenPlayer
    | SeekPlayer
    | ClosePlayer
    | ExportFilm
    | GetConfig
    | SetConfig
    | VerifyVault
    | RunDoctor
    | GetStatus
    | ListDevices
    | RevokeDevice
    | ShowWords
    | ConfirmWords
    | RestoreOwner
    | OpenPairing
    | AwaitPairing
    | JoinSpace
)

Progress = Callable[[float, str], None]
"""Called with a share from 0 to 1 and a word for what is being done."""


class EngineApi(Protocol):
    """What a face of the program sees of the engine."""

    async def call(self, command: Command[R_co], *, progress: Progress | None = None) -> R_co:
        """Carry out ``command``; raises ``ExpectedError`` with the code and sentence to show."""
        ...

    def events(self) -> AsyncIterator[Changed]:
        """Yield what changes, at most about four times a second; the first one holds the queue's first page."""
        ...
