"""Asking a running agent: the answer, or one sentence about why there is none."""

import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from slackwater.agent.endpoint_client import ask_release
from slackwater.agent.shared_state import ReleaseDone
from slackwater.model.gap import Gap
from tests.unit.agent.served import ENTRY, Served


def test_a_release_over_the_socket(served: Served, tmp_path: Path) -> None:
    assert ask_release(str(tmp_path)) == ReleaseDone((ENTRY,), 0)
    assert served.released == 1


def no_socket(served: Served, folder: Path) -> None:
    (folder / "agent.sock").unlink()


def nobody_there(served: Served, folder: Path) -> None:
    served.close()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(folder / "agent.sock"))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (no_socket, "agent.sock: No such file or directory; stop it first"),
        (nobody_there, "agent.sock: Connection refused; stop it first"),
    ],
)
def test_a_release_that_cannot_be_asked_for(
    served: Served, tmp_path: Path, spoil: Callable[[Served, Path], None], said: str
) -> None:
    spoil(served, tmp_path)
    answer = ask_release(str(tmp_path))
    assert isinstance(answer, Gap)
    assert answer.reason == f"it does not answer at {tmp_path}/{said}"
    assert served.released == 0


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.0 200 OK\r\n\r\n<html>", "is not an agent"),
        (b"HTTP/1.0 502 Bad\r\n\r\n<html>\n", "it refuses with 502: '<html>"),
        (b"SSH-2.0-OpenSSH\r\n", "it does not answer"),
        (b"", "it does not answer"),
    ],
)
def test_somebody_else_listens(tmp_path: Path, answer: bytes, said: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "agent.sock"))
        listener.listen()

        def reply() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(answer)

        thread = threading.Thread(target=reply)
        thread.start()
        found = ask_release(str(tmp_path))
        thread.join()
    assert isinstance(found, Gap)
    assert said in found.reason
