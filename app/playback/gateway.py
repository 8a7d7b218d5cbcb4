"""The loopback HTTP server that players read films from: sessions, and which answer a request gets.

It listens on 127.0.0.1 only. A player's token is the first part of every path; without one there is nothing to see.
A web page that points a name of its own at 127.0.0.1 (DNS rebinding) is shut out by the Host header.
"""

from __future__ import annotations

import asyncio
import math
import re
import secrets

import msgspec
from aiohttp import web

from app.core.errors import ErrorCode, ExpectedError
from app.media.source import TICKS_PER_S
from app.playback.addresses import (
    AUTO_MASTER_PLAYLIST,
    MASTER_PLAYLIST,
    SHEETS,
    Address,
    MasterAddress,
    MediaPlaylistAddress,
    PieceAddress,
    StillAddress,
    parse_address,
)
from app.playback.answers import (
    AUDIO_TYPE,
    PICTURE_TYPE,
    TEXT_TYPE,
    VIDEO_TYPE,
    WAITING_FOR_MEDIA,
    WAITING_FOR_TEXT,
    answer_bytes,
    answer_error,
    answer_head_of_missing,
    answer_later,
    answer_playlist,
    refuse,
)
from app.playback.playlists import format_auto_master, format_auto_media, format_master, format_media
from app.playback.reader import PieceReader, check_piece, check_plan
from app.playback.session import PlayerSession
from app.playback.source import INIT_NUMBER, FilmLayout, FilmSource

LOOPBACK = "127.0.0.1"
_LOOPBACK_HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?", re.ASCII | re.IGNORECASE)
_TOKEN_BYTES = 32
_CLOSE_S = 0.5


class GatewayTimings(msgspec.Struct, frozen=True, kw_only=True):
    """How long things take; tests take less."""

    beat_s: float = 1.0
    """Between two free boxes."""
    limit_s: float = 60.0
    """After which a browser's wait is closed so that it asks again.

    Players in a page give a whole request up after a while (hls.js after 120 s) and ask again when it is cut. Players
    built on FFmpeg (QMediaPlayer, mpv, ffmpeg) have no such limit, and a cut makes them go on with the *next* segment:
    they wait as long as they like.
    """


class PlayerAddresses(msgspec.Struct, frozen=True, kw_only=True):
    """Where a player finds its film."""

    token: str
    master: str
    auto: str
    sheets: str | None
    """Prefix of the trickplay sheets (``sheets + "0.jpg"``), when there are any."""


