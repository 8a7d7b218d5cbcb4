"""The ``stills`` task: a poster and trickplay sheets, as JPEG pictures made from keyframes.

A sheet is a grid of thumbnails, one every few seconds of film, left to right, top to bottom. Only keyframes are
decoded, so a thumbnail shows the last one before its moment.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import av
import numpy as np
from av.error import FFmpegError

from app.core.errors import ErrorCode, ExpectedError
from app.media.film import StillsInfo
from app.media.plan import Plan
from app.media.scan import JOINED
from app.media.source import TICKS_PER_S
from app.transcode.decode import ChunkDecoder
from app.transcode.decoders import PictureDecoder, is_over
from app.transcode.joined import joined_packets
from app.transcode.messages import MakeStills, StillMade
from app.transcode.opening import OpenSource, from_ticks, open_source, read_packets, to_ticks
from app.transcode.picture import FilterChain, Step, build_chain, scale_step, upright_steps
from app.transcode.reporting import Reporter

COLUMNS = ROWS = 10
TILE_WIDTH = 160
POSTER_WIDTH = 640
_LONGEST_INTERVAL_S = 10
_MOST_TILES_OF_A_SHORT_FILM = 50
_POSTER_SHARES = (0.1, 0.2, 0.35, 0.5)
_TALLEST = 4
"""How many times taller than wide a still may be."""
_JPEG_QUALITY = 4

Pixels = np.ndarray[Any, np.dtype[np.uint8]]


def make_stills(request: MakeStills, reporter: Reporter) -> StillsInfo:
    """Make poster and sheets and return the layout of the sheets."""
    plan = request.plan
    best = plan.renditions[0]
    shape = best.width / best.height
    tile = _still_size(TILE_WIDTH, shape)
    poster = _still_size(max(2, min(POSTER_WIDTH, best.width) // 2 * 2), shape)
    interval = thumbnail_interval(plan.duration_ticks)
    moments = list(range(0, plan.duration_ticks, interval))
    with open_source(request.source) as opened:
        keyframes = _Keyframes(opened, plan)
        frames = keyframes.at([round(plan.duration_ticks * share) for share in _POSTER_SHARES])
        reporter.made(StillMade(name="poster", number=0, data=_poster(frames, plan, poster)))
    with open_source(request.source) as opened:
        keyframes = _Keyframes(opened, plan)
        _make_sheets(keyframes.at(moments), plan, tile, len(moments), reporter)
    return StillsInfo(
        interval_ticks=interval,
        columns=COLUMNS,
        rows=ROWS,
        tile_width=tile[0],
        tile_height=tile[1],
        count=len(moments),
    )


def _still_size(width: int, shape: float) -> tuple[int, int]:
    """Return the even size of a still; a film like a ribbon gets a shorter one."""
    return width, min(_TALLEST * width, max(2, round(width / shape / 2) * 2))


def thumbnail_interval(duration_ticks: int) -> int:
    """Return the distance of thumbnails: whole seconds, 1 to 10, about fifty in a short film."""
    seconds = duration_ticks // TICKS_PER_S // _MOST_TILES_OF_A_SHORT_FILM + 1
    return min(_LONGEST_INTERVAL_S, seconds) * TICKS_PER_S


class _Keyframes:
    """Finds the keyframe shown at a moment."""

    def __init__(self, opened: OpenSource, plan: Plan) -> None:
        self._opened = opened
        self._container = opened.container
        self._plan = plan
        self._stream: Any = opened.container.streams[plan.video_stream]
        self._decoder = PictureDecoder(self._stream, with_alpha=is_over(plan.filters))
        self._decoder.context.skip_frame = "NONKEY"

    def at(self, moments: Sequence[int]) -> Iterator[Any]:
        """Yield one frame per moment (rising); the nearest there is where a part cannot be decoded."""
        found = self._by_seeking(moments) if self._plan.entry == "time" else self._in_one_pass(moments)
        last: Any = None
        for frame in found:
            last = frame if frame is not None else (last or self._first_picture())
            if last is not None:
                yield last

    def _first_picture(self) -> Any:
        """Return the first picture that can be decoded at all; a cut file cannot be searched."""
        self._decoder.context.skip_frame = "DEFAULT"
        pictures = ChunkDecoder(self._opened, self._plan).pictures(0, chunk=0)
        first = next(pictures, None)
        return first.frame if first is not None else None

    def _by_seeking(self, moments: Sequence[int]) -> Iterator[Any]:
        for moment in moments:
            ticks = from_ticks(self._plan.origin_ticks + moment, self._stream.time_base)
            try:
                self._container.seek(ticks, stream=self._stream)
                self._decoder.restart()
                yield next(self._decoder.decode_all(read_packets(self._container, [self._stream])), None)
            except FFmpegError:
                yield None

    def _all(self) -> Iterator[Any]:
        if self._plan.entry == JOINED:
            return self._decoder.decode_all(joined_packets(self._container, self._stream))
        return self._decoder.decode_all(read_packets(self._container, [self._stream]))

    def _in_one_pass(self, moments: Sequence[int]) -> Iterator[Any]:
        wanted = list(moments)
        last: Any = None
        try:
            for frame in self._all():
                ticks = to_ticks(frame.pts or 0, frame.time_base or self._stream.time_base) - self._plan.origin_ticks
                while wanted and ticks > wanted[0]:
                    yield last if last is not None else frame
                    wanted.pop(0)
                last = frame
        except FFmpegError:
            pass
        for _ in wanted:
            yield last


class _Thumbnails:
    """Makes small upright SDR pictures, with one filter chain as long as the source's pictures keep their shape."""

    def __init__(self, plan: Plan, size: tuple[int, int]) -> None:
        self._filters = plan.filters
        self._size = size
        self._shape: tuple[Any, ...] | None = None
        self._chain: FilterChain | None = None

    def small(self, frame: Any) -> Pixels:
        """Return ``frame`` as an array (height, width, 3) of RGB."""
        shape = (frame.width, frame.height, frame.format.name, int(frame.colorspace), int(frame.color_range))
        if self._chain is None or shape != self._shape:
            self._shape = shape
            self._chain = build_chain(frame, self._steps(frame), self._filters)
        self._chain.push(frame)
        pixels: Pixels = next(self._chain.pull()).to_ndarray()
        return pixels

    def _steps(self, frame: Any) -> list[Step]:
        upright = upright_steps(self._filters)
        turned = any(name == "transpose" for name, _ in upright)
        scale = scale_step(frame, *self._size, turned=turned)
        to_rgb = ("scale", "in_color_matrix=bt709:in_range=tv")
        return [scale, ("format", "yuv444p"), *upright, to_rgb, ("format", "rgb24")]


