"""Adds every file of a folder to a new library and compares each film with its source.

One line for each file: right, wrong or refused, figures, reasons. The exit code is 1 when anything is wrong.
Figures: length of film/source, pictures of each rendition/source, likeness of sampled pictures (median≥least), how many
milliseconds the sound is late at its start, middle and end.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
from collections import Counter
from pathlib import Path

from tests.corpus.inputs import make_inputs
from tests.corpus.run import Verdict, files_under, run_corpus, shown_name

OWN_INPUTS = Path(".corpus")


def main() -> int:
    """Return 1 when any film is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.corpus", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="films to judge; without it, inputs of our own are made")
    parser.add_argument("--profile", default=None, help="profile to add with; the default one when left out")
    parser.add_argument("--only", default="*", help="pattern that a file's name must match")
    arguments = parser.parse_args()
    for tool in ("ffmpeg", "ffprobe"):
        if shutil.which(tool) is None:
            parser.error(f"{tool} is needed to judge films; install ffmpeg")
    folder = (arguments.folder or OWN_INPUTS).absolute()
    if arguments.folder is None:
        make_inputs(folder)
    if not folder.is_dir():
        parser.error(f"{folder} is not a folder")
    paths = [path for path in files_under(folder) if path.match(arguments.only)]
    return asyncio.run(_run(folder, paths, arguments.profile))


async def _run(folder: Path, paths: list[Path], profile: str | None) -> int:
    width = max((len(shown_name(path, folder)) for path in paths), default=0)

    def tell(verdict: Verdict) -> None:
        print(verdict.line.replace(verdict.name, verdict.name.ljust(min(width, 32)), 1), flush=True)

    verdicts = await run_corpus(folder, paths, tell, profile=profile)
    counts = Counter(one.word for one in verdicts)
    print(f"{len(verdicts)} files: " + ", ".join(f"{count} {word}" for word, count in sorted(counts.items())))
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
