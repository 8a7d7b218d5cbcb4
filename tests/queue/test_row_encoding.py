"""Rows as bytes: the quick way of encoding gives what the thorough one gives, whatever the texts in them look like."""

from __future__ import annotations

import msgspec
import pytest

from app.core.encoding import encode_canonical
from app.queue.rows import Added, JobParams, JobRow, Register, Source, _spread, decode_row, encode_value

_TEXTS = ("film.mkv", '{"?":[],"a":1}', '{"?":[["a","1"]]}', '"?"', "\\u003f", '{\\"?\\":[],', "ä€🎬\n")
_EXTRA = (("future", '{"deep":[1,{"?":[]}]}'),)


def job_named(text: str, *, extra: tuple[tuple[str, str], ...] = (), deep: tuple[tuple[str, str], ...] = ()) -> JobRow:
    source: Source | None = Source(fingerprint="f", size_bytes=1, name=text, extra=deep)
    return JobRow(
        id="a" * 32,
        kind="hls",
        params=JobParams(profile=text),
        source=Register(value=source, stamp=1, device=text),
        added=Added(at_ms=1, device=text, number=1),
        extra=extra,
    )


@pytest.mark.parametrize("text", _TEXTS)
@pytest.mark.parametrize("extra", [(), _EXTRA])
@pytest.mark.parametrize("deep", [(), _EXTRA])
def test_the_quick_way_gives_the_bytes_of_the_thorough_one(
    text: str, extra: tuple[tuple[str, str], ...], deep: tuple[tuple[str, str], ...]
) -> None:
    job = job_named(text, extra=extra, deep=deep)
    encoded = encode_value(job)
    assert encoded == encode_canonical(_spread(msgspec.to_builtins(job)))
    assert decode_row(encoded, JobRow) == job
    if not extra and not deep:
        assert b'"?"' not in encoded.replace(b"\\", b"") or "?" in text
