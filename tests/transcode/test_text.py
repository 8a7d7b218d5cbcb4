"""Text of all kinds on its way to WebVTT: markup, letters, times, and what was broken."""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import ErrorCode, ExpectedError
from app.media.plan import Plan
from app.media.source import TICKS_PER_S
from app.media.text import AT_TOP, Cue, parse_webvtt
from app.transcode.charset import decode_text
from app.transcode.index import index_source
from app.transcode.markup import Look, Marked, format_cue_text, read_ass, read_html, read_mov_text
from app.transcode.messages import IndexSource, MakeText, ReadSidecar, SegmentMade, SidecarText, TextFound
from app.transcode.raw_text import MAX_CUE_BYTES, RawCue, RawText, decode_raw_text, encode_raw_text
from app.transcode.reporting import MemoryReporter
from app.transcode.text import make_text, read_sidecar
from tests.transcode.lab import ffmpeg, handle

ASS = """[Script Info]
ScriptType: v4.00+

[V4+ Styles]
Format: Name, Fontname, Fontsize, PrimaryColour, SecondaryColour, OutlineColour, BackColour, Bold, Italic, Underline, \
StrikeOut, ScaleX, ScaleY, Spacing, Angle, BorderStyle, Outline, Shadow, Alignment, MarginL, MarginR, MarginV, Encoding
Style: Default,Arial,20,&H00FFFFFF,&H0,&H0,&H0,0,0,0,0,100,100,0,0,1,1,0,2,10,10,10,1
Style: Thought,Arial,20,&H00FFFFFF,&H0,&H0,&H0,0,-1,0,0,100,100,0,0,1,1,0,8,10,10,10,1

[Events]
Format: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text
Dialogue: 0,0:00:00.50,0:00:02.00,Default,,0,0,0,,Plain <line> & {\\b1}bold{\\b0}, {\\c&H0000FF&}red\\Nsecond row
Dialogue: 0,0:00:01.00,0:00:03.00,Thought,,0,0,0,,Thinking
Dialogue: 0,0:00:01.00,0:00:03.00,Default,,0,0,0,,{\\p1}m 0 0 l 100 0 100 100{\\p0}
Dialogue: 0,0:00:02.00,0:00:02.00,Default,,0,0,0,,no time
Comment: 0,0:00:02.00,0:00:04.00,Default,,0,0,0,,not shown
"""
SRT = "1\n00:00:00,500 --> 00:00:02,000\n{text}\n\n2\n00:00:02,500 --> 00:00:03,000\nlast\n"


def html(text: str) -> str:
    return format_cue_text(read_html(text).runs)


def ass(text: str, style: str = "Default") -> Marked:
    looks = {"Default": Look(), "Thought": Look(tags=frozenset("i"), is_top=True)}
    return read_ass(text, style, looks)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Hello <b>bold</b> & <i>x</i>", "Hello <b>bold</b> &amp; <i>x</i>"),
        ("<i>never closed", "<i>never closed</i>"),
        ("<b>a<i>b</b>c</i>", "<b>a</b><b><i>b</i></b><i>c</i>"),
        ('<font color="red">red</font><script>x</script>', "redx"),
        ("<v Bob>Hi <c.yellow>there", "Hi there"),
        ("1 < 2 > 0 --> x", "1 &lt; 2 &gt; 0 --&gt; x"),
        ("AT&amp;T &lt;i&gt;", "AT&amp;T &lt;i&gt;"),
        ("a\r\n\r\n \r\nb\n", "a\nb"),
        ("{\\an8}{not a tag} x", "{not a tag} x"),
        ("nul\x00 bell\x07 tab\t.", "nul bell tab\t."),
        ("<i> </i>", ""),
        ("karaoke <00:00:01.000>word", "karaoke word"),
    ],
)
def test_html_becomes_escaped_text_with_simple_tags(text: str, wanted: str) -> None:
    assert html(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a\\Nb\\hc\\nd", "a\nb\u00a0c\nd"),
        ("{\\i1}x{\\i0}y", "<i>x</i>y"),
        ("{\\b700}x{\\b0}", "<b>x</b>"),
        ("{\\k20}ka{\\k30}ra", "kara"),
        ("{\\p1}m 0 0 l 9 9{\\p0}text", "text"),
        ("{\\bord2\\fs30}x", "x"),
        ("{\\i1}x{\\r}y", "<i>x</i>y"),
        ("{\\rThought}x", "<i>x</i>"),
        ("open {brace", "open {brace"),
    ],
)
def test_overrides_of_ass_are_mapped_or_dropped(text: str, wanted: str) -> None:
    assert format_cue_text(ass(text).runs) == wanted


def test_text_for_the_top_stays_there() -> None:
    assert ass("{\\an8}x").settings == ass("{\\a6}x").settings == ass("x", "Thought").settings == AT_TOP
    assert read_html("{\\an8}x").settings == AT_TOP
    assert ass("{\\an2}x", "Thought").settings == ass("x").settings == ""


