"""Where the agent is, and one sentence for each way in which there is no answer."""

import errno
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import msgspec
import pytest

from slackwater.agent import endpoint_client
from slackwater.cli.agent_client import (
    NoAnswer,
    SocketAgent,
    ask,
    ask_explanation,
    ask_overview,
    find_agent,
)
from slackwater.cli.output import WrongSettings
from slackwater.record.explanation import Explanation
from slackwater.record.overview import Overview
from tests.unit.cli.served import always, served_agent


def test_who_names_the_agent(tmp_path: Path) -> None:
    assert find_agent("", "/run/slackwater") == "/run/slackwater/agent.sock"
    assert find_agent("./node.sock", str(tmp_path)) == "./node.sock"


@pytest.mark.parametrize(("said", "state"), [("s" * 108, ""), ("", "s" * 97)])
def test_a_path_that_is_too_long_is_one_sentence(said: str, state: str) -> None:
    option = "--agent" if said else "--state"
    with pytest.raises(WrongSettings, match=rf"^{option} is too long: .* has 108 bytes; .* 107$"):
        find_agent(said, state)
    assert find_agent(said[:-1], state[:-1])


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[socket.socket]:
    """A socket that takes connections; nobody answers."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        yield listener


def test_no_answer_in_time(listening: socket.socket) -> None:
    with pytest.raises(NoAnswer, match=r"/s gave no answer in 0.2 s"):
        ask_overview(SocketAgent(listening.getsockname()), 0.2)


def test_nobody_listens(tmp_path: Path) -> None:
    with pytest.raises(NoAnswer, match=r"no agent answers at .* start one with `slackwater agent"):
        ask_overview(SocketAgent(str(tmp_path / "gone")))


def test_who_may_not_use_the_socket_hears_who_may(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> NoReturn:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(endpoint_client, "ask_agent", refuse)
    with pytest.raises(NoAnswer, match=r"/s: user \d+ may not use it; ask as root"):
        ask_overview(SocketAgent("/s"))


def test_somebody_else_listens(listening: socket.socket) -> None:
    def greet() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(b"220 mail.example ESMTP\r\n")

    thread = threading.Thread(target=greet)
    thread.start()
    with pytest.raises(NoAnswer, match="is not an agent: BadStatusLine"):
        ask_overview(SocketAgent(listening.getsockname()))
    thread.join()


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (404, b'{"error": "there is no such pod"}', "there is no such pod"),
        (404, b"plain\ntext", "plain text"),
        (500, b"", "answers 500 to /v1/top: nothing more"),
        (403, b'{"error": "who are you"}', "answers 403 to /v1/top: who are you"),
        (404, b'{"error": 7}', '{"error": 7}'),
        (404, b"\xff\xfe", "\ufffd"),
        (200, b"<html>", "cannot read"),
        (200, b'{"tick": "x"}', "cannot read: Expected `int`, got `str`"),
        (200, b"\xff", "cannot read"),
    ],
)
def test_answers_that_are_none(status: int, body: bytes, said: str) -> None:
    with served_agent(always(body, status)) as server, pytest.raises(NoAnswer) as caught:
        ask_overview(SocketAgent(server.address))
    assert said in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("sent", ["\x1b[2J", "\x07", "\x7f", "\x9b31m", "\r", "\0"])
@pytest.mark.parametrize("escaped", ["by its number", "not at all"])
def test_no_answer_moves_the_cursor(sent: str, escaped: str) -> None:
    """It may be a tenant's pod that answers as an agent."""
    number = f"\\u{ord(sent[0]):04x}{sent[1:]}"
    text = f'[{{"target": "a{number if escaped == "by its number" else sent}b", "level": "pod"}}]'
    with served_agent(always(text.encode())) as server:
        try:
            [row] = ask_explanation(SocketAgent(server.address), "")
        except NoAnswer as error:  # JSON has no such character
            assert error.message.isprintable()
        else:
            assert row.target == f"a\ufffd{sent[1:]}b"


def test_no_error_moves_the_cursor() -> None:
    told = always({"error": "there is\x1b[2J no \u009bpod"}, 404)
    with served_agent(told) as server, pytest.raises(NoAnswer) as caught:
        ask_overview(SocketAgent(server.address))
    assert caught.value.message == "there is\ufffd[2J no \ufffdpod"


def test_what_is_asked_and_what_comes_back() -> None:
    row = Explanation(target="a/b c", level="pod")
    with served_agent(always([row])) as server:
        assert ask_explanation(SocketAgent(server.address), "a/b c") == [row]
        assert ask_explanation(SocketAgent(server.address), "") == [row]
        assert server.asked == ["/v1/explain?target=a%2Fb+c", "/v1/explain"]
        server.reply = always({"apiVersion": "slackwater.io/v1", "tick": 7, "later": "field"})
        assert ask_overview(SocketAgent(server.address)) == Overview(tick=7)
        server.reply = always(3)
        assert ask(SocketAgent(server.address), "/x", {}, int) == 3
    assert msgspec.json.decode(msgspec.json.encode(row), type=Explanation) == row
