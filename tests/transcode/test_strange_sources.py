"""What a corpus and a fuzzer brought to light: each test stands for a class of sources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.core.errors import ErrorCode, ExpectedError
from app.media.planning import UNTELECINE
from app.media.scan import JOINED
from app.media.sound import AAC_FRAME_SAMPLES
from app.media.source import TICKS_PER_S
from app.transcode.opening import settled_delay
from app.transcode.picture import fitted_size
from tests.transcode.lab import ffmpeg, index, luma, make_sound, pictures, shots, sound, transcode, write_film

X264 = ("-c:v", "libx264", "-preset", "veryfast", "-crf", "16", "-pix_fmt", "yuv420p")
LOGO = "color=black@0:s=160x90:r=25:d=0.4,format=yuva420p,drawbox=x=40:y=20:w=80:h=50:color={}@1:t=fill:replace=1"
BLACK = 20
"""Brighter is no bar."""


def mean(frame: Any, rows: slice, columns: slice) -> float:
    return float(luma(frame)[rows, columns].mean())


@pytest.mark.parametrize(
    ("shape", "size", "fitted"),
    [
        (16 / 9, (320, 180), (320, 180)),
        (4 / 3, (320, 180), (240, 180)),
        (9 / 16, (320, 180), (102, 180)),
        (2.4, (320, 180), (320, 134)),
        (1.79, (320, 180), (320, 180)),
    ],
)
def test_a_picture_is_shown_whole_in_any_rendition(
    shape: float, size: tuple[int, int], fitted: tuple[int, int]
) -> None:
    assert fitted_size(shape, size) == fitted


def white(size: str, path: Path, *arguments: str) -> bytes:
    ffmpeg("-f", "lavfi", "-i", f"color=white:s={size}:r=25:d=2", *arguments, "-muxdelay", "0", path)
    return path.read_bytes()


def test_a_change_of_shape_gets_bars_and_is_not_stretched(shelf: Path) -> None:
    path = shelf / "shapes.ts"
    parts = [
        white(size, shelf / f"shape{n}.ts", *X264, "-bf", "0", "-output_ts_offset", str(2 * n))
        for n, size in enumerate(("320x180", "240x180", "180x320"))
    ]
    path.write_bytes(b"".join(parts))
    frames = pictures(transcode(path)[1])
    whole, narrow, tall = frames[20], frames[75], frames[125]
    assert {(frame.width, frame.height) for frame in frames} == {(320, 180)}
    assert mean(whole, slice(None), slice(0, 8)) > 200
    for frame, edge in ((narrow, 40), (tall, 109)):
        assert mean(frame, slice(None), slice(0, edge - 4)) < BLACK
        assert mean(frame, slice(None), slice(-(edge - 4), None)) < BLACK
        assert mean(frame, slice(None), slice(edge + 4, -(edge + 4))) > 200


def test_pixels_that_change_their_shape_in_a_broadcast_change_the_pictures(shelf: Path) -> None:
    path = shelf / "aspects.ts"
    coding = ("-c:v", "mpeg2video", "-q:v", "3")
    parts = [
        white("720x576", shelf / f"aspect{n}.ts", "-vf", f"setsar={sar}", *coding, "-output_ts_offset", str(2.04 * n))
        for n, sar in enumerate(("64/45", "16/15"))
    ]
    path.write_bytes(b"".join(parts))
    plan, data = transcode(path)
    frames = pictures(data)
    assert (plan.renditions[0].width, plan.renditions[0].height) == (1024, 576)
    assert mean(frames[20], slice(None), slice(0, 100)) > 200
    assert mean(frames[-20], slice(None), slice(0, 120)) < BLACK
    assert mean(frames[-20], slice(None), slice(140, -140)) > 200


@pytest.mark.parametrize(
    ("colour", "name", "background"),
    [("0x101010", "dark.webm", 255), ("white", "light.webm", 0), ("0x101010", "dark.mov", 255)],
)
def test_what_is_transparent_shows_a_background_that_the_picture_stands_out_from(
    shelf: Path, colour: str, name: str, background: int
) -> None:
    path = shelf / f"transparent {name}"
    webm = ("-c:v", "libvpx-vp9", "-b:v", "500k")
    coding = webm if name.endswith("webm") else ("-c:v", "qtrle", "-pix_fmt", "argb")
    ffmpeg("-f", "lavfi", "-i", LOGO.format(colour), *coding, path)
    _, data = transcode(path)
    frame = pictures(data)[2]
    level = 16 + 219 * background / 255
    assert mean(frame, slice(0, 12), slice(0, 30)) == pytest.approx(level, abs=4)
    assert abs(mean(frame, slice(30, 60), slice(50, 110)) - level) > 150


@pytest.mark.slow
@pytest.mark.parametrize("order", ["top", "bottom"])
def test_telecined_film_gives_every_picture_of_the_film_once_and_evenly(shelf: Path, order: str) -> None:
    film = write_film(shelf / f"film {order}.mkv", seconds=10, fps=24, size=(320, 240))
    path = shelf / f"telecined {order}.mp4"
    fields = f"telecine=pattern=23:first_field={order},setfield={'tff' if order == 'top' else 'bff'}"
    flags = ("-flags", "+ildct+ilme", "-x264-params", f"{'tff' if order == 'top' else 'bff'}=1:keyint=30")
    ffmpeg("-i", film, "-an", "-vf", fields, *X264, *flags, path)
    info, plan = index(path)
    assert info.video is not None
    assert info.video.is_telecined
    assert UNTELECINE in plan.filters
    assert len(plan.chunks) > 1
    _, data = transcode(path)
    seen = shots(data)
    numbers = [shot.number for shot in seen]
    clear = [number for number in numbers if number is not None]
    assert len(clear) >= 235
    assert clear == sorted(clear)
    assert len(set(clear[4:])) == len(clear[4:]), "a picture came twice after the first cycle, which may lack its begin"
    assert len(seen) == pytest.approx(240, abs=2)
    gaps = np.diff([shot.ticks for shot in seen][:-2])
    assert set(gaps.tolist()) <= {3750}


def test_interlaced_video_of_30_pictures_is_not_taken_for_film(shelf: Path) -> None:
    path = shelf / "video.mp4"
    source = "testsrc2=s=320x240:r=60000/1001:d=4"
    flags = ("-flags", "+ildct+ilme", "-x264-params", "tff=1")
    ffmpeg("-f", "lavfi", "-i", source, "-vf", "tinterlace=interleave_top,setfield=tff", *X264, *flags, path)
    info, plan = index(path)
    assert info.video is not None
    assert not info.video.is_telecined
    assert "deinterlace" in plan.filters


@pytest.mark.parametrize("name", ["p5.mp4", "p5.mkv"])
def test_dolby_vision_without_a_fallback_must_be_refused_at_once(shelf: Path, name: str) -> None:
    whole = shelf / f"whole {name}"
    ffmpeg("-f", "lavfi", "-i", "testsrc2=s=160x90:d=0.4", *X264, whole)
    data = whole.read_bytes()
    path = shelf / name
    record = bytes([1, 0, 5 << 1, 13, 0]) + bytes(19)
    if name.endswith("mp4"):
        path.write_bytes(data + (8 + len(record)).to_bytes(4, "big") + b"dvcC" + record)
        place = data.index(b"moov") - 4
        size = int.from_bytes(data[place : place + 4], "big") + 8 + len(record)
        path.write_bytes(
            data[:place] + size.to_bytes(4, "big") + data[place + 4 :] + (32).to_bytes(4, "big") + b"dvcC" + record
        )
    else:
        mapping = b"\x41\xe7\x84dvcC\x41\xed\x98" + record
        void = data.index(b"\xec")
        path.write_bytes(data[: void + 2] + mapping + data[void + 2 + len(mapping) :])
    with pytest.raises(ExpectedError) as caught:
        index(path)
    assert caught.value.code is ErrorCode.NO_DECODER
    assert "Dolby Vision" in caught.value.message


def test_titles_in_an_old_code_page_do_not_stop_a_film(film: Path, shelf: Path) -> None:
    path = shelf / "titles.mkv"
    ffmpeg("-i", film, "-t", "1", "-c", "copy", "-metadata:s:a:0", "title=Kaffee", path)
    path.write_bytes(path.read_bytes().replace(b"Kaffee", b"Kaff\xe9\xe9"))
    info, _ = index(path)
    assert info.audio[0].title.startswith("Kaff")


def test_a_recording_whose_stream_restarted_goes_on_where_it_was(film: Path, shelf: Path) -> None:
    path = shelf / "restarted.flv"
    ffmpeg("-i", film, "-t", "3", *X264, "-bf", "0", "-c:a", "copy", path)
    data = path.read_bytes()
    path.write_bytes(data + data[13:])
    plan, made = transcode(path)
    assert plan.entry == JOINED
    assert plan.duration_ticks == pytest.approx(6 * TICKS_PER_S, abs=TICKS_PER_S // 5)
    assert [shot.number for shot in shots(made)] == [*range(90), *range(90)]


def test_a_stream_that_comes_to_light_late_does_not_stop_the_film(film: Path, shelf: Path) -> None:
    """Flash says of a stream only when it comes; here the first sound is behind the end of what is looked at first."""
    path = shelf / "late sound.flv"
    ffmpeg("-i", film, "-an", *X264, "-b:v", "8M", "-bf", "0", shelf / "mute.flv")
    ffmpeg("-i", film, "-vn", "-c", "copy", shelf / "sound.flv")
    mute, alone = (shelf / "mute.flv").read_bytes(), (shelf / "sound.flv").read_bytes()
    path.write_bytes(mute + alone[13:])
    _, made = transcode(path)
    assert [shot.number for shot in shots(made)][:300] == list(range(300))


@pytest.mark.parametrize(
    ("said", "settled"),
    [(6000, 6000), (-6000, -6000), (6000 - 2**33, 6000), (6000 + 2**33, 6000), (2**32, 0), (3600 * 90_000, 0)],
)
def test_a_clock_that_went_round_between_decoding_and_showing_is_settled(said: int, settled: int) -> None:
    assert settled_delay(said) == settled


def test_sound_that_turns_out_damaged_is_decoded_not_copied(film: Path, shelf: Path) -> None:
    _, plan = index(film)
    assert plan.audio[0].kind == "copy"
    data = bytearray(film.read_bytes())
    for place in range(2000, data.index(b"moov") - 600, 600):
        data[place : place + 60] = b"\xaa" * 60
    path = shelf / "noise in sound.mp4"
    path.write_bytes(data)
    _, samples = sound(make_sound(path, plan).reporter.bytes_of("a0"))
    assert samples.shape[1] / 48_000 == pytest.approx(12, abs=0.1)


def test_sound_after_a_long_hole_is_where_it_belongs_and_silence_needs_no_memory(film: Path, shelf: Path) -> None:
    path = shelf / "long hole.mkv"
    still = ("-f", "lavfi", "-i", "color=gray:s=160x90:r=1:d=1210")
    ffmpeg(*still, "-itsoffset", "1200", "-i", film, "-map", "0", "-map", "1:a", *X264, "-c:a", "flac", path)
    _, plan = index(path)
    first, samples = sound(make_sound(path, plan).reporter.bytes_of("a0"))
    assert first == 0
    loud = np.abs(samples[0]).reshape(-1, AAC_FRAME_SAMPLES).max(axis=1) > 0.01
    begin = plan.duration_ticks / TICKS_PER_S - 12
    assert begin > 1000
    assert float(np.argmax(loud)) * AAC_FRAME_SAMPLES / 48_000 == pytest.approx(begin, abs=0.05)
