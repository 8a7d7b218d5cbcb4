"""Snapshots become rows, texts, order and actions."""

from __future__ import annotations

import msgspec
import pytest

from app.core.errors import ErrorCode, ErrorInfo
from app.engine.api import (
    AddResult,
    Changed,
    EngineStatus,
    QueueCursor,
    QueuePage,
    RenditionSnapshot,
    SheetLayout,
    TaskSnapshot,
    TrackSnapshot,
)
from app.ui.presenters import (
    AddTally,
    FilmAction,
    JobAction,
    LibraryBoard,
    QueueBoard,
    ThumbnailPlace,
    Tone,
    changed_text,
    common_actions,
    film_details,
    hue_of,
    initials_of,
    job_details,
    loss_text,
    playback_error_text,
    present_film,
    present_job,
    present_status,
    present_tally,
    thumbnail_at,
    toggle_action,
)
from app.ui.wording import Wording
from tests.ui.fake_engine import make_film, make_job

WORDING = Wording()
TIMES = "\N{MULTIPLICATION SIGN}"
DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("state", "fields", "text", "tone"),
    [
        ("queued", {}, "Waiting for its turn", Tone.WAITING),
        (
            "queued",
            {"reason": "Waiting for Laptop, which holds the file"},
            "Waiting for Laptop, which holds the file",
            Tone.WAITING,
        ),
        ("processing", {}, "Looking at the file…", Tone.WORKING),
        (
            "processing",
            {"progress": 0.42, "rate_x": 1.84, "eta_s": 252.0},
            f"42 % · 1.8{TIMES} real time · 4 min left",
            Tone.WORKING,
        ),
        ("processing", {"progress": 0.42}, "42 %", Tone.WORKING),
        (
            "processing",
            {"progress": 0.42, "reason": "Waiting for a decoder", "eta_s": 9.0},
            "42 % · Waiting for a decoder",
            Tone.WORKING,
        ),
        ("paused", {}, "Paused", Tone.WAITING),
        ("paused", {"progress": 0.17}, "Paused at 17 %", Tone.WAITING),
        ("done", {"duration_s": 5025.0}, "Ready to play · 1:23:45", Tone.DONE),
        ("done", {"reason": "1 of 2 copies"}, "Ready to play · 1 of 2 copies", Tone.DONE),
        ("done", {"warnings": ("a", "b")}, "Ready to play · 2 warnings", Tone.WARNING),
        ("error", {"error": ErrorInfo(code="truncated", message="It ends early.")}, "It ends early.", Tone.ERROR),
        ("error", {"reason": "Its result was lost"}, "Its result was lost", Tone.ERROR),
        ("error", {}, "It failed and nobody knows why. Try again.", Tone.ERROR),
        ("cancelled", {}, "Cancelled", Tone.QUIET),
    ],
)
def test_a_job_says_its_state_in_words(state: str, fields: dict[str, object], text: str, tone: Tone) -> None:
    row = present_job(make_job("Film", state, **fields), WORDING)
    assert (row.state_text, row.tone) == (text, tone)


def test_a_state_of_a_newer_engine_is_shown_as_it_can_be() -> None:
    job = msgspec.structs.replace(make_job("Film"), state="mastering", reason="Mixing the sound")
    assert present_job(job, WORDING).state_text == "Mixing the sound"


def test_actions_are_those_of_the_engine_in_one_order() -> None:
    job = make_job("Film", actions=("remove", "pause", "cancel", "teleport"))
    assert present_job(job, WORDING).actions == (JobAction.PAUSE, JobAction.CANCEL, JobAction.REMOVE)


def test_a_finished_job_has_no_bar() -> None:
    assert present_job(make_job("Film", "done", progress=1.0), WORDING).progress is None
    assert present_job(make_job("Film", "paused", progress=0.5), WORDING).progress == 0.5


