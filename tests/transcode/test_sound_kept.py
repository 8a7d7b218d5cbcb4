"""Sound where it belongs: beeps at their seconds, late and broken tracks, many channels, other rates, previews."""

from __future__ import annotations

import io
import wave
from pathlib import Path

import av
import numpy as np
import pytest

from app.media.film import RenditionFacts
from app.media.plan import AudioKind, Plan
from app.media.sound import AAC_FRAME_SAMPLES, frame_edge
from tests.judges.barcode import BEEP_S, beep_times, make_samples
from tests.transcode.lab import Sound, ffmpeg, index, make_sound, probe_packets, segments, sound

TONE = "0.5*sin(2*PI*1000*t)"
TONE_POWER = 0.5 / 2**0.5
STILL = ("-f", "lavfi", "-i", "testsrc2=s=160x90:r=25:d=4")
FAST = ("-c:v", "libx264", "-preset", "ultrafast")


@pytest.fixture(scope="session")
def beeps(shelf: Path) -> Path:
    """Return 12 s of beeps, mono, not compressed."""
    path = shelf / "beeps.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(48_000)
        file.writeframes((make_samples(12) * 32767).astype("<i2").tobytes())
    return path


def made(path: Path, track: str = "a0") -> tuple[Plan, Sound, RenditionFacts]:
    """Return the plan, the sound of a whole track from the film's 0 on, and its facts."""
    _, plan = index(path)
    work = make_sound(path, plan, track)
    first, samples = sound(work.reporter.bytes_of(track))
    lead = np.zeros((samples.shape[0], round(first * plan.track(track).sample_rate)), np.float32)
    return plan, np.concatenate([lead, samples], axis=1), work.facts[0]


def heard(samples: Sound, rate: int = 48_000) -> list[float]:
    return beep_times(samples[0], rate)


def assert_beeps(times: list[float], expected: list[float], *, within_s: float = 0.001) -> None:
    """Compare all but a beep at the very start: the first AAC frame fades in."""
    assert len(times) == len(expected)
    for time, wanted in zip(times, expected, strict=True):
        assert abs(time - wanted) < (BEEP_S / 3 if wanted == 0 else within_s)


TRACKS: dict[str, tuple[str, ...]] = {
    "aac 48.mp4": ("-c:a", "aac", "-ac", "2"),
    "aac 44.mp4": ("-c:a", "aac", "-ac", "2", "-ar", "44100"),
    "aac 22.mp4": ("-c:a", "aac", "-ac", "2", "-ar", "22050"),
    "aac mono.mp4": ("-c:a", "aac"),
    "aac.ts": ("-c:a", "aac", "-ac", "2"),
    "ac3.ts": ("-c:a", "ac3"),
    "ac3.mp4": ("-c:a", "ac3"),
    "mp3.mp4": ("-c:a", "libmp3lame"),
    "vorbis.mkv": ("-c:a", "libvorbis"),
    "flac 96.mkv": ("-c:a", "flac", "-ar", "96000"),
    "pcm 22.mov": ("-c:a", "pcm_s16le", "-ar", "22050"),
    "pcm 44.avi": ("-c:a", "pcm_s16le", "-ar", "44100"),
}


@pytest.mark.parametrize("name", TRACKS)
def test_every_beep_is_at_its_second_within_a_millisecond(film: Path, beeps: Path, shelf: Path, name: str) -> None:
    path = shelf / f"beeps {name}"
    ffmpeg("-i", film, "-i", beeps, "-map", "0:v", "-map", "1:a", "-c:v", "copy", *TRACKS[name], path)
    plan, samples, facts = made(path)
    rate = plan.track("a0").sample_rate
    assert_beeps(heard(samples, rate), [float(n) for n in range(12)])
    assert facts.frames * AAC_FRAME_SAMPLES == samples.shape[1]
    assert abs(samples.shape[1] / rate - 12) < 2 * AAC_FRAME_SAMPLES / rate
    assert 0.3 < float(np.abs(samples).max()) < 0.75


