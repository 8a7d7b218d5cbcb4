"""What was stored by earlier versions must be read, and keep its name."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from app.core.encoding import decode_canonical
from app.media.chapters import Chapter
from app.media.film import Film
from app.media.plan import TextTrack, plan_hash
from app.queue.targets import decode_index_result, decode_text_inputs, plan_hash_in
from tests.playback.films import make_plan

DATA = Path(__file__).parent / "data"


def test_a_plan_from_before_text_and_chapters_keeps_its_name() -> None:
    stored = (DATA / "index_result_1.json").read_text()
    plan = decode_index_result(stored)
    assert plan == make_plan()
    assert (plan.text, plan.chapters, decode_text_inputs(stored)) == ((), (), ())
    assert plan_hash(plan) == plan_hash_in(stored)


def test_a_film_from_before_text_and_chapters_is_read() -> None:
    film = decode_canonical((DATA / "film_1.json").read_text(), Film)
    assert (film.plan, film.text, film.media_id) == (make_plan(), (), "ab" * 16)


def test_text_and_chapters_change_the_name_of_a_plan() -> None:
    plan = make_plan()
    text = replace(plan, text=(TextTrack(name="t0", codec="subrip", label="English", sidecar="aa"),))
    other = replace(plan, text=(TextTrack(name="t0", codec="subrip", label="English", sidecar="bb"),))
    chapters = replace(plan, chapters=(Chapter(start_ticks=0, end_ticks=90_000, title="One"),))
    assert len({plan_hash(one) for one in (plan, text, other, chapters)}) == 4
