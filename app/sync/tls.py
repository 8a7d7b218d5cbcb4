"""TLS 1.3 between device keys, without I/O; the one door to OpenSSL.

Each side has a certificate that is nothing but its Ed25519 public key, signed by itself: names, dates and issuers in it
are ignored, and there is no authority. What counts is that the handshake proves the private key, and that the caller
accepts the public one. Both happen within the handshake: who is not accepted gets an alert and nothing else. Python's
own ``ssl`` cannot ask a question about a certificate that no authority signed, which is why pyOpenSSL does this.

There are no tickets, no resumption and no early data: each connection asks anew whether the peer still belongs here.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from enum import Enum, auto
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.x509.oid import NameOID
from OpenSSL import SSL

_RECORD_BYTES: Final = 16 * 1024
_FROM: Final = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
_UNTIL: Final = dt.datetime(9999, 12, 31, tzinfo=dt.UTC)

AcceptKey = Callable[[bytes], bool]
"""Whether a peer with this public key (32 bytes) is let in."""


class TlsEnd(Enum):
    """Why a TLS connection cannot go on."""

    REFUSED = auto()
    """The peer's key is not accepted here, or it has none."""
    BY_PEER = auto()
    """The peer said so; before it says welcome, that means that it does not accept our key."""
    BROKEN = auto()
    """What came is not TLS."""


class TlsEndedError(Exception):
    """The TLS connection cannot go on."""

    def __init__(self, why: TlsEnd) -> None:
        super().__init__(why.name)
        self.why = why


class TlsIdentity:
    """A device's key as TLS wants it."""

    def __init__(self, seed: bytes) -> None:
        """``seed`` is the Ed25519 private key, 32 bytes."""
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self._certificate = _certificate_of(self._key)
        self.public_key = self._key.public_key().public_bytes_raw()

    def context(self, accept: AcceptKey) -> SSL.Context:
        """Return what a connection of this device needs that lets in whom ``accept`` accepts."""
        context = SSL.Context(SSL.TLS_METHOD)
        context.set_min_proto_version(SSL.TLS1_3_VERSION)
        context.use_certificate(self._certificate)
        context.use_privatekey(self._key)
        context.set_options(SSL.OP_NO_TICKET)
        context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
        context.set_verify(
            SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT,
            lambda _connection, certificate, _error, _depth, _ok: _is_accepted(certificate, accept),
        )
        return context


def _certificate_of(key: Ed25519PrivateKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "device")])
    builder = x509.CertificateBuilder(subject_name=name, issuer_name=name, public_key=key.public_key(), serial_number=1)
    return builder.not_valid_before(_FROM).not_valid_after(_UNTIL).sign(key, None)


def _is_accepted(certificate: object, accept: AcceptKey) -> bool:
    key = _key_in(certificate)
    return key is not None and accept(key)


def _key_in(certificate: object) -> bytes | None:
    """Return the device key of a certificate; None for any other kind of key."""
    try:
        key = certificate.to_cryptography().public_key()  # type: ignore[attr-defined]
    except ValueError:
        return None
    return key.public_bytes_raw() if isinstance(key, Ed25519PublicKey) else None


class TlsPipe:
    """One end of a TLS connection: cipher text in and out on one side, plain bytes on the other."""

    def __init__(self, identity: TlsIdentity, *, is_server: bool, accept: AcceptKey) -> None:
        self._accept = accept
        self._tls = SSL.Connection(identity.context(accept), None)
        if is_server:
            self._tls.set_accept_state()
        else:
            self._tls.set_connect_state()

    def feed(self, data: memoryview) -> None:
        """Take cipher text from the peer."""
        if data:
            self._tls.bio_write(data)

    def outgoing(self, most: int) -> bytes:
        """Return cipher text for the peer, at most ``most`` bytes; empty when there is none."""
        try:
            return self._tls.bio_read(most)
        except SSL.Error:
            return b""

    def shake_hands(self) -> bytes | None:
        """Go on with the handshake; returns the peer's public key when it has proven it, None while more is needed.

        Raises ``TlsEndedError``; the alert that the peer is to get is in ``outgoing`` then.
        """
        try:
            self._tls.do_handshake()
        except SSL.WantReadError:
            return None
        except SSL.Error as error:
            raise TlsEndedError(_why(error)) from error
        return self._proven_key()

    def _proven_key(self) -> bytes:
        certificate = self._tls.get_peer_certificate()
        key = None if certificate is None else _key_in(certificate)
        if key is None or not self._accept(key):
            raise TlsEndedError(TlsEnd.REFUSED)
        return key

    def read_into(self, room: memoryview) -> int:
        """Write plain bytes from the peer into ``room`` and return how many; 0 when there are none yet."""
        try:
            return self._tls.recv_into(room, min(len(room), _RECORD_BYTES))
        except SSL.WantReadError:
            return 0
        except SSL.Error as error:
            raise TlsEndedError(_why(error)) from error

    def write(self, data: memoryview) -> int:
        """Encrypt some of ``data`` for the peer; returns how many bytes were taken, at least one."""
        return self._tls.send(data[:_RECORD_BYTES])


def _why(error: SSL.Error) -> TlsEnd:
    words = _words(error)
    if "certificate verify failed" in words or "peer did not return a certificate" in words:
        return TlsEnd.REFUSED
    return TlsEnd.BY_PEER if isinstance(error, SSL.ZeroReturnError) or " alert " in words else TlsEnd.BROKEN


def _words(error: SSL.Error) -> str:
    """Return what OpenSSL says; it hands over a list of (library, function, reason)."""
    return " ".join(str(part) for entry in error.args for part in _flat(entry)).lower()


def _flat(entry: object) -> list[object]:
    if isinstance(entry, (list, tuple)):
        return [part for one in entry for part in _flat(one)]
    return [entry]
