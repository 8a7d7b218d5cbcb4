"""How alike two pictures or two sounds are. Pure."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from tests.corpus.commands import SOUND_RATE, Line, Pixels

_BLOCK = 8
_LUMA = np.array([0.2126, 0.7152, 0.0722])
_FAR_S = 0.5
"""How far off a sound is looked for."""
_NEARLY = 0.98
"""A lag whose likeness is this share of the best one's is good; the smallest of those is meant (tones repeat)."""
ALIKE = 0.8
_SILENT = 0.01
_LOUD = 0.05
_GRAIN_S = 0.05

Plane = npt.NDArray[np.float64]


def on_background(pixels: Pixels, level: int) -> Plane:
    """Return RGB of a picture with its transparent parts over grey of ``level``."""
    alpha = pixels[..., 3:].astype(np.float64) / 255
    blended: Plane = pixels[..., :3] * alpha + level * (1 - alpha)
    return blended


def luma(rgb: Plane) -> Plane:
    """Return the brightness of an RGB picture."""
    plane: Plane = rgb[..., :3] @ _LUMA
    return plane


def _blocks(plane: Plane) -> Plane:
    height, width = plane.shape[0] // _BLOCK * _BLOCK, plane.shape[1] // _BLOCK * _BLOCK
    if not height or not width:
        return plane.reshape(1, -1)
    cut = plane[:height, :width].reshape(height // _BLOCK, _BLOCK, width // _BLOCK, _BLOCK)
    return cut.swapaxes(1, 2).reshape(-1, _BLOCK * _BLOCK)


def ssim(a: Plane, b: Plane) -> float:
    """Return the structural similarity of two brightness planes, from blocks of 8 by 8."""
    first, second = _blocks(a), _blocks(b)
    mean_a, mean_b = first.mean(axis=1), second.mean(axis=1)
    spread = ((first - mean_a[:, None]) * (second - mean_b[:, None])).mean(axis=1)
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    alike = (2 * mean_a * mean_b + c1) * (2 * spread + c2)
    alike /= (mean_a**2 + mean_b**2 + c1) * (first.var(axis=1) + second.var(axis=1) + c2)
    return float(alike.mean())


def rank_likeness(a: Plane, b: Plane) -> float:
    """Return how far two planes agree on what is brighter than what (1 is wholly): a curve between them is allowed."""
    small_a, small_b = _blocks(a).mean(axis=1), _blocks(b).mean(axis=1)
    if small_a.std() < 1 or small_b.std() < 1:
        return 1.0
    ranks = [np.argsort(np.argsort(one, kind="stable"), kind="stable").astype(np.float64) for one in (small_a, small_b)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


class Lag(msgspec.Struct, frozen=True, kw_only=True):
    """Where a piece of sound was found again."""

    at_s: float
    lag_s: float
    """Later than in the source when above zero."""
    likeness: float


def loudness_of(line: Line) -> npt.NDArray[np.float64]:
    """Return the mean level of every 50 ms."""
    grain = round(_GRAIN_S * SOUND_RATE)
    whole = line[: len(line) // grain * grain].astype(np.float64).reshape(-1, grain)
    levels: npt.NDArray[np.float64] = np.sqrt((whole**2).mean(axis=1))
    return levels


def differing_silence_s(source: Line, made: Line) -> float:
    """Return for how many seconds one is silent while the other is not."""
    length = min(len(source), len(made))
    levels = [loudness_of(line[:length]) for line in (source, made)]
    peak = max(float(one.max(initial=0)) for one in levels)
    if peak < 1e-4:
        return 0.0
    a, b = levels
    differ = ((a < _SILENT * peak) & (b > _LOUD * peak)) | ((b < _SILENT * peak) & (a > _LOUD * peak))
    padded = np.pad(differ, 1)
    lasting = differ & (padded[:-2] | padded[2:])  # a single grain is where a sound begins or ends, not a hole
    return float(lasting.sum()) * _GRAIN_S


def lags(source: Line, made: Line) -> list[Lag]:
    """Return where pieces from the start, the middle and the end of the source's sound are in what was made."""
    levels = loudness_of(source)
    heard = np.flatnonzero(levels > 1e-3)
    if not len(heard):
        return []
    first, last = float(heard[0]) * _GRAIN_S, float(heard[-1] + 1) * _GRAIN_S
    length = min(6.0, max(0.2, (last - first) / 3))
    places = [first, (first + last - length) / 2, max(first, last - length)]
    found = [_find(source, made, place, length) for place in places]
    return [one if one.likeness >= ALIKE else _find_swell(source, made, one, length) for one in found]


def _find_swell(source: Line, made: Line, lag: Lag, length_s: float) -> Lag:
    """Look for the swelling of a sound where its waves cannot be found again: sound that was stretched."""
    other = _find(_swell(source), _swell(made), lag.at_s, length_s)
    return other if other.likeness >= ALIKE else lag


def _swell(line: Line) -> Line:
    """Return how loud a sound is from moment to moment (10 ms), without its mean."""
    window = np.hanning(round(0.02 * SOUND_RATE))
    loud = np.convolve(np.abs(line), window / window.sum(), "same").astype(np.float32)
    swell: Line = loud - loud.mean()
    return swell


def _find(source: Line, made: Line, at_s: float, length_s: float) -> Lag:
    far, begin, count = round(_FAR_S * SOUND_RATE), round(at_s * SOUND_RATE), round(length_s * SOUND_RATE)
    piece = source[begin : begin + count].astype(np.float64)
    around: npt.NDArray[np.float64] = np.zeros(len(piece) + 2 * far)
    low, high = begin - far, begin + len(piece) + far
    part = made[max(0, low) : max(0, high)]
    around[max(0, -low) : max(0, -low) + len(part)] = part
    size = 1 << (len(around) + len(piece)).bit_length()
    product = np.fft.irfft(np.fft.rfft(around, size) * np.conj(np.fft.rfft(piece, size)), size)[: 2 * far + 1]
    energy = np.concatenate([[0.0], np.cumsum(around**2)])
    norms = np.sqrt((piece**2).sum() * np.maximum(energy[len(piece) :][: 2 * far + 1] - energy[: 2 * far + 1], 1e-9))
    likeness = product / np.maximum(norms, 1e-9)
    good = np.flatnonzero(likeness >= _NEARLY * likeness.max()) - far
    lag = int(good[np.abs(good).argmin()])
    return Lag(at_s=at_s, lag_s=lag / SOUND_RATE, likeness=float(likeness[lag + far]))
