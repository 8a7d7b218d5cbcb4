"""Inputs of our own for each kind of hard case: ``python -m tests.corpus.inputs FOLDER`` (needs the system's ffmpeg).

Names begin with the number of their kind (see ``kinds``). ``SMALL`` are the ones that CI judges; all of them take a
minute to make.
"""

from __future__ import annotations

import random
import struct
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

Maker = Callable[[Path], None]

X264 = ("-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p")
_HDR10 = "log-level=none:hdr10=1:repeat-headers=1:colorprim=bt2020:transfer=smpte2084:colormatrix=bt2020nc"
_LOSSLESS = ("-c:v", "ffv1")
CASES: dict[str, Maker] = {}
SMALL: list[str] = []


def ffmpeg(*arguments: str | Path) -> None:
    """Run ffmpeg; its complaints are the caller's."""
    command = ["ffmpeg", "-nostdin", "-y", "-v", "error", *map(str, arguments)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=120)


def picture(size: str = "320x180", rate: str = "25", seconds: float = 4) -> tuple[str, ...]:
    """Return an input of moving pictures."""
    return ("-f", "lavfi", "-i", f"testsrc2=s={size}:r={rate}:d={seconds}")


def sound(seconds: float = 4, channels: str = "c=stereo", level: float = 0.3) -> tuple[str, ...]:
    """Return an input of sound that is nowhere like itself: bursts of noise and tone of uneven lengths."""
    bursts = "gt(sin(3*t+2*sin(5*t))\\,0.2)"
    swell = f"{level}*{bursts}*(sin(2*PI*(300+50*sin(t))*t)+0.6*(random(0)*2-1))"
    count = {"c=mono": 1, "c=stereo": 2, "c=5.1": 6, "c=7.1": 8}[channels]
    return ("-f", "lavfi", "-i", f"aevalsrc={'|'.join([swell] * count)}:{channels}:s=48000:d={seconds}")


def _case(name: str, *arguments: str, small: bool = False) -> None:
    """Note a case that one run of ffmpeg makes."""
    CASES[name] = lambda path: ffmpeg(*arguments, path)
    if small:
        SMALL.append(name)


def _made(name: str, *, small: bool = False) -> Callable[[Maker], Maker]:
    """Note a case that takes more than one step."""

    def note(maker: Maker) -> Maker:
        CASES[name] = maker
        if small:
            SMALL.append(name)
        return maker

    return note


def _film(path: Path, *arguments: str, seconds: float = 4, size: str = "320x180", rate: str = "25") -> None:
    ffmpeg(*picture(size, rate, seconds), *sound(seconds), *arguments, path)


def _joined(path: Path, parts: list[tuple[str, ...]]) -> None:
    """Write parts one after the other, byte by byte, as ``cat`` would."""
    data = b""
    for number, arguments in enumerate(parts):
        part = path.with_name(f"part{number}-{path.name}")
        ffmpeg(*arguments, part)
        data += part.read_bytes()
        part.unlink()
    path.write_bytes(data)


