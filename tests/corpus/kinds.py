"""What right means for each kind of hard case, known by the number and words at the start of a file's name.

A file of any other name must become a right film or be refused; one of these must do what stands here.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

import msgspec

FILM = "film"
SOUND_ONLY = "sound-only"


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """What must become of a file, and what of its nature the comparison has to know."""

    outcomes: frozenset[str] = frozenset()
    """Codes and ``film``; empty when anything but a mistake of ours will do."""
    warned: bool = False
    """Whether the film must carry a warning."""
    is_telecined: bool = False
    """Whether a film picture is spread over fields, so that the pictures made are not those of the source."""
    is_clockless: bool = False
    """Whether its times cannot be trusted: pictures are counted, not timed."""


def _refused(*codes: str) -> Kind:
    return Kind(outcomes=frozenset(codes))


_FILM = Kind(outcomes=frozenset({FILM}))
_DAMAGED = Kind(outcomes=frozenset({FILM}), warned=True)

KINDS: tuple[tuple[str, Kind], ...] = (
    ("06_*", Kind(outcomes=frozenset({FILM}), warned=True, is_clockless=True)),
    ("07_*", Kind(outcomes=frozenset({FILM}), is_clockless=True)),
    ("08_*", _FILM),
    ("09_*", Kind(outcomes=frozenset({FILM}), warned=True)),
    ("17_hard*", Kind(outcomes=frozenset({FILM}), is_telecined=True)),
    ("21_dovi_p5*", _refused("no-decoder")),
    ("28_anim.webp", _refused("no-decoder", FILM)),
    ("29_*", _refused("picture")),
    ("30_huge*", _refused("too-large")),
    ("34_*", _refused("no-video", FILM)),
    ("35_cover.mp3", _refused("no-video", FILM)),
    ("38.ass", _refused("not-a-video")),
    ("39.srt", _refused("not-a-video")),
    ("40_*.srt", _refused("not-a-video")),
    ("43_no_moov*", _refused("truncated")),
    ("43_empty*", _refused("empty")),
    ("44_*", _DAMAGED),
    ("45_html*", _refused("not-a-video")),
    ("45_zip*", _refused("not-a-video")),
    ("49_secret*", _refused("not-a-video")),
    ("49_*", _refused("playlist")),
    ("63_protected*", _refused("protected")),
    ("63_no_decoder*", _refused("no-decoder")),
    ("[0-6][0-9]_*", _FILM),
)


def kind_of(name: str) -> Kind:
    """Return what is known of a file by its name."""
    return next((kind for pattern, kind in KINDS if fnmatchcase(name, pattern)), Kind())