def test_unfinished_jobs_come_first_in_order_of_adding_then_finished_ones_newest_first() -> None:
    board = QueueBoard(WORDING)
    jobs = [
        make_job("old done", "done", added_at_ms=1),
        make_job("first", "error", added_at_ms=2),
        make_job("new done", "cancelled", added_at_ms=3),
        make_job("second", "processing", added_at_ms=4),
    ]
    board.apply(Changed(jobs=tuple(reversed(jobs))), is_everything=True)
    assert [row.title for row in board.rows()] == ["first", "second", "new done", "old done"]
    assert [row.title for row in board.rows(with_finished=False)] == ["first", "second"]
    assert (board.unfinished, board.failed) == (2, 1)


def test_an_event_changes_what_it_names_and_the_first_one_replaces_all() -> None:
    board = QueueBoard(WORDING)
    one, two = make_job("one", added_at_ms=1), make_job("two", added_at_ms=2)
    board.apply(Changed(jobs=(one, two)), is_everything=True)
    board.apply(Changed(jobs=(msgspec.structs.replace(one, state="paused"),), gone=(two.id,)), is_everything=False)
    assert [(row.title, row.state_text) for row in board.rows()] == [("one", "Paused")]
    board.apply(Changed(jobs=(two,)), is_everything=True)
    assert [row.title for row in board.rows()] == ["two"]


def test_the_summary_counts_what_matters() -> None:
    board = QueueBoard(WORDING)
    assert board.summary() == "Nothing to do"
    states = ("processing", "queued", "queued", "error", "done")
    board.apply(Changed(jobs=tuple(make_job(state, state) for state in states)), is_everything=True)
    assert board.summary() == "1 in progress · 2 waiting · 1 failed"


def test_the_space_bar_does_what_makes_sense() -> None:
    assert toggle_action(present_job(make_job("a", "processing"), WORDING)) == JobAction.PAUSE
    assert toggle_action(present_job(make_job("a", "paused"), WORDING)) == JobAction.RESUME
    assert toggle_action(present_job(make_job("a", "error"), WORDING)) == JobAction.RETRY
    assert toggle_action(present_job(make_job("a", "done"), WORDING)) is None


def test_several_jobs_allow_what_one_of_them_allows() -> None:
    rows = [present_job(make_job("a", "paused"), WORDING), present_job(make_job("b", "error"), WORDING)]
    assert common_actions(rows) == {JobAction.RESUME, JobAction.CANCEL, JobAction.RETRY, JobAction.REMOVE}


def test_only_what_throws_work_away_asks_first() -> None:
    working = present_job(make_job("Film", "processing", progress=0.42), WORDING)
    waiting = present_job(make_job("Other", "queued"), WORDING)
    assert "“Film” so far (42 %)" in loss_text([working, waiting], JobAction.CANCEL, WORDING)
    assert "2 films" in loss_text([working, working], JobAction.REMOVE, WORDING)
    assert loss_text([working], JobAction.PAUSE, WORDING) == ""
    assert loss_text([waiting], JobAction.REMOVE, WORDING) == ""


def test_a_film_shows_length_quality_and_size() -> None:
    tall = RenditionSnapshot(name="a", width=1080, height=1920, kind="h264", codecs="avc1")
    row = present_film(make_film("A Film", duration_s=5025, renditions=(tall,)), WORDING, now_ms=0)
    assert (row.clock, row.meta, row.badge, row.progress) == ("1:23:45", "1080p · 1.24 GB", "", None)
    assert row.actions == (FilmAction.PLAY, FilmAction.EXPORT, FilmAction.DETAILS, FilmAction.TRASH)


@pytest.mark.parametrize(
    ("fields", "badge", "progress"),
    [
        ({"state": "making"}, "being made", None),
        ({"state": "making", "progress": 0.42}, "being made 42 %", 0.42),
        ({"state": "partial", "progress": 0.7}, "more qualities 70 %", 0.7),
        ({"state": "trashed", "trashed_at_ms": 0}, "kept 26 more days", None),
        ({"state": "ready", "warnings": ("x",)}, "1 warning", None),
        ({"state": "ready", "progress": 1.0}, "", None),
    ],
)
def test_a_badge_says_what_is_special(fields: dict[str, object], badge: str, progress: float | None) -> None:
    row = present_film(make_film("Film", **fields), WORDING, now_ms=4 * DAY_MS)
    assert (row.badge, row.progress) == (badge, progress)


