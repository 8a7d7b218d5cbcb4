"""Other well-kept queues on the same disk: how many claims a second, and what is lost when the power goes.

All get the same number of waiting jobs; then they take turns at claiming some of them one by one, as one worker does,
so that what else the machine does hits all alike. Connections and schemas are made before the clock starts.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.core.clock import SystemClock
from app.core.database import Database
from app.queue.rows import JobParams
from app.queue.sqlite_store import SqliteJobStore

WAITING = 1000
TURNS = 9
CLAIMS_OF_TURN = 40
_PATIENCE_S = 60.0
_POSTGRES_FOLDERS = "usr/lib/postgresql/*/bin"

Claim = Callable[[], None]


class MissingError(Exception):
    """A rival is not there; says what to install."""


@dataclass(frozen=True, kw_only=True)
class Rival:
    """A queue that takes part."""

    name: str
    durability: str
    opened: Callable[[Path], AbstractContextManager[Claim]]
    """Lends what claims the next of ``WAITING`` jobs; raises ``MissingError``."""


@dataclass(kw_only=True)
class Rate:
    """How a queue did."""

    rival: Rival
    claims_s: list[float] = field(default_factory=list)
    missing: str = ""

    @property
    def per_s(self) -> float:
        """Claims a second, the median of all turns."""
        return statistics.median(self.claims_s)


def claim_rates(folder: Path) -> list[Rate]:
    """Return the rates of all queues, ours first."""
    rates = [Rate(rival=rival) for rival in _RIVALS]
    with ExitStack() as stack:
        ready: list[tuple[Rate, Claim]] = []
        for rate in rates:
            try:
                ready.append((rate, stack.enter_context(rate.rival.opened(folder))))
            except MissingError as error:
                rate.missing = str(error)
        for _ in range(TURNS):
            for rate, claim in ready:
                started = time.perf_counter()
                for _ in range(CLAIMS_OF_TURN):
                    claim()
                rate.claims_s.append(CLAIMS_OF_TURN / (time.perf_counter() - started))
    return rates


@contextmanager
def _hearthreel(folder: Path) -> Iterator[Claim]:
    with tempfile.TemporaryDirectory(dir=folder) as data:
        database = Database(Path(data) / "ours.db")
        store = SqliteJobStore(database=database, device="bench", boot=1, clock=SystemClock())
        for number in range(WAITING):
            store.add_job(
                kind="hls",
                params=JobParams(profile="default"),
                fingerprint=f"{number:064x}",
                size_bytes=1,
                name=f"{number}.mkv",
                now_ms=number,
            )

        def claim() -> None:
            (task,) = store.all_open_tasks(limit=1)
            store.claim(task.id)

        yield claim
        database.close()


def _huey(*, fsync: bool) -> Callable[[Path], AbstractContextManager[Claim]]:
    @contextmanager
    def opened(folder: Path) -> Iterator[Claim]:
        try:
            from huey.storage import SqliteStorage  # noqa: PLC0415 (only where it is installed)
        except ImportError:
            raise MissingError("not installed; pip install huey") from None
        with tempfile.TemporaryDirectory(dir=folder) as data:
            storage = SqliteStorage(filename=str(Path(data) / "huey.db"), fsync=fsync)
            for number in range(WAITING):
                storage.enqueue(f"{number:064x}".encode())

            def claim() -> None:
                if storage.dequeue() is None:
                    raise SystemExit("huey gave no job")

            yield claim
            storage.close()

    return opened


@contextmanager
def _procrastinate(folder: Path) -> Iterator[Claim]:
    try:
        import procrastinate  # noqa: PLC0415 (only where it is installed)
        import psycopg_pool  # noqa: F401, PLC0415
    except ImportError:
        raise MissingError("not installed; pip install procrastinate 'psycopg[binary]'") from None
    with _postgres(folder) as port, asyncio.Runner() as runner:
        where = f"host=127.0.0.1 port={port} user=bench dbname=postgres"
        app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=where, min_size=1, max_size=1))

        async def prepare() -> int:
            await app.open_async()
            await app.schema_manager.apply_schema_async()
            task = app.configure_task("films", queue="films")
            await task.batch_defer_async(*[dict[str, Any](number=number) for number in range(WAITING)])
            return int(await app.job_manager.register_worker())

        worker = runner.run(prepare())

        def claim() -> None:
            if runner.run(app.job_manager.fetch_job(queues=None, worker_id=worker)) is None:
                raise SystemExit("procrastinate gave no job")

        yield claim
        runner.run(app.close_async())


@contextmanager
def _postgres(folder: Path) -> Iterator[int]:
    """Lend the port of a fresh server on loopback with its usual durability; as root, run by an unprivileged user."""
    binaries = _postgres_binaries()
    with tempfile.TemporaryDirectory(dir=folder) as data:
        quiet: dict[str, Any] = {"cwd": data, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        if os.geteuid() == 0:
            shutil.chown(data, "postgres")
            quiet["user"] = "postgres"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        cluster = ["-D", str(Path(data).absolute() / "cluster")]
        options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories="
        start = [
            str(binaries / "pg_ctl"),
            *cluster,
            "-w",
            "-s",
            "-l",
            str(Path(data).absolute() / "log"),
            "-o",
            options,
        ]
        try:
            subprocess.run([str(binaries / "initdb"), *cluster, "-U", "bench", "-A", "trust"], check=True, **quiet)
            subprocess.run([*start, "start"], timeout=_PATIENCE_S, check=True, **quiet)
        except (subprocess.SubprocessError, OSError) as error:
            raise MissingError(f"PostgreSQL could not be started ({error})") from error
        try:
            yield port
        finally:
            subprocess.run([str(binaries / "pg_ctl"), *cluster, "-m", "fast", "-w", "-s", "stop"], check=True, **quiet)


def _postgres_binaries() -> Path:
    program = shutil.which("initdb")
    if program is not None and shutil.which("pg_ctl") is not None:
        return Path(program).parent
    folders = sorted(Path("/").glob(_POSTGRES_FOLDERS))
    if not folders:
        raise MissingError("PostgreSQL is not installed; apt-get install postgresql")
    return folders[-1]


@contextmanager
def _bare_fsync(folder: Path) -> Iterator[Claim]:
    with tempfile.TemporaryDirectory(dir=folder) as data, (Path(data) / "file").open("wb") as file:

        def claim() -> None:
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())

        yield claim


_RIVALS = (
    Rival(
        name="Hearthreel",
        durability="fsync per claim; a lease with epoch and token, told to peers, taken over when its holder dies",
        opened=_hearthreel,
    ),
    Rival(
        name="procrastinate, PostgreSQL",
        durability="fsync per claim; stays “doing” until somebody asks for stalled jobs",
        opened=_procrastinate,
    ),
    Rival(
        name="huey, SQLite, fsync",
        durability="fsync per claim; taking deletes it, so it is lost with its worker",
        opened=_huey(fsync=True),
    ),
    Rival(
        name="huey, SQLite, no fsync",
        durability="no fsync: power loss can undo claims or damage the file; lost with its worker",
        opened=_huey(fsync=False),
    ),
    Rival(name="4 KiB and an fsync", durability="what the disk can do at all", opened=_bare_fsync),
)
