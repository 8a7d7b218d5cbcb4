"""A small ladder of the barcode film, made here and now, so that the judges can be judged without the transcoder.

Pictures are H.264 without B-frames, an IDR with its parameter sets in band at every border; sound is AAC without its
priming packet, cut at the frame edges nearest the borders. Both are fragmented MP4, split at ``moof``.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise

import av
import msgspec

from app.media.film import RenditionRate
from app.media.plan import AudioKind, AudioTrack, Chunk, Plan, Rendition, RenditionKind, RenditionSet
from app.media.source import TICKS_PER_S
from app.playback.memory import MemoryFilmSource
from app.playback.playlists import audio_cuts
from app.playback.source import INIT_NUMBER, FilmLayout, film_layout
from tests.judges.barcode import SAMPLE_RATE, audio_frames, make_samples, video_frames

_MOVFLAGS = "empty_moov+default_base_moof+frag_discont"


class Pieces(msgspec.Struct, frozen=True, kw_only=True):
    """One rendition or track, cut."""

    name: str
    init: bytes
    segments: tuple[bytes, ...]


class Ladder(msgspec.Struct, frozen=True, kw_only=True):
    """The film with all its pieces."""

    layout: FilmLayout
    pieces: tuple[Pieces, ...]
    frame_count: int
    fps: int


def make_ladder(
    *,
    borders_s: Sequence[int] = (0, 2, 4, 6, 8),
    fps: int = 24,
    sizes: Sequence[tuple[int, int]] = ((640, 360), (320, 180)),
) -> Ladder:
    """Return a film whose segments begin at ``borders_s``, one rendition for each of ``sizes``, best first."""
    pictures = [_make_pictures(f"{size[1]}", borders_s, fps, size) for size in sizes]
    sound = _make_sound("a0", borders_s)
    plan = _plan(borders_s, fps, sizes)
    rates = tuple(_measured(one, borders_s) for one in (*pictures, sound))
    return Ladder(
        layout=film_layout(plan, measured=rates, is_complete=True),
        pieces=(*pictures, sound),
        frame_count=borders_s[-1] * fps,
        fps=fps,
    )


async def put_ladder(source: MemoryFilmSource, media_id: str, ladder: Ladder, numbers: Sequence[int] = ()) -> None:
    """Make the ladder known to ``source``, with all its segments or only with ``numbers``."""
    source.add_film(media_id, ladder.layout)
    for piece in ladder.pieces:
        await source.put(media_id, piece.name, INIT_NUMBER, piece.init)
    await put_segments(source, media_id, ladder, numbers or range(len(ladder.pieces[0].segments)))


async def put_segments(source: MemoryFilmSource, media_id: str, ladder: Ladder, numbers: Sequence[int]) -> None:
    """Add segments of all renditions and tracks."""
    for piece in ladder.pieces:
        for number in numbers:
            await source.put(media_id, piece.name, number, piece.segments[number])


def _make_pictures(name: str, borders_s: Sequence[int], fps: int, size: tuple[int, int]) -> Pieces:
    target = io.BytesIO()
    starts = {border * fps for border in borders_s}
    options = {"preset": "veryfast", "crf": "23", "forced-idr": "1", "x264-params": "repeat-headers=1:scenecut=0"}
    with av.open(target, "w", format="mp4", options={"movflags": _MOVFLAGS + "+frag_keyframe"}) as container:
        stream = container.add_stream("libx264", rate=fps, options=options)
        stream.width, stream.height = size
        stream.pix_fmt = "yuv420p"
        stream.gop_size = 100_000
        stream.max_b_frames = 0
        for frame in video_frames(range(borders_s[-1] * fps), fps=fps, size=size):
            if frame.pts in starts:
                frame.pict_type = av.video.frame.PictureType.I
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    init, fragments = _split(target.getvalue())
    return Pieces(name=name, init=init, segments=tuple(fragments))


def _make_sound(name: str, borders_s: Sequence[int]) -> Pieces:
    target = io.BytesIO()
    cuts = audio_cuts([border * TICKS_PER_S for border in borders_s], SAMPLE_RATE)
    options = {"movflags": _MOVFLAGS + "+frag_every_frame", "use_editlist": "0"}
    with av.open(target, "w", format="mp4", options=options) as container:
        stream = container.add_stream("aac", rate=SAMPLE_RATE)
        stream.layout = "stereo"
        stream.bit_rate = 128_000
        blocks = [*audio_frames(make_samples(borders_s[-1])), None]
        packets = [packet for block in blocks for packet in stream.encode(block)]
        for packet in packets[1 : cuts[-1] + 1]:
            container.mux(packet)
    init, fragments = _split(target.getvalue())
    return Pieces(name=name, init=init, segments=tuple(b"".join(fragments[start:end]) for start, end in pairwise(cuts)))


def boxes(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield (type, whole box) of the top-level MP4 boxes in ``data``."""
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        if size < 8:
            raise ValueError(f"box of {size} bytes at {at}")
        yield data[at + 4 : at + 8], data[at : at + size]
        at += size


def _split(data: bytes) -> tuple[bytes, list[bytes]]:
    init, fragments = b"", []
    for kind, box in boxes(data):
        if kind in {b"ftyp", b"moov"}:
            init += box
        elif kind == b"moof":
            fragments.append(box)
        elif kind == b"mdat":
            fragments[-1] += box
    return init, fragments


def _plan(borders_s: Sequence[int], fps: int, sizes: Sequence[tuple[int, int]]) -> Plan:
    renditions = tuple(
        Rendition(
            name=f"{height}",
            kind=RenditionKind.ENCODE,
            width=width,
            height=height,
            codecs="avc1.64001e",
            max_rate=width * height * 8,
        )
        for width, height in sizes
    )
    track = AudioTrack(
        name="a0", stream_index=1, kind=AudioKind.ENCODE, sample_rate=SAMPLE_RATE, label="Beeps", is_default=True
    )
    return Plan(
        fingerprint="barcode",
        profile="default",
        video_stream=0,
        origin_ticks=0,
        borders=tuple(border * TICKS_PER_S for border in borders_s),
        chunks=(Chunk(number=0, first_segment=0, end_segment=len(borders_s) - 1),),
        renditions=renditions,
        sets=(RenditionSet(name="all", renditions=tuple(one.name for one in renditions), weight=1),),
        audio=(track,),
        frame_rate=(fps, 1),
        frame_ticks=TICKS_PER_S // fps,
    )


def _measured(pieces: Pieces, borders_s: Sequence[int]) -> RenditionRate:
    lengths = [end - start for start, end in pairwise(borders_s)]
    sizes = [len(one) for one in pieces.segments]
    peak = max(Fraction(size * 8, length) for size, length in zip(sizes, lengths, strict=True))
    return RenditionRate(name=pieces.name, peak=int(peak) + 1, average=sum(sizes) * 8 // borders_s[-1])
