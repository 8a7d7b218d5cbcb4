"""What a source is, from its headers and a few decoded pictures: ``SourceInfo``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import av
from av.error import FFmpegError
from av.stream import Disposition

from app.core.errors import ErrorCode, ExpectedError
from app.media.planning import MAX_PIXELS, too_large, unknown_colours
from app.media.source import TICKS_PER_S, AudioStream, SourceInfo, TextStream, VideoStream
from app.transcode.decoders import PictureDecoder, has_alpha_beside
from app.transcode.opening import OpenSource, read_packets
from app.transcode.telecine import TELECINE_PICTURES, looks_telecined

BITMAP_CODECS = {"hdmv_pgs_subtitle", "dvd_subtitle", "dvb_subtitle", "xsub", "pgssub", "dvdsub", "dvbsub"}
_SAMPLED_PICTURES = 8
_MIDDLE_GREY = 128
_TALLEST_TELECINE = 1088
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
    if opened.boxes is not None and opened.boxes.dolby_vision_profile == 5:
        raise unknown_colours()
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
        has_alpha=_has_alpha(context) or has_alpha_beside(stream),
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
        is_default=bool(stream.disposition & Disposition.default),
        is_forced=bool(stream.disposition & Disposition.forced),
        is_hearing_impaired=bool(stream.disposition & (Disposition.hearing_impaired | Disposition.captions)),
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
    has_alpha = info.video.has_alpha or _has_alpha(first)
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
        "has_alpha": has_alpha,
        "backdrop": choose_backdrop(pictures) if has_alpha else "",
        "is_telecined": _is_telecined(opened, info.video, interlaced=interlaced),
    }
    values = {name: getattr(video, name) for name in video.__struct_fields__}
    return SourceInfo(**{**_values_of(info), "video": VideoStream(**{**values, **changed})})


def _values_of(info: SourceInfo) -> dict[str, Any]:
    return {name: getattr(info, name) for name in info.__struct_fields__}


def _sample_pictures(container: av.container.InputContainer, stream: Any, declared: int | None) -> Iterator[Any]:
    """Yield a few pictures from the start and, in a longer film, from a third of it."""
    places = [0, declared // 3] if declared and declared > 20 * TICKS_PER_S else [0]
    decoder = PictureDecoder(stream, with_alpha=True)
    for place in places:
        taken = 0
        with contextlib.suppress(FFmpegError):
            if place:
                container.seek(place * av.time_base // TICKS_PER_S)
                decoder.restart()
            for picture in _decode_leniently(container, stream, decoder):
                yield picture
                taken += 1
                if taken >= _SAMPLED_PICTURES:
                    break


def _decode_leniently(container: Any, stream: Any, decoder: PictureDecoder) -> Iterator[Any]:
    for packet in read_packets(container, [stream]):
        try:
            yield from decoder.decode(packet)
        except FFmpegError:
            continue


def choose_backdrop(pictures: Sequence[Any]) -> str:
    """Return what transparent pictures are laid over: black below what is mostly light, white below what is dark."""
    import numpy as np  # noqa: PLC0415 (numpy doubles the start time of a child)

    light = weight = 0.0
    for picture in pictures:
        pixels = picture.to_ndarray(format="rgba").astype(np.float32)
        light += float((pixels[..., :3].mean(axis=2) * pixels[..., 3]).sum())
        weight += float(pixels[..., 3].sum())
    return "black" if light > _MIDDLE_GREY * weight else "white"


def _is_telecined(opened: OpenSource, video: VideoStream, *, interlaced: bool) -> bool:
    """Whether the film was spread over fields; looks at pictures from several places of what could be such a film."""
    numerator, denominator = video.frame_rate
    is_thirty = 29.5 * denominator < numerator < 30.5 * denominator
    if not interlaced or not is_thirty or video.height > _TALLEST_TELECINE:
        return False
    stream = opened.container.streams[video.index]
    verdicts = [looks_telecined(pictures) for pictures in _stretches(opened, stream) if len(pictures) > 1]
    told = [one for one in verdicts if one is not None]
    return bool(told) and all(told)


def _stretches(opened: OpenSource, stream: Any) -> Iterator[list[Any]]:
    """Yield a run of neighbouring pictures from each of a few places."""
    container = opened.container
    length = container.duration or 0
    places = [length // 5, length // 2, length * 4 // 5] if length > 30 * av.time_base else [0]
    decoder = PictureDecoder(stream, with_alpha=False)
    for place in places:
        with contextlib.suppress(FFmpegError):
            container.seek(place)
            pictures = _decode_leniently(container, stream, decoder)
            yield [picture for _, picture in zip(range(TELECINE_PICTURES), pictures, strict=False)]


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
