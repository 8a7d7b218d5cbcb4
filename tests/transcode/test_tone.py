"""HDR to SDR: the published curves at their known points, and the table as FFmpeg applies it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import av
import numpy as np
import pytest

from app.transcode.picture import build_chain
from app.transcode.tone import compress, hlg_to_nits, nits_to_pq, pq_to_nits, to_sdr


def grey(signal: float) -> Any:
    return np.full((1, 3), signal)


@pytest.mark.parametrize(("nits", "signal"), [(0.1, 0.0623), (100, 0.5081), (203, 0.5807), (1000, 0.7518), (10_000, 1)])
def test_pq_has_its_published_points(nits: float, signal: float) -> None:
    assert float(nits_to_pq(np.array(nits))) == pytest.approx(signal, abs=2e-4)
    assert float(pq_to_nits(np.array(signal))) == pytest.approx(nits, rel=5e-3)


def test_hlg_reference_white_is_203_nits_on_a_display_of_1000() -> None:
    assert hlg_to_nits(grey(0.75))[0, 0] == pytest.approx(203, abs=1)
    assert hlg_to_nits(grey(1.0))[0, 0] == pytest.approx(1000, abs=1)


def test_dark_and_middle_tones_keep_their_light() -> None:
    assert float(compress(np.array(20.0))) == pytest.approx(20, rel=1e-6)
    assert float(compress(np.array(1000.0))) == pytest.approx(203, rel=1e-3)


def test_brighter_light_never_becomes_darker_signal() -> None:
    ramp = np.repeat(np.linspace(0, 1, 200)[:, None], 3, axis=1)
    signal = to_sdr(pq_to_nits(ramp))[:, 0]
    assert (np.diff(signal) >= -1e-9).all()
    assert signal[0] == pytest.approx(0, abs=0.02)
    assert signal[-1] == pytest.approx(1)


def test_greys_stay_grey() -> None:
    signal = to_sdr(pq_to_nits(grey(0.5)))[0]
    assert np.ptp(signal) < 1e-3


@pytest.mark.parametrize("signal", [0.1, 0.3, 0.5, 0.6, 0.75])
def test_the_table_gives_what_the_curves_say(signal: float) -> None:
    """A flat grey of BT.2020 PQ, as a decoder hands it over, must come out as the curves compute, within two steps."""
    frame = av.VideoFrame(64, 64, "yuv420p10le")
    luma = round(64 + signal * 876)
    for plane, value in zip(frame.planes, (luma, 512, 512), strict=True):
        plane.update(np.full(plane.buffer_size // 2, value, np.uint16).tobytes())
    frame.colorspace, frame.color_range, frame.pts, frame.time_base = 9, 1, 0, Fraction(1, 90_000)
    chain = build_chain(frame, [("scale", "w=64:h=64"), ("format", "yuv420p")], ("tonemap-pq",))
    chain.push(frame)
    got = next(chain.pull()).to_ndarray()[:64].mean()
    expected = 16 + 219 * float(to_sdr(pq_to_nits(grey(signal)))[0, 0])
    assert got == pytest.approx(expected, abs=2)
