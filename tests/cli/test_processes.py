"""The program beside itself: clients of a running engine, signals, engines that end, the demo."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from app.core.paths import DataDir
from app.engine.lock import read_endpoint
from tests.cli.typed import LIMIT_S, ROOT, command, run, start
from tests.engine.stage import children_of, left_in, shards_in, variant_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name == "nt", reason="signals are sent as on POSIX systems"),
]


def status_of(url: str) -> int:
    """Return the HTTP status that a loopback address answers with."""
    try:
        with urlopen(url, timeout=5) as answer:  # noqa: S310 (a loopback address)
            return int(answer.status)
    except HTTPError as error:
        return error.code


def engine_of(root: Path) -> int | None:
    """Return the process that is the engine of ``root`` and listens."""
    endpoint = read_endpoint(DataDir(root=root))
    return endpoint.pid if endpoint is not None else None


def wait_for_engine(root: Path, pid: int) -> None:
    """Look again and again until that process is the engine."""
    deadline = time.monotonic() + LIMIT_S
    while engine_of(root) != pid:
        assert time.monotonic() < deadline, f"the engine is {engine_of(root)}, not {pid}"
        time.sleep(0.02)


@contextmanager
def running(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """Lend a started program, and see it gone."""
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def end(process: subprocess.Popen[str], number: signal.Signals) -> int:
    """Send a signal and return the exit code."""
    process.send_signal(number)
    return process.wait(LIMIT_S)


def test_a_worker_works_until_it_is_told_to_end(root: Path, small_film: Path) -> None:
    with running(start(root, "worker")) as worker:
        wait_for_engine(root, worker.pid)
        row = run(root, "--json", "add", "--wait", small_film).row
        assert row["state"] == "done"
        assert run(root, "--json", "jobs").row["state"] == "done"
        assert engine_of(root) == worker.pid
        assert end(worker, signal.SIGINT) == 0
    assert engine_of(root) is None


def test_a_worker_ends_in_the_middle_of_work_and_leaves_the_job_queued(root: Path, busy_film: Path) -> None:
    added = run(root, "--json", "add", busy_film).row
    with running(start(root, "worker")) as worker:
        deadline = time.monotonic() + LIMIT_S
        while not shards_in(root):
            assert time.monotonic() < deadline
        began = time.monotonic()
        assert end(worker, signal.SIGINT) == 0
        assert time.monotonic() - began < 6, "the engine gives back what it does within 5 s"
    assert run(root, "--json", "job", "show", added["job_id"]).row["state"] == "queued"


def test_commands_steer_the_running_engine(root: Path, short_busy_film: Path) -> None:
    with running(start(root, "worker")) as worker:
        wait_for_engine(root, worker.pid)
        added = run(root, "--json", "add", short_busy_film).row
        deadline = time.monotonic() + LIMIT_S
        while not shards_in(root):
            assert time.monotonic() < deadline
        assert run(root, "--json", "job", "pause", added["job_id"]).row["state"] == "paused"
        assert all(one.status() == "stopped" for one in children_of(worker.pid))
        assert children_of(worker.pid)
        assert run(root, "--json", "job", "cancel", added["job_id"]).row["state"] == "cancelled"
        assert children_of(worker.pid) == []
        assert left_in(root) == {}
        assert end(worker, signal.SIGINT) == 0


def test_a_second_worker_is_a_guest_and_takes_over(root: Path, small_film: Path) -> None:
    with running(start(root, "worker")) as first:
        wait_for_engine(root, first.pid)
        with running(start(root, "worker")) as second:
            assert second.stderr is not None
            assert "Another Hearthreel works here already" in second.stderr.readline()
            assert end(first, signal.SIGTERM) == 0
            wait_for_engine(root, second.pid)
            assert run(root, "--json", "add", "--wait", small_film).row["state"] == "done"
            assert end(second, signal.SIGTERM) == 0


def test_who_waits_goes_on_by_itself_when_the_engine_is_killed(root: Path, short_busy_film: Path) -> None:
    with running(start(root, "worker")) as worker:
        wait_for_engine(root, worker.pid)
        with running(start(root, "--json", "add", "--wait", short_busy_film)) as waiting:
            deadline = time.monotonic() + LIMIT_S
            while not shards_in(root):
                assert time.monotonic() < deadline
            worker.kill()
            output, errors = waiting.communicate(timeout=LIMIT_S)
            assert (waiting.returncode, json.loads(output)["state"]) == (0, "done"), errors


def test_ctrl_c_leaves_the_job_queued(root: Path, short_busy_film: Path) -> None:
    with running(start(root, "--json", "add", "--wait", short_busy_film)) as waiting:
        deadline = time.monotonic() + LIMIT_S
        while not shards_in(root):
            assert time.monotonic() < deadline
        assert end(waiting, signal.SIGINT) == 130
        assert waiting.stdout is not None
        assert waiting.stdout.read() == ""
    assert run(root, "--json", "jobs").row["state"] == "queued"


def test_several_commands_at_once_are_all_carried_out(root: Path, small_film: Path, tmp_path: Path) -> None:
    """Whoever is first is the engine, and it ends first; the others must not notice."""
    films = [variant_of(small_film, tmp_path / f"{number}.mp4") for number in range(4)]
    for number, film in enumerate(films):
        with film.open("ab") as file:
            file.write((9 + number).to_bytes(4, "big") + b"free" + bytes(1 + number))
    adds = [start(root, "--json", "add", film) for film in films]
    asks = [start(root, "--json", "jobs") for _ in range(3)]
    said = [process.communicate(timeout=LIMIT_S) for process in (*adds, *asks)]
    assert [process.returncode for process in (*adds, *asks)] == [0] * 7, [errors for _, errors in said]
    assert [json.loads(output)["state"] for output, _ in said[:4]] == ["queued"] * 4
    assert len(run(root, "--json", "jobs").rows) == 4


def test_worker_once_ends_when_nothing_is_left(root: Path, small_film: Path) -> None:
    run(root, "add", small_film)
    run(root, "worker", "--once")
    assert run(root, "--json", "jobs").row["state"] == "done"
    run(root, "worker", "--once")


def test_serve_serves_until_interrupted(library_root: Path) -> None:
    media = run(library_root, "--json", "library").row["media_id"]
    with running(start(library_root, "--json", "serve", media)) as server:
        assert server.stdout is not None
        addresses = json.loads(server.stdout.readline())
        assert set(addresses) == {"master", "auto"}
        for url in addresses.values():
            with urlopen(url, timeout=5) as answer:  # noqa: S310 (a loopback address)
                assert answer.read().startswith(b"#EXTM3U")
        assert end(server, signal.SIGINT) == 0
        assert server.stdout.read() == ""
        with pytest.raises(OSError):  # noqa: PT011 (refused, reset: whatever this system calls it)
            urlopen(addresses["master"], timeout=5)  # noqa: S310


def test_serve_fails_when_the_engine_that_serves_ends(library_root: Path) -> None:
    """Its addresses are dead then, and it must not pretend otherwise."""
    with running(start(library_root, "worker")) as worker:
        wait_for_engine(library_root, worker.pid)
        media = run(library_root, "--json", "library").row["media_id"]
        with running(start(library_root, "--json", "serve", media)) as server:
            assert server.stdout is not None
            addresses = json.loads(server.stdout.readline())
            with urlopen(addresses["auto"], timeout=5) as answer:  # noqa: S310 (a loopback address)
                assert answer.status == 200
            assert end(worker, signal.SIGTERM) == 0
            _, errors = server.communicate(timeout=LIMIT_S)
            assert (server.returncode, errors.partition(":")[0]) == (1, "engine-gone")


def test_a_players_addresses_end_with_its_command(library_root: Path) -> None:
    with running(start(library_root, "worker")) as worker:
        wait_for_engine(library_root, worker.pid)
        media = run(library_root, "--json", "library").row["media_id"]
        with running(start(library_root, "--json", "serve", media)) as server:
            assert server.stdout is not None
            addresses = json.loads(server.stdout.readline())
            assert end(server, signal.SIGINT) == 0
        deadline = time.monotonic() + LIMIT_S
        while status_of(addresses["master"]) != 404:
            assert time.monotonic() < deadline
        assert end(worker, signal.SIGINT) == 0


def test_the_demo_plays_and_finds_its_film_again(tmp_path: Path, small_film: Path) -> None:
    words = [*command(tmp_path / "demo", "--json", "demo", "--headless"), str(small_film)]
    plays = []
    for _ in range(2):
        done = subprocess.run(words, cwd=ROOT, capture_output=True, timeout=LIMIT_S, check=False)
        assert done.returncode == 0, done.stderr
        plays.append(json.loads(done.stdout))
    first, second = plays
    assert {name: value for name, value in first.items() if name != "url"} == {
        name: value for name, value in second.items() if name != "url"
    }
    assert [one["frames"] for one in first["renditions"]] == [144]
    assert first["duration_s"] == pytest.approx(6, abs=0.1)
    assert len(first["tracks"]) == 1
    assert len(run(tmp_path / "demo", "--json", "library").rows) == 1


def test_the_demo_of_a_file_that_is_no_film_fails(tmp_path: Path) -> None:
    text = tmp_path / "text.mp4"
    text.write_text("no film")
    said = run(tmp_path / "demo", "--json", "demo", "--headless", text, code=1)
    assert (said.output, said.errors.partition(":")[0]) == ("", "not-a-video")
