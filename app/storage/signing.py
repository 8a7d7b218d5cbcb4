"""Signing pairs of devices and owners, and sealing to a device: a narrow second door to libsodium beside ``cipher``.

Every signature is over a purpose and a message, so that what was signed for one purpose proves nothing for another.
IDENTITY.md, beside ``app.sync``, specifies what is computed here.
"""

from __future__ import annotations

from nacl import bindings
from nacl.exceptions import CryptoError
from nacl.public import PublicKey, SealedBox
from nacl.signing import SigningKey, VerifyKey

from app.core.errors import BugError, ErrorCode, ExpectedError
from app.storage.cipher import KEY_BYTES, derive

SIGNATURE_BYTES = 64
_ID_BYTES = 16
_NONCE_BYTES = 24


def device_id_of(public: bytes) -> str:
    """Return the id of the device that holds the secret half of ``public``: 32 hex digits of BLAKE2b."""
    return derive(b"", "HR1 device id", data=public, size=_ID_BYTES).hex()


def verify_signature(public: bytes, *, purpose: str, message: bytes, signature: bytes) -> bool:
    """Return whether the holder of ``public`` has signed ``message`` for ``purpose``."""
    try:
        VerifyKey(public).verify(_purposed(purpose, message), signature)
    except (CryptoError, ValueError, TypeError):
        return False
    return True


def seal_to_device(message: bytes, public: bytes) -> bytes:
    """Return ``message`` sealed so that only the device of ``public`` opens it (libsodium sealed box, random).

    Raises ``ExpectedError`` bad-message when ``public`` is no key.
    """
    try:
        return SealedBox(VerifyKey(public).to_curve25519_public_key()).encrypt(message)
    except (CryptoError, ValueError, TypeError, RuntimeError) as error:
        raise ExpectedError(ErrorCode.BAD_MESSAGE, "A device's public key is no key.") from error


class Signer:
    """An Ed25519 pair. ``seed`` is the secret half: 32 bytes."""

    def __init__(self, seed: bytes) -> None:
        if len(seed) != KEY_BYTES:
            raise BugError(f"a signing seed has {KEY_BYTES} bytes, not {len(seed)}")
        self.seed = seed
        self._key = SigningKey(seed)
        self.public = bytes(self._key.verify_key)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.public.hex()})"

    def sign(self, *, purpose: str, message: bytes) -> bytes:
        """Return the signature of ``message`` for ``purpose``."""
        return self._key.sign(_purposed(purpose, message)).signature


class DeviceKeys(Signer):
    """The pair of one device; its id follows from the public half."""

    def __init__(self, seed: bytes) -> None:
        super().__init__(seed)
        self.id = device_id_of(self.public)
        self._box = SealedBox(self._key.to_curve25519_private_key())

    def open_sealed(self, sealed: bytes) -> bytes:
        """Return what was sealed to this device; raises ``ExpectedError`` bad-message when it is for another."""
        try:
            return self._box.decrypt(sealed)
        except (CryptoError, ValueError, TypeError) as error:
            raise ExpectedError(ErrorCode.BAD_MESSAGE, "Something sealed is not for this device.") from error


def owner_signer(owner_secret: bytes) -> Signer:
    """Return the owner's signing pair."""
    return Signer(derive(owner_secret, "HR1 owner sign"))


def is_sealing_key(public: bytes) -> bool:
    """Return whether ``public`` can be sealed to."""
    try:
        SealedBox(PublicKey(public)).encrypt(b"")
    except (CryptoError, ValueError, TypeError, RuntimeError):
        return False
    return True


class MessageCipher:
    """One direction of an encrypted channel: each message once, in order (XChaCha20-Poly1305, counting nonce)."""

    def __init__(self, key: bytes, context: bytes) -> None:
        self._key = key
        self._context = context
        self._number = 0

    def seal(self, message: bytes) -> bytes:
        """Return the next message, sealed."""
        return bindings.crypto_aead_xchacha20poly1305_ietf_encrypt(message, self._context, self._nonce(), self._key)

    def open(self, sealed: bytes) -> bytes:
        """Return the next message; raises ``ExpectedError`` bad-message when it is not that."""
        try:
            return bindings.crypto_aead_xchacha20poly1305_ietf_decrypt(sealed, self._context, self._nonce(), self._key)
        except (CryptoError, ValueError, TypeError) as error:
            raise ExpectedError(ErrorCode.BAD_MESSAGE, "A message was changed on its way.") from error

    def _nonce(self) -> bytes:
        number, self._number = self._number, self._number + 1
        return number.to_bytes(_NONCE_BYTES, "big")


def _purposed(purpose: str, message: bytes) -> bytes:
    return b"hearthreel " + purpose.encode("ascii") + b"\0" + message