def test_a_film_in_the_trash_is_not_played_but_restored() -> None:
    row = present_film(make_film("Film", state="trashed"), WORDING, now_ms=0)
    assert row.actions == (FilmAction.DETAILS, FilmAction.RESTORE, FilmAction.DELETE)


def test_the_library_follows_the_job_that_makes_a_film() -> None:
    board = LibraryBoard(WORDING)
    film = make_film("Film", state="making", progress=0.1)
    board.put_all([film])
    job = make_job("Film", "processing", progress=0.42, media_id=film.media_id)
    assert board.rows(now_ms=0)[0].progress == 0.1
    assert board.follow([job])
    assert not board.follow([job])
    assert board.rows(now_ms=0)[0].badge == "being made 42 %"
    assert board.follow([])
    assert board.rows(now_ms=0)[0].progress == 0.1


def test_the_library_is_sorted_newest_first_and_searched_by_words() -> None:
    board = LibraryBoard(WORDING)
    board.put_all([make_film("Safety Last", added_at_ms=1), make_film("The Last Laugh", added_at_ms=2)])
    assert [row.title for row in board.rows(now_ms=0)] == ["The Last Laugh", "Safety Last"]
    assert [row.title for row in board.rows(now_ms=0, search="LAST saf")] == ["Safety Last"]
    assert board.rows(now_ms=0, search="first") == []


def test_initials_and_colours_stand_for_a_title() -> None:
    assert initials_of("the big lebowski") == "TB"
    assert initials_of("(2019) — Ärger") == "2Ä"
    assert initials_of("…") == ""
    assert hue_of("Nosferatu") == hue_of("Nosferatu")
    assert 0 <= hue_of("\udcff") < 360


def result(path: str, message: str | None = None, *, already: bool = False) -> AddResult:
    """Return the engine's answer for ``path``."""
    error = None if message is None else ErrorInfo(code=str(ErrorCode.EMPTY), message=message)
    job_id = None if error else "j"
    return AddResult(path=path, job_id=job_id, media_id=job_id, state="queued", error=error, already=already)


def test_refusals_are_told_together_with_reasons() -> None:
    tally = AddTally(sent=5, added=2, is_over=True)
    tally = tally.with_result(result("/a/b/one.mp4", "The file is empty.")).with_result(
        result("C:\\two.mp4", "Too old.")
    )
    tally = tally.with_result(result("/three.mp4", already=True))
    notice = present_tally(tally, WORDING)
    assert notice is not None
    assert notice.text == "2 of 5 files were not added:"
    assert notice.details == ("one.mp4: The file is empty.", "two.mp4: Too old.")
    assert notice.is_dismissible


def test_a_reason_that_names_the_file_is_not_doubled() -> None:
    tally = AddTally(sent=1, is_over=True).with_result(result("/a/x.mp4", "“x.mp4” is empty."))
    notice = present_tally(tally, WORDING)
    assert notice is not None
    assert (notice.text, notice.details) == ("“x.mp4” is empty.", ())


def test_many_refusals_are_shortened() -> None:
    tally = AddTally(sent=300, is_over=True, refused=tuple(str(n) for n in range(300)))
    notice = present_tally(tally, WORDING)
    assert notice is not None
    assert len(notice.details) == 201
    assert notice.details[-1] == "… and 100 more"


def test_a_batch_that_went_well_says_nothing() -> None:
    assert present_tally(AddTally(sent=2, added=2, is_over=True), WORDING) is None


@pytest.mark.parametrize(
    ("tally", "text"),
    [
        (AddTally(sent=9, added=3), "Adding 3 of 9 files…"),
        (AddTally(), "Looking for films…"),
        (AddTally(is_over=True), "There are no videos in there."),
        (AddTally(sent=1, already=1, is_over=True), "This film is already here."),
        (AddTally(sent=2, already=2, is_over=True), "These 2 films are already here."),
    ],
)
def test_other_batches_say_how_it_is(tally: AddTally, text: str) -> None:
    notice = present_tally(tally, WORDING)
    assert notice is not None
    assert notice.text == text


