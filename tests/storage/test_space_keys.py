"""The files of keys: made once, never overwritten, and clear about what is missing or damaged."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from app.core.errors import ErrorCode, ExpectedError
from app.storage.cipher import OwnerKeys, VaultKey, owner_keys
from app.storage.durable import write_durably
from app.storage.keys import adopt_keys, forget_owner_secret, open_keys, read_owner_secret

FILES = ("owner-secret.json", "owner.json", "vault-key.json", "vault-key.sealed.json")


def code_of(folder: Path, *, vault_in_use: bool = True) -> ErrorCode:
    with pytest.raises(ExpectedError) as caught:
        open_keys(folder, vault_in_use=vault_in_use)
    assert str(folder) in caught.value.message or caught.value.code == ErrorCode.UNREADABLE
    return caught.value.code


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_first_start_makes_all_keys_and_the_second_finds_them(tmp_path: Path) -> None:
    first = open_keys(tmp_path, vault_in_use=False)
    before = contents(tmp_path)
    second = open_keys(tmp_path, vault_in_use=True)
    assert sorted(before) == sorted(FILES)
    assert contents(tmp_path) == before
    assert second.vault.key == first.vault.key
    assert second.owner == first.owner == owner_keys(read_owner_secret(tmp_path))
    assert second.words_pending


def test_two_installations_have_different_keys(tmp_path: Path) -> None:
    first = open_keys(tmp_path / "a", vault_in_use=False)
    second = open_keys(tmp_path / "b", vault_in_use=False)
    assert first.vault.key != second.vault.key
    assert first.owner != second.owner


@pytest.mark.skipif(os.name == "nt", reason="Windows has no file modes")
def test_only_this_user_can_read_the_keys(tmp_path: Path) -> None:
    open_keys(tmp_path / "keys", vault_in_use=False)
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "keys").iterdir()} == {0o600}


@pytest.mark.parametrize("kept", range(len(FILES)))
def test_a_first_start_that_was_killed_goes_on_where_it_stopped(tmp_path: Path, kept: int) -> None:
    open_keys(tmp_path, vault_in_use=False)
    before = contents(tmp_path)
    for name in FILES[kept:]:
        (tmp_path / name).unlink()
    keys = open_keys(tmp_path, vault_in_use=False)
    after = contents(tmp_path)
    assert sorted(after) == sorted(FILES)
    assert all(after[name] == before[name] for name in FILES[:kept])
    assert open_keys(tmp_path, vault_in_use=True).vault.key == keys.vault.key


def test_a_lost_vault_key_comes_back_from_its_sealed_copy(tmp_path: Path) -> None:
    keys = open_keys(tmp_path, vault_in_use=False)
    (tmp_path / "vault-key.json").unlink()
    assert open_keys(tmp_path, vault_in_use=True).vault.key == keys.vault.key


def test_a_lost_vault_key_without_the_owners_secret_is_an_error_and_makes_no_new_one(tmp_path: Path) -> None:
    open_keys(tmp_path, vault_in_use=False)
    forget_owner_secret(tmp_path)
    (tmp_path / "vault-key.json").unlink()
    assert code_of(tmp_path) == ErrorCode.NOT_FOUND
    assert not (tmp_path / "vault-key.json").exists()


def test_a_vault_without_any_key_file_is_an_error_not_a_first_start(tmp_path: Path) -> None:
    assert code_of(tmp_path) == ErrorCode.NOT_FOUND
    assert list(tmp_path.iterdir()) == []


def test_the_owners_secret_can_be_forgotten_once_its_words_are_confirmed(tmp_path: Path) -> None:
    keys = open_keys(tmp_path, vault_in_use=False)
    forget_owner_secret(tmp_path)
    again = open_keys(tmp_path, vault_in_use=True)
    assert again.vault.key == keys.vault.key
    assert again.owner == keys.owner
    assert not again.words_pending
    with pytest.raises(ExpectedError) as caught:
        read_owner_secret(tmp_path)
    assert caught.value.code == ErrorCode.NOT_FOUND


@pytest.mark.parametrize("name", FILES[:3])
@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"schema":1}', b"\xff\xfe"])
def test_a_damaged_file_is_named_and_left_alone(tmp_path: Path, name: str, damage: bytes) -> None:
    open_keys(tmp_path, vault_in_use=False)
    (tmp_path / name).write_bytes(damage)
    assert code_of(tmp_path) == ErrorCode.UNREADABLE
    assert (tmp_path / name).read_bytes() == damage


@pytest.mark.parametrize(
    ("name", "member", "value"),
    [
        ("vault-key.json", "key", "00" * 32),
        ("vault-key.json", "key", "00" * 31),
        ("vault-key.json", "key", "no hex"),
        ("owner-secret.json", "secret", "00" * 32),
        ("owner.json", "sealing", "00"),
    ],
)
def test_a_file_that_does_not_fit_the_others_is_refused(tmp_path: Path, name: str, member: str, value: str) -> None:
    open_keys(tmp_path, vault_in_use=False)
    stored = json.loads((tmp_path / name).read_bytes())
    (tmp_path / name).write_text(json.dumps({**stored, member: value}))
    assert code_of(tmp_path) == ErrorCode.UNREADABLE


def test_a_damaged_sealed_copy_is_refused_when_it_is_needed(tmp_path: Path) -> None:
    open_keys(tmp_path, vault_in_use=False)
    path = tmp_path / "vault-key.sealed.json"
    stored = json.loads(path.read_bytes())
    path.write_text(json.dumps({**stored, "sealed": "00" * 80}))
    (tmp_path / "vault-key.json").unlink()
    assert code_of(tmp_path) == ErrorCode.UNREADABLE


def test_a_file_of_a_newer_version_asks_for_an_update(tmp_path: Path) -> None:
    open_keys(tmp_path, vault_in_use=False)
    (tmp_path / "vault-key.json").write_bytes(b'{"schema":2,"key":{"kind":"hardware"}}')
    assert code_of(tmp_path) == ErrorCode.DATA_TOO_NEW


def test_another_owners_keys_replace_all_and_its_secret_does_not_stay(tmp_path: Path) -> None:
    open_keys(tmp_path, vault_in_use=False)
    owner, vault = owner_keys(bytes([7]) * 32), VaultKey(bytes([8]) * 32)
    adopted = adopt_keys(tmp_path, owner=owner, vault=vault)
    again = open_keys(tmp_path, vault_in_use=True)
    assert (again.owner, again.vault.id) == (adopted.owner, adopted.vault.id) == (owner, vault.id)
    assert not again.words_pending
    assert sorted(contents(tmp_path)) == sorted(FILES[1:])


def test_a_rotated_vault_key_leaves_the_owners_secret_waiting(tmp_path: Path) -> None:
    before = open_keys(tmp_path, vault_in_use=False)
    secret = read_owner_secret(tmp_path)
    after = adopt_keys(tmp_path, owner=before.owner, vault=VaultKey(bytes([8]) * 32))
    assert (after.owner, after.words_pending) == (before.owner, True)
    assert read_owner_secret(tmp_path) == secret
    (tmp_path / "vault-key.json").unlink()
    assert open_keys(tmp_path, vault_in_use=True).vault.id == after.vault.id, "the sealed copy follows"


@pytest.mark.parametrize("writes", range(5))
def test_keys_are_replaced_all_or_not_at_all(tmp_path: Path, writes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    before = open_keys(tmp_path, vault_in_use=False)
    owner, vault = owner_keys(bytes([7]) * 32), VaultKey(bytes([8]) * 32)
    _adopt_until_killed(tmp_path, owner, vault, writes, monkeypatch)
    after = open_keys(tmp_path, vault_in_use=True)
    expected = (owner, vault.id) if writes else (before.owner, before.vault.id)
    assert (after.owner, after.vault.id) == expected
    assert after.words_pending == (writes == 0)
    assert not (tmp_path / "next.json").exists()


def _adopt_until_killed(
    folder: Path, owner: OwnerKeys, vault: VaultKey, writes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Adopt keys in a process that dies after a number of files."""
    left = writes
    real = write_durably

    def write(path: Path, data: bytes) -> None:
        nonlocal left
        if left == 0:
            raise KeyboardInterrupt
        left -= 1
        real(path, data)

    with monkeypatch.context() as patch:
        patch.setattr("app.storage.keys.write_durably", write)
        try:
            adopt_keys(folder, owner=owner, vault=vault)
        except KeyboardInterrupt:
            return
