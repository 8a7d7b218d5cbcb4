"""What a source is, from its headers and a few decoded pictures: ``SourceInfo``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import av
from av.error import FFmpegError
from av.stream import Disposition

from app.core.errors import ErrorCode, ExpectedError
from app.media.planning import MAX_PIXELS, too_large
from app.media.source import TICKS_PER_S, AudioStream, SourceInfo, TextStream, VideoStream
from app.transcode.opening import OpenSource

BITMAP_CODECS = {"hdmv_pgs_subtitle", "dvd_subtitle", "dvb_subtitle", "xsub", "pgssub", "dvdsub", "dvbsub"}
_SAMPLED_PICTURES = 8
_RAW_FORMATS = {"h264", "hevc", "mpegvideo", "m4v", "vc1"}
_PRIMARIES = {1: "bt709", 5: "bt470bg", 6: "smpte170m", 9: "bt2020"}
_TRANSFERS = {1: "bt709", 6: "smpte170m", 14: "bt2020-10", 15: "bt2020-12", 16: "smpte2084", 18: "arib-std-b67"}
_MATRICES = {0: "gbr", 1: "bt709", 5: "bt470bg", 6: "smpte170m", 9: "bt2020nc", 10: "bt2020c"}


def probe_source(opened: OpenSource) -> SourceInfo:
    """Return what the source is.

    Raises ``ExpectedError`` no-video, picture or no-decoder for what can never become a film.
    """
    container = opened.container
    video = _choose_video(container)
    if video is None:
        raise ExpectedError(
            ErrorCode.NO_VIDEO, "There is no moving picture in this file (sound only); only films can be added."
        )
    if video.codec_context is not None and video.codec_context.width * video.codec_context.height > MAX_PIXELS:
        raise too_large(video.codec_context.width, video.codec_context.height)
    if video.codec_context is None:
        raise ExpectedError(
            ErrorCode.NO_DECODER, f"No decoder for the film's picture ({_tag_of(video)}) is built in; convert it first."
        )
    info = SourceInfo(
        container=container.format.name,
        size_bytes=opened.size_bytes,
        duration_ticks=_declared_ticks(container),
        video=_describe_video(opened, video),
        audio=tuple(_describe_audio(stream) for stream in container.streams.audio if stream.codec_context is not None),
        text=tuple(_describe_text(stream) for stream in container.streams.subtitles),
        left_out=tuple(_left_out(container, video)),
    )
    return _with_sampled_pictures(opened, info)


def _tag_of(stream: Any) -> str:
    return str(stream.metadata.get("handler_name", "")) or "unknown codec"


def _choose_video(container: av.container.InputContainer) -> av.VideoStream | None:
    """Return the film among the picture streams: never a cover; the longest, then the largest."""
    films = [
        stream
        for stream in container.streams.video
        if not stream.disposition & (Disposition.attached_pic | Disposition.timed_thumbnails)
    ]
    if not films:
        return None

    def rank(stream: av.VideoStream) -> tuple[bool, float, int, int]:
        context = stream.codec_context
        known = context is not None
        seconds = float(stream.duration * stream.time_base) if stream.duration and stream.time_base else 0.0
        return (
            known,
            max(seconds, stream.frames / 1000),
            (context.width * context.height if known else 0),
            -stream.index,
        )

    return max(films, key=rank)


def _declared_ticks(container: av.container.InputContainer) -> int | None:
    return container.duration * TICKS_PER_S // av.time_base if container.duration and container.duration > 0 else None


def _describe_video(opened: OpenSource, stream: av.VideoStream) -> VideoStream:
    context = stream.codec_context
    rate = _rate_of(opened.container.format.name, stream)
    aspect = stream.sample_aspect_ratio or context.sample_aspect_ratio
    transfer, primaries = context.color_trc, context.color_primaries
    return VideoStream(
        index=stream.index,
        codec=context.codec.canonical_name if hasattr(context.codec, "canonical_name") else context.name,
        profile=context.profile or "",
        width=context.width,
        height=context.height,
        sample_aspect=(aspect.numerator, aspect.denominator) if aspect and aspect > 0 else (1, 1),
        pixel_format=context.pix_fmt or "",
        bit_depth=_bit_depth(context),
        has_alpha=_has_alpha(context) or stream.metadata.get("alpha_mode") == "1",
        primaries=_PRIMARIES.get(int(primaries or 2), ""),
        transfer=_TRANSFERS.get(int(transfer or 2), ""),
        matrix=_MATRICES.get(int(context.colorspace), ""),
        full_range=int(context.color_range) == 2 or (context.pix_fmt or "").startswith("yuvj"),
        frame_rate=(rate.numerator, rate.denominator) if rate and rate > 0 else (0, 1),
        dolby_vision_profile=opened.boxes.dolby_vision_profile if opened.boxes else None,
        bit_rate=context.bit_rate or 0,
    )


def _rate_of(container: str, stream: av.VideoStream) -> Any:
    """Return pictures a second; a raw stream has no clock but its pictures' headers, and its average is invented."""
    if container in _RAW_FORMATS:
        return stream.guessed_rate or stream.average_rate
    return stream.average_rate or stream.guessed_rate


