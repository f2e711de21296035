"""`slackwater relay` as a process: what the agent's container runs."""

import subprocess
import sys
from collections.abc import Callable

from tests.unit.cli.served import served_agent

HEAVY = ("rich", "yaml", "websockets", "slackwater.remote", "slackwater.kube", "numpy")


def start(socket: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "slackwater", "relay", "--agent", socket],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def run(socket: str, talk: Callable[[subprocess.Popen[bytes]], None]) -> tuple[int, bytes]:
    """Its exit code and stderr, after a talk and the end of its stdin."""
    with start(socket) as process:
        talk(process)
        _, said = process.communicate()
        return process.returncode, said


def test_each_answer_comes_before_the_next_request() -> None:
    def talk(process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        for target in (b"/v1/top", b"/v1/cpus"):
            process.stdin.write(target + b"\n")
            process.stdin.flush()
            assert process.stdout.readline() == b'{"status":200,"length":%d}\n' % len(target)
            assert process.stdout.read(len(target)) == target

    with served_agent(lambda path: (200, path.encode())) as agent:
        assert run(agent.address, talk) == (0, b"")


def test_it_ends_when_nobody_reads_any_more() -> None:
    def talk(process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        process.stdout.close()

    with served_agent(lambda _: (200, b"x")) as agent, start(agent.address) as process:
        talk(process)
        assert process.stdin is not None
        process.stdin.write(b"/v1/top\n")
        process.stdin.close()
        assert process.wait() == 1
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_it_loads_nothing_heavy() -> None:
    """It counts against the memory of the agent's container."""
    code = (
        "import io, sys; sys.stdin = io.TextIOWrapper(io.BytesIO(b'/v1/top\\n'));"
        "from slackwater.cli.main import slackwater;"
        "slackwater(['relay', '--agent', '/nowhere'], standalone_mode=False);"
        "print(*sys.modules, sep='\\n', file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert b"no agent answers at /nowhere" in done.stdout
    loaded = done.stderr.decode().split()
    assert "slackwater.agent.relay" in loaded
    assert [name for name in HEAVY if name in loaded] == []
