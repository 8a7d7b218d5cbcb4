"""``kill -9`` of a real engine at many moments: nothing is lost, nothing is left behind, the next one ends the job."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from app.core.paths import DataDir
from app.queue.rows import TaskRow, decode_row
from tests.engine.stage import PATIENCE_S, ROOT, children_of

pytestmark = pytest.mark.slow


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """How far the work is, as the database of a running engine says."""

    leased: int
    results: dict[str, tuple[int, str]]
    """Target → (epoch, value) of what is completed."""
    segments: int


def look(root: Path) -> Seen:
    """Look at the rows, at most a hundred times a second."""
    time.sleep(0.01)
    with closing(sqlite3.connect(f"file:{DataDir(root=root).database}?mode=ro", uri=True, timeout=20)) as database:
        tasks = [decode_row(document, TaskRow) for (document,) in database.execute("SELECT document FROM tasks")]
        (segments,) = database.execute("SELECT count(*) FROM made_segments").fetchone()
    results = {one.target: (one.outcome.epoch, one.outcome.value) for one in tasks if one.outcome is not None}
    return Seen(leased=sum(one.lease is not None for one in tasks), results=results, segments=segments)


def hearthreel(root: Path, *words: str, code: int = 0) -> list[Any]:
    """Run a command to its end and return its JSON lines."""
    run = subprocess.run(
        [sys.executable, "-m", "app", "--data-dir", str(root), "--json", *words],
        cwd=ROOT,
        capture_output=True,
        timeout=PATIENCE_S * 2,
        check=False,
    )
    assert run.returncode == code, run.stderr.decode(errors="replace")
    return [json.loads(line) for line in run.stdout.splitlines()]


@contextmanager
def worker(root: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a real engine, and kill it with everything it holds at the end of the block."""
    command = [sys.executable, "-m", "app", "--data-dir", str(root), "worker"]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL) as engine:
        try:
            yield engine
        finally:
            engine.send_signal(signal.SIGKILL)
            engine.wait()


def work_until(root: Path, is_so: Callable[[Seen], bool], *, polls: int) -> list[psutil.Process]:
    """Let an engine work until something is so and ``polls`` looks more, kill it, and return the children it had."""
    deadline = time.monotonic() + PATIENCE_S
    with worker(root) as engine:
        while not is_so(look(root)):
            assert engine.poll() is None, "the engine ended by itself"
            assert time.monotonic() < deadline, look(root)
        for _ in range(polls):
            look(root)
        return children_of(engine.pid)


MOMENTS: tuple[tuple[str, Callable[[Seen], bool]], ...] = (
    ("at the first lease", lambda seen: seen.leased > 0),
    ("when the plan is there", lambda seen: "index" in seen.results),
    ("with a first segment", lambda seen: seen.segments > 0),
    ("in the second chunk", lambda seen: _chunks(seen) >= 1 and seen.segments > 1),
    ("after the second chunk", lambda seen: _chunks(seen) >= 2),
    ("after the third chunk", lambda seen: _chunks(seen) >= 3),
)


def _chunks(seen: Seen) -> int:
    return sum(target.startswith("video/") for target in seen.results)


def test_a_job_outlives_kill_9_at_any_moment(root: Path, busy_film: Path) -> None:
    rng = random.Random(20)  # noqa: S311 (moments, no secrets)
    (added,) = hearthreel(root, "add", str(busy_film))
    kept: dict[str, tuple[int, str]] = {}
    for name, moment in MOMENTS:
        children = work_until(root, moment, polls=rng.randrange(30))
        _, alive = psutil.wait_procs(children, timeout=5)
        assert alive == [], f"orphans after a kill {name}"
        now = look(root).results
        lost = {target: value for target, value in kept.items() if now.get(target) != value}
        assert lost == {}, f"results lost or made again after a kill {name}"
        kept = now
    (before,) = hearthreel(root, "jobs")
    assert before["state"] == "queued"
    hearthreel(root, "worker", "--once")
    (job,) = hearthreel(root, "jobs")
    assert (job["state"], job["id"], job["error"]) == ("done", added["job_id"], None)
    (report,) = hearthreel(root, "verify")
    assert (report["damaged"], report["missing"], report["stray"]) == ([], [], [])
    seen = look(root)
    film = json.loads(next(iter(seen.results.values()))[1])
    bundles = {one["bundle"] for one in film["video"]} | {one["bundle"] for one in film["audio"]}
    for target, (_epoch, value) in kept.items():
        if target.startswith(("video/", "audio/")):
            assert json.loads(value)["bundle"] in bundles, f"{target} was made again"
    assert (seen.leased, seen.segments) == (1, 0)


def test_add_and_wait_is_killed_with_stopped_children_and_the_next_start_sweeps_them(
    root: Path, busy_film: Path
) -> None:
    command = [sys.executable, "-m", "app", "--data-dir", str(root), "add", str(busy_film), "--wait"]
    deadline = time.monotonic() + PATIENCE_S
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as engine:
        while not DataDir(root=root).database.exists() or not look_if_ready(root).segments:
            assert time.monotonic() < deadline
        children = children_of(engine.pid)
        for child in children:
            child.suspend()
        os.kill(engine.pid, signal.SIGKILL)
    (again,) = hearthreel(root, "add", str(busy_film))
    _, alive = psutil.wait_procs(children, timeout=5)
    assert alive == [], "a stopped child outlived the next start"
    assert again["already"] is True
    (job,) = hearthreel(root, "jobs")
    assert (job["state"], job["id"]) == ("queued", again["job_id"])
    assert (job["progress"] or 0) >= 0


def look_if_ready(root: Path) -> Seen:
    """Look at a database whose tables may not be there yet."""
    try:
        return look(root)
    except sqlite3.OperationalError:
        return Seen(leased=0, results={}, segments=0)
