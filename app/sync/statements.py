"""Signed statements about a space: who belongs to it, who does not any more, and who was given which vault key.

::

    statement 1 ◄── statement 2 ◄── statement 3        one chain per signer: each names the hash of the one before
        │               │
        add(device)     revoke(device, last: …)  grant(vault key → device)

A signer is a device, or the owner (whoever has the 24 words). Bytes are canonical JSON, so that a statement has one
spelling, one hash and can be compared; IDENTITY.md specifies them, golden files hold them. Reading is strict and
bounded: what is not exactly a statement of this space with a right signature is refused. A kind that this version does
not know is kept, passed on, and has no effect.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from app.core.encoding import encode_canonical
from app.core.errors import BugError, ErrorCode, ExpectedError
from app.storage.signing import SIGNATURE_BYTES, Signer, device_id_of, verify_signature

STATEMENT_SCHEMA = 1
MAX_STATEMENT_BYTES = 4096
MAX_NAME_CHARACTERS = 64
MAX_LAST = 16
"""Ends of a chain that a revocation can name; there is one, unless the device was restored from a backup."""
_PURPOSE = "statement 1"
_HEX = frozenset("0123456789abcdef")
_KEY_DIGITS = 64
_MOST = 2**53


class Add(msgspec.Struct, frozen=True, kw_only=True, tag="add", tag_field="kind", forbid_unknown_fields=True):
    """A device belongs to the space."""

    device: str
    """Its public key in hex."""
    name: str
    at_ms: int
    """By the signer's clock; only for showing."""


class Revoke(msgspec.Struct, frozen=True, kw_only=True, tag="revoke", tag_field="kind", forbid_unknown_fields=True):
    """A device belongs to the space no more; what it signed after ``last`` is void."""

    device: str
    last: tuple[str, ...]
    """Hashes of its last statements that count; none if nothing it signed counts."""
    at_ms: int


class Grant(msgspec.Struct, frozen=True, kw_only=True, tag="grant", tag_field="kind", forbid_unknown_fields=True):
    """A device was given a vault key."""

    device: str
    key: str
    """The vault key's id."""
    generation: int
    """Of two vault keys the one of the higher generation, then id, is used for new content."""
    sealed: str
    """The key, sealed to the device, in hex."""


