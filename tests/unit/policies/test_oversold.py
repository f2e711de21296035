"""The policy: from a snapshot to offers, commands and remarks."""

from typing import Any

import msgspec
import pytest

from slackwater.contract.kubernetes_pod import Pod, read_pod
from slackwater.model.cgroup import CgroupRef, Level, Tier
from slackwater.model.decision import Act, CommandKind
from slackwater.model.gap import Gap
from slackwater.model.metric import Sample
from slackwater.model.needs import Needs
from slackwater.model.node_resource import NodeForecast, NodeResources
from slackwater.model.snapshot import NodeSnapshot, Rate
from slackwater.model.units import UNLIMITED, Bytes, Micros, MilliCpu, Percent, Ratio
from slackwater.model.workload import Workload, WorkloadContainer
from slackwater.policies.oversold import (
    POLICY,
    Offered,
    OfferNames,
    OversoldMemory,
    OversoldSettings,
    decide,
    look_at_cpu,
    look_at_memory,
)
from slackwater.policies.oversold_offer import OfferMemory, UseHistory
from slackwater.signals import DecayingHistogram

GIB = 1 << 30
CPU, MEMORY = "gocrane.io/cpu", "gocrane.io/memory"
BATCH_CPU, BATCH_MEMORY = "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"
KUBEPODS = CgroupRef("kubepods", 1, Level.NODE)
ON = OversoldSettings(
    enabled=True,
    reserve_cpu=Percent(0),
    reserve_memory=Percent(0),
    raise_step=Percent(100),
    warm_up=Micros(0),
    margin=Percent(0),
)


def setting(**fields: Any) -> OversoldSettings:
    return msgspec.structs.replace(ON, **fields)


def bought(name: str, number: int, resource: str, amount: int | Gap) -> Workload:
    """A pod with a container that asks for the resource, and one that asks for nothing."""
    pod = CgroupRef(f"kubepods/besteffort/pod{name}", number, Level.POD, Tier.BESTEFFORT, name)
    main = CgroupRef(f"{pod.path}/main", number + 1, Level.CONTAINER, Tier.BESTEFFORT, name)
    side = CgroupRef(f"{pod.path}/side", number + 2, Level.CONTAINER, Tier.BESTEFFORT, name)
    asked = {resource: amount}
    return Workload(
        name,
        name,
        "batch",
        Tier.BESTEFFORT,
        pod,
        containers=(
            WorkloadContainer("main", main, MilliCpu(0), UNLIMITED, extended_requests=asked),
            WorkloadContainer("side", side, MilliCpu(0), UNLIMITED),
        ),
        extended_requests=asked,
    )


def node(**fields: Any) -> NodeSnapshot:
    """8 CPUs and 32 GiB, of which 2 CPUs and 8 GiB are used."""
    metrics: dict[str, Any] = {
        "exclusive_cpu_idle": (Sample(0.0),),
        "memory_total": (Sample(float(40 * GIB)),),
        "memory_total_usage": (Sample(float(8 * GIB)),),
        "ext_res_container_mem_total_usage": (Sample(0.0),),
        "container_mem_total_usage": (),
    }
    made = NodeSnapshot(
        tick=1,
        at=Micros(1_000_000),
        elapsed=Micros(1_000_000),
        allocatable=MilliCpu(8_000),
        usage=MilliCpu(2_000),
        kubepods=KUBEPODS,
        tiers={},
        metrics=metrics | fields.pop("metrics", {}),
        node_resources=NodeResources(Bytes(32 * GIB)),
        forecast=NodeForecast(Gap("no prediction"), Gap("no prediction")),
        wall_time=1_800_000_000,
    )
    return msgspec.structs.replace(made, **fields)


def act(
    snapshot: NodeSnapshot,
    settings: OversoldSettings = ON,
    memory: OversoldMemory = OversoldMemory(),  # noqa: B008
) -> Act:
    decision = decide(snapshot, memory, settings)
    assert isinstance(decision, Act)
    return decision


def amounts(decision: Act) -> dict[str, str]:
    assert all(each.kind is CommandKind.NODE_RESOURCE for each in decision.commands)
    return {each.target: each.value for each in decision.commands}


def test_cpu_and_memory_are_offered() -> None:
    found = act(node())
    assert amounts(found) == {CPU: "6", MEMORY: str(24 * GIB)}
    assert not found.is_settling
    because = found.commands[0].because
    assert (because.signal, because.seen) == (
        "cannot be reclaimed",
        "2000m of own history of 0 s",
    )


@pytest.mark.parametrize(("offer", "expected"), [(Offered.CPU, {CPU}), (Offered.MEMORY, {MEMORY})])
def test_only_one_of_them(offer: Offered, expected: set[str]) -> None:
    assert amounts(act(node(), setting(offer=offer))).keys() == expected


