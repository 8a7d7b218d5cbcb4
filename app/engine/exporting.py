"""Export: the best rendition and all tracks of a finished film, from the vault, remuxed by a child into one MP4."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Iterator

from app.core.database import disk_error_to_ours
from app.core.errors import ErrorCode, ExpectedError
from app.engine.films import EngineFilms, FilmView
from app.engine.kernel import Kernel
from app.media.plan import TextTrack
from app.playback.source import INIT_NUMBER
from app.storage.vault import Vault
from app.transcode.messages import JoinedText, JoinFilm, Progressed, Report


async def export_film(
    kernel: Kernel,
    films: EngineFilms,
    media_id: str,
    path: bytes,
    *,
    overwrite: bool,
    progress: Callable[[float], None],
) -> int:
    """Write the film to ``path`` and return the size in bytes; the file appears only when it is whole.

    Raises ``ExpectedError`` not-done, already-done (the file exists), missing-shard, disk-full, read-only.
    """
    view = await films.view(media_id)
    if not view.is_full:
        raise ExpectedError(ErrorCode.NOT_DONE, "The film is not finished; wait for its job, then export it.")
    target = os.path.abspath(path)  # noqa: PTH100, ASYNC240 (bytes paths; reads no disk)
    part = os.path.join(os.path.dirname(target), b".hearthreel-%s.part" % view.job_id[:12].encode())  # noqa: PTH118, PTH120
    if await asyncio.to_thread(os.path.exists, target) and not overwrite:
        raise ExpectedError(
            ErrorCode.ALREADY_DONE, "There is such a file already; choose another name, or say to overwrite it."
        )
    try:
        size = await _write(kernel, films, view, part, progress)
        await asyncio.to_thread(os.replace, part, target)
    except OSError as error:
        raise disk_error_to_ours(error, os.fsdecode(target)) from error
    finally:
        with contextlib.suppress(OSError):
            await asyncio.to_thread(os.unlink, part)
    return size


async def _write(
    kernel: Kernel,
    films: EngineFilms,
    view: FilmView,
    part: bytes,
    progress: Callable[[float], None],
) -> int:
    plan = view.plan
    names = [plan.renditions[0].name, *(track.name for track in plan.audio)]
    pieces = [await _capabilities(films, view, name) for name in names]
    texts = tuple([await _text(kernel, films, view, track) for track in view.layout.text])
    output = await asyncio.to_thread(os.open, part, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
    feeds = [_Feed(kernel.storage.vault, one) for one in pieces]
    try:
        request = JoinFilm(
            inputs=tuple(feed.read_end for feed in feeds),
            labels=("", *(track.label for track in plan.audio)),
            languages=("", *(track.language for track in plan.audio)),
            output_fd=output,
            duration_ticks=plan.duration_ticks,
            text=texts,
            chapters=plan.chapters,
        )

        async def report(one: Report) -> None:
            if isinstance(one, Progressed):
                progress(one.milli / 1000)

        done = await kernel.supervisor.join(request, on_report=report)
    finally:
        for feed in feeds:
            await asyncio.to_thread(feed.close)
        os.close(output)
    for feed in feeds:
        if feed.error is not None:
            raise feed.error
    return done.size_bytes


async def _text(kernel: Kernel, films: EngineFilms, view: FilmView, track: TextTrack) -> JoinedText:
    capability = await films.find(view, track.name, 0)
    if capability is None:
        raise _lost()
    await films.have_here([capability])
    data = await kernel.store(lambda storage: storage.vault.read_all(capability))
    return JoinedText(label=track.label, language=track.language, data=data, is_forced=track.is_forced)


def _lost() -> ExpectedError:
    return ExpectedError(ErrorCode.RESULT_LOST, "A piece of this film is lost; run verify, then retry its job.")


async def _capabilities(films: EngineFilms, view: FilmView, name: str) -> list[str]:
    numbers = [INIT_NUMBER, *range(view.plan.segment_count)]
    found = [await films.find(view, name, number) for number in numbers]
    if any(one is None for one in found):
        raise _lost()
    pieces = [one for one in found if one is not None]
    await films.have_here(pieces)
    return pieces


class _Feed:
    """A thread that writes the pieces of one stream into a pipe, which the child reads."""

    def __init__(self, vault: Vault, capabilities: list[str]) -> None:
        self._vault = vault
        self._capabilities = capabilities
        self.read_end, self._write_end = os.pipe()
        self.error: ExpectedError | None = None
        self._thread = threading.Thread(target=self._run, name="export", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with os.fdopen(self._write_end, "wb", buffering=0) as pipe:
                for data in self._pieces():
                    _write_all(pipe.fileno(), data)
        except ExpectedError as error:
            self.error = error
        except OSError:
            pass  # the child went away, and says why itself

    def _pieces(self) -> Iterator[bytes]:
        for capability in self._capabilities:
            yield from self._vault.iterate(capability)

    def close(self) -> None:
        """Close the reading end, which ends a writer that still waits, and see the thread gone."""
        os.close(self.read_end)
        self._thread.join()


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
