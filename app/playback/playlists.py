"""HLS playlists of a film (RFC 8216, version 7), as pure functions from its layout to text.

Borders are planned, so every playlist lists the whole film from the start (VOD, with an end), made or not.

Durations are printed in microseconds as differences of rounded *positions*, not as rounded differences: so they add
up to the film's length exactly, however many segments there are. Sound cannot be cut at a picture's border, only
between AAC frames of 1024 samples: a track's segment ``i`` starts on the frame edge nearest to border ``i``
(``audio_cuts``, a tie goes to the later edge), and its durations come from sample counts. A segment that gets no
frame at all (borders closer than a frame) is left out of the track's playlist.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from app.media.plan import AudioTrack, Plan, Rendition, TextTrack
from app.media.sound import AAC_FRAME_SAMPLES, frame_edge
from app.media.source import TICKS_PER_S
from app.playback.addresses import AUTO, AUTO_VIDEO_PLAYLIST, format_media_playlist
from app.playback.source import FilmLayout

AUDIO_GROUP = "audio"
TEXT_GROUP = "text"
_MICROSECONDS = 1_000_000
_HEAD = ("#EXTM3U", "#EXT-X-VERSION:7", "#EXT-X-INDEPENDENT-SEGMENTS")
_UNKNOWN_LANGUAGES = {"", "und", "unk", "mis", "zxx", "mul"}


def _round_half_up(numerator: int, denominator: int) -> int:
    return (2 * numerator + denominator) // (2 * denominator)


def audio_cuts(borders: Iterable[int], sample_rate: int) -> tuple[int, ...]:
    """Return, for borders in ticks, the number of the AAC frame that starts nearest to each."""
    return tuple(frame_edge(border, sample_rate) for border in borders)


def _positions_us(units: Iterable[int], units_per_s: int) -> tuple[int, ...]:
    return tuple(_round_half_up(unit * _MICROSECONDS, units_per_s) for unit in units)


def video_positions_us(plan: Plan) -> tuple[int, ...]:
    """Return where the segments of every rendition start, and the end, in microseconds."""
    return _positions_us(plan.borders, TICKS_PER_S)


def audio_positions_us(plan: Plan, track: AudioTrack) -> tuple[int, ...]:
    """Return where the segments of ``track`` start, and the end, in microseconds."""
    samples = (cut * AAC_FRAME_SAMPLES for cut in audio_cuts(plan.borders, track.sample_rate))
    return _positions_us(samples, track.sample_rate)


def format_master(layout: FilmLayout) -> str:
    """Return the multivariant playlist: all renditions, best first, and the groups of sound and text tracks."""
    plan = layout.plan
    text = f',SUBTITLES="{TEXT_GROUP}"' if layout.text else ""
    variants = (
        (_variant(layout, one) + text, format_media_playlist(layout.plan_hash, one.name)) for one in plan.renditions
    )
    lines = (line for variant in variants for line in variant)
    return _lines(*_HEAD, *_audio_group(layout), *_text_group(layout), *lines)


def format_auto_master(layout: FilmLayout) -> str:
    """Return the multivariant playlist with exactly one variant, for players that do not adapt by themselves.

    It is for the desktop player, which reads and draws text itself, so none is listed here.
    """
    return _lines(*_HEAD, *_audio_group(layout), _variant(layout, layout.plan.renditions[0]), AUTO_VIDEO_PLAYLIST)


def format_media(layout: FilmLayout, name: str) -> str:
    """Return the media playlist of a rendition or track, addresses relative to it.

    Raises KeyError when the film has no such name.
    """
    if layout.is_text(name):
        return _text_media(layout)
    return _media(positions_us_of(layout.plan, name), prefix="")


def format_auto_media(layout: FilmLayout) -> str:
    """Return the media playlist in which the gateway picks the rendition, segment by segment."""
    return _media(video_positions_us(layout.plan), prefix=f"../{layout.plan_hash}/{AUTO}/")


def positions_us_of(plan: Plan, name: str) -> tuple[int, ...]:
    """Return where the segments of a rendition or track start, and the end, in microseconds; KeyError when unknown."""
    for track in plan.audio:
        if track.name == name:
            return audio_positions_us(plan, track)
    plan.rendition(name)
    return video_positions_us(plan)


def _media(positions_us: Sequence[int], *, prefix: str) -> str:
    durations = [end - start for start, end in pairwise(positions_us)]
    longest_s = max((_round_half_up(one, _MICROSECONDS) for one in durations), default=1)
    segments = (
        line
        for number, duration in enumerate(durations)
        if duration > 0
        for line in (f"#EXTINF:{_format_us(duration)},", f"{prefix}{number}.m4s")
    )
    return _lines(
        *_HEAD,
        f"#EXT-X-TARGETDURATION:{max(1, longest_s)}",
        "#EXT-X-MEDIA-SEQUENCE:0",
        "#EXT-X-PLAYLIST-TYPE:VOD",
        f'#EXT-X-MAP:URI="{prefix}init.mp4"',
        *segments,
        "#EXT-X-ENDLIST",
    )


def _text_media(layout: FilmLayout) -> str:
    """Return the playlist of a text track: one segment as long as the film (RFC 8216, 6.2.4, allows it for text)."""
    length_us = video_positions_us(layout.plan)[-1]
    return _lines(
        *_HEAD,
        f"#EXT-X-TARGETDURATION:{max(1, _round_half_up(length_us, _MICROSECONDS))}",
        "#EXT-X-MEDIA-SEQUENCE:0",
        "#EXT-X-PLAYLIST-TYPE:VOD",
        f"#EXTINF:{_format_us(length_us)},",
        "0.vtt",
        "#EXT-X-ENDLIST",
    )


def _variant(layout: FilmLayout, rendition: Rendition) -> str:
    tracks = layout.plan.audio
    picture = layout.rate(rendition.name)
    sounds = [layout.rate(one.name) for one in tracks]
    codecs = dict.fromkeys((rendition.codecs, *(one.codecs for one in tracks)))
    numerator, denominator = layout.plan.frame_rate
    attributes = [
        f"BANDWIDTH={picture.peak + max((one.peak for one in sounds), default=0)}",
        f"AVERAGE-BANDWIDTH={picture.average + max((one.average for one in sounds), default=0)}",
        f'CODECS="{",".join(codecs)}"',
        f"RESOLUTION={rendition.width}x{rendition.height}",
        *([f"FRAME-RATE={numerator / denominator:.3f}"] if numerator > 0 and denominator > 0 else []),
        *([f'AUDIO="{AUDIO_GROUP}"'] if tracks else []),
    ]
    return "#EXT-X-STREAM-INF:" + ",".join(attributes)


def _audio_group(layout: FilmLayout) -> list[str]:
    tracks = layout.plan.audio
    default = next((one for one in tracks if one.is_default), tracks[0] if tracks else None)
    labels = _unique([_quotable(one.label) or f"Track {place}" for place, one in enumerate(tracks, 1)])
    return [
        _audio_media(track, label, format_media_playlist(layout.plan_hash, track.name), is_default=track is default)
        for track, label in zip(tracks, labels, strict=True)
    ]


def _audio_media(track: AudioTrack, label: str, address: str, *, is_default: bool) -> str:
    language = _quotable(track.language)
    attributes = [
        "TYPE=AUDIO",
        f'GROUP-ID="{AUDIO_GROUP}"',
        f'NAME="{label}"',
        *([f'LANGUAGE="{language}"'] if language.lower() not in _UNKNOWN_LANGUAGES else []),
        f"DEFAULT={'YES' if is_default else 'NO'}",
        "AUTOSELECT=YES",
        f'CHANNELS="{track.channels}"',
        f'URI="{address}"',
    ]
    return "#EXT-X-MEDIA:" + ",".join(attributes)


def _text_group(layout: FilmLayout) -> list[str]:
    tracks = layout.text
    labels = _unique([_quotable(one.label) or f"Subtitles {place}" for place, one in enumerate(tracks, 1)])
    default = next((one for one in tracks if one.is_default), None)
    return [
        _text_medium(track, label, format_media_playlist(layout.plan_hash, track.name), is_default=track is default)
        for track, label in zip(tracks, labels, strict=True)
    ]


def _text_medium(track: TextTrack, label: str, address: str, *, is_default: bool) -> str:
    language = _quotable(track.language)
    traits = "public.accessibility.transcribes-spoken-dialog,public.accessibility.describes-music-and-sound"
    attributes = [
        "TYPE=SUBTITLES",
        f'GROUP-ID="{TEXT_GROUP}"',
        f'NAME="{label}"',
        *([f'LANGUAGE="{language}"'] if language.lower() not in _UNKNOWN_LANGUAGES else []),
        f"DEFAULT={'YES' if is_default else 'NO'}",
        "AUTOSELECT=YES",
        f"FORCED={'YES' if track.is_forced else 'NO'}",
        *([f'CHARACTERISTICS="{traits}"'] if track.is_hearing_impaired else []),
        f'URI="{address}"',
    ]
    return "#EXT-X-MEDIA:" + ",".join(attributes)


def _quotable(text: str) -> str:
    """Return ``text`` as a quoted attribute may hold it: no quotation mark, no line end, no control character."""
    return "".join(one if one.isprintable() else " " for one in text.replace('"', "'")).strip()


def _unique(labels: Sequence[str]) -> list[str]:
    taken: set[str] = set()
    result = []
    for label in labels:
        candidates = (label if turn == 1 else f"{label} ({turn})" for turn in range(1, len(labels) + 1))
        chosen = next(one for one in candidates if one not in taken)
        taken.add(chosen)
        result.append(chosen)
    return result


def _format_us(duration_us: int) -> str:
    whole, rest = divmod(duration_us, _MICROSECONDS)
    return f"{whole}.{rest:06d}"


def _lines(*lines: str) -> str:
    return "\n".join(lines) + "\n"
