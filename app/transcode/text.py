"""The ``text`` task, and the first look at a file beside the film: from what a source says to WebVTT.

Nothing of a subtitle file is trusted: it is read in a child, bounded, and what comes out is read back by FFmpeg.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

import av
import pysubs2
from av.error import FFmpegError

from app.core.errors import BugError, ErrorCode, ExpectedError
from app.media.film import RenditionFacts
from app.media.source import TICKS_PER_S
from app.media.text import Cue, arrange_cues, format_webvtt
from app.transcode.charset import decode_text
from app.transcode.markup import Look, Marked, format_cue_text, read_ass, read_html, read_mov_text
from app.transcode.messages import MakeText, ReadSidecar, SegmentMade, SidecarText
from app.transcode.opening import to_ticks
from app.transcode.raw_text import MAX_CUE_BYTES, MAX_TRACK_CUES, RawCue, RawText, decode_raw_text, encode_raw_text
from app.transcode.reporting import Reporter

_TICKS_PER_MS = TICKS_PER_S // 1000
_LONGEST_GUESS_TICKS = 5 * TICKS_PER_S
"""How long a text stands whose source does not say."""
_HEAD_LETTERS = 4096
_SRT_TIMING = re.compile(r"\d+:\d+[:.,]\d+.{0,20}-->")
_ASS_FIELDS = 9
"""Fields of an ASS line in a container: ReadOrder, Layer, Style, Name, MarginL, MarginR, MarginV, Effect, Text."""
_ASS_STYLE, _ASS_TEXT = 2, 8
_CODECS = {"srt": "subrip", "vtt": "webvtt", "ass": "ass", "ssa": "ass"}


def read_sidecar(request: ReadSidecar) -> SidecarText:
    """Return the track in a file beside the film; raises ``ExpectedError`` unreadable when there is no text in it."""
    text, charset = decode_text(request.data, language=request.language, charset=request.charset)
    text = text.replace("\x00", "").replace("\r\n", "\n").replace("\r", "\n")
    subtitles = _parse(text, request.kind)
    codec = _CODECS.get(subtitles.format or "", "subrip")
    raw = RawText(codec=codec, header=_header_of(subtitles, codec), cues=tuple(_raw_cues(subtitles, codec)))
    if not any(one.text for one in _cues_of(raw)):
        raise ExpectedError(ErrorCode.UNREADABLE, "There is no text with times in it.")
    return SidecarText(codec=codec, charset=charset, raw=encode_raw_text(raw))


def _parse(text: str, kind: str) -> pysubs2.SSAFile:
    """Read a file as what it looks like, else as what its name says."""
    subtitles = _read(text, _kind_of(text) or kind)
    if subtitles is None:
        raise ExpectedError(ErrorCode.UNREADABLE, "This is not a subtitle file that can be read.")
    return subtitles


def _kind_of(text: str) -> str | None:
    """Return what a file looks like; the parser's own guess knows formats that are none of ours (XML, JSON)."""
    head = text[:_HEAD_LETTERS].lstrip()
    if head.startswith("WEBVTT"):
        return "vtt"
    if "[Script Info]" in head or "[Events]" in head:
        return "ssa" if "[V4 Styles]" in text else "ass"
    return "srt" if _SRT_TIMING.search(head) else None


