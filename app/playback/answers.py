"""HTTP answers of the gateway: what each looks like on the wire, without deciding which one is due."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from aiohttp import web

from app.core.errors import ErrorCode, ExpectedError
from app.media.text import WEBVTT_BEAT, WEBVTT_HEAD
from app.playback.ranges import RangeOutcome, parse_range

PLAYLIST_TYPE: Final = "application/vnd.apple.mpegurl"
VIDEO_TYPE: Final = "video/mp4"
AUDIO_TYPE: Final = "audio/mp4"
PICTURE_TYPE: Final = "image/jpeg"
TEXT_TYPE: Final = "text/vtt; charset=utf-8"

FREE_BOX: Final = (16).to_bytes(4, "big") + b"free" + bytes(8)
"""An MP4 box that every demuxer skips: 16 bytes that say "still here"."""


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent while a piece is being made."""

    head: bytes = b""
    """How every piece of this kind begins; sent at once."""
    beat: bytes = FREE_BOX


WAITING_FOR_MEDIA: Final = Waiting()
WAITING_FOR_TEXT: Final = Waiting(head=WEBVTT_HEAD.encode(), beat=WEBVTT_BEAT.encode())

# Any origin may read what lies under a token: the token is 256 random bits that only this player's client was told,
# so whoever knows the address may have the film anyway, and no cookie or other ambient right is involved that a
# foreign page could borrow. Answers without a valid token do not carry this header.
SHARED_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Access-Control-Allow-Origin": "*",
    "X-Content-Type-Options": "nosniff",
}

_STATUS = {
    ErrorCode.NO_SUCH_ID: 404,
    ErrorCode.NOT_DONE: 503,
    ErrorCode.RESULT_LOST: 503,
    ErrorCode.MISSING_SHARD: 503,
    ErrorCode.DAMAGED_SHARD: 503,
    ErrorCode.CANCELLED: 410,
}
"""A 503 may be asked again, and players do: a lost result is made again, a shard comes back with its device."""


def refuse(status: int, sentence: str, **headers: str) -> web.Response:
    """Return a refusal for someone who has shown no token; it tells nothing of what is here."""
    return web.Response(status=status, text=sentence + "\n", headers={"Cache-Control": "no-store", **headers})


def answer_error(error: ExpectedError) -> web.Response:
    """Return ``error`` in words, with the status that makes players do the right thing."""
    headers = {**SHARED_HEADERS, "X-Error-Code": str(error.code)}
    return web.Response(status=_STATUS.get(error.code, 500), text=error.message + "\n", headers=headers)


def answer_playlist(text: str) -> web.Response:
    """Return a playlist."""
    return web.Response(body=text.encode(), headers={**SHARED_HEADERS, "Content-Type": PLAYLIST_TYPE})


def answer_bytes(request: web.BaseRequest, data: bytes, content_type: str) -> web.Response:
    """Return ``data``, or the range of it that ``request`` asks for."""
    headers = {**SHARED_HEADERS, "Content-Type": content_type, "Accept-Ranges": "bytes"}
    wanted = parse_range(request.headers.get("Range"), len(data)) if request.method == "GET" else RangeOutcome.WHOLE
    if wanted is RangeOutcome.UNSATISFIABLE:
        headers["Content-Range"] = f"bytes */{len(data)}"
        return web.Response(status=416, headers=headers)
    if isinstance(wanted, range):
        headers["Content-Range"] = f"bytes {wanted.start}-{wanted.stop - 1}/{len(data)}"
        return web.Response(status=206, body=data[wanted.start : wanted.stop], headers=headers)
    return web.Response(body=data, headers=headers)


async def answer_head_of_missing(request: web.BaseRequest, content_type: str) -> web.StreamResponse:
    """Return the headers that ``answer_later`` would begin with, and nothing else."""
    response = _promise(content_type)
    await response.prepare(request)
    return response


def _promise(content_type: str) -> web.StreamResponse:
    response = web.StreamResponse(headers={**SHARED_HEADERS, "Content-Type": content_type, "Accept-Ranges": "none"})
    response.enable_chunked_encoding()
    return response


async def answer_later(
    request: web.BaseRequest,
    fetch: asyncio.Future[bytes],
    content_type: str,
    *,
    beat_s: float,
    goes_on: Callable[[], Awaitable[bool]],
    waiting: Waiting = WAITING_FOR_MEDIA,
) -> web.StreamResponse:
    """Send headers now, something to be skipped every ``beat_s``, and the result of ``fetch`` when it is there.

    The connection is closed without an end, so that the client knows it has no piece, when ``fetch`` fails or is
    cancelled, or when ``goes_on`` says no at a beat. Positions in this answer are not positions in the piece, so it
    offers no ranges.
    """
    response = _promise(content_type)
    try:
        await response.prepare(request)
        if waiting.head:
            await response.write(waiting.head)
        while not fetch.done() and await goes_on():
            await asyncio.wait({fetch}, timeout=beat_s)
            if not fetch.done():
                await response.write(waiting.beat)
        if fetch.done() and not fetch.cancelled():
            await response.write(fetch.result().removeprefix(waiting.head))
            await response.write_eof()
        else:
            close_abruptly(request)
    except ExpectedError:
        close_abruptly(request)
    except ConnectionError:
        pass  # the player went away; nobody is left to tell
    return response


def close_abruptly(request: web.BaseRequest) -> None:
    """Cut the connection of ``request``: what was sent so far has no end, and nothing more comes."""
    if request.transport is not None:
        request.transport.abort()
