"""Runs all benchmarks and prints one table: ``python -m tests.bench [RUNS]``."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import aiohttp
import psutil

from app.core.allocator import keep_large_blocks
from app.core.clock import SystemClock
from app.core.database import Database
from app.core.errors import ExpectedError
from app.core.paths import DataDir
from app.engine import api
from app.engine.local import LocalEngine
from app.storage.opening import open_storage
from app.storage.secret_store import FILE, SECRETS_VARIABLE
from tests.bench.inputs import closed_gop_minute, five_gib, open_gop_minute, require_ffmpeg, ten_minutes
from tests.bench.measure import Usage, measure
from tests.bench.queue import known_size, queue
from tests.bench.table import Row, print_table

MIB = 1 << 20
VAULT_MIB = 512


def main() -> None:
    """Run everything."""
    require_ffmpeg()
    os.environ[SECRETS_VARIABLE] = FILE  # throw-away devices have no business in the user's keyring
    keep_large_blocks()  # as the program does
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    rows = [*ladder(runs), *passthrough(runs), first_segment(), *large_file(), *vault(), *queue(size=known_size())]
    print_table(rows, title=f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, {_memory()}")


def _memory() -> str:
    return f"{psutil.virtual_memory().total / 2**30:.0f} GiB of memory"


def _add(film: Path, profile: str) -> Usage:
    with tempfile.TemporaryDirectory(dir=".bench") as folder:
        return measure(
            [
                sys.executable,
                "-m",
                "app",
                "--data-dir",
                folder,
                "--json",
                "add",
                "--wait",
                "--profile",
                profile,
                str(film),
            ]
        )


def _ffmpeg_ladder(film: Path, folder: str) -> Usage:
    """Return what plain ffmpeg takes for the same four rungs, preset, rates and track."""
    rungs = ((1920, 1080, "6M", "12M"), (1280, 720, "3M", "6M"), (854, 480, "1.4M", "2.8M"), (640, 360, "0.8M", "1.6M"))
    names = [f"v{n}" for n in range(len(rungs))]
    graph = f"[0:v]split={len(rungs)}" + "".join(f"[s{n}]" for n in range(len(rungs)))
    for n, (width, height, _, _) in enumerate(rungs):
        graph += f";[s{n}]scale={width}:{height}[{names[n]}]" if n else f";[s{n}]null[{names[n]}]"
    command = ["ffmpeg", "-nostdin", "-v", "error", "-y", "-i", str(film), "-filter_complex", graph]
    for n, (_, _, rate, buffer) in enumerate(rungs):
        command += ["-map", f"[{names[n]}]", f"-c:v:{n}", "libx264", f"-crf:v:{n}", "23"]
        command += [f"-maxrate:v:{n}", rate, f"-bufsize:v:{n}", buffer]
    command += ["-preset", "veryfast", "-profile:v", "high", "-g", "90", "-map", "0:a", "-c:a", "aac", "-b:a", "160k"]
    command += ["-force_key_frames", "expr:gte(t,n_forced*6)", *_hls(), "-var_stream_map", "v:0 v:1 v:2 v:3 a:0"]
    return measure([*command, f"{folder}/%v.m3u8"])


def _hls() -> tuple[str, ...]:
    return ("-f", "hls", "-hls_time", "6", "-hls_segment_type", "fmp4", "-hls_playlist_type", "vod")


def _median(values: list[float]) -> float:
    return statistics.median(values)


def ladder(runs: int) -> list[Row]:
    """60 s of 1080p30, four rungs, in turn with ffmpeg."""
    film = open_gop_minute()
    ours, theirs = [], []
    for _ in range(runs):
        ours.append(_add(film, "default"))
        with tempfile.TemporaryDirectory(dir=".bench") as folder:
            theirs.append(_ffmpeg_ladder(film, folder))
    rows: list[Row] = []
    for what, name, target in (("wall time", "wall_s", "1.05"), ("CPU time", "cpu_s", "1.10")):
        mine = _median([getattr(one, name) for one in ours])
        other = _median([getattr(one, name) for one in theirs])
        ratio = _median([getattr(a, name) / getattr(b, name) for a, b in zip(ours, theirs, strict=True)])
        rows.append(
            (f"ladder of 60 s 1080p30, {what}", f"{mine:.1f} s", f"ffmpeg {other:.1f} s", f"{ratio:.2f} (≤ {target})")
        )
    peak = max(one.child_bytes for one in ours)
    rows.append(
        (
            "ladder, memory of a child",
            f"{peak / MIB:.0f} MiB",
            f"ffmpeg {max(o.own_bytes for o in theirs) / MIB:.0f} MiB",
            "",
        )
    )
    return rows


def passthrough(runs: int) -> list[Row]:
    """Cutting ten minutes, in turn with ``ffmpeg -c copy``."""
    film = ten_minutes(closed_gop_minute())
    ours, theirs = [], []
    for _ in range(runs):
        ours.append(_add(film, "passthrough").wall_s)
        with tempfile.TemporaryDirectory(dir=".bench") as folder:
            copy = ["ffmpeg", "-nostdin", "-v", "error", "-i", str(film), "-c", "copy", *_hls(), f"{folder}/out.m3u8"]
            theirs.append(measure(copy).wall_s)
    mine, other = _median(ours), _median(theirs)
    return [
        (
            "passthrough of 10 min 1080p, wall time",
            f"{mine:.2f} s",
            f"ffmpeg -c copy {other:.2f} s",
            f"{mine / other:.1f} (≤ 3)",
        ),
        ("passthrough, speed", f"{600 / mine:.0f}x real time", "", "≥ 50x"),
    ]


def first_segment() -> Row:
    """From ``add`` to the first segment that a player can show, of ten minutes of 1080p."""
    film = ten_minutes(open_gop_minute())

    async def run() -> float:
        with tempfile.TemporaryDirectory(dir=".bench") as folder:
            engine = await LocalEngine.start(DataDir(root=Path.cwd() / folder), work=True)
            try:
                started = time.monotonic()
                added = await engine.call(api.AddPath(path=os.fsencode(film.absolute())))
                await _fetch_first(engine, added.media_id or "")
                return time.monotonic() - started
            finally:
                await engine.close()

    spent = asyncio.run(run())
    return ("add → first playable segment, 10 min 1080p", f"{spent:.1f} s", "", "< 5 s")


async def _fetch_first(engine: LocalEngine, media_id: str) -> None:
    while True:
        try:
            player = await engine.call(api.OpenPlayer(media_id=media_id))
            break
        except ExpectedError:
            await asyncio.sleep(0.02)
    root = player.auto.rsplit("/", 1)[0] + "/"
    async with aiohttp.ClientSession() as session:
        url = player.auto
        for _ in range(2):  # the master names a playlist, the playlist a segment
            async with session.get(url) as answer:
                line = next(one for one in (await answer.text()).splitlines() if one and not one.startswith("#"))
                url = (root if url == player.auto else url.rsplit("/", 1)[0] + "/") + line
        async with session.get(url) as answer:
            body = await answer.read()
            if answer.status != 200 or b"mdat" not in body:
                raise SystemExit(f"the first segment came with status {answer.status}")


def large_file() -> list[Row]:
    """Memory while a file of 5 GiB is added and done."""
    usage = _add(five_gib(), "default")
    return [
        ("add of a 5 GiB file, engine's memory", f"{usage.own_bytes / MIB:.0f} MiB", "", "< 200 MiB"),
        ("add of a 5 GiB file, a child's memory", f"{usage.child_bytes / MIB:.0f} MiB", "", "bounded"),
    ]


def vault() -> list[Row]:
    """Write and read the vault, against a plain copy of the same bytes."""
    with tempfile.TemporaryDirectory(dir=".bench") as folder:
        source = Path(folder) / "source"
        with source.open("wb") as file:
            for _ in range(VAULT_MIB // 16):
                file.write(os.urandom(16 * MIB))
        started = time.monotonic()
        with source.open("rb") as origin, (Path(folder) / "copy").open("wb") as copy:
            shutil.copyfileobj(origin, copy, 4 * MIB)
            copy.flush()
            os.fsync(copy.fileno())
        copied = time.monotonic() - started
        data = DataDir(root=Path(folder) / "data")
        data.root.mkdir()
        database = Database(data.database)
        storage = open_storage(data, database, clock=SystemClock())
        started = time.monotonic()
        with source.open("rb") as origin:
            capability = storage.vault.write_stream(origin)
        written = time.monotonic() - started
        started = time.monotonic()
        for _ in storage.vault.iterate(capability):
            pass
        read = time.monotonic() - started
        storage.close()
        database.close()
    plain = f"copy with fsync {VAULT_MIB / copied:.0f} MiB/s"
    return [
        ("vault, write", f"{VAULT_MIB / written:.0f} MiB/s", plain, f"{written / copied:.1f} times the time"),
        ("vault, read and verify", f"{VAULT_MIB / read:.0f} MiB/s", plain, f"{read / copied:.1f} times the time"),
    ]


if __name__ == "__main__":
    main()
