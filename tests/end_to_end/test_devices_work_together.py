"""Real processes of two and three devices on loopback: they pair, share the queue and the library, and do the work."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.engine.stage import PATIENCE_S, ROOT
from tests.judges.barcode import make_source

pytestmark = pytest.mark.slow


class Machine:
    """One device: its data directory, and its worker while it runs."""

    def __init__(self, root: Path, name: str) -> None:
        self.root = root
        self.name = name
        self.worker: subprocess.Popen[bytes] | None = None
        root.mkdir()
        self.run("config", "listen.host", "127.0.0.1")
        self.run("config", "discovery", "off")

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "app", "--data-dir", str(self.root), "--json", *words]

    def run(self, *words: str, code: int = 0) -> list[Any]:
        """Run a command to its end and return its JSON lines."""
        done = subprocess.run(self.command(*words), cwd=ROOT, capture_output=True, timeout=PATIENCE_S * 2, check=False)
        assert done.returncode == code, done.stderr.decode(errors="replace")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def start(self) -> None:
        """Start the headless worker and wait until it answers."""
        self.worker = subprocess.Popen(
            self.command("worker"), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while not (self.root / "engine.json").exists():
            assert self.worker.poll() is None
            self.run("jobs")

    def tell(self, number: int) -> None:
        """Send the worker a signal."""
        if self.worker is not None and self.worker.poll() is None:
            os.kill(self.worker.pid, number)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End the worker and wait for it."""
        if self.worker is not None:
            self.tell(number)
            self.worker.wait(timeout=60)
            self.worker = None


@contextmanager
def machines(folder: Path, *names: str) -> Iterator[list[Machine]]:
    """Lend running devices of one owner."""
    with ExitStack() as stack:
        all_of_them = [Machine(folder / name, name) for name in names]
        for one in all_of_them:
            stack.callback(one.stop, signal.SIGKILL)
            one.start()
        for other in all_of_them[1:]:
            pair(all_of_them[0], other)
        yield all_of_them


def pair(host: Machine, guest: Machine) -> None:
    with subprocess.Popen(
        host.command("pair", "--listen", "127.0.0.1"), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as showing:
        assert showing.stdout is not None
        shown = json.loads(showing.stdout.readline())
        guest.run("pair", shown["code"], "--at", shown["addresses"][0])
        assert "paired" in json.loads(showing.stdout.readline())
        assert showing.wait(timeout=60) == 0


def wait_for(machine: Machine, job_id: str) -> Any:
    """Return a job when it has come to an end."""
    return machine.run("job", "wait", job_id)[-1]


def until_known(machine: Machine, job_id: str) -> None:
    for _ in range(200):
        if any(job["id"] == job_id for job in machine.run("jobs")):
            return
    raise AssertionError("the job did not arrive")


def test_two_devices_pair_and_make_and_play_a_film_together(tmp_path: Path) -> None:
    film = tmp_path / "film.mp4"
    make_source(film, seconds=8, size=(320, 180))
    with machines(tmp_path, "a", "b") as (a, b):
        assert [len(one.run("devices")) for one in (a, b)] == [2, 2]
        (added,) = a.run("add", str(film))
        until_known(b, added["job_id"])
        assert wait_for(b, added["job_id"])["state"] == "done"
        (entry,) = b.run("library")
        a_size = read_all(a, entry["media_id"])
        assert a_size == read_all(b, entry["media_id"]) > 10_000
        assert [one.run("verify")[-1]["damaged"] for one in (a, b)] == [[], []]


def read_all(machine: Machine, media_id: str) -> int:
    """Read the film through the device's gateway; return the bytes of its best rendition."""
    with subprocess.Popen(
        machine.command("serve", media_id), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as serving:
        assert serving.stdout is not None
        try:
            master = json.loads(serving.stdout.readline())["master"]
            root = master.rsplit("/", 1)[0]
            playlist = first_line(fetch(master))
            folder = playlist.rpartition("/")[0]
            names = [line for line in fetch(f"{root}/{playlist}").decode().splitlines() if line and line[0] != "#"]
            return sum(len(fetch(f"{root}/{folder}/{name}" if folder else f"{root}/{name}")) for name in names)
        finally:
            serving.send_signal(signal.SIGINT)


def first_line(playlist: bytes) -> str:
    return next(line for line in playlist.decode().splitlines() if line and line[0] != "#")


def fetch(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:  # noqa: S310 (the gateway's own address)
        data: bytes = answer.read()
    return data