# Time
_case(
    "01_vfr.mp4",
    *picture(rate="50", seconds=6),
    *sound(6),
    "-vf",
    "select='lt(t,2)+not(mod(n,5))'",
    "-vsync",
    "vfr",
    *X264,
    "-c:a",
    "aac",
)
_case(
    "01_vfr_hold.mkv", *picture(seconds=9), *sound(9), "-vf", "select='not(between(t,2,6.5))'", "-vsync", "vfr", *X264
)
_case("02_12fps.webm", *picture(rate="12"), *sound(), "-c:v", "libvpx", "-b:v", "500k", "-c:a", "libvorbis")
_case("02_23.976.mkv", *picture(rate="24000/1001"), *sound(), *X264, "-c:a", "ac3")
_case("03_sound_late.mkv", *picture(seconds=5), "-itsoffset", "1.7", *sound(3), *X264, "-c:a", "libopus")
_case("03_picture_late.ts", "-itsoffset", "1.2", *picture(seconds=4), *sound(6), *X264, "-c:a", "mp2")
_case(
    "05_start_negative.mkv",
    *picture(),
    *sound(),
    *X264,
    "-output_ts_offset",
    "-1",
    "-c:a",
    "mp3",
    "-avoid_negative_ts",
    "0",
)
_case("07_h264.avi", *picture(), *sound(), *X264, "-bf", "3", "-c:a", "pcm_s16le")
_case("07_mjpeg.avi", *picture(rate="15"), *sound(), "-c:v", "mjpeg", "-c:a", "adpcm_ima_wav")
_case("08_wrap.ts", *picture(seconds=6), *sound(6), *X264, "-c:a", "aac", "-output_ts_offset", "95440.7", small=True)
_case("10_stretched.mkv", *picture(seconds=8), *sound(8 / 1.04), *X264, "-c:a", "flac", "-bsf:a", "setts=ts=TS*1.04")
_case(
    "10_holes.mkv",
    *picture(seconds=8),
    *sound(8),
    *X264,
    "-c:a",
    "ac3",
    "-af",
    "aselect='not(between(t,2,3.5)+between(t,5,5.4))'",
    small=True,
)
_case("11_sound_shorter.mkv", *picture(seconds=6), *sound(2.5), *X264, "-c:a", "libvorbis")
_case("12_live.mkv", *picture(), *sound(), *X264, "-live", "1", "-c:a", "libopus")
_case("13_120fps.mkv", *picture(rate="120", seconds=2), *sound(2), *X264, "-c:a", "aac")
_case("13_1000fps.mkv", *picture(rate="1000", seconds=1), *X264)
_case("14_1_in_5s.mp4", *picture(rate="1/5", seconds=40), *sound(40), *X264, "-c:a", "aac")
_case("15_long_tail.mp4", *picture(seconds=12.04), *X264, "-force_key_frames", "expr:gte(t,n_forced*6)", "-g", "999")
_case("16_one.mkv", *picture(), "-frames:v", "1", *_LOSSLESS)
_case(
    "17_hard.mp4",
    *picture("720x480", "24000/1001", 8),
    *sound(8),
    "-vf",
    "telecine=pattern=23,setfield=tff",
    *X264,
    "-crf",
    "18",
    "-flags",
    "+ildct+ilme",
    "-c:a",
    "aac",
)
_case(
    "17_hard_bottom.mpg",
    *picture("720x480", "24000/1001", 8),
    "-vf",
    "telecine=pattern=23:first_field=bottom",
    "-c:v",
    "mpeg2video",
    "-q:v",
    "3",
    "-flags",
    "+ildct+ilme",
    "-top",
    "0",
)
_case("17_hard_unflagged.mkv", *picture("720x480", "24000/1001", 8), "-vf", "telecine=pattern=32", *X264, "-crf", "18")
_case(
    "18_bottom.mkv",
    *picture("720x576", "50"),
    *sound(),
    "-vf",
    "tinterlace=interleave_bottom,setfield=bff",
    *X264,
    "-flags",
    "+ildct+ilme",
    "-x264-params",
    "bff=1",
    "-c:a",
    "ac3",
)
_case(
    "18_fields.mpg",
    *picture("720x576", "50"),
    *sound(),
    "-vf",
    "tinterlace=interleave_top,setfield=tff",
    "-c:v",
    "mpeg2video",
    "-q:v",
    "3",
    "-flags",
    "+ildct+ilme",
    "-c:a",
    "mp2",
    "-f",
    "dvd",
)
_case(
    "18_dv.dv",
    *picture("720x576", "50"),
    *sound(),
    "-vf",
    "tinterlace=interleave_bottom,setfield=bff,setsar=16/15",
    "-target",
    "pal-dv",
)


@_made("09_joined.ts", small=True)
def _joined_broadcasts(path: Path) -> None:
    first = (*picture(seconds=3), *sound(3), *X264, "-c:a", "mp2", "-f", "mpegts")
    second = (*picture("240x180", "30", 3), *sound(3), *X264, "-c:a", "mp2", "-f", "mpegts")
    _joined(path, [first, second, first])


@_made("09_joined.mpg")
def _joined_discs(path: Path) -> None:
    one = (*picture(seconds=3), *sound(3), "-c:v", "mpeg2video", "-c:a", "mp2", "-f", "mpeg")
    _joined(path, [one, one])


@_made("09_restarted.flv")
def _restarted_stream(path: Path) -> None:
    _film(path, *X264, "-bf", "0", "-c:a", "aac", seconds=3)
    data = path.read_bytes()
    path.write_bytes(data + data[13:])


