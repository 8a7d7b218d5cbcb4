"""The C allocator, told that this program handles megabytes all the time."""

from __future__ import annotations

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # numbers from glibc's malloc.h
_LARGEST_BLOCK = 64 << 20
_MOST_FREE = 128 << 20
_ARENAS = 2


def keep_large_blocks() -> None:
    """Let glibc reuse freed blocks of a shard's or segment's size instead of asking the system for fresh pages.

    Fresh pages made sealing two to three times as slow, and an encoder's arena per thread costs a sixth more memory.
    Other allocators are left as they are.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    mallopt(_M_MMAP_THRESHOLD, _LARGEST_BLOCK)
    mallopt(_M_TRIM_THRESHOLD, _MOST_FREE)
    mallopt(_M_ARENA_MAX, _ARENAS)
