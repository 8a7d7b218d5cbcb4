"""A finished film as a player gets it: playlists and segments over HTTP, put together to one file per rendition."""

from __future__ import annotations

import re
import urllib.parse
import urllib.request
from pathlib import Path

import msgspec

_ATTRIBUTE = re.compile(r'([A-Z0-9-]+)=("[^"]*"|[^,]*)')
_LIMIT_S = 60


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """A rendition or a sound track as a file, and what its playlist says."""

    name: str
    path: Path
    durations_s: tuple[float, ...]
    target_s: float
    attributes: dict[str, str]
    complaints: tuple[str, ...]

    @property
    def length_s(self) -> float:
        """Length by the playlist."""
        return sum(self.durations_s)


class FetchedFilm(msgspec.Struct, frozen=True, kw_only=True):
    """All of a film."""

    pictures: tuple[Piece, ...]
    sounds: tuple[Piece, ...]


def fetch_film(master: str, folder: Path) -> FetchedFilm:
    """Read the multivariant playlist at ``master`` and write every rendition and track into ``folder``."""
    lines = _read(master).decode().splitlines()
    pictures: list[Piece] = []
    sounds: list[Piece] = []
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        attributes = {name: value.strip('"') for name, value in _ATTRIBUTE.findall(line.partition(":")[2])}
        if line.startswith("#EXT-X-STREAM-INF:"):
            address = urllib.parse.urljoin(master, following)
            pictures.append(_fetch(address, folder / f"v{len(pictures)}.mp4", attributes))
        elif line.startswith("#EXT-X-MEDIA:") and attributes.get("TYPE") == "AUDIO" and "URI" in attributes:
            address = urllib.parse.urljoin(master, attributes["URI"])
            sounds.append(_fetch(address, folder / f"a{len(sounds)}.mp4", attributes))
    return FetchedFilm(pictures=tuple(pictures), sounds=tuple(sounds))


def _read(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=_LIMIT_S) as answer:  # noqa: S310 (our own gateway)
        data: bytes = answer.read()
        return data


def _fetch(address: str, path: Path, attributes: dict[str, str]) -> Piece:
    lines = _read(address).decode().splitlines()
    durations: list[float] = []
    target = 0.0
    with path.open("wb") as file:
        for line in lines:
            if line.startswith("#EXT-X-MAP:"):
                file.write(_read(urllib.parse.urljoin(address, line.split('"')[1])))
            elif line.startswith("#EXTINF:"):
                durations.append(float(line[8:].rstrip(",")))
            elif line.startswith("#EXT-X-TARGETDURATION:"):
                target = float(line.partition(":")[2])
            elif line and not line.startswith("#"):
                file.write(_read(urllib.parse.urljoin(address, line)))
    return Piece(
        name=attributes.get("NAME") or attributes.get("RESOLUTION", path.stem),
        path=path,
        durations_s=tuple(durations),
        target_s=target,
        attributes=attributes,
        complaints=tuple(_complaints(lines, durations, target)),
    )


def _complaints(lines: list[str], durations: list[float], target: float) -> list[str]:
    found = []
    if "#EXT-X-ENDLIST" not in lines:
        found.append("the playlist has no end")
    if not durations:
        found.append("the playlist has no segment")
    if any(one <= 0 for one in durations):
        found.append("a segment has no length")
    if target < 1 or any(int(one + 0.5) > target for one in durations):
        found.append(f"TARGETDURATION {target:.0f} is too small")
    return found