def _bit_depth(context: Any) -> int:
    components = context.format.components if context.format else ()
    return max((component.bits for component in components), default=8)


def _has_alpha(context: Any) -> bool:
    return any(component.is_alpha for component in (context.format.components if context.format else ()))


def _describe_audio(stream: av.AudioStream) -> AudioStream:
    context = stream.codec_context
    return AudioStream(
        index=stream.index,
        codec="aac" if context.name == "aac" else context.name,
        profile=context.profile or "",
        channels=context.layout.nb_channels,
        layout=context.layout.name,
        sample_rate=context.sample_rate or 0,
        language=stream.metadata.get("language", ""),
        title=stream.metadata.get("title", ""),
        is_default=bool(stream.disposition & Disposition.default),
        bit_rate=context.bit_rate or 0,
    )


def _describe_text(stream: Any) -> TextStream:
    codec = stream.codec_context.name if stream.codec_context is not None else "unknown"
    return TextStream(
        index=stream.index,
        codec=codec,
        language=stream.metadata.get("language", ""),
        title=stream.metadata.get("title", ""),
        is_bitmap=codec in BITMAP_CODECS,
    )


def _left_out(container: av.container.InputContainer, film: av.VideoStream) -> Iterator[str]:
    for stream in container.streams:
        if stream.type == "video" and stream.index != film.index:
            yield f"second picture stream {stream.index}"
        elif stream.type not in {"video", "audio", "subtitle"}:
            yield f"{stream.type} stream {stream.index}"


def _with_sampled_pictures(opened: OpenSource, info: SourceInfo) -> SourceInfo:
    """Add what only decoded pictures tell: interlacing, the display matrix, the real pixel format."""
    if info.video is None:
        return info
    stream = opened.container.streams[info.video.index]
    pictures = list(_sample_pictures(opened.container, stream, info.duration_ticks))
    if not pictures:
        raise ExpectedError(
            ErrorCode.NOT_A_VIDEO, "Not a single picture of this file can be decoded; it is damaged or not a film."
        )
    if len(pictures) == 1 and info.container in {"gif", "apng"}:
        raise ExpectedError(ErrorCode.PICTURE, "This is a picture, not a video.")
    first = pictures[0]
    rotation, mirrored = _turn_of(first)
    interlaced = sum(picture.interlaced_frame for picture in pictures) * 2 > len(pictures)
    video = info.video
    changed = {
        "rotation": rotation,
        "mirrored": mirrored,
        "interlaced": interlaced,
        "width": first.width,
        "height": first.height,
        "pixel_format": first.format.name,
    }
    values = {name: getattr(video, name) for name in video.__struct_fields__}
    return SourceInfo(**{**_values_of(info), "video": VideoStream(**{**values, **changed})})


def _values_of(info: SourceInfo) -> dict[str, Any]:
    return {name: getattr(info, name) for name in info.__struct_fields__}


def _sample_pictures(container: av.container.InputContainer, stream: Any, declared: int | None) -> Iterator[Any]:
    """Yield a few pictures from the start and, in a longer film, from a third of it."""
    places = [0, declared // 3] if declared and declared > 20 * TICKS_PER_S else [0]
    for place in places:
        taken = 0
        with contextlib.suppress(FFmpegError):
            if place:
                container.seek(place * av.time_base // TICKS_PER_S)
            for picture in _decode_leniently(container, stream):
                yield picture
                taken += 1
                if taken >= _SAMPLED_PICTURES:
                    break


def _decode_leniently(container: av.container.InputContainer, stream: Any) -> Iterator[Any]:
    for packet in container.demux(stream):
        try:
            yield from packet.decode()
        except FFmpegError:
            continue


def _turn_of(picture: Any) -> tuple[int, bool]:
    """Return (degrees clockwise, flipped left to right first) that make the picture upright."""
    matrix = picture.side_data.get("DISPLAYMATRIX")
    if matrix is None:
        return 0, False
    return turn_of_matrix([int.from_bytes(bytes(matrix)[i : i + 4], "little", signed=True) for i in range(0, 36, 4)])


def turn_of_matrix(matrix: list[int]) -> tuple[int, bool]:
    """Read a display matrix (nine 16.16/2.30 fixed-point numbers, row by row) as a flip and a quarter turn.

    The matrix maps (x, y) to (a x + c y, b x + d y) with y downwards; a determinant below zero is a mirror.
    """
    a, b, c, d = matrix[0], matrix[1], matrix[3], matrix[4]
    mirrored = a * d - b * c < 0
    if mirrored:
        a, b = -a, -b
    if abs(a) >= abs(b):
        return (0 if a >= 0 else 180), mirrored
    return (90 if b > 0 else 270), mirrored
