"""Canonical encoding: the same value gives the same bytes on every device, so that bytes can be hashed and compared.

JSON in UTF-8, keys sorted, no white space, absent defaults written out; values are integers, strings, booleans, nulls,
arrays and objects. Floating-point numbers are not canonical and must not be put into anything that is hashed.
"""

from __future__ import annotations

import hashlib
from typing import TypeVar

import msgspec

from app.core.errors import ErrorCode, ExpectedError

T = TypeVar("T")

_encoder = msgspec.json.Encoder(order="sorted")


def encode_canonical(value: object) -> bytes:
    """Return the canonical bytes of a msgspec value."""
    return _encoder.encode(value)


def decode_canonical(data: bytes | str, kind: type[T]) -> T:
    """Return the value of type ``kind`` in ``data``; raises ``ExpectedError`` bad-message when it does not fit."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ExpectedError(ErrorCode.BAD_MESSAGE, f"{kind.__name__} cannot be read: {error}") from error


def canonical_hash(value: object) -> str:
    """Return 16 hex digits of SHA-256 over the canonical bytes."""
    return hashlib.sha256(encode_canonical(value)).hexdigest()[:16]
