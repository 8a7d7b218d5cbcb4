"""The corpus runner judges a few films of our own; and the judge is judged: what is wrong must be called so."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.corpus.commands import SOUND_RATE
from tests.corpus.inputs import SMALL, X264, ffmpeg, make_inputs, picture, sound
from tests.corpus.judging import Report, judge_film
from tests.corpus.kinds import Kind, kind_of
from tests.corpus.library import Made
from tests.corpus.measures import differing_silence_s, lags, rank_likeness, ssim
from tests.corpus.playlists import FetchedFilm, Piece
from tests.corpus.run import Verdict, files_under, run_corpus, shown_name, verdict_of
from tests.corpus.source import showing_of


@pytest.fixture(scope="session")
def tools() -> None:
    """Skip without ffmpeg, except where a missing judge must fail."""
    if shutil.which("ffmpeg") is None or shutil.which("ffprobe") is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("ffmpeg and ffprobe must be installed here")


@pytest.mark.slow
@pytest.mark.usefixtures("tools")
async def test_films_of_every_small_kind_are_right_or_refused_as_they_must_be(tmp_path: Path) -> None:
    folder = tmp_path / "films"
    names = SMALL[::2]  # the others as well take more than a test run should; ``make corpus`` runs them all
    make_inputs(folder, names)
    told: list[Verdict] = []
    verdicts = await run_corpus(folder, list(files_under(folder)), told.append)
    assert [one.line for one in verdicts if one.word == "wrong"] == []
    assert {one.name for one in verdicts} == set(names)
    assert {one.name for one in told} == set(names)
    assert sum(one.word == "right" for one in verdicts) >= len(names) - 3


@pytest.mark.slow
@pytest.mark.usefixtures("tools")
async def test_a_file_that_breaks_the_comparison_is_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "films"
    folder.mkdir()
    ffmpeg(*picture(seconds=1), *X264, folder / "good.mp4")
    verdicts = await run_corpus(folder, [folder / "good.mp4", folder / "gone.mp4"], lambda _: None)
    assert {one.name: one.word for one in verdicts} == {"good.mp4": "right", "gone.mp4": "refused"}


def film_of(picture_path: Path, sound_path: Path | None, *, length_s: float, size: str = "320x180") -> FetchedFilm:
    """Return files as if they had been fetched as renditions."""

    def piece(path: Path, name: str, attributes: dict[str, str]) -> Piece:
        return Piece(name=name, path=path, durations_s=(length_s,), target_s=99, attributes=attributes, complaints=())

    sounds = (piece(sound_path, "Track 1", {}),) if sound_path else ()
    return FetchedFilm(pictures=(piece(picture_path, size, {"RESOLUTION": size}),), sounds=sounds)


SPOILED = {
    "nothing": ((), ()),
    "wrong colours": (("-vf", "hue=h=90"), ()),
    "one picture behind": (("-vf", "tpad=start=1:start_mode=clone,trim=end_frame=100"), ()),
    "sound late": ((), ("-af", "adelay=90:all=1,atrim=0:4")),
    "sound with a hole": ((), ("-af", "volume=0:enable='between(t,1.2,2.6)'")),
}


@pytest.mark.slow
@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize("fault", SPOILED)
def test_a_spoiled_film_is_called_wrong(tmp_path: Path, fault: str) -> None:
    source = tmp_path / "source.mkv"
    ffmpeg(*picture(), *sound(), *X264, "-c:a", "flac", source)
    on_picture, on_sound = SPOILED[fault]
    pictures, sounds = tmp_path / "v.mp4", tmp_path / "a.mp4"
    ffmpeg("-i", source, "-an", *on_picture, *X264, "-crf", "16", "-colorspace", "bt709", pictures)
    ffmpeg("-i", source, "-vn", *on_sound, "-c:a", "aac", sounds)
    report = judge_film(source, film_of(pictures, sounds, length_s=4), Kind(), ())
    assert bool(report.wrong) == (fault != "nothing"), report.wrong


def test_a_verdict_weighs_the_code_against_the_kind() -> None:
    refused = Made(code="picture", message="…")
    assert verdict_of("29_photo.jpg", refused, None).word == "refused"
    assert verdict_of("01_vfr.mp4", refused, None).word == "wrong"
    assert verdict_of("holiday.mp4", refused, None).word == "refused"
    assert verdict_of("holiday.mp4", Made(code="internal"), None).word == "wrong"
    assert verdict_of("holiday.mp4", Made(code="film"), Report()).word == "right"
    assert verdict_of("43_empty.mp4", Made(code="film"), Report()).word == "wrong"
    assert kind_of("44_cut.mkv").warned


def test_a_name_is_shown_on_one_line(tmp_path: Path) -> None:
    assert shown_name(tmp_path / "a\nb\u202egpj.mp4", tmp_path) == "a?b?gpj.mp4"


def test_joined_clocks_are_put_on_one_line() -> None:
    first = [n * 0.04 for n in range(50)]
    showing = showing_of([*first, *first])
    assert showing.joins == 1
    assert showing.end == pytest.approx(4.0, abs=0.05)
    assert showing_of([0.0, 0.04, None, 0.04]).repairs == 2


def test_likeness_tells_a_picture_from_another() -> None:
    dice = np.random.default_rng(1)
    one, other = dice.uniform(0, 255, (2, 64, 64))
    assert ssim(one, one) == pytest.approx(1)
    assert ssim(one, other) < 0.2
    ramp = np.add.outer(np.arange(64.0), np.arange(64.0)) * 2
    assert rank_likeness(ramp, np.sqrt(ramp) * 10) > 0.99
    assert rank_likeness(ramp, ramp[::-1]) < 0.5


def test_sound_is_found_again_where_it_is() -> None:
    dice = np.random.default_rng(1)
    source = dice.normal(0, 0.1, 10 * SOUND_RATE).astype(np.float32)
    late = np.concatenate([np.zeros(800, np.float32), source])
    assert [round(one.lag_s, 3) for one in lags(source, source)] == [0, 0, 0]
    assert [round(one.lag_s, 3) for one in lags(source, late)] == [0.1, 0.1, 0.1]
    holed = source.copy()
    holed[SOUND_RATE : 2 * SOUND_RATE] = 0
    assert differing_silence_s(source, holed) == pytest.approx(1.0, abs=0.1)
