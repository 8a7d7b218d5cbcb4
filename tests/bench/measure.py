"""Measuring whole commands: wall time, CPU of all their processes, highest memory of each."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import psutil

_SAMPLE_S = 0.05


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What one command took."""

    wall_s: float
    cpu_s: float
    own_bytes: int
    """Highest resident size of the command's own process."""
    child_bytes: int
    """Highest resident size of any of its children."""


def measure(command: Sequence[str]) -> Usage:
    """Run a command to its end; ends the benchmark with its output when it fails."""
    peaks = [0, 0]
    with tempfile.TemporaryFile() as output:
        started = time.monotonic()
        process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
        watcher = threading.Thread(target=_watch, args=(process.pid, peaks), daemon=True)
        watcher.start()
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.monotonic() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        watcher.join()
        if process.returncode:
            output.seek(0)
            raise SystemExit(f"{' '.join(command)} failed:\n{output.read().decode(errors='replace')}")
    return Usage(wall_s=wall_s, cpu_s=usage.ru_utime + usage.ru_stime, own_bytes=peaks[0], child_bytes=peaks[1])


def _watch(pid: int, peaks: list[int]) -> None:
    try:
        process = psutil.Process(pid)
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            peaks[0] = max(peaks[0], process.memory_info().rss)
            for child in process.children(recursive=True):
                peaks[1] = max(peaks[1], child.memory_info().rss)
            time.sleep(_SAMPLE_S)
    except psutil.Error:
        return
