"""How pictures look: colours, depth, turned and flipped, pixel shape, odd sizes, fields."""

from __future__ import annotations

import io
import struct
import subprocess
from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt
import pytest

from app.media.source import TICKS_PER_S
from tests.transcode.lab import ffmpeg, index, luma, pictures, transcode

COLOURS = (
    (255, 0, 0),
    (0, 255, 0),
    (0, 0, 255),
    (255, 255, 0),
    (128, 128, 128),
    (255, 255, 255),
    (0, 0, 0),
    (200, 100, 50),
)
LOSSLESS = ("-c:v", "ffv1")
X264 = ("-c:v", "libx264", "-qp", "4", "-preset", "veryfast")

Bytes = npt.NDArray[np.uint8]


@pytest.fixture(scope="session")
def patches(shelf: Path) -> tuple[str, ...]:
    """Return ffmpeg's arguments for ten pictures of 4 by 2 patches of known colours."""
    width, height = 320, 180
    pixels = np.zeros((height, width, 3), np.uint8)
    for number, colour in enumerate(COLOURS):
        row, column = divmod(number, 4)
        pixels[row * 90 : row * 90 + 90, column * 80 : column * 80 + 80] = colour
    path = shelf / "patches.rgb"
    path.write_bytes(pixels.tobytes() * 10)
    return ("-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", "25", "-i", str(path))


