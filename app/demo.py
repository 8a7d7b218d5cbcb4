"""The demo: a film is added, transcoded, kept, and played; in the window where there is a screen, else headless.

The headless check is a player's walk through the gateway: playlists are read, every segment of every rendition and
track is fetched, and a media child decodes them to their ends.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from app.core.errors import ErrorCode, ExpectedError
from app.engine import api
from app.transcode.messages import StreamFacts
from app.transcode.supervisor import Supervisor

if TYPE_CHECKING:
    import aiohttp

SAMPLE_SECONDS = 15
_EDGE_S = 0.1
_URI = re.compile(r'URI="([^"]+)"')


class PlayedStream(msgspec.Struct, frozen=True, kw_only=True):
    """One rendition or track, as it came through the gateway."""

    name: str
    frames: int
    duration_s: float
    detail: str


class PlayedFilm(msgspec.Struct, frozen=True, kw_only=True):
    """What the headless check verified."""

    url: str
    duration_s: float
    renditions: tuple[PlayedStream, ...]
    tracks: tuple[PlayedStream, ...]


def has_screen() -> bool:
    """Whether a window can be shown."""
    if sys.platform in {"win32", "darwin"}:
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


async def make_sample_film(path: Path) -> Path:
    """Return our own short film at ``path``, made if it is not there yet."""
    if await asyncio.to_thread(path.exists):
        return path
    part = path.with_suffix(".part")
    fd = os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        await Supervisor().make_sample(fd, seconds=SAMPLE_SECONDS)
    finally:
        os.close(fd)
    part.replace(path)
    return path


async def play_headless(engine: api.EngineApi, media_id: str) -> PlayedFilm:
    """Play all of a film through the gateway; raises ``ExpectedError`` result-lost when it is not as it should be."""
    import aiohttp  # noqa: PLC0415 (a quarter of a second that no other command needs)

    player = await engine.call(api.OpenPlayer(media_id=media_id))
    try:
        async with aiohttp.ClientSession() as session:
            master = await _text(session, player.master)
            root = player.master.rsplit("/", 1)[0] + "/"
            renditions = re.findall(r"^#EXT-X-STREAM-INF:.*\n([^#\n]+)$", master, re.MULTILINE)
            tracks = [uri for line in master.splitlines() if "TYPE=AUDIO" in line for uri in _URI.findall(line)]
            streams = [await _stream(session, root, uri) for uri in (*renditions, *tracks)]
            facts = await _decode(streams)
    finally:
        await engine.call(api.ClosePlayer(token=player.token))
    played = [_checked(uri, one, player.duration_s) for uri, one in zip((*renditions, *tracks), facts, strict=True)]
    return PlayedFilm(
        url=player.master,
        duration_s=player.duration_s,
        renditions=tuple(played[: len(renditions)]),
        tracks=tuple(played[len(renditions) :]),
    )


async def _text(session: aiohttp.ClientSession, url: str) -> str:
    async with session.get(url) as answer:
        answer.raise_for_status()
        return await answer.text()


async def _stream(session: aiohttp.ClientSession, root: str, uri: str) -> list[bytes]:
    """Fetch a media playlist and everything that it names, in order."""
    url = root + uri
    playlist = await _text(session, url)
    folder = url.rsplit("/", 1)[0] + "/"
    names = [*_URI.findall(playlist), *(line for line in playlist.splitlines() if line and not line.startswith("#"))]
    pieces = []
    for name in names:
        async with session.get(folder + name) as answer:
            answer.raise_for_status()
            pieces.append(await answer.read())
    return pieces


async def _decode(streams: Sequence[list[bytes]]) -> tuple[StreamFacts, ...]:
    pipes = [os.pipe() for _ in streams]
    writers = [
        threading.Thread(target=_write, args=(write_end, pieces), daemon=True)
        for (_, write_end), pieces in zip(pipes, streams, strict=True)
    ]
    for writer in writers:
        writer.start()
    try:
        return await Supervisor().play_through([read_end for read_end, _ in pipes])
    finally:
        for read_end, _ in pipes:
            os.close(read_end)
        for writer in writers:
            await asyncio.to_thread(writer.join)


def _write(fd: int, pieces: list[bytes]) -> None:
    try:
        with os.fdopen(fd, "wb") as pipe:
            for piece in pieces:
                pipe.write(piece)
    except BrokenPipeError:
        pass


def _checked(uri: str, facts: StreamFacts, duration_s: float) -> PlayedStream:
    name = uri.split("/")[-2] if "/" in uri else uri.rsplit(".", 1)[0]
    if facts.errors or not facts.frames or abs(facts.end_s - duration_s) > _EDGE_S or facts.first_s > _EDGE_S:
        raise ExpectedError(
            ErrorCode.RESULT_LOST,
            f"{name} does not play as it should: {facts.frames} frames from {facts.first_s:.2f} s to {facts.end_s:.2f} "
            f"of {duration_s:.2f} s, {facts.errors} errors. Run “hearthreel verify” and retry the job.",
        )
    return PlayedStream(name=name, frames=facts.frames, duration_s=round(facts.end_s, 3), detail=facts.detail)
