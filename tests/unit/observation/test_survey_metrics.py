"""A snapshot has the metrics that were asked for, and the time of day for whoever asks."""

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from slackwater.contract.crane.metrics import needs_of_metrics
from slackwater.contract.kubernetes_pod import read_pod
from slackwater.model.cgroup import CgroupVersion
from slackwater.model.gap import Gap
from slackwater.model.machine import NodeUsage, NodeUsageSource
from slackwater.model.metric import MetricKey, MetricRequest, Sample
from slackwater.model.needs import TIERS, merge_needs
from slackwater.model.node_resource import NodeResources
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Micros, MilliCpu
from slackwater.observation.cgroups.tree import CgroupTree
from slackwater.observation.host import NodeUsageMeter
from slackwater.observation.metrics.collector import MetricCollector, node_families
from slackwater.observation.survey import SnapshotInputs, Surveyor
from tests.unit.observation.metrics.hosts import PlainHost, at, requests
from tests.unit.observation.plain_tree import FILES_V2, UID, PlainTree

CONTAINER = "a" * 64
POD = f"kubepods/besteffort/pod{UID.format(1)}"


class HalfACpu:
    """A meter that grows by half a second in a second."""

    def __init__(self) -> None:
        self._used = 0

    def read(self) -> NodeUsage:
        self._used += 500_000
        return NodeUsage(Micros(self._used), NodeUsageSource.ROOT_GROUP)

    def close(self) -> None:
        """Nothing is open."""


class Survey:
    """A surveyor on plain files, at seconds that the test says."""

    def __init__(self, top: Path) -> None:
        self.plain = PlainTree(top / "cgroup", CgroupVersion.V2)
        self.plain.make(f"{POD}/{CONTAINER}")
        families = node_families(PlainHost(top).roots, self.plain.mounts)
        self.surveyor = Surveyor(
            CgroupTree(self.plain.mounts, "kubepods"),
            cast("NodeUsageMeter", HalfACpu()),
            MetricCollector(families),
            lambda: 1_794_974_003.9,
        )

    def look(self, second: int, *names: str) -> NodeSnapshot:
        status = {"containerStatuses": [{"name": "main", "containerID": f"x://{CONTAINER}"}]}
        named = {"name": "job", "namespace": "d", "uid": UID.format(1)}
        spec = {"containers": [{"name": "main"}]}
        pod = read_pod({"kind": "Pod", "metadata": named, "spec": spec, "status": status}, "p")
        known = SnapshotInputs(
            allocatable=MilliCpu(4000),
            pods=(pod,),
            needs=merge_needs((TIERS, needs_of_metrics(requests(*names)))),
            node_resources=NodeResources(extended={"gocrane.io/cpu": 4}),
        )
        found = self.surveyor.close_snapshot(second, at(second), known)
        assert isinstance(found, NodeSnapshot)
        return found


@pytest.fixture
def survey(tmp_path: Path) -> Iterator[Survey]:
    made = Survey(tmp_path)
    yield made
    made.surveyor.close()


def test_nobody_asks_for_any(survey: Survey) -> None:
    found = survey.look(1)
    assert (found.metrics, found.wall_time) == ({}, 0)


def test_metrics_are_made_of_this_ticks_readings(survey: Survey) -> None:
    names = ("cpu_total_usage", "container_cpu_total_usage", "ext_cpu_total_distribute")
    first = survey.look(1, *names)
    assert isinstance(first.metrics["cpu_total_usage"], Gap)
    for path in (POD, f"{POD}/{CONTAINER}"):
        stat = FILES_V2["cpu.stat"].replace("usage_usec 7", "usage_usec 250007")
        survey.plain.put(path, "cpu.stat", stat)
    second = survey.look(2, *names)
    assert second.wall_time == 1_794_974_003
    assert second.metric(MetricKey("cpu_total_usage")) == (Sample(500.0),)
    assert second.metrics["ext_cpu_total_distribute"] == (Sample(0.0),)
    usage = second.metrics["container_cpu_total_usage"]
    assert not isinstance(usage, Gap)
    assert [(each.labels["ContainerName"], each.value) for each in usage] == [
        ("", 0.25),
        ("main", 0.25),
    ]
    assert survey.look(3).metrics == {}


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("container_cpu_quota", [50_000, 50_000]),
        ("container_cpu_period", [100_000, 100_000]),
        ("container_cpu_limit", [501, 501]),  # weight 20
    ],
)
def test_knobs_are_read_because_a_metric_needs_them(
    survey: Survey, name: str, values: list[int]
) -> None:
    found = survey.look(1, name).metrics[name]
    assert not isinstance(found, Gap)
    assert [each.value for each in found] == values


def test_without_a_collector_there_are_gaps(survey: Survey) -> None:
    bare = Surveyor(CgroupTree(survey.plain.mounts, "kubepods"), cast("NodeUsageMeter", HalfACpu()))
    needs = needs_of_metrics([MetricRequest(MetricKey("cpu_total_usage"))])
    known = SnapshotInputs(MilliCpu(1), needs=merge_needs((TIERS, needs)))
    found = bare.close_snapshot(1, at(1), known)
    bare.close()
    assert isinstance(found, NodeSnapshot)
    assert found.metrics == {"cpu_total_usage": Gap("metrics are not measured here")}
