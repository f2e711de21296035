"""The map of CPUs and exclusive_cpu_idle on real cgroups: what is said is where threads may run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.model.cpus import CpuSet
from slackwater.model.gap import Gap
from slackwater.observation.cpu_inventory import CpuInventory
from slackwater.observation.host import Roots
from slackwater.record.cpu_map import CpuMap, map_cpus
from tests.kernel.avoidance_rules import CRANE
from tests.kernel.bed import Bed
from tests.kernel.cpu_threads import EVERY, allowed
from tests.kernel.hand import until
from tests.kernel.in_process import Box, InProcess, pod_object
from tests.kernel.pods import CONTAINER, UID, pod_path

pytestmark = pytest.mark.cgroupfs

IDLE = "exclusive_cpu_idle"
ONE = {"cpu": "1"}
WHOLE = 1000


@pytest.fixture
def pinning(bed: Bed, tmp_path: Path) -> Iterator[InProcess]:
    """An agent that binds containers beside a kubelet whose configuration is here: this machine may
    run one of another test."""
    host = tmp_path / "host"
    host.mkdir()
    (host / "kubelet.yaml").write_text("kind: KubeletConfiguration\ncpuManagerPolicy: none\n")
    roots = Roots(proc=str(host), host=str(host), kubelet_config="/kubelet.yaml")
    made = InProcess(bed.mounts, bed.kubepods, tmp_path, cpus=CpuInventory(roots))
    made.settings(corePinning={})
    made.put("rules", *rule_about_idle())
    try:
        yield made
    finally:
        made.close()


def rule_about_idle() -> list[dict[str, object]]:
    """A rule that is never triggered: it only asks for the metric."""
    rule = {
        "name": "idle",
        "actionName": "throttle",
        "metricRule": {"name": IDLE, "value": 1_000_000_000},
    }
    probe = {"nodeLocalGet": {"localCacheTTLSeconds": 60}}
    spec = {"nodeQualityProbe": probe, "rules": [rule]}
    return [
        {"apiVersion": CRANE, "kind": "NodeQOS", "metadata": {"name": "idle"}, "spec": spec},
        {
            "apiVersion": CRANE,
            "kind": "AvoidanceAction",
            "metadata": {"name": "throttle"},
            "spec": {"throttle": {"cpuThrottle": {"minCPURatio": 10, "stepCPURatio": 10}}},
        },
    ]


def put_pods(bed: Bed, agent: InProcess) -> tuple[str, str]:
    """A pod that asks for a CPU alone and one that asks for nothing: their containers' paths."""
    alone, other = CONTAINER.format(1), CONTAINER.format(2)
    paths = (f"{pod_path(bed, 1, '')}/{alone}", f"{pod_path(bed, 2)}/{other}")
    for path in paths:
        bed.make(path)
    said = {"qos.gocrane.io/cpu-manager": "exclusive"}
    agent.put(
        "pods",
        pod_object(UID.format(1), [Box(alone, ONE, ONE)], said, name="alone"),
        pod_object(UID.format(2), [Box(other)], name="other"),
    )
    return paths


def mapped(agent: InProcess) -> CpuMap:
    found = map_cpus(agent.once())
    assert not isinstance(found, Gap), found
    return found


def test_the_map_says_where_threads_may_run(bed: Bed, pinning: InProcess) -> None:
    paths = put_pods(bed, pinning)
    pids = [bed.rest(path) for path in paths]
    pinning.settle()
    found = mapped(pinning)
    sets = {each.pod: CpuSet.parse(each.cpus) for each in found.containers}
    assert [allowed(pid) for pid in pids] == [{sets["default/alone"]}, {sets["default/other"]}]
    assert [each.policy for each in found.containers] == ["exclusive", "none"]
    assert len(sets["default/alone"]) == 1
    assert sets["default/alone"] | sets["default/other"] == EVERY
    holders = {row.cpu: row.exclusive for row in found.cpus}
    assert holders == {
        cpu: "default/alone/c0" if cpu in sets["default/alone"] else None for cpu in EVERY
    }
    pinning.settings()
    pinning.settle()
    assert [allowed(pid) for pid in pids] == [{EVERY}, {EVERY}]


def idle_of(agent: InProcess) -> float:
    """Of the next tick that has it: the first has no rate yet."""
    seen: list[float] = []

    def measured() -> bool:
        found = agent.once().snapshot.metrics.get(IDLE)
        if isinstance(found, tuple) and found:
            seen.append(found[0].value)
        return bool(seen)

    until(measured)
    return seen[-1]


def test_the_idle_of_a_cpu_that_is_held_alone(bed: Bed, pinning: InProcess) -> None:
    bed.make(bed.kubepods)
    assert idle_of(pinning) == 0
    alone, _ = put_pods(bed, pinning)
    bed.rest(alone)
    pinning.settle()
    assert idle_of(pinning) == pytest.approx(WHOLE, abs=20)
    bed.go_first()
    bed.burn(alone)
    until(lambda: idle_of(pinning) < WHOLE / 2, what=lambda: "a busy CPU")
    pinning.put("pods")
    pinning.settle()
    assert idle_of(pinning) == 0
