"""The addresses under a player's token, both ways: playlists write them, the gateway reads them.

::

    master.m3u8                    multivariant playlist
    auto.m3u8                      the same with one variant, in which the gateway adapts
    auto/video.m3u8                media playlist of that variant
    PLANHASH/NAME/index.m3u8       media playlist of a rendition or track
    PLANHASH/NAME/init.mp4         init section;  NAME may be ``auto``
    PLANHASH/NAME/NUMBER.m4s       segment;       NAME may be ``auto``
    PLANHASH/NAME/NUMBER.vtt       segment of a text track
    poster.jpg, sheets/NUMBER.jpg  stills

The plan's hash keeps pieces of two plans of one film apart, in a player's buffer too.
"""

from __future__ import annotations

import re

import msgspec

from app.playback.source import INIT_NUMBER, StillKind

AUTO = "auto"
"""Stands where a rendition's name would; no rendition may bear it."""

MASTER_PLAYLIST = "master.m3u8"
AUTO_MASTER_PLAYLIST = "auto.m3u8"
AUTO_VIDEO_PLAYLIST = "auto/video.m3u8"
SHEETS = "sheets/"

_PIECE = re.compile(
    r"([0-9a-f]{8,64})/([A-Za-z0-9_-]{1,64})/(?:(init)\.mp4|(0|[1-9][0-9]{0,8})\.(m4s|vtt)|(index)\.m3u8)"
)
_SHEET = re.compile(r"sheets/(0|[1-9][0-9]{0,8})\.jpg")


class MasterAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A multivariant playlist."""

    is_auto: bool


class MediaPlaylistAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A media playlist; ``name`` is ``AUTO`` for the adapting one, whose ``plan_hash`` is None (the current one)."""

    plan_hash: str | None
    name: str


class PieceAddress(msgspec.Struct, frozen=True, kw_only=True):
    """An init section (``INIT_NUMBER``) or a segment."""

    plan_hash: str
    name: str
    number: int
    is_text: bool = False


class StillAddress(msgspec.Struct, frozen=True, kw_only=True):
    """The poster or a trickplay sheet."""

    kind: StillKind
    number: int


Address = MasterAddress | MediaPlaylistAddress | PieceAddress | StillAddress

_FIXED: dict[str, Address] = {
    MASTER_PLAYLIST: MasterAddress(is_auto=False),
    AUTO_MASTER_PLAYLIST: MasterAddress(is_auto=True),
    AUTO_VIDEO_PLAYLIST: MediaPlaylistAddress(plan_hash=None, name=AUTO),
    "poster.jpg": StillAddress(kind=StillKind.POSTER, number=0),
}


def parse_address(path: str) -> Address | None:
    """Return what ``path``, the part after the token and its slash, stands for; None when it is no address."""
    if path in _FIXED:
        return _FIXED[path]
    if match := _SHEET.fullmatch(path):
        return StillAddress(kind=StillKind.SHEET, number=int(match[1]))
    if match := _PIECE.fullmatch(path):
        return _piece_or_playlist(match)
    return None


def _piece_or_playlist(match: re.Match[str]) -> Address | None:
    hash_, name, init, number, kind, index = match.groups()
    if index:
        return None if name == AUTO else MediaPlaylistAddress(plan_hash=hash_, name=name)
    number = INIT_NUMBER if init else int(number)
    return PieceAddress(plan_hash=hash_, name=name, number=number, is_text=kind == "vtt")


def format_media_playlist(plan_hash: str, name: str) -> str:
    """Return the address of the media playlist of a rendition or track."""
    return f"{plan_hash}/{name}/index.m3u8"


def format_piece(plan_hash: str, name: str, number: int) -> str:
    """Return the address of a segment, or of the init section for ``INIT_NUMBER``."""
    return f"{plan_hash}/{name}/" + ("init.mp4" if number == INIT_NUMBER else f"{number}.m4s")


def format_text_piece(plan_hash: str, name: str) -> str:
    """Return the address of the only segment of a text track."""
    return f"{plan_hash}/{name}/0.vtt"
