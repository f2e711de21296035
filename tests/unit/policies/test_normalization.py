"""CPU normalization on a node: who is scaled, by how much, and what wins over it."""

from typing import Any

import msgspec
import pytest

from slackwater.contract.crane.ensurance_set import NO_OBJECTS
from slackwater.contract.koordinator.normalization import RATIO_ANNOTATION, Hundredths
from slackwater.contract.koordinator.pod import QOS_CLASS, RESOURCE_STATUS, bound_cpus
from slackwater.model.cgroup import CgroupReading, CgroupVersion
from slackwater.model.cpus import Cpu, CpuPolicy, CpuSet, KubeletCpus, Topology
from slackwater.model.decision import Act, Because, Intent, Remark, Verb
from slackwater.model.gap import Gap
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import UNLIMITED, Bandwidth, Micros, MilliCpu, Ratio, Unlimited
from slackwater.policies import elastic_resources
from slackwater.policies.normalization import (
    NAME,
    POLICY,
    BoundNormalization,
    LastRatio,
    NormalizationSettings,
    cpu_worth,
)
from slackwater.resolution.quota import granted_quota
from slackwater.resolution.resolver import resolve
from tests.unit.policies.pods import V1, V2, box, inner_ref, pod, pod_ref, quota, reading, snapshot

ON = BoundNormalization(True, Hundredths(120))
NOTHING_KNOWN = LastRatio()
WHY = Because("test", "", "")
FOUR_CPUS = Topology(tuple(Cpu(number, number, 0, 0) for number in range(4)))


def node(
    *quotas: int | Unlimited,
    whole: int | Unlimited = UNLIMITED,
    version: CgroupVersion = V2,
    readings: dict[int, CgroupReading] | None = None,
    more: dict[str, Any] | None = None,
    **about_pod: Any,
) -> NodeSnapshot:
    """A pod of this quota, with containers of these."""
    boxes = [box(f"c{number}", limit=MilliCpu(1)) for number in range(1, len(quotas) + 1)]
    found = {10: reading(pod_ref(), quota=quota(whole))}
    for number, limit in enumerate(quotas, 1):
        ref = inner_ref(1, f"c{number}")
        found[ref.id] = reading(ref, quota=quota(limit))
    made = pod(*boxes, **about_pod)
    return snapshot(made, version=version, readings=found | (readings or {}), **(more or {}))


def decided(
    seen: NodeSnapshot, settings: BoundNormalization = ON, memory: LastRatio = NOTHING_KNOWN
) -> Act:
    found = POLICY.decide(seen, memory, settings)
    assert isinstance(found, Act)
    return found


def written(
    seen: NodeSnapshot, *others: Intent, settings: BoundNormalization = ON
) -> dict[str, int | Unlimited]:
    """The quotas that would be written, in microseconds of 100 ms, by the group's name."""
    grants = resolve(seen, (*decided(seen, settings).intents, *others))
    return {
        grant.target.name(): granted_quota(grant, Micros(100_000)).limit
        for grant in grants
        if grant.knob == "quota"
    }


@pytest.mark.parametrize("version", [V1, V2])
@pytest.mark.parametrize(
    ("ratio", "quotas", "whole", "found"),
    [
        # Rows 43, 47 and 53 of the facts.
        (120, (100_000,), 100_000, {"c1": 83_334, "pod1": 83_334}),
        (120, (200_000,), 200_000, {"c1": 166_667, "pod1": 166_667}),
        (120, (1_000,), 1_000, {"c1": 1_000, "pod1": 1_000}),
        # Row 51: a limit of 2 CPUs, and none at all.
        (100, (200_000,), 200_000, {"c1": 200_000, "pod1": 200_000}),
        (120, (UNLIMITED,), UNLIMITED, {"c1": UNLIMITED, "pod1": UNLIMITED}),
        # 1 ms is the kernel's least, also where the pod's own quota is larger.
        (500, (4_000, 1_000), 5_000, {"c1": 1_000, "c2": 1_000, "pod1": 1_000}),
        (101, (100_000, 50_000), 150_000, {"c1": 99_010, "c2": 49_505, "pod1": 148_515}),
        # One without a limit: the kubelet leaves the pod unlimited, and so do we.
        (150, (60_000, UNLIMITED), UNLIMITED, {"c1": 40_000, "c2": UNLIMITED, "pod1": UNLIMITED}),
    ],
)
def test_quotas_are_divided_exactly_and_rounded_up(
    version: CgroupVersion,
    ratio: int,
    quotas: tuple[int | Unlimited, ...],
    whole: int | Unlimited,
    found: dict[str, int | Unlimited],
) -> None:
    seen = node(*quotas, whole=whole, version=version)
    settings = BoundNormalization(True, Hundredths(ratio))
    assert written(seen, settings=settings) == found


