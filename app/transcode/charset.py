"""How the letters of a text file are written: said by the user, by its first bytes, by being UTF-8, else guessed.

A guess from bytes alone is weak on short files (charset-normalizer takes a Russian word for Chinese), so the language
in the file's name is asked first, and two frequent mistakes are looked for by what only people write: words in
Cyrillic begin with their capital, and western European text holds western European letters.
"""

from __future__ import annotations

import codecs
import re

import charset_normalizer

AUTO = "auto"
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_BY_LANGUAGE = {
    "cp1250": "pl pol cs ces cze sk slk slo hu hun hr hrv sl slv bs bos ro ron rum sq sqi alb",
    "cp1251": "ru rus uk ukr bg bul be bel sr srp mk mkd mac",
    "cp1252": "en eng de deu ger fr fra fre es spa it ita pt por nl nld dut da dan sv swe no nor nb nob nn nno fi fin",
    "cp1253": "el ell gre",
    "cp1254": "tr tur",
    "cp1255": "he heb",
    "cp1256": "ar ara fa fas per ur urd",
    "cp1257": "lt lit lv lav et est",
    "cp1258": "vi vie",
    "cp874": "th tha",
    "cp932": "ja jpn",
    "cp949": "ko kor",
    "gb18030": "zh zho chi cmn",
}
_CHARSET_OF = {code: charset for charset, codes in _BY_LANGUAGE.items() for code in codes.split()}
_CYRILLIC = ("cp1251", "koi8_r", "cp866")
_GUESSED = [*_BY_LANGUAGE, "koi8_r", "cp866", "big5", "euc_jp"]
_SAMPLE_BYTES = 64 << 10
_WESTERN = frozenset("àáâãäåæçèéêëìíîïñòóôõöøœùúûüÿßÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØŒÙÚÛÜ¡¿«»“”„‘’‚–—…•·°ºª€£©®™\xa0")
_WORD = re.compile(r"[A-Za-zЀ-ӿ]+")


def decode_text(data: bytes, *, language: str = "", charset: str = AUTO) -> tuple[str, str]:
    """Return (text, charset); what the charset does not know becomes a replacement character.

    ``charset`` is the user's word for text that is not Unicode.
    """
    found = _charset_of(data, re.split("[-_]", language)[0].casefold(), charset)
    text = data.decode(found, errors="replace")
    return text.removeprefix("\ufeff"), found


def _charset_of(data: bytes, language: str, said: str) -> str:
    marked = next((charset for mark, charset in _MARKS if data.startswith(mark)), None)
    if marked is not None:
        return marked
    if _fits(data, "utf-8"):
        return _wide(data) or "utf-8"
    if said != AUTO:
        return said
    return _wide(data) or _by_language(data, language) or _cyrillic(data) or _guess(data)


def _fits(data: bytes, charset: str) -> bool:
    try:
        data.decode(charset)
    except UnicodeDecodeError:
        return False
    return True


def _wide(data: bytes) -> str | None:
    """Return UTF-16 when every other byte of the beginning is mostly zero, as it is in digits and arrows of times."""
    sample = data[:400]
    evens, odds = sample[0::2].count(0), sample[1::2].count(0)
    if len(sample) < 8 or max(evens, odds) * 4 < len(sample) or min(evens, odds) * 8 > len(sample):
        return None
    charset = "utf-16-be" if evens > odds else "utf-16-le"
    return charset if _fits(data[: len(data) // 2 * 2], charset) else None


def _by_language(data: bytes, language: str) -> str | None:
    charset = _CHARSET_OF.get(language)
    if charset is None or not _fits(data, charset):
        return None
    return _cyrillic(data) or charset if charset == "cp1251" else charset


def _cyrillic(data: bytes) -> str | None:
    """Return the Cyrillic charset in which (nearly) all words have their capitals where people put them."""
    sample = data[:_SAMPLE_BYTES]
    best = max(_CYRILLIC, key=lambda charset: _well_cased(sample, charset))
    return best if _well_cased(sample, best) >= 0.9 else None


def _well_cased(data: bytes, charset: str) -> float:
    text = data.decode(charset, errors="replace")
    words = [word for word in _WORD.findall(text) if not word.isascii()]
    letters = sum(map(len, words))
    others = sum(ord(one) > 127 for one in text) - letters
    if letters < 4 or others * 4 > letters:
        return 0.0
    good = sum(len(word) for word in words if _is_well_cased(word))
    return good / letters * (0.99 if charset == "cp866" else 1.0)


def _is_well_cased(word: str) -> bool:
    is_cased = word.islower() or word.istitle() or (word.isupper() and len(word) > 1)
    return is_cased and all(ord(one) > 127 for one in word)


def _guess(data: bytes) -> str:
    sample = data[:_SAMPLE_BYTES]
    if all(one in _WESTERN for one in sample.decode("cp1252", errors="replace") if ord(one) > 127):
        return "cp1252"
    best = charset_normalizer.from_bytes(sample, cp_isolation=_GUESSED).best()
    return best.encoding if best is not None else "cp1252"
