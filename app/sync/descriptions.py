"""Offers and answers of a peer connection, signed by the devices that make them.

A description holds the fingerprint of the DTLS certificate that its device will show. Because the device key signs it,
who passes descriptions on (a rendezvous, or a man in its middle) cannot put a fingerprint of his own into one, nor give
an answer to another offer, nor pass one meant for another device.
"""

from __future__ import annotations

import hashlib
from typing import Final, Literal

import msgspec

from app.core.encoding import decode_canonical, encode_canonical
from app.core.errors import ErrorCode, ExpectedError
from app.storage.signing import Signer, verify_signature

MAX_DESCRIPTION_BYTES: Final = 64 * 1024
_VERSION: Final = 1
_PURPOSE: Final = "description 1"


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """What one device proposes to another; keys are public keys."""

    version: int = _VERSION
    kind: Literal["offer", "answer"]
    sender: bytes
    recipient: bytes
    attempt: str
    """Chosen by the offering device at random; the answer repeats it."""
    sdp: str
    answers: str = ""
    """In an answer, the hash of the offer."""


class _Signed(msgspec.Struct, frozen=True, kw_only=True):
    body: bytes
    signature: bytes


def sign_description(description: Description, *, seed: bytes) -> bytes:
    """Return a description as it travels; ``seed`` is the sender's private key."""
    body = encode_canonical(description)
    signature = Signer(seed).sign(purpose=_PURPOSE, message=body)
    return encode_canonical(_Signed(body=body, signature=signature))


def open_description(data: bytes, *, recipient: bytes) -> Description:
    """Return a description meant for ``recipient`` whose sender really made it; who that is, the caller must judge.

    Raises ``ExpectedError`` not-trusted, bad-message, or data-too-new.
    """
    if len(data) > MAX_DESCRIPTION_BYTES:
        raise ExpectedError(ErrorCode.BAD_MESSAGE, "A proposal for a connection is too long; it was dropped.")
    signed = decode_canonical(data, _Signed)
    if decode_canonical(signed.body, _Version).version != _VERSION:
        raise ExpectedError(ErrorCode.DATA_TOO_NEW, "The other device runs another version; update Hearthreel on both.")
    description = decode_canonical(signed.body, Description)
    is_signed = verify_signature(description.sender, purpose=_PURPOSE, message=signed.body, signature=signed.signature)
    if not is_signed or description.recipient != recipient:
        raise tampered()
    return description


class _Version(msgspec.Struct, frozen=True, kw_only=True):
    version: int


def hash_of(description: Description) -> str:
    """Return what an answer says of the offer that it answers."""
    return hashlib.sha256(encode_canonical(description)).hexdigest()


def tampered() -> ExpectedError:
    """Return what is said when somebody between two devices changed what they told each other."""
    return ExpectedError(
        ErrorCode.NOT_TRUSTED,
        "Somebody between the two devices changed what they told each other, or it came from a stranger; "
        "nothing was sent. If this goes on, use another rendezvous.",
    )
