"""A command's streams: what comes on which channel, and how it ended."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from slackwater.remote.exec_stream import (
    ENDING,
    STDERR,
    STDOUT,
    CommandEnd,
    ContainerPlace,
    ExecStream,
    read_end,
)
from tests.unit.remote.exec_server import NAMESPACE, POD, ExecServer, ExecSession, Run, exec_server

PLACE = ContainerPlace(NAMESPACE, POD, "agent")
PATIENCE = 30.0


@contextmanager
def running(run: Run, *command: str) -> Iterator[tuple[ExecStream, ExecServer]]:
    with exec_server(run) as server:
        stream = ExecStream(server.client(), PLACE, command)
        try:
            yield stream, server
        finally:
            stream.close()


def read_all(stream: ExecStream) -> bytes:
    whole = b""
    while data := stream.receive(PATIENCE):
        whole += data
    return whole


def test_what_is_asked_for() -> None:
    with running(ExecSession.end, "slackwater", "explain", "a b/c&d") as (stream, server):
        assert read_all(stream) == b""
        [asked] = server.commands
        [path] = [each for each in server.server.asked() if each.endswith("/exec")]
    assert path == f"GET /api/v1/namespaces/{NAMESPACE}/pods/{POD}/exec"
    assert asked == [
        ("container", "agent"),
        ("stdin", "true"),
        ("stdout", "true"),
        ("stderr", "true"),
        ("command", "slackwater"),
        ("command", "explain"),
        ("command", "a b/c&d"),
    ]


def test_stdin_goes_there_and_stdout_comes_back() -> None:
    def run(session: ExecSession) -> None:
        for channel in (STDOUT, STDERR, ENDING):
            session.send(channel, b"")  # as kubelets begin
        session.write(session.readline(100).upper())
        session.complain("a warning\nof two lines")
        session.write(b"\x00\xff")
        session.end()

    with running(run) as (stream, _):
        stream.send(b"hel")
        stream.send(b"lo\n")
        assert read_all(stream) == b"HELLO\n\x00\xff"
        assert (stream.end, stream.stderr) == (CommandEnd(0), "a warning of two lines")


def test_stderr_is_bounded() -> None:
    def run(session: ExecSession) -> None:
        for _ in range(10):
            session.complain("x" * 10_000)
        session.end()

    with running(run) as (stream, _):
        assert read_all(stream) == b""
        assert len(stream.stderr) == 1 << 16


def test_a_connection_that_ends_first() -> None:
    with running(lambda session: session.write(b"half")) as (stream, _):
        assert read_all(stream) == b"half"
        assert stream.end is None


@pytest.mark.parametrize(
    ("text", "end"),
    [
        (b'{"metadata":{},"status":"Success"}', CommandEnd(0)),
        (
            (
                b'{"status":"Failure","message":"killed","reason":"NonZeroExitCode","details":'
                b'{"causes":[{"reason":"ExitCode","message":"137"}]}}'
            ),
            CommandEnd(137, "killed"),
        ),
        (
            b'{"status":"Failure","message":"no such\\n container","reason":"InternalError"}',
            CommandEnd(None, "no such container"),
        ),
        (
            b'{"status":"Failure","details":{"causes":[{"reason":"ExitCode","message":"many"}]}}',
            CommandEnd(None),
        ),
        (
            b'{"status":"Failure","details":{"causes":[{"reason":"ExitCode","message":"1000"}]}}',
            CommandEnd(None),
        ),
        (b"exec: no\nway", CommandEnd(None, "exec: no way")),
        (b"\xff", CommandEnd(None, "\ufffd")),
        (b"7", CommandEnd(None, "7")),
        (b"[" * 5000, CommandEnd(None, "[" * 1000)),
    ],
)
def test_how_it_ended(text: bytes, end: CommandEnd) -> None:
    assert read_end(text) == end


def test_an_exit_code_comes_through() -> None:
    with running(lambda session: session.fail(3)) as (stream, _):
        assert read_all(stream) == b""
        assert stream.end == CommandEnd(
            3, "command terminated with non-zero exit code: exit status 3"
        )


def test_closing_ends_the_commands_stdin() -> None:
    """So nothing stays behind in the agent's container."""
    lines: list[bytes] = []

    def run(session: ExecSession) -> None:
        lines.append(session.readline(100))
        lines.append(session.readline(100))

    with running(run) as (stream, server):
        stream.send(b"first\n")
        stream.close()
        assert server.ended.acquire()
    assert lines == [b"first\n", b""]
