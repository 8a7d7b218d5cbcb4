"""Pairing: a short code makes two devices that know nothing of each other trust each other. No I/O, no clock.

::

    inviter (shows the code)                                   joiner (was given the code)

    LISTENING ◄───────────── Hello(version, SPAKE2 message) ── start
      │ ──────────────────── Hello(version, SPAKE2 message) ──► GREETING
      ▼                                                          │  both have a key now: the same one
    GREETED   ◄───────────── Confirm(proof of the key) ─────────┘  only if the codes are the same
      │ wrong: one try less, Refusal(wrong-code)
      │ ──────────────────── Confirm(proof of the key) ───────► CONFIRMING
      ▼                                                          │ wrong: it fails, wrong-code
    CONFIRMED ◄── sealed: Join(device key, name, signature) ────┘
      │ event Asked ─► engine signs, stores ─► welcome()         │
      │ ─────── sealed: Welcome(owner, statements, address) ──► JOINING
      ▼                                                       STORING event Welcomed ─► engine checks, stores, joined()
    WELCOMED  ◄──────────────────────────── sealed: Joined ─────┘
      │                                                          ▼
    PAIRED                                                     PAIRED          at any time: Refusal(code) ─► FAILED

SPAKE2 lets whoever is between the two, or plays one of them, test one guess of the code for each run; a guess costs
one of ``MAX_TRIES``, then the code is void. A wrong guess yields a key that nobody else has, so what is recorded tells
nothing about the code later. The keys of the space pass only after both have proved that they know the code, sealed,
in order.

Each side saves before it sends: a connection that breaks leaves at worst a device that is listed and has not heard of
it; pairing it again heals that.

Rejected: comparing a number on both screens (a headless device has none); a long code in a QR alone (no camera); TLS
with a pinned certificate (the pin must come from somewhere: that is the code).
"""

from __future__ import annotations

import hashlib
import hmac
import re
import struct
from collections import deque
from collections.abc import Callable
from enum import StrEnum
from typing import TypeVar
from urllib.parse import parse_qs, urlsplit

import msgspec
from spake2 import SPAKE2_A, SPAKE2_B

from app.core.errors import BugError, ErrorCode, ExpectedError
from app.storage.cipher import OwnerKeys, derive
from app.storage.signing import DeviceKeys, MessageCipher, is_sealing_key, verify_signature
from app.sync.addresses import Address, parse_address
from app.sync.statements import MAX_NAME_CHARACTERS

PAIRING_VERSION = 1
MAX_TRIES = 3
CODE_LIFE_S = 600.0
MAX_PLAIN_BYTES = 1024
"""Of a message before the code is proved."""
MAX_SEALED_BYTES = 32 << 20
"""Of the welcome, which holds all statements of the space."""
HINT_DIGITS = 3
SECRET_DIGITS = 6
_CODE_DIGITS = HINT_DIGITS + SECRET_DIGITS
_SCHEME = "hearthreel"
_INVITER, _JOINER = b"hearthreel pairing 1 inviter", b"hearthreel pairing 1 joiner"
_PROOF = "pairing 1"
_LENGTH = struct.Struct(">I")
_KEY_BYTES = 32

T = TypeVar("T")
DrawBelow = Callable[[int], int]


class PairingCode(msgspec.Struct, frozen=True, kw_only=True):
    """The nine digits that one device shows and the other is given."""

    hint: str
    """Says in the clear which inviter it is."""
    secret: str
    """What both must know."""

    def __str__(self) -> str:
        return f"{self.hint}-{self.secret[:3]}-{self.secret[3:]}"

    def __repr__(self) -> str:
        return f"PairingCode({self.hint}-…)"


def draw_code(draw: DrawBelow) -> PairingCode:
    """Return a fresh code; ``draw(n)`` gives a random number below n."""
    digits = f"{draw(10**_CODE_DIGITS):0{_CODE_DIGITS}}"
    return PairingCode(hint=digits[:HINT_DIGITS], secret=digits[HINT_DIGITS:])


def code_address(code: PairingCode, address: Address | None) -> str:
    """Return the code and where to go with it as one text, for a QR code."""
    digits = code.hint + code.secret
    return f"{_SCHEME}://pair/{digits}" + (f"?at={address}" if address else "")


