"""Q7: merge laws hold for all rows, reachable or not; and what merge must prefer."""

# ruff: noqa: S106 (fencing tokens are no passwords)

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from app.core.errors import BugError, ErrorCode, ExpectedError
from app.queue.merge import merge_job, merge_task
from app.queue.rows import (
    Added,
    End,
    EndRank,
    JobParams,
    JobRow,
    Lease,
    LeaseFlag,
    Outcome,
    Register,
    Source,
    TaskRow,
    decode_row,
    encode_value,
)

small = st.integers(0, 3)
word = st.sampled_from(["", "a", "b", "ü"])
extra = st.lists(
    st.tuples(st.sampled_from(["new", "newer"]), st.sampled_from(["1", '{"a":[1,null]}'])), max_size=2
).map(tuple)
sources = st.builds(Source, extra=extra, fingerprint=word, size_bytes=small, name=word)
leases = st.builds(
    Lease, extra=extra, epoch=small, device=word, boot=small, token=word, round=small, beat=small,
    flag=st.sampled_from(LeaseFlag), progress=small,
)  # fmt: skip
ends = st.builds(
    End, extra=extra, epoch=small, token=word, round=small, rank=st.sampled_from(EndRank), code=word, message=word,
    device=word, fenced=st.booleans(),
)  # fmt: skip
outcomes = st.builds(Outcome, extra=extra, epoch=small, token=word, round=small, value=word)
tasks = st.builds(
    TaskRow, extra=extra, schema=small, id=st.just("t"), job_id=word, kind=word, target=word, fingerprint=word,
    lease=st.none() | leases, ends=st.lists(ends, max_size=4).map(tuple), outcome=st.none() | outcomes, void=small,
)  # fmt: skip
jobs = st.builds(
    JobRow, extra=extra, schema=small, id=st.just("j"), kind=word,
    params=st.builds(JobParams, extra=extra, profile=word, options=word),
    source=st.builds(Register, value=st.none() | sources, stamp=small, device=word),
    added=st.builds(Added, at_ms=small, device=word, number=small), round=small, cancelled_round=small,
    paused=st.builds(Register, value=st.booleans(), stamp=small, device=word),
    priority=st.builds(Register, value=small, stamp=small, device=word),
    trashed=st.builds(Register, value=st.booleans(), stamp=small, device=word), removed=st.booleans(),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(tasks, tasks, tasks)
def test_q7_merge_of_tasks_is_a_join(a: TaskRow, b: TaskRow, c: TaskRow) -> None:
    assert merge_task(a, b) == merge_task(b, a)
    assert merge_task(a, merge_task(b, c)) == merge_task(merge_task(a, b), c)
    assert merge_task(a, a) == a
    assert merge_task(merge_task(a, b), b) == merge_task(a, b)


@settings(max_examples=150, deadline=None)
@given(jobs, jobs, jobs)
def test_q7_merge_of_jobs_is_a_join(a: JobRow, b: JobRow, c: JobRow) -> None:
    assert merge_job(a, b) == merge_job(b, a)
    assert merge_job(a, merge_job(b, c)) == merge_job(merge_job(a, b), c)
    assert merge_job(a, a) == a
    assert merge_job(merge_job(a, b), b) == merge_job(a, b)


@settings(max_examples=150, deadline=None)
@given(tasks, jobs)
def test_a_row_survives_its_encoding_with_fields_that_nobody_here_knows(task: TaskRow, job: JobRow) -> None:
    assert decode_row(encode_value(task), TaskRow) == task
    assert decode_row(encode_value(job), JobRow) == job
    assert encode_value(decode_row(encode_value(job), JobRow)) == encode_value(job)


def test_unknown_fields_stay_at_their_places() -> None:
    document = (
        b'{"fingerprint":"f","from_tomorrow":{"b":1,"a":[2.5]},"id":"t","job_id":"j","kind":"text",'
        b'"lease":{"epoch":3,"device":"d","boot":1,"token":"x","round":1,"soon":true},"target":"text/0"}'
    )
    task = decode_row(document, TaskRow)
    assert task.lease is not None
    assert task.extra == (("from_tomorrow", '{"a":[2.5],"b":1}'),)
    assert task.lease.extra == (("soon", "true"),)
    written = encode_value(replace(task, void=2))
    assert b'"from_tomorrow":{"a":[2.5],"b":1}' in written
    assert b'"soon":true' in written


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"[]",
        b"null",
        b'{"id":1}',
        b'{"id":"t"',
        b'{"?":[["id","1"]],"id":"t"}',
        b'{"\\u003f":[["void","x"]]}',
        b"\xff",
    ],
)
def test_what_is_no_row_is_a_bad_message(document: bytes) -> None:
    with pytest.raises(ExpectedError) as caught:
        decode_row(document, TaskRow)
    assert caught.value.code is ErrorCode.BAD_MESSAGE


def test_the_place_of_unknown_fields_cannot_be_written_from_outside() -> None:
    document = (
        b'{"?":[["void","7"],["evil","}"]],"fingerprint":"f","id":"t","job_id":"j","kind":"index","target":"index"}'
    )
    task = decode_row(document, TaskRow)
    assert (task.void, task.extra) == (0, ())
    assert decode_row(encode_value(task), TaskRow) == task


def _task(**fields: object) -> TaskRow:
    plain: dict[str, object] = {"id": "t", "job_id": "j", "kind": "index", "target": "index", "fingerprint": "f"}
    return TaskRow(**(plain | fields))  # type: ignore[arg-type]


def test_done_beats_none_and_the_higher_epoch_beats_the_lower() -> None:
    low = Outcome(epoch=1, token="z", round=1, value="1")
    high = Outcome(epoch=2, token="a", round=1, value="2")
    assert merge_task(_task(), _task(outcome=low)).outcome == low
    assert merge_task(_task(outcome=high), _task(outcome=low)).outcome == high


def test_within_one_lease_the_highest_beat_counts_and_a_new_epoch_beats_any_beat() -> None:
    lease = Lease(epoch=1, device="d", boot=1, token="x", round=1, beat=9, progress=500)
    later = replace(lease, beat=10, progress=600)
    newer = Lease(epoch=2, device="c", boot=1, token="y", round=1)
    assert merge_task(_task(lease=later), _task(lease=lease)).lease == later
    assert merge_task(_task(lease=later), _task(lease=newer)).lease == newer


def test_a_wrong_death_heals_when_the_holder_speaks() -> None:
    died = End(epoch=1, token="x", round=1, rank=EndRank.DIED, code="c", message="m", device="d")
    freed = replace(died, rank=EndRank.FREED, fenced=True)
    assert merge_task(_task(ends=(died,)), _task(ends=(freed,))).ends == (freed,)


def test_a_tombstone_forgets_what_the_file_was_whatever_a_replica_still_knows() -> None:
    known = JobRow(
        id="j",
        kind="hls",
        params=JobParams(profile="default"),
        source=Register(value=Source(fingerprint="f", size_bytes=1, name="secret.mp4"), stamp=900),
        added=Added(at_ms=1, device="d", number=1),
    )
    tombstone = replace(known, removed=True, source=Register(value=None, stamp=5))
    merged = merge_job(replace(known, source=replace(known.source, stamp=10_000)), tombstone)
    assert merged.removed
    assert b"secret" not in encode_value(merged)


def test_rows_of_two_things_are_not_merged() -> None:
    with pytest.raises(BugError):
        merge_task(_task(), _task(id="u"))