class Unknown(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a newer version states."""

    kind: str = ""


Body = Add | Revoke | Grant
AnyBody = Add | Revoke | Grant | Unknown


class _Signed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    signature: str
    statement: msgspec.Raw


class _Payload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    body: msgspec.Raw
    number: int
    previous: str
    schema: int
    signer: str
    space: str


class _Kind(msgspec.Struct, frozen=True, kw_only=True):
    kind: str


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """A statement whose signature was verified."""

    id: str
    """SHA-256 of what was signed, in hex."""
    space: str
    """The owner's public signing key in hex."""
    signer: str
    """Public key in hex: a device's, or the owner's, which is ``space``."""
    number: int
    """From 1."""
    previous: str
    """The id of the signer's statement before this one; empty for the first."""
    body: AnyBody
    encoded: bytes

    @property
    def is_owners(self) -> bool:
        """Whether the owner's words made it."""
        return self.signer == self.space


def make_statement(signer: Signer, body: Body, *, space: str, after: Statement | None) -> Statement:
    """Sign ``body`` as the statement that follows ``after``, the signer's last one."""
    if after is not None and after.signer != signer.public.hex():
        raise BugError("a chain has one signer")
    payload = _Payload(
        body=msgspec.Raw(encode_canonical(body)),
        number=after.number + 1 if after else 1,
        previous=after.id if after else "",
        schema=STATEMENT_SCHEMA,
        signer=signer.public.hex(),
        space=space,
    )
    message = encode_canonical(payload)
    signature = signer.sign(purpose=_PURPOSE, message=message)
    encoded = encode_canonical(_Signed(signature=signature.hex(), statement=msgspec.Raw(message)))
    return decode_statement(encoded, space=space)


def decode_statement(data: bytes, *, space: str) -> Statement:
    """Return the statement in ``data``; raises ``ExpectedError`` bad-message, data-too-new, other-space."""
    if len(data) > MAX_STATEMENT_BYTES:
        raise _bad("it is too long")
    try:
        signed = msgspec.json.decode(data, type=_Signed)
        message = bytes(signed.statement)
        payload = msgspec.json.decode(message, type=_Payload)
        is_canonical = encode_canonical(msgspec.json.decode(data)) == data
        body = _read_body(bytes(payload.body))
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise _bad("it makes no sense") from error
    if payload.schema > STATEMENT_SCHEMA:
        raise ExpectedError(
            ErrorCode.DATA_TOO_NEW, "Another device of yours has a newer version of Hearthreel; update this one."
        )
    _check(payload, body, is_canonical=is_canonical)
    if payload.space != space:
        raise ExpectedError(ErrorCode.OTHER_SPACE, "A statement is about another owner's space.")
    signature = bytes.fromhex(_hex(signed.signature, 2 * SIGNATURE_BYTES))
    if not verify_signature(bytes.fromhex(payload.signer), purpose=_PURPOSE, message=message, signature=signature):
        raise _bad("its signature is wrong")
    return Statement(
        id=hashlib.sha256(message).hexdigest(),
        space=payload.space,
        signer=payload.signer,
        number=payload.number,
        previous=payload.previous,
        body=body,
        encoded=data,
    )


def device_of(public: str) -> str:
    """Return the id of the device with this public key in hex."""
    return device_id_of(bytes.fromhex(public))


def chain_ends(statements: Iterable[Statement], signer: str) -> tuple[Statement, ...]:
    """Return the statements of ``signer`` that none follows, the longest chain first: one, or more after a restore."""
    own = [one for one in statements if one.signer == signer]
    followed = {one.previous for one in own}
    ends = [one for one in own if one.id not in followed]
    return tuple(sorted(ends, key=lambda one: (-one.number, one.id)))


def chain_end(statements: Iterable[Statement], signer: str) -> Statement | None:
    """Return the statement of ``signer`` that its next one is to follow."""
    return next(iter(chain_ends(statements, signer)), None)


def _read_body(data: bytes) -> AnyBody:
    kind = msgspec.json.decode(data, type=_Kind).kind
    if kind in {"add", "revoke", "grant"}:
        return msgspec.json.decode(data, type=Body)
    return Unknown(kind=kind)


def _check(payload: _Payload, body: AnyBody, *, is_canonical: bool) -> None:
    if payload.schema < 1 or not is_canonical:
        raise _bad("it is not in canonical form")
    _hex(payload.signer, _KEY_DIGITS)
    _hex(payload.space, _KEY_DIGITS)
    if not 1 <= payload.number < _MOST or (payload.number == 1) != (payload.previous == ""):
        raise _bad("its number does not fit")
    if payload.previous:
        _hex(payload.previous, _KEY_DIGITS)
    if not isinstance(body, Unknown):
        _check_body(body)


def _check_body(body: Body) -> None:
    _hex(body.device, _KEY_DIGITS)
    match body:
        case Add():
            _check_moment(body.at_ms)
            if not 1 <= len(body.name) <= MAX_NAME_CHARACTERS or not body.name.isprintable():
                raise _bad("a device's name is none")
        case Revoke():
            _check_moment(body.at_ms)
            if len(body.last) > MAX_LAST or list(body.last) != sorted(set(body.last)):
                raise _bad("its list of last statements is none")
            for one in body.last:
                _hex(one, _KEY_DIGITS)
        case Grant():
            _hex(body.key, 32)
            _hex(body.sealed, 160)
            if not 1 <= body.generation < _MOST:
                raise _bad("its generation does not fit")


def _check_moment(at_ms: int) -> None:
    if not 0 <= at_ms < _MOST:
        raise _bad("its moment does not fit")


def _hex(text: str, digits: int) -> str:
    if len(text) != digits or not _HEX.issuperset(text):
        raise _bad("a key, hash or signature is none")
    return text


def _bad(problem: str) -> ExpectedError:
    return ExpectedError(ErrorCode.BAD_MESSAGE, f"A statement of a device cannot be: {problem}.")
