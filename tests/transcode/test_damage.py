"""Damaged, cut and odd sources: what is there is kept, what is lost is said, nothing ends in our own error."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from app.core.errors import ErrorCode, ExpectedError
from app.media.film import RenditionFacts
from app.media.plan import AudioKind, Plan, RenditionKind
from app.transcode.messages import ProbeSource
from app.transcode.opening import open_source
from app.transcode.probe import probe_source
from tests.transcode.lab import Shot, ffmpeg, handle, index, make_pictures, make_sound, shots, sound, write_film

COUNT = 360
CUTS = {
    "cut.mkv": ("-c", "copy"),
    "cut.mp4": ("-c", "copy", "-movflags", "+faststart"),
    "cut.flv": ("-c", "copy"),
    "cut fragments.mp4": ("-c", "copy", "-movflags", "frag_keyframe+empty_moov+delay_moov"),
    "cut.avi": ("-c", "copy", "-bsf:v", "h264_mp4toannexb"),
    "cut mpeg-4.mkv": ("-c:v", "mpeg4", "-q:v", "2", "-c:a", "ac3"),
}


def made(path: Path) -> tuple[Plan, list[Shot], list[RenditionFacts]]:
    """Return the plan, what the best rendition shows, and its facts."""
    _, plan = index(path)
    best = plan.renditions[0].name
    work = make_pictures(path, plan, plan.set_of(best).name)
    facts = [one for one in work.facts if one.name == best]
    return plan, shots(work.reporter.bytes_of(best)), facts


def cut(film: Path, path: Path, arguments: tuple[str, ...], share: float) -> Path:
    ffmpeg("-i", film, *arguments, path)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", CUTS)
def test_a_cut_film_keeps_what_is_there_and_says_what_is_lost(film: Path, shelf: Path, name: str) -> None:
    path = cut(film, shelf / name, CUTS[name], 0.85)
    plan, seen, _ = made(path)
    numbers = [shot.number for shot in seen if shot.number is not None]
    assert numbers == sorted(numbers)
    assert set(range(280)) <= set(numbers)
    assert plan.duration_ticks / 90_000 == pytest.approx(10, abs=1)
    assert any("damaged or cut" in warning for warning in plan.warnings)
    first, samples = sound(make_sound(path, plan).reporter.bytes_of("a0"))
    assert first + samples.shape[1] / plan.audio[0].sample_rate == pytest.approx(plan.duration_ticks / 90_000, abs=0.1)


def damage(source: Path, path: Path, *, holes: int = 3, length: int = 3000) -> Path:
    data = bytearray(source.read_bytes())
    for number in range(holes):
        place = int(len(data) * (0.3 + 0.15 * number))
        data[place : place + length] = hashlib.shake_128(bytes([number])).digest(length)
    path.write_bytes(data)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", ["damaged.mp4", "damaged.mkv", "damaged.ts"])
def test_a_film_with_damaged_packets_is_decoded_not_copied_and_warned_of(film: Path, shelf: Path, name: str) -> None:
    whole = shelf / f"whole {name}"
    ffmpeg("-i", film, "-c", "copy", whole)
    plan, seen, _ = made(damage(whole, shelf / name))
    assert plan.renditions[0].kind is RenditionKind.ENCODE
    assert any("damaged" in warning for warning in plan.warnings)
    assert plan.duration_ticks == pytest.approx(COUNT * 3000, abs=9000)
    assert seen[0].number == 0
    assert {shot.number for shot in seen} >= {*range(90), *range(300, COUNT)}


def test_a_chunk_that_cannot_be_copied_is_encoded_instead(film: Path, shelf: Path) -> None:
    """The plan was made while the file was whole; what cannot be proven is decoded, not published."""
    _, plan = index(film)
    assert all(chunk.copied for chunk in plan.chunks)
    path = damage(film, shelf / "damaged later.mp4")
    work = make_pictures(path, plan, "copy")
    seen = shots(work.reporter.bytes_of(plan.renditions[0].name))
    assert [one.end_ticks for one in work.facts] == [plan.chunk_ticks(chunk)[1] for chunk in plan.chunks]
    assert {shot.number for shot in seen} >= {*range(90), *range(300, COUNT)}


def test_a_broadcast_that_begins_between_keyframes_begins_with_its_first_whole_picture(film: Path, shelf: Path) -> None:
    whole = shelf / "broadcast.ts"
    ffmpeg("-i", film, "-c", "copy", whole)
    data = whole.read_bytes()
    path = shelf / "from the middle.ts"
    path.write_bytes(data[len(data) // 188 // 10 * 188 :])
    _, seen, _ = made(path)
    assert seen[0].ticks == 0
    numbers = [shot.number for shot in seen]
    assert numbers[-1] == COUNT - 1
    assert numbers[1:] == list(range(numbers[1] or 0, COUNT))


def test_a_file_of_noise_is_no_video(tmp_path: Path) -> None:
    path = tmp_path / "noise.mp4"
    path.write_bytes(hashlib.shake_128(b"noise").digest(100_000))
    with pytest.raises(ExpectedError) as caught:
        index(path)
    assert caught.value.code is ErrorCode.NOT_A_VIDEO


def test_a_film_whose_pictures_are_all_noise_is_refused(shelf: Path) -> None:
    film = write_film(shelf / "to noise.mp4", seconds=1)
    data = film.read_bytes()
    begin, end = data.index(b"mdat") + 4, data.index(b"moov") - 4
    path = shelf / "noise inside.mp4"
    path.write_bytes(data[:begin] + hashlib.shake_128(b"noise").digest(end - begin) + data[end:])
    with pytest.raises(ExpectedError) as caught:
        index(path)
    assert caught.value.code is ErrorCode.NOT_A_VIDEO


def test_sound_alone_is_no_film_even_with_a_cover(film: Path, shelf: Path) -> None:
    cover, alone = shelf / "cover.jpg", shelf / "sound.m4a"
    ffmpeg("-i", film, "-frames:v", "1", cover)
    ffmpeg("-i", film, "-vn", "-c", "copy", alone)
    with_cover = shelf / "with cover.m4a"
    ffmpeg(
        "-i", alone, "-i", cover, "-map", "0", "-map", "1", "-c", "copy", "-disposition:v", "attached_pic", with_cover
    )
    for path in (alone, with_cover):
        with pytest.raises(ExpectedError) as caught:
            index(path)
        assert caught.value.code is ErrorCode.NO_VIDEO


def test_a_cover_beside_the_film_is_not_taken_for_it(film: Path, shelf: Path) -> None:
    cover, path = shelf / "large cover.jpg", shelf / "film with cover.mp4"
    ffmpeg("-f", "lavfi", "-i", "testsrc2=s=1280x720", "-frames:v", "1", cover)
    ffmpeg("-i", film, "-i", cover, "-map", "1", "-map", "0", "-c", "copy", "-disposition:v:0", "attached_pic", path)
    info, plan = index(path)
    assert plan.renditions[0].height == 180
    assert any("picture stream" in words for words in info.left_out)


def test_a_film_without_sound_has_no_track(film: Path, shelf: Path) -> None:
    path = shelf / "silent.mp4"
    ffmpeg("-i", film, "-an", "-c", "copy", path)
    _, plan = index(path)
    assert plan.audio == ()


def test_a_gif_of_one_picture_is_a_picture(film: Path, shelf: Path) -> None:
    path = shelf / "one.gif"
    ffmpeg("-i", film, "-frames:v", "1", path)
    with pytest.raises(ExpectedError) as caught, open_source(ProbeSource(source=handle(path)).source) as opened:
        probe_source(opened)
    assert caught.value.code is ErrorCode.PICTURE


def test_a_gif_keeps_its_own_delays(film: Path, shelf: Path) -> None:
    path = shelf / "delays.gif"
    ffmpeg(
        "-i", film, "-an", "-t", "2", "-vf", "fps=10,select='not(between(n,5,12))',scale=125:93", "-vsync", "vfr", path
    )
    _, seen, _ = made(path)
    assert [shot.ticks // 9000 for shot in seen] == [0, 1, 2, 3, 4, 13, 14, 15, 16, 17, 18, 19]


def test_a_damaged_sound_track_is_decoded_so_that_players_get_a_whole_one(film: Path, shelf: Path) -> None:
    path = damage(film, shelf / "noisy.mp4", holes=4, length=12_000)
    _, plan = index(path)
    assert plan.audio[0].kind is AudioKind.ENCODE
    _, samples = sound(make_sound(path, plan).reporter.bytes_of("a0"))
    assert samples.shape[1] / 48_000 == pytest.approx(12, abs=0.1)
