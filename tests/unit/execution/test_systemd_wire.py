"""What systemd's socket says, where it is no answer."""

import socket
import time

import pytest
from jeepney import DBusAddress, new_method_call, new_method_return

from slackwater.execution.systemd_wire import SystemdWire


def reply(signature: str | None = None, body: tuple[object, ...] = ()) -> bytes:
    call = new_method_call(DBusAddress("/a", "a.b", "a.b"), "Get")
    call.header.serial = 1
    made = new_method_return(call, signature, body)
    data: bytes = made.serialise(serial=1)
    return data


def version(said: bytes) -> object:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(said)
        theirs.shutdown(socket.SHUT_WR)
        return SystemdWire(ours, time.monotonic() + 3600).manager_property("Version")


def test_a_property() -> None:
    assert version(reply("v", (("s", "252"),))) == "252"


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"OK 0123\r\n" + bytes(16),
        b"l\x02\x01\x01" + b"\xff" * 28,
        reply("v", (("s", "252"),)).replace(b"252\0", b"2525"),
        reply("s", ("252",)),
        reply(),
    ],
    ids=["nothing", "greeting", "lengths", "no end of a text", "no variant", "no body"],
)
def test_what_is_no_answer_is_an_accident_of_the_connection(said: bytes) -> None:
    with pytest.raises(ConnectionError):
        version(said)
