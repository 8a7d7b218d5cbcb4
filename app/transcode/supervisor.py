"""The parent's side of media children: start, feed, watch, freeze, end.

::

    run() ──► starting ──► running ◄──freeze/thaw──► frozen
                             │  │                      │
                Done / Failed│  │silent, too large,    │cancel, close
                             ▼  ▼died, cancelled       ▼
                           ended (exit awaited, process gone, register cleared)

Invariants:

* when ``run`` returns or raises, its child must be gone;
* a child that hangs, dies or grows must fail its own request and nothing else;
* cancelling the awaiting task must end the child.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
import psutil

from app.core.errors import BugError, ErrorCode, ExpectedError
from app.transcode.messages import (
    Done,
    Failed,
    JoinFilm,
    MakeSample,
    PlayThrough,
    ProbeSource,
    RemoteSource,
    Report,
    Request,
    SourceHandle,
    SourceRequest,
    StreamFacts,
    TryEncoders,
    encode_frame,
)
from app.transcode.register import ChildRegister
from app.transcode.report_pipe import ReportPipe

_STDERR_LINES = 40
_WATCH_INTERVAL_S = 0.5
_LAST_WORDS_S = 1.0
STALL_S = 120.0
PROBE_S = 10.0

S = TypeVar("S", bound=SourceRequest)
OnReport = Callable[[Report], Awaitable[None]]


class ChildError(ExpectedError):
    """A request that failed in the child; *permanent* when another attempt cannot help."""

    def __init__(self, code: ErrorCode, message: str, *, permanent: bool) -> None:
        super().__init__(code, message)
        self.permanent = permanent


def default_command() -> tuple[str, ...]:
    """Return how this program starts a media child of itself."""
    if getattr(sys, "frozen", False):
        return (sys.executable, "--media-child")
    return (sys.executable, "-P", "-m", "app.transcode.child")


def default_memory_limit() -> int:
    """Return the resident size at which a child is ended: half the machine's memory, at most 6 GiB."""
    return min(6 << 30, int(psutil.virtual_memory().total) // 2)


class ChildControl:
    """A hand on one running child: freeze, thaw, and what it uses."""

    def __init__(self) -> None:
        self._process: psutil.Process | None = None
        self._frozen = False

    @property
    def is_frozen(self) -> bool:
        """Whether the child is, or will be, stopped."""
        return self._frozen

    def freeze(self) -> None:
        """Stop the child at once; it keeps its memory and its place."""
        self._frozen = True
        self._apply()

    def thaw(self) -> None:
        """Let the child go on."""
        self._frozen = False
        self._apply()

    def attach(self, pid: int) -> None:
        """Take hold of a child that has just started."""
        with contextlib.suppress(psutil.Error):
            self._process = psutil.Process(pid)
        self._apply()

    def detach(self) -> None:
        """Let go of a child that has ended."""
        self._process = None

    def _apply(self) -> None:
        if self._process is not None:
            with contextlib.suppress(psutil.Error):
                if self._frozen:
                    self._process.suspend()
                else:
                    self._process.resume()


class Supervisor:
    """Runs media children."""

    def __init__(
        self,
        *,
        register: ChildRegister | None = None,
        command: Sequence[str] | None = None,
        memory_limit_bytes: int | None = None,
        stall_s: float = STALL_S,
    ) -> None:
        self._register = register or ChildRegister(None)
        self._command = tuple(command or default_command())
        self._memory_limit = memory_limit_bytes or default_memory_limit()
        self._stall_s = stall_s

    async def probe(self, path: bytes) -> Done:
        """Say what a file is, within 10 s."""
        return await self.run_on_source(ProbeSource(source=SourceHandle()), path, stall_s=PROBE_S)

    async def run_on_source(
        self,
        request: S,
        path: bytes,
        *,
        on_report: OnReport | None = None,
        control: ChildControl | None = None,
        stall_s: float | None = None,
    ) -> Done:
        """Carry out ``request`` on the file at ``path``, which is opened here and passed by descriptor."""
        fd = open_for_reading(path)
        try:
            handle = SourceHandle(fd=fd) if os.name == "posix" else SourceHandle(path=path)
            filled = msgspec.structs.replace(request, source=handle)
            return await self.run(
                filled,
                descriptors=(fd,) if os.name == "posix" else (),
                on_report=on_report,
                control=control,
                stall_s=stall_s,
            )
        finally:
            os.close(fd)

    async def run_from_afar(
        self,
        request: S,
        source: RemoteSource,
        *,
        on_report: OnReport | None = None,
        control: ChildControl | None = None,
    ) -> Done:
        """Carry out ``request`` on a source that another device holds."""
        filled = msgspec.structs.replace(request, source=SourceHandle(remote=source))
        return await self.run(filled, on_report=on_report, control=control)

    async def run(
        self,
        request: Request,
        *,
        descriptors: Sequence[int] = (),
        on_report: OnReport | None = None,
        control: ChildControl | None = None,
        stall_s: float | None = None,
    ) -> Done:
        """Start a child, give it ``request``, pass its reports on and return how it ended.

        Raises ``ChildError``: what the child said, or worker-crashed, worker-stalled, out-of-memory.
        """
        control = control or ChildControl()
        reports = ReportPipe()
        try:
            process = await self._start(reports, descriptors)
        except BaseException:
            await reports.close()
            raise
        reports.started()
        run = _Run(process, reports, request, on_report, control, self._memory_limit, stall_s or self._stall_s)
        self._register.add(process.pid)
        control.attach(process.pid)
        try:
            return await run.finish()
        finally:
            await run.end()
            control.detach()
            self._register.remove(process.pid)

    async def _start(self, reports: ReportPipe, descriptors: Sequence[int]) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *self._command,
            str(os.getpid()),
            stdin=asyncio.subprocess.PIPE,
            stdout=reports.child_end,
            stderr=asyncio.subprocess.PIPE,
            pass_fds=tuple(descriptors),
            env=_environment(),
            start_new_session=os.name == "posix",
        )

    async def try_encoders(self) -> dict[str, str]:
        """Return which encoders of this machine work."""
        return (await self.run(TryEncoders())).encoders

    async def play_through(self, inputs: Sequence[int]) -> tuple[StreamFacts, ...]:
        """Decode streams from pipes to their ends and return what was in them."""
        return (await self.run(PlayThrough(inputs=tuple(inputs)), descriptors=inputs)).streams

    async def make_sample(self, output_fd: int, *, seconds: int) -> int:
        """Write a short film of our own; returns its size in bytes."""
        request = MakeSample(output_fd=output_fd, seconds=seconds)
        return (await self.run(request, descriptors=(output_fd,))).size_bytes

    async def join(self, request: JoinFilm, *, on_report: OnReport | None = None) -> Done:
        """Remux streams from pipes into one file."""
        return await self.run(request, descriptors=(*request.inputs, request.output_fd), on_report=on_report)


