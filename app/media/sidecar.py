"""Text files beside a film (``Film.srt``, ``Film.de.forced.ass``): which belong to it, and what their names say. Pure.

::

    Film . pt-BR . sdh . Commentary . srt
    stem   language flags   title     kind

A file belongs to the film whose name is the longest that it begins with, so ``Film.2.srt`` goes to ``Film.2.mkv``
when there is one, else to ``Film.mkv``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from app.media.chapters import clean_title
from app.media.languages import is_language

SIDECAR_KINDS = frozenset({"srt", "ass", "ssa", "vtt"})
MAX_SIDECARS = 32
MAX_SIDECAR_BYTES = 8 << 20
_FORCED = {"forced", "foreign"}
_DEFAULT = {"default"}
_HEARING_IMPAIRED = {"sdh", "cc", "hi"}
_FLAGS = _FORCED | _DEFAULT | _HEARING_IMPAIRED
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:[-_](?:[A-Za-z]{4}|[A-Za-z]{2}|\d{3}))*")


class SidecarName(msgspec.Struct, frozen=True, kw_only=True):
    """What a sidecar's name says."""

    kind: str
    language: str = ""
    """BCP 47 or ISO 639 code; empty when unknown."""
    title: str = ""
    is_default: bool = False
    is_forced: bool = False
    is_hearing_impaired: bool = False


class Sidecar(msgspec.Struct, frozen=True, kw_only=True):
    """A readable text file beside the film, as the plan gets to know it."""

    name: SidecarName
    digest: str
    """Hex SHA-256 of the file's bytes."""
    codec: str
    charset: str


def sidecars_of(film: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return those of the ``names`` in a film's folder that are its sidecars, sorted."""
    everything = list(names)
    others = {_stem(name) for name in everything if _kind(name) not in SIDECAR_KINDS}
    own = _stem(film)
    return tuple(
        sorted(
            name
            for name in everything
            if _kind(name) in SIDECAR_KINDS and _owner(name, others | {own}) == own and name != film
        )
    )[:MAX_SIDECARS]


def read_sidecar_name(film: str, name: str) -> SidecarName:
    """Return what a sidecar's name says beyond the film's own.

    Flags and the language are looked for from the end, where people write them; ``hi`` is Hindi unless another
    language stands there too, and then it means the hard of hearing.
    """
    words = [word for word in name[len(_stem(film)) :].split(".")[:-1] if word]
    flags: set[str] = set()
    language, title = "", list[str]()
    for word in reversed(words):
        lower = word.casefold()
        if lower in _FLAGS and (lower != "hi" or (not language and _has_language(words))):
            flags.add(lower)
        elif not language and not title and _is_code(word):
            language = word.replace("_", "-")
        else:
            title.append(word)
    return SidecarName(
        kind=_kind(name),
        language=language,
        title=clean_title(" ".join(reversed(title))),
        is_default=bool(flags & _DEFAULT),
        is_forced=bool(flags & _FORCED),
        is_hearing_impaired=bool(flags & _HEARING_IMPAIRED),
    )


def _has_language(words: Iterable[str]) -> bool:
    return any(word.casefold() != "hi" and _is_code(word) for word in words)


def _is_code(word: str) -> bool:
    return _LANGUAGE.fullmatch(word) is not None and is_language(re.split("[-_]", word)[0])


def _stem(name: str) -> str:
    stem, dot, _ = name.rpartition(".")
    return stem.casefold() if dot and stem else name.casefold()


def _kind(name: str) -> str:
    return name.rpartition(".")[2].casefold()


def _owner(name: str, stems: Iterable[str]) -> str:
    lower = name.casefold()
    return max((stem for stem in stems if lower.startswith(stem + ".")), key=len, default="")
