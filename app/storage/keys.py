"""The secrets of the space on this device: made at the first start, kept in files that only this user can read.

::

    DATA/keys/owner-secret.json        256 random bits, until the user has confirmed the words that stand for them
    DATA/keys/owner.json               the owner's public keys
    DATA/keys/vault-key.json           the vault key that new content is sealed with
    DATA/keys/vault-key.sealed.json    the same key, sealed to the owner's public key
    DATA/keys/next.json                keys that are about to take the place of these (another owner's, a rotated one)

The order of writing is this order, each file whole and durable before the next, so that a first start that was killed
goes on where it stopped. Keys are replaced only by way of ``next.json``: once it is durable they are replaced, however
often it takes (``open_keys`` finishes what was cut short); it is deleted last. Films stay readable without any of
these files, because capabilities carry what opens them.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from app.core.database import disk_error_to_ours
from app.core.encoding import decode_canonical, encode_canonical
from app.core.errors import BugError, ErrorCode, ExpectedError
from app.storage.cipher import KEY_BYTES, OwnerKeys, VaultKey, open_as_owner, owner_keys, seal_to_owner
from app.storage.durable import make_folder, sync_folder, write_durably

KEYS_SCHEMA = 1

RandomBytes = Callable[[int], bytes]


class _Stored(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    schema: int = KEYS_SCHEMA


class _OwnerSecret(_Stored, frozen=True, kw_only=True):
    secret: str


class _Owner(_Stored, frozen=True, kw_only=True):
    sealing: str
    signing: str


class _VaultKeyFile(_Stored, frozen=True, kw_only=True):
    id: str
    key: str


class _SealedVaultKey(_Stored, frozen=True, kw_only=True):
    id: str
    sealing: str
    """The public key it is sealed to."""
    sealed: str


class _Next(_Stored, frozen=True, kw_only=True):
    sealing: str
    signing: str
    id: str
    key: str


class _Schema(msgspec.Struct, frozen=True, kw_only=True):
    schema: int


S = TypeVar("S", bound=_Stored)
T = TypeVar("T", bound=msgspec.Struct)


class SpaceKeys(msgspec.Struct, frozen=True, kw_only=True):
    """What this device holds of the space's keys."""

    vault: VaultKey
    owner: OwnerKeys
    words_pending: bool
    """The owner's secret still waits on this device for the user to confirm its words."""


def open_keys(folder: Path, *, vault_in_use: bool, random: RandomBytes = secrets.token_bytes) -> SpaceKeys:
    """Return the keys in ``folder``; make them at the very first start.

    ``vault_in_use`` says whether the vault holds shards: then a missing key is an error, not a first start, unless the
    sealed copy and the owner's secret are still there. Raises ``ExpectedError`` not-found (a file is gone), unreadable
    (damaged or foreign), data-too-new, or a disk error; nothing that exists is overwritten but by ``adopt_keys``.
    """
    make_folder(folder)
    files = _KeyFiles(folder)
    if files.next.exists():
        _replace(files)
    owner = _open_owner(files, vault_in_use=vault_in_use, random=random)
    vault = _open_vault_key(files, owner, vault_in_use=vault_in_use, random=random)
    return SpaceKeys(vault=vault, owner=owner, words_pending=files.secret.exists())


def read_owner_secret(folder: Path) -> bytes:
    """Return the owner's secret while it waits here; raises ``ExpectedError`` not-found once it was confirmed."""
    files = _KeyFiles(folder)
    if not files.secret.exists():
        raise ExpectedError(
            ErrorCode.NOT_FOUND, "The owner's secret is no longer on this device: its words were confirmed."
        )
    return files.read_secret()


def adopt_keys(folder: Path, *, owner: OwnerKeys, vault: VaultKey) -> SpaceKeys:
    """Replace the keys of this device: those of another owner's space, or a rotated vault key.

    All of it is durable when this returns, and after a crash either all or nothing is replaced. The secret of another
    owner that still waited here is deleted. Raises ``ExpectedError`` as ``open_keys``.
    """
    files = _KeyFiles(folder)
    following = _Next(sealing=owner.sealing.hex(), signing=owner.signing.hex(), id=vault.id, key=vault.key.hex())
    write_durably(files.next, encode_canonical(following) + b"\n")
    _replace(files)
    return open_keys(folder, vault_in_use=True)


def _replace(files: _KeyFiles) -> None:
    owner, vault = files.read_next()
    if files.secret.exists() and owner_keys(files.read_secret()) != owner:
        _delete(files.secret)
    _put(files.owner, _Owner(sealing=owner.sealing.hex(), signing=owner.signing.hex()))
    _put(files.vault, _VaultKeyFile(id=vault.id, key=vault.key.hex()))
    sealed = seal_to_owner(vault.key, owner)
    _put(files.sealed, _SealedVaultKey(id=vault.id, sealing=owner.sealing.hex(), sealed=sealed.hex()))
    _delete(files.next)


def forget_owner_secret(folder: Path) -> None:
    """Delete the owner's secret from this device, after the user has confirmed its words."""
    _delete(_KeyFiles(folder).secret)


