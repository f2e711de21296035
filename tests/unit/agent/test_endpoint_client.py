"""Asking a running agent: the answer, or one sentence about why there is none."""

import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from slackwater.agent.endpoint_client import ask, ask_release
from slackwater.agent.endpoint_file import EndpointFile
from slackwater.agent.shared_state import ReleaseDone
from slackwater.model.gap import Gap
from tests.unit.agent.served import ENTRY, Served


def test_a_release_over_the_endpoint(served: Served, tmp_path: Path) -> None:
    assert ask_release(str(tmp_path)) == ReleaseDone((ENTRY,), 0)
    assert served.released == 1


def wrong_token(served: Served, folder: Path) -> object:
    (folder / "token").write_text("wrong\n")
    return ask_release(str(folder))


def no_note(served: Served, folder: Path) -> object:
    (folder / "endpoint").unlink()
    return ask_release(str(folder))


def nobody_there(served: Served, folder: Path) -> object:
    served.endpoint.close()
    note = EndpointFile(served.endpoint.address, "x")
    return ask(note, "POST", "/v1/release")


def no_agent(served: Served, folder: Path) -> object:
    return ask(EndpointFile(served.endpoint.address, "x"), "GET", "/nowhere")


@pytest.mark.parametrize(
    ("asking", "said"),
    [
        (wrong_token, "it refuses with 403: the token is not this agent's"),
        (no_note, "it has no endpoint to be asked at: stop it first"),
        (nobody_there, "Connection refused"),
        (no_agent, "it refuses with 404: there is no '/nowhere'"),
    ],
)
def test_a_release_that_cannot_be_asked_for(
    served: Served, tmp_path: Path, asking: Callable[[Served, Path], object], said: str
) -> None:
    answer = asking(served, tmp_path)
    assert isinstance(answer, Gap)
    assert said in answer.reason
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
def test_somebody_else_took_the_port(tmp_path: Path, answer: bytes, said: str) -> None:
    """A stale note, and another program where the agent was."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        (tmp_path / "endpoint").write_text(f"127.0.0.1:{port}\n")
        (tmp_path / "token").write_text("x\n")

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
