"""Children that misbehave: each fails its own request, by name, and leaves no process."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import psutil
import pytest

from app.core.errors import ErrorCode, ExpectedError
from app.transcode.messages import (
    Failed,
    MakeVideo,
    ProbeSource,
    Progressed,
    Report,
    Request,
    SourceHandle,
    TryEncoders,
)
from app.transcode.messages import encode_frame as frame_of
from app.transcode.register import ChildRegister
from app.transcode.supervisor import ChildControl, ChildError, Supervisor, open_for_reading
from tests.transcode.lab import index

Write = Callable[[str], tuple[str, ...]]

ASK = ProbeSource(source=SourceHandle())
SAY_HELLO = f"import sys, os, time\nsys.stdout.buffer.write({frame_of(Progressed(milli=1))!r})\nsys.stdout.flush()\n"
"""What a fake child begins with when the test must know that it runs."""


@pytest.fixture
def child(tmp_path: Path) -> Write:
    """Return a function that makes a command of a script."""

    def write(script: str) -> tuple[str, ...]:
        path = tmp_path / "child.py"
        path.write_text(script)
        return (sys.executable, "-S", "-E", str(path))

    return write


def children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


async def failure(supervisor: Supervisor, request: Request = ASK) -> ChildError:
    """Run a request that must fail within 10 s and leave nothing, and return how."""
    before = children()
    with pytest.raises(ChildError) as caught:
        await asyncio.wait_for(supervisor.run(request), 10)
    assert children() == before
    return caught.value


async def test_a_child_that_exits_early_is_a_crash_with_its_last_words(child: Write) -> None:
    error = await failure(Supervisor(command=child("import sys\nprint('no such codec', file=sys.stderr)\nsys.exit(3)")))
    assert error.code is ErrorCode.WORKER_CRASHED
    assert not error.permanent
    assert "exit code 3" in error.message
    assert "no such codec" in error.message


async def test_a_child_that_a_signal_ends_is_a_crash(child: Write) -> None:
    error = await failure(Supervisor(command=child("import os\nos.kill(os.getpid(), 11)")))
    assert error.code is ErrorCode.WORKER_CRASHED
    assert "signal 11" in error.message


async def test_a_child_that_says_nothing_is_given_up(child: Write) -> None:
    script = "import sys, time\nsys.stdin.buffer.read()\ntime.sleep(600)"
    error = await failure(Supervisor(command=child(script), stall_s=0.3))
    assert error.code is ErrorCode.WORKER_STALLED
    assert not error.permanent


async def test_a_child_that_never_reads_a_long_request_is_given_up(child: Write) -> None:
    long_request = ProbeSource(source=SourceHandle(path=b"x" * 4_000_000))
    error = await failure(Supervisor(command=child("import time\ntime.sleep(600)"), stall_s=0.3), long_request)
    assert error.code is ErrorCode.WORKER_STALLED


@pytest.mark.slow
async def test_a_child_that_closes_its_output_but_lives_is_ended(child: Write) -> None:
    error = await failure(Supervisor(command=child("import os, time\nos.close(1)\ntime.sleep(600)")))
    assert error.code is ErrorCode.WORKER_CRASHED


async def test_a_child_that_eats_memory_is_ended(child: Write) -> None:
    script = SAY_HELLO + "held = []\nfor _ in range(40): held.append(bytearray(b'x') * (8 << 20))\ntime.sleep(600)"
    error = await failure(Supervisor(command=child(script), memory_limit_bytes=100 << 20))
    assert error.code is ErrorCode.OUT_OF_MEMORY
    assert not error.permanent


@pytest.mark.parametrize(
    "answer",
    [b"\x00\x00\x00\x05hello", b"Traceback (most recent call last)", b"\xff" * 64, b"\x00\x00\x00\x00"],
    ids=["not a map", "text", "absurd length", "empty"],
)
async def test_garbage_on_standard_output_is_a_crash(child: Write, answer: bytes) -> None:
    script = f"import sys, time\nsys.stdout.buffer.write({answer!r})\nsys.stdout.flush()\ntime.sleep(600)"
    error = await failure(Supervisor(command=child(script), stall_s=5))
    assert error.code is ErrorCode.WORKER_CRASHED
    assert not error.permanent


async def test_half_a_message_is_a_crash(child: Write) -> None:
    half = frame_of(Progressed(milli=5))[:-2]
    script = f"import sys\nsys.stdout.buffer.write({half!r})\nsys.stdout.flush()"
    error = await failure(Supervisor(command=child(script)))
    assert error.code is ErrorCode.WORKER_CRASHED


async def test_a_failure_keeps_its_code_and_whether_another_attempt_can_help(child: Write) -> None:
    said = frame_of(Failed(code="no-decoder", message="No decoder for VVC is built in.", permanent=True))
    error = await failure(Supervisor(command=child(f"import sys\nsys.stdout.buffer.write({said!r})")))
    assert (error.code, error.permanent) == (ErrorCode.NO_DECODER, True)


async def test_a_failure_with_a_code_nobody_knows_is_an_internal_one(child: Write) -> None:
    said = frame_of(Failed(code="from-the-future", message="?", permanent=False))
    error = await failure(Supervisor(command=child(f"import sys\nsys.stdout.buffer.write({said!r})")))
    assert error.code is ErrorCode.INTERNAL


async def test_cancelling_must_end_the_child_within_two_seconds(child: Write) -> None:
    started = asyncio.Event()

    async def on_report(_: Report) -> None:
        started.set()

    script = SAY_HELLO + "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)"
    task = asyncio.create_task(Supervisor(command=child(script)).run(ASK, on_report=on_report))
    await asyncio.wait_for(started.wait(), 10)
    assert children()
    begin = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - begin < 2
    assert not children()


async def test_cancelling_before_the_child_has_started_leaves_nothing(child: Write) -> None:
    task = asyncio.create_task(Supervisor(command=child("import time\ntime.sleep(600)")).run(ASK))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not children()


async def test_an_error_of_who_takes_reports_ends_the_child(child: Write) -> None:
    async def refuse(_: Report) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        await Supervisor(command=child(SAY_HELLO + "time.sleep(600)")).run(ASK, on_report=refuse)
    assert not children()


@pytest.mark.slow
async def test_a_frozen_child_is_stopped_does_not_stall_and_goes_on_when_thawed(child: Write) -> None:
    control = ChildControl()
    supervisor = Supervisor(command=child(SAY_HELLO + "time.sleep(600)"), stall_s=0.6)
    started = asyncio.Event()

    async def on_report(_: Report) -> None:
        started.set()

    task = asyncio.create_task(supervisor.run(ASK, on_report=on_report, control=control))
    await asyncio.wait_for(started.wait(), 10)
    control.freeze()
    assert control.is_frozen
    done, _ = await asyncio.wait({task}, timeout=1.8)
    assert not done, "a frozen child must not count as stalled"
    assert children()[0].status() == psutil.STATUS_STOPPED
    control.thaw()
    with pytest.raises(ChildError) as caught:
        await asyncio.wait_for(task, 10)
    assert caught.value.code is ErrorCode.WORKER_STALLED
    assert not children()


async def test_cancelling_ends_a_frozen_child(child: Write) -> None:
    control = ChildControl()
    control.freeze()
    task = asyncio.create_task(Supervisor(command=child("import time\ntime.sleep(600)")).run(ASK, control=control))
    await _until(lambda: bool(children()) and children()[0].status() == psutil.STATUS_STOPPED)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not children()


async def test_the_register_knows_a_child_while_it_runs(child: Write, tmp_path: Path) -> None:
    path = tmp_path / "children.json"
    seen: list[bytes] = []

    async def look(_: Report) -> None:
        seen.append(path.read_bytes())

    supervisor = Supervisor(command=child(SAY_HELLO), register=ChildRegister(path))
    with pytest.raises(ChildError):
        await supervisor.run(ASK, on_report=look)
    assert b'"pid":' in seen[0]
    assert path.read_bytes() == b"[]"


async def test_a_missing_file_a_folder_and_a_pipe_are_refused_in_words(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, code in (
        ("none.mp4", ErrorCode.NOT_FOUND),
        ("", ErrorCode.NOT_A_VIDEO),
        ("pipe", ErrorCode.NOT_A_VIDEO),
    ):
        with pytest.raises(ExpectedError) as caught:
            open_for_reading(os.fsencode(tmp_path / name))
        assert caught.value.code is code


@pytest.mark.slow
async def test_names_that_look_like_syntax_are_only_names(film: Path, tmp_path: Path) -> None:
    names = [
        b"23:50 12:00.mp4",
        b"-i.mp4",
        b"concat:a|b.mp4",
        b"clip%03d.mp4",
        b"bad\xff\xe9name.mp4",
        b"new\nline.mp4",
        b"x" * 255,
    ]
    for name in names:
        path = os.fsencode(tmp_path) + b"/" + name
        shutil.copy(os.fsencode(film), path)
        done = await Supervisor().probe(path)
        assert done.info is not None
        assert done.info.video is not None, name


@pytest.mark.slow
async def test_a_playlist_named_mp4_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "film.mp4"
    path.write_text(f"#EXTM3U\n#EXTINF:10,\nfile://{tmp_path}/secret.ts\n#EXT-X-ENDLIST\n")
    with pytest.raises(ChildError) as caught:
        await Supervisor().probe(os.fsencode(path))
    assert (caught.value.code, caught.value.permanent) == (ErrorCode.PLAYLIST, True)


@pytest.mark.slow
async def test_a_real_child_in_the_middle_of_an_encode_ends_within_two_seconds(film: Path) -> None:
    _, plan = index(film)
    encoded = msgspec.structs.replace(
        plan, chunks=tuple(msgspec.structs.replace(chunk, copied=False) for chunk in plan.chunks)
    )
    started = asyncio.Event()

    async def on_report(_: Report) -> None:
        started.set()

    request = MakeVideo(source=SourceHandle(), plan=encoded, set="copy", chunk=1)
    task = asyncio.create_task(Supervisor().run_on_source(request, os.fsencode(film), on_report=on_report))
    await asyncio.wait_for(started.wait(), 20)
    begin = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - begin < 2
    assert not children()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent; elsewhere it is swept")
def test_a_child_ends_with_an_engine_that_was_killed_even_when_it_is_stopped(tmp_path: Path) -> None:
    root = str(Path(__file__).resolve().parents[2])
    note = tmp_path / "pid"
    child = tmp_path / "child.py"
    child.write_text(
        f"import os, signal, sys\nsys.path.insert(0, {root!r})\nfrom app.transcode.sandbox import confine\n"
        f"confine(int(sys.argv[-1]))\nopen({str(note)!r}, 'w').write(str(os.getpid()) + '.')\n"
        "os.kill(os.getpid(), signal.SIGSTOP)\n"
    )
    engine = (
        f"import asyncio, sys\nsys.path.insert(0, {root!r})\n"
        "from app.transcode.supervisor import Supervisor\nfrom app.transcode.messages import TryEncoders\n"
        f"asyncio.run(Supervisor(command=(sys.executable, {str(child)!r})).run(TryEncoders()))\n"
    )
    with subprocess.Popen([sys.executable, "-c", engine]) as process:
        _wait_until(lambda: note.exists() and note.read_text().endswith("."))
        orphan = psutil.Process(int(note.read_text()[:-1]))
        _wait_until(lambda: orphan.status() == psutil.STATUS_STOPPED)
        process.kill()
    _wait_until(lambda: not orphan.is_running() or orphan.status() == psutil.STATUS_ZOMBIE)


def _wait_until(is_true: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 20
    while not is_true():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


@pytest.mark.slow
async def test_the_real_child_tries_encoders() -> None:
    encoders = await Supervisor().try_encoders()
    assert encoders["libx264"] == "works"


async def test_fifty_runs_leave_no_descriptor_and_no_memory(child: Write, film: Path) -> None:
    supervisor = Supervisor(command=child("import sys\nsys.exit(3)"))
    process = psutil.Process()

    async def run() -> None:
        with pytest.raises(ChildError):
            await supervisor.run_on_source(ASK, os.fsencode(film))

    for _ in range(5):
        await run()
    descriptors, memory = process.num_fds(), process.memory_info().rss
    for _ in range(50):
        await run()
    assert process.num_fds() <= descriptors
    assert process.memory_info().rss - memory < 8 << 20
    assert not children()


async def _until(is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not is_true():  # noqa: ASYNC110 (another process tells no event)
            await asyncio.sleep(0.01)


def test_a_request_without_a_source_can_be_framed() -> None:
    assert frame_of(TryEncoders())[:4] == len(frame_of(TryEncoders())[4:]).to_bytes(4, "big")
