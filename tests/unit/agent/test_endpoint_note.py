"""Addresses, and what a running agent leaves in its state folder."""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.agent.endpoint_note import (
    Address,
    AddressError,
    Note,
    parse_address,
    read_note,
    remove_note,
    write_note,
)
from slackwater.model.gap import Gap

NOTE = Note(Address("127.0.0.1", 10480), "0123abcd")


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
    address = parse_address(text)
    assert (address, str(address)) == (Address(host, port), shown)


@pytest.mark.parametrize(
    "text",
    ["10480", ":10480", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1",
     "127.0.0.1:+1", "127.0.0.1:1x", "127.0.0.1:\u0661", "256.0.0.1:1", "example.org:80", "::1:80",
     "[127.0.0.1]:80", "[::1]", "[::1:80", "http://127.0.0.1:80", " ", "127.0.0.1:1\n",
     "127.0.0.1:" + "9" * 5000],
)  # fmt: skip
def test_what_is_no_address_is_one_sentence(text: str) -> None:
    with pytest.raises(AddressError) as caught:
        parse_address(text)
    sentence = str(caught.value)
    assert "an IP address and a port from 0 to 65535" in sentence
    assert "\n" not in sentence
    assert len(sentence) < 300


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("0.0.0.0", False), ("::", False)],  # noqa: S104
)
def test_loopback(host: str, loopback: bool) -> None:
    assert Address(host, 1).is_loopback() is loopback


@given(st.ip_addresses(), st.integers(0, 65535))
def test_what_is_shown_reads_back(host: object, port: int) -> None:
    address = Address(str(host), port)
    assert parse_address(str(address)) == address


def test_a_note_is_read_back_and_is_for_nobody_else(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        assert write_note(str(tmp_path), NOTE) is None
    finally:
        os.umask(before)
    assert read_note(str(tmp_path)) == NOTE
    assert (tmp_path / "endpoint").read_text() == "127.0.0.1:10480\n"
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600
    assert sorted(os.listdir(tmp_path)) == ["endpoint", "token"]


def test_a_note_replaces_what_a_killed_agent_left(tmp_path: Path) -> None:
    (tmp_path / "token.new").write_text("half")
    (tmp_path / "token.new").chmod(0o644)
    (tmp_path / "token").write_text("old\n")
    (tmp_path / "token").chmod(0o644)
    assert write_note(str(tmp_path), NOTE) is None
    assert read_note(str(tmp_path)) == NOTE
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600
    remove_note(str(tmp_path))
    remove_note(str(tmp_path))
    assert os.listdir(tmp_path) == []


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    failed = write_note(str(tmp_path / "gone"), NOTE)
    assert isinstance(failed, Gap)
    assert "cannot be noted" in failed.reason
    assert read_note(str(tmp_path / "gone")) is None
    remove_note(str(tmp_path / "gone"))
    assert not (tmp_path / "gone").exists()


@pytest.mark.parametrize("names", [("endpoint",), ("token",), ()])
def test_half_a_note_is_none(tmp_path: Path, names: tuple[str, ...]) -> None:
    write_note(str(tmp_path), NOTE)
    for name in {"endpoint", "token"}.difference(names):
        (tmp_path / name).unlink()
    assert read_note(str(tmp_path)) is None


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\xff\xfe", b"x" * 10_000])
def test_a_spoiled_note_is_none(tmp_path: Path, content: bytes) -> None:
    write_note(str(tmp_path), NOTE)
    (tmp_path / "endpoint").write_bytes(content)
    assert read_note(str(tmp_path)) is None


def test_half_a_note_that_cannot_be_written_is_taken_back(tmp_path: Path) -> None:
    (tmp_path / "endpoint").mkdir()
    failed = write_note(str(tmp_path), NOTE)
    assert isinstance(failed, Gap)
    assert not (tmp_path / "token").exists()
