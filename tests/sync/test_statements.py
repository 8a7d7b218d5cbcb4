"""Statements as bytes: golden files, strict reading, and the store that keeps them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nacl.signing import SigningKey

from app.core.database import Database
from app.core.errors import ErrorCode, ExpectedError
from app.storage.signing import owner_signer
from app.sync import membership_store
from app.sync.addresses import Address
from app.sync.membership import add_device, judge
from app.sync.membership_store import MembershipStore
from app.sync.statements import (
    Add,
    Grant,
    Revoke,
    Statement,
    Unknown,
    decode_statement,
    make_statement,
)
from tests.sync.people import AT_MS, DEVICES, OWNER, OWNER_SECRET, SPACE, key_of, signer_of, state

DATA = Path(__file__).parent / "data"


def golden_history() -> list[Statement]:
    """Return three fixed statements: the owner adds A, A gives itself a key and revokes B."""
    known = [state([], "owner", Add(device=key_of("A"), name="Laptop – Zoë", at_ms=AT_MS))]
    grant = Grant(device=key_of("A"), key="0f" * 16, generation=1, sealed="ab" * 80)
    known.append(state(known, "A", grant))
    known.append(state(known, "A", Revoke(device=key_of("B"), last=("cd" * 32,), at_ms=AT_MS + 1)))
    return known


def refusal(data: bytes, *, space: str = SPACE) -> ErrorCode:
    with pytest.raises(ExpectedError) as caught:
        decode_statement(data, space=space)
    return caught.value.code


@pytest.mark.parametrize(("name", "number"), [("add", 0), ("grant", 1), ("revoke", 2)])
def test_statements_have_their_golden_bytes(name: str, number: int) -> None:
    statement = golden_history()[number]
    golden = (DATA / f"{name}.statement.json").read_bytes()
    assert statement.encoded == golden
    assert decode_statement(golden, space=SPACE) == statement


def test_a_statement_is_made_as_the_format_says() -> None:
    """A second reading of IDENTITY.md, section "Statements", written here from its text."""
    seed = hashlib.blake2b(b"", key=OWNER_SECRET, person=b"HR1 owner sign", digest_size=32).digest()
    key = SigningKey(seed)
    public = bytes(key.verify_key).hex()
    body = {"at_ms": AT_MS, "device": key_of("A"), "kind": "add", "name": "Laptop – Zoë"}
    payload = {"body": body, "number": 1, "previous": "", "schema": 1, "signer": public, "space": public}
    message = json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    signature = key.sign(b"hearthreel statement 1\0" + message).signature.hex()
    golden = (DATA / "add.statement.json").read_bytes()
    assert golden == b'{"signature":"' + signature.encode() + b'","statement":' + message + b"}"
    assert decode_statement(golden, space=public).id == hashlib.sha256(message).hexdigest()


def resigned(change: Callable[[dict[str, Any]], None], who: str = "A", *, number: int = 1) -> bytes:
    """Return a golden statement changed by its rightful signer, correctly signed: only its content is wrong."""
    payload = json.loads(golden_history()[number].encoded)["statement"]
    change(payload)
    message = json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    signature = signer_of(who).sign(purpose="statement 1", message=message).hex()
    return b'{"signature":"' + signature.encode() + b'","statement":' + message + b"}"


def test_resigning_without_a_change_gives_the_statement() -> None:
    assert resigned(lambda _payload: None) == golden_history()[1].encoded


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("number",), 0),
        (("number",), 2),
        (("number",), -1),
        (("number",), 2**53),
        (("number",), 2**70),
        (("number",), 1.0),
        (("number",), "1"),
        (("number",), None),
        (("previous",), "ab"),
        (("previous",), "AB" * 32),
        (("schema",), 0),
        (("signer",), "zz" * 32),
        (("signer",), "ab" * 31),
        (("space",), ""),
        (("more",), 1),
        (("body",), None),
        (("body",), {}),
        (("body", "kind"), 3),
        (("body", "more"), 1),
        (("body", "device"), "AB" * 32),
        (("body", "device"), ""),
        (("body", "key"), "0f" * 15),
        (("body", "generation"), 0),
        (("body", "generation"), True),
        (("body", "sealed"), "ab" * 79),
    ],
)
def test_a_statement_with_something_wrong_in_it_is_refused(where: tuple[str, ...], value: object) -> None:
    def change(payload: dict[str, Any]) -> None:
        place = payload
        for name in where[:-1]:
            place = place[name]
        place[where[-1]] = value

    assert refusal(resigned(change)) in {ErrorCode.BAD_MESSAGE, ErrorCode.OTHER_SPACE}


@pytest.mark.parametrize("name", ["", "x" * 65, "a\nb", "a\u202eb", "\ud800", 3, None])
def test_a_name_that_is_none_is_refused(name: object) -> None:
    payload = json.loads(golden_history()[0].encoded)["statement"]
    payload["body"]["name"] = name
    message = json.dumps(payload, sort_keys=True, separators=(",", ":")).encode()
    signature = OWNER.sign(purpose="statement 1", message=message).hex()
    assert refusal(f'{{"signature":"{signature}","statement":{message.decode()}}}'.encode()) is ErrorCode.BAD_MESSAGE


@pytest.mark.parametrize(
    "last", [["ab"], ["cd" * 32] * 2, ["cd" * 32, "ab" * 32], [f"{one:064x}" for one in range(17)]]
)
def test_a_list_of_last_statements_that_is_none_is_refused(last: list[str]) -> None:
    data = resigned(lambda payload: payload["body"].update(last=last), number=2)
    assert refusal(data) is ErrorCode.BAD_MESSAGE


def test_a_statement_has_one_spelling() -> None:
    data = golden_history()[0].encoded
    for other in (data + b"\n", b" " + data, data.replace(b":1,", b": 1,"), data.replace("–".encode(), b"\\u2013")):
        assert other != data
        assert refusal(other) is ErrorCode.BAD_MESSAGE


def test_a_statement_about_another_space_is_refused() -> None:
    assert refusal(golden_history()[0].encoded, space="00" * 32) is ErrorCode.OTHER_SPACE


def test_a_statement_of_a_newer_version_asks_for_an_update() -> None:
    assert refusal(resigned(lambda payload: payload.update(schema=2))) is ErrorCode.DATA_TOO_NEW


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\xff", b"[" * 4000, b'{"a":' * 800, b"x" * 4097, b"null"])
def test_noise_is_refused(data: bytes) -> None:
    assert refusal(data) is ErrorCode.BAD_MESSAGE


def test_a_kind_that_is_not_known_is_kept_and_has_no_effect() -> None:
    def change(payload: dict[str, Any]) -> None:
        payload["body"] = {"kind": "rename", "device": "whatever", "deep": [[1], {"x": None}]}

    known = golden_history()[:1]
    statement = decode_statement(resigned(change), space=SPACE)
    assert statement.body == Unknown(kind="rename")
    assert judge([*known, statement], SPACE).members == judge(known, SPACE).members


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_forged_or_truncated_statement_never_adds_anybody(data: st.DataObject) -> None:
    """Any change of any byte, anywhere, is seen."""
    golden = golden_history()[0].encoded
    at = data.draw(st.integers(0, len(golden) - 1))
    kind = data.draw(st.sampled_from(("byte", "cut", "swap")))
    if kind == "byte":
        changed = golden[:at] + bytes([data.draw(st.integers(0, 255))]) + golden[at + 1 :]
    elif kind == "cut":
        changed = golden[:at]
    else:
        to = data.draw(st.integers(at, len(golden)))
        changed = golden[:at] + golden[to:] + golden[at:to]
    if changed != golden:
        with pytest.raises(ExpectedError):
            decode_statement(changed, space=SPACE)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_refused_in_order(data: bytes) -> None:
    assert refusal(data) is ErrorCode.BAD_MESSAGE


def test_a_replayed_signature_does_not_fit_another_statement() -> None:
    one, two = (json.loads(statement.encoded) for statement in golden_history()[1:3])
    two["signature"] = one["signature"]
    mixed = json.dumps(two, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    assert refusal(mixed) is ErrorCode.BAD_MESSAGE


# The store


@pytest.fixture
def database() -> Database:
    return Database(None)


def added(known: list[Statement], who: str, whom: str) -> Statement:
    return add_device(known, signer_of(who), space=SPACE, public=DEVICES[whom].public, name=whom, now_ms=AT_MS)


def test_what_was_added_is_there_after_a_restart(database: Database) -> None:
    store = MembershipStore(database, space=SPACE)
    known = [added([], "owner", "A")]
    known.append(added(known, "A", "B"))
    assert set(store.add_statements(one.encoded for one in reversed(known))) == set(known)
    assert store.add_statements(one.encoded for one in known) == ()
    again = MembershipStore(database, space=SPACE)
    assert again.statements() == tuple(sorted(known, key=lambda one: (one.number, one.id)))
    assert again.membership() == store.membership() == judge(known, SPACE)


def test_one_bad_statement_and_none_of_its_message_is_kept(database: Database) -> None:
    store = MembershipStore(database, space=SPACE)
    with pytest.raises(ExpectedError):
        store.add_statements([added([], "owner", "A").encoded, b"{}"])
    assert store.statements() == ()


def test_what_strangers_state_is_left_out(database: Database) -> None:
    store = MembershipStore(database, space=SPACE)
    store.add_statements([added([], "owner", "A").encoded])
    assert store.add_statements([added([], "C", "D").encoded]) == ()
    (only,) = store.statements()
    assert only.is_owners


def test_a_device_cannot_state_without_end(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership_store, "MAX_PER_SIGNER", 3)
    store = MembershipStore(database, space=SPACE)
    store.state(added([], "owner", "A"))
    known: list[Statement] = []
    for whom in "BCDE":
        known.append(added(known, "A", whom))
    with pytest.raises(ExpectedError) as caught:
        store.add_statements(one.encoded for one in known)
    assert caught.value.code is ErrorCode.TOO_LARGE
    assert len(store.statements()) == 1


def test_another_space_takes_the_place_of_the_one_before(database: Database) -> None:
    store = MembershipStore(database, space=SPACE)
    store.state(added([], "owner", "A"))
    other = owner_signer(bytes(32))
    space = other.public.hex()
    first = make_statement(other, Add(device=key_of("B"), name="B", at_ms=1), space=space, after=None)
    store.enter(space, [first.encoded])
    assert (store.space, store.statements()) == (space, (first,))
    assert len(MembershipStore(database, space=SPACE).statements()) == 1, "until the keys were exchanged too"
    store.forget_others()
    assert MembershipStore(database, space=SPACE).statements() == ()
    with pytest.raises(ExpectedError) as caught:
        store.add_statements([added([], "owner", "A").encoded])
    assert caught.value.code is ErrorCode.OTHER_SPACE


def test_a_damaged_row_is_told(database: Database) -> None:
    store = MembershipStore(database, space=SPACE)
    store.state(added([], "owner", "A"))
    with database.transaction():
        database.execute("UPDATE membership_statements SET document = '{}'")
    with pytest.raises(ExpectedError) as caught:
        MembershipStore(database, space=SPACE)
    assert caught.value.code is ErrorCode.DATABASE_DAMAGED


def test_the_latest_addresses_of_a_device_are_remembered(database: Database) -> None:
    store = MembershipStore(database, space=SPACE)
    for number in range(12):
        store.remember_address("a", Address(host="::1" if number % 2 else "10.0.0.1", port=number + 1), now_ms=number)
    store.remember_address("a", Address(host="10.0.0.1", port=7), now_ms=99)
    found = store.addresses_of("a")
    assert (len(found), found[0], found[1]) == (8, Address(host="10.0.0.1", port=7), Address(host="::1", port=12))
    assert [str(one) for one in found[:2]] == ["10.0.0.1:7", "[::1]:12"]
    assert store.addresses_of("b") == ()
