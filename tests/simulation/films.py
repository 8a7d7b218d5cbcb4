"""The films of the simulation: plans, and results that are names of what a vault holds."""

from __future__ import annotations

import msgspec

from app.core.encoding import encode_canonical
from app.media.plan import AudioKind, AudioTrack, Chunk, Plan, Rendition, RenditionKind, RenditionSet


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What a chunk, a track or the stills came to."""

    bundle: str


class SimFilm(msgspec.Struct, frozen=True, kw_only=True):
    """What ``publish`` came to: all bundles, or, against the rule, the tasks that made them."""

    bundles: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()


def plan_of(fingerprint: str, *, planner: int) -> Plan:
    """Return the plan that version ``planner`` makes: different ones cut the film differently."""
    chunks = 1 + planner
    encoded = Rendition(
        name="480", kind=RenditionKind.ENCODE, width=854, height=480, codecs="avc1.64001f", max_rate=1_000_000
    )
    return Plan(
        fingerprint=fingerprint,
        profile="default",
        video_stream=0,
        origin_ticks=0,
        borders=tuple(range(0, 540_000 * (chunks + 1), 540_000)),
        chunks=tuple(Chunk(number=n, first_segment=n, end_segment=n + 1, copied=False) for n in range(chunks)),
        renditions=(encoded,),
        sets=(RenditionSet(name="ladder", renditions=("480",), weight=400),),
        audio=(AudioTrack(name="a0", stream_index=1, kind=AudioKind.ENCODE, sample_rate=48_000, label="Sound"),),
        frame_rate=(30, 1),
        frame_ticks=3000,
    )


def encode_result(value: Result | SimFilm) -> str:
    """Return a result as the text that an outcome holds."""
    return encode_canonical(value).decode()


def bundles_in(kind: str, value: str) -> tuple[str, ...]:
    """Return the bundles that an outcome of a task of ``kind`` names by value."""
    if kind == "index":
        return ()
    if kind == "publish":
        return msgspec.json.decode(value, type=SimFilm).bundles
    return (msgspec.json.decode(value, type=Result).bundle,)
