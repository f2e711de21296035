"""--node: the same output as on the node itself, whichever command and format, and one sentence for
each way in which there is none."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess

import msgspec
import pytest
import yaml

from slackwater.record.cpu_map import CpuMap, CpuRow
from slackwater.record.explanation import Explanation
from slackwater.record.overview import Overview
from tests.unit.cli.served import Reply, Served, served_agent, slackwater
from tests.unit.cli.test_status import kubeconfig
from tests.unit.cli.test_top import SHOWN, Terminal
from tests.unit.remote.exec_server import (
    NAMESPACE,
    NODE,
    ExecServer,
    agent_pod,
    exec_server,
    relay_to,
)

ROWS = [Explanation(target="besteffort", level="tier", knob="quota", path="kubepods/besteffort")]
MAP = CpuMap(cpus=(CpuRow(0, 0, 0, 0, 0, reserved=False, exclusive=None, shared=()),), common="0")
ANSWERS = {"/v1/explain": ROWS, "/v1/top": Overview(tick=9, state="blind"), "/v1/cpus": MAP}


def reply(target: str) -> tuple[int, bytes]:
    path = target.partition("?")[0]
    if path == "/v1/ticks":
        return 200, b'{"ticks":\n\x00}'
    return 200, msgspec.json.encode(ANSWERS[path])


@contextmanager
def cluster(answer: Reply = reply) -> Iterator[tuple[Served, ExecServer]]:
    with served_agent(answer) as agent, exec_server(relay_to(agent.address)) as server:
        yield agent, server


def ask(server: ExecServer, folder: Path, *arguments: str) -> CompletedProcess[str]:
    config = kubeconfig(folder, f"http://127.0.0.1:{server.server.port}")
    return slackwater(*arguments, "--node", NODE, KUBECONFIG=config)


@pytest.mark.parametrize(
    "command",
    [
        ["explain"],
        ["explain", "besteffort", "--pods"],
        ["explain", "-o", "json"],
        ["explain", "-o", "yaml"],
        ["top", "--once"],
        ["top", "-o", "json"],
        ["top", "-o", "yaml"],
        ["cpus", "-o", "wide"],
        ["cpus", "--plan-defragment"],
        ["cpus", "-o", "json"],
        ["record"],
    ],
)
def test_it_is_the_same_as_on_the_node(tmp_path: Path, command: list[str]) -> None:
    with cluster() as (agent, server):
        there = slackwater(*command, "--agent", agent.address)
        asked = list(agent.asked)
        here = ask(server, tmp_path, *command)
        assert agent.asked == asked * 2
    assert there.returncode == 0
    assert (here.returncode, here.stdout, here.stderr) == (0, there.stdout, "")


def test_no_relay_stays_behind(tmp_path: Path) -> None:
    with cluster() as (_, server):
        ask(server, tmp_path, "explain")
        assert server.ended.acquire()
        assert len(server.sessions) == 1


def test_a_target_that_is_not_there_is_the_agents_sentence(tmp_path: Path) -> None:
    with cluster(lambda _: (404, b'{"error": "there is no pod x"}')) as (_, server):
        done = ask(server, tmp_path, "explain", "x")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "slackwater: there is no pod x\n")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((503, b'{"error": "no tick yet"}'), "answers 503 to /v1/cpus: no tick yet"),
        ((200, b"<html>"), "answers to /v1/cpus what this slackwater cannot read"),
    ],
)
def test_an_answer_that_is_none(tmp_path: Path, answer: tuple[int, bytes], said: str) -> None:
    with cluster(lambda _: answer) as (_, server):
        done = ask(server, tmp_path, "cpus")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert f"slackwater: the agent on the node node-a {said}" in done.stderr


def test_an_agent_whose_socket_is_gone(tmp_path: Path) -> None:
    """Its container runs, and the program in it does not serve."""
    with exec_server(relay_to(str(tmp_path / "gone"))) as server:
        done = ask(server, tmp_path, "explain")
    assert done.returncode == 1
    assert "the agent on the node node-a answers 502 to /v1/explain: no agent answers at" in (
        done.stderr
    )


def test_a_namespace_that_was_searched_for_is_told(tmp_path: Path) -> None:
    with cluster() as (_, server):
        server.pods = {"qos": [agent_pod(namespace="qos")]}
        found = ask(server, tmp_path, "explain", "-o", "json")
        named = ask(server, tmp_path, "explain", "-o", "json", "-n", "qos")
        other = ask(server, tmp_path, "explain", "-n", NAMESPACE)
    assert json.loads(found.stdout)[0]["target"] == "besteffort"
    assert found.stderr == (
        "slackwater: the agent is in the namespace qos; -n qos finds it at once\n"
    )
    assert (named.stdout, named.stderr) == (found.stdout, "")
    assert (other.returncode, other.stdout) == (1, "")
    assert "no agent's pod is on the node node-a in the namespace slackwater-system; is" in (
        other.stderr
    )


def test_a_missing_right_is_one_sentence(tmp_path: Path) -> None:
    with cluster() as (_, server):
        server.forbidden = {"get pods/exec", "create pods/exec"}
        done = ask(server, tmp_path, "top", "--once")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "slackwater: user jane may not get pods/exec and create pods/exec in the namespace "
        "slackwater-system; whoever administers the cluster can allow it: "
        "docs/reference/remote.md has the Role\n"
    )


def test_without_the_library_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [each for each in sys.modules if each.startswith("slackwater.remote.")]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("websockets", "websockets.frames", "websockets.protocol", "websockets.utils"):
        monkeypatch.setitem(sys.modules, name, None)
    config = kubeconfig(tmp_path, "http://127.0.0.1:1")
    done = slackwater("top", "--node", NODE, KUBECONFIG=config)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("slackwater: --node needs the package websockets: install")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--node", "a", "--agent", "/s"], 2, "--agent is an agent on this machine; --node is"),
        (["--node", "a", "--state", "/s"], 2, "--state is an agent on this machine"),
        (["--context", "c"], 2, "--context goes with --node NAME"),
        (["--kubeconfig", "c"], 2, "--kubeconfig goes with --node NAME"),
        (["-n", "qos"], 2, "--namespace goes with --node NAME"),
        (["--node", "A/b"], 2, "--node is 'A/b', but must be a DNS name"),
        (["--node", ""], 2, "--node is '', but must be a DNS name"),
        (["--node", "a", "--kubeconfig", "/nowhere/c"], 2, "--kubeconfig: /nowhere/c"),
    ],
)
@pytest.mark.parametrize("command", ["explain", "top", "cpus", "record"])
def test_wrong_usage(command: str, arguments: list[str], code: int, said: str) -> None:
    done = slackwater(command, *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr


def test_a_pods_own_namespace_does_not_ask_another_node() -> None:
    """POD_NAMESPACE is set in every pod of ours, where the agent on this machine is meant."""
    with served_agent(reply) as agent:
        done = slackwater("explain", "--agent", agent.address, POD_NAMESPACE=NAMESPACE)
    assert done.returncode == 0


def test_no_cluster_at_all_is_one_sentence(tmp_path: Path) -> None:
    done = slackwater("explain", "--node", "a", HOME=str(tmp_path), KUBECONFIG="")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)


@pytest.mark.long
def test_the_live_view_goes_on_when_the_agents_pod_was_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one relay for each pod, and none after q."""
    answer = msgspec.json.encode(SHOWN)
    with cluster(lambda _: (200, answer)) as (agent, server):
        config = kubeconfig(tmp_path, f"http://127.0.0.1:{server.server.port}")
        monkeypatch.setenv("KUBECONFIG", config)
        shown = Terminal(80, 24, "--node", NODE, "--interval", "100ms")
        asked = len(agent.asked)
        shown.until(lambda: len(agent.asked) > asked + 3)
        assert len(server.sessions) == 1
        server.pods = {}
        server.server.hang_up()
        shown.until(lambda: "no answer for" in shown.text)
        server.pods = {NAMESPACE: [agent_pod("slackwater-agent-new")]}
        asked = len(agent.asked)
        shown.until(lambda: len(agent.asked) > asked + 1)
        shown.press("q")
        assert shown.end() == 0
        for _ in range(2):
            assert server.ended.acquire()
        assert len(server.sessions) == 2


def test_forecast_show_takes_the_node_both_ways(tmp_path: Path) -> None:
    config = kubeconfig(tmp_path, "http://127.0.0.1:1")
    for way in (["node-a"], ["--node", "node-a"], ["node-a", "--node", "node-a"]):
        done = slackwater("forecast", "show", *way, KUBECONFIG=config)
        assert (done.returncode, done.stdout) == (1, "")
        assert "Connection refused" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "NODE is missing: name a node"),
        (["node-a", "--node", "node-b"], "NODE and --node are different nodes"),
        (["--node", "A"], "--node is 'A', but must be a DNS name"),
    ],
)
def test_forecast_show_wants_one_node(arguments: list[str], said: str) -> None:
    done = slackwater("forecast", "show", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_the_role_of_the_manual_has_what_is_asked_for() -> None:
    from slackwater.remote.rights import NEEDED
    from tools.provision import ROOT

    text = (ROOT / "docs/reference/remote.md").read_text()
    role, binding = yaml.safe_load_all(text.partition("```yaml\n")[2].partition("```")[0])
    given = {
        f"{verb} {resource}"
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert given == {str(right) for right in NEEDED}
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert role["metadata"]["namespace"] == NAMESPACE
