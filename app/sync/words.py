"""The owner's secret as 24 words (BIP-39, English list): 256 bits and a checksum that people can write down.

The one door to ``mnemonic``. Words may be typed in any case, with any white space, and cut to their first four letters,
which are unique in the list.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from app.core.errors import ErrorCode, ExpectedError

if TYPE_CHECKING:
    from mnemonic import Mnemonic

WORD_COUNT = 24
_ENOUGH_LETTERS = 4


@cache
def _list() -> Mnemonic:
    from mnemonic import Mnemonic  # noqa: PLC0415 (most starts have nothing to do with words)

    return Mnemonic("english")


def words_of(secret: bytes) -> tuple[str, ...]:
    """Return the 24 words that stand for 32 bytes."""
    return tuple(_list().to_mnemonic(secret).split())


def secret_of(text: str) -> bytes:
    """Return the 32 bytes that 24 words stand for; raises ``ExpectedError`` bad-words, saying which word is wrong."""
    typed = text.split()
    if len(typed) != WORD_COUNT:
        raise _bad(f"There must be {WORD_COUNT} words; these are {len(typed)}.")
    words = [_whole_word(number, word) for number, word in enumerate(typed, start=1)]
    try:
        return bytes(_list().to_entropy(words))
    except (ValueError, LookupError) as error:
        raise _bad(
            "Each word is one of the list, but together they do not fit: one is another word than was shown, or two "
            "are in the wrong order. Compare them with what you wrote down."
        ) from error


def check_words(secret: bytes, typed: Mapping[int, str]) -> None:
    """Hold typed words, by their number from 1, against the secret; raises ``ExpectedError`` bad-words."""
    right = words_of(secret)
    for number, word in sorted(typed.items()):
        if not 1 <= number <= WORD_COUNT:
            raise _bad(f"There is no word number {number}; there are {WORD_COUNT}.")
        if _whole_word(number, word) != right[number - 1]:
            raise _bad(f"Word {number} is another one. Compare it with what you wrote down.")


def _whole_word(number: int, typed: str) -> str:
    word = typed.strip().lower()
    words = _list().wordlist
    if word in words:
        return word
    found = [one for one in words if one.startswith(word)] if len(word) >= _ENOUGH_LETTERS else []
    if len(found) == 1:
        return found[0]
    near = difflib.get_close_matches(word[:16], words, n=1)
    hint = f"; did you mean “{near[0]}”?" if near else "."
    raise _bad(f"Word {number}, “{word[:16]}”, is not one of the list{hint}")


def _bad(sentence: str) -> ExpectedError:
    return ExpectedError(ErrorCode.BAD_WORDS, sentence)
