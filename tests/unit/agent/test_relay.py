"""Requests on a stream, passed to an agent's socket: one answer for each line, whatever it is."""

import io
from pathlib import Path

import msgspec
import pytest

from slackwater.agent.relay import LONGEST_REQUEST, AnswerHead, relay_requests
from tests.unit.cli.served import served_agent


def relayed(socket: str, requests: bytes) -> list[tuple[int, bytes]]:
    """Status and body of each answer; each is one write."""
    written: list[bytes] = []
    relay_requests(socket, io.BytesIO(requests), written.append)
    found = []
    for answer in written:
        line, _, body = answer.partition(b"\n")
        head = msgspec.json.decode(line, type=AnswerHead)
        assert head.length == len(body)
        found.append((head.status, body))
    return found


def error_in(body: bytes) -> str:
    said: str = msgspec.json.decode(body, type=dict[str, str])["error"]
    return said


def test_each_line_is_a_request() -> None:
    replies = {"/v1/top": (200, b'{"tick":\n 7}'), "/x?a=b": (404, b""), "/raw": (200, b"\x00\n")}
    with served_agent(lambda path: replies[path]) as agent:
        found = relayed(agent.address, b"/v1/top\n/x?a=b\n/raw\n/v1/top\n")
        assert agent.asked == ["/v1/top", "/x?a=b", "/raw", "/v1/top"]
    assert found == [replies["/v1/top"], replies["/x?a=b"], replies["/raw"], replies["/v1/top"]]


def test_no_requests_no_answers(tmp_path: Path) -> None:
    assert relayed(str(tmp_path / "gone"), b"") == []


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"v1/top\n",
        b"http://elsewhere/\n",
        b"/v1/top HTTP/1.1\n",
        b"/caf\xc3\xa9\n",
        b"/a\rHost: x\n",
        b"/never-ended",
        b"/" + b"x" * LONGEST_REQUEST,
    ],
)
def test_what_is_no_path_is_not_passed_on(line: bytes) -> None:
    with served_agent(lambda _: (200, b"")) as agent:
        found = relayed(agent.address, line)
        assert agent.asked == []
    assert {status for status, _ in found} == {400}
    assert "path" in error_in(found[0][1])


def test_no_agent_is_an_answer_too(tmp_path: Path) -> None:
    socket = str(tmp_path / "gone")
    [(status, body)] = relayed(socket, b"/v1/top\n")
    assert (status, error_in(body)) == (
        502,
        f"no agent answers at {socket}: No such file or directory",
    )


def test_an_agent_that_comes_back_is_asked_again(tmp_path: Path) -> None:
    lines = [b"/v1/top\n", b"/v1/top\n"]
    with served_agent(lambda _: (200, b"here")) as agent:
        written: list[bytes] = []

        class RelayedRequests:
            def readline(self, _limit: int, /) -> bytes:
                if len(lines) == 1:
                    agent.reply = lambda _: (200, b"again")
                return lines.pop(0) if lines else b""

        relay_requests(agent.address, RelayedRequests(), written.append)
    assert [each.rpartition(b"\n")[2] for each in written] == [b"here", b"again"]


@pytest.mark.parametrize("said", [b"220 mail.example ESMTP\r\n", b""])
def test_somebody_else_listens(tmp_path: Path, said: bytes) -> None:
    import socket
    import threading

    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()

        def greet() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(said)

        thread = threading.Thread(target=greet)
        thread.start()
        [(status, body)] = relayed(path, b"/v1/top\n")
        thread.join()
    assert status == 502
    assert path in error_in(body)
