"""What a media child does to itself before it touches a source: it holds little and dies with its parent."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_NICE = 10


def confine(parent_pid: int) -> None:
    """Lower the priority, forbid core dumps, and end with the parent even while stopped.

    Linux can promise the last (``PR_SET_PDEATHSIG`` kills a stopped process too); elsewhere the parent's next start
    sweeps what it left behind.
    """
    with contextlib.suppress(OSError, AttributeError):
        os.nice(_NICE)
    _forbid_core_dumps()
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent_pid:
            sys.exit(1)


def _forbid_core_dumps() -> None:
    """Memory holds the film; it must not end in a file."""
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415 (not on Windows)

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def widen_pipe(fd: int) -> None:
    """Let a pipe hold a megabyte where the system can (Linux), so that segments pass in fewer pieces."""
    if sys.platform == "linux":
        import fcntl  # noqa: PLC0415 (not on Windows)

        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, 1 << 20)