def _delete(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
        sync_folder(path.parent)
    except OSError as error:
        raise disk_error_to_ours(error, path) from error


class _KeyFiles:
    """The files, read strictly."""

    def __init__(self, folder: Path) -> None:
        self.secret = folder / "owner-secret.json"
        self.owner = folder / "owner.json"
        self.vault = folder / "vault-key.json"
        self.sealed = folder / "vault-key.sealed.json"
        self.next = folder / "next.json"

    def read_secret(self) -> bytes:
        return _key_bytes(self.secret, _read(self.secret, _OwnerSecret).secret)

    def read_owner(self) -> OwnerKeys:
        stored = _read(self.owner, _Owner)
        return OwnerKeys(sealing=_key_bytes(self.owner, stored.sealing), signing=_key_bytes(self.owner, stored.signing))

    def read_vault_key(self) -> VaultKey:
        stored = _read(self.vault, _VaultKeyFile)
        key = VaultKey(_key_bytes(self.vault, stored.key))
        if key.id != stored.id:
            raise _damaged(self.vault, "the key does not fit its id")
        return key

    def read_next(self) -> tuple[OwnerKeys, VaultKey]:
        stored = _read(self.next, _Next)
        owner = OwnerKeys(sealing=_key_bytes(self.next, stored.sealing), signing=_key_bytes(self.next, stored.signing))
        key = VaultKey(_key_bytes(self.next, stored.key))
        if key.id != stored.id:
            raise _damaged(self.next, "the key does not fit its id")
        return owner, key

    def unseal_vault_key(self) -> VaultKey:
        stored = _read(self.sealed, _SealedVaultKey)
        sealed = _hex_bytes(self.sealed, stored.sealed)
        opened = open_as_owner(sealed, self.read_secret())
        if len(opened) != KEY_BYTES or VaultKey(opened).id != stored.id:
            raise _damaged(self.sealed, "the key does not fit its id")
        return VaultKey(opened)


def _open_owner(files: _KeyFiles, *, vault_in_use: bool, random: RandomBytes) -> OwnerKeys:
    if files.owner.exists():
        owner = files.read_owner()
        if files.secret.exists() and owner_keys(files.read_secret()) != owner:
            raise _damaged(files.secret, "it does not belong to owner.json")
        return owner
    if not files.secret.exists():
        if vault_in_use or files.vault.exists() or files.sealed.exists():
            raise _gone(files.owner)
        _write(files.secret, _OwnerSecret(secret=random(KEY_BYTES).hex()))
    owner = owner_keys(files.read_secret())
    _write(files.owner, _Owner(sealing=owner.sealing.hex(), signing=owner.signing.hex()))
    return owner


def _open_vault_key(files: _KeyFiles, owner: OwnerKeys, *, vault_in_use: bool, random: RandomBytes) -> VaultKey:
    if files.vault.exists():
        key = files.read_vault_key()
    elif files.sealed.exists() and files.secret.exists():
        key = files.unseal_vault_key()
    elif files.sealed.exists() or vault_in_use:
        raise _gone(files.vault)
    else:
        key = VaultKey(random(KEY_BYTES))
    if not files.vault.exists():
        _write(files.vault, _VaultKeyFile(id=key.id, key=key.key.hex()))
    if not files.sealed.exists():
        sealed = seal_to_owner(key.key, owner)
        _write(files.sealed, _SealedVaultKey(id=key.id, sealing=owner.sealing.hex(), sealed=sealed.hex()))
    return key


def _write(path: Path, value: _Stored) -> None:
    if path.exists():
        raise BugError(f"{path} would be overwritten")
    _put(path, value)


def _put(path: Path, value: _Stored) -> None:
    write_durably(path, encode_canonical(value) + b"\n")


def _read(path: Path, kind: type[S]) -> S:
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise _gone(path) from error
    except OSError as error:
        raise ExpectedError(
            ErrorCode.UNREADABLE, f"{path} cannot be read ({error.strerror}); allow this user to read it."
        ) from error
    schema = _decode(path, data, _Schema).schema
    if schema > KEYS_SCHEMA:
        raise ExpectedError(
            ErrorCode.DATA_TOO_NEW, f"{path} was written by a newer version of Hearthreel; update this installation."
        )
    return _decode(path, data, kind)


def _decode(path: Path, data: bytes, kind: type[T]) -> T:
    try:
        return decode_canonical(data, kind)
    except ExpectedError as error:
        raise _damaged(path, "its content makes no sense") from error


def _hex_bytes(path: Path, text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise _damaged(path, "it is not hexadecimal") from error


def _key_bytes(path: Path, text: str) -> bytes:
    key = _hex_bytes(path, text)
    if len(key) != KEY_BYTES:
        raise _damaged(path, "a key has the wrong length")
    return key


def _damaged(path: Path, problem: str) -> ExpectedError:
    return ExpectedError(
        ErrorCode.UNREADABLE,
        f"{path} is damaged ({problem}). It was left as it is and no film is lost: restore the folder “keys” "
        "from a backup, or start afresh with another --data-dir.",
    )


def _gone(path: Path) -> ExpectedError:
    return ExpectedError(
        ErrorCode.NOT_FOUND,
        f"{path} is gone although this data directory was in use. Nothing was changed and no film is lost: restore "
        "the folder “keys” from a backup, or start afresh with another --data-dir.",
    )