def test_aac_that_fits_is_copied_packet_for_packet(film: Path) -> None:
    _, plan = index(film)
    work = make_sound(film, plan)
    assert plan.audio[0].kind is AudioKind.COPY
    with av.open(str(film)) as source:
        theirs = [bytes(packet) for packet in source.demux(audio=0) if packet.size and not packet.is_discard]
    with av.open(io.BytesIO(work.reporter.bytes_of("a0")), "r") as result:
        ours = [bytes(packet) for packet in result.demux(audio=0) if packet.size]
    assert ours == theirs[: len(ours)]
    assert len(theirs) - len(ours) <= 1


def test_aac_of_a_transport_stream_is_not_copied_with_its_headers(film: Path, shelf: Path) -> None:
    path = shelf / "adts.ts"
    ffmpeg("-i", film, "-c", "copy", path)
    _, plan = index(path)
    work = make_sound(path, plan)
    with av.open(io.BytesIO(work.reporter.bytes_of("a0")), "r") as result:
        assert result.streams.audio[0].codec_context.extradata, "MP4 wants the codec's header in its own"
        assert not any(bytes(packet)[:2] in {b"\xff\xf1", b"\xff\xf9"} for packet in result.demux(audio=0))


def test_segments_begin_at_the_frame_edge_nearest_to_the_picture_border(film: Path, tmp_path: Path) -> None:
    _, plan = index(film)
    work = make_sound(film, plan)
    made_segments = segments(work, "a0")
    init = work.reporter.bytes_of("a0")[: -sum(len(data) for data in made_segments.values())]
    for number, data in made_segments.items():
        packets = probe_packets(init + data, tmp_path / "segment.mp4")
        edges = [frame_edge(plan.borders[n], 48_000) for n in (number, number + 1)]
        assert [packet["pts"] for packet in packets] == [n * AAC_FRAME_SAMPLES for n in range(*edges)]


def test_late_sound_stays_late(film: Path, beeps: Path, shelf: Path) -> None:
    path = shelf / "late sound.mp4"
    ffmpeg(
        "-i", film, "-itsoffset", "3", "-i", beeps, "-map", "0:v", "-map", "1:a", "-c:v", "copy", "-c:a", "aac", path
    )
    plan, samples, _ = made(path)
    assert float(np.abs(samples[:, : 2 * 48_000]).max()) < 0.001
    assert_beeps(heard(samples), [float(n) for n in range(3, 15)])
    assert plan.duration_ticks == pytest.approx(15 * 90_000, abs=2000)


def test_sound_that_is_late_by_less_than_two_frames_stays_late(film: Path, beeps: Path, shelf: Path) -> None:
    path = shelf / "a little late.mov"
    ffmpeg(
        "-i", film, "-itsoffset", "0.03", "-i", beeps, "-map", "0:v", "-map", "1:a", "-c:v", "copy",
        "-c:a", "pcm_s16le", path,
    )  # fmt: skip
    _, samples, _ = made(path)
    assert_beeps(heard(samples)[1:], [n + 0.03 for n in range(1, 12)])


@pytest.mark.parametrize("codec", [("-c:a", "copy"), ("-c:a", "flac", "-strict", "-2")], ids=["copied", "encoded"])
def test_a_trimmed_clip_keeps_sound_and_picture_together(film: Path, shelf: Path, codec: tuple[str, ...]) -> None:
    path = shelf / f"trimmed {codec[1]}.mp4"
    ffmpeg("-ss", "1.3", "-i", film, "-c:v", "copy", *codec, path)
    _, samples, _ = made(path)
    assert_beeps(heard(samples), [n - 1.3 for n in range(2, 12)], within_s=0.002)


