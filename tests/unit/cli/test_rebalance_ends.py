"""`slackwater rebalance` on a terminal, in a pipe, under a signal, before servers that say no."""

import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from fcntl import ioctl
from pathlib import Path

import pytest

from tests.unit.cli.rebalance_world import World, clean, kubeconfig, rebalance, served_world
from tests.unit.contract.served import owned_pod

pytestmark = pytest.mark.long

PLAN = ("plan", "web", "-n", "shop")
RUN = ("run", "web", "-n", "shop")


@pytest.fixture
def world() -> Iterator[World]:
    with served_world() as made:
        yield made


@pytest.fixture
def reached(world: World, tmp_path: Path) -> dict[str, str]:
    return {
        "SLACKWATER_KUBECONFIG": kubeconfig(tmp_path, world.address),
        "PROMETHEUS_ENDPOINT": world.address,
    }


def on_a_terminal(columns: int, environment: dict[str, str], *arguments: str) -> str:
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "slackwater", "rebalance", *arguments],
        stdin=theirs, stdout=theirs, stderr=theirs,
        env=clean(TERM="xterm-256color", **environment),
    )  # fmt: skip
    os.close(theirs)
    seen = b""
    try:
        while select.select([ours], [], [])[0]:
            seen += os.read(ours, 65536)
    except OSError:  # EIO: the other side has ended
        pass
    finally:
        os.close(ours)
        process.wait()
    return seen.decode().replace("\r\n", "\n")


def test_a_terminal_of_80_columns_has_colours_and_no_longer_line(reached: dict[str, str]) -> None:
    told = on_a_terminal(80, reached, *PLAN)
    assert "\x1b[" in told
    assert "34.8%" in told
    plain = on_a_terminal(80, reached, *PLAN, "--no-color")
    assert "\x1b[" not in plain
    assert max(map(len, plain.splitlines())) <= 80
    assert "171.4 %" in plain


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_nothing_is_wider_than_the_terminal(
    world: World, reached: dict[str, str], columns: int
) -> None:
    names = {name: f"web-6bf8d7c9b5-8pr7{name[-1]}" for name in world.pods}
    world.usages = {names[name]: used for name, used in world.usages.items()}
    world.pods = {name: owned_pod(name, world.replica_set) for name in names.values()}
    told = on_a_terminal(columns, reached | {"NO_COLOR": "1"}, *PLAN)
    assert "rotate 4 of 6 pods" in told
    assert max(map(len, told.splitlines())) <= columns


def test_no_color_of_the_environment(reached: dict[str, str]) -> None:
    assert "\x1b[" not in on_a_terminal(80, reached | {"NO_COLOR": "1"}, *PLAN)


def test_a_reader_that_leaves_early_is_no_traceback(reached: dict[str, str]) -> None:
    command = f"{sys.executable} -m slackwater rebalance {' '.join(PLAN)} -o json | head -c 1"
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True, text=True, check=False, env=clean(**reached),
    )  # fmt: skip
    assert (done.stdout, "Traceback" in done.stderr) == ("{", False)


@pytest.mark.parametrize(
    ("code", "exit_code", "result"),
    [(429, 0, "pdb_blocked"), (500, 1, "kubernetes_error"), (403, 1, "kubernetes_error")],
)
def test_an_eviction_that_is_refused(
    world: World, reached: dict[str, str], code: int, exit_code: int, result: str
) -> None:
    world.refused = code
    done = rebalance(*RUN, **reached)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, told[-1]["result"]) == (exit_code, result)
    assert world.evicted()[0] == "web-a"
    assert set(world.pods) == set(world.usages)
    assert "Traceback" not in done.stderr


def test_a_signal_ends_it_between_batches(world: World, reached: dict[str, str]) -> None:
    """The replacements never become Ready, so it waits; then it is asked to end."""
    world.ready = "False"
    process = subprocess.Popen(
        [sys.executable, "-m", "slackwater", "rebalance", *RUN, "--ready-timeout", "1h"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean(**reached),
    )  # fmt: skip
    try:
        assert process.stdout is not None
        first = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.send_signal(signal.SIGTERM)
        rest, err = process.communicate()
    finally:
        process.kill()
    assert [each["result"] for each in first] == ["evicted", "evicted"]
    last = json.loads(rest.splitlines()[-1])
    assert (last["what"], last["after"]) == ("Deployment shop/web", "web-a, web-f")
    assert "asked to end" in last["because"]
    assert world.evicted() == ["web-a", "web-f"]
    assert (process.returncode, err) == (0, "")


def opted_out(world: World) -> None:
    world.deployment["metadata"]["annotations"] = {"slackwater.io/rotate": "false"}


def scaling(world: World) -> None:
    world.autoscalers[0]["status"]["desiredReplicas"] = 8


def too_few(world: World) -> None:
    for name in ("web-c", "web-d"):
        del world.pods[name]
    world.autoscalers[0]["status"] |= {"desiredReplicas": 4, "currentReplicas": 4}


def without_hpa(world: World) -> None:
    world.autoscalers.clear()


@pytest.mark.parametrize(
    ("change", "reason", "exit_code"),
    [
        (opted_out, "opted_out", 0),
        (scaling, "hpa_scaling", 0),
        (too_few, "min_pods", 0),
        (without_hpa, "hpa_target_missing", 1),
    ],
)
def test_plan_and_run_agree(
    world: World,
    reached: dict[str, str],
    change: Callable[[World], None],
    reason: str,
    exit_code: int,
) -> None:
    change(world)
    planned = rebalance(*PLAN, "-o", "json", **reached)
    ran = rebalance(*RUN, **reached)
    assert (planned.returncode, ran.returncode) == (exit_code, exit_code)
    plan, line = json.loads(planned.stdout), json.loads(ran.stdout.splitlines()[-1])
    assert (plan["reason"], line["result"]) == (reason, reason)
    assert plan["because"] == line["because"]
    assert world.evicted() == []


def test_without_prometheus(world: World, reached: dict[str, str]) -> None:
    """metrics.k8s.io is not served here: that is one sentence, and Prometheus is not asked."""
    done = rebalance(*PLAN, "--usage-source", "metrics-api", "-o", "json", **reached)
    data = json.loads(done.stdout)
    assert (done.returncode, data["problem"]) == (1, True)
    assert "metrics" in data["because"]
    assert not any(each.path == "/api/v1/query" for each in world.server.requests)
