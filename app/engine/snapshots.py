"""From rows and what runs to what is shown: jobs, tasks and films as snapshots. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from app.core.encoding import decode_canonical
from app.core.errors import ErrorInfo
from app.engine.api import (
    ChapterSnapshot,
    CueSnapshot,
    FilmSnapshot,
    JobSnapshot,
    RenditionSnapshot,
    TaskSnapshot,
    TextSnapshot,
    TrackSnapshot,
)
from app.engine.publishing import published_plan
from app.media.film import Film, PublishStage
from app.media.plan import Plan, TextTrack, ticks_to_s
from app.media.text import CueLine, parse_webvtt, plain_text
from app.queue.machine import (
    JobState,
    JobStatus,
    accepted_plan,
    attempts,
    index_task_id,
    job_status,
    outcome_counts,
    published_task,
    task_error,
    task_state,
    tasks_that_count,
)
from app.queue.needs import Weights
from app.queue.row_table import Glance
from app.queue.rows import JobRow, TaskRow
from app.queue.store import JobStore, LibraryEntry
from app.queue.targets import decode_index_result

_ACTIONS: Mapping[JobState, tuple[str, ...]] = {
    JobState.QUEUED: ("pause", "cancel", "remove"),
    JobState.PROCESSING: ("pause", "cancel", "remove"),
    JobState.PAUSED: ("resume", "cancel", "remove"),
    JobState.DONE: ("remove",),
    JobState.ERROR: ("retry", "cancel", "remove"),
    JobState.CANCELLED: ("retry", "remove"),
}
_LAST_MILLI = 999
"""What is left for publishing."""


class LiveTask(msgspec.Struct, frozen=True, kw_only=True):
    """How far a task is that runs here."""

    milli: int
    rate_x: float | None


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """A job with all that is shown of it, read at one moment."""

    job: JobRow
    status: JobStatus
    plan: Plan | None
    film: Film | None
    done_milli: int
    """By completed tasks alone."""
    whole: int
    """Weight of all tasks."""
    left: Mapping[str, int]
    """Weight of each task that is not completed."""


def read_job(store: JobStore, job: JobRow) -> JobView:
    """Read a job's view (on the queue's thread)."""
    glance = store.glance(job)
    status = job_status(job, glance.telling)
    published = published_task(job, glance.telling)
    film = decode_canonical(published[1].outcome.value, Film) if published and published[1].outcome else None
    index = next((task for task in glance.telling if task.id == index_task_id(job)), None)
    name = accepted_plan(job, index)
    plan = film.plan if film is not None else None
    if plan is None and name and index is not None and index.outcome is not None:
        plan = decode_index_result(index.outcome.value)
    whole, left = (0, {}) if plan is None or status.state is JobState.DONE else _weights(job, glance, plan, name)
    done = whole - sum(left.values())
    return JobView(
        job=job,
        status=status,
        plan=plan,
        film=film,
        done_milli=1000 if status.state is JobState.DONE else done * _LAST_MILLI // max(1, whole),
        whole=whole,
        left=left,
    )


def _weights(job: JobRow, glance: Glance, plan: Plan, name: str) -> tuple[int, dict[str, int]]:
    """Return the weight of all tasks of the plan with hash ``name``, and that of each which is not completed."""
    weights = Weights(plan, name)
    whole, left = 0, {}
    for task in tasks_that_count(job, glance.telling):
        weight = weights.of(task.target)
        whole += weight
        if not outcome_counts(job, task):
            left[task.id] = weight
    for one in glance.plain:
        weight = weights.of(one.target)
        whole += weight
        if not one.completed:
            left[one.id] = weight
    return whole, {task_id: weight for task_id, weight in left.items() if weight}


def running_milli(view: JobView, live: Mapping[str, LiveTask]) -> int:
    """Return the whole job's progress in thousandths, what runs now included."""
    if view.plan is None or view.status.state is JobState.DONE:
        return view.done_milli
    extra = sum(view.left.get(task_id, 0) * one.milli // 1000 for task_id, one in live.items())
    return min(_LAST_MILLI, view.done_milli + extra * _LAST_MILLI // max(1, view.whole))


def job_snapshot(
    view: JobView,
    *,
    milli: int,
    rate_x: float | None,
    reason: str | None,
    source: str | None,
    live: Mapping[str, LiveTask],
    tasks: Iterable[TaskRow] = (),
) -> JobSnapshot:
    """Return what is shown of a job; ``tasks`` are those to be shown with it."""
    job, status, plan = view.job, view.status, view.plan
    progress = None if plan is None and status.state is not JobState.DONE else milli / 1000
    duration = ticks_to_s(plan.duration_ticks) if plan is not None else None
    return JobSnapshot(
        id=job.id,
        media_id=job.media_id,
        title=title_of(job),
        kind=job.kind,
        profile=job.profile,
        state=str(status.state),
        reason=status.reason or (reason if status.state is JobState.QUEUED else None),
        progress=progress,
        rate_x=rate_x,
        eta_s=_eta_s(duration, progress, rate_x),
        error=status.error,
        warnings=_warnings(view),
        added_at_ms=job.added.at_ms,
        size_bytes=job.size_bytes,
        duration_s=duration,
        source=source,
        playable=plan is not None and not job.trashed.value and _is_playable(view),
        actions=_ACTIONS[status.state],
        tasks=tuple(_task_snapshot(job, task, live) for task in tasks),
    )


def _is_playable(view: JobView) -> bool:
    state = view.status.state
    return view.film is not None or state in {JobState.QUEUED, JobState.PROCESSING, JobState.PAUSED}


def _eta_s(duration: float | None, progress: float | None, rate_x: float | None) -> float | None:
    if duration is None or progress is None or not rate_x:
        return None
    return round(duration * (1 - progress) / rate_x, 1)


def _warnings(view: JobView) -> tuple[str, ...]:
    known = view.film.warnings if view.film is not None else view.plan.warnings if view.plan is not None else ()
    return tuple(dict.fromkeys((*known, *view.status.warnings)))


def _task_snapshot(job: JobRow, task: TaskRow, live: Mapping[str, LiveTask]) -> TaskSnapshot:
    error = task_error(job, task)
    milli = live[task.id].milli if task.id in live else None
    return TaskSnapshot(
        id=task.id,
        kind=task.kind,
        target=task.target,
        state=str(task_state(job, task)),
        attempts=attempts(job, task),
        progress=milli / 1000 if milli is not None else None,
        error=ErrorInfo(code=error.code, message=error.message) if error is not None else None,
    )


def title_of(job: JobRow) -> str:
    """Return a film's title: the file's name without its ending."""
    name = job.name
    stem, dot, ending = name.rpartition(".")
    return stem if dot and stem.strip() and 0 < len(ending) <= 5 else name


def film_snapshot(entry: LibraryEntry, *, state: JobState, progress: float | None) -> FilmSnapshot:
    """Return what the library shows of a film, finished or in the making."""
    job = entry.job
    if entry.stage is None:
        film, plan, stage = None, decode_index_result(entry.outcome.value), "making"
    else:
        film = decode_canonical(entry.outcome.value, Film)
        plan = published_plan(film)
        stage = "ready" if entry.stage is PublishStage.FULL else "partial"
    rates = {one.name: one for one in film.rates} if film is not None else {}
    return FilmSnapshot(
        media_id=job.media_id,
        job_id=job.id,
        title=title_of(job),
        state="trashed" if entry.trashed else stage,
        duration_s=ticks_to_s(plan.duration_ticks),
        size_bytes=film.size_bytes if film is not None else 0,
        added_at_ms=job.added.at_ms,
        trashed_at_ms=job.trashed.stamp if entry.trashed and job.trashed.value else None,
        renditions=tuple(
            RenditionSnapshot(
                name=one.name,
                width=one.width,
                height=one.height,
                kind=str(one.kind),
                codecs=one.codecs,
                peak=rates[one.name].peak if one.name in rates else None,
                average=rates[one.name].average if one.name in rates else None,
            )
            for one in plan.renditions
        ),
        audio=track_snapshots(plan),
        text=text_snapshots(_texts_of(film, plan)),
        chapters=chapter_snapshots(plan),
        warnings=film.warnings if film is not None else plan.warnings,
        has_poster=film is not None and film.stills is not None,
        progress=None if state is JobState.DONE else progress,
    )


def track_snapshots(plan: Plan) -> tuple[TrackSnapshot, ...]:
    """Return the sound tracks of a plan."""
    return tuple(TrackSnapshot(name=one.name, label=one.label, language=one.language) for one in plan.audio)


def _texts_of(film: Film | None, plan: Plan) -> tuple[TextTrack, ...]:
    """Return the text tracks that are there, or while the film is made, are planned."""
    if film is None:
        return plan.text
    made = {one.track for one in film.text}
    return tuple(one for one in plan.text if one.name in made)


def text_snapshots(tracks: Iterable[TextTrack]) -> tuple[TextSnapshot, ...]:
    """Return text tracks as they are shown."""
    return tuple(
        TextSnapshot(
            name=one.name,
            label=one.label,
            language=one.language,
            is_default=one.is_default,
            is_forced=one.is_forced,
            is_hearing_impaired=one.is_hearing_impaired,
        )
        for one in tracks
    )


def cue_snapshots(webvtt: bytes) -> tuple[CueSnapshot, ...]:
    """Return the cues of a text track, one after another."""
    return tuple(
        CueSnapshot(start_s=ticks_to_s(one.start_ticks), end_s=ticks_to_s(one.end_ticks), text=plain_text(one.text))
        for one in CueLine(parse_webvtt(webvtt.decode())).flattened()
    )


def chapter_snapshots(plan: Plan) -> tuple[ChapterSnapshot, ...]:
    """Return the chapters of a plan."""
    return tuple(
        ChapterSnapshot(start_s=ticks_to_s(one.start_ticks), end_s=ticks_to_s(one.end_ticks), title=one.title)
        for one in plan.chapters
    )


def is_in_library(entry: LibraryEntry, state: JobState) -> bool:
    """Whether a film is shown: published, or on its way."""
    return entry.stage is not None or state in {JobState.QUEUED, JobState.PROCESSING, JobState.PAUSED}


def live_tasks(running: Iterable[tuple[str, int, float | None]]) -> dict[str, LiveTask]:
    """Return (task id, thousandths, rate) triples as a mapping."""
    return {task_id: LiveTask(milli=milli, rate_x=rate) for task_id, milli, rate in running}