def parse_code(text: str) -> tuple[PairingCode, Address | None]:
    """Return the code that somebody typed or scanned, and the address that was with it.

    Raises ``ExpectedError`` wrong-code when it is none, bad-setting when the address is none.
    """
    address = None
    if text.strip().lower().startswith(f"{_SCHEME}:"):
        parts = urlsplit(text.strip())
        at = parse_qs(parts.query).get("at")
        address = parse_address(at[0]) if at else None
        text = parts.path
    digits = re.sub(r"[\s\-./]", "", text)
    if not re.fullmatch(rf"[0-9]{{{_CODE_DIGITS}}}", digits):
        raise ExpectedError(
            ErrorCode.WRONG_CODE, f"A code has {_CODE_DIGITS} digits, such as 417-220-935; the other device shows it."
        )
    return PairingCode(hint=digits[:HINT_DIGITS], secret=digits[HINT_DIGITS:]), address


class PairingOffer:
    """One code, and whether it still lets somebody in."""

    def __init__(self, code: PairingCode, *, now_s: float) -> None:
        self.code = code
        self.ends_at_s = now_s + CODE_LIFE_S
        self.tries_left = MAX_TRIES
        self.is_used = False

    def check_free(self, now_s: float) -> None:
        """Raise ``ExpectedError`` code-expired when the code lets nobody in any more."""
        self.check_valid(now_s)
        if self.is_used:
            raise _expired()

    def check_valid(self, now_s: float) -> None:
        """Raise ``ExpectedError`` code-expired when the code is void; one that lets somebody in just now is not."""
        if self.tries_left <= 0:
            raise ExpectedError(
                ErrorCode.CODE_EXPIRED,
                f"{MAX_TRIES} wrong codes were tried, so this one is void; somebody mistyped, or tried to get in. "
                "Nothing was given away. Run “hearthreel pair” again for a new code.",
            )
        if now_s >= self.ends_at_s:
            raise _expired()


def _expired() -> ExpectedError:
    return ExpectedError(
        ErrorCode.CODE_EXPIRED, "The code is no longer valid. Run “hearthreel pair” again for a new one."
    )


# Messages


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag="hello", forbid_unknown_fields=True):
    """The first message of each side."""

    version: int
    spake: bytes


class Confirm(msgspec.Struct, frozen=True, kw_only=True, tag="confirm", forbid_unknown_fields=True):
    """Proves that the sender has the key."""

    proof: bytes


class Refusal(msgspec.Struct, frozen=True, kw_only=True, tag="refusal", forbid_unknown_fields=True):
    """Ends the exchange; each side has its own sentences for the codes."""

    code: str


class Sealed(msgspec.Struct, frozen=True, kw_only=True, tag="sealed", forbid_unknown_fields=True):
    """Anything else."""

    data: bytes


class Join(msgspec.Struct, frozen=True, kw_only=True, tag="join", forbid_unknown_fields=True):
    """Who wants to join."""

    device: bytes
    name: str
    space: str
    """The space that it shares with other devices already; empty while it shares none."""
    statements: tuple[bytes, ...]
    """What it knows of that space: the inviter may not have heard that somebody who shut it out is out itself."""
    signature: bytes
    """Of what only these two can know, so that nobody brings in a key that is not its own."""


class Welcome(msgspec.Struct, frozen=True, kw_only=True, tag="welcome", forbid_unknown_fields=True):
    """The space: all that a new device needs."""

    owner_signing: bytes
    owner_sealing: bytes
    device: bytes
    """The inviter's public key."""
    statements: tuple[bytes, ...]
    """With the joiner's own: that it belongs to the space, and the vault key sealed to it."""
    addresses: tuple[Address, ...] = ()
    """Where the inviter listens for sessions."""

    @property
    def owner(self) -> OwnerKeys:
        """The owner's public keys."""
        return OwnerKeys(sealing=self.owner_sealing, signing=self.owner_signing)


class Joined(msgspec.Struct, frozen=True, kw_only=True, tag="joined", forbid_unknown_fields=True):
    """The joiner has stored everything."""


Plain = Hello | Confirm | Refusal | Sealed
Inner = Join | Welcome | Joined | Refusal


# Events


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody with the right code wants to join: answer with ``welcome`` or ``refuse``."""

    device: bytes
    name: str
    space: str = ""
    """The owner's public signing key of the space that it shares with other devices already, in hex."""
    statements: tuple[bytes, ...] = ()
    """What it knows of that space."""


class Welcomed(msgspec.Struct, frozen=True, kw_only=True):
    """The inviter has let this device in: store it and answer with ``joined``, or ``refuse``."""

    welcome: Welcome


