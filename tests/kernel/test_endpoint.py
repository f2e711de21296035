"""The endpoint of a real agent on real cgroups: what it shows, and what can be asked of it."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slackwater.agent.agent_socket import socket_path
from slackwater.agent.endpoint_client import ask_agent
from tests.kernel.bed import Bed
from tests.kernel.hand import work
from tests.kernel.running import ALLOWED, SETTINGS, Running, quota, wait_for

#: Whole processes are slow in an emulated machine, and none of this depends on systemd.
pytestmark = pytest.mark.cgroupfs

NOBODY = 65_534
#: So much room that the quota follows every stir of the machine.
RESTLESS = SETTINGS.replace('cpu: "2"', 'cpu: "64"').replace(
    "threshold: 90", "threshold: 90, jitter: 0"
)


def waiting(for_what: str) -> Iterator[None]:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        yield
        time.sleep(0.1)
    raise AssertionError(f"waited for {for_what} in vain")


def ask(running: Running, path: str, method: str = "GET") -> tuple[int, str]:
    """Over the socket."""
    answer = ask_agent(socket_path(str(running.state)), method, path, 300)
    return answer.status, answer.body.decode()


def release_beside(running: Running) -> tuple[int, list[dict[str, Any]], str]:
    """`slackwater release` while the agent runs."""
    asking = running._start("release", "-o", "json")
    output, errors = asking.communicate(timeout=300)
    return asking.returncode, [json.loads(line) for line in output.splitlines()], errors


def ask_as(user: int, running: Running) -> str:
    """What a user that is not root is told about a release: the first line, or the error."""
    path = socket_path(str(running.state))
    command = (
        "import os, socket, sys\n"
        "client = socket.socket(socket.AF_UNIX)\n"
        "os.setuid(int(sys.argv[2]))\n"
        "try:\n"
        "    client.connect(sys.argv[1])\n"
        "except OSError as error:\n"
        "    sys.exit(print(error.strerror))\n"
        "client.sendall(b'POST /v1/release HTTP/1.0\\r\\n\\r\\n')\n"
        "print(client.makefile().readline())\n"
    )
    # Where a user that is not root could go: pytest's folders are root's.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)  # noqa: S103
        link = os.path.join(folder, "s")
        os.link(path, link)
        done = subprocess.run(
            [sys.executable, "-c", command, link, str(user)],
            capture_output=True,
            text=True,
            check=True,
        )
    return done.stdout.strip()


def metrics(running: Running) -> dict[str, float]:
    status, text = ask(running, "/metrics")
    assert status == 200
    rows = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in rows}


def test_what_is_shown_is_what_the_kernel_has(
    bed: Bed, tiers: tuple[str, str], start: Callable[..., Running]
) -> None:
    work(bed, tiers[1], busy=0.01, idle=0.1)
    running = start("--reading", "everything")
    running.await_listening()
    wait_for(bed, tiers[0], 10, ALLOWED)
    shown: dict[str, float] = {}
    for _ in waiting("a tick that read our quota"):
        before, shown, after = quota(bed, tiers[0]), metrics(running), quota(bed, tiers[0])
        read = round(1000 * shown['slackwater_tier_cpu_quota_cores{tier="besteffort"}'], 6)
        if before == after == read:  # nothing was written meanwhile
            break
    assert shown['slackwater_tier_cpu_quota_cores{tier="burstable"}'] == float("inf")
    assert shown["slackwater_node_cpu_allocatable_cores"] == 2
    assert 0 < shown["slackwater_node_cpu_usage_cores"] < 1000
    assert shown["slackwater_knobs_held"] == 1
    assert shown['slackwater_knob_changes_total{knob="quota",level="tier",result="applied"}'] >= 1
    assert shown['slackwater_node_cpu_throttle_events_total{resource="cpu"}'] >= 1
    assert shown['slackwater_policy_enabled{policy="best_effort_share"}'] == 1
    assert ask(running, "/healthz") == (200, '{"ok":true}\n')
    assert ask(running, "/readyz") == (200, '{"ok":true}\n')
    status, explained = ask(running, "/v1/explain?target=besteffort")
    assert (status, json.loads(explained)[0]["baseline"]) == (200, "unlimited")
    status, seen = ask(running, "/v1/top")
    assert (status, json.loads(seen)["node"]["allocatable"]) == (200, 2000)
    status, recording = ask(running, "/v1/ticks")
    assert status == 200
    assert recording.count("\n") >= 3  # a head, settings, ticks


def test_released_by_hand_it_stays_released(
    bed: Bed, tiers: tuple[str, str], start: Callable[..., Running]
) -> None:
    running = start()
    best_effort, _ = tiers
    running.await_listening()
    wait_for(bed, best_effort, 10, ALLOWED)
    assert ask_as(NOBODY, running) == "Permission denied"
    os.chmod(socket_path(str(running.state)), 0o666)  # noqa: S103 - as if somebody had been careless
    assert "403" in ask_as(NOBODY, running)
    assert quota(bed, best_effort) is not None  # neither did anything
    code, released, said = release_beside(running)
    assert (code, [line["result"] for line in released]) == (0, ["applied"])
    assert said == "slackwater: the running agent did it and is paused until `slackwater resume`\n"
    assert released[0]["because"] == "released manually"
    assert quota(bed, best_effort) is None
    before = metrics(running)['slackwater_ticks_total{kind="regular"}']
    for _ in waiting("three more ticks"):
        assert quota(bed, best_effort) is None
        if metrics(running)['slackwater_ticks_total{kind="regular"}'] >= before + 3:
            break
    assert metrics(running)["slackwater_paused"] == 1
    status, ready = ask(running, "/readyz")
    assert status == 200
    assert json.loads(ready)["paused"].startswith("released manually")
    assert release_beside(running)[:2] == (0, [])  # nothing is left to put back
    lines = running.end(signal.SIGTERM)
    assert running.process.returncode == 0
    assert lines[-1]["because"] == "released manually"
    assert not os.path.exists(socket_path(str(running.state)))


def test_a_killed_agents_socket_confuses_nobody(
    bed: Bed, tiers: tuple[str, str], start: Callable[..., Running]
) -> None:
    killed = start()
    killed.await_listening()
    wait_for(bed, tiers[0], 10, ALLOWED)
    killed.end(signal.SIGKILL)
    assert os.path.exists(socket_path(str(killed.state)))
    code, released = killed.release()  # from the ledger: nobody holds it
    assert (code, [line["because"] for line in released]) == (0, ["released"])
    assert quota(bed, tiers[0]) is None
    again = start("--listen", "")  # nothing on the network; the socket is there all the same
    again.await_listening()
    wait_for(bed, tiers[0], 10, ALLOWED)
    code, _, said = release_beside(again)
    assert (code, quota(bed, tiers[0])) == (0, None)
    assert said.startswith("slackwater: the running agent did it")
    lines = again.end(signal.SIGTERM)
    told = [line["because"] for line in lines if line["what"] == "endpoint"]
    assert told == [f"listening on unix:{socket_path(str(again.state))}"]


def test_nobody_reads_stdout_and_the_agent_goes_on(
    bed: Bed, tiers: tuple[str, str], start: Callable[..., Running], tmp_path: Path
) -> None:
    (tmp_path / "node").mkdir()
    (tmp_path / "node/settings.yaml").write_text(RESTLESS)
    work(bed, tiers[1], busy=0.03, idle=0.13)  # each tick sees another usage
    running = start("--period", "100ms")  # the later one counts
    assert running.process.stdout is not None
    page = fcntl.fcntl(running.process.stdout, fcntl.F_SETPIPE_SZ, 4096)
    running.await_listening()
    applied = 'slackwater_knob_changes_total{knob="quota",level="tier",result="applied"}'
    for _ in waiting("more effects than the pipe holds lines"):
        if metrics(running).get(applied, 0) * 200 > 2 * page:  # a line has more than 200 bytes
            break
    assert ask(running, "/healthz")[0] == 200
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(30) == 0  # it ends, too
    assert running.lines()  # whole ones
    assert running.release()[0] == 0
    assert quota(bed, tiers[0]) is None