def plane(frame: Any, number: int) -> npt.NDArray[np.float64]:
    """Return a plane of a 4:2:0 picture, centre of each patch."""
    height, width = (frame.height, frame.width) if number == 0 else (frame.height // 2, frame.width // 2)
    rows = np.frombuffer(frame.planes[number], np.uint8).reshape(-1, frame.planes[number].line_size)[:height, :width]
    return rows[height // 4 :: height // 2, width // 8 :: width // 4].astype(np.float64).reshape(-1)


def seen_colours(frame: Any) -> npt.NDArray[np.float64]:
    """Return the RGB of each patch as a player shows BT.709 limited range."""
    y = (plane(frame, 0) - 16) / 219
    u, v = (plane(frame, 1) - 128) / 224, (plane(frame, 2) - 128) / 224
    return 255 * np.stack([y + 1.5748 * v, y - 0.1873 * u - 0.4681 * v, y + 1.8556 * u], axis=1)


def yuv(matrix: str, pixel_range: str, pixel_format: str) -> tuple[str, ...]:
    return ("-vf", f"scale=out_color_matrix={matrix}:out_range={pixel_range},format={pixel_format}")


ENCODINGS: dict[str, tuple[str, ...]] = {
    "bt.601.mkv": (*yuv("bt601", "tv", "yuv420p"), *LOSSLESS, "-colorspace", "smpte170m"),
    "bt.709.mkv": (*yuv("bt709", "tv", "yuv420p"), *LOSSLESS, "-colorspace", "bt709"),
    "bt.601 full.mkv": (*yuv("bt601", "pc", "yuv420p"), *LOSSLESS, "-colorspace", "smpte170m", "-color_range", "pc"),
    "bt.709 full.mp4": (*yuv("bt709", "pc", "yuvj420p"), *X264, "-colorspace", "bt709"),
    "unnamed, small.mkv": (*yuv("bt601", "tv", "yuv420p"), *LOSSLESS),
    "unnamed, large.mkv": ("-vf", "scale=1280:720:flags=neighbor:out_color_matrix=bt709,format=yuv420p", *LOSSLESS),
    "4.2.2.mp4": (*yuv("bt601", "tv", "yuv422p"), *X264, "-colorspace", "smpte170m"),
    "4.4.4.mp4": (*yuv("bt709", "tv", "yuv444p"), *X264, "-colorspace", "bt709"),
    "10 bit.mp4": (*yuv("bt709", "tv", "yuv420p10le"), *X264, "-colorspace", "bt709"),
    "10 bit 4.4.4.mkv": (*yuv("bt709", "tv", "yuv444p10le"), *LOSSLESS, "-colorspace", "bt709"),
    "rgb.mkv": ("-pix_fmt", "gbrp", *LOSSLESS),
    "motion jpeg.avi": (*yuv("bt601", "pc", "yuvj420p"), "-c:v", "mjpeg", "-q:v", "2"),
}


@pytest.mark.parametrize("name", ENCODINGS)
def test_colours_are_those_of_the_source_as_8_bit_bt709(patches: tuple[str, ...], shelf: Path, name: str) -> None:
    path = shelf / name
    ffmpeg(*patches, *ENCODINGS[name], path)
    _, data = transcode(path)
    for frame in pictures(data)[::9]:
        assert frame.format.name == "yuv420p"
        assert (int(frame.colorspace), int(frame.color_range)) == (1, 1)
        assert float(np.abs(seen_colours(frame) - np.array(COLOURS)).max()) < 5


def test_grey_stays_grey(patches: tuple[str, ...], shelf: Path) -> None:
    path = shelf / "grey.mkv"
    ffmpeg(*patches, "-pix_fmt", "gray", *LOSSLESS, path)
    seen = seen_colours(pictures(transcode(path)[1])[0])
    assert float(np.ptp(seen, axis=1).max()) < 3
    assert seen[4:7, 0] == pytest.approx([128, 255, 0], abs=4)


@pytest.fixture(scope="session")
def card(shelf: Path) -> Path:
    """Return a second of a test card in MP4, upright."""
    path = shelf / "card.mp4"
    ffmpeg("-f", "lavfi", "-i", "testsrc=s=320x180:r=25:d=1", *X264, "-pix_fmt", "yuv420p", path)
    return path


def with_matrix(film: bytes, a: int, b: int, c: int, d: int) -> bytes:
    """Return the film with another display matrix in its track header (version 0: after 40 bytes of other fields)."""
    place = film.index(b"tkhd") + 4 + 40
    matrix = struct.pack(">9i", a << 16, b << 16, 0, c << 16, d << 16, 0, 0, 0, 1 << 30)
    return film[:place] + matrix + film[place + 36 :]


def rgb(data: bytes) -> npt.NDArray[np.int_]:
    frame = pictures(data)[0]
    return np.asarray(frame.to_ndarray(format="rgb24"), np.int_)


ORIENTATIONS = {
    "quarter": (0, 1, -1, 0),
    "half": (-1, 0, 0, -1),
    "three quarters": (0, -1, 1, 0),
    "mirror": (-1, 0, 0, 1),
    "upside down": (1, 0, 0, -1),
    "mirror and quarter": (0, 1, 1, 0),
    "mirror and three quarters": (0, -1, -1, 0),
}


@pytest.mark.parametrize("name", ORIENTATIONS)
def test_a_turned_film_looks_as_ffmpeg_shows_it(card: Path, shelf: Path, name: str) -> None:
    path = shelf / f"turned {name}.mp4"
    path.write_bytes(with_matrix(card.read_bytes(), *ORIENTATIONS[name]))
    command = ["ffmpeg", "-v", "error", "-i", str(path), "-frames:v", "1", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    shown = subprocess.run(command, check=True, capture_output=True, timeout=30).stdout
    plan, data = transcode(path)
    ours = rgb(data)
    theirs = np.frombuffer(shown, np.uint8).astype(np.int_).reshape(ours.shape)
    assert float(np.abs(ours - theirs).mean()) < 3
    assert float(np.abs(ours - theirs[::-1, ::-1]).mean()) > 20, "a card that looks alike both ways proves nothing"
    assert (plan.renditions[0].width, plan.renditions[0].height) == (ours.shape[1], ours.shape[0])
    with av.open(io.BytesIO(data), "r") as container:
        first = next(container.decode(video=0))
        assert first.rotation == 0, "turned twice"


@pytest.mark.parametrize(
    ("size", "aspect", "shown"),
    [("720x576", "64/45", (1024, 576)), ("720x480", "8/9", (640, 480))],
)
def test_pixels_become_square_and_the_shape_is_kept(
    shelf: Path, size: str, aspect: str, shown: tuple[int, int]
) -> None:
    path = shelf / f"anamorphic {size}.mp4"
    source = f"testsrc2=s={size}:r=25:d=0.4"
    ffmpeg("-f", "lavfi", "-i", source, "-vf", f"setsar={aspect}", *X264, "-pix_fmt", "yuv420p", path)
    plan, data = transcode(path)
    with av.open(io.BytesIO(data), "r") as container:
        stream = container.streams.video[0]
        assert stream.sample_aspect_ratio in {None, 0, 1}
        assert (stream.width, stream.height) == shown
    for rung in plan.renditions:
        assert rung.width / rung.height == pytest.approx(shown[0] / shown[1], rel=0.01)


def test_an_almost_square_pixel_is_left_alone(shelf: Path) -> None:
    path = shelf / "almost square.mp4"
    source = "testsrc2=s=320x180:r=25:d=0.4"
    ffmpeg("-f", "lavfi", "-i", source, "-vf", "setsar=3201/3200:max=10000", *X264, "-pix_fmt", "yuv420p", path)
    info, plan = index(path)
    assert info.video is not None
    assert info.video.sample_aspect == (3201, 3200)
    assert (plan.renditions[0].width, plan.renditions[0].height) == (320, 180)


@pytest.mark.parametrize("size", ["321x181", "853x479", "3x3"])
def test_odd_sizes_are_encoded_even(shelf: Path, size: str) -> None:
    path = shelf / f"odd {size}.mkv"
    ffmpeg("-f", "lavfi", "-i", f"testsrc2=s={size}:r=25:d=0.4", "-pix_fmt", "yuv444p", *LOSSLESS, path)
    width, height = (int(side) for side in size.split("x"))
    frame = pictures(transcode(path)[1])[0]
    assert (frame.width % 2, frame.height % 2) == (0, 0)
    assert abs(frame.width - width) <= 1
    assert abs(frame.height - height) <= 1


BAR_STEP = 4
"""How far the white bar of the interlaced films moves from field to field, in pixels."""


def interlaced_film(path: Path, *, top_first: bool) -> Path:
    """Write 3 s of 25 interlaced pictures a second: a white bar that moves at every one of 50 fields a second."""
    first, second = (0, 1) if top_first else (1, 0)
    columns = np.arange(720)
    raw = bytearray()
    for number in range(75):
        pixels = np.full((144, 720), 128, np.uint8)
        pixels[:96] = 16
        for field, rows in ((2 * number, first), (2 * number + 1, second)):
            lit = (columns >= 20 + BAR_STEP * field) & (columns < 40 + BAR_STEP * field)
            pixels[rows:96:2] = np.where(lit, 235, 16)
        raw += pixels.tobytes()
    source = path.with_suffix(".yuv")
    source.write_bytes(raw)
    order = "tff" if top_first else "bff"
    pictures_in = ("-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", "720x96", "-r", "25", "-i", source)
    fields = ("-vf", f"setfield={order}", "-flags", "+ildct+ilme", "-x264-params", f"{order}=1:keyint=25")
    ffmpeg(*pictures_in, *X264, *fields, path)
    return path


def bar_centre(rows: Bytes) -> float:
    lit = np.clip(rows.astype(np.float64) - 40, 0, None).sum(axis=0)
    return float((lit * np.arange(len(lit))).sum() / lit.sum())


@pytest.mark.parametrize("top_first", [True, False], ids=["top first", "bottom first"])
def test_fields_become_pictures_that_move_evenly_and_show_no_comb(shelf: Path, top_first: bool) -> None:  # noqa: FBT001
    path = interlaced_film(shelf / f"fields {top_first}.mp4", top_first=top_first)
    info, plan = index(path)
    assert info.video is not None
    assert info.video.interlaced
    _, data = transcode(path)
    frames = pictures(data)
    assert plan.frame_rate == (50, 1)
    times = [round(frame.pts * frame.time_base * TICKS_PER_S) for frame in frames]
    assert times == list(range(0, 3 * TICKS_PER_S, TICKS_PER_S // 50))
    for number, frame in enumerate(frames[2:-2], start=2):
        middle = luma(frame)[8:-8]
        assert bar_centre(middle) == pytest.approx(29.5 + BAR_STEP * number, abs=1.0)
        assert bar_centre(middle[::2]) == pytest.approx(bar_centre(middle[1::2]), abs=1.5), "combed"


def test_progressive_film_in_an_interlaced_stream_loses_no_picture(shelf: Path) -> None:
    path = shelf / "flagged.mp4"
    source = "testsrc2=s=320x180:r=25:d=4"
    options = ("-x264-params", "fake-interlaced=1:keyint=25")
    ffmpeg("-f", "lavfi", "-i", source, *X264, "-pix_fmt", "yuv420p", *options, path)
    _, data = transcode(path)
    assert len(pictures(data)) in {100, 200}