class Paired(msgspec.Struct, frozen=True, kw_only=True):
    """Both sides have stored everything."""


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """It is over; nothing was stored after this."""

    error: ExpectedError


Event = Asked | Welcomed | Paired | Failed


class State(StrEnum):
    """Where an exchange stands; see the drawing."""

    LISTENING = "listening"
    GREETED = "greeted"
    CONFIRMED = "confirmed"
    WELCOMED = "welcomed"
    GREETING = "greeting"
    CONFIRMING = "confirming"
    JOINING = "joining"
    STORING = "storing"
    PAIRED = "paired"
    FAILED = "failed"


OTHER_SPACE = (
    "This device shares its films with devices of another owner (or of another first start) already, and two libraries "
    "are not mixed. Use a fresh data directory (--data-dir), and bring films over with “hearthreel export” and "
    "“hearthreel add”. Nothing was changed."
)
_SENTENCES = {
    ErrorCode.WRONG_CODE: "The code is wrong, or somebody between the two devices tried to listen. Nothing was given "
    "away. Compare the code with the one that the other device shows, and try again.",
    ErrorCode.CODE_EXPIRED: "The other device does not accept this code any more. Run “hearthreel pair” there again "
    "for a new one.",
    ErrorCode.DATA_TOO_NEW: "The two devices have versions of Hearthreel that cannot be paired; update both.",
    ErrorCode.REVOKED: "This device was shut out of that space, and its key stays out. To let it in again, end "
    "Hearthreel here, delete device.json and keys/identity.json in the data directory (it becomes a new device; its "
    "films stay), and pair it.",
    ErrorCode.OTHER_SPACE: OTHER_SPACE,
    ErrorCode.NOT_A_MEMBER: "The other device does not belong to its space itself, so it cannot let anybody in.",
}
_BROKEN = (
    "The other side said something that makes no sense; nothing was given away. Try again, with one version on both."
)
_UNKNOWN = "The other device could not go on; look there for what it says."


