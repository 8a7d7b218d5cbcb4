"""Keeps Python 3.10 and 3.11 alive under PySide6 6.12.

Measured with the wheel of 6.12.0 on Python 3.11.7: every Qt function that returns nothing takes one reference to
``None`` away, because it was built for Pythons in which ``None`` is immortal (3.12 and later). After some thousand
calls the interpreter aborts with "none_dealloc: deallocating None"; the same holds for ``True`` and ``False``. So on
older Pythons these few objects get a count that no run can use up, which is what later Pythons do by themselves.

It must happen before the first call of Qt, so ``app.ui`` does it when it is imported.
"""

from __future__ import annotations

import ctypes
import sys

_PLENTY = 1 << 48
"""More than any run takes away, far from overflow of 63 bits; on 32 bits see below."""
_PLENTY_32 = 1 << 29


def pin_singletons() -> None:
    """Make ``None``, ``True``, ``False`` and ``NotImplemented`` last as long as the process; safe to call again."""
    if sys.version_info >= (3, 12) or sys.implementation.name != "cpython":
        return
    plenty = _PLENTY if sys.maxsize > 2**32 else _PLENTY_32
    for one in (None, True, False, NotImplemented):
        count = ctypes.c_ssize_t.from_address(id(one))  # the first field of every object is its count
        if count.value < plenty:
            count.value += plenty
