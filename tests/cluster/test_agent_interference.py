"""The agent as a process at a real API server: the Node's taint and condition while a rule asks for
them, and neither after a crash, a release, an exit or a switch."""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.agent_process import ClusterAgent, eventually
from tests.cluster.agent_stage import Stage, config_map
from tests.kernel.bed import Bed
from tests.kernel.conftest import KERNELS, kernel_name
from tools.cluster.control_plane import ControlPlane
from tools.manifests import CHART

NAMESPACE = "here"
OURS = {"key": "interference.crane.io", "effect": "PreferNoSchedule"}
THEIRS = {"key": "a", "value": "x", "effect": "NoExecute"}
ACTION: dict[str, Any] = {
    "apiVersion": "ensurance.crane.io/v1alpha1",
    "kind": "AvoidanceAction",
    "metadata": {"name": "disablescheduling"},
    "spec": {"description": "disable schedule new pods to the node", "coolDownSeconds": 300},
}


def policy(value: int = 1, strategy: str = "None") -> dict[str, Any]:
    """The seed's, but for the value: a machine always does something."""
    rule = {
        "name": "cpu-usage",
        "avoidanceThreshold": 2,
        "restoreThreshold": 2,
        "actionName": "disablescheduling",
        "strategy": strategy,
        "metricRule": {"name": "cpu_total_usage", "value": value},
    }
    probe = {"timeoutSeconds": 10, "nodeLocalGet": {"localCacheTTLSeconds": 60}}
    return {
        "apiVersion": "ensurance.crane.io/v1alpha1",
        "kind": "NodeQOSEnsurancePolicy",
        "metadata": {"name": "waterline1"},
        "spec": {"nodeQualityProbe": probe, "objectiveEnsurances": [rule]},
    }


@pytest.fixture(scope="module")
def plane(programs: dict[str, Path], make_folder: Callable[[], Path]) -> Iterator[ControlPlane]:
    made = ControlPlane(make_folder(), programs)
    try:
        made.open()
        made.kubectl("apply", "--server-side", "-f", str(CHART / "crds"))
        made.kubectl("create", "namespace", NAMESPACE)
        yield made
    finally:
        made.close()


class Rules(Stage):
    """A stage with the seed's rule."""

    def rule(self, value: int = 1, strategy: str = "None") -> None:
        eventually("the definitions", lambda: self._apply(ACTION, policy(value, strategy)))

    def _apply(self, *objects: dict[str, Any]) -> bool:
        self.plane.apply(*objects)
        return True

    def unrule(self) -> None:
        self.plane.kubectl("delete", "nodeqosensurancepolicy", "waterline1", "--ignore-not-found")

    def taint(self, *taints: dict[str, str]) -> None:
        body = json.dumps({"spec": {"taints": list(taints)}})
        self.plane.kubectl("patch", "node", self.node, "--type=merge", "-p", body)

    def shown(self) -> tuple[list[dict[str, str]], str]:
        """Taints of people and of ours, and the condition."""
        node = self.plane.get("node", self.node)
        taints = node["spec"].get("taints") or []
        conditions = node["status"].get("conditions") or []
        found = [c["status"] for c in conditions if c["type"] == "interference-identified"]
        kept = [each for each in taints if not each["key"].startswith("node.kubernetes.io/")]
        return kept, found[0] if found else ""

    def await_tainted(self) -> None:
        eventually("the taint", lambda: self.shown() == ([THEIRS, OURS], "True"))

    def await_clean(self) -> None:
        eventually("neither", lambda: self.shown() == ([THEIRS], ""))


@pytest.fixture
def stage(plane: ControlPlane, tmp_path: Path) -> Iterator[Rules]:
    bed = Bed(KERNELS[kernel_name()][0], f"cluster-{uuid.uuid4().hex[:8]}")
    made = Rules(plane, NAMESPACE, bed, tmp_path)
    made.taint(THEIRS)
    try:
        yield made
    finally:
        made.close()
        made.unrule()
        plane.kubectl("delete", "node", made.node)
        plane.kubectl("delete", "configmap", "slackwater-agent", "-n", NAMESPACE,
                      "--ignore-not-found")  # fmt: skip
        bed.close()


def started(stage: Rules, *arguments: str) -> ClusterAgent:
    made = stage.begin(*arguments)
    eventually("the endpoint", made.is_listening)
    return made


def await_ticks(agent: ClusterAgent) -> None:
    """More than a rule needs to be triggered, and to do something."""
    name = 'slackwater_ticks_total{kind="regular"} '

    def ticks() -> float:
        lines = agent.text("/metrics").splitlines()
        return next((float(line.removeprefix(name)) for line in lines if line.startswith(name)), 0)

    eventually("some ticks", lambda: ticks() >= 6)


def test_a_rule_that_goes_takes_taint_and_condition_with_it(stage: Rules) -> None:
    stage.rule()
    agent = started(stage)
    stage.await_tainted()
    stage.unrule()
    stage.await_clean()
    assert agent.told("taint interference.crane.io")


def test_a_killed_agents_taint_is_put_right_by_the_next(stage: Rules) -> None:
    stage.rule()
    agent = started(stage)
    stage.await_tainted()
    agent.kill()
    stage.unrule()
    assert stage.shown() == ([THEIRS, OURS], "True")
    started(stage)
    stage.await_clean()


def test_a_killed_agents_taint_stays_while_the_rule_does(stage: Rules) -> None:
    stage.rule()
    agent = started(stage)
    stage.await_tainted()
    agent.kill()
    before = stage.plane.get("node", stage.node)["spec"]["taints"]
    again = started(stage)
    await_ticks(again)
    assert stage.plane.get("node", stage.node)["spec"]["taints"] == before


def test_an_agent_that_releases_at_its_exit_leaves_neither(stage: Rules) -> None:
    stage.rule()
    agent = started(stage, "--on-exit", "release")
    stage.await_tainted()
    agent.end()
    assert stage.shown() == ([THEIRS], "")
    assert len(agent.told("taint interference.crane.io")) == 2


def test_a_release_by_hand_removes_both_for_good(stage: Rules) -> None:
    stage.rule()
    agent = started(stage)
    stage.await_tainted()
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("SLACKWATER_", "KUBE"))}
    program = (sys.executable, "-m", "slackwater", "release", "--state", str(agent.state))
    place = ("--kubepods", stage.bed.kubepods)
    subprocess.run([*program, *place], check=True, capture_output=True, env=clean)
    stage.await_clean()


def test_switched_off_nothing_is_left(stage: Rules) -> None:
    stage.rule()
    started(stage)
    stage.await_tainted()
    text = "apiVersion: slackwater.io/v1\nkind: AgentSettings\n"
    data = {"settings.yaml": f"{text}spec: {{watermarkRelief: {{enabled: false}}}}\n"}
    stage.plane.apply(config_map("slackwater-agent", NAMESPACE, data))
    stage.await_clean()


def test_a_preview_changes_nothing(stage: Rules) -> None:
    stage.rule(strategy="Preview")
    agent = started(stage)
    await_ticks(agent)
    assert stage.shown() == ([THEIRS], "")
