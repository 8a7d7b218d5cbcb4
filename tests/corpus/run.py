"""One line for every file of a folder."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from tests.corpus.judging import Report, judge_film
from tests.corpus.kinds import FILM, kind_of
from tests.corpus.library import Library, Made

_OURS = {"internal", "worker-crashed", "worker-stalled"}
"""Codes that no file may end with."""
_SIDE_BY_SIDE = 2


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of one file."""

    name: str
    word: str
    """right, wrong or refused."""
    figures: str = ""
    reasons: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """The line that is printed."""
        return " | ".join(filter(None, (f"{self.word:7}", self.name, self.figures, "; ".join(self.reasons))))


def files_under(folder: Path) -> Iterator[Path]:
    """Yield all files, in order."""
    yield from sorted(path for path in folder.rglob("*") if path.is_file())


def shown_name(path: Path, folder: Path) -> str:
    """Return a file's name within the folder, on one line and fit for a terminal."""
    text = str(path.relative_to(folder)).encode(errors="replace").decode()
    return "".join(one if one.isprintable() else "?" for one in text)[:80]


def verdict_of(name: str, made: Made, report: Report | None) -> Verdict:
    """Weigh what became of a file against what its kind asks for."""
    kind = kind_of(name.rpartition("/")[2])
    if made.code != FILM or report is None:
        wrong = made.code in _OURS or bool(kind.outcomes and made.code not in kind.outcomes)
        reasons = [f"{made.code}: {made.message}"]
        if wrong and kind.outcomes:
            reasons.append(f"expected {' or '.join(sorted(kind.outcomes))}")
        return Verdict(name=name, word="wrong" if wrong else "refused", reasons=tuple(reasons))
    reasons = list(dict.fromkeys(report.wrong))
    if kind.outcomes and FILM not in kind.outcomes:
        reasons.insert(0, f"a film was made, but expected {' or '.join(sorted(kind.outcomes))}")
    notes = [f"({one})" for one in dict.fromkeys((*report.notes, *made.warnings))]
    word = "wrong" if reasons else "right"
    return Verdict(name=name, word=word, figures=", ".join(report.figures), reasons=(*reasons, *notes))


async def run_corpus(
    folder: Path, paths: Sequence[Path], tell: Callable[[Verdict], None], *, profile: str | None = None
) -> list[Verdict]:
    """Make and judge all films; ``tell`` hears of each verdict at once, in no order."""
    with tempfile.TemporaryDirectory(prefix="corpus-") as scratch:
        library = await Library.open(Path(scratch) / "library")
        turns = asyncio.Semaphore(_SIDE_BY_SIDE)
        try:
            return list(
                await asyncio.gather(
                    *(
                        _one(library, turns, path, shown_name(path, folder), Path(scratch) / str(number), tell, profile)
                        for number, path in enumerate(paths)
                    )
                )
            )
        finally:
            await library.close()


async def _one(
    library: Library,
    turns: asyncio.Semaphore,
    path: Path,
    name: str,
    scratch: Path,
    tell: Callable[[Verdict], None],
    profile: str | None,
) -> Verdict:
    async with turns:
        await asyncio.to_thread(scratch.mkdir)
        try:
            made = await library.make(path, scratch, profile)
            report = None
            if made.film is not None:
                kind = kind_of(path.name)
                report = await asyncio.to_thread(judge_film, path, made.film, kind, made.warnings)
            verdict = verdict_of(name, made, report)
        except Exception as error:  # noqa: BLE001 (one file that breaks the comparison is one line)
            where = traceback.extract_tb(error.__traceback__)[-1]
            reason = f"comparing failed: {type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
            verdict = Verdict(name=name, word="wrong", reasons=(reason,))
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    tell(verdict)
    return verdict
