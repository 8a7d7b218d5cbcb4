"""The implementations of a channel, each as a link that a contract test can use and break."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from app.sync.channel import Channel
from app.sync.memory_channel import memory_channels

KEY_A, KEY_B = b"A" * 32, b"B" * 32


@dataclass(frozen=True, kw_only=True)
class Link:
    """Two ends, A's and B's, and how to lose the connection between them."""

    a: Channel
    b: Channel
    key_a: bytes
    key_b: bytes
    vanish: Callable[[], Awaitable[None]]


@contextlib.asynccontextmanager
async def memory_link() -> AsyncIterator[Link]:
    a, b = memory_channels(KEY_A, KEY_B)

    async def vanish() -> None:
        a.vanish()

    yield Link(a=a, b=b, key_a=KEY_A, key_b=KEY_B, vanish=vanish)


LINKS = (memory_link,)
