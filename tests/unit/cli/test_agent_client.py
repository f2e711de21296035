"""Where the agent is, and one sentence for each way in which there is no answer."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.cli.agent_client import (
    AgentAddress,
    NoAnswer,
    ask,
    ask_explanation,
    ask_overview,
    find_agent,
    parse_address,
)
from slackwater.cli.output import WrongSettings
from slackwater.record.explanation import Explanation
from slackwater.record.overview import Overview
from tests.unit.cli.served import always, served


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:10480", "127.0.0.1", 10480),
        ("node-7:1", "node-7", 1),
        ("[::1]:65535", "::1", 65535),
        ("http://node-7:80/", "node-7", 80),
        ("0.0.0.0:10480", "127.0.0.1", 10480),
        ("[::]:10480", "::1", 10480),
        (":10480", "127.0.0.1", 10480),
    ],
)
def test_addresses(text: str, host: str, port: int) -> None:
    found = parse_address(text, "here")
    assert found == AgentAddress(host, port, "here")


@pytest.mark.parametrize(
    "text",
    ["", "node", "node:", "node:0", "node:65536", "node:1x", "node:٣", "::1:80", "a b:1", "a/b:1",
     "user@node:1", "node:123456", "https://node:1", "ü:1"],
)  # fmt: skip
def test_what_is_no_address(text: str) -> None:
    assert parse_address(text, "here") is None


@given(st.text(max_size=30))
def test_any_text_is_an_address_or_is_not(text: str) -> None:
    found = parse_address(text, "here")
    assert found is None or 1 <= found.port <= 65535


@given(st.from_regex(r"\A[a-z][a-z0-9.-]{0,20}\Z"), st.integers(1, 65535))
def test_an_address_reads_as_it_is_shown(host: str, port: int) -> None:
    address = AgentAddress(host, port, "here")
    assert parse_address(str(address), "here") == address


def test_who_names_the_agent(tmp_path: Path) -> None:
    assert find_agent("", str(tmp_path)).port == 10480
    assert "No such file" in find_agent("", str(tmp_path)).source
    (tmp_path / "endpoint").write_text("127.0.0.1:4321\n")
    assert find_agent("", str(tmp_path)) == AgentAddress("127.0.0.1", 4321, f"{tmp_path}/endpoint")
    assert find_agent("other:99", str(tmp_path)) == AgentAddress("other", 99, "--agent")


def test_a_wrong_address_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(WrongSettings, match="--agent is 'nowhere'; it must be host:port"):
        find_agent("nowhere", str(tmp_path))
    (tmp_path / "endpoint").write_text("\0garbage")
    with pytest.raises(NoAnswer, match="which is not host:port; start one with"):
        find_agent("", str(tmp_path))


@pytest.fixture
def silent() -> Iterator[AgentAddress]:
    """A listener that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield AgentAddress("127.0.0.1", listener.getsockname()[1], "test")


def test_no_answer_in_time(silent: AgentAddress) -> None:
    with pytest.raises(NoAnswer, match=r"\(test\) gave no answer in 0.2 s"):
        ask_overview(silent, 0.2)


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(NoAnswer, match=r"no agent answers at .* start one with `slackwater agent"):
        ask_overview(AgentAddress("127.0.0.1", port, "test"))


def test_somebody_else_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"220 mail.example ESMTP\r\n")

        thread = threading.Thread(target=greet)
        thread.start()
        with pytest.raises(NoAnswer, match="is not an agent: BadStatusLine"):
            ask_overview(AgentAddress("127.0.0.1", listener.getsockname()[1], "test"))
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
    with served(always(body, status)) as server, pytest.raises(NoAnswer) as caught:
        ask_overview(_address(server.address))
    assert said in caught.value.message
    assert "\n" not in caught.value.message


def _address(text: str) -> AgentAddress:
    found = parse_address(text, "test")
    assert found is not None
    return found


def test_what_is_asked_and_what_comes_back() -> None:
    row = Explanation(target="a/b c", level="pod")
    with served(always([row])) as server:
        assert ask_explanation(_address(server.address), "a/b c") == [row]
        assert ask_explanation(_address(server.address), "") == [row]
        assert server.asked == ["/v1/explain?target=a%2Fb+c", "/v1/explain"]
        server.reply = always({"apiVersion": "slackwater.io/v1", "tick": 7, "later": "field"})
        assert ask_overview(_address(server.address)) == Overview(tick=7)
        server.reply = always(3)
        assert ask(_address(server.address), "/x", {}, int) == 3
    assert msgspec.json.decode(msgspec.json.encode(row), type=Explanation) == row
