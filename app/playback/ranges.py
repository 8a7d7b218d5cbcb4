"""Byte ranges of HTTP (RFC 9110, section 14), as far as players use them: one range of bytes."""

from __future__ import annotations

import re
from enum import Enum, auto

_RANGE = re.compile(r"\s*bytes\s*=\s*([0-9]{0,18})\s*-\s*([0-9]{0,18})\s*", re.ASCII | re.IGNORECASE)


class RangeOutcome(Enum):
    """What a Range header can mean besides a range."""

    WHOLE = auto()
    """There is none, or one that may be ignored (several ranges, other units, nonsense)."""
    UNSATISFIABLE = auto()
    """It lies behind the end."""


def parse_range(header: str | None, size: int) -> range | RangeOutcome:
    """Return the positions that ``header`` asks for in a body of ``size`` bytes."""
    match = _RANGE.fullmatch(header) if header else None
    if match is None or match.groups() == ("", ""):
        return RangeOutcome.WHOLE
    first, last = match.groups()
    if not first:
        wanted = range(max(0, size - int(last)), size)
    elif last and int(last) < int(first):
        return RangeOutcome.WHOLE
    else:
        wanted = range(int(first), min(size, int(last) + 1) if last else size)
    return wanted or RangeOutcome.UNSATISFIABLE