def test_trouble_is_a_banner_that_stays() -> None:
    trouble = ErrorInfo(code="disk-full", message="The disk is full.")
    notice = present_status(EngineStatus(working=True, idle=False, trouble=trouble), WORDING)
    assert notice is not None
    assert (notice.text, notice.tone, notice.is_dismissible) == ("The disk is full.", Tone.ERROR, False)
    assert present_status(EngineStatus(working=True, idle=True), WORDING) is None
    off = present_status(EngineStatus(working=False, idle=True), WORDING)
    assert off is not None
    assert off.tone == Tone.WARNING


LAYOUT = SheetLayout(interval_s=10, columns=3, rows=2, tile_width=160, tile_height=90, count=8)


@pytest.mark.parametrize(
    ("position_s", "sheet", "x", "y"),
    [(0, 0, 0, 0), (9.9, 0, 0, 0), (10, 0, 160, 0), (55, 0, 320, 90), (61, 1, 0, 0), (9999, 1, 160, 0), (-5, 0, 0, 0)],
)
def test_a_position_has_its_thumbnail(position_s: float, sheet: int, x: int, y: int) -> None:
    assert thumbnail_at(LAYOUT, position_s) == ThumbnailPlace(sheet=sheet, x=x, y=y, width=160, height=90)


def test_a_layout_without_thumbnails_has_none() -> None:
    assert thumbnail_at(msgspec.structs.replace(LAYOUT, count=0), 3) is None
    assert thumbnail_at(msgspec.structs.replace(LAYOUT, interval_s=0), 3) is None


def test_details_hold_what_there_is_to_know() -> None:
    film = make_film(
        "Film",
        renditions=(RenditionSnapshot(name="a", width=1920, height=1080, kind="h264", codecs="x", average=5_400_000),),
        audio=(TrackSnapshot(name="s", label="Stereo", language="de"),),
        warnings=("Short sound",),
    )
    details = {detail.label: detail.value for detail in film_details(film, WORDING)}
    assert details["Picture"] == f"1920 {TIMES} 1080 · 5.4 Mbit/s"
    assert details["Sound"] == "Stereo · de"
    assert details["Warnings"] == "Short sound"


def test_details_of_a_job_count_its_tasks_and_name_its_code() -> None:
    tasks = tuple(
        TaskSnapshot(id=str(n), kind="video", target="t", state=s)
        for n, s in enumerate(("leased", "fallback_started", "leased"))
    )
    job = make_job("Film", "error", tasks=tasks, error=ErrorInfo(code="truncated", message="Short."), source="/a\nb")
    details = {detail.label: detail.value for detail in job_details(job, WORDING)}
    assert details["Tasks"] == "2 leased · 1 fallback started"
    assert details["Error code"] == "truncated"
    assert "\n" not in details["Source"]


@pytest.mark.parametrize("kind", ["NetworkError", "ResourceError", "FormatError", "AccessDeniedError", "NewError"])
def test_every_error_of_the_player_has_words_that_say_what_to_do(kind: str) -> None:
    assert "ry again" in playback_error_text(kind, WORDING) or "Export" in playback_error_text(kind, WORDING)


@pytest.mark.parametrize("action", list(JobAction))
def test_refused_actions_are_told_together(action: JobAction) -> None:
    info = ErrorInfo(code="already-done", message="It is done.")
    assert changed_text(action, [info], WORDING) == "It is done."
    assert changed_text(action, [info, info], WORDING).startswith("2 jobs could not be ")


def test_a_page_of_the_queue_brings_what_is_not_known_yet() -> None:
    board = QueueBoard(WORDING)
    known, fresh, gone = make_job("Known"), make_job("Fresh"), make_job("Gone")
    board.apply(Changed(jobs=(known,), more=QueueCursor(part="unfinished", after=known.id)), is_everything=True)
    assert board.lacks_unfinished
    paused = msgspec.structs.replace(known, state="paused")
    board.apply(Changed(jobs=(paused,), gone=(gone.id,)), is_everything=False)
    more = QueueCursor(part="finished", after=None)
    board.add_page(QueuePage(jobs=(known, fresh, gone), next=more))
    assert {job.title: job.state for job in board.jobs.values()} == {"Known": "paused", "Fresh": "queued"}
    assert board.more == more
    assert not board.lacks_unfinished
