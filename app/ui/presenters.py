"""Snapshots of the engine turned into rows, texts, order and enabled actions; pure, no Qt.

A row holds exactly what a view draws, so that two equal rows look alike and an event that changes nothing visible
changes nothing on the screen (U5).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import IntEnum, StrEnum

import msgspec

from app.core.errors import ErrorCode, ErrorInfo
from app.engine.api import (
    AddResult,
    Changed,
    EngineStatus,
    FilmSnapshot,
    JobSnapshot,
    QueueCursor,
    QueuePage,
    SheetLayout,
)
from app.ui.wording import Wording, clean_line, format_clock, format_percent, format_size

TRASH_DAYS = 30
_DAY_MS = 86_400_000
_FINISHED = frozenset({"done", "cancelled"})


class Section(IntEnum):
    """The pages, in the order of the sidebar."""

    LIBRARY = 0
    QUEUE = 1
    DEVICES = 2
    TRASH = 3


class Tone(StrEnum):
    """How a text feels; the theme gives each a colour."""

    WORKING = "working"
    WAITING = "waiting"
    DONE = "done"
    QUIET = "quiet"
    WARNING = "warning"
    ERROR = "error"


class JobAction(StrEnum):
    """What can be asked of a job; the value is the word of ``ChangeJob``. In the order in which they are shown."""

    PAUSE = "pause"
    RESUME = "resume"
    RETRY = "retry"
    CANCEL = "cancel"
    REMOVE = "remove"


class FilmAction(StrEnum):
    """What can be asked of a film. In the order in which they are shown."""

    PLAY = "play"
    EXPORT = "export"
    DETAILS = "details"
    TRASH = "trash"
    RESTORE = "restore"
    DELETE = "delete"


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the queue."""

    key: str
    """Job id."""
    media_id: str
    title: str
    state_text: str
    tone: Tone
    progress: float | None
    """0 to 1, or None when no bar is drawn."""
    actions: tuple[JobAction, ...]
    is_playable: bool
    tooltip: str


class FilmRow(msgspec.Struct, frozen=True, kw_only=True):
    """One poster of the library or the Trash."""

    key: str
    """Media id."""
    title: str
    clock: str
    meta: str
    badge: str
    progress: float | None
    has_poster: bool
    initials: str
    hue: int
    """0 to 359; colour of the place holder, always the same for a title."""
    actions: tuple[FilmAction, ...]
    tooltip: str


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """Something to tell without stopping anybody; a newer notice with the same key takes its place."""

    key: str
    tone: Tone
    text: str
    details: tuple[str, ...] = ()
    action: str = ""
    """Label of its button; empty for none."""
    progress: float | None = None
    is_dismissible: bool = True


