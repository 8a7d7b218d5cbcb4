"""Adding a file: looked at for at most 10 s, then a durable row; what can never be a film leaves no row behind."""

from __future__ import annotations

import asyncio
import os

from app.core.errors import ErrorCode, ExpectedError
from app.core.settings import SETTINGS
from app.engine.api import AddPath, AddResult
from app.engine.kernel import Kernel
from app.queue.machine import JobState, job_status
from app.queue.rows import JobParams, JobRow
from app.queue.store import JobStore
from app.storage.source import (
    SourceStat,
    display_name,
    display_path,
    fingerprint,
    is_still_changing,
    look_at,
    still_changing,
)
from app.storage.source_ledger import KnownSource

FRESH_S = 5.0
"""A file that was written to this recently is looked at twice."""
SECOND_LOOK_S = 1.0
_ADDING = "adding:"
_MAYBE_LATER = {ErrorCode.WORKER_STALLED, ErrorCode.WORKER_CRASHED, ErrorCode.OUT_OF_MEMORY, ErrorCode.INTERNAL}
"""Errors of the probe that say nothing about the file: the job may find out."""


async def add_path(kernel: Kernel, command: AddPath) -> AddResult:
    """Add one file; a refused one is told by its error, not raised."""
    shown = display_path(command.path)
    try:
        profile = _known_profile(command.profile or str(kernel.settings.get("profile")))
        return await _add(kernel, command.path, profile)
    except ExpectedError as error:
        if error.code in {ErrorCode.BAD_SETTING, ErrorCode.DATABASE_DAMAGED}:
            raise
        return AddResult(path=shown, job_id=None, media_id=None, state="refused", error=error.info)


def _known_profile(name: str) -> str:
    try:
        return str(SETTINGS["profile"].parse(name))
    except ValueError as error:
        raise ExpectedError(ErrorCode.BAD_SETTING, f"There is no profile “{name}”; choose {error}.") from error


async def _add(kernel: Kernel, path: bytes, profile: str) -> AddResult:
    absolute = os.path.abspath(path)  # noqa: PTH100, ASYNC240 (bytes paths; reads no disk)
    seen = await _settled_look(kernel, absolute)
    try:
        await kernel.supervisor.probe(absolute)
    except ExpectedError as error:
        if error.code not in _MAYBE_LATER:
            raise
    name = await kernel.store(lambda _storage: fingerprint(absolute))

    def put(store: JobStore) -> tuple[JobRow, JobState, bool]:
        known = store.find_live_job(fingerprint=name, profile=profile)
        if known is None:
            known = store.add_job(
                kind="hls",
                params=JobParams(profile=profile),
                fingerprint=name,
                size_bytes=seen.size_bytes,
                name=display_name(absolute),
                now_ms=kernel.clock.wall_ms(),
            )
            return known, JobState.QUEUED, False
        if known.trashed.value:
            known = store.restore_job(known.id)
        state = job_status(known, store.tasks(known.id)).state
        return known, state, True

    await _remember_before(kernel, name, absolute, seen)
    job, state, already = await kernel.change(put)
    source = KnownSource(job_id=job.id, fingerprint=name, path=absolute, seen=seen)
    await kernel.store(lambda storage: storage.sources.remember(source))
    await kernel.store(lambda storage: storage.sources.forget(_ADDING + name))
    if already and state in {JobState.ERROR, JobState.CANCELLED}:
        job = await kernel.change(lambda store: store.retry_job(job.id))
        state = JobState.QUEUED
    kernel.changed.set()
    return AddResult(
        path=display_path(absolute), job_id=job.id, media_id=job.media_id, state=str(state), already=already
    )


async def _remember_before(kernel: Kernel, name: str, path: bytes, seen: SourceStat) -> None:
    """Note where the content is before the job's row exists, so that no crash leaves a job without its source."""
    source = KnownSource(job_id=_ADDING + name, fingerprint=name, path=path, seen=seen)
    await kernel.store(lambda storage: storage.sources.remember(source))


async def _settled_look(kernel: Kernel, path: bytes) -> SourceStat:
    """Look at a file, twice when it was written to just now; raises still-changing when it grows."""
    first = await kernel.store(lambda _storage: look_at(path))
    age_s = kernel.clock.wall_ms() / 1000 - first.mtime_ns / 1e9
    if abs(age_s) > FRESH_S:
        return first
    await asyncio.sleep(SECOND_LOOK_S)
    second = await kernel.store(lambda _storage: look_at(path))
    if is_still_changing(first, second):
        raise still_changing(path)
    return second
