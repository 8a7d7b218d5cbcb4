"""One broken film through the real supervisor and its children, with low limits; what may not happen is a fault.

A trial asks what the engine would: probe, index, then the first and last chunk of the smallest rendition, the sound,
the stills. Whatever the film is, each request must end in time as done or as an error that tells a person something:
``internal`` (our own mistake), a crash, a stall, too much memory and anything that is no ``ExpectedError`` are faults.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

import msgspec

from app.core.errors import ErrorCode, ExpectedError
from app.media.plan import Plan
from app.transcode.messages import (
    Done,
    IndexSource,
    MakeAudio,
    MakeStills,
    MakeVideo,
    ProbeSource,
    Report,
    SourceHandle,
    SourceRequest,
)
from app.transcode.supervisor import Supervisor, default_command

MEMORY_BYTES = 700 << 20
STALL_S = 20.0
LONGEST_S = 60.0
"""Of one request."""
_FAULTS = {ErrorCode.INTERNAL, ErrorCode.WORKER_CRASHED, ErrorCode.WORKER_STALLED, ErrorCode.OUT_OF_MEMORY}
_MOST_SOUND_SEGMENTS = 100
"""By broken time stamps a film may last for hours, all silent; that is slow, but no fault."""
_NOWHERE = SourceHandle()
_CALLS = "open,openat,creat,socket,connect,execve,unlink,unlinkat,rename,renameat,renameat2,mkdir,mkdirat,truncate,link"
_OPENED = re.compile(r'^\d+\s+(\w+)\((?:AT_FDCWD, )?"((?:[^"\\]|\\.)*)"(.*)$')
_TEMPORARY = re.compile(re.escape(tempfile.gettempdir()) + r"/(\w{8}|\w+\.cube)$")
"""Python tries whether a temporary folder can be written to; the table of the HDR filter is written to one."""
_ALLOWED = (
    "/proc/",
    "/sys/",
    "/etc/ld.so",
    "/etc/locale",
    "/etc/localtime",
    "/dev/null",
    "/dev/urandom",
    "/usr/lib/",
    "/lib/",
    "/usr/share/",
)


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Something that may not happen."""

    request: str
    what: str


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """How a trial ended."""

    outcome: str
    """``film``, or the code of the error that ended it."""
    seconds: float
    faults: tuple[Fault, ...]


def available_tracer() -> str | None:
    """Return where ``strace`` is, which sees every file and address a child touches; None where there is none."""
    return shutil.which("strace") if sys.platform == "linux" else None


class Trial:
    """The requests on one file."""

    def __init__(self, path: Path, *, traced: bool) -> None:
        self._path = path
        self._faults: list[Fault] = []
        self._trace = Path(tempfile.mkstemp(suffix=".strace")[1]) if traced else None
        self._supervisor = Supervisor(
            command=self._command(), memory_limit_bytes=MEMORY_BYTES, stall_s=STALL_S * (3 if traced else 1)
        )

    def _command(self) -> tuple[str, ...] | None:
        if self._trace is None:
            return None
        # -D: the tracer is not the parent, which the child would not bear
        return (
            "strace",
            "-D",
            "-f",
            "-qq",
            "-s",
            "4096",
            "-e",
            f"trace={_CALLS}",
            "-o",
            str(self._trace),
            *default_command(),
        )

    async def run(self) -> Verdict:
        """Ask everything in turn until something is refused."""
        started = time.monotonic()
        outcome = await self._ask_all()
        self._check_trace()
        return Verdict(outcome=outcome, seconds=time.monotonic() - started, faults=tuple(self._faults))

    async def _ask_all(self) -> str:
        done, code = await self._ask(ProbeSource(source=_NOWHERE))
        if done is None:
            return code
        done, code = await self._ask(IndexSource(source=_NOWHERE, profile="default", fingerprint="f"))
        if done is None or done.plan is None:
            return code
        return await self._make(done.plan)

    async def _make(self, plan: Plan) -> str:
        rendition = plan.renditions[-1].name
        chosen = plan.set_of(rendition).name
        outcome = "film"
        for chunk in sorted({0, len(plan.chunks) - 1}):
            request = MakeVideo(source=_NOWHERE, plan=plan, set=chosen, chunk=chunk, threads=1, only=rendition)
            done, code = await self._ask(request)
            outcome = code if done is None else outcome
        for track in plan.audio[:2]:
            end = min(plan.segment_count, _MOST_SOUND_SEGMENTS)
            _, code = await self._ask(MakeAudio(source=_NOWHERE, plan=plan, track=track.name, end_segment=end))
            outcome = code or outcome
        _, code = await self._ask(MakeStills(source=_NOWHERE, plan=plan))
        return code or outcome

    async def _ask(self, request: SourceRequest) -> tuple[Done | None, str]:
        """Return what was answered, or None and the code of the error."""
        name = type(request).__name__
        started = time.monotonic()

        async def give_up(_: Report) -> None:
            if time.monotonic() - started > LONGEST_S:
                raise TimeoutError

        try:
            done = await self._supervisor.run_on_source(request, os.fsencode(self._path), on_report=give_up)
        except ExpectedError as error:
            if error.code in _FAULTS:
                self._faults.append(Fault(request=name, what=f"{error.code}: {error.message}"))
            return None, str(error.code)
        except TimeoutError:
            self._faults.append(Fault(request=name, what=f"not done after {LONGEST_S:.0f} s"))
            return None, "endless"
        except Exception as error:  # noqa: BLE001 (whatever it is, it is what we look for)
            self._faults.append(Fault(request=name, what=f"{type(error).__name__} in the supervisor: {error}"))
            return None, "supervisor"
        return done, ""

    def _check_trace(self) -> None:
        if self._trace is None:
            return
        try:
            for line in self._trace.read_text(errors="replace").splitlines():
                touched = touches(line)
                if touched:
                    self._faults.append(Fault(request="trace", what=touched))
        finally:
            self._trace.unlink()


def touches(line: str) -> str | None:
    """Return what a line of ``strace`` shows that a child has no business with, or None."""
    match = _OPENED.match(line)
    if match is None:
        return line if "socket(" in line or "connect(" in line else None
    call, path, rest = match.groups()
    if _TEMPORARY.match(path) or (_is_ours(path) and "/__pycache__/" in path):
        return None
    if "ENOENT" in rest or call == "execve":
        return None if _is_ours(path) or ("ENOENT" in rest and path.endswith((".so", ".py", ".pyc"))) else line
    reads = call in {"open", "openat"} and "O_WRONLY" not in rest and "O_RDWR" not in rest
    return None if reads and _is_ours(path) else (None if path == "/dev/null" else line)


def _is_ours(path: str) -> bool:
    roots = {sys.prefix, sys.base_prefix, *sysconfig.get_paths().values(), str(Path(__file__).resolve().parents[2])}
    return path.startswith((*_ALLOWED, *roots))