@pytest.mark.parametrize(
    ("version", "limits", "whole"),
    [
        (V2, (2000,), 100_000),
        # On v1 a container that starts again brings its whole limit.
        (V1, (2000,), 200_000),
        (V1, (2000, 1500), 200_000),
        (V1, (1000, 1000, 1000), 150_000),
        (V1, (400, 600), 60_000),
    ],
)
def test_on_v1_a_pod_keeps_room_for_the_start_of_each_container(
    version: CgroupVersion, limits: tuple[int, ...], whole: int
) -> None:
    seen = node(*(100 * each for each in limits), whole=100 * sum(limits), version=version)
    boxes = [box(f"c{n}", limit=MilliCpu(each)) for n, each in enumerate(limits, 1)]
    seen = msgspec.structs.replace(seen, workloads=(pod(*boxes),))
    found = written(seen, settings=BoundNormalization(True, Hundredths(200)))
    assert found.pop("pod1") == whole
    assert list(found.values()) == [50 * each for each in limits]


@pytest.mark.parametrize(
    ("version", "limits", "own", "whole"),
    [
        # On v1 the kubelet starts a container without a limit with the pod's own.
        (V1, (UNLIMITED, UNLIMITED), 2000, 200_000),
        (V1, (500, UNLIMITED), 2000, 200_000),
        # Each has one: the pod's own starts nobody.
        (V1, (800, 600), 2000, 100_000),
        # On v2 it starts whatever its pod's quota is.
        (V2, (UNLIMITED, UNLIMITED), 2000, 100_000),
        (V2, (500, UNLIMITED), 2000, 100_000),
        (V2, (800, 600), 2000, 100_000),
        # The kernel's least.
        (V2, (UNLIMITED,), 10, 1_000),
    ],
)
def test_a_pods_own_limit_counts_for_containers_without_one(
    version: CgroupVersion, limits: tuple[int | Unlimited, ...], own: int, whole: int
) -> None:
    boxes = [
        box(f"c{n}", limit=each if isinstance(each, Unlimited) else MilliCpu(each))
        for n, each in enumerate(limits, 1)
    ]
    stand = [own if isinstance(each, Unlimited) else each for each in limits]
    seen = node(*(100 * each for each in stand), whole=100 * own, version=version)
    seen = msgspec.structs.replace(seen, workloads=(pod(*boxes, own_limit=MilliCpu(own)),))
    found = written(seen, settings=BoundNormalization(True, Hundredths(200)))
    halves = {f"c{n}": max(50 * each, 1_000) for n, each in enumerate(stand, 1)}
    assert found == {"pod1": whole} | halves


def test_what_a_pod_declares_is_scaled_and_what_throttles_it_is_not() -> None:
    """Bursts and elastic limits are in normalized CPU, throttles in the machine's own."""
    seen = node(100_000, whole=100_000)
    ref = inner_ref(1, "c1")
    base = Intent(ref, "quota", Verb.BASE, MilliCpu(500), WHY, "elastic")
    raised = Intent(ref, "quota", Verb.RAISE, MilliCpu(100), WHY, "burst")
    assert written(seen, base)["c1"] == 41_667  # row 55
    assert written(seen, base, raised)["c1"] == 50_000
    cap = Intent(ref, "quota", Verb.CAP, MilliCpu(300), WHY, "throttle")
    assert written(seen, base, cap)["c1"] == 30_000


