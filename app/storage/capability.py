"""The capability: an opaque, URL-safe string that is all one needs to read a file of the vault.

FORMAT.md, section "Capabilities", specifies the bytes. Decoding is strict: each capability has one spelling.
"""

from __future__ import annotations

import base64
import binascii
import re
import struct

import msgspec

from app.core.errors import BugError, ErrorCode, ExpectedError
from app.storage.cipher import SHARD_BYTES
from app.storage.padding import padded_length

PREFIX = "hr1."
MAX_DEPTH = 5
MAX_LENGTH = 2**56

_LAYOUT = struct.Struct(">BB32s32sQ")
_OTHER_VERSION = re.compile(r"hr[0-9]+\.")
_PADDED, _BUNDLE, _BY_REFERENCE = 1, 2, 4
_ALL_FLAGS = _PADDED | _BUNDLE | _BY_REFERENCE


class Capability(msgspec.Struct, frozen=True, kw_only=True):
    """What a capability string says."""

    depth: int
    """0: the shard is the content itself; n: the shard is a manifest, n levels above the content."""
    name: str
    """Shard name, 64 hex digits."""
    secret: bytes
    """What opens the shard."""
    length: int
    """Bytes of content, without padding."""
    padded: bool = False
    """Whether zeros follow the content up to its Padmé length."""
    bundle: bool = False
    """Whether the content is a bundle, whose entries are reached through it."""
    by_reference: bool = False
    """Whether only the manifests are stored, the content being the user's own file."""

    @property
    def stored_length(self) -> int:
        """Bytes of content and padding."""
        return padded_length(self.length) if self.padded else self.length

    def __repr__(self) -> str:
        return f"Capability({self.name}, depth {self.depth}, {self.length} bytes)"


def format_capability(capability: Capability) -> str:
    """Return the string of ``capability``."""
    problem = _problem_of(capability)
    if problem:
        raise BugError(f"not a capability: {problem}")
    flags = capability.padded * _PADDED | capability.bundle * _BUNDLE | capability.by_reference * _BY_REFERENCE
    packed = _LAYOUT.pack(capability.depth, flags, bytes.fromhex(capability.name), capability.secret, capability.length)
    return PREFIX + base64.urlsafe_b64encode(packed).decode("ascii").rstrip("=")


def parse_capability(text: str) -> Capability:
    """Return what ``text`` says.

    Raises ``ExpectedError`` bad-message when it is no capability, data-too-new when a newer version wrote it.
    """
    packed = _unpacked(text)
    depth, flags, name, secret, length = _LAYOUT.unpack(packed)
    capability = Capability(
        depth=depth,
        name=name.hex(),
        secret=secret,
        length=length,
        padded=bool(flags & _PADDED),
        bundle=bool(flags & _BUNDLE),
        by_reference=bool(flags & _BY_REFERENCE),
    )
    problem = "unknown flags" if flags & ~_ALL_FLAGS else _problem_of(capability)
    if problem:
        raise _bad(problem)
    return capability


def _unpacked(text: str) -> bytes:
    if not text.startswith(PREFIX):
        if _OTHER_VERSION.match(text):
            raise ExpectedError(
                ErrorCode.DATA_TOO_NEW,
                "A file of the vault was written by a newer version of Hearthreel; update this installation.",
            )
        raise _bad("it does not start as one")
    encoded = text[len(PREFIX) :]
    try:
        packed = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise _bad("it is not base64") from error
    if len(packed) != _LAYOUT.size:
        raise _bad("it has the wrong length")
    if base64.urlsafe_b64encode(packed).decode("ascii").rstrip("=") != encoded:
        raise _bad("it is not spelled in the one allowed way")
    return packed


def _problem_of(capability: Capability) -> str | None:
    if not 0 <= capability.depth <= MAX_DEPTH:
        return "its depth is out of range"
    if not 0 <= capability.length <= MAX_LENGTH:
        return "its length is out of range"
    if capability.depth == 0 and capability.stored_length > SHARD_BYTES:
        return "its content does not fit into one shard"
    if capability.depth > 0 and capability.length == 0:
        return "it has a manifest of nothing"
    if capability.by_reference and (capability.padded or capability.bundle):
        return "its flags contradict each other"
    return None


def _bad(problem: str) -> ExpectedError:
    return ExpectedError(
        ErrorCode.BAD_MESSAGE,
        f"A reference to a file of the vault is damaged ({problem}); retry the job that made it.",
    )
