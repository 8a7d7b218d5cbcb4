"""What a pass over a source's packets found: the facts from which a plan is made."""

from __future__ import annotations

import msgspec

from app.media.chapters import RawChapter

JOINED = "joined"
"""An entry: the source is read from its start, and the times of its parts are moved onto one line."""


class Keyframe(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A picture at which a decoder can start."""

    pts: int
    """Ticks of the source's own clock."""
    is_idr: bool
    """Whether nothing after it refers to anything before it."""
    position: int
    """Byte position of the packet, -1 when the container does not say."""


class AudioScan(msgspec.Struct, frozen=True, kw_only=True):
    """What one sound track's packets look like."""

    index: int
    first_ticks: int
    end_ticks: int
    packets: int
    is_continuous: bool
    """Whether each packet starts where the one before it ended, within 3 ms."""
    has_own_header: bool = True
    """Whether the codec's private data are apart from the packets, as MP4 wants it (not ADTS or LATM)."""


class TextScan(msgspec.Struct, frozen=True, kw_only=True):
    """What one text track's packets look like."""

    index: int
    cues: int
    is_too_large: bool = False
    """Whether there is more text than a track may have, so that it was not kept."""


class PacketScan(msgspec.Struct, frozen=True, kw_only=True):
    """What the picture stream's packets look like; times are ticks of the source's own clock."""

    shown: tuple[int, ...]
    """Presentation times of all pictures that are shown, rising."""
    keyframes: tuple[Keyframe, ...]
    last_duration: int
    """How long the last picture is shown."""
    entry: str
    """How a decoder can enter: ``time``, ``byte`` or ``order`` (no presentation times: from the start, in order)."""
    counted_rate: tuple[int, int] = (0, 1)
    """For ``order``: pictures a second where packets have no times at all; (0, 1) where decode times are used."""
    is_copyable: bool
    """Whether packets can be used as they are: no hidden pictures, no change of parameters, times in order."""
    peak_rate: int
    """Highest bits per second between keyframes."""
    audio: tuple[AudioScan, ...] = ()
    text: tuple[TextScan, ...] = ()
    joins: int = 0
    """How often the source's clock restarts (``joined``); the times here are moved onto one line."""
    repaired: int = 0
    """Packets whose time stamps were missing, doubled or stepped back."""
    declared_ticks: int | None = None
    """Duration that the container claims."""
    is_cut: bool = False
    """Whether the file ends before the container says it does, or with damaged packets."""
    chapters: tuple[RawChapter, ...] = ()