class Gateway:
    """One server for all players of this process. Everything runs on the event loop that called ``start``."""

    def __init__(self, source: FilmSource, *, timings: GatewayTimings | None = None) -> None:
        self._source = source
        self._reader = PieceReader(source)
        self._timings = timings or GatewayTimings()
        self._sessions: dict[str, PlayerSession] = {}
        self._runner: web.ServerRunner | None = None
        self.port = 0
        """Where it listens; 0 before ``start``."""

    async def start(self) -> None:
        """Listen on a free port of the loopback interface."""
        server = web.Server(self._handle, handler_cancellation=True, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=_CLOSE_S)
        await self._runner.setup()
        site = web.TCPSite(self._runner, LOOPBACK, 0)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def close(self) -> None:
        """End all sessions and stop listening, within a second."""
        for token in tuple(self._sessions):
            self.close_session(token)
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def open_session(self, media_id: str) -> PlayerAddresses:
        """Give a player a token for one film.

        Raises ``ExpectedError`` no-such-id, or not-done while the film has no plan yet.
        """
        layout = await self._source.layout(media_id)
        session = PlayerSession(token=secrets.token_urlsafe(_TOKEN_BYTES), media_id=media_id)
        self._sessions[session.token] = session
        root = f"http://{LOOPBACK}:{self.port}/{session.token}/"
        return PlayerAddresses(
            token=session.token,
            master=root + MASTER_PLAYLIST,
            auto=root + AUTO_MASTER_PLAYLIST,
            sheets=root + SHEETS if layout.has_stills else None,
        )

    def close_session(self, token: str) -> None:
        """Take a token back; its waiting requests are closed. Nothing happens when it is unknown."""
        session = self._sessions.pop(token, None)
        if session is not None:
            session.end()

    async def seek(self, token: str, position_ms: int) -> None:
        """Close what a player waits for, because it is about to seek to ``position_ms``.

        Raises ``ExpectedError`` no-such-id when the token is unknown.
        """
        session = self._sessions.get(token)
        if session is None:
            raise ExpectedError(ErrorCode.NO_SUCH_ID, "This player was closed; open the film again.")
        layout = await self._source.layout(session.media_id)
        target = layout.plan.segment_at(position_ms * TICKS_PER_S // 1000)
        session.seek(target, now=asyncio.get_running_loop().time())

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        token, _, path = request.path.removeprefix("/").partition("/")
        session, address = self._sessions.get(token), parse_address(path)
        refusal = _refusal(request)
        if refusal is not None:
            return refusal
        if session is None or address is None:
            return refuse(404, "There is nothing here.")
        if request.method not in {"GET", "HEAD"}:
            return refuse(405, "Only GET and HEAD are understood.", Allow="GET, HEAD")
        try:
            return await self._answer(request, session, address)
        except ExpectedError as error:
            return answer_error(error)

    async def _answer(self, request: web.BaseRequest, session: PlayerSession, address: Address) -> web.StreamResponse:
        if isinstance(address, StillAddress):
            picture = await self._source.still(session.media_id, address.kind, address.number)
            return answer_bytes(request, picture, PICTURE_TYPE)
        layout = await self._source.layout(session.media_id)
        match address:
            case MasterAddress():
                return answer_playlist(format_auto_master(layout) if address.is_auto else format_master(layout))
            case MediaPlaylistAddress(name=name, plan_hash=None):
                return answer_playlist(format_auto_media(layout))
            case MediaPlaylistAddress(name=name):
                check_plan(layout, address.plan_hash, name)
                return answer_playlist(format_media(layout, name))
            case PieceAddress():
                return await self._answer_piece(request, session, layout, address)

    async def _answer_piece(
        self, request: web.BaseRequest, session: PlayerSession, layout: FilmLayout, piece: PieceAddress
    ) -> web.StreamResponse:
        check_piece(layout, piece)
        content_type = _type_of(layout, piece)
        place = INIT_NUMBER if piece.is_text else piece.number  # a whole track: wanted wherever the player goes
        is_left_behind = session.is_left_behind(piece.name, place, now=asyncio.get_running_loop().time())
        is_made = await self._reader.is_made(session, layout, piece)
        if not is_made:
            if await self._source.is_paused(session.media_id):
                raise ExpectedError(ErrorCode.NOT_DONE, "This film is paused; resume its job to go on watching.")
            if request.method == "HEAD":
                return await answer_head_of_missing(request, content_type)
            if is_left_behind:
                raise ExpectedError(ErrorCode.NOT_DONE, "The player went elsewhere; this segment is not waited for.")
        fetch = asyncio.ensure_future(self._reader.read(session, layout, piece))
        session.begin_wait(fetch, place)
        try:
            return await self._answer_fetch(request, session, fetch, content_type, is_made=is_made)
        finally:
            fetch.cancel()

    async def _answer_fetch(
        self,
        request: web.BaseRequest,
        session: PlayerSession,
        fetch: asyncio.Future[bytes],
        content_type: str,
        *,
        is_made: bool,
    ) -> web.StreamResponse:
        """Answer with the length when the piece comes within a beat, as what is made nearly always does."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + (self._timings.limit_s if is_browser(request) else math.inf)
        if is_made:
            await asyncio.wait({fetch}, timeout=self._timings.beat_s)
        if fetch.cancelled():
            raise ExpectedError(ErrorCode.NOT_DONE, "The player went elsewhere; this segment is not waited for.")
        if fetch.done():
            return answer_bytes(request, fetch.result(), content_type)

        async def goes_on() -> bool:
            return loop.time() < ends_at and (is_made or not await self._source.is_paused(session.media_id))

        waiting = WAITING_FOR_TEXT if content_type == TEXT_TYPE else WAITING_FOR_MEDIA
        return await answer_later(
            request, fetch, content_type, beat_s=self._timings.beat_s, goes_on=goes_on, waiting=waiting
        )


def _type_of(layout: FilmLayout, piece: PieceAddress) -> str:
    if piece.is_text:
        return TEXT_TYPE
    return AUDIO_TYPE if any(one.name == piece.name for one in layout.plan.audio) else VIDEO_TYPE


def is_loopback_host(host: str) -> bool:
    """Whether a Host header names this machine, with or without a port."""
    return _LOOPBACK_HOST.fullmatch(host) is not None


def is_browser(request: web.BaseRequest) -> bool:
    """Whether a page's player asks; all browsers begin with this word for historical reasons, and nothing else does."""
    return request.headers.get("User-Agent", "").startswith("Mozilla/")


def _refusal(request: web.BaseRequest) -> web.Response | None:
    if request.version < (1, 1):
        return refuse(505, "HTTP/1.1 is needed: without it a film that breaks off looks like one that ends.")
    if not is_loopback_host(request.headers.get("Host", "")):
        return refuse(403, "This server is for this machine only.")
    return None