def test_the_names_of_others_have_their_units() -> None:
    found = act(node(), setting(names=OfferNames.BATCH))
    assert amounts(found) == {BATCH_CPU: "6000", BATCH_MEMORY: str(24 * GIB)}


def test_what_was_sold_is_not_counted_as_used() -> None:
    pod = bought("a", 10, CPU, 2_000)
    rates = {11: Rate(MilliCpu(1_500), 0), 12: Rate(MilliCpu(300), 0)}
    found = act(node(workloads=(pod,), rates=rates, usage=MilliCpu(3_000)))
    [cpu, _] = found.offers
    assert (cpu.elastic_used, cpu.allocated) == (1_500, 2)
    assert amounts(found)[CPU] == "6"


def test_a_buyer_that_ended_is_not_counted_as_used_by_others() -> None:
    """The node's usage has its last interval, and its group is gone."""
    pod = bought("a", 10, CPU, 2_000)
    rates = {11: Rate(MilliCpu(1_500), 0), 12: Rate(MilliCpu(0), 0)}
    memory = act(node(workloads=(pod,), rates=rates, usage=MilliCpu(3_500))).memory
    assert isinstance(memory, OversoldMemory)
    for used, elastic in ((3_500, 1_500), (2_600, 600), (2_000, 0), (1_900, 0), (4_000, 1_500)):
        [cpu, _] = act(node(usage=MilliCpu(used)), memory=memory).offers
        assert (cpu.elastic_used, cpu.offered) == (elastic, 5 if used == 4_000 else 6)
    ended = act(node(usage=MilliCpu(2_600)), memory=memory).memory
    assert isinstance(ended, OversoldMemory)
    [later, _] = act(node(usage=MilliCpu(2_600)), memory=ended).offers
    assert (later.elastic_used, later.offered) == (0, 5)


def test_a_container_that_was_just_started_holds_the_offer() -> None:
    """What it uses is not known, and the node's usage has it already."""
    pod = bought("a", 10, CPU, 2_000)
    [cpu, _] = act(node(workloads=(pod,))).offers
    assert "is not known yet" in cpu.missing


def test_a_container_without_a_group_uses_nothing() -> None:
    pod = bought("a", 10, CPU, 2_000)
    lost = msgspec.structs.replace(pod.containers[0], ref=Gap("no group"))
    waiting = msgspec.structs.replace(pod, containers=(lost,), ref=Gap("no group"))
    [cpu, _] = act(node(workloads=(waiting,))).offers
    assert (cpu.elastic_used, cpu.allocated, cpu.offered) == (0, 2, 6)


def test_memory_that_was_sold_by_another_name_is_added_up() -> None:
    pod = bought("a", 10, BATCH_MEMORY, GIB)
    samples = tuple(
        Sample(float(size), {"PodUid": uid, "ContainerName": name})
        for uid, name, size in (("a", "main", GIB), ("a", "side", 5 * GIB), ("b", "main", GIB))
    )
    seen = node(workloads=(pod,), metrics={"container_mem_total_usage": samples})
    [_, memory] = act(seen, setting(names=OfferNames.BATCH)).offers
    assert (memory.elastic_used, memory.offered) == (GIB, 25 * GIB)


def test_idle_cpus_that_a_pod_holds_alone_are_not_sold() -> None:
    found = act(node(metrics={"exclusive_cpu_idle": (Sample(1_500.0),)}))
    assert amounts(found)[CPU] == "4"


def test_the_annotation_counts_before_the_setting() -> None:
    resources = NodeResources(Bytes(32 * GIB), reserve={"cpu": Ratio(50, 100)})
    found = act(node(node_resources=resources), setting(reserve_memory=Percent(25)))
    assert amounts(found) == {CPU: "2", MEMORY: str(16 * GIB)}


def test_a_bad_annotation_is_told_and_the_setting_counts() -> None:
    resources = NodeResources(Bytes(32 * GIB), reserve={"cpu": Gap("it is 'x'")})
    found = act(node(node_resources=resources), setting(reserve_cpu=Percent(50)))
    assert amounts(found)[CPU] == "2"
    assert [(each.about, each.text) for each in found.remarks] == [
        ("node", "it is 'x'; the setting counts")
    ]


def test_an_amount_that_cannot_be_read_was_given_to_nobody() -> None:
    pod = bought("a", 10, CPU, Gap("200m is no whole number"))
    rates = {11: Rate(MilliCpu(0), 0)}
    found = act(node(workloads=(pod,), rates=rates))
    assert found.offers[0].allocated == 0
    assert found.remarks[0].about == "batch/a"


def test_without_a_node_object_pods_may_have_the_machine() -> None:
    assert amounts(act(node(node_resources=NodeResources())))[MEMORY] == str(32 * GIB)


def test_the_nodes_prediction_counts_before_the_own_history() -> None:
    found = act(node(forecast=NodeForecast(MilliCpu(5_500), Gap("none"))))
    assert amounts(found)[CPU] == "2"
    assert found.offers[0].forecast == "TimeSeriesPrediction"


