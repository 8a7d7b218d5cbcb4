"""Poster, sheets of thumbnails, and the film joined into one file again."""

from __future__ import annotations

import io
import json
import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt
import pytest

from app.media.chapters import Chapter
from app.media.film import StillsInfo
from app.media.text import Cue, format_webvtt
from app.transcode.join import join_film
from app.transcode.messages import JoinedText, JoinFilm, MakeSample, MakeStills, PlayThrough, StillMade
from app.transcode.playthrough import play_through
from app.transcode.reporting import MemoryReporter
from app.transcode.sample import make_sample
from app.transcode.stills import encode_jpeg, make_stills
from tests.judges.barcode import read_frame_number
from tests.transcode.lab import ffmpeg, handle, index, make_pictures, make_sound, shots

Pixels = npt.NDArray[np.uint8]


def stills_of(path: Path) -> tuple[StillsInfo, dict[tuple[str, int], Pixels]]:
    _, plan = index(path)
    reporter = MemoryReporter()
    info = make_stills(MakeStills(source=handle(path), plan=plan), reporter)
    made = [one for one in reporter.reports if isinstance(one, StillMade)]
    return info, {(one.name, one.number): decoded(one.data) for one in made}


def decoded(jpeg: bytes) -> Pixels:
    """Return the RGB of a JPEG, judged by FFmpeg's reader."""
    with av.open(io.BytesIO(jpeg), "r", format="jpeg_pipe") as container:
        return np.asarray(next(container.decode(video=0)).to_ndarray(format="rgb24"), np.uint8)


def tiles(info: StillsInfo, sheet: Pixels) -> list[Pixels]:
    """Return the thumbnails of a sheet, left to right, top to bottom."""
    rows = sheet.shape[0] // info.tile_height
    return [
        sheet[row * info.tile_height :, column * info.tile_width :][: info.tile_height, : info.tile_width]
        for row in range(rows)
        for column in range(info.columns)
    ]


@pytest.mark.parametrize("name", ["film.mp4", "film.ts"])
def test_each_thumbnail_shows_the_last_keyframe_before_its_moment(film: Path, shelf: Path, name: str) -> None:
    path = shelf / f"thumbnails of {name}"
    ffmpeg("-i", film, "-c", "copy", path)
    info, made = stills_of(path)
    assert (info.count, info.interval_ticks) == (12, 90_000)
    sheet = made["sheet", 0]
    assert sheet.shape[:2] == (2 * info.tile_height, info.columns * info.tile_width)
    numbers = [read_frame_number(tile[:, :, 1]) for tile in tiles(info, sheet)[: info.count]]
    assert numbers == [second // 2 * 60 for second in range(12)]


def test_the_poster_has_the_shape_of_the_film_and_is_not_black(film: Path, shelf: Path) -> None:
    path = shelf / "begins black.mp4"
    black = "drawbox=t=fill:color=black:enable='lt(t,5)'"
    ffmpeg("-i", film, "-an", "-vf", black, "-c:v", "libx264", "-preset", "ultrafast", "-g", "30", path)
    _, made = stills_of(path)
    poster = made["poster", 0]
    assert poster.shape == (180, 320, 3)
    assert float(poster.std()) > 20


def test_stills_of_a_turned_film_stand_upright(film: Path, shelf: Path) -> None:
    data = film.read_bytes()
    place = data.index(b"tkhd") + 44
    quarter = b"".join(
        number.to_bytes(4, "big", signed=True) for number in (0, 1 << 16, 0, -1 << 16, 0, 0, 0, 0, 1 << 30)
    )
    path = shelf / "turned stills.mp4"
    path.write_bytes(data[:place] + quarter + data[place + 36 :])
    info, made = stills_of(path)
    assert info.tile_height > info.tile_width
    assert made["poster", 0].shape == (320, 180, 3)
    assert read_frame_number(np.rot90(made["poster", 0][:, :, 1])) is not None


def test_a_film_of_one_picture_has_a_poster_and_one_thumbnail(film: Path, shelf: Path) -> None:
    path = shelf / "one picture.mp4"
    ffmpeg("-i", film, "-an", "-frames:v", "1", "-c:v", "libx264", path)
    info, made = stills_of(path)
    assert info.count == 1
    assert set(made) == {("poster", 0), ("sheet", 0)}


def test_colours_of_a_jpeg_are_those_of_the_pixels() -> None:
    pixels = np.zeros((64, 96, 3), np.uint8)
    pixels[:, :32], pixels[:, 32:64], pixels[:, 64:] = (255, 0, 0), (0, 160, 40), (128, 128, 128)
    seen = decoded(encode_jpeg(pixels))
    assert seen.shape == pixels.shape
    for column in (16, 48, 80):
        assert np.abs(seen[32, column].astype(int) - pixels[32, column].astype(int)).max() < 12


def run_with_pipes(parts: Sequence[bytes], act: Any) -> Any:
    """Call ``act`` with the read ends of pipes into which ``parts`` flow."""
    reads, threads = [], []
    for part in parts:
        read, write = os.pipe()
        reads.append(read)
        threads.append(threading.Thread(target=_pour, args=(write, part)))
        threads[-1].start()
    try:
        return act(tuple(reads))
    finally:
        for read in reads:
            os.close(read)
        for thread in threads:
            thread.join()


def _pour(fd: int, data: bytes) -> None:
    with os.fdopen(fd, "wb") as pipe:
        pipe.write(data)


@pytest.fixture(scope="session")
def pieces(film: Path) -> tuple[bytes, bytes]:
    """Return the best rendition and the sound of the film, each as one stream."""
    _, plan = index(film)
    picture = make_pictures(film, plan, "copy").reporter.bytes_of(plan.renditions[0].name)
    return picture, make_sound(film, plan).reporter.bytes_of("a0")


def test_an_exported_film_is_one_mp4_with_every_picture_and_its_sound(
    pieces: tuple[bytes, bytes], tmp_path: Path
) -> None:
    path = tmp_path / "export.mp4"
    with path.open("wb") as file:

        def join(inputs: tuple[int, ...]) -> int:
            request = JoinFilm(
                inputs=inputs,
                labels=("", "Beeps"),
                languages=("", "ger"),
                output_fd=file.fileno(),
                duration_ticks=12 * 90_000,
            )
            return join_film(request, MemoryReporter())

        assert run_with_pipes(pieces, join) == path.stat().st_size
    command = ["ffprobe", "-v", "error", "-show_streams", "-show_format", "-of", "json", str(path)]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=30).stdout)
    picture, track = answer["streams"]
    assert (picture["codec_name"], picture["nb_frames"], track["codec_name"]) == ("h264", "360", "aac")
    assert track["tags"]["language"] == "ger"
    assert float(answer["format"]["duration"]) == pytest.approx(12, abs=0.03)
    assert float(picture["start_time"]) == 0
    assert [shot.number for shot in shots(path.read_bytes())] == list(range(360))