def test_mov_text_has_its_styles_in_a_box() -> None:
    text = "Ä bold".encode()
    styles = struct.pack(">H", 1) + struct.pack(">HHHBBI", 2, 6, 1, 1 | 2, 18, 0xFFFFFFFF)
    box = struct.pack(">I4s", 8 + len(styles), b"styl") + styles
    marked = read_mov_text(struct.pack(">H", len(text)) + text + box)
    assert format_cue_text(marked.runs) == "Ä <b><i>bold</i></b>"
    wide = "\ufeffwide".encode("utf-16-be")
    assert format_cue_text(read_mov_text(struct.pack(">H", len(wide)) + wide).runs) == "wide"


@given(st.binary(max_size=200), st.text(max_size=200))
def test_whatever_comes_in_only_safe_text_must_come_out(data: bytes, text: str) -> None:
    for marked in (read_mov_text(data), read_html(text), ass(text), ass(text, "*Thought")):
        out = format_cue_text(marked.runs)
        bare = out
        for tag in ("<i>", "</i>", "<b>", "</b>", "<u>", "</u>"):
            bare = bare.replace(tag, "")
        assert "<" not in bare
        assert ">" not in bare
        assert "\n\n" not in out
        assert "\r" not in out
        assert parse_webvtt(f"00:00:01.000 --> 00:00:02.000\n{out}\n\n") == (
            (Cue(start_ticks=TICKS_PER_S, end_ticks=2 * TICKS_PER_S, text=out),) if out else ()
        )


@pytest.mark.parametrize(
    ("charset", "words"),
    [
        ("utf-8", "Καλημέρα — 日本語"),
        ("utf-8-sig", "ümläut"),
        ("utf-16", "日本語"),
        ("utf-16-le", "日本語"),
        ("utf-16-be", "plain"),
        ("cp1252", "Café — “quoted”"),
        ("cp1252", "Müller sagt: schöne Grüße aus Köln"),
        ("cp1251", "Привет"),
        ("cp1251", "Как дела, мой друг?\nВсё хорошо."),
        ("koi8_r", "Как дела, мой друг?\nВсё хорошо."),
        ("cp1250", "Příliš žluťoučký kůň úpěl"),
        ("cp1253", "Καλημέρα, τι κάνεις;"),
        ("cp932", "こんにちは、元気ですか"),
        ("gb18030", "你好，今天天气很好" * 9),
    ],
)
def test_letters_are_read_however_they_are_written(charset: str, words: str) -> None:
    text = SRT.format(text=words)
    assert decode_text(text.encode(charset))[0] == text


def test_the_language_in_the_name_decides_where_bytes_do_not() -> None:
    text = SRT.format(text="שלום, מה שלומך")
    assert decode_text(text.encode("cp1255"), language="he") == (text, "cp1255")
    russian = SRT.format(text="Как дела?")
    assert decode_text(russian.encode("koi8_r"), language="ru") == (russian, "koi8-r".replace("-", "_"))


def test_the_user_may_say_how_letters_are_written_but_unicode_says_it_itself() -> None:
    text = SRT.format(text="ėjo")
    assert decode_text(text.encode("cp1257"), charset="cp1257") == (text, "cp1257")
    assert decode_text(text.encode(), charset="cp1257") == (text, "utf-8")


@given(st.binary(max_size=300))
def test_any_bytes_must_be_read_as_something(data: bytes) -> None:
    text, charset = decode_text(data)
    assert isinstance(text, str)
    assert charset


def beside(data: bytes, kind: str = "srt") -> SidecarText:
    return read_sidecar(ReadSidecar(data=data, kind=kind))


def cues_of(raw: bytes, seconds: float = 4) -> tuple[Cue, ...]:
    reporter = MemoryReporter()
    length = round(seconds * TICKS_PER_S)
    (facts,) = make_text(MakeText(track="t0", raw=raw, duration_ticks=length), reporter)
    (made,) = reporter.reports
    assert isinstance(made, SegmentMade)
    cues = parse_webvtt(made.data.decode())
    assert (made.name, made.number, made.duration_ticks) == ("t0", 0, length)
    assert (facts.frames, facts.size_bytes) == (len(cues), len(made.data))
    return cues


def told(cues: tuple[Cue, ...]) -> list[tuple[float, float, str]]:
    return [(one.start_ticks / TICKS_PER_S, one.end_ticks / TICKS_PER_S, one.text) for one in cues]


def test_a_file_beside_the_film_becomes_cues() -> None:
    found = beside(SRT.format(text="Hello <i>you</i>").encode())
    assert (found.codec, found.charset) == ("subrip", "utf-8")
    assert told(cues_of(found.raw)) == [(0.5, 2, "Hello <i>you</i>"), (2.5, 3, "last")]


