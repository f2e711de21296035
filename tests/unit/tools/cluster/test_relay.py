"""The relay: rules, and bytes that arrive whole on both sides."""

import os
import socket
import threading

import pytest

from tools.cluster.relay import Place, Rule, parse_rule, pump

HERE, NODE = 3, 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "in:10.0.0.1:443=21003",
            Rule(Place(NODE, "10.0.0.1", 443), Place(HERE, "127.0.0.1", 21003)),
        ),
        (
            "out:21010=21011",
            Rule(Place(HERE, "127.0.0.1", 21010), Place(NODE, "127.0.0.1", 21011)),
        ),
    ],
)
def test_a_rule_names_both_ends(text: str, expected: Rule) -> None:
    assert parse_rule(text, HERE, NODE) == expected


@pytest.mark.parametrize("text", ["", "up:1=2", "in:1=2", "out:a=b", "out:1"])
def test_a_wrong_rule_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - only our own programs write rules
        parse_rule(text, HERE, NODE)


def test_bytes_arrive_whole_and_an_end_is_passed_on() -> None:
    """One side ends first, and still hears the other out."""
    caller, near = socket.socketpair()
    far, called = socket.socketpair()
    question, answer = os.urandom(300_000), os.urandom(500_000)
    carrying = threading.Thread(target=pump, args=(near, far))
    carrying.start()

    def respond() -> None:
        heard = b"".join(iter(lambda: called.recv(1 << 16), b""))
        called.sendall(answer if heard == question else b"not the question")
        called.close()

    responding = threading.Thread(target=respond)
    responding.start()
    caller.sendall(question)
    caller.shutdown(socket.SHUT_WR)
    assert b"".join(iter(lambda: caller.recv(1 << 16), b"")) == answer
    carrying.join()
    responding.join()
    assert not carrying.is_alive()
    for each in (caller, near, far):
        each.close()
