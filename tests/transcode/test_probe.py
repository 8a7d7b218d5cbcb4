"""What a probe says about a source: streams, languages, colours, what is left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.media.source import TICKS_PER_S, SourceInfo
from app.transcode.opening import open_source
from app.transcode.probe import probe_source
from tests.transcode.lab import FPS, ffmpeg, handle

CUES = "1\n00:00:00,500 --> 00:00:02,000\nHello\n\n"


def probe(path: Path) -> SourceInfo:
    with open_source(handle(path)) as opened:
        return probe_source(opened)


def test_a_plain_film_is_described(film: Path) -> None:
    info = probe(film)
    assert info.video is not None
    assert (info.video.codec, info.video.width, info.video.height) == ("h264", 320, 180)
    assert (info.video.pixel_format, info.video.bit_depth, info.video.frame_rate) == ("yuv420p", 8, (FPS, 1))
    assert not info.video.interlaced
    assert (info.video.rotation, info.video.mirrored) == (0, False)
    assert info.duration_ticks == pytest.approx(12 * TICKS_PER_S, abs=3000)
    assert info.size_bytes == film.stat().st_size
    (track,) = info.audio
    assert (track.codec, track.profile, track.channels, track.sample_rate) == ("aac", "LC", 2, 48_000)
    assert info.left_out == ()


def test_languages_titles_and_the_default_are_read(film: Path, shelf: Path) -> None:
    path = shelf / "languages.mkv"
    tags = ("-metadata:s:a:0", "language=eng", "-metadata:s:a:1", "language=jpn", "-metadata:s:a:1", "title=Comments")
    default = ("-disposition:a:0", "0", "-disposition:a:1", "default")
    ffmpeg("-i", film, "-map", "0:v", "-map", "0:a", "-map", "0:a", "-c", "copy", *tags, *default, path)
    first, second = probe(path).audio
    assert (first.language, first.title, first.is_default) == ("eng", "", False)
    assert (second.language, second.title, second.is_default) == ("jpn", "Comments", True)


def test_text_tracks_are_listed_and_attachments_and_data_are_left_out(film: Path, shelf: Path) -> None:
    cues, font, path = shelf / "cues.srt", shelf / "font.ttf", shelf / "extras.mkv"
    cues.write_text(CUES)
    font.write_bytes(b"OTTO")
    extras = ("-attach", font, "-metadata:s:t", "mimetype=application/x-truetype-font")
    ffmpeg("-i", film, "-i", cues, "-map", "0", "-map", "1", "-c", "copy", "-c:s", "ass", *extras, path)
    info = probe(path)
    (text,) = info.text
    assert text.codec in {"ass", "ssa"}
    assert not text.is_bitmap
    assert len(info.left_out) == 1
    assert "attachment" in info.left_out[0]


def test_a_timecode_track_is_left_out_and_said(film: Path, shelf: Path) -> None:
    path = shelf / "timecode.mov"
    ffmpeg("-i", film, "-c", "copy", "-timecode", "01:00:00:00", path)
    assert any("data" in words for words in probe(path).left_out)


@pytest.mark.parametrize(
    ("transfer", "name"), [("smpte2084", "smpte2084"), ("arib-std-b67", "arib-std-b67"), ("bt709", "bt709")]
)
def test_the_transfer_curve_tells_hdr(shelf: Path, transfer: str, name: str) -> None:
    path = shelf / f"curve {transfer}.mp4"
    options = f"log-level=none:colorprim=bt2020:transfer={transfer}:colormatrix=bt2020nc"
    source = ("-f", "lavfi", "-i", "testsrc2=s=160x90:r=25:d=0.4", "-pix_fmt", "yuv420p10le")
    ffmpeg(*source, "-c:v", "libx265", "-preset", "ultrafast", "-x265-params", options, path)
    video = probe(path).video
    assert video is not None
    assert (video.transfer, video.primaries, video.matrix, video.bit_depth) == (name, "bt2020", "bt2020nc", 10)


@pytest.mark.parametrize("pixel_format", ["yuva420p", "yuva444p10le", "bgra"])
def test_transparency_is_noticed(shelf: Path, pixel_format: str) -> None:
    path = shelf / f"alpha {pixel_format}.mkv"
    source = "testsrc2=s=160x90:r=25:d=0.2"
    ffmpeg("-f", "lavfi", "-i", source, "-pix_fmt", pixel_format, "-c:v", "ffv1", path)
    video = probe(path).video
    assert video is not None
    assert video.has_alpha


@pytest.mark.parametrize("pixel_format", ["yuv420p", "gbrp", "gray", "gray10le"])
def test_where_there_is_none_no_transparency_is_seen(shelf: Path, pixel_format: str) -> None:
    path = shelf / f"opaque {pixel_format}.mkv"
    source = "testsrc2=s=160x90:r=25:d=0.2"
    ffmpeg("-f", "lavfi", "-i", source, "-pix_fmt", pixel_format, "-c:v", "ffv1", path)
    video = probe(path).video
    assert video is not None
    assert not video.has_alpha


def test_of_two_films_in_one_file_the_longer_is_shown(film: Path, shelf: Path) -> None:
    path = shelf / "two films.mp4"
    short = ("-f", "lavfi", "-i", "testsrc2=s=640x360:r=25:d=1")
    ffmpeg(*short, "-i", film, "-map", "0:v", "-map", "1:v", "-c:v", "libx264", "-preset", "ultrafast", path)
    info = probe(path)
    assert info.video is not None
    assert info.video.index == 1
    assert info.left_out == ("second picture stream 0",)
