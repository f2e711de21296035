"""Series of pods and containers from readings: values, units, labels."""

from collections.abc import Mapping

import pytest

from slackwater.model.cgroup import (
    CgroupMounts,
    CgroupReading,
    CgroupRef,
    CgroupVersion,
    CpuTimes,
    Level,
    Tier,
)
from slackwater.model.gap import NOT_ASKED, Gap
from slackwater.model.metric import Samples
from slackwater.model.snapshot import Rate
from slackwater.model.units import UNLIMITED, Bandwidth, Micros, MilliCpu
from slackwater.model.weight import WeightFormula
from slackwater.model.workload import Workload, WorkloadContainer
from slackwater.observation.host import Roots
from slackwater.observation.metrics.collector import MetricCollector, node_families
from slackwater.observation.metrics.tick_view import NEEDS_SECOND, TickView
from tests.unit.observation.metrics.hosts import look

A, B = "a" * 64, "b" * 64
POD = CgroupRef("kubepods/pod1", 1, Level.POD, owner="1")
FIRST = CgroupRef(f"kubepods/pod1/cri-containerd-{A}.scope", 2, Level.CONTAINER, owner="1")
SECOND = CgroupRef(f"kubepods/pod1/{B}", 3, Level.CONTAINER, owner="1")
STRAY = CgroupRef("kubepods/podstray", 4, Level.POD, owner="stray")
USAGE = "container_cpu_total_usage"


def container(name: str, ref: CgroupRef | Gap, **elastic: int) -> WorkloadContainer:
    amounts = {f"gocrane.io/{key}": amount for key, amount in elastic.items()}
    return WorkloadContainer(
        name, ref, MilliCpu(0), UNLIMITED, extended_limits=amounts, extended_requests=amounts
    )


WEB = Workload(
    "1",
    "web",
    "shop",
    Tier.GUARANTEED,
    POD,
    containers=(container("app", FIRST), container("batch", SECOND, cpu=2)),
    protected="static",
)
LONE = Workload("stray", "stray", "", Tier.GUARANTEED, STRAY)


def reading(ref: CgroupRef, **fields: object) -> CgroupReading:
    made: Mapping[str, object] = {"times": CpuTimes(Micros(7)), **fields}
    return CgroupReading(ref, Micros(0), **made)  # type: ignore[arg-type]


def view(*readings: CgroupReading, **more: object) -> TickView:
    by_id = {each.ref.id: each for each in readings}
    stated: dict[str, object] = {"workloads": (WEB, LONE), "readings": by_id, **more}
    return TickView(usage=MilliCpu(0), **stated)  # type: ignore[arg-type]


def collector() -> MetricCollector:
    return MetricCollector(node_families(Roots(), CgroupMounts({})))


def measure(name: str, seen: TickView) -> Samples | Gap:
    return look(collector(), 1, [name], seen)[name]


def by_container(found: Samples | Gap) -> dict[tuple[str, str], float]:
    assert not isinstance(found, Gap), found
    return {(each.labels["PodName"], each.labels["ContainerName"]): each.value for each in found}


def test_usage_in_cpus_with_every_label() -> None:
    rates = {1: Rate(MilliCpu(1500), 0), 2: Rate(MilliCpu(1250), 0), 3: Rate(MilliCpu(0), 0)}
    found = measure(USAGE, view(rates=rates))
    assert not isinstance(found, Gap)
    assert [(each.value, dict(each.labels)) for each in found] == [
        (value, labels("web", "shop", "1", name, identity, elastic))
        for value, name, identity, elastic in (
            (1.5, "", "", "true"),
            (1.25, "app", A, "false"),
            (0.0, "batch", B, "true"),  # an idle container is no missing one
        )
    ]


def labels(pod: str, space: str, uid: str, name: str, identity: str, elastic: str) -> object:
    return {
        "PodName": pod,
        "PodNamespace": space,
        "PodUid": uid,
        "ContainerName": name,
        "ContainerId": identity,
        "HasExtRes": elastic,
    }


def test_a_pod_without_an_object_goes_by_its_uid() -> None:
    found = measure(USAGE, view(rates={4: Rate(MilliCpu(10), 0)}))
    assert not isinstance(found, Gap)
    [only] = found
    assert only.labels == labels("stray", "", "stray", "", "", "false")


