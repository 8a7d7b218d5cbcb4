"""Remembered and typed addresses."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from app.core.errors import ExpectedError
from app.sync.address_book import MOST_PER_DEVICE, AddressBook, AddressFile, places_to_try
from app.sync.addresses import Address

A, B = b"A" * 32, b"B" * 32
HOME, WORK, TYPED = (Address(host=host, port=45001) for host in ("192.168.1.2", "10.0.0.2", "films.example.org"))


def test_what_worked_last_is_tried_first_then_what_was_typed() -> None:
    book = AddressBook().with_typed(A, TYPED).with_worked(A, HOME, at_ms=1000).with_worked(A, WORK, at_ms=2000)
    assert book.addresses_of(A) == (WORK, HOME, TYPED)
    assert book.with_worked(A, HOME, at_ms=3000).addresses_of(A) == (HOME, WORK, TYPED)
    assert book.addresses_of(B) == ()


def test_a_typed_address_is_never_forgotten_by_itself() -> None:
    book = AddressBook().with_typed(A, TYPED).with_worked(B, HOME, at_ms=1)
    for n in range(2 * MOST_PER_DEVICE):
        book = book.with_worked(A, Address(host=f"10.0.0.{n}", port=1), at_ms=1000 + n)
    assert len(book.addresses_of(A)) == MOST_PER_DEVICE
    assert TYPED in book.addresses_of(A)
    assert book.addresses_of(A)[0] == Address(host="10.0.0.23", port=1)
    assert book.addresses_of(B) == (HOME,)


def test_the_newest_address_is_kept_even_when_all_others_were_typed() -> None:
    book = AddressBook()
    for n in range(MOST_PER_DEVICE + 3):
        book = book.with_typed(A, Address(host=f"10.0.0.{n}", port=1))
    assert len(book.addresses_of(A)) == MOST_PER_DEVICE


def test_a_device_or_an_address_can_be_forgotten() -> None:
    book = AddressBook().with_typed(A, TYPED).with_typed(A, HOME).with_typed(B, HOME)
    assert book.without_address(A, TYPED).addresses_of(A) == (HOME,)
    assert book.without_device(A).addresses_of(A) == ()
    assert book.without_device(A).addresses_of(B) == (HOME,)


def test_places_are_tried_once_each_in_order() -> None:
    assert places_to_try((HOME,), (WORK, HOME), (TYPED, WORK)) == (HOME, WORK, TYPED)


def test_the_file_keeps_the_book_for_this_user_only(tmp_path: Path) -> None:
    book = AddressBook().with_typed(A, TYPED).with_worked(B, HOME, at_ms=5)
    file = AddressFile(tmp_path / "addresses.json")
    assert file.load() == AddressBook()
    file.save(book)
    assert file.load() == book
    assert stat.S_IMODE((tmp_path / "addresses.json").stat().st_mode) == 0o600


@pytest.mark.parametrize("data", [b"", b"{", b'{"known": 1}', b"\xff\xfe"])
def test_a_damaged_file_is_an_empty_book(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "addresses.json"
    path.write_bytes(data)
    assert AddressFile(path).load() == AddressBook()


def test_a_folder_that_is_gone_is_said(tmp_path: Path) -> None:
    with pytest.raises(ExpectedError):
        AddressFile(tmp_path / "gone" / "addresses.json").save(AddressBook())