def _read(text: str, kind: str) -> pysubs2.SSAFile | None:
    """Return what the parser makes of ``text``, None when it gives up: it raises whatever a bad line leads to."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return pysubs2.SSAFile.from_string(text, format_=kind, keep_html_tags=True)
    except (pysubs2.Pysubs2Error, ValueError, LookupError, AttributeError, TypeError, ArithmeticError):
        return None


def _header_of(subtitles: pysubs2.SSAFile, codec: str) -> bytes:
    if codec != "ass":
        return b""
    only_styles = pysubs2.SSAFile()
    only_styles.styles = subtitles.styles
    return only_styles.to_string("ass").encode()


def _raw_cues(subtitles: pysubs2.SSAFile, codec: str) -> Iterator[RawCue]:
    """Yield events as a container would hold them."""
    for event in subtitles.events[:MAX_TRACK_CUES]:
        if event.is_comment:
            continue
        text = f"0,0,{event.style},,0,0,0,,{event.text}" if codec == "ass" else event.text.replace("\\N", "\n")
        data = text.encode(errors="replace")
        if len(data) <= MAX_CUE_BYTES and event.start < event.end:
            yield RawCue(start_ticks=event.start * _TICKS_PER_MS, end_ticks=event.end * _TICKS_PER_MS, data=data)


def make_text(request: MakeText, reporter: Reporter) -> tuple[RenditionFacts, ...]:
    """Make the WebVTT file of a track, check and report it."""
    cues = arrange_cues(_cues_of(decode_raw_text(request.raw)), request.duration_ticks)
    data = format_webvtt(cues).encode()
    _check(data, cues)
    reporter.made(SegmentMade(name=request.track, number=0, data=data, duration_ticks=request.duration_ticks))
    facts = RenditionFacts(
        name=request.track,
        frames=len(cues),
        first_ticks=0,
        end_ticks=request.duration_ticks,
        size_bytes=len(data),
        peak_rate=len(data) * 8 * TICKS_PER_S // max(1, request.duration_ticks),
        checked_frames=len(cues),
    )
    return (facts,)


def _check(data: bytes, cues: tuple[Cue, ...]) -> None:
    """Read the file back with FFmpeg: every cue at its time."""
    try:
        with av.open(io.BytesIO(data), "r", format="webvtt") as container:
            stream = container.streams[0]
            times = [to_ticks(one.pts or 0, stream.time_base) for one in container.demux(stream) if one.size]
    except FFmpegError as error:
        raise BugError(f"a WebVTT file cannot be read: {error}") from error
    if times != [cue.start_ticks for cue in cues]:
        raise BugError("a WebVTT file has cues at other times than planned")


def _cues_of(raw: RawText) -> Iterator[Cue]:
    marked = _mark(raw)
    for cue, (start, end) in zip(marked, _times_of(raw.cues), strict=True):
        if cue is not None and start < end:
            text = format_cue_text(cue.runs)
            yield Cue(start_ticks=start, end_ticks=end, text=text, settings=cue.settings)


def _times_of(cues: tuple[RawCue, ...]) -> Iterator[tuple[int, int]]:
    """Yield when cues begin and end; in a track without any durations each one stands until the next."""
    if any(one.end_ticks > one.start_ticks for one in cues):
        yield from ((one.start_ticks, one.end_ticks) for one in cues)
        return
    for one, following in pairwise((*cues, None)):
        limit = one.start_ticks + _LONGEST_GUESS_TICKS if one is not None else 0
        if one is not None:
            yield one.start_ticks, min(limit, following.start_ticks) if following is not None else limit


def _mark(raw: RawText) -> Iterable[Marked | None]:
    """Return the text of each cue, taken apart; None for what holds none."""
    match raw.codec:
        case "mov_text":
            return [read_mov_text(one.data) for one in raw.cues]
        case "ass" | "ssa":
            looks = _looks_of(raw.header)
            return [_read_ass_line(line, looks) for line in _decoded(raw.cues)]
        case "webvtt":
            unboxed = tuple(
                RawCue(start_ticks=one.start_ticks, end_ticks=one.end_ticks, data=_unboxed(one.data))
                for one in raw.cues
            )
            return [read_html(text) for text in _decoded(unboxed)]
        case _:
            return [read_html(text) for text in _decoded(raw.cues)]


def _decoded(cues: Iterable[RawCue]) -> list[str]:
    """Return the text of all cues, whose letters are written in one way."""
    parts = [one.data for one in cues]
    _, charset = decode_text(b"\n".join(parts))
    return [part.decode(charset, errors="replace").replace("\x00", "") for part in parts]


def _read_ass_line(line: str, looks: Mapping[str, Look]) -> Marked | None:
    fields = line.split(",", _ASS_FIELDS - 1)
    return read_ass(fields[_ASS_TEXT], fields[_ASS_STYLE].strip(), looks) if len(fields) == _ASS_FIELDS else None


def _looks_of(header: bytes) -> dict[str, Look]:
    text = decode_text(header)[0].replace("\x00", "").replace("\r\n", "\n")
    subtitles = _read(text, _kind_of(text) or "ass")
    return {name: _look_of(style) for name, style in subtitles.styles.items()} if subtitles is not None else {}


def _look_of(style: pysubs2.SSAStyle) -> Look:
    named = {"i": style.italic, "b": style.bold, "u": style.underline}
    return Look(
        tags=frozenset(name for name, is_on in named.items() if is_on), is_top=int(style.alignment) in {7, 8, 9}
    )


def _unboxed(data: bytes) -> bytes:
    """Return the text of a WebVTT sample of MP4, which is a row of boxes (ISO/IEC 14496-30); others as they are."""
    if data[4:8] not in {b"vttc", b"vtte", b"vttx"}:
        return data
    texts, place = [], 0
    while place + 8 <= len(data):
        size = max(8, int.from_bytes(data[place : place + 4], "big"))
        kind = data[place + 4 : place + 8]
        if kind == b"payl":
            texts.append(data[place + 8 : place + size])
        place += 8 if kind == b"vttc" else size
    return b"\n".join(texts)
