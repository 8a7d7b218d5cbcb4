"""Reading a store whose history is long: pages, single entries, glances; and that rows do not pile up.

The memory and the SQLite implementation alike; ``test_query_plans`` has what only SQLite can get wrong.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from functools import partial

import pytest

from app.core.clock import ManualClock
from app.core.errors import ErrorCode, ExpectedError, StaleError
from app.engine.snapshots import read_job
from app.media.film import PublishStage
from app.media.plan import Plan
from app.queue.machine import index_task_id, is_cancelled, job_status, outcome_counts, tasks_that_count
from app.queue.memory_store import MemoryJobStore
from app.queue.needs import weight_of
from app.queue.row_store import RowJobStore
from app.queue.row_table import JobPart
from app.queue.rows import EndRank, JobRow
from app.queue.store import JobStore
from app.queue.targets import TaskKind, parse_target
from tests.queue.test_job_store_contract import add, code_of, fail, finish, index, publish

StoreMaker = Callable[..., RowJobStore]


def ids_of(store: JobStore, part: JobPart, *, page: int) -> list[str]:
    """Return all jobs of a part, read in pages."""
    found: list[str] = []
    while jobs := store.job_page(part, after=found[-1] if found else None, limit=page):
        found += [job.id for job in jobs]
    return found


@pytest.mark.parametrize("page", [1, 3, 50])
def test_pages_hold_every_job_once_and_in_order(store: JobStore, plan: Plan, page: int) -> None:
    jobs = [add(store, fingerprint=f"f{number}", now_ms=1000 + number // 2) for number in range(8)]
    index(store, jobs[1], plan)
    publish(store, jobs[1])
    store.cancel_job(jobs[2].id)
    store.trash_job(jobs[3].id)
    fail(store, index_task_id(jobs[4]), EndRank.PERMANENT)
    store.pause_job(jobs[5].id)
    store.remove_job(jobs[6].id)
    assert ids_of(store, JobPart.ALL, page=page) == [job.id for job in jobs if job is not jobs[6]]
    assert ids_of(store, JobPart.UNFINISHED, page=page) == [jobs[number].id for number in (0, 4, 5, 7)]
    assert ids_of(store, JobPart.FINISHED, page=page) == [jobs[number].id for number in (3, 2, 1)]
    assert ids_of(store, JobPart.FILMS, page=page) == [jobs[1].id]
    assert ids_of(store, JobPart.TRASHED, page=page) == []


def test_a_page_goes_on_after_a_job_that_is_gone_or_finished_meanwhile(store: JobStore) -> None:
    jobs = [add(store, fingerprint=f"f{number}") for number in range(4)]
    store.remove_job(jobs[1].id)
    assert [job.id for job in store.job_page(JobPart.ALL, after=jobs[1].id, limit=9)] == [jobs[2].id, jobs[3].id]
    store.cancel_job(jobs[2].id)
    assert [job.id for job in store.job_page(JobPart.UNFINISHED, after=jobs[2].id, limit=9)] == [jobs[3].id]
    assert store.job_page(JobPart.ALL, after="f" * 32, limit=9) == ()


def test_the_library_and_the_trash_come_in_pages_newest_first(store: JobStore, plan: Plan) -> None:
    jobs = [add(store, fingerprint=f"f{number}", now_ms=1000 + number) for number in range(4)]
    for job in jobs[:3]:
        index(store, job, plan)
    publish(store, jobs[0])
    publish(store, jobs[1])
    store.trash_job(jobs[1].id)
    assert [entry.job.id for entry in store.library_page(limit=2)] == [jobs[2].id, jobs[1].id]
    assert [entry.job.id for entry in store.library_page(after=jobs[1].id, limit=2)] == [jobs[0].id]
    assert [(entry.job.id, entry.trashed) for entry in store.trash_page(limit=9)] == [(jobs[1].id, True)]
    entry = store.library_entry(jobs[0].id)
    assert entry is not None
    assert entry.stage is PublishStage.FULL
    assert store.library_entry(jobs[3].id) is None
    assert sorted(map(repr, store.library())) == sorted(map(repr, store.library_page(limit=9)))


def test_a_cancel_that_came_after_the_film_puts_it_on_a_page_of_the_trash(
    store_maker: StoreMaker, plan: Plan, clock: ManualClock
) -> None:
    store = store_maker()
    job = add(store)
    index(store, job, plan)
    before = store.changes_since(None).rows
    publish(store, job)
    other = MemoryJobStore(device="dev-b", boot=1, clock=clock)
    other.apply_rows(before, from_peer="dev-a")
    other.cancel_job(job.id)
    store.apply_rows(other.changes_since(None).rows, from_peer="dev-b")
    assert is_cancelled(store.job(job.id))
    assert [entry.trashed for entry in store.trash_page(limit=9)] == [True]


def test_an_id_is_found_by_its_beginning(store: JobStore) -> None:
    job = add(store)
    assert store.resolve_job(job.id[:6].upper()) == job.id
    assert store.resolve_job(job.id) == job.id
    assert store.resolve_media(job.media_id[:8]) == job.media_id
    assert store.job_id_of_media(job.media_id) == job.id
    for wrong in (job.id[:5], "", "zzzzzzz", "%%%%%%", job.id + "0"):
        assert code_of(partial(store.resolve_job, wrong)) is ErrorCode.NO_SUCH_ID
        assert code_of(partial(store.resolve_media, wrong)) is ErrorCode.NO_SUCH_ID
    store.remove_job(job.id)
    assert code_of(lambda: store.resolve_job(job.id)) is ErrorCode.NO_SUCH_ID
    assert store.job_id_of_media(job.media_id) == job.id


def test_a_beginning_that_fits_several_ids_is_ambiguous(store_maker: StoreMaker) -> None:
    store = store_maker()
    names = iter(("abcdef" + "0" * 26, "abcdef" + "1" * 26))
    store._draw_id = lambda: next(names)
    add(store, fingerprint="f1")
    add(store, fingerprint="f2")
    assert code_of(lambda: store.resolve_job("abcdef")) is ErrorCode.AMBIGUOUS_ID


def test_there_is_open_work_until_only_publishing_is_left(store: JobStore, plan: Plan) -> None:
    job = add(store)
    assert store.has_open_work(job.id)
    index(store, job, plan)
    for task in store.tasks(job.id):
        if task.kind not in {TaskKind.INDEX, TaskKind.PUBLISH}:
            assert store.has_open_work(job.id)
            lease = store.claim(task.id)
            assert store.has_open_work(job.id)
            store.complete(task.id, lease, value="{}")
    assert not store.has_open_work(job.id)


def test_a_version_changes_with_every_row_of_its_job_and_no_other(store: JobStore, plan: Plan) -> None:
    job, other = add(store), add(store, fingerprint="f2")
    seen = [store.version_of(job.id)]

    def note() -> None:
        seen.append(store.version_of(job.id))

    index(store, job, plan)
    note()
    store.set_priority(job.id, 3)
    note()
    store.pause_job(other.id)
    assert store.version_of(job.id) == seen[-1]
    publish(store, job)
    note()
    store.compact_job(job.id)
    note()
    store.remove_job(job.id)
    note()
    assert len(set(seen)) == len(seen)


def test_progress_of_many_jobs_is_noted_together_and_never_falls(store: JobStore) -> None:
    jobs = [add(store, fingerprint=f"f{number}") for number in range(3)]
    assert store.note_progress_of([(jobs[0], 300), (jobs[1], 0), (jobs[2], 5000)]) == {
        jobs[0].id: 300,
        jobs[1].id: 0,
        jobs[2].id: 1000,
    }
    store.remove_job(jobs[2].id)
    again = store.note_progress_of([(jobs[0], 200), (jobs[1], 7), (jobs[2], 900)])
    assert (again[jobs[0].id], again[jobs[1].id]) == (300, 7)
    store.retry_job(jobs[0].id)
    assert store.note_progress_of([(jobs[0], 900)]) == {jobs[0].id: 900}, "told of the round that was read"
    assert store.progress(jobs[0].id) == 0, "but not noted for the new one"


def _is_same_view(store: JobStore, job: JobRow) -> None:
    tasks = store.tasks(job.id)
    assert job_status(job, store.glance(job).telling) == job_status(job, tasks)
    view = read_job(store, job)
    if view.plan is None or view.status.state == "done":
        return
    weights = {
        task.id: (weight_of(parse_target(task.target), view.plan), outcome_counts(job, task))
        for task in tasks_that_count(job, tasks)
        if task.kind != TaskKind.INDEX
    }
    assert view.whole == sum(weight for weight, _ in weights.values())
    assert view.left == {task_id: weight for task_id, (weight, is_done) in weights.items() if weight and not is_done}


@pytest.mark.parametrize("seed", range(6))
def test_a_glance_shows_what_all_tasks_would_show(store: JobStore, plan: Plan, clock: ManualClock, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 (a walk that can be repeated)
    job = add(store)
    index(store, job, plan)

    def step() -> None:
        tasks = [task for task in store.tasks(job.id) if task.kind not in {TaskKind.INDEX, TaskKind.PUBLISH}]
        task = chance.choice(tasks)
        chance.choice(
            (
                lambda: finish(store, task),
                lambda: finish(store, task),
                lambda: store.claim(task.id),
                lambda: fail(store, task.id),
                lambda: fail(store, task.id, EndRank.FREED),
                lambda: store.raise_void(task.id),
                lambda: store.pause_job(job.id),
                lambda: store.resume_job(job.id),
                lambda: chance.random() < 0.2 and store.cancel_job(job.id),
                lambda: store.retry_job(job.id),
                lambda: clock.advance(60.0),
            )
        )()

    for _ in range(60):
        with contextlib.suppress(StaleError, ExpectedError):
            step()
        _is_same_view(store, store.job(job.id))


def test_rows_of_removed_films_do_not_pile_up(store: JobStore, plan: Plan) -> None:
    for number in range(5):
        job = add(store, fingerprint=f"f{number}")
        index(store, job, plan)
        store.note_progress(job.id, 500)
        publish(store, job)
        assert store.compact_job(job.id) > 0
        assert len(store.tasks(job.id)) == 1
        store.trash_job(job.id)
        store.remove_job(job.id)
    rows = store.changes_since(None).rows
    assert len(rows) == 5, "one tombstone of each, and nothing else"
    assert all("film.mp4" not in row.document for row in rows)


def test_only_so_many_lives_are_remembered(store_maker: StoreMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.queue.replica.REMEMBERED_GENERATIONS", 3)
    stores = [store_maker(boot=boot) for boot in range(1, 6)]
    add(stores[-1])
    assert len(stores[-1]._rows.generations()) == 3
    assert stores[-1].changes_since(stores[0].feed_cursor()).rows != (), "who was away too long is told everything"