def test_an_exported_film_has_its_text_and_chapters(pieces: tuple[bytes, bytes], tmp_path: Path) -> None:
    path = tmp_path / "export.mp4"
    cues = [
        Cue(start_ticks=45_000, end_ticks=180_000, text="<i>Grüße</i> &amp; mehr"),
        Cue(start_ticks=90_000, end_ticks=270_000, text="two\nlines"),
    ]
    text = JoinedText(label="Deutsch", language="ger", data=format_webvtt(cues).encode(), is_forced=True)
    chapters = (
        Chapter(start_ticks=0, end_ticks=540_000, title="First"),
        Chapter(start_ticks=540_000, end_ticks=1_080_000, title=""),
    )
    with path.open("wb") as file:

        def join(inputs: tuple[int, ...]) -> int:
            request = JoinFilm(
                inputs=inputs,
                labels=("", "Beeps"),
                languages=("", "ger"),
                output_fd=file.fileno(),
                duration_ticks=12 * 90_000,
                text=(text,),
                chapters=chapters,
            )
            return join_film(request, MemoryReporter())

        run_with_pipes(pieces, join)
    command = ["ffprobe", "-v", "error", "-show_streams", "-show_chapters", "-of", "json", str(path)]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=30).stdout)
    (track,) = (one for one in answer["streams"] if one["codec_type"] == "subtitle")
    assert (track["codec_name"], track["tags"]["language"]) == ("mov_text", "ger")
    assert [(float(one["start_time"]), one["tags"]["title"]) for one in answer["chapters"]] == [(0, "First"), (6, "2")]
    seen = (
        subprocess.run(
            ["ffmpeg", "-nostdin", "-v", "error", "-i", str(path), "-map", "0:s:0", "-f", "srt", "-"],
            check=True,
            capture_output=True,
            timeout=30,
        )
        .stdout.decode()
        .replace("\r\n", "\n")
    )
    assert [block.split("\n", 2)[1:] for block in seen.strip().split("\n\n")] == [
        ["00:00:00,500 --> 00:00:01,000", "Grüße & mehr"],
        ["00:00:01,000 --> 00:00:02,000", "Grüße & mehr\ntwo\nlines"],
        ["00:00:02,000 --> 00:00:03,000", "two\nlines"],
    ]
    assert [shot.number for shot in shots(path.read_bytes())] == list(range(360))


def test_playing_through_counts_what_a_player_would_get(pieces: tuple[bytes, bytes]) -> None:
    picture, track = run_with_pipes(pieces, lambda inputs: play_through(PlayThrough(inputs=inputs)))
    assert (picture.frames, picture.errors, picture.first_s, picture.detail) == (360, 0, 0.0, "320x180")
    assert picture.end_s == pytest.approx(12, abs=0.001)
    assert (track.errors, track.detail) == (0, "48000 Hz, 2 channels")
    assert track.end_s == pytest.approx(12, abs=0.03)


@pytest.mark.slow
def test_the_sample_film_has_the_length_that_was_asked_for_and_can_be_copied(tmp_path: Path) -> None:
    path = tmp_path / "sample.mp4"
    with path.open("wb") as file:
        assert make_sample(MakeSample(output_fd=file.fileno(), seconds=1)) == path.stat().st_size
    info, plan = index(path)
    assert plan.duration_ticks == pytest.approx(90_000, abs=3000)
    assert info.audio[0].channels == 2
    assert plan.sets[0].name == "copy"
