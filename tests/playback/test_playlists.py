"""Playlists as text: what players read from them."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.media.film import RenditionRate
from app.media.sound import AAC_FRAME_SAMPLES
from app.playback.playlists import (
    audio_cuts,
    format_auto_master,
    format_auto_media,
    format_master,
    format_media,
)
from app.playback.source import film_layout
from tests.playback.films import make_plan, make_rendition, make_track

gaps = st.lists(st.integers(1, 20 * 90_000), min_size=1, max_size=60)
borders_strategy = gaps.map(lambda steps: tuple(sum(steps[:end]) for end in range(len(steps) + 1)))
sample_rates = st.sampled_from([22_050, 32_000, 44_100, 48_000])


def durations_us(text: str) -> list[int]:
    return [round(Fraction(one) * 1_000_000) for one in re.findall(r"#EXTINF:([0-9.]+),", text)]


def target_s(text: str) -> int:
    match = re.search(r"#EXT-X-TARGETDURATION:(\d+)\n", text)
    assert match
    return int(match[1])


def attributes(line: str) -> dict[str, str]:
    pairs = re.findall(r'([A-Z-]+)=("[^"]*"|[^",]*)', line.partition(":")[2])
    return {name: value.strip('"') for name, value in pairs}


def tag_lines(text: str, tag: str) -> list[dict[str, str]]:
    return [attributes(one) for one in text.splitlines() if one.startswith(f"#{tag}:")]


@given(borders=borders_strategy)
def test_every_playlist_lists_the_whole_film(borders: tuple[int, ...]) -> None:
    layout = film_layout(make_plan(borders=borders))
    for text in (format_media(layout, "720"), format_auto_media(layout)):
        segments = [one for one in text.splitlines() if one.endswith(".m4s")]
        assert [int(one.rpartition("/")[2].removesuffix(".m4s")) for one in segments] == list(range(len(borders) - 1))
        assert text.endswith("#EXT-X-ENDLIST\n")
        assert "#EXT-X-PLAYLIST-TYPE:VOD\n" in text


@given(borders=borders_strategy)
def test_durations_must_add_up_to_the_film_exactly(borders: tuple[int, ...]) -> None:
    durations = durations_us(format_media(film_layout(make_plan(borders=borders)), "720"))
    assert sum(durations) == (2 * borders[-1] * 1_000_000 + 90_000) // 180_000
    assert all(one > 0 for one in durations)


@given(borders=borders_strategy, sample_rate=sample_rates)
def test_sound_durations_must_add_up_to_its_own_end(borders: tuple[int, ...], sample_rate: int) -> None:
    layout = film_layout(make_plan(borders=borders, audio=(make_track(sample_rate=sample_rate),)))
    total = Fraction(sum(durations_us(format_media(layout, "a0"))), 1_000_000)
    half_frame = Fraction(AAC_FRAME_SAMPLES, 2 * sample_rate)
    assert abs(total - Fraction(borders[-1], 90_000)) <= half_frame + Fraction(1, 1_000_000)


@given(borders=borders_strategy, sample_rate=sample_rates)
def test_sound_must_be_cut_within_half_a_frame_of_each_border(borders: tuple[int, ...], sample_rate: int) -> None:
    cuts = audio_cuts(borders, sample_rate)
    assert cuts[0] == 0
    for border, cut in zip(borders, cuts, strict=True):
        distance = Fraction(cut * AAC_FRAME_SAMPLES, sample_rate) - Fraction(border, 90_000)
        assert -Fraction(AAC_FRAME_SAMPLES, 2 * sample_rate) < distance <= Fraction(AAC_FRAME_SAMPLES, 2 * sample_rate)


@given(borders=borders_strategy, sample_rate=sample_rates)
def test_target_duration_must_reach_every_rounded_duration(borders: tuple[int, ...], sample_rate: int) -> None:
    layout = film_layout(make_plan(borders=borders, audio=(make_track(sample_rate=sample_rate),)))
    for name in ("720", "a0"):
        text = format_media(layout, name)
        rounded = [(one + 500_000) // 1_000_000 for one in durations_us(text)]
        assert target_s(text) == max([1, *rounded])


def test_a_sound_segment_without_a_frame_is_left_out() -> None:
    layout = film_layout(make_plan(borders=(0, 180_000, 180_300, 360_000)))
    assert re.findall(r"(\d+)\.m4s", format_media(layout, "a0")) == ["0", "2"]
    assert re.findall(r"(\d+)\.m4s", format_media(layout, "720")) == ["0", "1", "2"]


def test_a_media_playlist_reads_as_planned() -> None:
    layout = film_layout(make_plan(borders=(0, 180_000, 720_001)))
    assert format_media(layout, "360") == (
        "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-INDEPENDENT-SEGMENTS\n#EXT-X-TARGETDURATION:6\n#EXT-X-MEDIA-SEQUENCE:0\n"
        '#EXT-X-PLAYLIST-TYPE:VOD\n#EXT-X-MAP:URI="init.mp4"\n'
        "#EXTINF:2.000000,\n0.m4s\n#EXTINF:6.000011,\n1.m4s\n#EXT-X-ENDLIST\n"
    )


def test_the_auto_playlist_points_into_the_plan() -> None:
    layout = film_layout(make_plan())
    text = format_auto_media(layout)
    assert f'#EXT-X-MAP:URI="../{layout.plan_hash}/auto/init.mp4"' in text
    assert f"../{layout.plan_hash}/auto/0.m4s" in text


def test_a_variant_says_what_players_choose_by() -> None:
    rates = [RenditionRate(name="720", peak=2_000_000, average=1_500_000), RenditionRate(name="a0", peak=9, average=8)]
    layout = film_layout(make_plan(), measured=rates)
    text = format_master(layout)
    first, second = tag_lines(text, "EXT-X-STREAM-INF")
    assert first == {
        "BANDWIDTH": "2000009",
        "AVERAGE-BANDWIDTH": "1500008",
        "CODECS": "avc1.64001f,mp4a.40.2",
        "RESOLUTION": "1280x720",
        "FRAME-RATE": "29.970",
        "AUDIO": "audio",
    }
    assert second["RESOLUTION"] == "640x360"
    assert f"{layout.plan_hash}/720/index.m3u8\n" in text


def test_the_auto_master_has_exactly_one_variant_and_all_tracks() -> None:
    layout = film_layout(make_plan(audio=(make_track("a0"), make_track("a1", label="Deutsch", is_default=False))))
    text = format_auto_master(layout)
    assert len(tag_lines(text, "EXT-X-STREAM-INF")) == 1
    assert len(tag_lines(text, "EXT-X-MEDIA")) == 2
    assert text.endswith("\nauto/video.m3u8\n")


def test_a_film_without_sound_names_no_audio_group() -> None:
    text = format_master(film_layout(make_plan(audio=())))
    assert "AUDIO" not in text
    assert tag_lines(text, "EXT-X-STREAM-INF")[0]["CODECS"] == "avc1.64001f"


def test_an_unknown_frame_rate_is_not_told() -> None:
    plan = make_plan()
    layout = film_layout(
        type(plan)(**{name: getattr(plan, name) for name in plan.__struct_fields__} | {"frame_rate": (0, 1)})
    )
    assert "FRAME-RATE" not in format_master(layout)


labels = st.lists(st.text(max_size=12), min_size=1, max_size=6)


@given(labels=labels, defaults=st.lists(st.booleans(), min_size=6, max_size=6))
def test_track_names_must_be_unique_and_one_the_default(labels: list[str], defaults: list[bool]) -> None:
    tracks = tuple(
        make_track(f"a{place}", label=label, is_default=is_default)
        for place, (label, is_default) in enumerate(zip(labels, defaults, strict=False))
    )
    text = format_master(film_layout(make_plan(audio=tracks)))
    lines = tag_lines(text, "EXT-X-MEDIA")
    assert len({one["NAME"] for one in lines}) == len(tracks)
    assert all(one["NAME"] for one in lines)
    assert [one["DEFAULT"] for one in lines].count("YES") == 1
    assert len(text.splitlines()) == 3 + len(tracks) + 4


@pytest.mark.parametrize("language", ["", "und", "UND"])
def test_an_unknown_language_is_not_told(language: str) -> None:
    text = format_master(film_layout(make_plan(audio=(make_track(language=language),))))
    assert "LANGUAGE" not in text


def test_the_marked_track_is_the_default() -> None:
    tracks = (make_track("a0", is_default=False), make_track("a1", label="Deutsch", language="de"))
    first, second = tag_lines(format_master(film_layout(make_plan(audio=tracks))), "EXT-X-MEDIA")
    assert (first["DEFAULT"], second["DEFAULT"]) == ("NO", "YES")
    assert second["LANGUAGE"] == "de"


def test_an_unknown_name_has_no_playlist() -> None:
    with pytest.raises(KeyError):
        format_media(film_layout(make_plan(renditions=(make_rendition("480"),))), "720")
