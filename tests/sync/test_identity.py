"""The identity of a device: made once, kept in the keyring or a file, and an id that follows from the key."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import keyring
import keyring.errors
import pytest
from keyring.backend import KeyringBackend

from app.core.clock import ManualClock
from app.core.database import Database
from app.core.errors import ErrorCode, ExpectedError
from app.core.paths import DataDir
from app.engine.kernel import Kernel
from app.queue.rows import JobParams
from app.queue.sqlite_store import SqliteJobStore
from app.storage import secret_store
from app.storage.secret_store import FileSecrets, KeyringSecrets, SecretStore, choose_secret_store, open_secret_store
from app.storage.signing import DeviceKeys, device_id_of, seal_to_device, verify_signature
from app.sync.identity import make_identity, open_identity

OLD_ID = "0123456789abcdef" * 2


def refusal(folder: Path) -> ErrorCode:
    with pytest.raises(ExpectedError) as caught:
        open_identity(folder)
    assert caught.value.message.endswith(".")
    return caught.value.code


class MemoryKeyring(KeyringBackend):
    """A keyring of this test's own; counts as one of the system's."""

    priority = 5.0

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}
        self.broken = False

    def get_password(self, service: str, username: str) -> str | None:
        if self.broken:
            raise keyring.errors.KeyringLocked("the lid is down")
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        if self.broken:
            raise keyring.errors.PasswordSetError("the lid is down")
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if (service, username) not in self.kept:
            raise keyring.errors.PasswordDeleteError("not here")
        del self.kept[service, username]


@pytest.fixture
def system_keyring(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryKeyring]:
    before, mine = keyring.get_keyring(), MemoryKeyring()
    monkeypatch.delenv(secret_store.SECRETS_VARIABLE)
    monkeypatch.setattr(secret_store, "_OURS", {__name__})
    keyring.set_keyring(mine)
    yield mine
    keyring.set_keyring(before)


def test_an_identity_is_made_once(tmp_path: Path) -> None:
    first, second = open_identity(tmp_path / "keys"), open_identity(tmp_path / "keys")
    assert first.keys.seed == second.keys.seed
    assert first.id == second.id != open_identity(tmp_path / "others").id


def test_an_id_is_derived_from_the_public_key_as_documented(tmp_path: Path) -> None:
    identity = open_identity(tmp_path)
    by_the_book = hashlib.blake2b(identity.keys.public, person=b"HR1 device id", digest_size=16).hexdigest()
    assert identity.id == by_the_book == device_id_of(identity.keys.public)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no file modes")
def test_without_a_keyring_the_secret_is_a_file_that_only_this_user_can_read(tmp_path: Path) -> None:
    identity = open_identity(tmp_path / "keys")
    (path,) = (tmp_path / "keys").glob("device-*.secret")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o700
    assert identity.place == "file"
    assert str(tmp_path) in identity.place_in_words


def test_with_a_keyring_no_secret_lies_in_a_file(tmp_path: Path, system_keyring: MemoryKeyring) -> None:
    identity = open_identity(tmp_path)
    assert open_identity(tmp_path).keys.seed == identity.keys.seed
    assert [path.name for path in tmp_path.iterdir()] == ["identity.json"]
    assert identity.keys.seed.hex() not in (tmp_path / "identity.json").read_text()
    assert len(system_keyring.kept) == 1
    assert "keyring" in identity.place_in_words


def test_a_keyring_that_gives_nothing_back_is_not_used(tmp_path: Path, system_keyring: MemoryKeyring) -> None:
    system_keyring.broken = True
    assert open_identity(tmp_path).place == "file"


def test_a_keyring_that_is_silent_later_is_told_and_makes_no_new_key(
    tmp_path: Path, system_keyring: MemoryKeyring
) -> None:
    identity = open_identity(tmp_path)
    system_keyring.broken = True
    assert refusal(tmp_path) is ErrorCode.UNREADABLE
    system_keyring.broken = False
    assert open_identity(tmp_path).id == identity.id


def test_a_keyring_that_would_ask_is_not_touched(
    tmp_path: Path, system_keyring: MemoryKeyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert open_identity(tmp_path / "first").place == "keyring"
    monkeypatch.setattr(secret_store, "_would_ask", lambda _backend: True)
    before = dict(system_keyring.kept)
    assert open_identity(tmp_path / "second").place == "file"
    assert refusal(tmp_path / "first") is ErrorCode.UNREADABLE
    with pytest.raises(ExpectedError):
        KeyringSecrets(system_keyring).put("one", b"1")
    assert system_keyring.kept == before


def test_a_keyring_that_is_gone_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "identity.json").write_text(json.dumps({"public": "00" * 32, "place": "keyring", "schema": 1}))
    monkeypatch.setattr(secret_store, "_OURS", set())
    assert refusal(tmp_path) is ErrorCode.UNREADABLE


@pytest.mark.parametrize("kind", ["file", "keyring"])
def test_every_secret_store_keeps_replaces_and_forgets(
    kind: str, tmp_path: Path, system_keyring: MemoryKeyring
) -> None:
    store: SecretStore = FileSecrets(tmp_path) if kind == "file" else KeyringSecrets(system_keyring)
    assert store.place == kind
    assert store.get("one") is None
    store.put("one", b"\x00\xff")
    store.put("one", b"\x01\xfe")
    assert open_secret_store(kind, tmp_path).get("one") == b"\x01\xfe"
    store.remove("one")
    store.remove("one")
    assert store.get("one") is None


def test_the_trial_of_a_keyring_leaves_nothing_in_it(tmp_path: Path, system_keyring: MemoryKeyring) -> None:
    assert choose_secret_store(tmp_path).place == "keyring"
    assert system_keyring.kept == {}


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b'{"public":"zz","place":"file"}'])
def test_a_damaged_identity_is_told_and_left_alone(tmp_path: Path, content: bytes) -> None:
    open_identity(tmp_path)
    (tmp_path / "identity.json").write_bytes(content)
    assert refusal(tmp_path) is ErrorCode.UNREADABLE
    assert (tmp_path / "identity.json").read_bytes() == content


def test_a_secret_that_is_gone_or_foreign_is_told(tmp_path: Path) -> None:
    open_identity(tmp_path)
    (path,) = tmp_path.glob("*.secret")
    path.write_text("11" * 32)
    assert refusal(tmp_path) is ErrorCode.UNREADABLE
    path.unlink()
    assert refusal(tmp_path) is ErrorCode.NOT_FOUND


def test_an_identity_of_a_newer_version_asks_for_an_update(tmp_path: Path) -> None:
    (tmp_path / "identity.json").write_text(json.dumps({"public": "00", "place": "file", "schema": 2}))
    assert refusal(tmp_path) is ErrorCode.DATA_TOO_NEW


def test_a_signature_holds_for_its_purpose_message_and_key_only() -> None:
    mine, other = DeviceKeys(bytes(32)), DeviceKeys(bytes([1]) * 32)
    signature = mine.sign(purpose="test", message=b"message")

    def holds(public: bytes = mine.public, purpose: str = "test", message: bytes = b"message") -> bool:
        return verify_signature(public, purpose=purpose, message=message, signature=signature)

    assert holds()
    assert not holds(public=other.public)
    assert not holds(purpose="other")
    assert not holds(message=b"massage")
    assert not holds(public=bytes(32))
    assert not verify_signature(mine.public, purpose="test", message=b"message", signature=b"short")


def test_what_is_sealed_to_a_device_opens_there_only() -> None:
    mine, other = DeviceKeys(bytes(32)), DeviceKeys(bytes([1]) * 32)
    sealed = seal_to_device(b"secret", mine.public)
    assert mine.open_sealed(sealed) == b"secret"
    with pytest.raises(ExpectedError):
        other.open_sealed(sealed)
    with pytest.raises(ExpectedError):
        seal_to_device(b"secret", bytes(32))


def old_data_directory(root: Path) -> str:
    """Write a data directory from before devices had keys, its first task leased; return the job's id."""
    root.mkdir()
    data = DataDir(root=root)
    data.device.write_text(json.dumps({"id": OLD_ID, "name": "Old", "boot": 7}))
    database = Database(data.database)
    store = SqliteJobStore(database=database, device=OLD_ID, boot=7, clock=ManualClock())
    job = store.add_job(
        kind="hls",
        params=JobParams(profile="default"),
        fingerprint="ab" * 16,
        size_bytes=1,
        name="film.mp4",
        now_ms=5,
    )
    (task,) = store.tasks(job.id)
    store.claim(task.id)
    database.close()
    return job.id


