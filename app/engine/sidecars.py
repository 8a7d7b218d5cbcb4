"""Text files beside a film: found in its folder, read (bounded), and looked at by a child before the plan is made.

A file that is no subtitle file, or that ends its child, costs a warning and never the job.
"""

from __future__ import annotations

import hashlib
import os

import msgspec

from app.core.errors import ErrorCode, ExpectedError
from app.engine.kernel import Kernel
from app.media.chapters import clean_title
from app.media.sidecar import MAX_SIDECAR_BYTES, Sidecar, SidecarName, read_sidecar_name, sidecars_of
from app.transcode.messages import ReadSidecar
from app.transcode.supervisor import open_for_reading

READ_S = 20.0
"""How long a child may be silent over a subtitle file."""
_MANY_NAMES = 20_000
"""In a folder with more files, none are looked for."""


class FoundText(msgspec.Struct, frozen=True, kw_only=True):
    """A readable text file beside a film, and its content in the form of ``app.transcode.raw_text``."""

    sidecar: Sidecar
    raw: bytes


class FoundTexts(msgspec.Struct, frozen=True, kw_only=True):
    """What was found beside a film."""

    texts: tuple[FoundText, ...] = ()
    warnings: tuple[str, ...] = ()


async def find_texts(kernel: Kernel, film: bytes) -> FoundTexts:
    """Return the readable text files beside ``film``, and what to say of the others."""
    folder, own = os.path.split(os.fsdecode(film))
    texts: list[FoundText] = []
    warnings: list[str] = []
    for name in await kernel.store(lambda _storage: _names_beside(folder, own)):
        try:
            texts.append(await _read(kernel, os.path.join(folder, name), read_sidecar_name(own, name)))  # noqa: PTH118
        except ExpectedError as error:
            if error.code in {ErrorCode.DISK_FULL, ErrorCode.READ_ONLY}:
                raise
            warnings.append(f"The subtitle file “{clean_title(_shown(name))}” was left out: {error.message}")
    return FoundTexts(texts=tuple(texts), warnings=tuple(warnings))


def _names_beside(folder: str, film: str) -> tuple[str, ...]:
    try:
        with os.scandir(folder or ".") as entries:
            names = [entry.name for entry, _ in zip(entries, range(_MANY_NAMES + 1), strict=False)]
    except OSError:
        return ()  # the film can be read although its folder cannot be listed
    return sidecars_of(film, names) if len(names) <= _MANY_NAMES else ()


async def _read(kernel: Kernel, path: str, name: SidecarName) -> FoundText:
    data = await kernel.store(lambda _storage: _read_bounded(path))
    charset = str(kernel.settings.get("text.charset"))
    request = ReadSidecar(data=data, kind=name.kind, language=name.language, charset=charset)
    done = await kernel.supervisor.run(request, stall_s=READ_S)
    if done.sidecar is None:
        raise ExpectedError(ErrorCode.UNREADABLE, "It could not be read.")
    found = done.sidecar
    digest = hashlib.sha256(data).hexdigest()
    return FoundText(sidecar=Sidecar(name=name, digest=digest, codec=found.codec, charset=found.charset), raw=found.raw)


def _read_bounded(path: str) -> bytes:
    fd = open_for_reading(os.fsencode(path))
    with os.fdopen(fd, "rb") as file:
        data = file.read(MAX_SIDECAR_BYTES + 1)
    if len(data) > MAX_SIDECAR_BYTES:
        raise ExpectedError(ErrorCode.TOO_LARGE, f"It is larger than {MAX_SIDECAR_BYTES >> 20} MiB.")
    return data


def _shown(name: str) -> str:
    return os.fsencode(name).decode(errors="replace")
