"""Addresses to listen on, as text and as values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.runtime.http_exchange import AddressError, ListenAddress, parse_listen_address


@pytest.mark.parametrize(
    ("text", "host", "port", "shown"),
    [
        ("127.0.0.1:10480", "127.0.0.1", 10480, "127.0.0.1:10480"),
        ("localhost:0", "127.0.0.1", 0, "127.0.0.1:0"),
        ("0.0.0.0:65535", "0.0.0.0", 65535, "0.0.0.0:65535"),  # noqa: S104
        ("[::1]:10480", "::1", 10480, "[::1]:10480"),
        ("[0:0:0:0:0:0:0:1]:1", "::1", 1, "[::1]:1"),
    ],
)
def test_addresses(text: str, host: str, port: int, shown: str) -> None:
    address = parse_listen_address(text)
    assert (address, str(address)) == (ListenAddress(host, port), shown)


@pytest.mark.parametrize(
    "text",
    ["10480", ":10480", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1",
     "127.0.0.1:+1", "127.0.0.1:1x", "127.0.0.1:\u0661", "256.0.0.1:1", "example.org:80", "::1:80",
     "[127.0.0.1]:80", "[::1]", "[::1:80", "http://127.0.0.1:80", " ", "127.0.0.1:1\n",
     "127.0.0.1:" + "9" * 5000],
)  # fmt: skip
def test_what_is_no_address_is_one_sentence(text: str) -> None:
    with pytest.raises(AddressError) as caught:
        parse_listen_address(text)
    sentence = str(caught.value)
    assert "an IP address and a port from 0 to 65535" in sentence
    assert "\n" not in sentence
    assert len(sentence) < 300


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("0.0.0.0", False), ("::", False)],  # noqa: S104
)
def test_loopback(host: str, loopback: bool) -> None:
    assert ListenAddress(host, 1).is_loopback() is loopback


@given(st.ip_addresses(), st.integers(0, 65535))
def test_what_is_shown_reads_back(host: object, port: int) -> None:
    address = ListenAddress(str(host), port)
    assert parse_listen_address(str(address)) == address
