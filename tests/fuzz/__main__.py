"""Breaks films until time is up: ``python -m tests.fuzz --minutes 10``; what fails is kept in ``.fuzz/``.

The seed is printed; trial N of a seed is the same for ever, so ``--seed S --first N --count 1`` repeats one.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections import Counter
from pathlib import Path

from tests.fuzz.inputs import make_films
from tests.fuzz.mutations import mutate
from tests.fuzz.trial import Trial, Verdict, available_tracer

FOLDER = Path(".fuzz")
LARGEST_INPUT_BYTES = 2 << 20


def broken_film(films: dict[str, bytes], seed: int, number: int) -> tuple[str, str, bytes]:
    """Return (name, what was done, bytes) of trial ``number``."""
    dice = random.Random(f"{seed}/{number}")  # noqa: S311 (repeatable, not secret)
    name = dice.choice(sorted(films))
    done, data = mutate(films[name], dice, [films[one] for one in sorted(films)])
    return name, done, data


class Fuzzer:
    """Trials side by side, and what came of them."""

    def __init__(self, films: dict[str, bytes], seed: int, *, trace_every: int) -> None:
        self._films = films
        self._seed = seed
        self._trace_every = trace_every if available_tracer() else 0
        self._work = FOLDER / "work"
        self._work.mkdir(parents=True, exist_ok=True)
        self.outcomes: Counter[str] = Counter()
        self.faults = 0
        self.slowest = 0.0

    async def run_one(self, number: int) -> None:
        """Make one trial; keep its input when something is wrong."""
        name, done, data = broken_film(self._films, self._seed, number)
        path = self._work / f"{number}-{name}"
        path.write_bytes(data)
        traced = self._trace_every > 0 and number % self._trace_every == 0
        verdict = await Trial(path.resolve(), traced=traced).run()
        self.outcomes[verdict.outcome] += 1
        self.slowest = max(self.slowest, verdict.seconds)
        if verdict.faults:
            self._keep(path, number, done, verdict)
        else:
            path.unlink()

    def _keep(self, path: Path, number: int, done: str, verdict: Verdict) -> None:
        self.faults += 1
        kept = FOLDER / f"{self._seed}-{path.name}"
        path.rename(kept)
        for fault in verdict.faults:
            print(f"FAULT {self._seed}/{number} {kept} ({done}): {fault.request}: {fault.what}", flush=True)


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(one for one in path.iterdir() if one.is_file())


async def _try_again(paths: list[Path]) -> int:
    """Return 1 when any of these files, kept from earlier runs, still brings a fault to light."""
    bad = 0
    for path in paths:
        verdict = await Trial(path.resolve(), traced=available_tracer() is not None).run()
        bad += bool(verdict.faults)
        what = "; ".join(f"{fault.request}: {fault.what}" for fault in verdict.faults) or verdict.outcome
        print(f"{path.name}: {verdict.seconds:.1f} s, {what}", flush=True)
    return 1 if bad else 0


async def _run(arguments: argparse.Namespace) -> int:
    if arguments.again:
        return await _try_again([path for folder in arguments.again for path in _files(folder)])
    films = make_films(FOLDER / "films")
    for folder in arguments.inputs:
        films |= {
            path.name: path.read_bytes() for path in _files(folder) if 0 < path.stat().st_size <= LARGEST_INPUT_BYTES
        }
    print(f"{len(films)} films, seed {arguments.seed}", flush=True)
    fuzzer = Fuzzer(films, arguments.seed, trace_every=arguments.trace_every)
    deadline = time.monotonic() + arguments.minutes * 60
    numbers = iter(range(arguments.first, arguments.first + arguments.count))

    async def work() -> None:
        for number in numbers:
            if time.monotonic() > deadline:
                return
            await fuzzer.run_one(number)
            made = fuzzer.outcomes.total()
            if made % 50 == 0:
                print(f"{made} trials, {fuzzer.faults} faults, {dict(fuzzer.outcomes.most_common())}", flush=True)

    await asyncio.gather(*(work() for _ in range(arguments.jobs)))
    print(
        f"{fuzzer.outcomes.total()} trials of seed {arguments.seed}, {fuzzer.faults} with faults, slowest "
        f"{fuzzer.slowest:.1f} s, {dict(fuzzer.outcomes.most_common())}"
    )
    return 1 if fuzzer.faults else 0


def main() -> int:
    """Return 1 when anything was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("inputs", nargs="*", type=Path, help="folders with more films to break")
    parser.add_argument("--again", nargs="+", type=Path, help="do not break anything, try these kept files again")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))  # noqa: S311
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--trace-every", type=int, default=10, help="watch every nth trial with strace; 0 is never")
    return asyncio.run(_run(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