def test_bad_times_are_repaired_or_dropped() -> None:
    text = (
        "1\n00:00:03,000 --> 00:00:01,000\nend before start\n\n2\n0:0:1,5 --> 0:0:2,5\nshort fields\n\n"
        "99\n00:00:01.000 --> 99:59:59.999\ndots and far end\n"
    )
    found = {text for _, _, text in told(cues_of(beside(text.encode()).raw))}
    assert found == {"short fields", "dots and far end"}
    assert max(end for _, end, _ in told(cues_of(beside(text.encode()).raw))) == 4


def test_styles_of_an_ass_file_count_and_drawings_do_not() -> None:
    found = beside(ASS.encode(), "ass")
    assert found.codec == "ass"
    cues = cues_of(found.raw)
    assert told(cues) == [
        (0.5, 2, "Plain &lt;line&gt; &amp; <b>bold</b>, red\nsecond row"),
        (1, 3, "<i>Thinking</i>"),
    ]
    assert [one.settings for one in cues] == ["", AT_TOP]


def test_a_webvtt_file_is_read_whatever_it_is_called() -> None:
    text = "WEBVTT\n\nSTYLE\n::cue { color: red }\n\nid\n00:00.500 --> 00:02.000 align:start\n<v Bob>Hi &amp; bye\n"
    assert told(cues_of(beside(text.encode(), "srt").raw)) == [(0.5, 2, "Hi &amp; bye")]


@pytest.mark.parametrize(
    "data", [b"", b"\x00" * 100, b"no times here", b"\x89PNG\r\n\x1a\n" + bytes(50), b"[Script Info]\n", b"{1}{2}x"]
)
def test_a_file_without_text_and_times_is_refused(data: bytes) -> None:
    with pytest.raises(ExpectedError) as caught:
        beside(data)
    assert caught.value.code is ErrorCode.UNREADABLE


@given(st.binary(max_size=400), st.sampled_from(["srt", "ass", "ssa", "vtt"]), st.sampled_from(["", SRT, ASS]))
def test_a_broken_file_must_be_refused_or_become_cues(data: bytes, kind: str, around: str) -> None:
    middle = len(around) // 2
    found: SidecarText | None = None
    with contextlib.suppress(ExpectedError):
        found = beside(around[:middle].encode() + data + around[middle:].encode(), kind)
    if found is not None:
        assert cues_of(found.raw, 1e6)


def raw_of(*cues: tuple[float, float, bytes], codec: str = "subrip") -> bytes:
    made = (
        RawCue(start_ticks=round(start * TICKS_PER_S), end_ticks=round(end * TICKS_PER_S), data=data)
        for start, end, data in cues
    )
    return encode_raw_text(RawText(codec=codec, cues=tuple(made)))


def test_a_track_that_gives_no_durations_shows_each_text_until_the_next() -> None:
    raw = raw_of((0, 0, b"a"), (2, 2, b"b"), (12, 12, b"c"))
    assert told(cues_of(raw, 60)) == [(0, 2, "a"), (2, 7, "b"), (12, 17, "c")]


def test_cues_are_clipped_to_the_film() -> None:
    raw = raw_of((-2, 1, b"begun before"), (3, 9, b"goes on"), (5, 6, b"after the end"))
    assert told(cues_of(raw)) == [(0, 1, "begun before"), (3, 4, "goes on")]


def test_nul_bytes_and_other_letters_inside_a_container_are_borne() -> None:
    raw = raw_of((0, 1, b"Hello\x00"), (1, 2, "Привет, друг".encode("cp1251")))
    assert told(cues_of(raw)) == [(0, 1, "Hello"), (1, 2, "Привет, друг")]


