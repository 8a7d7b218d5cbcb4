"""The capability string: one spelling each, strict decoding."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import BugError, ErrorCode, ExpectedError
from app.storage.capability import MAX_DEPTH, MAX_LENGTH, PREFIX, Capability, format_capability, parse_capability
from app.storage.cipher import SHARD_BYTES


@st.composite
def capabilities(draw: st.DrawFn) -> Capability:
    depth = draw(st.integers(0, MAX_DEPTH))
    by_reference = draw(st.booleans())
    return Capability(
        depth=depth,
        name=draw(st.binary(min_size=32, max_size=32)).hex(),
        secret=draw(st.binary(min_size=32, max_size=32)),
        length=draw(st.integers(0, SHARD_BYTES) if depth == 0 else st.integers(1, MAX_LENGTH)),
        padded=not by_reference and draw(st.booleans()),
        bundle=not by_reference and draw(st.booleans()),
        by_reference=by_reference,
    )


def packed(*, depth: int = 0, flags: int = 0, length: int = 5) -> str:
    data = bytes([depth, flags]) + b"n" * 32 + b"s" * 32 + length.to_bytes(8, "big")
    return PREFIX + base64.urlsafe_b64encode(data).decode().rstrip("=")


def code_of(text: str) -> ErrorCode:
    with pytest.raises(ExpectedError) as caught:
        parse_capability(text)
    return caught.value.code


@given(capabilities())
def test_a_capability_survives_its_string(capability: Capability) -> None:
    text = format_capability(capability)
    assert parse_capability(text) == capability
    assert text.removeprefix(PREFIX).replace("-", "").replace("_", "").isalnum()


@given(st.text())
def test_any_text_is_read_or_refused_with_a_code(text: str) -> None:
    for candidate in (text, PREFIX + text):
        try:
            parse_capability(candidate)
        except ExpectedError as error:
            assert error.code in {ErrorCode.BAD_MESSAGE, ErrorCode.DATA_TOO_NEW}  # noqa: PT017 (both ways are right)


@given(capabilities(), st.data())
def test_no_other_spelling_is_accepted(capability: Capability, data: st.DataObject) -> None:
    text = format_capability(capability)
    position = data.draw(st.integers(0, len(text) - 1))
    letter = data.draw(st.sampled_from("Ab0-_=+/ .\n"))
    changed = text[:position] + letter + text[position + 1 :]
    if changed == text:
        return
    try:
        other = parse_capability(changed)
    except ExpectedError:
        return
    assert format_capability(other) == changed
    assert other != capability


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hr1.",
        "hr1",
        "hello",
        packed() + "=",
        packed()[:-1],
        packed() + "A",
        packed(flags=8),
        packed(flags=4 | 1),
        packed(flags=4 | 2),
        packed(depth=MAX_DEPTH + 1),
        packed(length=SHARD_BYTES + 1),
        packed(length=2**63),
        packed(depth=1, length=0),
        packed().replace("hr1.", "HR1."),
    ],
)
def test_what_is_no_capability_is_a_bad_message(text: str) -> None:
    assert code_of(text) == ErrorCode.BAD_MESSAGE


def test_unused_bits_at_the_end_must_be_zero() -> None:
    text = packed()
    following = chr(ord(text[-1]) + 1)
    assert code_of(text[:-1] + following) == ErrorCode.BAD_MESSAGE


def test_a_newer_version_asks_for_an_update() -> None:
    assert code_of("hr2.AAAA") == ErrorCode.DATA_TOO_NEW


def test_a_capability_shows_no_secret_when_printed() -> None:
    capability = parse_capability(packed())
    assert "73737373" not in repr(capability)
    assert "ssss" not in repr(capability)


def test_an_impossible_capability_is_a_bug() -> None:
    with pytest.raises(BugError):
        format_capability(Capability(depth=1, name="00" * 32, secret=bytes(32), length=0))