def test_nothing_known_asks_for_nothing_and_removes_nothing() -> None:
    blind = node(usage=Gap("needs a second sample"))
    found = act(blind)
    assert amounts(found) == {MEMORY: str(24 * GIB)}
    assert found.is_settling


def test_what_an_earlier_run_saw_has_aged() -> None:
    """For an hour away; after a clock that went back for none."""
    history = DecayingHistogram(10)
    for _ in range(60):
        history = history.add(7_000, Micros(0), ON.half_life)
    for saved, weight in ((1_800_000_000 - 12 * 3600, 30.0), (1_900_000_000, 60.0)):
        left = OversoldMemory(OfferMemory(UseHistory(history)), saved_at=saved)
        after = act(node(), memory=left).memory
        assert isinstance(after, OversoldMemory)
        assert after.saved_at == 0
        assert after.cpu.history.minutes.weight() == pytest.approx(weight)
        assert amounts(act(node(), memory=left))[CPU] == "0"


def stated(**limits: str) -> Pod:
    document = {
        "metadata": {"name": "p", "uid": "p"},
        "spec": {"containers": [{"name": "c", "resources": {"limits": limits}}]},
    }
    return read_pod(document, "a test")


SMALL = stated(cpu="1500m")
EXCLUSIVE_IDLE = "exclusive_cpu_idle"
WORKING_SETS = "container_mem_total_usage"


@pytest.mark.parametrize(
    ("settings", "found", "fields", "metrics"),
    [
        (ON, SMALL, None, set()),
        (ON, stated(**{CPU: "1"}), {"times"}, set()),
        (ON, stated(**{BATCH_CPU: "1"}), None, set()),
        (setting(names=OfferNames.BATCH), stated(**{BATCH_CPU: "1"}), {"times"}, set()),
        (setting(offer=Offered.MEMORY), stated(**{CPU: "1"}), None, set()),
        (ON, stated(cpu="2"), {"times"}, {EXCLUSIVE_IDLE}),
        (setting(offer=Offered.MEMORY), stated(cpu="2"), None, set()),
        (ON, stated(**{MEMORY: "1Gi"}), set(), {"ext_res_container_mem_total_usage"}),
        (setting(offer=Offered.CPU), stated(**{MEMORY: "1Gi"}), None, set()),
        (
            setting(names=OfferNames.BATCH),
            stated(**{BATCH_MEMORY: "1Gi"}),
            set(),
            {WORKING_SETS},
        ),
    ],
)
def test_what_is_read_because_of_pods(
    settings: OversoldSettings, found: Pod, fields: set[str] | None, metrics: set[str]
) -> None:
    needs: Needs = POLICY.needs_of_pods(settings, (SMALL, found))
    assert {each.key.name for each in needs.metrics} == metrics
    if fields is None:
        assert not needs.fields
    else:
        assert {each.value for each in needs.at(Level.CONTAINER)} == fields


def test_what_it_needs_of_every_node() -> None:
    asked = POLICY.needs(ON, frozenset())
    assert {each.key.name for each in asked.metrics} == {"memory_total", "memory_total_usage"}
    assert not asked.fields
    assert POLICY.needs(setting(offer=Offered.CPU), frozenset()) == Needs()


def test_what_was_not_measured_because_of_nobody_is_nothing() -> None:
    everything = node()
    names = (EXCLUSIVE_IDLE, "ext_res_container_mem_total_usage")
    kept = {name: each for name, each in everything.metrics.items() if name not in names}
    less = msgspec.structs.replace(everything, metrics=kept)
    assert look_at_cpu(less, ON, {}).exclusive_idle == 0
    assert look_at_memory(less, ON).elastic_used == 0


def test_whom_it_concerns() -> None:
    assert POLICY.concerns(bought("a", 10, BATCH_CPU, 5))
    assert not POLICY.concerns(bought("a", 10, "nvidia.com/gpu", 1))


def test_cpu_is_offered_by_the_nodes_ratio() -> None:
    """Six idle CPUs of this machine are worth nine; memory has no ratio."""
    seen = node(node_resources=NodeResources(Bytes(32 * GIB), cpu_worth=Ratio(150, 100)))
    assert amounts(act(seen)) == {CPU: "9", MEMORY: str(24 * GIB)}
    assert amounts(act(seen, setting(names=OfferNames.BATCH)))[BATCH_CPU] == "9000"


def test_a_ratio_that_cannot_be_read_offers_the_least() -> None:
    wrong = Gap("metadata.annotations[ratio] is 'x', but must be a number")
    found = act(node(node_resources=NodeResources(Bytes(32 * GIB), cpu_worth=wrong)))
    assert amounts(found)[CPU] == "6"
    [remark] = found.remarks
    assert remark.text == f"{wrong.reason}; CPU is offered as if it were 1.00"
