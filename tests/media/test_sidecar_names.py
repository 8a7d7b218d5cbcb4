"""Which text files belong to a film, and what their names say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.media.sidecar import MAX_SIDECARS, SidecarName, read_sidecar_name, sidecars_of

FOLDER = ["Film.mkv", "Film.srt", "film.EN.srt", "Film.de.forced.ass", "Film 2.srt", "Film.nfo", "Filmen.srt", "x.vtt"]


def test_files_that_begin_with_the_films_name_are_its_own() -> None:
    assert sidecars_of("Film.mkv", FOLDER) == ("Film.de.forced.ass", "Film.srt", "film.EN.srt")


def test_a_file_goes_to_the_film_with_the_longest_name() -> None:
    names = ["Film.mkv", "Film.Extended.mkv", "Film.Extended.srt", "Film.srt"]
    assert sidecars_of("Film.mkv", names) == ("Film.srt",)
    assert sidecars_of("Film.Extended.mkv", names) == ("Film.Extended.srt",)


def test_a_film_without_an_ending_has_sidecars_too() -> None:
    assert sidecars_of("Film", ["Film", "Film.srt"]) == ("Film.srt",)


def test_only_so_many_are_taken() -> None:
    assert len(sidecars_of("Film.mkv", [f"Film.{number}.srt" for number in range(100)])) == MAX_SIDECARS


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("Film.srt", SidecarName(kind="srt")),
        ("Film.en.srt", SidecarName(kind="srt", language="en")),
        ("Film.GER.VTT", SidecarName(kind="vtt", language="GER")),
        ("Film.pt_BR.srt", SidecarName(kind="srt", language="pt-BR")),
        ("Film.zh-Hant.srt", SidecarName(kind="srt", language="zh-Hant")),
        ("Film.de.forced.ass", SidecarName(kind="ass", language="de", is_forced=True)),
        ("Film.forced.de.ass", SidecarName(kind="ass", language="de", is_forced=True)),
        ("Film.en.sdh.default.srt", SidecarName(kind="srt", language="en", is_hearing_impaired=True, is_default=True)),
        ("Film.en.hi.srt", SidecarName(kind="srt", language="en", is_hearing_impaired=True)),
        ("Film.hi.srt", SidecarName(kind="srt", language="hi")),
        ("Film.Commentary.en.srt", SidecarName(kind="srt", language="en", title="Commentary")),
        ("Film.xx.srt", SidecarName(kind="srt", title="xx")),
    ],
)
def test_a_name_tells_language_flags_and_title(name: str, wanted: SidecarName) -> None:
    assert read_sidecar_name("Film.mkv", name) == wanted


@given(st.text(max_size=30), st.lists(st.text(max_size=30), max_size=8))
def test_any_names_are_borne(film: str, names: list[str]) -> None:
    for name in sidecars_of(film, names):
        assert read_sidecar_name(film, name).kind in {"srt", "ass", "ssa", "vtt"}
