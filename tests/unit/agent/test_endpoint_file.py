"""What a running agent leaves in its state folder."""

import os
import stat
from pathlib import Path

import pytest

from slackwater.agent.endpoint_file import (
    EndpointFile,
    read_endpoint_file,
    remove_endpoint_file,
    write_endpoint_file,
)
from slackwater.model.gap import Gap
from slackwater.runtime.http_exchange import ListenAddress

FOUND = EndpointFile(ListenAddress("127.0.0.1", 10480), "0123abcd")


def test_a_file_is_read_back_and_is_for_nobody_else(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        assert write_endpoint_file(str(tmp_path), FOUND) is None
    finally:
        os.umask(before)
    assert read_endpoint_file(str(tmp_path)) == FOUND
    assert (tmp_path / "endpoint").read_text() == "127.0.0.1:10480\n"
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600
    assert sorted(os.listdir(tmp_path)) == ["endpoint", "token"]


def test_a_file_replaces_what_a_killed_agent_left(tmp_path: Path) -> None:
    (tmp_path / "token.new").write_text("half")
    (tmp_path / "token.new").chmod(0o644)
    (tmp_path / "token").write_text("old\n")
    (tmp_path / "token").chmod(0o644)
    assert write_endpoint_file(str(tmp_path), FOUND) is None
    assert read_endpoint_file(str(tmp_path)) == FOUND
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600
    remove_endpoint_file(str(tmp_path))
    remove_endpoint_file(str(tmp_path))
    assert os.listdir(tmp_path) == []


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    failed = write_endpoint_file(str(tmp_path / "gone"), FOUND)
    assert isinstance(failed, Gap)
    assert "cannot be noted" in failed.reason
    assert read_endpoint_file(str(tmp_path / "gone")) is None
    remove_endpoint_file(str(tmp_path / "gone"))
    assert not (tmp_path / "gone").exists()


@pytest.mark.parametrize("names", [("endpoint",), ("token",), ()])
def test_half_a_file_is_none(tmp_path: Path, names: tuple[str, ...]) -> None:
    write_endpoint_file(str(tmp_path), FOUND)
    for name in {"endpoint", "token"}.difference(names):
        (tmp_path / name).unlink()
    assert read_endpoint_file(str(tmp_path)) is None


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\xff\xfe", b"x" * 10_000])
def test_a_spoiled_file_is_none(tmp_path: Path, content: bytes) -> None:
    write_endpoint_file(str(tmp_path), FOUND)
    (tmp_path / "endpoint").write_bytes(content)
    assert read_endpoint_file(str(tmp_path)) is None


def test_half_a_file_that_cannot_be_written_is_taken_back(tmp_path: Path) -> None:
    (tmp_path / "endpoint").mkdir()
    failed = write_endpoint_file(str(tmp_path), FOUND)
    assert isinstance(failed, Gap)
    assert not (tmp_path / "token").exists()
