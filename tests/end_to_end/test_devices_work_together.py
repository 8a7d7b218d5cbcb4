"""Real processes of two and three devices on loopback: they pair, share the queue and the library, and do the work."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.core.paths import DataDir
from app.queue.rows import TaskRow, decode_row
from tests.engine.stage import PATIENCE_S, ROOT, make_busy_film
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
        (self.root / "engine.json").unlink(missing_ok=True)
        self.worker = subprocess.Popen(
            self.command("worker"), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while not (self.root / "engine.json").exists():
            assert self.worker.poll() is None
            time.sleep(0.05)

    def ensure(self) -> None:
        """Start the worker again if it was ended."""
        if self.worker is None or self.worker.poll() is not None:
            self.start()

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


def test_a_device_that_is_killed_again_and_again_is_connected_with_each_time(tmp_path: Path) -> None:
    """Only the other one knows an address: it is the one that must keep trying, whatever the connection ended with."""
    with machines(tmp_path, "a", "b") as (a, b):
        for _ in range(4):
            until_connected(b)
            a.stop(signal.SIGKILL)
            a.start()
        until_connected(b)
        until_connected(a)


def until_connected(machine: Machine) -> None:
    for _ in range(60):
        (other,) = [device for device in machine.run("devices") if not device["this"]]
        if other["path"] is not None:
            return
    raise AssertionError(f"not connected: {other}")


def test_devices_that_know_no_address_meet_at_a_rendezvous(tmp_path: Path) -> None:
    """After pairing both move: where they were before there is nobody, and only the rendezvous leads to the other."""
    film = tmp_path / "film.mp4"
    make_source(film, seconds=4, size=(320, 180))
    with rendezvous() as url, machines(tmp_path, "a", "b") as (a, b):
        for one, host in ((a, "127.0.0.8"), (b, "127.0.0.9")):
            one.stop()
            (one.root / "listen-port").unlink()
            one.run("config", "listen.host", host)
            one.run("config", "rendezvous", url)
            one.start()
        (added,) = a.run("add", str(film))
        until_known(b, added["job_id"])
        assert wait_for(b, added["job_id"])["state"] == "done"
        links = [device["path"] for device in b.run("devices") if not device["this"]]
        assert links in (["direct"], ["lan"])
        (entry,) = b.run("library")
        assert read_all(b, entry["media_id"]) > 10_000


@contextmanager
def rendezvous() -> Iterator[str]:
    """Lend a rendezvous of our own on loopback; its address."""
    with subprocess.Popen(
        [sys.executable, "-m", "app", "--json", "rendezvous", "--host", "127.0.0.1", "--port", "0"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as running:
        assert running.stdout is not None
        try:
            yield f"ws://127.0.0.1:{json.loads(running.stdout.readline())['port']}"
        finally:
            running.send_signal(signal.SIGINT)


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


def test_devices_that_are_killed_and_frozen_at_random_end_with_every_film_made_once(tmp_path: Path) -> None:
    """Three devices, two films; somebody is killed, frozen or started again every second or so."""
    films = [tmp_path / f"film {number}.mp4" for number in range(2)]
    for number, film in enumerate(films):
        make_busy_film(film, seconds=18 + number)
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")  # noqa: T201 (to play it again)
    chance = random.Random(seed)  # noqa: S311 (a test's dice)
    with machines(tmp_path, "a", "b", "c") as all_of_them:
        jobs = [all_of_them[0].run("add", str(film))[0]["job_id"] for film in films]
        for _ in range(14):
            torment(chance.choice(all_of_them), chance)
        for one in all_of_them:
            one.tell(signal.SIGCONT)
            one.ensure()
        done = [wait_for(all_of_them[1], job_id) for job_id in jobs]
        assert [(job["state"], job["error"]) for job in done] == [("done", None)] * len(films)
        for one in all_of_them:
            for job_id in jobs:
                assert wait_for(one, job_id)["state"] == "done"
        outcomes = [films_in(one) for one in all_of_them]
        assert outcomes[0] == outcomes[1] == outcomes[2]
        assert len(outcomes[0]) == len(films)
        for one in all_of_them:
            report = one.run("verify")[-1]
            assert (report["damaged"], report["missing"], report["stray"], report["affected"]) == ([], [], [], [])
        for entry in all_of_them[2].run("library"):
            assert read_all(all_of_them[2], entry["media_id"]) > 10_000


def torment(machine: Machine, chance: random.Random) -> None:
    """Kill, freeze for a moment, or bring back one device."""
    if machine.worker is None or machine.worker.poll() is not None:
        machine.ensure()
    elif chance.random() < 0.4:
        machine.stop(signal.SIGKILL)
    else:
        machine.tell(signal.SIGSTOP)
        time.sleep(chance.uniform(0.2, 2.0))
        machine.tell(signal.SIGCONT)


def films_in(machine: Machine) -> dict[str, tuple[int, str]]:
    """Return the accepted films of a device's replica, straight from its rows: job → (epoch, value)."""
    database = DataDir(root=machine.root).database
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=20)) as rows:
        tasks = [decode_row(document, TaskRow) for (document,) in rows.execute("SELECT document FROM tasks")]
    films = [task for task in tasks if task.kind == "publish" and task.target.endswith("/full") and task.outcome]
    return {task.job_id: (task.outcome.epoch, task.outcome.value) for task in films if task.outcome is not None}
