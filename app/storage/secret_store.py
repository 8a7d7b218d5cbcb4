"""Where small secrets of this device lie: in the system's keyring, or in files that only this user can read.

::

    first start ──► does the keyring work without asking? ──yes──► keyring ┐ written down with the identity, and kept:
                                    └──no──► file ─────────────────────────┘ a secret does not wander by itself

The one door to ``keyring``. A keyring counts as usable when it is one of the system's own, is not locked, and gives
back what was put into it; nothing here makes it ask the user. ``HEARTHREEL_SECRETS=file`` forgoes it (tests, services).
"""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from app.core.errors import ErrorCode, ExpectedError
from app.storage.durable import make_folder, write_durably

if TYPE_CHECKING:
    from keyring.backend import KeyringBackend

SECRETS_VARIABLE = "HEARTHREEL_SECRETS"
FILE = "file"
KEYRING = "keyring"
_SERVICE = "hearthreel"
_OURS = {
    "keyring.backends.macOS",
    "keyring.backends.Windows",
    "keyring.backends.SecretService",
    "keyring.backends.kwallet",
}


class SecretStore(Protocol):
    """Secrets by name."""

    @property
    def place(self) -> str:
        """``file`` or ``keyring``."""
        ...

    def get(self, name: str) -> bytes | None:
        """Return a secret, None when there is none; raises ``ExpectedError`` when the store does not answer."""
        ...

    def put(self, name: str, secret: bytes) -> None:
        """Keep a secret, durably; raises ``ExpectedError``."""
        ...

    def remove(self, name: str) -> None:
        """Forget a secret, if it is there."""
        ...


class FileSecrets:
    """Files of mode 0600 in ``folder``: ``NAME.secret``, the secret in hex."""

    place = FILE

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, name: str) -> bytes | None:
        path = self._path(name)
        try:
            return bytes.fromhex(path.read_text("ascii"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise ExpectedError(
                ErrorCode.UNREADABLE,
                f"{path} cannot be read ({error}). It was left as it is: restore the folder “keys” from a backup.",
            ) from error

    def put(self, name: str, secret: bytes) -> None:
        make_folder(self._folder)
        write_durably(self._path(name), secret.hex().encode() + b"\n")

    def remove(self, name: str) -> None:
        with contextlib.suppress(OSError):
            self._path(name).unlink()

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.secret"


class KeyringSecrets:
    """Entries of the system's keyring under the service “hearthreel”."""

    place = KEYRING

    def __init__(self, backend: KeyringBackend) -> None:
        self._backend = backend

    def get(self, name: str) -> bytes | None:
        with self._translated():
            self._check_silent()
            text = self._backend.get_password(_SERVICE, name)
            return base64.b64decode(text, validate=True) if text is not None else None

    def put(self, name: str, secret: bytes) -> None:
        with self._translated():
            self._check_silent()
            self._backend.set_password(_SERVICE, name, base64.b64encode(secret).decode())

    def remove(self, name: str) -> None:
        with contextlib.suppress(ExpectedError), self._translated():
            self._check_silent()
            self._backend.delete_password(_SERVICE, name)

    def _check_silent(self) -> None:
        if _would_ask(self._backend):
            raise _silent("it is locked")

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except ExpectedError:
            raise
        except Exception as error:  # the door of a library whose backends raise what their systems raise
            raise _silent(str(error) or type(error).__name__) from error


def open_secret_store(place: str, folder: Path) -> SecretStore:
    """Return the store that a secret was put into earlier; raises ``ExpectedError`` when there is no such any more."""
    if place == FILE:
        return FileSecrets(folder)
    if place != KEYRING:
        raise ExpectedError(
            ErrorCode.DATA_TOO_NEW, f"The secrets of this device lie in “{place}”, which this version does not know."
        )
    backend = _system_keyring()
    if backend is None:
        raise _silent("it is locked, or this session has none")
    return KeyringSecrets(backend)


def choose_secret_store(folder: Path) -> SecretStore:
    """Return the store for a new secret: the keyring if it works now and without asking, else files in ``folder``."""
    if os.environ.get(SECRETS_VARIABLE) == FILE:
        return FileSecrets(folder)
    backend = _system_keyring()
    if backend is None:
        return FileSecrets(folder)
    store = KeyringSecrets(backend)
    return store if _gives_back(store) else FileSecrets(folder)


def describe_place(place: str, folder: Path) -> str:
    """Return in words where secrets lie."""
    if place == KEYRING:
        return "the system's keyring"
    return f"files that only this user can read, in {folder} (no keyring was usable at the first start)"


def _gives_back(store: SecretStore) -> bool:
    name, canary = f"trial-{secrets.token_hex(8)}", secrets.token_bytes(8)
    try:
        store.put(name, canary)
        return store.get(name) == canary
    except ExpectedError:
        return False
    finally:
        store.remove(name)


def _system_keyring() -> KeyringBackend | None:
    """Return the keyring of this session, None when it has none, or a locked one that would ask."""
    try:
        import keyring  # noqa: PLC0415 (it looks at all backends when it loads; most starts do not need it)

        backend = keyring.get_keyring()
    except Exception:  # noqa: BLE001 (the door of a library: a broken backend is none)
        return None
    if type(backend).__module__ == "keyring.backends.chainer":
        candidates = [one for one in getattr(backend, "backends", ()) if type(one).__module__ in _OURS]
        backend = next(iter(candidates), backend)
    if type(backend).__module__ not in _OURS or _would_ask(backend):
        return None
    return backend


def _would_ask(backend: KeyringBackend) -> bool:
    """Return whether using this keyring now would make it ask the user; only the Secret Service tells.

    It asks when its default collection is locked, and also when there is none yet: it wants a password for a new one.
    """
    if type(backend).__module__ != "keyring.backends.SecretService":
        return False
    import secretstorage  # noqa: PLC0415 (only there with that backend)

    try:
        with contextlib.closing(secretstorage.dbus_init()) as bus:
            return bool(secretstorage.collection.get_collection_by_alias(bus, "default").is_locked())
    except secretstorage.SecretStorageException:
        return True


def _silent(problem: str) -> ExpectedError:
    return ExpectedError(
        ErrorCode.UNREADABLE,
        f"The key of this device lies in the system's keyring, which does not answer ({problem}). Unlock it, or start "
        "Hearthreel from the desktop session in which it was set up. Nothing was changed.",
    )
