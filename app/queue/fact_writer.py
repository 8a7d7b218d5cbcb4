"""Writes rows together with the facts that are derived from them, be they facts of other rows.

What a row says can change what is searched for in others: a Retry makes failed tasks available, an accepted index makes
its plan's tasks the job's, a failed chunk rests its job, and of two jobs that make the same film only one runs. All of
that is brought up to date here, inside the transaction of the change.
"""

from __future__ import annotations

from app.core.errors import ExpectedError, StaleError
from app.core.ids import task_id_of
from app.media.film import PublishStage
from app.queue.machine import accepted_plan, held_state, index_task_id, is_cancelled, published_task
from app.queue.row_table import JobFacts, RowTable, TaskFacts
from app.queue.rows import JobRow, TaskRow
from app.queue.targets import (
    INDEX_SPEC,
    TaskKind,
    TaskSpec,
    decode_index_result,
    find_target,
    is_publish,
    is_vital,
    rank_of,
    tasks_of_plan,
)


def task_facts(job: JobRow, task: TaskRow) -> TaskFacts:
    """Return what is searched for in ``task``."""
    state = held_state(job, task)
    target = find_target(task.target)
    if target is None:
        return TaskFacts(state=state, known=False, vital=False, plan="", rank=9, number=0)
    rank, number = rank_of(target)
    return TaskFacts(state=state, known=True, vital=is_vital(target), plan=target.plan, rank=rank, number=number)


def says_about_film(task: TaskRow) -> bool:
    """Whether the task is a full film, or the word that one was lost: such rows must never be forgotten.

    Two plans may have been published in two halves of a partition; every device must choose among both.
    """
    target = find_target(task.target)
    is_film = target is not None and is_publish(target, PublishStage.FULL)
    return is_film and (task.outcome is not None or task.void > 0)


class FactWriter:
    """The writing side of a ``RowTable``; all methods belong into a transaction."""

    def __init__(self, rows: RowTable) -> None:
        self._rows = rows

    def put_job(self, job: JobRow) -> None:
        """Insert or replace a job, with the facts of its tasks when its rounds changed."""
        known = self._rows.job(job.id)
        if known is not None and _rounds(known) != _rounds(job):
            for task in self._rows.tasks(job.id):
                self.swap_task(job, task, task)
        before = self._rows.job_facts(job.id)
        facts = self._job_facts(job)
        self._rows.put_job(job, facts)
        if known is None or before is None or _content(known, before) != _content(job, facts):
            self._refresh_twins(known, job)

    def add_spec(self, job: JobRow, spec: TaskSpec) -> bool:
        """Add a bare task unless it is there; return whether it was new."""
        task_id = task_id_of(job_id=job.id, kind=spec.kind, target=spec.target, fingerprint=job.fingerprint)
        task = TaskRow(id=task_id, job_id=job.id, kind=spec.kind, target=spec.target, fingerprint=job.fingerprint)
        return self.add_task(job, task)

    def add_task(self, job: JobRow, task: TaskRow) -> bool:
        """Add a task unless there is one of its id; return whether it was new."""
        return self._rows.add_task(task, task_facts(job, task))

    def swap_task(self, job: JobRow, old: TaskRow, new: TaskRow) -> None:
        """Replace a task that is still ``old``; raises ``StaleError`` when its lease is another one."""
        if not self._rows.swap_task(new, task_facts(job, new), expected=old.lease):
            raise StaleError("the task was changed by somebody else")

    def refresh(self, job: JobRow) -> None:
        """Bring the facts of a job up to date after changes of its tasks."""
        before = self._rows.job_facts(job.id)
        facts = self._job_facts(job)
        if facts == before:
            return
        self._rows.put_job(job, facts)
        if before is None or _content(job, before) != _content(job, facts):
            self._refresh_twins(None, job)

    def add_missing_index(self, job: JobRow) -> bool:
        """Add the job's ``index`` if it needs one and has none, after its film was lost; return whether it was so."""
        facts = self._rows.job_facts(job.id)
        if facts is None or facts.done or job.kind != "hls" or self._rows.task(index_task_id(job)) is not None:
            return False
        return self.add_spec(job, INDEX_SPEC)

    def complete(self, job: JobRow, *, had_plan: str) -> bool:
        """Add the tasks that an unfinished job must have, now that rows came from elsewhere; whether any was missing.

        They follow from the accepted index alone, so every replica adds the same. ``had_plan`` is the hash of the plan
        whose tasks are known to be here.
        """
        added = self.add_missing_index(job)
        facts, index = self._rows.job_facts(job.id), self._rows.task(index_task_id(job))
        if facts is None or not facts.plan or facts.plan == had_plan or index is None or index.outcome is None:
            return added
        return sum(self.add_spec(job, spec) for spec in _specs_in(index.outcome.value)) > 0 or added

    def tell_again(self, job_id: str) -> None:
        """Feed all tasks of a job anew, since its film was lost: others may have forgotten them with the film."""
        for task in self._rows.tasks(job_id):
            if not says_about_film(task):
                self._rows.feed_again(task.id, job_id=job_id)

    def compact(self, job_id: str) -> int:
        """Delete the tasks that a finished film does not need; return how many."""
        films = {task.id for task in self._rows.tasks(job_id, kind=TaskKind.PUBLISH) if says_about_film(task)}
        return self._rows.delete_tasks(job_id, keep=films)

    def _refresh_twins(self, known: JobRow | None, job: JobRow) -> None:
        twins = {twin.id for one in (known, job) if one is not None for twin in self._rows.twins(one)}
        for twin_id in sorted(twins - {job.id}):
            twin = self._rows.job(twin_id)
            if twin is not None:
                self._rows.put_job(twin, self._job_facts(twin))

    def _job_facts(self, job: JobRow) -> JobFacts:
        if job.removed:
            return JobFacts(runnable=False, wanted=False)
        index = self._rows.task(index_task_id(job))
        plan = accepted_plan(job, index)
        film = published_task(job, self._rows.tasks(job.id, kind=TaskKind.PUBLISH))
        done = film is not None and film[0] is PublishStage.FULL
        resting = done or is_cancelled(job) or job.paused.value or job.trashed.value
        failed = not resting and self._rows.has_failed_vital(job.id, plan=plan, fingerprint=job.fingerprint)
        film_task = film[1].id if film else (index.id if index and plan else "")
        return JobFacts(
            plan=plan,
            film_task=film_task,
            done=done,
            runnable=not resting and not failed and not self._steps_back(job),
            wanted=not job.trashed.value and (done or not is_cancelled(job)),
        )

    def _steps_back(self, job: JobRow) -> bool:
        return any(twin.done or twin.id < job.id for twin in self._rows.twins(job))


def _specs_in(value: str) -> tuple[TaskSpec, ...]:
    try:
        return tasks_of_plan(decode_index_result(value))
    except ExpectedError:
        return ()  # a newer version plans otherwise; the job waits for a device that knows


def _rounds(job: JobRow) -> tuple[object, ...]:
    return job.round, job.cancelled_round, job.removed


def _content(job: JobRow, facts: JobFacts) -> tuple[object, ...]:
    return job.fingerprint, job.profile, facts.wanted, facts.done
