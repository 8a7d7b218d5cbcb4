"""Plays an address with hls.js in headless Chromium and says which frames and beeps came out, and when.

The page (``hlsjs_page.html``) is served from a loopback port of its own, so hls.js reads the film across origins, as
any web player would. hls.js is looked for in ``.judges/node_modules`` of the repository.
"""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from aiohttp import web

from tests.judges.barcode import beep_times, number_of_cells
from tests.judges.seen import FrameSeen

HERE = Path(__file__).resolve().parent
HLS_SCRIPT = HERE.parents[1] / ".judges" / "node_modules" / "hls.js" / "dist" / "hls.min.js"
_CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--autoplay-policy=no-user-gesture-required",
)
_MAX_RESULT_BYTES = 64 << 20


class Play(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", tag="play"):
    """Play until a moment, or to the end."""

    until_s: float = 1e9


class Seek(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", tag="seek"):
    """Go somewhere."""

    to_s: float


class SwitchLevel(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", tag="level"):
    """From the next segment on, take this level (0 is the lowest)."""

    index: int


class ChooseText(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", tag="text"):
    """Choose a text track and wait until it has that many cues."""

    index: int
    cues: int


class Look(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", tag="look"):
    """Go to each of these moments in turn, paused, and look at the picture."""

    at_s: tuple[float, ...]


class Fill(msgspec.Struct, frozen=True, kw_only=True, tag_field="do", tag="fill"):
    """Look at those frames from ``first`` to before ``end`` that the browser did not tell of while it played."""

    first: int = 0
    end: int
    fps: int


Step = Play | Seek | SwitchLevel | ChooseText | Look | Fill


class PlayerFault(msgspec.Struct, frozen=True, kw_only=True):
    """What hls.js complained about."""

    type: str
    details: str
    fatal: bool
    reason: str = ""


class CueSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A cue that the browser got."""

    start_s: float
    end_s: float
    text: str


class TextSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A text track that was chosen."""

    name: str
    language: str
    cues: tuple[CueSeen, ...]


class HlsJsReport(msgspec.Struct, frozen=True, kw_only=True):
    """What came out."""

    frames: tuple[FrameSeen, ...]
    """Pictures shown, in order. Under load the browser may show a frame without telling; see ``missed``."""
    looked: tuple[FrameSeen, ...]
    """What ``Look`` found; the times are those looked at."""
    beeps: tuple[float, ...]
    faults: tuple[PlayerFault, ...]
    duration_s: float | None
    levels: tuple[tuple[int, int], ...]
    """(segment, level) in the order played."""
    widths: tuple[int, ...]
    """Width of each picture in ``frames``."""
    missed: int
    """Frames that were shown without telling, or dropped because they were late."""
    text: tuple[TextSeen, ...] = ()
    """What ``ChooseText`` found."""

    @property
    def serious_faults(self) -> tuple[PlayerFault, ...]:
        """All faults but a short stall, which a busy machine gives too."""
        return tuple(one for one in self.faults if one.fatal or one.details != "bufferStalledError")


class _RawFrame(msgspec.Struct):
    time_s: float
    presented: int
    cells: list[float]
    width: int


class _RawReport(msgspec.Struct):
    frames: list[_RawFrame]
    looked: list[_RawFrame]
    errors: list[PlayerFault]
    levels: list[tuple[int, int]]
    clock: list[tuple[float, float]]
    duration: float | None
    sound_rate: float
    sound: str
    sound_start: int = 0
    dropped: int = 0
    variants: list[tuple[int, int]] = []
    text: list[TextSeen] = []


def missing_tool() -> str | None:
    """Return why this judge cannot sit, or None."""
    if not HLS_SCRIPT.is_file():
        return "hls.js not found; run: npm install --prefix .judges --no-save --no-package-lock hls.js@1.6"
    return None if _chromium() else f"none of {', '.join(_CHROMIUM_NAMES)} found; install Chromium"


def _chromium() -> str | None:
    return next((found for name in _CHROMIUM_NAMES if (found := shutil.which(name))), None)


async def play_with_hlsjs(
    url: str, steps: Sequence[Step], *, start_level: int = -1, limit_s: float = 60.0, **config: Any
) -> HlsJsReport:
    """Carry out ``steps`` on ``url``; ``config`` goes to hls.js. Raises TimeoutError when it hangs."""
    scenario = {"url": url, "steps": steps, "start_level": start_level, "config": config}
    result: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    async with _page(msgspec.json.encode(scenario), result) as address, _browser(address):
        raw = msgspec.json.decode(await asyncio.wait_for(result, limit_s), type=_RawReport)
    return _read(raw)


@asynccontextmanager
async def _page(scenario: bytes, result: asyncio.Future[bytes]) -> AsyncIterator[str]:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        match request.path:
            case "/":
                return web.FileResponse(HERE / "hlsjs_page.html")
            case "/hls.js":
                return web.FileResponse(HLS_SCRIPT, headers={"Content-Type": "text/javascript"})
            case "/scenario.json":
                return web.Response(body=scenario, content_type="application/json")
            case "/result":
                result.set_result(await request.content.read())
                return web.Response()
        return web.Response(status=404)

    runner = web.ServerRunner(web.Server(handle, access_log=None), shutdown_timeout=0.5)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def _browser(address: str) -> AsyncIterator[None]:
    program = _chromium()
    if program is None:
        raise FileNotFoundError(missing_tool())
    with tempfile.TemporaryDirectory(prefix="judge-", ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            program,
            *_FLAGS,
            f"--user-data-dir={profile}",
            address,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


def _read(raw: _RawReport) -> HlsJsReport:
    presented = [one.presented for one in raw.frames]
    untold = presented[-1] - presented[0] + 1 - len(presented) if presented else 0
    return HlsJsReport(
        frames=tuple(_frame(one) for one in raw.frames),
        looked=tuple(_frame(one) for one in raw.looked),
        beeps=tuple(_beeps(raw)),
        faults=tuple(raw.errors),
        duration_s=raw.duration,
        levels=tuple(raw.levels),
        widths=tuple(one.width for one in raw.frames),
        missed=untold + raw.dropped,
        text=tuple(raw.text),
    )


def _frame(raw: _RawFrame) -> FrameSeen:
    return FrameSeen(number=number_of_cells(np.array(raw.cells, dtype=np.float64)), time_s=raw.time_s)


def _beeps(raw: _RawReport) -> list[float]:
    """Return the media times of beeps: heard on the sound card's clock, placed by the player's own position then."""
    samples = np.frombuffer(base64.b64decode(raw.sound), dtype="<i2") / 32768
    rate = int(raw.sound_rate)
    clock = np.array(raw.clock, dtype=np.float64).reshape(-1, 2)
    heard = [one + raw.sound_start / rate for one in beep_times(samples, rate)]
    return [_media_time(at, clock) for at in heard if len(clock)]


def _media_time(context_s: float, clock: np.typing.NDArray[np.float64]) -> float:
    near = clock[np.argsort(np.abs(clock[:, 0] - context_s))[:25]]
    return context_s + float(np.median(near[:, 1] - near[:, 0]))
