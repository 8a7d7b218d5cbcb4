"""HDR to SDR as a table: PQ or HLG in BT.2020 primaries to BT.709 for a display of gamma 2.4.

Made from published curves, pixel by pixel of a 65-point cube:

* PQ (SMPTE ST 2084) or HLG with its system gamma of 1.2 (ITU-R BT.2100) to light, in cd/m2;
* the brightest component is mapped by the EETF of ITU-R BT.2390 from 1000 cd/m2 to reference white (203 cd/m2, ITU-R
  BT.2408), the others in proportion, so that hues stay;
* BT.2020 to BT.709 primaries, what lies outside is clipped, and light becomes signal by the inverse of BT.1886.

FFmpeg's ``lut3d`` reads the cube from a file; it holds curves, nothing of the film.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

POINTS = 65
PEAK_NITS = 1000.0
WHITE_NITS = 203.0
DISPLAY_GAMMA = 2.4

Array = np.ndarray[Any, np.dtype[np.float64]]

_M1, _M2 = 2610 / 16384, 2523 / 4096 * 128
_C1, _C2, _C3 = 3424 / 4096, 2413 / 4096 * 32, 2392 / 4096 * 32
_HLG_A = 0.17883277
_HLG_B = 1 - 4 * _HLG_A
_HLG_C = 0.5 - _HLG_A * np.log(4 * _HLG_A)
_HLG_GAMMA = 1.2
_LUMA_2020 = np.array([0.2627, 0.6780, 0.0593])
_TO_709 = np.array(
    [[1.660491, -0.587641, -0.072850], [-0.124550, 1.132900, -0.008349], [-0.018151, -0.100579, 1.118730]]
)
"""BT.2020 to BT.709 primaries, both with white D65 (ITU-R BT.2087)."""


def pq_to_nits(signal: Array) -> Array:
    """Return light in cd/m2 for a PQ signal from 0 to 1."""
    power = np.power(np.clip(signal, 0, 1), 1 / _M2)
    return 10_000 * np.power(np.maximum(power - _C1, 0) / (_C2 - _C3 * power), 1 / _M1)


def nits_to_pq(nits: Array) -> Array:
    """Return the PQ signal for light in cd/m2."""
    power = np.power(np.clip(nits, 0, 10_000) / 10_000, _M1)
    return np.power((_C1 + _C2 * power) / (1 + _C3 * power), _M2)


def hlg_to_nits(signal: Array) -> Array:
    """Return light in cd/m2 on a display of 1000 cd/m2 for HLG signals; the last axis is red, green, blue."""
    scene = np.where(signal <= 0.5, signal**2 / 3, (np.exp((signal - _HLG_C) / _HLG_A) + _HLG_B) / 12)
    luma = np.maximum(scene @ _LUMA_2020, 1e-9)[..., None]
    light: Array = PEAK_NITS * np.power(luma, _HLG_GAMMA - 1) * scene
    return light


def compress(nits: Array) -> Array:
    """Return light from 0 to reference white for light from 0 to 1000 cd/m2: BT.2390's EETF."""
    peak = float(nits_to_pq(np.array(PEAK_NITS)))
    most = float(nits_to_pq(np.array(WHITE_NITS))) / peak
    signal = np.clip(nits_to_pq(nits) / peak, 0, 1)
    knee = 1.5 * most - 0.5
    t = np.clip((signal - knee) / (1 - knee), 0, 1)
    roll = (2 * t**3 - 3 * t**2 + 1) * knee + (t**3 - 2 * t**2 + t) * (1 - knee) + (-2 * t**3 + 3 * t**2) * most
    return pq_to_nits(np.where(signal < knee, signal, roll) * peak)


def to_sdr(nits: Array) -> Array:
    """Return BT.709 signals from 0 to 1 for BT.2020 light in cd/m2; the last axis is red, green, blue."""
    brightest = np.maximum(nits.max(axis=-1, keepdims=True), 1e-6)
    mapped = nits * (compress(brightest) / brightest)
    light = np.clip(mapped @ _TO_709.T / WHITE_NITS, 0, 1)
    signal: Array = np.power(light, 1 / DISPLAY_GAMMA)
    return signal


@cache
def cube(transfer: str) -> Array:
    """Return the table (blue, green, red, 3) for ``pq`` or ``hlg``."""
    axis = np.linspace(0, 1, POINTS)
    blue, green, red = np.meshgrid(axis, axis, axis, indexing="ij")
    signal = np.stack([red, green, blue], axis=-1)
    return to_sdr(pq_to_nits(signal) if transfer == "pq" else hlg_to_nits(signal))


@contextmanager
def cube_file(transfer: str) -> Iterator[str]:
    """Lend the path of the table as a ``.cube`` file, which ``lut3d`` has read once its graph is configured."""
    table = cube(transfer).reshape(-1, 3)
    with tempfile.NamedTemporaryFile("w", suffix=".cube", delete=False) as file:
        file.write(f"LUT_3D_SIZE {POINTS}\n")
        file.write("\n".join(["%.6f %.6f %.6f" % tuple(row) for row in table.tolist()]))  # noqa: UP031 (three times as fast)
        file.write("\n")
    try:
        yield file.name
    finally:
        os.unlink(file.name)  # noqa: PTH108 (a plain path)