def test_explain_shows_the_steps_in_the_order_of_the_quota_law() -> None:
    seen = node(100_000, whole=100_000)
    ref = inner_ref(1, "c1")
    others = (
        Intent(ref, "quota", Verb.CAP, MilliCpu(300), WHY, "throttle"),
        Intent(ref, "quota", Verb.RAISE, MilliCpu(100), WHY, "burst"),
        Intent(ref, "quota", Verb.BASE, MilliCpu(500), WHY, "elastic"),
    )
    grants = resolve(seen, (*others, *decided(seen).intents))
    [grant] = [each for each in grants if each.target == ref]
    assert [(step.by, step.after) for step in grant.contributions] == [
        ("elastic", 500),
        ("burst", 600),
        (NAME, 500),
        ("throttle", 300),
    ]


def test_containers_with_cpus_of_their_own_are_left_alone() -> None:
    one = inner_ref(1, "c1")
    pinned = {one.id: reading(one, quota=quota(100_000), cpus=CpuSet(0b0110))}
    machine = {
        "topology": FOUR_CPUS,
        "reserved_cpus": CpuSet(0b0001),
        "kubelet_cpus": KubeletCpus("none"),
    }
    seen = node(
        100_000, 50_000, whole=150_000, readings=pinned, more=machine, cpu_policy=CpuPolicy.SHARE
    )
    assert written(seen) == {"c2": 41_667}
    # Asked for, and not done: it shares all CPUs, or those that nobody holds alone.
    for cpus in (FOUR_CPUS.all(), CpuSet(0b1001), CpuSet()):
        others = {one.id: reading(one, quota=quota(100_000), cpus=cpus)}
        seen = node(100_000, readings=others, more=machine, cpu_policy=CpuPolicy.EXCLUSIVE)
        assert written(seen)["c1"] == 83_334


@pytest.mark.parametrize(
    ("about_pod", "more", "why"),
    [
        ({"bound_cpus": "x is LSR"}, {}, "x is LSR"),
        (
            {},
            {"kubelet_cpus": KubeletCpus("static", {"1": {"c1": CpuSet(2)}})},
            "the kubelet gave it CPUs of its own",
        ),
    ],
)
def test_pods_that_others_bound_are_left_alone(
    about_pod: dict[str, Any], more: dict[str, Any], why: str
) -> None:
    seen = node(100_000, whole=100_000, more=more, **about_pod)
    assert written(seen) == {}
    told = POLICY.explain_pod(ON, seen, seen.workloads[0])
    assert told == (f"its quota is not divided by 1.20: {why}",)


@pytest.mark.parametrize(
    ("labels", "annotations", "bound"),
    [
        ({}, {}, ""),
        ({QOS_CLASS: "LS"}, {}, ""),
        ({QOS_CLASS: "BE"}, {}, ""),
        ({QOS_CLASS: "LSR"}, {}, f"{QOS_CLASS} is LSR"),
        ({QOS_CLASS: "LSE"}, {}, f"{QOS_CLASS} is LSE"),
        ({QOS_CLASS: "SYSTEM"}, {}, f"{QOS_CLASS} is SYSTEM"),
        ({QOS_CLASS: "odd"}, {}, ""),
        # Its scheduler gave it these CPUs, whatever its class says.
        (
            {QOS_CLASS: "LS"},
            {RESOURCE_STATUS: '{"cpuset": "0-3"}'},
            f"{RESOURCE_STATUS} has the CPUs 0-3",
        ),
        ({}, {RESOURCE_STATUS: '{"cpuset": "0-3"}'}, f"{RESOURCE_STATUS} has the CPUs 0-3"),
        ({}, {RESOURCE_STATUS: '{"cpuset": ""}'}, ""),
        ({}, {RESOURCE_STATUS: "{"}, ""),
        ({}, {RESOURCE_STATUS: "[]"}, ""),
    ],
)
def test_who_is_bound_by_koordinator(
    labels: dict[str, str], annotations: dict[str, str], bound: str
) -> None:
    assert bound_cpus(labels, annotations) == bound


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        (None, f"the Node has no annotation {RATIO_ANNOTATION}"),
        ("1.00", f"the Node's annotation {RATIO_ANNOTATION} is 1.00"),
        ("1.20", BoundNormalization(True, Hundredths(120))),
    ],
)
def test_the_nodes_annotation_switches_it(text: str | None, bound: object) -> None:
    annotations = {} if text is None else {RATIO_ANNOTATION: text}
    assert POLICY.bind is not None
    assert POLICY.bind(NormalizationSettings(), NO_OBJECTS, {}, annotations) == bound


