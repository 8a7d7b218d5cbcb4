"""Small films as values, for the playback tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from app.media.plan import AudioKind, AudioTrack, Chunk, Plan, Rendition, RenditionKind, RenditionSet

MEDIA = "ab" * 16
BORDERS = (0, 180_000, 720_000, 1_260_000, 1_500_001)


def make_rendition(name: str = "720", **changes: Any) -> Rendition:
    fields: dict[str, Any] = {
        "name": name,
        "kind": RenditionKind.ENCODE,
        "width": 1280,
        "height": 720,
        "codecs": "avc1.64001f",
        "max_rate": 3_000_000,
    }
    return Rendition(**(fields | changes))


def make_track(name: str = "a0", **changes: Any) -> AudioTrack:
    fields: dict[str, Any] = {
        "name": name,
        "stream_index": 1,
        "kind": AudioKind.ENCODE,
        "sample_rate": 48_000,
        "label": "English",
        "language": "en",
        "is_default": True,
    }
    return AudioTrack(**(fields | changes))


def make_plan(
    *,
    borders: tuple[int, ...] = BORDERS,
    audio: tuple[AudioTrack, ...] | None = None,
    renditions: tuple[Rendition, ...] | None = None,
    fingerprint: str = "f",
) -> Plan:
    pictures = renditions or (
        make_rendition("720"),
        make_rendition("360", width=640, height=360, max_rate=800_000, codecs="avc1.64001e"),
    )
    return Plan(
        fingerprint=fingerprint,
        profile="default",
        video_stream=0,
        origin_ticks=0,
        borders=borders,
        chunks=(Chunk(number=0, first_segment=0, end_segment=len(borders) - 1),),
        renditions=pictures,
        sets=(RenditionSet(name="all", renditions=tuple(one.name for one in pictures), weight=1),),
        audio=(make_track(),) if audio is None else audio,
        frame_rate=(30_000, 1001),
        frame_ticks=3003,
    )


async def until(condition: Callable[[], bool]) -> None:
    """Let the event loop run until ``condition`` holds; the test's own time limit is the end of patience."""
    while not condition():  # noqa: ASYNC110 (what is looked at is plain state of the code under test)
        await asyncio.sleep(0)