class _Exchange:
    """What both sides do alike: frames, keys, sealing, failing."""

    def __init__(self, code: PairingCode, *, keys: DeviceKeys, state: State, spake: SPAKE2_A | SPAKE2_B) -> None:
        self._keys = keys
        self.state = state
        self._spake = spake
        self._hello = Hello(version=PAIRING_VERSION, spake=bytes(spake.start()))
        self._code = code
        self._arrived = bytearray()
        self._outbox = bytearray()
        self._events: deque[Event] = deque()
        self._base = b""
        self._seals: MessageCipher | None = None
        self._opens: MessageCipher | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come of it."""
        return self.state in {State.PAIRED, State.FAILED}

    def data_to_send(self) -> bytes:
        """Return, once, what is to be sent."""
        data = bytes(self._outbox)
        self._outbox.clear()
        return data

    def next_event(self) -> Event | None:
        """Return what happened, oldest first."""
        return self._events.popleft() if self._events else None

    def receive_data(self, data: bytes, *, now_s: float) -> None:
        """Take bytes of the other side, however they were cut."""
        self._arrived += data
        while not self.is_over and (frame := self._next_frame()) is not None:
            try:
                self._take(_decode(frame, _plain), now_s)
            except ExpectedError as error:
                self.refuse(error)

    def connection_lost(self) -> None:
        """Note that the other side is gone."""
        if not self.is_over:
            self._fail(ExpectedError(ErrorCode.UNREACHABLE, "The connection to the other device broke; try again."))

    def refuse(self, error: ExpectedError) -> None:
        """End it, and tell the other side why in a word."""
        if self.is_over:
            return
        refusal = Refusal(code=str(error.code))
        if self.state in {State.CONFIRMED, State.WELCOMED, State.STORING}:
            self._send_sealed(refusal)
        else:
            self._send(refusal)
        self._fail(error)

    def _take(self, message: Plain, now_s: float) -> None:
        raise NotImplementedError

    def _next_frame(self) -> bytes | None:
        if len(self._arrived) < _LENGTH.size:
            return None
        (size,) = _LENGTH.unpack_from(self._arrived)
        if size > (MAX_SEALED_BYTES if self._opens else MAX_PLAIN_BYTES):
            self.refuse(_broken())
            return None
        if len(self._arrived) < _LENGTH.size + size:
            return None
        frame = bytes(self._arrived[_LENGTH.size : _LENGTH.size + size])
        del self._arrived[: _LENGTH.size + size]
        return frame

    def _send(self, message: Plain) -> None:
        data = _encode(message)
        self._outbox += _LENGTH.pack(len(data)) + data

    def _send_sealed(self, message: Inner) -> None:
        if self._seals is None:
            raise BugError("nothing can be sealed before both have confirmed")
        self._send(Sealed(data=self._seals.seal(_encode(message))))

    def _open(self, sealed: Sealed) -> Inner:
        if self._opens is None:
            raise _broken()
        inner = _decode(self._opens.open(sealed.data), _inner)
        if isinstance(inner, Refusal):
            raise _Refused(inner.code)
        return inner

    def _fail(self, error: ExpectedError) -> None:
        self.state = State.FAILED
        self._events.append(Failed(error=error))

    def _agree(self, theirs: Hello, *, joiner: Hello, inviter: Hello) -> None:
        """Derive the keys from the code and both greetings."""
        if theirs.version != PAIRING_VERSION:
            raise ExpectedError(ErrorCode.DATA_TOO_NEW, _SENTENCES[ErrorCode.DATA_TOO_NEW])
        try:
            shared = self._spake.finish(theirs.spake)
        except Exception as error:  # its door: a point that is none raises what its arithmetic raises
            raise _broken() from error
        transcript = hashlib.sha256(_encode(joiner) + _encode(inviter)).digest()
        self._base = derive(shared, "HR1 pairing", data=transcript)

    def _proof_of(self, side: bytes) -> bytes:
        return derive(self._base, "HR1 pair proof", data=side)

    def _check_proof(self, confirm: Confirm, side: bytes) -> bool:
        return hmac.compare_digest(confirm.proof, self._proof_of(side))

    def _start_sealing(self, *, mine: bytes, theirs: bytes) -> None:
        self._seals = MessageCipher(derive(self._base, "HR1 pair seal", data=mine), mine)
        self._opens = MessageCipher(derive(self._base, "HR1 pair seal", data=theirs), theirs)

    def _to_sign(self) -> bytes:
        return derive(self._base, "HR1 pair bind")


class Inviter(_Exchange):
    """The side that shows the code, for one connection."""

    def __init__(self, offer: PairingOffer, *, keys: DeviceKeys) -> None:
        spake = SPAKE2_A(offer.code.secret.encode(), idA=_INVITER, idB=_JOINER)
        super().__init__(offer.code, keys=keys, state=State.LISTENING, spake=spake)
        self._offer = offer
        self._has_taken = False
        """Whether this connection is the one that the code let in."""

    def welcome(self, welcome: Welcome) -> None:
        """Let the joiner in; its statement is stored already."""
        if self.state is not State.CONFIRMED:
            raise BugError(f"nobody asks to be welcomed while {self.state}")
        self._send_sealed(welcome)
        self.state = State.WELCOMED

    def _take(self, message: Plain, now_s: float) -> None:
        match self.state, message:
            case _, Refusal():
                self._fail(_refused(message.code))
            case State.LISTENING, Hello():
                self._offer.check_free(now_s)
                self._agree(message, joiner=message, inviter=self._hello)
                self._send(self._hello)
                self.state = State.GREETED
            case State.GREETED, Confirm():
                self._confirm(message, now_s)
            case ((State.CONFIRMED | State.WELCOMED), Sealed()):
                self._take_inner(message)
            case _:
                raise _broken()

    def _confirm(self, confirm: Confirm, now_s: float) -> None:
        self._offer.check_free(now_s)
        if not self._check_proof(confirm, _JOINER):
            self._offer.tries_left -= 1
            left = self._offer.tries_left
            raise ExpectedError(
                ErrorCode.WRONG_CODE,
                f"A device gave a wrong code, or somebody between the two tried to listen; nothing was given away. "
                f"{left} {'try' if left == 1 else 'tries'} left.",
            )
        self._send(Confirm(proof=self._proof_of(_INVITER)))
        self._start_sealing(mine=_INVITER, theirs=_JOINER)
        self.state = State.CONFIRMED

    def _take_inner(self, sealed: Sealed) -> None:
        try:
            inner = self._open(sealed)
        except _Refused as refused:
            self._fail(_refused(refused.code))
            return
        match self.state, inner:
            case State.CONFIRMED, Join() if not self._offer.is_used:
                self._check_join(inner)
                self._offer.is_used = self._has_taken = True
                self._events.append(
                    Asked(device=inner.device, name=inner.name, space=inner.space, statements=inner.statements)
                )
            case State.WELCOMED, Joined():
                self.state = State.PAIRED
                self._events.append(Paired())
            case _:
                raise _broken()

    def _fail(self, error: ExpectedError) -> None:
        if self._has_taken:
            self._offer.is_used = False  # whoever had the code may try again
        super()._fail(error)

    def _check_join(self, join: Join) -> None:
        is_space = len(join.space) in {0, 2 * _KEY_BYTES}
        is_name = 1 <= len(join.name) <= MAX_NAME_CHARACTERS and join.name.isprintable()
        is_own = verify_signature(join.device, purpose=_PROOF, message=self._to_sign(), signature=join.signature)
        if not (is_space and is_name and is_own):
            raise _broken()


class Joiner(_Exchange):
    """The side that was given the code."""

    def __init__(
        self,
        code: PairingCode,
        *,
        keys: DeviceKeys,
        name: str,
        space: str = "",
        statements: tuple[bytes, ...] = (),
    ) -> None:
        spake = SPAKE2_B(code.secret.encode(), idA=_INVITER, idB=_JOINER)
        super().__init__(code, keys=keys, state=State.GREETING, spake=spake)
        self._name = name
        self._space = space
        self._statements = statements
        self._send(self._hello)

    def joined(self) -> None:
        """Tell the inviter that everything is stored."""
        if self.state is not State.STORING:
            raise BugError(f"nothing was to be stored while {self.state}")
        self._send_sealed(Joined())
        self.state = State.PAIRED
        self._events.append(Paired())

    def _take(self, message: Plain, now_s: float) -> None:  # noqa: ARG002 (a code that was given has no clock here)
        match self.state, message:
            case _, Refusal():
                self._fail(_refused(message.code))
            case State.GREETING, Hello():
                self._agree(message, joiner=self._hello, inviter=message)
                self._send(Confirm(proof=self._proof_of(_JOINER)))
                self.state = State.CONFIRMING
            case State.CONFIRMING, Confirm():
                self._confirm(message)
            case State.JOINING, Sealed():
                self._take_inner(message)
            case _:
                raise _broken()

    def _confirm(self, confirm: Confirm) -> None:
        if not self._check_proof(confirm, _INVITER):
            raise ExpectedError(ErrorCode.WRONG_CODE, _SENTENCES[ErrorCode.WRONG_CODE])
        self._start_sealing(mine=_JOINER, theirs=_INVITER)
        signature = self._keys.sign(purpose=_PROOF, message=self._to_sign())
        join = Join(
            device=self._keys.public,
            name=self._name,
            space=self._space,
            statements=self._statements,
            signature=signature,
        )
        self._send_sealed(join)
        self.state = State.JOINING

    def _take_inner(self, sealed: Sealed) -> None:
        try:
            inner = self._open(sealed)
        except _Refused as refused:
            self._fail(_refused(refused.code))
            return
        if not isinstance(inner, Welcome) or not _is_welcome(inner):
            raise _broken()
        self.state = State.STORING
        self._events.append(Welcomed(welcome=inner))


class _Refused(Exception):  # noqa: N818 (not an error of ours: the other side's word)
    """The other side ended it, sealed."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def _is_welcome(welcome: Welcome) -> bool:
    keys = (welcome.owner_signing, welcome.owner_sealing, welcome.device)
    ports = all(1 <= one.port <= 65535 and len(one.host) <= 255 for one in welcome.addresses)
    return all(len(key) == _KEY_BYTES for key in keys) and is_sealing_key(welcome.owner_sealing) and ports


def _refused(code: str) -> ExpectedError:
    """Return what the other side's word means here; sentences are ours, since anybody could have sent it."""
    try:
        known = ErrorCode(code)
    except ValueError:
        known = ErrorCode.BAD_MESSAGE
    return ExpectedError(known, _SENTENCES.get(known, _UNKNOWN))


def _broken() -> ExpectedError:
    return ExpectedError(ErrorCode.BAD_MESSAGE, _BROKEN)


_encoder = msgspec.msgpack.Encoder()
_plain = msgspec.msgpack.Decoder(Plain)
_inner = msgspec.msgpack.Decoder(Inner)


def _encode(message: Plain | Inner) -> bytes:
    return _encoder.encode(message)


def _decode(data: bytes, decoder: msgspec.msgpack.Decoder[T]) -> T:
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _broken() from error
