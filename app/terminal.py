"""How the command line looks: progress with rate and time left, tables, JSON lines.

Results go to standard output, everything else to standard error.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

from app.engine.api import DeviceSnapshot, FilmSnapshot, JobSnapshot

_KIB = 1024
_UNWRAPPED = 2000
"""Columns of a pipe: lines are for other programs there."""
_FINAL = {"done", "error", "cancelled"}


class Terminal:
    """Where a command prints; with ``as_json`` only JSON lines reach standard output."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._errors = Console(stderr=True, highlight=False)
        width = None if sys.stdout.isatty() else _UNWRAPPED
        self._output = Console(highlight=False, width=width)

    def result(self, value: Any, text: str | None = None) -> None:
        """Print one result: as a JSON line, or as ``text``."""
        if self.as_json:
            click.echo(msgspec.json.encode(value).decode())
        elif text is not None:
            self._output.print(Text(text), soft_wrap=True)

    def note(self, text: str) -> None:
        """Say something that is no result."""
        self._errors.print(Text(text), soft_wrap=True)

    def failure(self, code: str, message: str) -> None:
        """Say what went wrong."""
        self._errors.print(Text.assemble((f"{code}: ", "bold red"), message), soft_wrap=True)

    def qr_code(self, text: str) -> None:
        """Draw a QR code for a camera, where there is a screen."""
        if not sys.stderr.isatty():
            return
        import segno  # noqa: PLC0415 (only pairing draws one)

        segno.make(text, error="l", micro=False).terminal(out=sys.stderr, border=2, compact=True)

    def table(self, rows: Iterable[Any], columns: tuple[str, ...], cells: Any, empty: str) -> None:
        """Print rows as a table, or as one JSON object a line."""
        rows = list(rows)
        if self.as_json:
            for row in rows:
                self.result(row)
            return
        if not rows:
            self.note(empty)
            return
        table = Table(box=None, pad_edge=False, header_style="dim")
        for column in columns:
            table.add_column(column, overflow="fold", no_wrap=column == "Id")
        for row in rows:
            table.add_row(*(Text(str(cell)) for cell in cells(row)))
        self._output.print(table)

    @contextmanager
    def job_progress(self) -> Iterator[JobProgress]:
        """Lend the progress display of jobs; silent with JSON."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[detail]}", style="dim"),
        )
        with Progress(*columns, console=self._errors, disable=self.as_json, transient=False) as bars:
            yield JobProgress(bars)

    @contextmanager
    def share_progress(self, what: str) -> Iterator[Any]:
        """Lend a function that shows a share from 0 to 1, with the time left."""
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[detail]}", style="dim"))
        with Progress(*columns, console=self._errors, disable=self.as_json, transient=True) as bars:
            bar = bars.add_task(what, total=1.0, detail="")
            started = time.monotonic()

            def show(share: float, _word: str) -> None:
                spent = time.monotonic() - started
                left = format_seconds(spent * (1 - share) / share) + " left" if share > 0.02 else ""
                bars.update(bar, completed=share, detail=left)

            yield show


class JobProgress:
    """Bars of several jobs."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._ids: dict[str, TaskID] = {}

    def show(self, job: JobSnapshot) -> None:
        """Show a job as it is now."""
        if job.id not in self._ids:
            self._ids[job.id] = self._bars.add_task(shortened(job.title), total=1.0, detail="")
        self._bars.update(self._ids[job.id], completed=job.progress or 0.0, detail=job_detail(job))


def job_detail(job: JobSnapshot) -> str:
    """Return what a job does, in a few words."""
    if job.state in _FINAL or job.rate_x is None:
        reason = job.error.message if job.error else job.reason
        return f"{job.state}: {reason}" if reason else job.state
    left = f" · {format_seconds(job.eta_s)} left" if job.eta_s is not None else ""
    return f"{job.rate_x:.1f}x{left}"


def job_cells(job: JobSnapshot) -> tuple[str, ...]:
    """Return a job's row in a table."""
    done = f"{job.progress * 100:.0f} %" if job.progress is not None else "–"
    return job.id[:12], job.title, job.state, done, job_detail(job) if job.state != "done" else ""


def device_cells(device: DeviceSnapshot) -> tuple[str, ...]:
    """Return a device's row in a table."""
    by = f"revoked by {device.revoked_by}" if device.revoked_by else device.added_by
    return (
        device.id[:12],
        device.name,
        "this device" if device.this else "",
        device.state,
        _link_cell(device),
        format_moment(device.revoked_at_ms or device.added_at_ms),
        by,
    )


def _link_cell(device: DeviceSnapshot) -> str:
    """Return how a device is connected, or why it is not."""
    if device.path is not None:
        rate = f", {format_bytes(device.rate_bytes_s)}/s" if device.rate_bytes_s else ""
        return {"lan": "LAN"}.get(device.path, device.path) + rate
    if device.this or device.state != "member":
        return ""
    return device.trouble.message if device.trouble is not None else "not connected"


def format_moment(at_ms: int) -> str:
    """Return a moment as local date and time."""
    try:
        return datetime.fromtimestamp(at_ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return "–"  # another device's clock said so


def film_cells(film: FilmSnapshot) -> tuple[str, ...]:
    """Return a film's row in a table."""
    qualities = " ".join(one.name for one in film.renditions)
    return (
        film.media_id[:12],
        film.title,
        film.state,
        format_seconds(film.duration_s),
        format_bytes(film.size_bytes) if film.size_bytes else "–",
        qualities,
        ", ".join(track.label for track in film.audio) or "silent",
    )


def format_seconds(seconds: float | None) -> str:
    """Return 1:02:03, 4:05 or 0:07."""
    if seconds is None:
        return "–"
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


def format_bytes(size: int) -> str:
    """Return a size with one decimal in binary units."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < _KIB:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= _KIB
    return f"{value:.1f} TiB"


def shortened(title: str, width: int = 36) -> str:
    """Return a title that fits a line."""
    return title if len(title) <= width else title[: width - 1] + "…"
