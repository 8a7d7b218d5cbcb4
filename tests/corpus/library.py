"""A library of its own for one run: films go in through the engine's public commands and come out over HTTP."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import msgspec

from app.core.errors import ExpectedError
from app.core.paths import DataDir
from app.engine import api
from app.engine.local import LocalEngine
from tests.corpus.playlists import FetchedFilm, fetch_film

_OVER = {"done", "error", "cancelled"}


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a file."""

    code: str
    """``film``, or the code it was refused or failed with."""
    message: str = ""
    warnings: tuple[str, ...] = ()
    film: FetchedFilm | None = None


class Library:
    """An engine and the films that are looked at now."""

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine
        self._users: dict[str, int] = {}

    @classmethod
    async def open(cls, folder: Path) -> Library:
        """Start an engine on an empty data directory."""
        folder.mkdir(parents=True)  # noqa: ASYNC240 (nothing else runs yet)
        return cls(await LocalEngine.start(DataDir(root=folder), work=True))

    async def close(self) -> None:
        """Stop the engine."""
        await self._engine.close()

    async def make(self, path: Path, folder: Path, profile: str | None) -> Made:
        """Add a file (absolute), wait for its film and fetch it into ``folder``; it leaves the library again."""
        try:
            added = await self._engine.call(api.AddPath(path=os.fsencode(path), profile=profile))
        except ExpectedError as error:
            return Made(code=str(error.code), message=error.message)
        if added.error is not None or added.job_id is None or added.media_id is None:
            error_info = added.error
            return Made(
                code=error_info.code if error_info else "refused", message=error_info.message if error_info else ""
            )
        self._users[added.media_id] = self._users.get(added.media_id, 0) + 1
        try:
            return await self._take(added.job_id, added.media_id, folder)
        finally:
            self._users[added.media_id] -= 1
            if not self._users[added.media_id]:
                await self._forget(added.job_id, added.media_id)

    async def _take(self, job_id: str, media_id: str, folder: Path) -> Made:
        await self._wait(job_id)
        job = await self._engine.call(api.GetJob(job_id=job_id))
        if job.state != "done":
            return Made(
                code=job.error.code if job.error else job.state,
                message=job.error.message if job.error else job.reason or "",
            )
        film = await self._engine.call(api.GetFilm(media_id=media_id))
        player = await self._engine.call(api.OpenPlayer(media_id=media_id))
        try:
            fetched = await asyncio.to_thread(fetch_film, player.master, folder)
        finally:
            await self._engine.call(api.ClosePlayer(token=player.token))
        return Made(code="film", warnings=(*job.warnings, *film.warnings), film=fetched)

    async def _wait(self, job_id: str) -> None:
        """Wait until the job is over."""
        async for changed in self._engine.events():
            if any(job.id == job_id and job.state in _OVER for job in changed.jobs):
                return

    async def _forget(self, job_id: str, media_id: str) -> None:
        try:
            await self._engine.call(api.RemoveFilm(media_id=media_id, now=True))
        except ExpectedError:
            await self._engine.call(api.ChangeJob(job_id=job_id, action="remove"))
