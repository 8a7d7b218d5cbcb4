"""A film against its source: pictures and times of every rendition, sound of every track, lengths, playlists."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tests.corpus import commands
from tests.corpus.commands import Decoding, Line, PictureTrack, Pixels, SoundTrack
from tests.corpus.kinds import Kind
from tests.corpus.measures import ALIKE, differing_silence_s, lags, luma, on_background, rank_likeness, ssim
from tests.corpus.playlists import FetchedFilm, Piece
from tests.corpus.source import (
    Showing,
    SourceStreams,
    film_ends,
    shape_of,
    showing_of,
    sounds_of,
    streams_of,
)

LONGEST_OFF_S = 0.04
"""Sound and picture may be apart by this much."""
_SAME_TIME_S = 0.003
_SAMPLES = 24
_LEAST_SSIM, _USUAL_SSIM, _LEAST_RANKS = 0.6, 0.88, 0.95
_MOST_COLOUR_OFF = 10.0
_LONG_SIDE = 240
_BACKGROUNDS = (0, 255, 128, 64, 192, 32, 224)
_PASSED_ON = {"bt709", "unknown", None, "smpte170m", "bt470bg", "bt470m"}


class Report(msgspec.Struct, kw_only=True):
    """What was found; anything in ``wrong`` makes the film wrong."""

    figures: list[str] = []
    wrong: list[str] = []
    notes: list[str] = []


class Sampled(msgspec.Struct, kw_only=True):
    """Pictures of the source, spread over its length, with their numbers."""

    pictures: dict[int, Pixels] = {}
    stride: int = 1

    def offer(self, number: int, pixels: Pixels) -> None:
        """Keep every nth picture; when there are too many, every second of those."""
        if number % self.stride:
            return
        self.pictures[number] = pixels
        if len(self.pictures) > 2 * _SAMPLES:
            self.stride *= 2
            self.pictures = {one: kept for one, kept in self.pictures.items() if one % self.stride == 0}


def judge_film(path: Path, film: FetchedFilm, kind: Kind, warnings: Sequence[str]) -> Report:
    """Compare a finished film with its source."""
    report = Report()
    streams = streams_of(path)
    for piece in (*film.pictures, *film.sounds):
        report.wrong += [f"{piece.name}: {one}" for one in piece.complaints]
    if kind.warned and not warnings:
        report.wrong.append("the film says nothing of what is wrong with its source")
    sounds = sounds_of(path, streams)
    showing, sampled, seen = None, Sampled(), None
    if streams.picture is not None and film.pictures:
        seen, sampled = _look_at_source(path, streams, film.pictures[0], kind)
        showing = showing_of(seen.times) if seen.times else None
    if showing is None and not sounds:
        report.notes.append("ffmpeg can decode nothing of the source, so there is nothing to compare with")
        return report
    if "avi" in str(streams.container) and streams.picture and streams.picture.get("has_b_frames"):
        kind = msgspec.structs.replace(kind, is_clockless=True)  # AVI says only when a picture is decoded
    is_damaged = bool(seen and seen.complaints) or any(track.complaints for track in sounds)
    origin, end = film_ends(showing, sounds)
    step = max(showing.step if showing else 0.0, LONGEST_OFF_S)
    if showing and len(showing.times) > 1:
        step = max(step, showing.times[-1] - showing.times[-2])
    if showing is not None and kind.is_clockless:
        step *= 3  # decoders give the first picture late
    is_rough = is_damaged or (showing is not None and showing.joins > 0)
    _judge_length(report, film, end - origin, step, is_damaged=is_rough)
    if showing is not None and seen is not None and streams.picture is not None:
        judge = _PictureJudge(report, streams, kind, showing, sampled, seen, origin, is_damaged=is_damaged)
        for piece in film.pictures:
            judge.judge(piece)
    joined = showing is not None and showing.joins > 0
    _judge_sounds(report, path, streams, film, sounds, origin, joined=joined)
    return report


def _judge_length(report: Report, film: FetchedFilm, length: float, step: float, *, is_damaged: bool) -> None:
    made = [piece.length_s for piece in film.pictures or film.sounds]
    report.figures.append(f"{made[0]:.2f}/{length:.2f} s")
    if max(made) - min(made) > 1e-3:
        report.wrong.append(f"renditions last {min(made):.3f} to {max(made):.3f} s")
    if abs(made[0] - length) > step * 1.05 + (1.0 if is_damaged else 0.0):
        report.wrong.append(f"the film lasts {made[0]:.3f} s, its source {length:.3f} s")


def _small(piece: Piece) -> tuple[int, int]:
    width, height = (int(one) for one in piece.attributes["RESOLUTION"].split("x"))
    share = min(1.0, _LONG_SIDE / max(width, height))
    return max(8, round(width * share)), max(8, round(height * share))


def _look_at_source(path: Path, streams: SourceStreams, best: Piece, kind: Kind) -> tuple[PictureTrack, Sampled]:
    """Decode the source as it must be shown; interlaced pictures become one per field."""
    picture = streams.picture or {}
    index = int(picture["index"])
    size = _small(best)
    matrix = _tone_mapped(streams.is_hdr) + _unnamed_matrix(picture)
    seen, sampled = _decode(path, index, size, (*matrix,), streams.decoder)
    interlaced = sum(field in "TB" for field in seen.fields) * 2 > len(seen.fields)
    if interlaced and not kind.is_telecined:
        fields = seen.fields
        seen, sampled = _decode(path, index, size, ("bwdif=mode=send_field:deint=all", *matrix), streams.decoder)
        seen.fields = fields
    if kind.is_telecined:
        first = seen.times[0]
        seen, sampled = _decode(path, index, size, ("fieldmatch", "decimate", *matrix), streams.decoder)
        moved = (seen.times[0] or 0.0) - (first or 0.0)
        seen.times = [None if time is None else time - moved for time in seen.times]
    if len(set(seen.sizes)) > 1:
        seen, sampled = _decode(path, index, size, (*matrix,), streams.decoder, fits=True)
    return seen, sampled


def _tone_mapped(is_hdr: bool) -> tuple[str, ...]:  # noqa: FBT001
    """Bring HDR near enough to what must come out that light and dark can be compared: the same primaries."""
    if not is_hdr:
        return ()
    linear = "zscale=transfer=linear:npl=203,format=gbrpf32le,tonemap=mobius:desat=0"
    return (linear, "zscale=primaries=bt709:transfer=bt709:matrix=bt709:range=tv,format=yuv420p")


def _unnamed_matrix(picture: dict[str, Any]) -> tuple[str, ...]:
    """Name the colour matrix where the source does not: by custom HD is BT.709."""
    named = picture.get("color_space", "unknown") not in {"unknown", "reserved"}
    is_hd = int(picture.get("height", 0)) >= 720
    return () if named or not is_hd or "rgb" in picture.get("pix_fmt", "") else ("setparams=colorspace=bt709",)


def _decode(
    path: Path,
    index: int,
    size: tuple[int, int],
    filters: tuple[str, ...],
    before: tuple[str, ...],
    *,
    fits: bool = False,
) -> tuple[PictureTrack, Sampled]:
    decoding = Decoding(path, index, size=size, filters=filters, before=before, fits=fits)
    sampled = Sampled()
    for number, _, pixels in decoding.pictures():
        sampled.offer(number, pixels)
    return decoding.track, sampled


class _Trio(msgspec.Struct, kw_only=True):
    """The picture that a film shows at a moment, and its neighbours."""

    before: Pixels | None = None
    shown: Pixels | None = None
    after: Pixels | None = None


class _PictureJudge:
    """Judges the picture of all renditions of one film."""

    def __init__(
        self,
        report: Report,
        streams: SourceStreams,
        kind: Kind,
        showing: Showing,
        sampled: Sampled,
        seen: PictureTrack,
        origin: float,
        *,
        is_damaged: bool,
    ) -> None:
        self._report = report
        self._streams = streams
        self._kind = kind
        self._showing = showing
        self._sampled = sampled
        self._seen = seen
        self._origin = origin
        self._is_damaged = is_damaged

    def judge(self, piece: Piece) -> None:
        """Look at one rendition: what it is, when which picture is shown, how it looks."""
        self._judge_stream(piece)
        wanted = {number: self._moment(number) for number in self._sampled.pictures}
        decoding = Decoding(piece.path, 0, size=_small(piece))
        trios, count = _trios(decoding, sorted(wanted.values()), counted=self._is_counted)
        made = [time for time in decoding.track.times if time is not None]
        if decoding.track.complaints:
            self._wrong(piece, f"ffmpeg says: {decoding.track.complaints[0]}")
        if not made or count != len(made):
            self._wrong(piece, f"{count} pictures, {len(made)} with a time")
            return
        self._judge_times(piece, made)
        self._judge_end(piece, made)
        self._judge_looks(piece, {number: trios[time] for number, time in wanted.items()})

    @property
    def _is_counted(self) -> bool:
        """Whether the source's times mean nothing, so that the nth picture stands for the nth."""
        return self._kind.is_clockless or self._showing.repairs > 0 or self._showing.joins > 0

    def _moment(self, number: int) -> float:
        return number if self._is_counted else self._showing.times[number] - self._origin

    def _wrong(self, piece: Piece, what: str) -> None:
        self._report.wrong.append(f"{piece.name}: {what}")

    def _judge_stream(self, piece: Piece) -> None:
        stream = commands.probe(piece.path)["streams"][0]
        if stream.get("pix_fmt") not in {"yuv420p", "yuvj420p"}:
            self._wrong(piece, f"the pictures are {stream.get('pix_fmt')}")
        if stream.get("color_transfer") not in _PASSED_ON or stream.get("color_space") not in _PASSED_ON:
            self._wrong(piece, f"tagged {stream.get('color_transfer')}, {stream.get('color_space')}")
        if stream.get("sample_aspect_ratio", "1:1") not in {"1:1", "N/A", "0:1"}:
            wide, _, high = stream["sample_aspect_ratio"].partition(":")
            if abs(int(wide) / int(high) - 1) > 0.01:
                self._wrong(piece, f"pixels are {stream['sample_aspect_ratio']}")
        if any("rotation" in one for one in stream.get("side_data_list", [])):
            self._wrong(piece, "players are told to turn it once more")
        width, height = self._seen.sizes[0]
        picture = dict(self._streams.picture or {})
        picture.pop("side_data_list", None)  # what ffmpeg showed was turned already
        if _is_on_its_side(self._streams.picture or {}):
            picture["sample_aspect_ratio"] = ":".join(reversed(picture.get("sample_aspect_ratio", "1:1").split(":")))
        shape = shape_of(picture, width, height)
        ours = stream["width"] / stream["height"]
        slack = 0.012 + 1.5 / min(stream["width"], stream["height"])
        if abs(ours / shape - 1) > slack:
            self._wrong(piece, f"its shape is {ours:.3f}, the source's {shape:.3f}")

    def _judge_times(self, piece: Piece, made: Sequence[float]) -> None:
        wanted = [time - self._origin for time in self._showing.thinned()]
        own = [one for one in made if not _near(one, [0.0, *accumulate(piece.durations_s)], _SAME_TIME_S)]
        self._report.figures.append(f"{piece.name} {len(made)}/{len(wanted)}")
        if abs(made[0]) > _SAME_TIME_S:
            self._wrong(piece, f"it begins at {made[0]:.3f} s")
        if self._is_counted or self._is_damaged:
            allowed = max(2, len(wanted) // (10 if self._is_damaged else 50)) + len(piece.durations_s)
            if abs(len(made) - len(wanted)) > allowed:
                self._wrong(piece, f"{len(made)} pictures of {len(wanted)}")
            return
        slack = self._showing.step * 0.6 if self._kind.is_telecined else _SAME_TIME_S
        lost = [one for one in wanted if not _near(one, made, slack)]
        strange = [one for one in own if not _near(one, wanted, slack)]
        if len(lost) == len(strange) == 1 and lost[0] == wanted[-1] and strange[0] == own[-1]:
            return  # how long the last but one is shown is not always said, and guessed in more than one way
        if len(lost) > (1 if self._kind.is_telecined else 0):
            self._wrong(piece, f"{len(lost)} pictures are missing, the first at {lost[0]:.3f} s")
        if strange:
            self._wrong(piece, f"{len(strange)} pictures at times of their own, the first at {strange[0]:.3f} s")

    def _judge_end(self, piece: Piece, made: Sequence[float]) -> None:
        if made[-1] >= piece.length_s:
            self._wrong(piece, f"its last picture is at {made[-1]:.3f} s, its playlist ends at {piece.length_s:.3f} s")
        shortest = min((b - a for a, b in pairwise(made)), default=1.0)
        if shortest <= 0:
            self._wrong(piece, "times do not rise")

    def _judge_looks(self, piece: Piece, trios: dict[int, _Trio]) -> None:
        pairs = [
            (self._sampled.pictures[number], trio) for number, trio in sorted(trios.items()) if trio.shown is not None
        ]
        if not pairs:
            self._wrong(piece, "nothing of it can be compared")
            return
        size = _small(piece)
        pairs = [(_resized(source, size), trio) for source, trio in pairs]
        background = self._background(pairs)
        sources = [on_background(source, background) for source, _ in pairs]
        shown = [on_background(trio.shown, 0) for _, trio in pairs if trio.shown is not None]
        if self._streams.is_hdr:
            self._judge_tones(piece, sources, shown)
            return
        likeness = [ssim(luma(a), luma(b)) for a, b in zip(sources, shown, strict=True)]
        colours = [
            float(np.abs(a.mean(axis=(0, 1)) - b.mean(axis=(0, 1))).max()) for a, b in zip(sources, shown, strict=True)
        ]
        usual, least = statistics.median(likeness), min(likeness)
        self._report.figures.append(f"ssim {usual:.3f}≥{least:.3f}")
        if self._is_damaged:
            return
        if usual < _USUAL_SSIM or least < _LEAST_SSIM:
            self._wrong(piece, f"pictures differ (ssim {usual:.3f}, least {least:.3f})")
        elif statistics.median(colours) > _MOST_COLOUR_OFF:
            self._wrong(piece, f"colours are off by {statistics.median(colours):.0f} of 255")
        if not (self._kind.is_telecined or self._showing.joins):
            self._judge_shift(piece, sources, [trio for _, trio in pairs], usual)

    def _background(self, pairs: Sequence[tuple[Pixels, _Trio]]) -> int:
        """Return the grey on which a transparent source looks most like what was made."""
        if not self._streams.has_alpha:
            return 0

        def apart(level: int) -> float:
            return sum(
                float(np.abs(on_background(source, level) - on_background(trio.shown, 0)).mean())
                for source, trio in pairs
                if trio.shown is not None
            )

        best = min(_BACKGROUNDS, key=apart)
        self._report.notes.append(f"transparent parts are shown on grey {best}")
        return best

    def _judge_tones(self, piece: Piece, sources: Sequence[Any], shown: Sequence[Any]) -> None:
        """HDR: brightness keeps its order, what is white or black is so, nothing else can be asked of other curves."""
        ranks = statistics.median(rank_likeness(luma(a), luma(b)) for a, b in zip(sources, shown, strict=True))
        self._report.figures.append(f"order of tones {ranks:.3f}")
        if ranks < _LEAST_RANKS:
            self._wrong(piece, f"light and dark are not where they are in the source ({ranks:.3f})")

    def _judge_shift(self, piece: Piece, sources: Sequence[Any], trios: Sequence[_Trio], usual: float) -> None:
        for side in ("before", "after"):
            others = [
                ssim(luma(source), luma(on_background(pixels, 0)))
                for source, trio in zip(sources, trios, strict=True)
                if (pixels := getattr(trio, side)) is not None
            ]
            if len(others) > 3 and statistics.median(others) > usual + 0.01:
                self._wrong(piece, f"the picture {side} the one shown is more like the source's")


def _is_on_its_side(picture: dict[str, Any]) -> bool:
    return any(int(one["rotation"]) % 180 for one in picture.get("side_data_list", []) if "rotation" in one)


def _resized(pixels: Pixels, size: tuple[int, int]) -> Pixels:
    """Return the picture in another small size (renditions round their sizes to even numbers of pixels)."""
    width, height = size
    if pixels.shape[:2] == (height, width):
        return pixels
    rows = np.minimum(np.arange(height) * pixels.shape[0] // height, pixels.shape[0] - 1)
    columns = np.minimum(np.arange(width) * pixels.shape[1] // width, pixels.shape[1] - 1)
    resized: Pixels = pixels[rows][:, columns]
    return resized


def _near(time: float, others: Sequence[float], slack: float) -> bool:
    place = int(np.searchsorted(others, time))
    return any(abs(others[one] - time) <= slack for one in (place - 1, place) if 0 <= one < len(others))


def _trios(decoding: Decoding, moments: Sequence[float], *, counted: bool) -> tuple[dict[float, _Trio], int]:
    """Return what is shown at each moment (rising), with its neighbours, and how many pictures there are.

    Moments are seconds or, when ``counted``, numbers of pictures.
    """
    found: dict[float, _Trio] = {}
    waiting = list(moments)
    earlier: Pixels | None = None
    last: Pixels | None = None
    count = 0
    for number, seconds, pixels in decoding.pictures():
        count += 1
        time = number if counted else seconds
        while waiting and time is not None and time > waiting[0] + _SAME_TIME_S:
            found[waiting.pop(0)] = _Trio(before=earlier, shown=last, after=pixels)
        earlier, last = last, pixels
    found |= {moment: _Trio(before=earlier, shown=last) for moment in waiting}
    return found, count


def _judge_sounds(
    report: Report,
    path: Path,
    streams: SourceStreams,
    film: FetchedFilm,
    sounds: Sequence[SoundTrack],
    origin: float,
    *,
    joined: bool,
) -> None:
    if len(film.sounds) != len(sounds):
        report.wrong.append(f"{len(film.sounds)} sound tracks of {len(sounds)}")
        return
    for piece, source, stream in zip(film.sounds, sounds, streams.sounds, strict=False):
        made = commands.hear(piece.path, 0)
        if made.complaints:
            report.wrong.append(f"{piece.name}: ffmpeg says: {made.complaints[0]}")
        if not made.blocks:
            report.wrong.append(f"{piece.name}: no sound comes out")
            continue
        whole = film.pictures[0].length_s if film.pictures else piece.length_s
        end = made.blocks[-1][0] + made.blocks[-1][1]
        if abs(end - whole) > LONGEST_OFF_S or abs(piece.length_s - whole) > LONGEST_OFF_S:
            report.wrong.append(f"{piece.name}: sound ends at {end:.3f} s, the film at {whole:.3f} s")
        if joined or source.complaints:
            report.notes.append("the sound of joined or damaged recordings is not compared")
            continue
        _judge_sound(report, piece, source, made, origin)
        if "FC" in _channels(stream):
            _judge_dialogue(report, path, stream, piece, origin)


def _judge_sound(report: Report, piece: Piece, source: SoundTrack, made: SoundTrack, origin: float) -> None:
    ours, theirs = made.line(0.0), source.line(origin)
    found = lags(theirs, ours)
    if not found:
        return
    report.figures.append("sound " + " ".join(f"{one.lag_s * 1000:+.0f}" for one in found) + " ms")
    for one in found:
        if one.likeness < ALIKE:
            report.wrong.append(f"{piece.name}: the sound at {one.at_s:.1f} s is not the source's ({one.likeness:.2f})")
        elif abs(one.lag_s) > LONGEST_OFF_S:
            report.wrong.append(f"{piece.name}: sound is {one.lag_s * 1000:+.0f} ms off at {one.at_s:.1f} s")
    silent = differing_silence_s(theirs, ours)
    if silent > 0.15:
        report.wrong.append(f"{piece.name}: for {silent:.2f} s it is silent where the source is not, or the reverse")


def _is_alike(a: Line, b: Line) -> bool:
    """Whether two channels carry so much of the same that their shares in a mix cannot be told apart."""
    length = min(len(a), len(b))
    product = abs(float(a[:length] @ b[:length]))
    return product > 0.1 * float(np.linalg.norm(a[:length]) * np.linalg.norm(b[:length]))


def _channels(stream: dict[str, Any]) -> Iterable[str]:
    """Return FC for layouts that have a channel for the dialogue besides left and right."""
    return ["FC"] if int(stream.get("channels", 0)) >= 5 else []


def _judge_dialogue(report: Report, path: Path, stream: dict[str, Any], piece: Piece, origin: float) -> None:
    """Look for the centre of a surround track: in both sides alike, at most about 6 dB down."""
    centre = commands.hear(path, stream["index"], mix="pan=mono|c0=FC").line(origin)
    sides = [commands.hear(path, stream["index"], mix=f"pan=mono|c0={one}").line(origin) for one in ("FL", "FR")]
    if float(np.abs(centre).max(initial=0)) < 1e-3 or any(_is_alike(centre, side) for side in sides):
        return
    levels = []
    for side in ("FL", "FR"):
        line = commands.hear(piece.path, 0, mix=f"pan=mono|c0={side}").line(0.0)
        length = min(len(line), len(centre))
        level = float(line[:length] @ centre[:length]) / float(centre[:length] @ centre[:length])
        levels.append(20 * np.log10(max(abs(level), 1e-6)))
    report.figures.append(f"dialogue {levels[0]:+.1f} {levels[1]:+.1f} dB")
    if min(levels) < -6.5 or max(levels) > 1 or abs(levels[0] - levels[1]) > 1:
        report.wrong.append(f"{piece.name}: the dialogue is at {levels[0]:+.1f} and {levels[1]:+.1f} dB")
