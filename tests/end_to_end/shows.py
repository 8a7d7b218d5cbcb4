"""Films of numbered frames, and shows: an engine with a player open on its only film."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from fractions import Fraction
from pathlib import Path

import av
import msgspec
from aiohttp import web

from app.engine import api
from app.engine.local import LocalEngine
from tests.engine.stage import until_job
from tests.judges.barcode import SAMPLE_RATE, audio_frames, draw_frame, make_samples

SECONDS, FPS = 20, 30
COUNT = SECONDS * FPS
SIZE = (1280, 720)
_DRAWN = (320, 180)


def make_film(path: Path, *, gop: int, pixel_format: str = "yuv420p", seconds: int = SECONDS) -> Path:
    """Write a film of barcodes and beeps in H.264 with B-frames and AAC."""
    with av.open(str(path), "w") as container:
        picture = container.add_stream("libx264", rate=FPS, options={"preset": "superfast", "crf": "22"})
        picture.width, picture.height = SIZE
        picture.pix_fmt, picture.gop_size, picture.time_base = pixel_format, gop, Fraction(1, FPS)
        sound = container.add_stream("aac", rate=SAMPLE_RATE)
        sound.layout = "stereo"
        for frame in _frames(pixel_format, seconds * FPS):
            container.mux(picture.encode(frame))
        container.mux(picture.encode(None))
        for block in audio_frames(make_samples(seconds)):
            container.mux(sound.encode(block))
        container.mux(sound.encode(None))
    return path


def _frames(pixel_format: str, count: int) -> Iterator[av.VideoFrame]:
    """Yield the frames, drawn small and made large."""
    width, height = SIZE
    for number in range(count):
        small = av.VideoFrame.from_ndarray(draw_frame(number, width=_DRAWN[0], height=_DRAWN[1]), format="gray")
        frame = small.reformat(
            width=width, height=height, format=pixel_format, src_color_range="MPEG", dst_color_range="MPEG"
        )
        frame.pts, frame.time_base = number, Fraction(1, FPS)
        yield frame


class Show(msgspec.Struct, frozen=True, kw_only=True):
    """A player open on a film, finished or in the making."""

    engine: LocalEngine
    job_id: str
    player: api.PlayerSnapshot
    seek_address: Callable[[float], str]
    """Returns an address that, when it is fetched, tells the engine of a seek to that second, as the window does."""

    async def state(self) -> str:
        """Return the state of the film's job now."""
        return (await self.engine.call(api.GetJob(job_id=self.job_id))).state


@asynccontextmanager
async def show_of(engine: LocalEngine) -> AsyncIterator[Show]:
    """Open a player on the only film as soon as that can be."""
    (job,) = await engine.call(api.ListJobs())
    job = await until_job(engine, job.id, lambda one: one.playable)
    player = await engine.call(api.OpenPlayer(media_id=job.media_id))

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        position_ms = int(request.path.removeprefix("/"))
        await engine.call(api.SeekPlayer(token=player.token, position_ms=position_ms))
        return web.Response()

    runner = web.ServerRunner(web.Server(handle, access_log=None), shutdown_timeout=0.5)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    try:
        yield Show(
            engine=engine,
            job_id=job.id,
            player=player,
            seek_address=lambda to_s: f"http://127.0.0.1:{port}/{round(to_s * 1000)}",
        )
    finally:
        await runner.cleanup()
        await engine.call(api.ClosePlayer(token=player.token))
