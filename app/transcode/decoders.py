"""The decoder of a picture stream: FFmpeg's own, or the one that also knows the transparent parts.

VP8 and VP9 carry transparency beside the picture, where FFmpeg's own decoders do not look; libvpx does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import av

OVER = "over-"
"""Begins the name of a plan's filter that says what transparent pictures are laid over."""
_WITH_ALPHA = {"vp8": "libvpx", "vp9": "libvpx-vp9"}


def has_alpha_beside(stream: Any) -> bool:
    """Whether the stream's transparency is beside its pictures (WebM's tag ``alpha_mode``)."""
    tags = {name.lower(): value for name, value in stream.metadata.items()}
    return tags.get("alpha_mode") == "1" and stream.codec_context.name in _WITH_ALPHA


class PictureDecoder:
    """Turns the packets of one picture stream into pictures."""

    def __init__(self, stream: Any, *, with_alpha: bool, threads: int | None = None) -> None:
        """``threads`` for frame threading (0 is all cores); None leaves the decoder as it is."""
        self._is_own = with_alpha and has_alpha_beside(stream)
        if self._is_own:
            self.context: Any = av.CodecContext.create(_WITH_ALPHA[stream.codec_context.name], "r")
        else:
            self.context = stream.codec_context
        if threads is not None and not self.context.is_open:
            self.context.thread_type = "AUTO"
            self.context.thread_count = threads or (os.cpu_count() or 1)

    def decode(self, packet: Any) -> Sequence[Any]:
        """Return the pictures that are ready after ``packet``; an empty one gives the last."""
        pictures: Sequence[Any] = self.context.decode(packet)
        return pictures

    def decode_all(self, packets: Iterator[Any]) -> Iterator[Any]:
        """Yield the pictures of all packets."""
        for packet in packets:
            yield from self.decode(packet)

    def restart(self) -> None:
        """Forget everything after the source was entered elsewhere (the container tells only its own decoders)."""
        if self._is_own and self.context.is_open:
            self.context.flush_buffers()


def is_over(filters: Sequence[str]) -> bool:
    """Whether a plan's filters want the transparent parts of pictures."""
    return any(name.startswith(OVER) for name in filters)
