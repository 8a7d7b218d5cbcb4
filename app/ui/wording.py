"""Durations, sizes, rates and counts in words; pure, with the translator as an argument.

``Translate`` takes (context, English text) and returns the text to show: the window passes Qt's translator, tests and
other faces pass ``plain``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

Translate = Callable[[str, str], str]

_KILO = 1000
_MINUTE_S = 60
_HOUR_S = 3600
_DAY_S = 86400

# Anything that steers how text is laid out instead of being text: bidirectional controls, line and paragraph
# separators, and the C0 and C1 controls. A file name must not be able to turn a line around or add one.
_STEERING = dict.fromkeys(
    (*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x2028, 0x2029),
    "\N{REPLACEMENT CHARACTER}",
)


def plain(_context: str, text: str) -> str:
    """Return ``text`` as it is: the translator that does not translate."""
    return text


def clean_line(text: str) -> str:
    """Return ``text`` as one line without control characters and lone surrogates; for names that came from files."""
    return text.encode("utf-8", "replace").decode().translate(_STEERING)


def format_clock(seconds: float) -> str:
    """Return ``1:23:45`` or ``3:45`` for a position or duration in seconds; negative counts as 0."""
    whole = max(0, int(seconds))
    hours, rest = divmod(whole, _HOUR_S)
    minutes, second = divmod(rest, _MINUTE_S)
    return f"{hours}:{minutes:02}:{second:02}" if hours else f"{minutes}:{second:02}"


def format_size(size_bytes: int) -> str:
    """Return a size with three significant digits in decimal units, as file managers show it: ``1.24 GB``."""
    size = float(max(0, size_bytes))
    if size < _KILO:
        return f"{int(size)} B"
    for unit in ("kB", "MB", "GB", "TB"):
        size /= _KILO
        if size < 999.5 or unit == "TB":
            break
    digits = 2 if size < 9.995 else 1 if size < 99.95 else 0
    return f"{size:.{digits}f} {unit}"


def format_percent(share: float) -> str:
    """Return a share from 0 to 1 as whole percent, rounded down: work that goes on never says 100 %."""
    return f"{math.floor(min(1.0, max(0.0, share)) * 100 + 1e-9)} %"


class Wording:
    """Phrases that contain numbers, in the person's language."""

    def __init__(self, translate: Translate = plain) -> None:
        self._translate = translate

    def say(self, text: str, **values: object) -> str:
        """Return ``text`` translated, with ``{name}`` filled in."""
        said = self._translate("Window", text)
        return said.format(**values) if values else said

    def count(self, number: int, one: str, many: str) -> str:
        """Return ``one`` or ``many`` translated, with ``{n}`` filled in."""
        return self.say(one if number == 1 else many, n=number)

    def rate(self, rate_x: float) -> str:
        """Return film seconds made per second, as a multiple of real time."""
        digits = 2 if rate_x < 0.995 else 1 if rate_x < 9.95 else 0
        return self.say("{rate}\N{MULTIPLICATION SIGN} real time", rate=f"{rate_x:.{digits}f}")

    def time_left(self, seconds: float) -> str:
        """Return a remaining time in seconds, roundly, as people say it."""
        if seconds < 50:
            return self.say("less than a minute left")
        minutes = max(1, round(seconds / _MINUTE_S))
        if minutes < 60:
            return self.say("{n} min left", n=minutes)
        if seconds < _DAY_S:
            hours, rest = divmod(minutes, 60)
            rounded = rest // 5 * 5
            if rounded == 0:
                return self.say("{n} h left", n=hours)
            return self.say("{h} h {m} min left", h=hours, m=rounded)
        return self.count(round(seconds / _DAY_S), "{n} day left", "{n} days left")
