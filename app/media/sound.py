"""Where sound is cut: on the AAC frame edge nearest to the picture's border, on a grid that starts at the film's 0."""

from __future__ import annotations

from app.media.source import TICKS_PER_S

AAC_FRAME_SAMPLES = 1024


def frame_edge(ticks: int, sample_rate: int) -> int:
    """Return the number of the AAC frame whose start is nearest to a moment (the later one on a tie)."""
    samples = ticks * sample_rate
    unit = AAC_FRAME_SAMPLES * TICKS_PER_S
    return (2 * samples + unit) // (2 * unit)