def test_a_container_that_is_not_running_has_no_series() -> None:
    waits = Workload("1", "w", "d", Tier.BESTEFFORT, POD, containers=(container("x", Gap("no")),))
    rates = {1: Rate(MilliCpu(1), 0)}
    assert by_container(measure(USAGE, view(workloads=(waits,), rates=rates))) == {("w", ""): 0.001}


def test_without_a_second_sample_there_is_none() -> None:
    assert measure(USAGE, view(reading(POD), reading(FIRST), reading(SECOND))) in (
        NEEDS_SECOND,
        NOT_ASKED,
    )
    assert measure(USAGE, view(reading(POD), workloads=(WEB,))) == NEEDS_SECOND
    gap = Gap("cpu.stat: Permission denied")
    assert measure(USAGE, view(reading(POD, times=gap), workloads=(WEB,))) == gap


def test_no_pods_are_no_series() -> None:
    assert measure(USAGE, view(workloads=())) == ()


def test_quota_and_period_in_microseconds() -> None:
    seen = view(
        reading(POD, quota=Bandwidth(UNLIMITED)),
        reading(FIRST, quota=Bandwidth(Micros(150_000))),
        reading(SECOND, quota=Bandwidth(Micros(5_000), Micros(50_000))),
    )
    assert by_container(measure("container_cpu_quota", seen)) == {
        ("web", ""): -1,
        ("web", "app"): 150_000,
        ("web", "batch"): 5_000,
    }
    assert by_container(measure("container_cpu_period", seen)) == {
        ("web", ""): 100_000,
        ("web", "app"): 100_000,
        ("web", "batch"): 50_000,
    }


@pytest.mark.parametrize(
    ("version", "weights", "shares"),
    [
        (CgroupVersion.V1, (1024, 512), (1024, 512)),
        # v2: the pod's weight by the kubelet's formula, the container's by the runtime's.
        (CgroupVersion.V2, (39, 59), (999, 512)),
    ],
)
def test_shares_and_the_shares_that_belong_to_a_weight(
    version: CgroupVersion, weights: tuple[int, int], shares: tuple[int, int]
) -> None:
    seen = view(
        reading(POD, weight=weights[0]),
        reading(FIRST, weight=weights[1]),
        reading(SECOND, weight=weights[1], idle=True),
        version=version,
        pod_formula=WeightFormula.LINEAR,
        container_formula=WeightFormula.QUADRATIC,
    )
    found = by_container(measure("container_cpu_limit", seen))
    assert found[("web", "")] == pytest.approx(shares[0], abs=27)  # a weight is coarser
    assert found[("web", "app")] == pytest.approx(shares[1], abs=10)
    assert ("web", "batch") not in found  # idle: it shows no weight


def test_elastic_cpu_in_use_is_one_number() -> None:
    name = "ext_res_container_cpu_total_usage"
    twin = Workload("2", "t", "d", Tier.BESTEFFORT, STRAY, containers=(
        container("x", CgroupRef("kubepods/podt/x", 9, Level.CONTAINER), cpu=1),
    ))  # fmt: skip
    rates = {1: Rate(MilliCpu(9000), 0), 2: Rate(MilliCpu(8000), 0), 3: Rate(MilliCpu(750), 0)}
    both = {**rates, 9: Rate(MilliCpu(500), 0)}
    found = measure(name, view(workloads=(WEB, twin), rates=both))
    assert not isinstance(found, Gap)
    assert [(each.value, each.labels) for each in found] == [(1.25, {})]
    partly = measure(name, view(workloads=(WEB, twin), rates=rates))
    assert partly == Gap("kubepods/podt/x: not asked for")
    assert by_nobody(measure(name, view(workloads=(LONE,)))) == [0.0]


def by_nobody(found: Samples | Gap) -> list[float]:
    assert not isinstance(found, Gap)
    return [each.value for each in found]


def test_a_value_that_stands_is_the_same_sample_again() -> None:
    """Ticks are kept in memory, with hundreds of pods that do nothing."""
    made = collector()
    rates = {1: Rate(MilliCpu(5), 0), 2: Rate(MilliCpu(0), 0)}
    workloads = (WEB,)
    first = look(made, 1, [USAGE], view(workloads=workloads, rates=rates))[USAGE]
    rates = {1: Rate(MilliCpu(6), 0), 2: Rate(MilliCpu(0), 0)}
    second = look(made, 2, [USAGE], view(workloads=workloads, rates=rates))[USAGE]
    assert not isinstance(first, Gap)
    assert not isinstance(second, Gap)
    assert first[0] != second[0]
    assert first[1] is second[1]
