"""Export: fragmented streams of one film, read from pipes, remuxed into one plain MP4 that any player opens.

Text becomes MP4 timed text (3GPP TS 26.245) without its styles, whose cues follow one another: where two were shown
at once, their lines stand together.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import av
from av.stream import Disposition

from app.media.chapters import Chapter
from app.media.languages import three_letters
from app.media.source import TICKS_PER_S
from app.media.text import CueLine, parse_webvtt, plain_text
from app.transcode.messages import JoinedText, JoinFilm
from app.transcode.reporting import Reporter

_TEXT_TIME_BASE = Fraction(1, 1000)
_LONGEST_TEXT = 0xFFFF
_TEXT_HEADER = b"""[Script Info]
ScriptType: v4.00+
PlayResX: 384
PlayResY: 288

[V4+ Styles]
Format: Name, Fontname, Fontsize, PrimaryColour, SecondaryColour, OutlineColour, BackColour, Bold, Italic, Underline, \
StrikeOut, ScaleX, ScaleY, Spacing, Angle, BorderStyle, Outline, Shadow, Alignment, MarginL, MarginR, MarginV, Encoding
Style: Default,Arial,16,&Hffffff,&Hffffff,&H0,&H0,0,0,0,0,100,100,0,0,1,1,0,2,10,10,10,0

[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
"""
"""From which FFmpeg's encoder makes the sample description of plain white text at the bottom."""


def join_film(request: JoinFilm, reporter: Reporter) -> int:
    """Write the film to ``output_fd`` and return its size in bytes."""
    inputs = [open_pipe(fd) for fd in request.inputs]
    with os.fdopen(os.dup(request.output_fd), "wb") as file:
        with av.open(file, "w", format="mp4", options={"movflags": "use_metadata_tags"}) as output:
            _remux(inputs, output, request, reporter)
        file.flush()
        os.fsync(file.fileno())
        size = os.fstat(file.fileno()).st_size
    for one in inputs:
        one.close()
    return size


def open_pipe(fd: int) -> Any:
    """Open a fragmented MP4 stream that arrives on a descriptor."""
    return av.open(
        "fd:", "r", format="mov", options={"fd": str(fd), "protocol_whitelist": "fd", "format_whitelist": "mov"}
    )


def _remux(inputs: list[Any], output: Any, request: JoinFilm, reporter: Reporter) -> None:
    outs: list[Any] = []
    for number, one in enumerate(inputs):
        out = output.add_stream_from_template(one.streams[0])
        if number:
            out.metadata["title"] = request.labels[number]
            if request.languages[number]:
                out.metadata["language"] = request.languages[number]
        outs.append(out)
    texts = list(enumerate(request.text, start=len(outs)))
    outs += [_text_stream(output, one) for _, one in texts]
    output.set_chapters([_chapter(number, one) for number, one in enumerate(request.chapters)])
    output.start_encoding()
    streams = [_packets(n, one) for n, one in enumerate(inputs)] + [_text_packets(n, one) for n, one in texts]
    for number, packet in heapq.merge(*streams, key=_decode_second):
        ticks = int(packet.dts * packet.time_base * 90_000)
        packet.stream = outs[number]
        output.mux(packet)
        reporter.progress(min(1000, ticks * 1000 // max(1, request.duration_ticks)), ticks)


def _text_stream(output: Any, text: JoinedText) -> Any:
    stream = output.add_stream("mov_text")
    stream.codec_context.subtitle_header = _TEXT_HEADER
    stream.time_base = _TEXT_TIME_BASE
    stream.metadata["title"] = text.label
    if language := three_letters(text.language):
        stream.metadata["language"] = language
    if text.is_forced:
        stream.disposition = Disposition.forced
    return stream


def _text_packets(number: int, text: JoinedText) -> Iterator[tuple[int, Any]]:
    for cue in CueLine(parse_webvtt(text.data.decode())).flattened():
        words = plain_text(cue.text).encode()[:_LONGEST_TEXT].decode(errors="ignore").encode()
        packet = av.Packet(len(words).to_bytes(2, "big") + words)
        packet.time_base = _TEXT_TIME_BASE
        packet.pts = packet.dts = cue.start_ticks * 1000 // TICKS_PER_S
        packet.duration = (cue.end_ticks - cue.start_ticks) * 1000 // TICKS_PER_S
        yield number, packet


def _chapter(number: int, chapter: Chapter) -> Any:
    return {
        "id": number,
        "start": chapter.start_ticks,
        "end": chapter.end_ticks,
        "time_base": Fraction(1, TICKS_PER_S),
        "metadata": {"title": chapter.title or str(number + 1)},
    }


def _packets(number: int, container: Any) -> Iterator[tuple[int, Any]]:
    for packet in container.demux(container.streams[0]):
        if packet.size:
            yield number, packet


def _decode_second(entry: tuple[int, Any]) -> Any:
    return entry[1].dts * entry[1].time_base
