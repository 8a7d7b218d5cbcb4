"""The change feed of one replica: how rows get from device to device, and why nothing is skipped.

::

    generation 3f…  starts after 0      rows 1 … 57          an engine's life
    generation a0…  starts after 57     rows 58 … 61         the next one
    cursor of a peer: (3f…, 57)   ─►  it wants everything after 57

Every change of a row gives the row the next number, in the transaction of the change; a row has only its latest
number. Each start of an engine opens a *generation* before it writes anything else. A peer remembers, in the
transaction that stores our rows, the cursor (generation, number) up to which it has them.

* A cursor is answered from min(number, start of the generation that followed its own): numbers above that start were
  given out again, to other rows, after commits had been lost or a backup had been restored.
* A cursor of a generation that is not known here is answered from the beginning: this replica is older than what the
  peer saw of it.
* A row must follow its job: a task whose job is not among the rows of an answer brings its job with it.
* A replica may forget tasks (a finished film needs few of them) and need them again (the film is lost). So everybody
  who hears that a film was lost must tell again what it has of that job: its rows get new numbers, after that of the
  film, and go out once more.

Rejected: plain numbers without generations (a restored device reuses them, and what it writes is never asked for);
clocks as cursors (they jump); sending what changed since the last session (a lost message loses rows).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

import msgspec

from app.core.errors import ErrorCode, ExpectedError
from app.core.ids import ID_LENGTH, task_id_of
from app.queue.intent import LATEST_CLOCK_MS
from app.queue.rows import Count, End, JobRow, Outcome, R, TaskRow, decode_row

MAX_ROW_BYTES = 4 * 1024 * 1024
"""Of an encoded row. A plan of a very long film takes some hundred kilobytes."""
MAX_ENDS = 10_000
MAX_STEPS = 2**48
"""Of numbers that grow by one. Nothing honest comes near; a higher one would leave no room to grow beyond it."""
_ID = re.compile(f"[0-9a-f]{{{ID_LENGTH}}}")
MAX_STAMP = LATEST_CLOCK_MS + MAX_STEPS


class RowKind(StrEnum):
    """What a fed row is."""

    JOB = "job"
    TASK = "task"


class FeedCursor(msgspec.Struct, frozen=True, kw_only=True):
    """Up to where somebody has the rows of a replica."""

    generation: str
    number: Count


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """One life of an engine, in the feed of its replica."""

    id: str
    starts_after: Count
    """The last number given out before it."""


class FeedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row on its way to another device."""

    kind: RowKind
    document: str
    """Canonical JSON."""


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """An answer to "what changed since"."""

    rows: tuple[FeedRow, ...]
    cursor: FeedCursor
    """To ask with next time."""
    more: bool
    """Whether there is more at once."""


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """What became of rows from a peer."""

    changed: frozenset[str]
    """Ids of the jobs that are not what they were."""
    set_aside: tuple[str, ...] = ()
    """Why rows could not be read."""
    own_news: tuple[str, ...] = ()
    """Ids of rows in which this device says what it does not know: it was restored from a backup, or lives twice."""


def start_of(cursor: FeedCursor | None, generations: Sequence[Generation]) -> int:
    """Return the number after which ``cursor`` is to be answered; ``generations`` in the order of opening."""
    if cursor is None:
        return 0
    starts = {one.id: position for position, one in enumerate(generations)}
    if cursor.generation not in starts:
        return 0
    following = generations[starts[cursor.generation] + 1 :]
    return min(cursor.number, following[0].starts_after) if following else cursor.number


def read_job(document: str) -> JobRow:
    """Return the job in ``document``; raises ``ExpectedError`` bad-message when it is none that could be."""
    _check_size(document)
    job = _read(document, JobRow)
    _check(_is_id(job.id), "its id is none")
    registers = (job.source, job.paused, job.priority, job.trashed)
    _check(max(register.stamp for register in registers) <= MAX_STAMP, "a stamp in it is out of reach")
    _check(max(job.round, job.cancelled_round, job.added.number) <= MAX_STEPS, "a number in it is out of reach")
    _check(job.source.value is not None or job.removed, "it has no source and is no tombstone")
    return job


def read_task(document: str) -> TaskRow:
    """Return the task in ``document``; raises ``ExpectedError`` bad-message when it is none that could be."""
    _check_size(document)
    task = _read(document, TaskRow)
    named = task_id_of(job_id=task.job_id, kind=task.kind, target=task.target, fingerprint=task.fingerprint)
    _check(_is_id(task.job_id) and task.id == named, "its id is not that of what it says it is")
    _check(len(task.ends) <= MAX_ENDS, "it has too many ends")
    parts: list[End | Outcome] = [*task.ends, *([task.outcome] if task.outcome else [])]
    numbers = [task.void, *(part.epoch for part in parts), *(part.round for part in parts)]
    if task.lease is not None:
        numbers += [task.lease.epoch, task.lease.round, task.lease.beat, task.lease.boot]
    _check(max(numbers) <= MAX_STEPS, "a number in it is out of reach")
    return task


def _read(document: str, kind: type[R]) -> R:
    try:
        return decode_row(document, kind)
    except (RecursionError, UnicodeError) as error:
        raise ExpectedError(ErrorCode.BAD_MESSAGE, f"{kind.__name__} cannot be read: {error}") from error


def _check_size(document: str) -> None:
    _check(len(document) <= MAX_ROW_BYTES, "it is too large")


def _check(is_right: bool, complaint: str) -> None:  # noqa: FBT001 (reads as a sentence)
    if not is_right:
        raise ExpectedError(ErrorCode.BAD_MESSAGE, f"A row of a peer cannot be: {complaint}. Update both devices.")


def _is_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None