def _poster(frames: Iterator[Any], plan: Plan, size: tuple[int, int]) -> bytes:
    """Return the liveliest of a few pictures: a black or flat one makes a poor poster."""
    thumbnails = _Thumbnails(plan, size)
    pictures = [thumbnails.small(frame) for frame in frames]
    if not pictures:
        raise ExpectedError(ErrorCode.DAMAGED_SOURCE, "No keyframe of the source can be decoded for a poster.")
    return encode_jpeg(max(pictures, key=lambda pixels: float(pixels.std())))


def _make_sheets(frames: Iterator[Any], plan: Plan, tile: tuple[int, int], count: int, reporter: Reporter) -> None:
    width, height = tile
    per_sheet = COLUMNS * ROWS
    sheet = np.zeros((ROWS * height, COLUMNS * width, 3), np.uint8)
    thumbnails = _Thumbnails(plan, tile)
    placed = 0
    for placed, frame in enumerate(frames, start=1):
        row, column = divmod((placed - 1) % per_sheet, COLUMNS)
        sheet[row * height : (row + 1) * height, column * width : (column + 1) * width] = thumbnails.small(frame)
        reporter.progress(placed * 1000 // max(1, count))
        if placed % per_sheet == 0:
            reporter.made(StillMade(name="sheet", number=placed // per_sheet - 1, data=encode_jpeg(sheet)))
            sheet = np.zeros_like(sheet)
    if placed % per_sheet or placed == 0:
        rows = max(1, -(-(placed % per_sheet) // COLUMNS))
        reporter.made(StillMade(name="sheet", number=placed // per_sheet, data=encode_jpeg(sheet[: rows * height])))


def encode_jpeg(pixels: Pixels) -> bytes:
    """Return an RGB array (height, width, 3) as a JPEG."""
    buffer = io.BytesIO()
    height, width, _ = pixels.shape
    with av.open(buffer, "w", format="mjpeg") as muxer:
        stream: Any = muxer.add_stream("mjpeg", rate=1)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuvj420p"
        stream.codec_context.qmin = stream.codec_context.qmax = _JPEG_QUALITY
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24").reformat(
            format="yuvj420p", dst_colorspace="ITU601"
        )
        frame.pts, frame.time_base = 0, Fraction(1, 1)
        muxer.mux([*stream.encode(frame), *stream.encode(None)])
    return buffer.getvalue()