@_made("17_soft.mpg")
def _soft_telecine(path: Path) -> None:
    """Film at 24 a second in a stream of 30 whose flags tell players to show fields again (ISO/IEC 13818-2, 6.3.10)."""
    raw, part = path.with_suffix(".m2v"), path.with_suffix(".part")
    ffmpeg(*picture("720x480", "24000/1001", 6), "-c:v", "mpeg2video", "-bf", "2", "-q:v", "3", "-f", "mpeg2video", raw)
    data = bytearray(raw.read_bytes())
    flags = ((1, 1), (0, 0), (0, 1), (1, 0))  # (top field first, repeat first field)
    count = place = 0
    while (place := data.find(b"\0\0\1", place)) >= 0 and place + 9 < len(data):
        code = data[place + 3]
        if code == 0xB3:
            data[place + 7] = data[place + 7] & 0xF0 | 4  # 30000/1001
        elif code == 0xB5 and data[place + 4] >> 4 == 1:
            data[place + 5] &= ~0x08  # not a progressive sequence
        elif code == 0xB5 and data[place + 4] >> 4 == 8:
            top, again = flags[count % 4]
            count += 1
            data[place + 7] = data[place + 7] & 0x7D | top << 7 | again << 1 | 0x41
            data[place + 8] |= 0x80  # a progressive frame
        place += 3
    part.write_bytes(data)
    ffmpeg("-f", "mpegvideo", "-i", part, "-c", "copy", "-f", "vob", path)
    raw.unlink()
    part.unlink()


# Picture
_case(
    "19_hdr10.mkv",
    *picture(seconds=2),
    *sound(2),
    "-pix_fmt",
    "yuv420p10le",
    "-c:v",
    "libx265",
    "-preset",
    "ultrafast",
    "-x265-params",
    _HDR10,
    "-c:a",
    "aac",
)
_case(
    "20_hlg.mp4",
    *picture(seconds=2),
    "-pix_fmt",
    "yuv420p10le",
    "-c:v",
    "libx265",
    "-preset",
    "ultrafast",
    "-x265-params",
    "log-level=none:colorprim=bt2020:transfer=arib-std-b67:colormatrix=bt2020nc",
    "-tag:v",
    "hvc1",
)
_case("22_422_10.mkv", *picture(seconds=2), "-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv422p10le")
_case(
    "22_full.mp4",
    *picture(seconds=2),
    "-vf",
    "scale=out_range=pc:out_color_matrix=bt709",
    "-c:v",
    "libx264",
    "-preset",
    "veryfast",
    "-pix_fmt",
    "yuvj420p",
    "-colorspace",
    "bt709",
)
_case("22_rgb.mkv", *picture(seconds=2), *_LOSSLESS, "-pix_fmt", "gbrp")
_case("22_prores.mov", *picture(seconds=2), *sound(2), "-c:v", "prores_ks", "-c:a", "pcm_s24le")
_case(
    "22_601_hd.mkv",
    *picture("1280x720", seconds=1),
    "-vf",
    "scale=out_color_matrix=bt601",
    *X264,
    "-colorspace",
    "smpte170m",
)
_case(
    "24_ntsc_wide.mpg", *picture("720x480", "30000/1001", 2), "-vf", "setsar=32/27", "-c:v", "mpeg2video", "-q:v", "3"
)
_case("24_narrow.mkv", *picture("1440x1080", "25", 1), "-vf", "setsar=4/3", *X264)
_case("25_odd.mkv", *picture("333x187", "25", 2), *_LOSSLESS, "-pix_fmt", "yuv444p")
_case("25_crop.mp4", *picture("322x178", "25", 2), *X264)
_case("25_tiny.mkv", *picture("2x2", "25", 1), *_LOSSLESS, "-pix_fmt", "yuv444p")
_case("25_wide.mkv", *picture("1600x16", "25", 1), *_LOSSLESS)


def _turned(path: Path, matrix: tuple[int, int, int, int], *arguments: str, size: str = "320x180") -> None:
    """Write a film whose track header turns it (ISO/IEC 14496-12: the matrix begins 40 bytes into ``tkhd``)."""
    ffmpeg(*picture(size, seconds=2), *X264, *arguments, path)
    data = path.read_bytes()
    place = data.index(b"tkhd") + 44
    a, b, c, d = matrix
    turn = struct.pack(">9i", a << 16, b << 16, 0, c << 16, d << 16, 0, 0, 0, 1 << 30)
    path.write_bytes(data[:place] + turn + data[place + 36 :])


