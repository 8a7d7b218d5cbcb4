"""The identity of this device: an Ed25519 pair, made at the first start, and the id that follows from it.

::

    DATA/keys/identity.json     the public key, and where its secret half lies
    keyring or DATA/keys/device-….secret      the secret half

The secret is written before ``identity.json``, so that a first start that was killed makes a fresh pair and nothing is
half. The id is BLAKE2b of the public key: nobody can claim another device's id, and nothing has to bind the two.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

import msgspec

from app.core.encoding import decode_canonical, encode_canonical
from app.core.errors import ErrorCode, ExpectedError
from app.storage.durable import make_folder, write_durably
from app.storage.secret_store import SecretStore, choose_secret_store, describe_place, open_secret_store
from app.storage.signing import DeviceKeys

IDENTITY_SCHEMA = 1
_SEED_BYTES = 32

RandomBytes = Callable[[int], bytes]
ChooseStore = Callable[[Path], SecretStore]


class _IdentityFile(msgspec.Struct, frozen=True, kw_only=True):
    public: str
    place: str
    schema: int = IDENTITY_SCHEMA


class DeviceIdentity:
    """This device's keys, and where they came from."""

    def __init__(self, keys: DeviceKeys, *, place: str, folder: Path) -> None:
        self.keys = keys
        self.place = place
        self._folder = folder

    @property
    def id(self) -> str:
        """The device's id."""
        return self.keys.id

    @property
    def place_in_words(self) -> str:
        """Where the secret half lies, as `doctor` says it."""
        return describe_place(self.place, self._folder)


def open_identity(
    folder: Path, *, random: RandomBytes = secrets.token_bytes, choose: ChooseStore = choose_secret_store
) -> DeviceIdentity:
    """Return the identity in ``folder``; make it at the very first start.

    Raises ``ExpectedError`` unreadable (damaged, or a keyring that does not answer), not-found (the secret half is
    gone), data-too-new, or a disk error; nothing that exists is ever overwritten.
    """
    path = folder / "identity.json"
    stored = _read(path)
    if stored is None:
        return make_identity(folder, random=random, choose=choose)
    try:
        public = bytes.fromhex(stored.public)
    except ValueError as error:
        raise _damaged(path) from error
    return DeviceIdentity(_keys_of(path, public, stored.place), place=stored.place, folder=folder)


def make_identity(
    folder: Path, *, random: RandomBytes = secrets.token_bytes, choose: ChooseStore = choose_secret_store
) -> DeviceIdentity:
    """Make a new identity, in place of the one that is there, if any; raises ``ExpectedError`` disk errors."""
    make_folder(folder)
    keys = DeviceKeys(random(_SEED_BYTES))
    store = choose(folder)
    store.put(_name_of(keys.public), keys.seed)
    stored = _IdentityFile(public=keys.public.hex(), place=store.place)
    write_durably(folder / "identity.json", encode_canonical(stored) + b"\n")
    return DeviceIdentity(keys, place=store.place, folder=folder)


def _keys_of(path: Path, public: bytes, place: str) -> DeviceKeys:
    seed = open_secret_store(place, path.parent).get(_name_of(public))
    if seed is None:
        raise ExpectedError(
            ErrorCode.NOT_FOUND,
            f"The secret key of this device is gone from {describe_place(place, path.parent)}. Restore it from a "
            f"backup; or delete {path} and device.json to become a new device, which must be paired again. No film is "
            "lost.",
        )
    if len(seed) != _SEED_BYTES or DeviceKeys(seed).public != public:
        raise _damaged(path)
    return DeviceKeys(seed)


def _name_of(public: bytes) -> str:
    return f"device-{public.hex()[:32]}"


def _read(path: Path) -> _IdentityFile | None:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ExpectedError(
            ErrorCode.UNREADABLE, f"{path} cannot be read ({error.strerror}); allow this user to read it."
        ) from error
    try:
        stored = decode_canonical(data, _IdentityFile)
    except ExpectedError as error:
        raise _damaged(path) from error
    if stored.schema > IDENTITY_SCHEMA:
        raise ExpectedError(
            ErrorCode.DATA_TOO_NEW, f"{path} was written by a newer version of Hearthreel; update this installation."
        )
    return stored


def _damaged(path: Path) -> ExpectedError:
    return ExpectedError(
        ErrorCode.UNREADABLE,
        f"{path} is damaged, or does not fit this device's secret key. It was left as it is and no film is lost: "
        "restore the folder “keys” from a backup.",
    )
