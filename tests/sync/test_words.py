"""The 24 words: BIP-39 as others compute it, forgiving about form and strict about content."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import ErrorCode, ExpectedError
from app.sync.words import check_words, secret_of, words_of


def complaint(text: str) -> str:
    with pytest.raises(ExpectedError) as caught:
        secret_of(text)
    assert caught.value.code is ErrorCode.BAD_WORDS
    return caught.value.message


def test_the_words_are_those_of_bip_39() -> None:
    """Its published vectors for 256 bits of zeros and of ones."""
    assert words_of(bytes(32)) == ("abandon",) * 23 + ("art",)
    assert words_of(b"\xff" * 32) == ("zoo",) * 23 + ("vote",)


@given(st.binary(min_size=32, max_size=32))
def test_any_secret_comes_back_from_its_words(secret: bytes) -> None:
    words = words_of(secret)
    assert len(words) == 24
    assert secret_of(" ".join(words)) == secret
    check_words(secret, dict(enumerate(words, start=1)))


def test_case_white_space_and_cut_words_are_forgiven() -> None:
    assert secret_of("  " + "\n".join(["ABAN"] * 23) + "\tArt ") == bytes(32)


def test_what_is_wrong_is_said() -> None:
    assert "these are 23" in complaint("abandon " * 23)
    assert "did you mean “abandon”" in complaint("abandonn " + "abandon " * 22 + "art")
    assert "Word 2" in complaint("abandon qqqqqq " + "abandon " * 21 + "art")
    assert "do not fit" in complaint("abandon " * 24)
    assert "is not one of the list" in complaint("aba " * 24)


def test_a_wrong_word_is_named_by_its_number() -> None:
    check_words(bytes(32), {1: "abandon", 24: "ART"})
    for typed in ({1: "abandon", 24: "zoo"}, {25: "abandon"}, {0: "abandon"}):
        with pytest.raises(ExpectedError) as caught:
            check_words(bytes(32), typed)
        assert caught.value.code is ErrorCode.BAD_WORDS
        assert "abandon" not in caught.value.message