def open_for_reading(path: bytes) -> int:
    """Return a descriptor of the user's file; raises ``ExpectedError`` not-found or unreadable."""
    name = os.fsdecode(path)
    try:
        fd = os.open(name, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError as error:
        raise ExpectedError(ErrorCode.NOT_FOUND, "There is no such file; was it moved or renamed?") from error
    except OSError as error:
        raise ExpectedError(
            ErrorCode.UNREADABLE, f"The file cannot be opened ({error.strerror}). Check its permissions."
        ) from error
    mode = os.fstat(fd).st_mode
    if not _is_regular(mode):
        os.close(fd)
        raise ExpectedError(ErrorCode.NOT_A_VIDEO, "This is not a file but a device, pipe or folder.")
    return fd


def _is_regular(mode: int) -> bool:
    return (mode & 0o170000) == 0o100000


def _environment() -> dict[str, str]:
    """Return what a child may know: enough to start Python, nothing about the network."""
    kept = ("PATH", "LANG", "LC_ALL", "SYSTEMROOT", "TEMP", "TMP", "TMPDIR", "HOME", "LD_LIBRARY_PATH")
    root = str(Path(__file__).resolve().parents[2])
    return {name: os.environ[name] for name in kept if name in os.environ} | {"PYTHONPATH": root}


def _process_of(pid: int) -> psutil.Process | None:
    """Return a hand on a process, None when it is gone already."""
    try:
        return psutil.Process(pid)
    except psutil.Error:
        return None


def _error_of(failed: Failed) -> ChildError:
    try:
        code = ErrorCode(failed.code)
    except ValueError:
        code = ErrorCode.INTERNAL
    return ChildError(code, failed.message, permanent=failed.permanent)


class _Run:
    """One child from request to exit."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reports: ReportPipe,
        request: Request,
        on_report: OnReport | None,
        control: ChildControl,
        memory_limit: int,
        stall_s: float,
    ) -> None:
        self._process = process
        self._reports = reports
        self._child = _process_of(process.pid)
        self._request = request
        self._on_report = on_report
        self._control = control
        self._memory_limit = memory_limit
        self._stall_s = stall_s
        self._stderr: deque[str] = deque(maxlen=_STDERR_LINES)
        self._quiet_s = 0.0
        self._waiting = False
        self._killed_for: ChildError | None = None
        self._tasks = [asyncio.create_task(self._read_stderr()), asyncio.create_task(self._watch())]

    async def finish(self) -> Done:
        """Send the request, pass reports on, return the last one."""
        await self._send()
        while True:
            report = await self._next_report()
            if report is None:
                raise self._killed_for or await self._crash()
            if isinstance(report, Done):
                return report
            if isinstance(report, Failed):
                raise _error_of(report)
            if self._on_report is not None:
                await self._on_report(report)

    async def _send(self) -> None:
        stdin = self._process.stdin
        if stdin is None:
            raise BugError("a media child was started without its input pipe")
        self._waiting = True  # a long plan does not fit into the pipe, and a child that hangs does not empty it
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            stdin.write(encode_frame(self._request))
            await stdin.drain()
            stdin.close()

    async def _next_report(self) -> Report | None:
        self._waiting = True
        try:
            return await self._reports.next_report()
        except (BugError, msgspec.MsgspecError) as error:
            message = f"The program that reads the film answered something unreadable ({error})."
            raise ChildError(ErrorCode.WORKER_CRASHED, message, permanent=False) from error
        finally:
            self._waiting = False
            self._quiet_s = 0.0

    async def _crash(self) -> ChildError:
        """Return the error for a child that says nothing more; one that does not end by itself is ended."""
        try:
            code = await asyncio.wait_for(self._process.wait(), _LAST_WORDS_S)
        except TimeoutError:
            self._kill()
            code = await self._process.wait()
        await asyncio.wait(self._tasks[:1], timeout=_LAST_WORDS_S)
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        last = next((line for line in reversed(self._stderr) if line.strip()), "")
        return ChildError(
            ErrorCode.WORKER_CRASHED,
            f"The program that reads the film ended unexpectedly ({how}). {last}".strip(),
            permanent=False,
        )

    async def _read_stderr(self) -> None:
        stderr = self._process.stderr
        if stderr is None:
            return
        while chunk := await stderr.read(1 << 16):
            self._stderr.extend(chunk.decode(errors="replace").splitlines())

    async def _watch(self) -> None:
        """End a child that grows too large, or is silent too long while it is neither frozen nor waiting for us."""
        last = time.monotonic()
        with contextlib.suppress(psutil.Error):
            while True:
                await asyncio.sleep(_WATCH_INTERVAL_S)
                now = time.monotonic()
                if self._waiting and not self._control.is_frozen:
                    self._quiet_s += min(now - last, 2 * _WATCH_INTERVAL_S)
                last = now
                if self._child is not None and self._child.memory_info().rss > self._memory_limit:
                    self._kill_for(ErrorCode.OUT_OF_MEMORY, "This film needs more memory than this device can spare.")
                elif self._quiet_s > self._stall_s:
                    self._kill_for(
                        ErrorCode.WORKER_STALLED, f"Nothing moved for {self._stall_s:.0f} s; it was given up."
                    )

    def _kill_for(self, code: ErrorCode, message: str) -> None:
        self._killed_for = ChildError(code, message, permanent=False)
        self._kill()

    def _kill(self) -> None:
        """End the child; not by asyncio's own ``kill``, which may reap it before its watcher does."""
        if self._child is not None:
            with contextlib.suppress(psutil.Error):
                self._child.kill()

    async def end(self) -> None:
        """See the process gone, whatever happened; its pipes are closed."""
        self._kill()
        try:
            await asyncio.shield(self._process.wait())
        finally:
            for task in self._tasks:
                task.cancel()
            transport = getattr(self._process, "_transport", None)
            if transport is not None:
                transport.close()
            await self._reports.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)