def test_after_a_hole_the_sound_is_where_it_was(film: Path, beeps: Path, shelf: Path) -> None:
    path = shelf / "hole.mkv"
    hole = "aselect='not(between(t,2.5,4.2))'"
    ffmpeg("-i", film, "-i", beeps, "-map", "0:v", "-map", "1:a", "-c:v", "copy", "-af", hole, "-c:a", "aac", path)
    _, samples, _ = made(path)
    assert_beeps(heard(samples), [0.0, 1.0, 2.0, *(float(n) for n in range(5, 12))])


def test_a_track_that_drifts_follows_its_time_stamps(film: Path, beeps: Path, shelf: Path) -> None:
    path = shelf / "drift.mkv"
    drift = "asetpts=PTS*1.001"
    ffmpeg("-i", film, "-i", beeps, "-map", "0:v", "-map", "1:a", "-c:v", "copy", "-af", drift, "-c:a", "flac", path)
    _, samples, _ = made(path)
    assert_beeps(heard(samples), [n * 1.001 for n in range(12)], within_s=0.003)


def test_short_sound_ends_in_silence_and_the_track_is_as_long_as_the_film(film: Path, beeps: Path, shelf: Path) -> None:
    path = shelf / "short sound.mp4"
    ffmpeg("-i", film, "-t", "3.5", "-i", beeps, "-map", "0:v", "-map", "1:a", "-c:v", "copy", "-c:a", "aac", path)
    plan, samples, facts = made(path)
    assert_beeps(heard(samples), [0.0, 1.0, 2.0, 3.0])
    assert facts.end_ticks == plan.duration_ticks == 12 * 90_000
    assert samples.shape[1] / 48_000 == pytest.approx(12, abs=0.02)


@pytest.mark.parametrize("name", ["aac 48.mp4", "aac 22.mp4", "ac3.ts", "pcm 44.avi", "vorbis.mkv"])
def test_a_preview_from_the_middle_is_on_the_same_grid_and_sounds_the_same(
    film: Path, beeps: Path, shelf: Path, name: str
) -> None:
    path = shelf / f"preview {name}"
    ffmpeg("-i", film, "-i", beeps, "-map", "0:v", "-map", "1:a", "-c:v", "copy", *TRACKS[name], path)
    plan, whole, _ = made(path)
    rate = plan.track("a0").sample_rate
    first, samples = sound(make_sound(path, plan, first=2).reporter.bytes_of("a0"))
    assert plan.segment_count == 3
    edge = frame_edge(plan.borders[2], rate)
    assert round(first * rate) - edge * AAC_FRAME_SAMPLES == round(_offset(path, plan) * rate)
    assert_beeps([time + first for time in heard(samples, rate)[1:]], [9.0, 10.0, 11.0])
    begin = round(first * rate)
    quiet = slice(2 * AAC_FRAME_SAMPLES, whole.shape[1] - begin)
    difference = samples[0, quiet] - whole[0, begin:][quiet]
    limit = 0.02 if name.endswith((".mp4", ".ts", ".avi")) else 0.2  # Matroska rounds time stamps to milliseconds
    assert float(np.sqrt(np.mean(np.square(difference)))) < limit


def _offset(path: Path, plan: Plan) -> float:
    """Return where frame 0 of the track's grid lies in seconds: copied tracks may start a little late."""
    first, _ = sound(make_sound(path, plan, end=1).reporter.bytes_of("a0"))
    return first