CASES["23_quarter.mp4"] = partial(_turned, matrix=(0, 1, -1, 0))
CASES["23_mirror.mp4"] = partial(_turned, matrix=(-1, 0, 0, 1))
SMALL.append("23_quarter.mp4")


@_made("24_turned.mp4")
def _turned_and_stretched(path: Path) -> None:
    _turned(path, (0, 1, -1, 0), "-vf", "setsar=4/3")


@_made("26_sizes.ts", small=True)
def _sizes(path: Path) -> None:
    """Make a broadcast that goes from wide to 4:3 and to portrait, on one clock."""
    parts = [
        (
            *picture(size, seconds=2),
            *X264,
            "-bf",
            "0",
            "-muxdelay",
            "0",
            "-output_ts_offset",
            str(2 * number),
            "-f",
            "mpegts",
        )
        for number, size in enumerate(("320x180", "240x180", "180x320"))
    ]
    _joined(path, parts)


_LOGO = "color=black@0:s=160x90:r=25:d=2,format=yuva420p,drawbox=x=40:y=20:w=80:h=50:color={}@1:t=fill:replace=1"
_case(
    "27_dark_logo.webm", "-f", "lavfi", "-i", _LOGO.format("0x101010"), "-c:v", "libvpx-vp9", "-b:v", "500k", small=True
)
_case("27_light_logo.mov", "-f", "lavfi", "-i", _LOGO.format("white"), "-c:v", "qtrle", "-pix_fmt", "argb")
_case("27_vp8.webm", "-f", "lavfi", "-i", _LOGO.format("red"), "-c:v", "libvpx", "-auto-alt-ref", "0", "-b:v", "500k")
_case("28_delays.gif", *picture("125x93", "10", 2), "-vf", "select='not(between(n,5,12))'", "-vsync", "vfr", small=True)
_case("28_moving.apng", *picture("128x72", "10", 2), "-plays", "0", "-f", "apng")
_case("29_photo.jpg", *picture(), "-frames:v", "1", small=True)
_case("29_drawing.tiff", *picture(), "-frames:v", "1")


@_made("30_huge.avi")
def _huge(path: Path) -> None:
    """Make a film that claims 12336 by 12336 pixels in its headers and in every picture (ITU-T T.81: SOF0)."""
    ffmpeg(*picture("160x90", seconds=1), "-c:v", "mjpeg", "-huffman", "default", path)
    data = path.read_bytes().replace(b"\xff\xc0\0\x11\x08\0\x5a\0\xa0", b"\xff\xc0\0\x11\x08\x30\x30\x30\x30")
    path.write_bytes(data.replace(struct.pack("<ii", 160, 90), struct.pack("<ii", 12336, 12336)))


# Sound
_case(
    "31_centre.mkv",
    *picture("160x90", seconds=3),
    "-f",
    "lavfi",
    "-i",
    "aevalsrc=0|0|0.4*sin(2*PI*(300*t+90*t*t))|0|0|0:c=5.1:s=48000:d=3",
    *X264,
    "-c:a",
    "eac3",
    small=True,
)
_case(
    "31_quad.mkv",
    *picture("160x90", seconds=3),
    *sound(3),
    *X264,
    "-af",
    "pan=quad|c0=c0|c1=c1|c2=c0|c3=c1",
    "-c:a",
    "flac",
)
_case(
    "31_mono_11k.avi",
    *picture("160x90", seconds=3),
    *sound(3, "c=mono"),
    "-c:v",
    "mpeg4",
    "-ar",
    "11025",
    "-c:a",
    "pcm_u8",
)
_case("31_96k.mkv", *picture("160x90", seconds=3), *sound(3), *X264, "-ar", "96000", "-c:a", "flac")


@_made("32_layouts.ts")
def _layouts(path: Path) -> None:
    parts = [
        (
            *picture(seconds=3),
            *sound(3, channels),
            *X264,
            "-c:a",
            "ac3",
            "-muxdelay",
            "0",
            "-output_ts_offset",
            str(3 * number),
            "-f",
            "mpegts",
        )
        for number, channels in enumerate(("c=stereo", "c=5.1"))
    ]
    _joined(path, parts)


