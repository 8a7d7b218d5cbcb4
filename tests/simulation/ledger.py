"""What users were promised: every word of theirs, in which order they knew of each other, and on which disks it is.

A word that was on one disk only is lost with that disk, and no promise is broken; everything else must hold at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from app.queue.rows import JobRow, Register, encode_value

REGISTERS = ("paused", "priority", "trashed")
Word = tuple[str, str, bytes]
"""(job, register, encoded register): a value that somebody wrote."""


class Promise:
    """What must be true of a job at the end, at least."""

    def __init__(self) -> None:
        self.round = 1
        self.cancelled_round = 0
        self.is_removed = False


class Ledger:
    """The promises of one history."""

    def __init__(self) -> None:
        self.promises: dict[str, Promise] = {}
        self.known_before: dict[Word, set[Word]] = {}
        """Word → those that its writer had seen as the latest."""

    def added(self, job: JobRow) -> None:
        """Note a job that ``add`` acknowledged."""
        self.promises[job.id] = Promise()

    def spoken(self, before: JobRow, after: JobRow) -> None:
        """Note what a user's command made of a job on the device where it was given."""
        promise = self.promises.setdefault(after.id, Promise())
        promise.round = max(promise.round, after.round)
        promise.cancelled_round = max(promise.cancelled_round, after.cancelled_round)
        promise.is_removed = promise.is_removed or after.removed
        for name in REGISTERS:
            old, new = word_of(before, name), word_of(after, name)
            if old != new:
                self.known_before.setdefault(new, set()).add(old)

    def older_than(self, word: Word) -> set[Word]:
        """Return all that was known, in however many steps, when ``word`` was written."""
        older: set[Word] = set()
        rest = [word]
        while rest:
            fresh = self.known_before.get(rest.pop(), set()) - older
            older |= fresh
            rest += fresh
        return older

    def disk_lost(self, find_rows: Callable[[str], Iterable[JobRow]]) -> None:
        """Forget what was on a lost disk alone; ``find_rows`` returns the rows of a job on all disks that are left."""
        for job_id, promise in list(self.promises.items()):
            left = list(find_rows(job_id))
            if not left:
                del self.promises[job_id]
                continue
            promise.round = min(promise.round, max(job.round for job in left))
            promise.cancelled_round = min(promise.cancelled_round, max(job.cancelled_round for job in left))
            promise.is_removed = promise.is_removed and any(job.removed for job in left)
            self._forget_words(job_id, left)

    def _forget_words(self, job_id: str, left: list[JobRow]) -> None:
        latest = {word_of(job, name) for job in left for name in REGISTERS}
        kept = latest.union(*(self.older_than(word) for word in latest))
        for word in [one for one in self.known_before if one[0] == job_id and one not in kept]:
            del self.known_before[word]

    def breach_of(self, job: JobRow) -> str | None:
        """Return which promise ``job``, as it is at the end, breaks."""
        promise = self.promises[job.id]
        if job.removed or promise.is_removed:
            return None if job.removed else "a removed job came back"
        if job.round < promise.round:
            return f"a Retry was lost: round {job.round} instead of {promise.round}"
        if job.cancelled_round < promise.cancelled_round:
            return "a cancel was lost"
        final = {word_of(job, name) for name in REGISTERS}
        undone = [word for word in self.known_before if word[0] == job.id and final & self.older_than(word)]
        return f"“{undone[0][1]}” is what it was before somebody changed it" if undone else None


def word_of(job: JobRow, name: str) -> Word:
    """Return a register of a job as somebody's word."""
    register: Register[object] = getattr(job, name)
    return job.id, name, encode_value(register)
