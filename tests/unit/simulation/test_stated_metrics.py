"""Metrics that a scenario states, beside the CPU that its node measures."""

from typing import Any

import msgspec
import pytest

from slackwater.model.cgroup import CgroupReading, CgroupRef, Level, Tier
from slackwater.model.gap import Gap
from slackwater.model.metric import MetricKey, MetricRequest, Sample
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import UNLIMITED, Bandwidth, Micros, MilliCpu
from slackwater.model.workload import Workload, WorkloadContainer
from slackwater.simulation.demand import Spike, Steady
from slackwater.simulation.scenario import ScenarioMetric
from slackwater.simulation.simulated_metrics import SimulatedMetrics
from tests.unit.policies.nodes import node

CPUS = 4
POD = CgroupRef("kubepods/besteffort/podweb", 101, Level.POD, Tier.BESTEFFORT, "web")
BOX = CgroupRef(f"{POD.path}/{'a' * 64}", 102, Level.CONTAINER, Tier.BESTEFFORT, "web")
LABELS = {"PodName": "web", "PodNamespace": "shop", "PodUid": "web"}
OF_BOX = {**LABELS, "ContainerName": "main", "ContainerId": "a" * 64, "HasExtRes": "true"}
WEB = Workload(
    "web",
    "web",
    "shop",
    Tier.BESTEFFORT,
    POD,
    containers=(
        WorkloadContainer(
            "main", BOX, MilliCpu(0), UNLIMITED, extended_limits={"gocrane.io/cpu": 2}
        ),
    ),
)


def snapshot(**said: Any) -> NodeSnapshot:
    quota = {"readings": {102: CgroupReading(BOX, Micros(0), quota=Bandwidth(Micros(50_000)))}}
    base = node(usage=1500, workloads=(WEB,), usages={102: 700})
    return msgspec.structs.replace(base, **(quota | said))


def measured(
    name: str, *stated: ScenarioMetric, source: str = "", **said: Any
) -> tuple[Sample, ...] | Gap:
    request = MetricRequest(MetricKey(name, source))
    metrics = SimulatedMetrics(CPUS, stated)
    (found,) = metrics.measure(frozenset({request}), snapshot(**said)).values()
    return found


@pytest.mark.parametrize(
    ("name", "samples"),
    [
        ("cpu_total_usage", [Sample(1500)]),
        ("cpu_total_utilization", [Sample(37.5)]),
        ("cpu_core_numbers", [Sample(4)]),
    ],
)
def test_what_the_node_measures(name: str, samples: list[Sample]) -> None:
    assert measured(name) == tuple(samples)


@pytest.mark.parametrize(
    ("name", "source", "reason"),
    [
        ("memory_total_usage", "", "a simulation has no memory_total_usage; a series under"),
        ("nonsense", "", "there is no metric nonsense"),
        ("latency:p99", "NodeQOS/x", "the scenario states no latency:p99 under spec.metrics"),
    ],
)
def test_what_is_missing_is_a_gap(name: str, source: str, reason: str) -> None:
    found = measured(name, source=source)
    assert isinstance(found, Gap)
    assert found.reason.startswith(reason)


def test_a_hidden_usage_is_a_gap() -> None:
    hidden = Gap("the scenario hides the node's usage")
    assert measured("cpu_total_usage", usage=hidden) == hidden


def test_a_stated_series_is_in_the_metrics_unit() -> None:
    stated = ScenarioMetric("latency:p99", Steady(MilliCpu(20)), labels={"path": "/"})
    assert measured("latency:p99", stated, source="NodeQOS/x") == (Sample(0.02, {"path": "/"}),)


def test_a_stated_series_wins_over_what_is_measured() -> None:
    stated = ScenarioMetric("cpu_total_usage", Steady(MilliCpu(7_000_000)))
    assert measured("cpu_total_usage", stated) == (Sample(7000),)


def test_a_series_of_one_source_is_not_for_others() -> None:
    stated = ScenarioMetric("latency", Steady(MilliCpu(20)), source="NodeQOS/x")
    assert measured("latency", stated, source="NodeQOS/x") == (Sample(0.02),)
    assert isinstance(measured("latency", stated, source="NodeQOS/y"), Gap)


def test_a_series_of_a_pod_has_its_labels_while_it_is_there() -> None:
    stated = ScenarioMetric("latency", Steady(MilliCpu(20)), pod="web")
    assert measured("latency", stated, source="PodQOS/x") == (Sample(0.02, LABELS),)
    gone = measured("latency", stated, source="PodQOS/x", workloads=())
    assert gone == Gap("the scenario states no value of latency now")


def test_a_series_over_time() -> None:
    spike = Spike(Micros(10), MilliCpu(80), Micros(5))
    stated = ScenarioMetric("latency", spike, starts=Micros(10), ends=Micros(20))
    assert measured("latency", stated, source="NodeQOS/x", at=Micros(12)) == (Sample(0.08),)
    assert measured("latency", stated, source="NodeQOS/x", at=Micros(16)) == (Sample(0),)
    for at in (5, 20):
        assert isinstance(measured("latency", stated, source="NodeQOS/x", at=Micros(at)), Gap)