class Detail(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the details of a film or job."""

    label: str
    value: str


def present_job(job: JobSnapshot, wording: Wording) -> JobRow:
    """Return the queue's line for ``job``."""
    title = clean_line(job.title)
    text, tone = _job_state(job, wording)
    actions = tuple(action for action in JobAction if action in job.actions)
    lines = [title, text, *(clean_line(warning) for warning in job.warnings)]
    if job.source:
        lines.append(clean_line(job.source))
    return JobRow(
        key=job.id,
        media_id=job.media_id,
        title=title,
        state_text=text,
        tone=tone,
        progress=job.progress if job.state in {"queued", "processing", "paused"} else None,
        actions=actions,
        is_playable=job.playable,
        tooltip="\n".join(lines),
    )


_TONES = {
    "queued": Tone.WAITING,
    "processing": Tone.WORKING,
    "paused": Tone.WAITING,
    "done": Tone.DONE,
    "error": Tone.ERROR,
    "cancelled": Tone.QUIET,
}


def _job_state(job: JobSnapshot, wording: Wording) -> tuple[str, Tone]:
    tone = Tone.WARNING if job.state == "done" and job.warnings else _TONES.get(job.state, Tone.QUIET)
    return _job_text(job, clean_line(job.reason or ""), wording), tone


def _job_text(job: JobSnapshot, reason: str, wording: Wording) -> str:
    match job.state:
        case "processing":
            text = _work_text(job, reason, wording)
        case "paused":
            text = _paused_text(job, wording)
        case "done":
            text = _done_text(job, reason, wording)
        case "error":
            text = clean_line(job.error.message) if job.error else reason
            text = text or wording.say("It failed and nobody knows why. Try again.")
        case "cancelled":
            text = wording.say("Cancelled")
        case _:
            text = reason or wording.say("Waiting for its turn")
    return text


def _work_text(job: JobSnapshot, reason: str, wording: Wording) -> str:
    if job.progress is None:
        return reason or wording.say("Looking at the file…")
    parts = [format_percent(job.progress)]
    if reason:
        parts.append(reason)
    elif job.rate_x:
        parts.append(wording.rate(job.rate_x))
    if job.eta_s is not None and not reason:
        parts.append(wording.time_left(job.eta_s))
    return " · ".join(parts)


def _paused_text(job: JobSnapshot, wording: Wording) -> str:
    if job.progress is None:
        return wording.say("Paused")
    return wording.say("Paused at {share}", share=format_percent(job.progress))


def _done_text(job: JobSnapshot, reason: str, wording: Wording) -> str:
    parts = [wording.say("Ready to play")]
    if job.duration_s is not None:
        parts.append(format_clock(job.duration_s))
    if reason:
        parts.append(reason)
    if job.warnings:
        parts.append(wording.count(len(job.warnings), "{n} warning", "{n} warnings"))
    return " · ".join(parts)


class QueueBoard:
    """The jobs that are known, which may be the first pages of many; keeps rows of jobs that did not change."""

    def __init__(self, wording: Wording) -> None:
        self._wording = wording
        self._jobs: dict[str, JobSnapshot] = {}
        self._rows: dict[str, JobRow] = {}
        self._gone: set[str] = set()
        self.more: QueueCursor | None = None
        """Where the queue goes on beyond what is known; None when all is."""

    @property
    def jobs(self) -> Mapping[str, JobSnapshot]:
        """All known jobs by id."""
        return self._jobs

    def apply(self, changed: Changed, *, is_everything: bool) -> None:
        """Take over an event; ``is_everything`` says that jobs which it does not name no longer exist."""
        if is_everything:
            self._jobs.clear()
            self._rows.clear()
            self._gone.clear()
            self.more = changed.more
        self._gone.update(changed.gone)
        for job_id in changed.gone:
            self._jobs.pop(job_id, None)
            self._rows.pop(job_id, None)
        for job in changed.jobs:
            self.put(job)

    def add_page(self, page: QueuePage) -> None:
        """Take over the page that follows; what is known already is newer, and what went meanwhile stays away."""
        for job in page.jobs:
            if job.id not in self._jobs and job.id not in self._gone:
                self.put(job)
        self.more = page.next

    @property
    def lacks_unfinished(self) -> bool:
        """Whether there are unfinished jobs beyond what is known."""
        return self.more is not None and self.more.part == "unfinished"

    def put(self, job: JobSnapshot) -> None:
        """Take over one job, from an event or a reply."""
        self._jobs[job.id] = job
        self._rows[job.id] = present_job(job, self._wording)

    def rows(self, *, with_finished: bool = True) -> list[JobRow]:
        """Return the lines: what is unfinished in order of adding, then what is finished, newest first."""
        shown = (job for job in self._jobs.values() if with_finished or job.state not in _FINISHED)
        return [self._rows[job.id] for job in sorted(shown, key=_queue_order)]

    @property
    def unfinished(self) -> int:
        """How many jobs are still to be done or need somebody."""
        return sum(job.state not in _FINISHED for job in self._jobs.values())

    @property
    def failed(self) -> int:
        """How many jobs are an error."""
        return sum(job.state == "error" for job in self._jobs.values())

    def summary(self) -> str:
        """Return the queue in one line for the status bar."""
        phrases = {
            "processing": "{n} in progress",
            "queued": "{n} waiting",
            "paused": "{n} paused",
            "error": "{n} failed",
        }
        counted = Counter(job.state for job in self._jobs.values())
        parts = [self._wording.say(phrase, n=counted[state]) for state, phrase in phrases.items() if counted[state]]
        return " · ".join(parts) or self._wording.say("Nothing to do")


def _queue_order(job: JobSnapshot) -> tuple[bool, int, str]:
    is_finished = job.state in _FINISHED
    return is_finished, -job.added_at_ms if is_finished else job.added_at_ms, job.id


def common_actions(rows: Iterable[JobRow]) -> frozenset[JobAction]:
    """Return what can be asked of at least one of ``rows``; the others are left alone."""
    return frozenset(action for row in rows for action in row.actions)


def loss_text(rows: Sequence[JobRow], action: JobAction, wording: Wording) -> str:
    """Return the question to ask before ``action`` throws work away; empty when it does not."""
    losing = [row for row in rows if row.progress]
    if action not in {JobAction.CANCEL, JobAction.REMOVE} or not losing:
        return ""
    if len(losing) == 1:
        return wording.say(
            "What was made of “{title}” so far ({share}) will be deleted. Your original file is not touched.",
            title=losing[0].title,
            share=format_percent(losing[0].progress or 0.0),
        )
    return wording.say(
        "What was made of {n} films so far will be deleted. Your original files are not touched.", n=len(losing)
    )


def toggle_action(row: JobRow) -> JobAction | None:
    """Return what the space bar does to a job: pause, resume or retry, whichever makes sense."""
    for action in (JobAction.PAUSE, JobAction.RESUME, JobAction.RETRY):
        if action in row.actions:
            return action
    return None


def present_film(film: FilmSnapshot, wording: Wording, *, now_ms: int, progress: float | None = None) -> FilmRow:
    """Return the poster of ``film``; ``progress`` is its job's when that is newer."""
    title = clean_line(film.title)
    share = progress if progress is not None else film.progress
    is_making = film.state in {"making", "partial"}
    size = format_size(film.size_bytes) if film.size_bytes else ""
    meta = " · ".join(part for part in (_quality(film), size) if part)
    lines = [title, meta, *(clean_line(warning) for warning in film.warnings)]
    return FilmRow(
        key=film.media_id,
        title=title,
        clock=format_clock(film.duration_s),
        meta=meta,
        badge=_film_badge(film, share, wording, now_ms),
        progress=share if is_making else None,
        has_poster=film.has_poster,
        initials=initials_of(title),
        hue=hue_of(title),
        actions=_film_actions(film),
        tooltip="\n".join(line for line in lines if line),
    )


def _film_actions(film: FilmSnapshot) -> tuple[FilmAction, ...]:
    match film.state:
        case "trashed":
            return FilmAction.DETAILS, FilmAction.RESTORE, FilmAction.DELETE
        case "ready":
            return FilmAction.PLAY, FilmAction.EXPORT, FilmAction.DETAILS, FilmAction.TRASH
        case _:
            return FilmAction.PLAY, FilmAction.DETAILS, FilmAction.TRASH


def _film_badge(film: FilmSnapshot, share: float | None, wording: Wording, now_ms: int) -> str:
    match film.state:
        case "making" if share is not None:
            return wording.say("being made {share}", share=format_percent(share))
        case "making":
            return wording.say("being made")
        case "partial":
            return wording.say("more qualities {share}", share=format_percent(share or 0.0))
        case "trashed":
            gone_ms = 0 if film.trashed_at_ms is None else max(0, now_ms - film.trashed_at_ms)
            days = max(0, TRASH_DAYS - gone_ms // _DAY_MS)
            return wording.count(days, "kept {n} more day", "kept {n} more days")
        case _:
            return wording.count(len(film.warnings), "{n} warning", "{n} warnings") if film.warnings else ""


def _quality(film: FilmSnapshot) -> str:
    sides = [min(rendition.width, rendition.height) for rendition in film.renditions]
    return f"{max(sides)}p" if sides else ""


def initials_of(title: str) -> str:
    """Return one or two letters that stand for ``title`` on its place holder."""
    words = ["".join(letter for letter in word if letter.isalnum()) for word in title.split()]
    return "".join(word[0].upper() for word in words if word)[:2]


def hue_of(title: str) -> int:
    """Return a colour angle in degrees that is always the same for ``title``."""
    return int.from_bytes(hashlib.sha256(title.encode("utf-8", "replace")).digest()[:2], "big") % 360


class LibraryBoard:
    """Films as they are known, with the progress of the jobs that still make them; keeps rows that did not change."""

    def __init__(self, wording: Wording) -> None:
        self._wording = wording
        self._films: dict[str, FilmSnapshot] = {}
        self._progress: dict[str, float] = {}
        self._rows: dict[str, FilmRow] = {}

    @property
    def films(self) -> Mapping[str, FilmSnapshot]:
        """All known films by media id."""
        return self._films

    def put_all(self, films: Iterable[FilmSnapshot]) -> None:
        """Take over the whole library."""
        self._films = {film.media_id: film for film in films}
        self._rows.clear()

    def follow(self, jobs: Iterable[JobSnapshot]) -> bool:
        """Take the progress of unfinished jobs for the films that they make; return whether a film's changed."""
        progress = {
            job.media_id: job.progress
            for job in jobs
            if job.state not in _FINISHED and job.progress is not None and job.media_id in self._films
        }
        differing = {key for key, _share in progress.items() ^ self._progress.items()}
        self._progress = progress
        for media_id in differing:
            self._rows.pop(media_id, None)
        return bool(differing)

    def rows(self, *, now_ms: int, search: str = "") -> list[FilmRow]:
        """Return the posters, newest first, of the films whose title contains all words of ``search``."""
        words = search.casefold().split()
        chosen = [film for film in self._films.values() if all(word in film.title.casefold() for word in words)]
        chosen.sort(key=lambda film: (-film.added_at_ms, film.media_id))
        return [self._row(film, now_ms) for film in chosen]

    def _row(self, film: FilmSnapshot, now_ms: int) -> FilmRow:
        row = self._rows.get(film.media_id)
        if row is None:
            progress = self._progress.get(film.media_id)
            row = self._rows[film.media_id] = present_film(film, self._wording, now_ms=now_ms, progress=progress)
        return row


class AddTally(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a batch of paths so far."""

    sent: int = 0
    added: int = 0
    already: int = 0
    refused: tuple[str, ...] = ()
    is_over: bool = False
    """All paths are known and answered."""

    @property
    def answered(self) -> int:
        """How many paths have been answered."""
        return self.added + self.already + len(self.refused)

    def with_result(self, result: AddResult) -> AddTally:
        """Return the tally after the engine answered for a path."""
        if result.error is not None or result.job_id is None:
            info = result.error or ErrorInfo(code=str(ErrorCode.INTERNAL), message=result.state)
            return self.with_refusal(result.path, info)
        if result.already:
            return msgspec.structs.replace(self, already=self.already + 1)
        return msgspec.structs.replace(self, added=self.added + 1)

    def with_refusal(self, path: str, info: ErrorInfo) -> AddTally:
        """Return the tally after a path was refused; the name is what stands after the last separator."""
        name = clean_line(path.replace("\\", "/").rstrip("/").rpartition("/")[2] or path)
        message = clean_line(info.message)
        line = f"{name}: {message}" if name and name not in message else message
        return msgspec.structs.replace(self, refused=(*self.refused, line))


ADD_KEY = "add"
_SHOWN_REFUSALS = 200


def present_tally(tally: AddTally, wording: Wording) -> Notice | None:
    """Return what to say about a batch, or None when all went well and is over: the queue shows it."""
    if not tally.is_over:
        return Notice(
            key=ADD_KEY,
            tone=Tone.ERROR if tally.refused else Tone.WORKING,
            text=wording.say("Adding {done} of {all} files…", done=tally.answered, all=tally.sent)
            if tally.sent > 1
            else wording.say("Looking for films…"),
            is_dismissible=False,
        )
    if tally.refused:
        return Notice(
            key=ADD_KEY, tone=Tone.ERROR, text=_refusal_text(tally, wording), details=_refusal_details(tally, wording)
        )
    if tally.answered == 0:
        return Notice(key=ADD_KEY, tone=Tone.WARNING, text=wording.say("There are no videos in there."))
    if tally.added == 0:
        text = wording.count(tally.already, "This film is already here.", "These {n} films are already here.")
        return Notice(key=ADD_KEY, tone=Tone.DONE, text=text)
    return None


def _refusal_text(tally: AddTally, wording: Wording) -> str:
    if tally.answered == 1:
        return tally.refused[0]
    if len(tally.refused) == 1:
        return wording.say("1 of {all} files was not added:", all=tally.answered)
    return wording.say("{n} of {all} files were not added:", n=len(tally.refused), all=tally.answered)


def _refusal_details(tally: AddTally, wording: Wording) -> tuple[str, ...]:
    if tally.answered <= 1:
        return ()
    more = len(tally.refused) - _SHOWN_REFUSALS
    if more <= 0:
        return tally.refused
    return (*tally.refused[:_SHOWN_REFUSALS], wording.count(more, "… and {n} more", "… and {n} more"))


TROUBLE_KEY = "trouble"


def present_status(status: EngineStatus, wording: Wording) -> Notice | None:
    """Return the banner for what holds the engine up, or None."""
    if status.trouble is not None:
        return Notice(key=TROUBLE_KEY, tone=Tone.ERROR, text=clean_line(status.trouble.message), is_dismissible=False)
    if not status.working:
        return Notice(
            key=TROUBLE_KEY,
            tone=Tone.WARNING,
            text=wording.say("This device does no work: its worker is switched off. Films still play."),
            is_dismissible=False,
        )
    return None


def film_details(film: FilmSnapshot, wording: Wording) -> tuple[Detail, ...]:
    """Return what there is to know about a film."""
    say = wording.say
    pairs: list[tuple[str, str]] = [
        (say("Title"), film.title),
        (say("Duration"), format_clock(film.duration_s)),
        (say("Size"), format_size(film.size_bytes)),
        (say("Added"), format_moment(film.added_at_ms)),
    ]
    pairs += [
        (say("Picture") if index == 0 else "", _rendition_line(width=one.width, height=one.height, rate=one.average))
        for index, one in enumerate(film.renditions)
    ]
    pairs += [
        (say("Sound") if index == 0 else "", " · ".join(part for part in (one.label, one.language) if part))
        for index, one in enumerate(film.audio)
    ]
    pairs += [(say("Warnings") if index == 0 else "", warning) for index, warning in enumerate(film.warnings)]
    pairs += [(say("Copies"), str(film.copies)), (say("Media id"), film.media_id)]
    return tuple(Detail(label=label, value=clean_line(value)) for label, value in pairs)


def _rendition_line(*, width: int, height: int, rate: int | None) -> str:
    size = f"{width} \N{MULTIPLICATION SIGN} {height}"
    return f"{size} · {rate / 1_000_000:.1f} Mbit/s" if rate else size


def job_details(job: JobSnapshot, wording: Wording) -> tuple[Detail, ...]:
    """Return what there is to know about a job; its tasks when the snapshot holds them."""
    say = wording.say
    row = present_job(job, wording)
    pairs: list[tuple[str, str]] = [
        (say("Title"), job.title),
        (say("State"), row.state_text),
        (say("Source"), job.source or say("on another device")),
        (say("Size"), format_size(job.size_bytes)),
        (say("Profile"), job.profile),
        (say("Added"), format_moment(job.added_at_ms)),
    ]
    if job.error is not None:
        pairs.append((say("Error code"), job.error.code))
    pairs += [(say("Warnings") if index == 0 else "", warning) for index, warning in enumerate(job.warnings)]
    pairs += [(say("Tasks"), _task_counts(job))] if job.tasks else []
    pairs.append((say("Job id"), job.id))
    return tuple(Detail(label=label, value=clean_line(value)) for label, value in pairs)


def _task_counts(job: JobSnapshot) -> str:
    states = [task.state for task in job.tasks]
    return " · ".join(f"{states.count(state)} {state.replace('_', ' ')}" for state in dict.fromkeys(states))


def format_moment(at_ms: int) -> str:
    """Return a moment (milliseconds since 1970) as local date and time."""
    return _format_moment(at_ms, "%Y-%m-%d %H:%M")


def format_day(at_ms: int) -> str:
    """Return the local date of a moment (milliseconds since 1970)."""
    return _format_moment(at_ms, "%Y-%m-%d")


def _format_moment(at_ms: int, form: str) -> str:
    try:
        return datetime.fromtimestamp(at_ms / 1000).astimezone().strftime(form)
    except (ValueError, OverflowError, OSError):
        return "–"  # another device's clock said so


class ThumbnailPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a thumbnail lies: the number of the sheet, and a rectangle in its pixels."""

    sheet: int
    x: int
    y: int
    width: int
    height: int


def thumbnail_at(layout: SheetLayout, position_s: float) -> ThumbnailPlace | None:
    """Return the thumbnail that shows ``position_s``, or None when the layout holds none."""
    per_sheet = layout.columns * layout.rows
    if layout.count < 1 or per_sheet < 1 or layout.interval_s <= 0:
        return None
    index = min(layout.count - 1, max(0, int(position_s / layout.interval_s)))
    sheet, place = divmod(index, per_sheet)
    row, column = divmod(place, layout.columns)
    return ThumbnailPlace(
        sheet=sheet,
        x=column * layout.tile_width,
        y=row * layout.tile_height,
        width=layout.tile_width,
        height=layout.tile_height,
    )


def playback_error_text(kind: str, wording: Wording) -> str:
    """Return what a player's error ``kind`` (Qt's word for it) means and what to do."""
    match kind:
        case "NetworkError" | "ResourceError":
            return wording.say("The film could not be fetched. It may be paused or its file may be away. Try again.")
        case "FormatError":
            return wording.say("This system's player cannot decode the film. Export it and try another player.")
        case "AccessDeniedError":
            return wording.say("The player session is over. Try again to open a new one.")
        case _:
            return wording.say("The player stopped. Try again.")


def changed_text(action: JobAction, failures: Sequence[ErrorInfo], wording: Wording) -> str:
    """Return what to say when ``action`` was refused for one or more jobs."""
    if len(failures) == 1:
        return clean_line(failures[0].message)
    verbs: dict[JobAction, Callable[[], str]] = {
        JobAction.PAUSE: lambda: wording.say("{n} jobs could not be paused:", n=len(failures)),
        JobAction.RESUME: lambda: wording.say("{n} jobs could not be resumed:", n=len(failures)),
        JobAction.RETRY: lambda: wording.say("{n} jobs could not be tried again:", n=len(failures)),
        JobAction.CANCEL: lambda: wording.say("{n} jobs could not be cancelled:", n=len(failures)),
        JobAction.REMOVE: lambda: wording.say("{n} jobs could not be removed:", n=len(failures)),
    }
    return verbs[action]()
