"""A simulated node measures by a real node's formulas; a scenario states what has no model."""

import pytest

from slackwater.contract.crane.metrics import METRICS, needs_of_metrics
from slackwater.model.cgroup import CgroupVersion
from slackwater.model.gap import Gap
from slackwater.model.metric import MetricKey, MetricRequest, Sample, Samples
from slackwater.model.needs import TIERS, merge_needs
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import MilliCpu
from slackwater.observation.objects.object_set import Objects
from slackwater.observation.survey import SnapshotInputs
from slackwater.simulation.demand import Steady
from slackwater.simulation.scenario import ScenarioMetric
from slackwater.simulation.simulated_node import ScenarioSource, SimulatedSnapshotReader
from tests.unit.simulation.nodes import SECOND, V1, V2
from tests.unit.simulation.test_simulated_node import BATCH, WEB, node_of

LATENCY = ScenarioMetric("latency", Steady(MilliCpu(50)), "NodeQOS/web", {"path": "/"})


def measure(
    version: CgroupVersion, *keys: MetricKey, stated: tuple[ScenarioMetric, ...] = ()
) -> dict[str, Samples | Gap]:
    node, source = node_of(version, WEB, BATCH), ScenarioSource(Objects())
    source.set_pods(node.pods)
    needs = merge_needs((TIERS, needs_of_metrics(MetricRequest(key) for key in keys)))
    known = SnapshotInputs(MilliCpu(4000), pods=source.read().pods, needs=needs)
    reader = SimulatedSnapshotReader(node.kernel, node.kubepods, stated)
    found: NodeSnapshot | Gap = Gap("")
    for number in range(2):
        node.kernel.advance(SECOND)
        found = reader.close_snapshot(number, node.kernel.now, known)
    assert isinstance(found, NodeSnapshot)
    return found.metrics


def by_container(found: Samples | Gap) -> dict[tuple[str, str], float]:
    assert not isinstance(found, Gap), found
    return {(each.labels["PodName"], each.labels["ContainerName"]): each.value for each in found}


@pytest.mark.parametrize("version", [V1, V2])
def test_cpu_of_the_node_and_its_containers(version: CgroupVersion) -> None:
    names = (
        "cpu_total_usage",
        "cpu_total_utilization",
        "cpu_core_numbers",
        "container_cpu_total_usage",
    )
    found = measure(version, *map(MetricKey, names))
    assert found["cpu_core_numbers"] == (Sample(4.0),)
    usage = by_container(found["container_cpu_total_usage"])
    total = found["cpu_total_usage"]
    assert not isinstance(total, Gap)
    assert usage[("web", "")] == usage[("web", "main")]
    assert total[0].value == pytest.approx(
        1000 * (usage[("web", "")] + usage[("batch", "")]), abs=2
    )
    assert found["cpu_total_utilization"] == (Sample(total[0].value / 40),)


def test_every_other_metric_of_the_table_is_a_gap_or_a_number() -> None:
    found = measure(V2, *map(MetricKey, METRICS))
    assert found.keys() == METRICS.keys()
    missing = {name: each.reason for name, each in found.items() if isinstance(each, Gap)}
    assert missing["memory_total"].startswith("a simulation has no memory_total; a series under")
    assert missing.pop("ext_cpu_total_distribute") == "the node offers no gocrane.io/cpu"
    assert all(each.startswith("a simulation has no") for each in missing.values())
    assert {"container_cpu_quota", "container_cpu_limit"}.isdisjoint(missing)


def test_what_a_scenario_states_comes_first() -> None:
    known = MetricKey("latency", "NodeQOS/web")
    memory = ScenarioMetric("memory_total", Steady(MilliCpu(7000)))
    found = measure(
        V2,
        known,
        MetricKey("latency", "NodeQOS/other"),
        MetricKey("memory_total"),
        MetricKey("no_such_metric"),
        stated=(LATENCY, memory),
    )
    assert found == {
        "NodeQOS/web:latency": (Sample(0.05, {"path": "/"}),),
        "NodeQOS/other:latency": Gap("the scenario states no latency under spec.metrics"),
        "memory_total": (Sample(7.0),),
        "no_such_metric": Gap("there is no metric no_such_metric"),
    }