_case("33_silent.mkv", *picture(seconds=2), *X264)
_case(
    "36_tracks.mkv",
    *picture(seconds=3),
    *sound(3),
    *sound(3),
    *sound(3, "c=5.1"),
    "-map",
    "0",
    "-map",
    "1",
    "-map",
    "2",
    "-map",
    "3",
    *X264,
    "-c:a",
    "ac3",
    "-metadata:s:a:0",
    "language=eng",
    "-metadata:s:a:1",
    "language=eng",
)


@_made("39_titles.mkv")
def _titles(path: Path) -> None:
    """Names and titles in an old code page, where Matroska wants UTF-8."""
    _film(
        path, *X264, "-c:a", "ac3", "-metadata:s:a:0", "title=Kaffee und Kuchen", "-metadata", "title=Kaffee", seconds=2
    )
    path.write_bytes(path.read_bytes().replace(b"Kaffee", b"Kaff\xe9\xe9"))


@_made("41_chapters.mkv")
def _chapters(path: Path) -> None:
    """Chapters that overlap, end before they start and lie past the end."""
    marks = path.with_suffix(".txt")
    spans = ((0, 3000), (1000, 2000), (3500, 3500), (9000, 99000))
    lines = [f"[CHAPTER]\nTIMEBASE=1/1000\nSTART={start}\nEND={end}\ntitle={'x' * 300}\n" for start, end in spans]
    marks.write_text(";FFMETADATA1\n" + "".join(lines))
    ffmpeg(
        *picture(), *sound(), "-i", marks, "-map", "0", "-map", "1", "-map_metadata", "2", *X264, "-c:a", "aac", path
    )
    marks.unlink()


# Files
@_made("43_no_moov.mp4", small=True)
def _no_index(path: Path) -> None:
    _film(path, *X264, "-c:a", "aac", seconds=2)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


@_made("44_cut.mkv", small=True)
def _cut(path: Path) -> None:
    _film(path, *X264, "-c:a", "aac", seconds=6)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 6 // 10])


@_made("44_lost_packets.ts")
def _lost_packets(path: Path) -> None:
    """Make a broadcast with bad reception: one packet in two hundred is missing."""
    _film(path, *X264, "-b:v", "1M", "-c:a", "mp2", seconds=8)
    data, dice = path.read_bytes(), random.Random(1)  # noqa: S311
    packets = [data[place : place + 188] for place in range(0, len(data), 188)]
    path.write_bytes(b"".join(one for number, one in enumerate(packets) if number < 50 or dice.random() > 0.005))


@_made("44_flipped.mp4")
def _flipped(path: Path) -> None:
    _film(path, *X264, "-c:a", "aac", "-movflags", "+faststart", seconds=6)
    data = bytearray(path.read_bytes())
    for place in range(len(data) // 2, len(data) - 16, 3000):
        data[place : place + 8] = b"\xaa" * 8
    path.write_bytes(data)


@_made("45_page.mp4")
def _page(path: Path) -> None:
    path.write_text("<!doctype html><title>404</title>")


CASES["45_html.mp4"] = CASES.pop("45_page.mp4")


@_made("49_local_m3u8.mp4", small=True)
def _playlist(path: Path) -> None:
    path.write_text("#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nfile:///etc/hostname\n#EXT-X-ENDLIST\n")


@_made("49_concat.mkv")
def _script(path: Path) -> None:
    path.write_text("ffconcat version 1.0\nfile /etc/hostname\n")


_case(
    "63_protected.mp4",
    *picture(seconds=2),
    *X264,
    "-encryption_scheme",
    "cenc-aes-ctr",
    "-encryption_key",
    "00112233445566778899aabbccddeeff",
    "-encryption_kid",
    "0123456789abcdef0123456789abcdef",
)


@_made("63_no_decoder.mp4")
def _unknown_codec(path: Path) -> None:
    """Make a film of a codec that nobody has: the sample entry's name is changed."""
    _film(path, *X264, "-c:a", "aac", seconds=2)
    path.write_bytes(path.read_bytes().replace(b"avc1", b"zzz9"))


def make_inputs(folder: Path, names: list[str] | None = None) -> None:
    """Make the named cases (all, when not said) in ``folder``; what is there stays."""
    folder.mkdir(parents=True, exist_ok=True)

    def make(name: str) -> None:
        if not (folder / name).exists():
            part = folder / f"making-{name}"
            CASES[name](part)
            part.rename(folder / name)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(make, names if names is not None else CASES))


if __name__ == "__main__":
    make_inputs(Path(sys.argv[1]))