def test_webvtt_in_boxes_is_unpacked() -> None:
    def box(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I4s", 8 + len(body), kind) + body

    sample = box(b"vttc", box(b"sttg", b"line:0") + box(b"payl", b"one <b>two</b>"))
    raw = raw_of((0, 1, sample), (1, 2, box(b"vtte", b"")), codec="webvtt")
    assert told(cues_of(raw)) == [(0, 1, "one <b>two</b>")]


def test_a_track_that_is_none_is_refused() -> None:
    with pytest.raises(ExpectedError):
        decode_raw_text(b"nonsense")


def found_in(path: Path) -> tuple[Plan, dict[str, bytes]]:
    reporter = MemoryReporter()
    _, plan = index_source(IndexSource(source=handle(path), profile="default", fingerprint="f"), reporter)
    return plan, {one.track: one.data for one in reporter.reports if isinstance(one, TextFound)}


@pytest.fixture
def with_text(film: Path, shelf: Path, request: pytest.FixtureRequest) -> Path:
    """Return the film with a text track, in the container and codec that the test names."""
    name, codec, written = request.param
    source, path = shelf / f"cues.{written}", shelf / f"text {codec}.{name}"
    text = {"srt": SRT.format(text="Hello <b>you</b> & me"), "ass": ASS}[written]
    source.write_text(text)
    tags = ("-metadata:s:s:0", "language=ger", "-disposition:s:0", "forced")
    ffmpeg("-i", film, "-i", source, "-map", "0", "-map", "1", "-c", "copy", "-c:s", codec, *tags, path)
    return path


@pytest.mark.parametrize(
    "with_text",
    [("mkv", "subrip", "srt"), ("mkv", "webvtt", "srt"), ("mp4", "mov_text", "srt"), ("mkv", "ass", "ass")],
    indirect=True,
)
def test_a_text_track_inside_the_film_becomes_cues(with_text: Path) -> None:
    plan, found = found_in(with_text)
    (track,) = plan.text
    assert (track.name, track.language, track.is_forced) == ("t0", "ger", True)
    assert track.label == "ger (forced)"
    cues = told(cues_of(found["t0"], 12))
    if track.codec in {"ass", "ssa"}:
        assert cues[0] == (0.5, 2, "Plain &lt;line&gt; &amp; <b>bold</b>, red\nsecond row")
    else:
        assert cues == [(0.5, 2, "Hello <b>you</b> &amp; me"), (2.5, 3, "last")]


def test_text_stays_with_a_picture_that_does_not_begin_at_zero(film: Path, shelf: Path) -> None:
    cues, path = shelf / "late.srt", shelf / "late.mkv"
    cues.write_text(SRT.format(text="Hello"))
    ffmpeg(
        *("-i", film, "-i", cues, "-map", "0", "-map", "1", "-c", "copy", "-output_ts_offset", "7"),
        path,
    )
    plan, found = found_in(path)
    assert plan.origin_ticks > 6 * TICKS_PER_S
    (first, _) = cues_of(found["t0"], 12)
    assert first.start_ticks == pytest.approx(0.5 * TICKS_PER_S, abs=TICKS_PER_S // 20)


def test_an_empty_text_track_is_not_offered(film: Path, shelf: Path) -> None:
    cues, path = shelf / "empty.srt", shelf / "empty.mkv"
    cues.write_text("1\n00:00:59,000 --> 00:00:59,500\nafter the end\n")
    ffmpeg("-i", film, "-i", cues, "-map", "0", "-map", "1", "-c", "copy", "-t", "12", path)
    assert found_in(path)[0].text == ()


def test_subtitles_made_of_pictures_are_named_and_fail_nothing(film: Path, shelf: Path) -> None:
    pictures, path = shelf / "pictures.sup", shelf / "bitmaps.mkv"
    composition = struct.pack(">HHBHBBBB", 320, 180, 0x10, 0, 0x80, 0, 0, 0)
    pictures.write_bytes(
        b"".join(
            b"PG" + struct.pack(">IIBH", at, 0, kind, len(body)) + body
            for at in (90_000, 180_000)
            for kind, body in ((0x16, composition), (0x80, b""))
        )
    )
    tags = ("-metadata:s:s:0", "language=ger")
    ffmpeg("-i", film, "-i", pictures, "-map", "0", "-map", "1", "-c", "copy", *tags, path)
    plan, found = found_in(path)
    assert (plan.text, found) == ((), {})
    (warning,) = plan.warnings
    assert "Subtitle track 1 (ger) consists of pictures" in warning


def test_chapters_are_read_and_repaired(film: Path, shelf: Path) -> None:
    marks, path = shelf / "marks.txt", shelf / "chapters.mkv"
    marks.write_text(
        ";FFMETADATA1\n"
        "[CHAPTER]\nTIMEBASE=1/1000\nSTART=0\nEND=6000\ntitle=First\n"
        "[CHAPTER]\nTIMEBASE=1/1000\nSTART=6000\nEND=99000\ntitle=Second\n"
        "[CHAPTER]\nTIMEBASE=1/1000\nSTART=50000\nEND=60000\ntitle=Nowhere\n"
    )
    ffmpeg("-i", film, "-f", "ffmetadata", "-i", marks, "-map", "0", "-map_metadata", "1", "-c", "copy", path)
    plan, _ = found_in(path)
    assert [one.title for one in plan.chapters] == ["First", "Second"]
    assert plan.chapters[0].start_ticks == 0
    assert plan.chapters[1].start_ticks == 6 * TICKS_PER_S - plan.origin_ticks
    assert plan.chapters[-1].end_ticks == plan.duration_ticks


def test_a_cue_of_absurd_size_is_left_out_of_a_file() -> None:
    text = SRT.format(text="x" * (MAX_CUE_BYTES + 1))
    assert [text for _, _, text in told(cues_of(beside(text.encode()).raw))] == ["last"]
