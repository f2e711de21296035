"""exclusive_cpu_idle: CPUs that containers hold alone, less what these use."""

from typing import Any

import msgspec
import pytest

from slackwater.contract.crane.metrics import needs_of_metrics
from slackwater.model.cgroup import CgroupReading, CpuTimes, Level
from slackwater.model.cpus import CpuSet, KubeletCpus
from slackwater.model.decision import CpuPlacement
from slackwater.model.gap import NOT_ASKED, VANISHED, Gap
from slackwater.model.metric import MetricKey, MetricRequest, Sample
from slackwater.model.needs import ReadingField
from slackwater.model.snapshot import NodeSnapshot, Rate
from slackwater.model.units import Micros, MilliCpu
from slackwater.observation.metrics.exclusive_cpus import (
    ExclusiveCpuMetrics,
    find_sets_held_alone,
)
from slackwater.observation.metrics.tick_view import NEEDS_SECOND, TickView
from tests.unit.policies.nodes import node
from tests.unit.record.cpu_ticks import (
    EXCLUSIVE,
    SHARE,
    container_ref,
    cpus,
    held_cpus,
    placed,
    pod_with_cpus,
)

NAME = "exclusive_cpu_idle"
ONE, TWO = pod_with_cpus(1, "one", EXCLUSIVE), pod_with_cpus(2, "two", SHARE)
PLACEMENT = CpuPlacement(cpus("0,3"), (placed(ONE, EXCLUSIVE, "1-2"), placed(TWO, SHARE, "3")))
TIMES = CpuTimes(Micros(5))


def seen(**more: Any) -> NodeSnapshot:
    plain = {
        "workloads": (ONE, TWO),
        "kubelet_cpus": KubeletCpus("none"),
        "held": (held_cpus(1, "1-2"), held_cpus(2, "3")),
    }
    return msgspec.structs.replace(node(), **plain | more)


def idle(view: TickView) -> object:
    found = ExclusiveCpuMetrics().measure(Micros(0), {NAME: Micros(0)}, view)[NAME]
    return found if isinstance(found, Gap) else found[0].value


def test_only_what_was_given_and_written_is_held_alone() -> None:
    assert find_sets_held_alone(seen(), PLACEMENT) == {1001: cpus("1-2")}
    assert find_sets_held_alone(seen(held=()), PLACEMENT) == {}
    assert find_sets_held_alone(seen(), None) == {}


def test_a_container_that_asked_in_vain_holds_nothing_alone() -> None:
    """On cgroup v1 what is written for it is everybody's set."""
    refused = placed(ONE, EXCLUSIVE, "", refused="none is free")
    common = CpuPlacement(cpus("0,3"), (refused, placed(TWO, EXCLUSIVE, "1-2")))
    held = (held_cpus(1, "0,3"), held_cpus(2, "1-2"))
    assert find_sets_held_alone(seen(held=held), common) == {1002: cpus("1-2")}


def test_the_kubelets_own_count_too() -> None:
    kubelet = KubeletCpus("static", {"2": {"main": cpus("4-5")}, "9": {"main": cpus("6")}})
    assert find_sets_held_alone(seen(kubelet_cpus=kubelet), None) == {1002: cpus("4-5")}


@pytest.mark.parametrize("gap", [NOT_ASKED, Gap("its state file is broken")])
def test_what_is_not_known_is_not_zero(gap: Gap) -> None:
    assert find_sets_held_alone(seen(kubelet_cpus=gap), PLACEMENT) == gap
    assert find_sets_held_alone(seen(), gap) == gap
    assert idle(TickView(MilliCpu(0), held_alone=gap)) == gap


@pytest.mark.parametrize(
    ("usages", "value"),
    [({}, 0.0), ({1: 500}, 1500.0), ({1: 2000}, 0.0), ({1: 2100}, 0.0), ({1: 0, 2: 700}, 3300.0)],
)
def test_cpus_less_usage_by_container(usages: dict[int, int], value: float) -> None:
    """A counter that was read a moment apart can show a little more than there is."""
    view = TickView(
        usage=MilliCpu(0),
        rates={n: Rate(MilliCpu(used), 0) for n, used in usages.items()},
        held_alone={n: CpuSet.of([n, n + 10]) for n in usages},
    )
    assert idle(view) == value


@pytest.mark.parametrize(
    ("times", "found"),
    [
        (TIMES, NEEDS_SECOND),
        (NOT_ASKED, NOT_ASKED),
        (Gap("not readable"), Gap("not readable")),
        (VANISHED, 0.0),
    ],
)
def test_a_container_without_a_rate(times: CpuTimes | Gap, found: object) -> None:
    reading = CgroupReading(container_ref(1), Micros(0), times)
    view = TickView(MilliCpu(0), readings={1001: reading}, held_alone={1001: cpus("1")})
    assert idle(view) == found
    assert idle(TickView(MilliCpu(0), held_alone={1001: cpus("1")})) == NOT_ASKED


def test_one_series_without_labels() -> None:
    found = ExclusiveCpuMetrics().measure(Micros(0), {NAME: Micros(0)}, TickView(MilliCpu(0)))
    assert found == {NAME: (Sample(0.0),)}


def test_what_has_to_be_read_for_it() -> None:
    needs = needs_of_metrics([MetricRequest(MetricKey(NAME))])
    assert needs.topology
    assert needs.at(Level.CONTAINER) == {ReadingField.TIMES}
    assert not needs_of_metrics([MetricRequest(MetricKey("cpu_total_usage"))]).topology