LAYOUTS: dict[str, tuple[str, str, tuple[str, ...], tuple[float, float]]] = {
    "centre of 5.1": (f"0|0|{TONE}|0|0|0", "5.1", ("-c:a", "ac3"), (-3, -3)),
    "centre of 5.1, side": (f"0|0|{TONE}|0|0|0", "5.1(side)", ("-c:a", "flac"), (-3, -3)),
    "centre of 7.1": (f"0|0|{TONE}|0|0|0|0|0", "7.1", ("-c:a", "flac"), (-3, -3)),
    "centre of 3.0": (f"0|0|{TONE}", "3.0", ("-c:a", "flac"), (-3, -3)),
    "left of 5.1": (f"{TONE}|0|0|0|0|0", "5.1", ("-c:a", "ac3"), (0, -200)),
    "right of 7.1": (f"0|{TONE}|0|0|0|0|0|0", "7.1", ("-c:a", "flac"), (-200, 0)),
    "left surround": (f"0|0|0|0|{TONE}|0", "5.1", ("-c:a", "flac"), (-6, -200)),
    "mono": (TONE, "mono", ("-c:a", "flac"), (0, 0)),
    "stereo": (f"{TONE}|0", "stereo", ("-c:a", "flac"), (0, -200)),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_becomes_stereo_with_the_dialogue_in_both_sides(shelf: Path, name: str) -> None:
    expression, layout, codec, expected_db = LAYOUTS[name]
    path = shelf / f"{name}.mkv"
    source = f"aevalsrc={expression}:c={layout}:s=48000:d=4"
    ffmpeg(*STILL, "-f", "lavfi", "-i", source, *codec, *FAST, path)
    _, samples, _ = made(path)
    power = np.sqrt(np.mean(np.square(samples[:, 48_000:96_000], dtype=np.float64), axis=1))
    for measured, wanted in zip(20 * np.log10(np.maximum(power, 1e-7) / TONE_POWER), expected_db, strict=True):
        assert abs(measured - wanted) < 0.5 if wanted > -100 else measured < -60


def test_a_loud_mix_is_limited_not_clipped(shelf: Path) -> None:
    path = shelf / "loud.mkv"
    loud = "|".join(["0.95*sin(2*PI*1000*t)"] * 6)
    ffmpeg(*STILL, "-f", "lavfi", "-i", f"aevalsrc={loud}:c=5.1:s=48000:d=4", "-c:a", "flac", *FAST, path)
    _, samples, _ = made(path)
    assert float(np.abs(samples[:, 9600:-9600]).max()) < 1.05


def test_a_layout_that_changes_on_the_way_goes_on_without_a_gap(shelf: Path) -> None:
    parts = []
    for number, (expression, layout) in enumerate(((f"{TONE}|{TONE}", "stereo"), (f"0|0|{TONE}|0|0|0", "5.1"))):
        parts.append(shelf / f"part{number}.ac3")
        source = f"aevalsrc={expression}:c={layout}:s=48000:d=3"
        ffmpeg("-f", "lavfi", "-i", source, "-c:a", "ac3", "-b:a", "192k", parts[-1])
    (shelf / "both.ac3").write_bytes(b"".join(part.read_bytes() for part in parts))
    path = shelf / "layout changes.ts"
    ffmpeg("-f", "lavfi", "-i", "testsrc2=s=160x90:r=25:d=6", "-i", shelf / "both.ac3", "-c:a", "copy", *FAST, path)
    _, samples, _ = made(path)
    assert samples.shape[1] / 48_000 == pytest.approx(6, abs=0.03)
    blocks = samples[:, 4800 : 4800 + 110 * 2400].reshape(2, 110, 2400)
    power = np.sqrt(np.mean(np.square(blocks, dtype=np.float64), axis=2))
    assert power.min() > 0.2, "no moment of silence"
    assert power[:, 10] == pytest.approx([TONE_POWER] * 2, rel=0.05)
    assert power[:, 90] == pytest.approx([TONE_POWER * 0.707] * 2, rel=0.05)


def test_each_of_several_tracks_is_made_from_its_own_stream(film: Path, beeps: Path, shelf: Path) -> None:
    path = shelf / "two tracks.mkv"
    silence = ("-f", "lavfi", "-i", "anullsrc=r=48000:cl=stereo:d=12")
    maps = ("-map", "0:v", "-map", "1:a", "-map", "2:a")
    ffmpeg("-i", film, *silence, "-i", beeps, *maps, "-c:v", "copy", "-c:a", "flac", "-t", "12", path)
    _, nothing, _ = made(path, "a0")
    _, something, _ = made(path, "a1")
    assert float(np.abs(nothing).max()) < 0.001
    assert len(heard(something)) == 12