@pytest.mark.parametrize("text", ["0.82", "0", "[}"])
def test_a_ratio_that_cannot_be_read_changes_nothing(text: str) -> None:
    """Rows 45 and 49 of the facts."""
    assert POLICY.bind is not None
    wrong = POLICY.bind(NormalizationSettings(), NO_OBJECTS, {}, {RATIO_ANNOTATION: text})
    assert isinstance(wrong, BoundNormalization)
    assert isinstance(wrong.ratio, Gap)
    seen = node(100_000, whole=100_000)
    first = decided(seen, wrong)
    assert (first.intents, first.memory) == ((), LastRatio())
    assert first.remarks == (Remark("node", f"{wrong.ratio.reason}; 1.00 stays"),)
    after = decided(seen, wrong, LastRatio(Hundredths(120)))
    assert after.intents == decided(seen).intents
    [remark] = after.remarks
    assert remark == Remark("node", f"{wrong.ratio.reason}; 1.20 stays")
    assert repr(text) in remark.text


def test_every_kind_of_container_counts_and_one_that_is_gone_does_not() -> None:
    gone = box("c2", ref=Gap("it has ended"))
    seen = snapshot(pod(box("c1"), gone))
    names = [each.target.name() for each in decided(seen).intents]
    assert names == ["pod1", "c1"]
    assert all(each.by == NAME for each in decided(seen).intents)


def test_bound_settings_are_recorded() -> None:
    for made in (ON, BoundNormalization(True, Gap("odd"))):
        assert msgspec.json.decode(msgspec.json.encode(made), type=BoundNormalization) == made


def test_a_period_of_ones_own_is_kept() -> None:
    seen = node(100_000)
    ref = inner_ref(1, "c1")
    own = {ref.id: reading(ref, quota=Bandwidth(Micros(50_000), Micros(50_000)))}
    seen = msgspec.structs.replace(seen, readings={**seen.readings, **own})
    [grant] = [each for each in resolve(seen, decided(seen).intents) if each.target == ref]
    assert granted_quota(grant, Micros(50_000)) == Bandwidth(Micros(41_667), Micros(50_000))


@pytest.mark.parametrize("version", [V1, V2])
def test_bought_cpu_is_divided_too(version: CgroupVersion) -> None:
    """A pod buys CPU in the unit that it declares: 2 at a ratio of 1.25 are 1.6 of this machine."""
    bought = {"gocrane.io/cpu": 2000}
    own = box("c1", extended_requests=bought, extended_limits=bought)
    made = pod(own, extended_requests=bought, extended_limits=bought)
    found = {10: reading(pod_ref(), quota=quota(UNLIMITED))}
    ref = inner_ref(1, "c1")
    seen = snapshot(
        made, version=version, readings=found | {ref.id: reading(ref, quota=quota(UNLIMITED))}
    )
    settings = elastic_resources.ElasticResourcesSettings(enabled=True)
    elastic = elastic_resources.decide(seen, None, settings)
    assert isinstance(elastic, Act)
    ratio = BoundNormalization(True, Hundredths(125))
    assert written(seen, *elastic.intents, settings=ratio) == {"c1": 160_000, "pod1": 160_000}


@pytest.mark.parametrize(
    ("in_force", "worth"),
    [
        (None, Ratio(1)),  # switched off, or no annotation
        (NormalizationSettings(), Ratio(1)),
        (BoundNormalization(True, Hundredths(125)), Ratio(125, 100)),
        (BoundNormalization(True, Gap("odd")), Gap("odd")),
    ],
)
def test_what_a_cpu_is_worth(in_force: object, worth: Ratio | Gap) -> None:
    assert cpu_worth(in_force) == worth
