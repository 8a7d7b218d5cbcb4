"""Addresses that people type."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import ErrorCode, ExpectedError
from app.sync.addresses import Address, parse_address, path_of


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("192.168.1.20:45001", "192.168.1.20", 45001),
        (" films.example.org:1 ", "films.example.org", 1),
        ("[fe80::1]:65535", "fe80::1", 65535),
        ("[fe80::1%eth0]:45001", "fe80::1%eth0", 45001),
    ],
)
def test_an_address_is_read_as_people_type_it(text: str, host: str, port: int) -> None:
    assert parse_address(text) == Address(host=host, port=port)
    assert parse_address(str(Address(host=host, port=port))) == Address(host=host, port=port)


@pytest.mark.parametrize(
    "text",
    ["", "host", "host:", ":45001", "host:0", "host:65536", "host:٣", "a b:1", "http://x:1", "fe80::1:45001", "[]:1"],
)
def test_what_is_no_address_is_said_with_an_example(text: str) -> None:
    with pytest.raises(ExpectedError, match="is not an address; type") as caught:
        parse_address(text)
    assert caught.value.code == ErrorCode.BAD_SETTING


@given(text=st.text(max_size=300))
def test_any_text_is_an_address_or_said_not_to_be_one(text: str) -> None:
    try:
        address = parse_address(text)
    except ExpectedError:
        return
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    ("host", "path"),
    [
        ("192.168.1.20", "lan"),
        ("10.0.0.1", "lan"),
        ("fe80::1%eth0", "lan"),
        ("fd00::1", "lan"),
        ("::ffff:192.168.1.20", "lan"),
        ("127.0.0.1", "lan"),
        ("8.8.8.8", "direct"),
        ("2a00:1450::1", "direct"),
        ("::ffff:8.8.8.8", "direct"),
        ("films.example.org", "direct"),
    ],
)
def test_the_path_is_told_from_the_address(host: str, path: str) -> None:
    assert path_of(host) == path