def dump_of(root: Path) -> str:
    database = Database(DataDir(root=root).database)
    tables = [row["name"] for row in database.rows("SELECT name FROM sqlite_master WHERE type = 'table'")]
    text = "\n".join(str(database.rows(f"SELECT * FROM [{name}]")) for name in tables)  # noqa: S608 (our own names)
    database.close()
    return text


@pytest.mark.parametrize("killed", [False, True])
async def test_an_old_data_directory_keeps_its_rows_under_the_new_id(tmp_path: Path, killed: bool) -> None:  # noqa: FBT001
    job_id = old_data_directory(tmp_path / "data")
    assert OLD_ID in dump_of(tmp_path / "data")
    if killed:  # after device.json was written and before the rows were
        identity = open_identity(tmp_path / "data" / "keys")
        half = {"id": identity.id, "name": "Old", "boot": 8, "key": identity.keys.public.hex(), "former": OLD_ID}
        (tmp_path / "data" / "device.json").write_text(json.dumps(half))
    kernel = Kernel(DataDir(root=tmp_path / "data"), clock=ManualClock())
    assert (kernel.device.id, kernel.device.name) == (kernel.identity.id, "Old")
    assert kernel.device.boot > 7
    assert (await kernel.queue(lambda store: store.job(job_id))).added.device == kernel.device.id
    await kernel.close()
    assert OLD_ID not in dump_of(tmp_path / "data")
    assert OLD_ID not in (tmp_path / "data" / "device.json").read_text()


async def test_a_device_whose_keys_were_exchanged_does_not_start_as_another(tmp_path: Path) -> None:
    data = DataDir(root=tmp_path / "data")
    await Kernel(data, clock=ManualClock()).close()
    make_identity(data.keys)
    with pytest.raises(ExpectedError) as caught:
        Kernel(data, clock=ManualClock())
    assert caught.value.code is ErrorCode.NOT_FOUND
    data.device.unlink()
    await Kernel(data, clock=ManualClock()).close()
