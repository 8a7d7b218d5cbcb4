"""Views of jobs are read once while nothing changes, and only so many of them are kept; what was told is bounded."""

from __future__ import annotations

import pytest

from app.core.clock import ManualClock
from app.core.errors import ErrorCode, ExpectedError
from app.engine.api import QueueCursor
from app.engine.telling import ToldStates
from app.engine.views import JobViews
from app.queue.memory_store import MemoryJobStore
from app.queue.rows import JobParams, JobRow
from tests.ui.fake_engine import make_job


@pytest.fixture
def store() -> MemoryJobStore:
    return MemoryJobStore(device="d", boot=1, clock=ManualClock())


def add(store: MemoryJobStore, number: int) -> JobRow:
    return store.add_job(
        kind="hls",
        params=JobParams(profile="default"),
        fingerprint=f"f{number}",
        size_bytes=1,
        name=f"{number}.mkv",
        now_ms=number,
    )


def test_a_view_is_read_again_only_when_its_job_changed(store: MemoryJobStore) -> None:
    job, other = add(store, 1), add(store, 2)
    views = JobViews()
    first = views.read(store, job)
    store.pause_job(other.id)
    assert views.read(store, job) is first
    paused = store.pause_job(job.id)
    assert views.read(store, paused).status.state == "paused"


def test_only_so_many_views_are_kept_and_the_latest_used_stay(store: MemoryJobStore) -> None:
    jobs = [add(store, number) for number in range(5)]
    views = JobViews(kept_parts=30)  # a view without a plan counts as ten
    first = views.read(store, jobs[0])
    for job in jobs[1:]:
        views.read(store, job)
        assert views.read(store, jobs[0]) is first
    assert len(views._kept) == 3


def test_a_page_of_the_queue_goes_from_what_is_unfinished_to_what_is_finished(store: MemoryJobStore) -> None:
    jobs = [add(store, number) for number in range(6)]
    for number in (1, 3, 4):
        store.cancel_job(jobs[number].id)
    views, shown, after, pages = JobViews(), [], None, 0
    while pages == 0 or after is not None:
        page, after = views.read_queue(store, after=after, limit=2)
        shown += [view.job.name for view in page]
        pages += 1
    assert shown == ["0.mkv", "2.mkv", "5.mkv", "4.mkv", "3.mkv", "1.mkv"]
    assert pages in {3, 4}
    with pytest.raises(ExpectedError) as caught:
        views.read_queue(store, after=QueueCursor(part="nowhere"), limit=2)
    assert caught.value.code == ErrorCode.BAD_MESSAGE


def test_an_exactly_full_page_of_unfinished_jobs_is_not_the_end(store: MemoryJobStore) -> None:
    jobs = [add(store, number) for number in range(3)]
    store.cancel_job(jobs[2].id)
    views = JobViews()
    page, after = views.read_queue(store, after=None, limit=2)
    assert [view.job.name for view in page] == ["0.mkv", "1.mkv"]
    page, after = views.read_queue(store, after=after, limit=2)
    assert [view.job.name for view in page] == ["2.mkv"]
    assert after is None


def test_what_was_told_is_not_told_again_and_only_so_much_is_remembered() -> None:
    told = ToldStates(kept=2)
    jobs = [make_job(f"{number}") for number in range(3)]
    assert [told.is_news(job) for job in (*jobs[:2], *jobs[:2])] == [True, True, False, False]
    assert told.is_news(jobs[2])
    assert told.is_news(jobs[0]), "forgotten, and so told once more"
    told.drop(jobs[0].id)
    assert told.is_news(jobs[0])
