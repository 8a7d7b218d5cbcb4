"""A film whose every frame says its number and whose sound says the second; and the reader of both.

The upper third of a picture is a grid of 2 rows and 11 columns of black and white cells::

    W B n15 n14 n13 n12 n11 n10 n9 n8 n7
    n6 n5 n4 n3 n2 n1 n0 c3 c2 c1 c0          c: check digits over n

White and black in the first two cells tell the reader what white and black are. The rest of the picture is a texture
that moves, so that the encoder has to work. The sound is 50 ms of 1 kHz from each full second on, else silence.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt

ROWS, COLUMNS = 2, 11
NUMBER_BITS = 16
CHECK_BITS = 4
BEEP_HZ = 1000
BEEP_S = 0.05
SAMPLE_RATE = 48_000
CHANNELS = 2
_WHITE, _BLACK = 235, 16
_LEAST_CONTRAST = 80
_UNSURE = 0.2
"""How near the middle between black and white, as a share of their distance, a cell may not be."""

Gray = npt.NDArray[np.uint8]
Samples = npt.NDArray[np.float32]


def _check_digits(number: int) -> int:
    return (number ^ (number >> 4) ^ (number >> 8) ^ (number >> 12) ^ 0b0101) & 0b1111


def _cells(number: int) -> list[bool]:
    word = number << CHECK_BITS | _check_digits(number)
    width = NUMBER_BITS + CHECK_BITS
    return [True, False, *(bool(word >> bit & 1) for bit in reversed(range(width)))]


def _cell_slices(height: int, width: int) -> Iterator[tuple[slice, slice]]:
    """Yield the middle half of every cell."""
    cell_height, cell_width = height / 3 / ROWS, width / COLUMNS
    for row in range(ROWS):
        for column in range(COLUMNS):
            yield (
                slice(int((row + 0.25) * cell_height), int((row + 0.75) * cell_height) + 1),
                slice(int((column + 0.25) * cell_width), int((column + 0.75) * cell_width) + 1),
            )


def draw_frame(number: int, *, width: int, height: int) -> Gray:
    """Return the grey picture of frame ``number``, which must fit into 16 bits."""
    if not 0 <= number < 1 << NUMBER_BITS:
        raise ValueError(number)
    rows, columns = np.mgrid[0:height, 0:width]
    texture = 128 + 50 * np.sin((columns + 3 * number) / 9) + 40 * np.sin((rows * 2 - number) / 7 + columns / 31)
    picture: Gray = texture.astype(np.uint8)
    cells = np.array(_cells(number)).reshape(ROWS, COLUMNS)
    cell_rows = np.minimum(np.arange(height // 3) * ROWS * 3 // height, ROWS - 1)
    cell_columns = np.arange(width) * COLUMNS // width
    picture[: height // 3] = np.where(cells[cell_rows][:, cell_columns], _WHITE, _BLACK)
    return picture


def read_frame_number(gray: Gray) -> int | None:
    """Return the number that a grey picture of any size carries; None when it cannot be read with certainty."""
    means = np.array([float(gray[area].mean()) for area in _cell_slices(*gray.shape)])
    return number_of_cells(means)


def number_of_cells(means: npt.NDArray[np.float64]) -> int | None:
    """Return the number of a picture whose cells have these mean brightnesses, in reading order."""
    white, black = means[0], means[1]
    contrast = white - black
    if contrast < _LEAST_CONTRAST:
        return None
    shares = (means[2:] - black) / contrast
    if np.any(np.abs(shares - 0.5) < _UNSURE):
        return None
    word = int("".join("1" if share > 0.5 else "0" for share in shares), 2)
    number = word >> CHECK_BITS
    return number if _check_digits(number) == word & (1 << CHECK_BITS) - 1 else None


def make_samples(seconds: float, *, sample_rate: int = SAMPLE_RATE) -> Samples:
    """Return the mono sound of the film."""
    at = np.arange(round(seconds * sample_rate)) / sample_rate
    beep = 0.5 * np.sin(2 * np.pi * BEEP_HZ * at)
    return np.where(at % 1 < BEEP_S, beep, 0).astype(np.float32)


def beep_times(samples: npt.NDArray[np.floating], rate: int) -> list[float]:
    """Return the seconds at which beeps begin in mono ``samples``.

    A beep begins where the loudness over 2 ms first passes half of the loudest after 200 ms of quiet.
    """
    if not len(samples):
        return []
    window = max(1, rate // 500)
    power = np.convolve(np.square(samples, dtype=np.float64), np.ones(window) / window, mode="full")[: len(samples)]
    loud = np.flatnonzero(power > max(power.max() / 4, 1e-5))
    if not len(loud):
        return []
    begins = loud[np.concatenate(([True], np.diff(loud) > rate // 5))]
    return [float(max(0, one - window // 4)) / rate for one in begins]


def make_source(
    path: Path, *, seconds: float = 10, fps: int = 24, size: tuple[int, int] = (640, 360), gop: int = 48
) -> int:
    """Write an MP4 file (H.264 with B-frames, AAC stereo) and return how many frames it has."""
    count = round(seconds * fps)
    with av.open(str(path), "w") as container:
        picture = container.add_stream("libx264", rate=fps, options={"preset": "veryfast", "crf": "20"})
        picture.width, picture.height = size
        picture.pix_fmt = "yuv420p"
        picture.gop_size = gop
        picture.time_base = Fraction(1, fps)
        sound = container.add_stream("aac", rate=SAMPLE_RATE)
        sound.layout = "stereo"
        for frame in video_frames(range(count), fps=fps, size=size):
            container.mux(picture.encode(frame))
        container.mux(picture.encode(None))
        for block in audio_frames(make_samples(seconds)):
            container.mux(sound.encode(block))
        container.mux(sound.encode(None))
    return count


def video_frames(numbers: Sequence[int], *, fps: int, size: tuple[int, int]) -> Iterator[av.VideoFrame]:
    """Yield the frames ``numbers`` at ``fps``, time base 1/fps, 4:2:0."""
    width, height = size
    for number in numbers:
        frame = av.VideoFrame.from_ndarray(draw_frame(number, width=width, height=height), format="gray")
        frame = frame.reformat(format="yuv420p", src_color_range="MPEG", dst_color_range="MPEG")
        frame.pts, frame.time_base = number, Fraction(1, fps)
        yield frame


def audio_frames(samples: Samples, *, sample_rate: int = SAMPLE_RATE) -> Iterator[av.AudioFrame]:
    """Yield mono ``samples`` as stereo frames of 1024 samples."""
    for start in range(0, len(samples), 1024):
        block = np.repeat(samples[None, start : start + 1024], CHANNELS, axis=0)
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(block), format="fltp", layout="stereo")
        frame.sample_rate, frame.pts, frame.time_base = sample_rate, start, Fraction(1, sample_rate)
        yield frame
