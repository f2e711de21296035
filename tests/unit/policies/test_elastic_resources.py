"""Elastic resources: weights, quotas and memory limits of a pod and its containers."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.cgroup import CgroupRef, CgroupVersion, Level, Tier
from slackwater.model.decision import Act, Verb
from slackwater.model.elastic import ELASTIC_CPU, ELASTIC_MEMORY
from slackwater.model.gap import Gap
from slackwater.model.knob import QUOTA, WEIGHT
from slackwater.model.knob_text import encode
from slackwater.model.needs import ReadingField
from slackwater.model.snapshot import NodeSnapshot, WritePrecision
from slackwater.model.units import UNLIMITED, Bandwidth, Bytes, Micros, MilliCpu, Percent
from slackwater.model.weight import WeightFormula, shares_of, weight_for
from slackwater.model.workload import MemoryRatios, Workload
from slackwater.policies.elastic_resources import MOST, POLICY, ElasticResourcesSettings, WeightRule
from slackwater.policies.policy import STATELESS
from slackwater.resolution.planning import plan_changes
from slackwater.resolution.quota import quota_value
from slackwater.resolution.resolver import resolve
from slackwater.settings.agent_settings import AgentSettings
from tests.unit.policies.pods import (
    CPU,
    MEMORY,
    V1,
    V2,
    asked,
    box,
    pod,
    remarks,
    snapshot,
)

ON = ElasticResourcesSettings(enabled=True)
VOLCANO = ElasticResourcesSettings(enabled=True, weight_formula=WeightRule.VOLCANO)
GIB = 2**30
LACKING = "not every container has a limit of {}, so the pod as a whole has none"
ABSENT = "so it counts as absent"
BAD = Gap("batch-cpu is '200m', but must be a whole number of milliCPU, zero or more, such as 200")


def decided(seen: NodeSnapshot, settings: ElasticResourcesSettings = ON) -> Any:
    return POLICY.decide(seen, STATELESS, settings)


def written(
    seen: NodeSnapshot, settings: ElasticResourcesSettings = ON
) -> dict[tuple[str, str], Any]:
    """What the kernel would be told, by group and knob: a quota in microseconds."""
    readings = {
        key: msgspec.structs.replace(
            each, others={**each.others, "memory-max": 2**62, "memory-high": UNLIMITED}
        )
        for key, each in seen.readings.items()
    }
    seen = msgspec.structs.replace(seen, readings=readings, precision=WritePrecision(1))
    grants = resolve(seen, decided(seen, settings).intents)
    changes = plan_changes(seen, grants, {}, AgentSettings()).changes
    return {
        (each.ref.name(), each.knob.name): each.new.limit
        if isinstance(each.new, Bandwidth)
        else each.new
        for each in changes
    }


@pytest.mark.parametrize(
    ("milli", "weight"),
    [(1, 1), (9, 1), (10, 1), (500, 50), (1000, 100), (4000, 400), (150_000, 10_000)],
)
def test_row_21_volcanos_weights(milli: int, weight: int) -> None:
    seen = snapshot(pod(box("c1", {CPU: milli})))
    assert asked(decided(seen, VOLCANO))["c1", "weight"] == weight


def burstable(made: Workload) -> Workload:
    """Beside pods that have the kubelet's weights for ordinary requests."""

    def moved(ref: CgroupRef | Gap) -> CgroupRef:
        assert isinstance(ref, CgroupRef)
        return msgspec.structs.replace(ref, tier=Tier.BURSTABLE)

    boxes = tuple(msgspec.structs.replace(each, ref=moved(each.ref)) for each in made.containers)
    return msgspec.structs.replace(made, ref=moved(made.ref), containers=boxes, tier=Tier.BURSTABLE)


@pytest.mark.parametrize(
    ("milli", "formula", "weight"),
    [
        (1, WeightFormula.LINEAR, 1),
        (500, WeightFormula.LINEAR, 20),
        (1000, WeightFormula.LINEAR, 39),
        (1000, WeightFormula.QUADRATIC, 100),
        (10**7, WeightFormula.LINEAR, 10_000),
        (10**7, WeightFormula.QUADRATIC, 10_000),
    ],
)
@pytest.mark.parametrize("level", [Level.POD, Level.CONTAINER])
def test_weights_as_this_nodes_own_writers_count(
    milli: int, formula: WeightFormula, weight: int, level: Level
) -> None:
    """docs/differences.md: they must compete fairly with the kubelet's and the runtime's."""
    other = next(each for each in WeightFormula if each is not formula)
    formulas = (formula, other) if level is Level.POD else (other, formula)
    seen = snapshot(
        burstable(pod(box("c1", {CPU: milli}))),
        pod_formula=formulas[0],
        container_formula=formulas[1],
    )
    name = "pod1" if level is Level.POD else "c1"
    assert asked(decided(seen))[name, "weight"] == weight


@pytest.mark.parametrize("rule", WeightRule)
@pytest.mark.parametrize("formula", [WeightFormula.LINEAR, WeightFormula.QUADRATIC])
@pytest.mark.parametrize(
    ("milli", "weight"), [(1, 1), (10, 1), (100, 10), (1000, 100), (3000, 300), (10**6, 10_000)]
)
def test_best_effort_weights_are_proportional_whatever_the_nodes_formula(
    milli: int, weight: int, formula: WeightFormula, rule: WeightRule
) -> None:
    """ADR 42: the kubelet gives every other pod of that tier the lowest weight."""
    seen = snapshot(pod(box("c1", {CPU: milli})), pod_formula=formula, container_formula=formula)
    settings = ElasticResourcesSettings(True, weight_formula=rule)
    assert asked(decided(seen, settings)) == {("pod1", "weight"): weight, ("c1", "weight"): weight}


@given(st.integers(100, 25_000), st.integers(1, 4), st.sampled_from([V1, V2]))
def test_best_effort_pods_share_as_they_asked(
    milli: int, times: int, version: CgroupVersion
) -> None:
    """Within 10 % of what they asked for from a tenth of a CPU on, within 1 % from a whole one."""
    one, other = (
        pod(box("c1", {CPU: milli})),
        pod(box("c2", {CPU: times * milli}, number=2), number=2),
    )
    seen = snapshot(
        one,
        other,
        version=version,
        pod_formula=WeightFormula.QUADRATIC,
        container_formula=WeightFormula.QUADRATIC,
    )
    found = asked(decided(seen))
    for pair in (("pod1", "pod2"), ("c1", "c2")):
        ratio = found[pair[1], "weight"] / found[pair[0], "weight"]
        assert ratio == pytest.approx(times, rel=0.01 if milli >= 1000 else 0.1)


def test_row_23_on_v1() -> None:
    """c1 asks for 500 and may have 5, which is below the kernel's smallest quota; c2 has no
    request and c1 no memory limit."""
    c1 = box("c1", {CPU: 500, MEMORY: 100}, {CPU: 5})
    c2 = box("c2", {}, {CPU: 1000, MEMORY: 200})
    found = written(snapshot(pod(c1, c2), version=V1))
    assert found == {
        ("c1", "weight"): 512,
        ("c1", "quota"): 1000,
        ("c2", "quota"): 100_000,
        ("c2", "memory-max"): 200,
        ("pod1", "weight"): 512,
        ("pod1", "quota"): 101_000,
    }


def test_row_25_on_v2() -> None:
    c1 = box("c1", {CPU: 500}, {CPU: 2000})
    c2 = box("c2", {CPU: 1000}, {MEMORY: 10 * GIB})
    found = written(snapshot(pod(c1, c2)), VOLCANO)
    assert found == {
        ("c1", "weight"): 50,
        ("c1", "quota"): 200_000,
        ("c2", "weight"): 100,
        ("c2", "memory-max"): 10 * GIB,
        ("c2", "memory-high"): 9 * GIB,
        ("pod1", "weight"): 150,
    }


def test_row_27_on_v2_for_latency_sensitive_pods() -> None:
    c1, c2 = box("c1", {CPU: 500}), box("c2", {CPU: 1000}, {MEMORY: 5 * GIB})
    found = asked(decided(snapshot(pod(c1, c2, qos_level=1)), VOLCANO))
    assert found == {
        ("c1", "weight"): 50,
        ("c2", "weight"): 100,
        ("c2", "memory-max"): 5368709120,
        ("c2", "memory-high"): 4831838208,
        ("pod1", "weight"): 150,
    }


@pytest.mark.parametrize(
    ("level", "concerned"), [(-1, True), (0, True), (1, True), (2, False), (Gap("GOLD"), True)]
)
def test_latency_critical_pods_are_the_kubelets(level: int | Gap, concerned: bool) -> None:
    seen = snapshot(pod(box("c1", {CPU: 500}), qos_level=level))
    assert bool(asked(decided(seen))) is concerned


def test_latency_critical_pods_are_told_so() -> None:
    said = "elastic resources of pods of level LC and HLS are left alone"
    seen = snapshot(pod(box("c1", {CPU: 500}), qos_level=2), pod(number=2, qos_level=2))
    assert remarks(decided(seen)) == [("default/pod-1", said)]


@pytest.mark.parametrize(
    ("version", "settings", "native", "weights"),
    [
        (V1, ON, 2000, {"pod1": 2150, "c2": 102}),
        (V1, ON, 0, {"pod1": 102, "c2": 102}),
        (V2, ON, 2000, {"pod1": 82, "c2": 4}),
        (V2, VOLCANO, 2000, {"pod1": 210, "c2": 10}),
    ],
)
def test_a_batch_sidecar_never_makes_a_pod_lighter(
    version: CgroupVersion, settings: ElasticResourcesSettings, native: int, weights: dict[str, int]
) -> None:
    """Volcano gives the pod the batch request's weight alone, and its service starves."""
    web, side = box("c1", request=native), box("c2", {CPU: 100})
    both = burstable(pod(web, side, request=native))
    found = asked(decided(snapshot(both, version=version), settings))
    assert found == {(name, "weight"): weight for name, weight in weights.items()}


def test_a_container_with_both_kinds_of_request() -> None:
    both = box("c1", {CPU: 100}, request=500)
    act = decided(snapshot(pod(both, request=500), version=V1))
    assert asked(act) == {("pod1", "weight"): 614, ("c1", "weight"): 614}
    assert act.intents[0].because.seen == "100m, and 500m of cpu"


@given(
    st.integers(0, 10**6),
    st.integers(1, 10**6),
    st.sampled_from(CgroupVersion),
    st.sampled_from(WeightRule),
    st.sampled_from([WeightFormula.LINEAR, WeightFormula.QUADRATIC]),
)
def test_a_weight_is_never_below_the_kubelets(
    native: int, batch: int, version: CgroupVersion, rule: WeightRule, formula: WeightFormula
) -> None:
    seen = snapshot(
        burstable(pod(box("c1", request=native), box("c2", {CPU: batch}), request=native)),
        version=version,
        pod_formula=formula,
    )
    found = asked(decided(seen, ElasticResourcesSettings(True, weight_formula=rule)))
    own = MilliCpu(native)
    kubelets = shares_of(own) if version is V1 else weight_for(own, formula)
    assert native == 0 or found["pod1", "weight"] >= kubelets


@pytest.mark.parametrize(
    ("boxes", "knobs", "said"),
    [
        (
            [box("c1", {CPU: 99_999_999_999}, {CPU: 99_999_999_999})],
            set(),
            [
                f"{CPU} in the {kind} of c1 is above 17592186 (milliCPU), {ABSENT}"
                for kind in ("requests", "limits")
            ],
        ),
        (
            [box("c1", {}, {CPU: MOST}), box("c2", {}, {CPU: 1})],
            {("c1", "quota"), ("c2", "quota")},
            [f"the pod's {CPU} limits together are above {MOST} (milliCPU), {ABSENT}"],
        ),
        ([box("c1", {}, {CPU: MOST})], {("pod1", "quota"), ("c1", "quota")}, []),
    ],
)
def test_an_amount_that_no_quota_can_hold(boxes: Any, knobs: Any, said: list[str]) -> None:
    """Refused by the kernel it would leave the container without a limit."""
    act = decided(snapshot(pod(*boxes)))
    assert set(asked(act)) == knobs
    assert remarks(act) == ([("default/pod-1", "; ".join(said))] if said else [])


@pytest.mark.parametrize("period", [1_000, 100_000, 1_000_000])
def test_the_largest_amount_fits_every_period(period: int) -> None:
    assert encode(QUOTA, V1, quota_value(MilliCpu(MOST), Micros(period)))


@pytest.mark.parametrize(
    ("requests", "limits", "knobs"),
    [
        ({}, {}, set()),
        ({"example.com/gpu": 1}, {"example.com/gpu": 1}, set()),
        ({CPU: 500}, {}, {"weight"}),
        ({CPU: 0}, {}, set()),
        ({}, {CPU: 500}, {"quota"}),
        ({}, {CPU: 0}, set()),
        ({MEMORY: 500}, {}, set()),
        ({}, {MEMORY: 500}, {"memory-max"}),
        ({}, {MEMORY: 0}, set()),
        ({CPU: 500}, {CPU: 500, MEMORY: 500}, {"weight", "quota", "memory-max"}),
        ({CPU: BAD}, {CPU: BAD, MEMORY: 500}, {"memory-max"}),
        ({ELASTIC_CPU: 500}, {}, {"weight"}),
        ({}, {ELASTIC_CPU: 500}, {"quota"}),
        ({}, {ELASTIC_MEMORY: 500}, {"memory-max"}),
        ({ELASTIC_CPU: 0}, {ELASTIC_CPU: 0, ELASTIC_MEMORY: 0}, set()),
        ({"gocrane.io/gpu": 1}, {"gocrane.io/gpu": 1}, set()),
    ],
)
@pytest.mark.parametrize("version", [V1, V2])
def test_each_amount_asks_for_its_own_knob(
    version: CgroupVersion, requests: Any, limits: Any, knobs: set[str]
) -> None:
    """Zero asks for nothing, on v1 as on v2, where Volcano writes "max". Only v2 has a high."""
    if version is V2 and "memory-max" in knobs:
        knobs = knobs | {"memory-high"}
    found = asked(decided(snapshot(pod(box("c1", requests, limits)), version=version)))
    assert found.keys() == {(name, knob) for name in ("pod1", "c1") for knob in knobs}


@pytest.mark.parametrize(
    ("limits", "pod_quota"),
    [
        (({CPU: 500}, {CPU: 1000}), 1500),
        (({CPU: 500}, {}), None),
        (({CPU: 500}, {CPU: 0}), None),  # unlimited: Volcano caps it with the sum of the others
        (({CPU: 500}, {CPU: BAD}), None),
        (({CPU: 1}, {CPU: 2}), 20),  # the kernel gives each 10 m at least
    ],
)
def test_the_pods_limit_needs_every_containers(limits: Any, pod_quota: int | None) -> None:
    boxes = [box(f"c{number}", {}, each) for number, each in enumerate(limits, 1)]
    assert asked(decided(snapshot(pod(*boxes)))).get(("pod1", "quota")) == pod_quota


def test_a_container_that_has_no_group_yet_is_never_the_pod() -> None:
    """Volcano writes its value into the pod's cgroup."""
    gone = box("c1", {CPU: 500}, {CPU: 500}, ref=Gap("its cgroup is not there"))
    found = asked(decided(snapshot(pod(gone, box("c2", {CPU: 700}, {CPU: 700})))))
    assert found["pod1", "quota"] == 1200
    assert {name for name, _ in found} == {"pod1", "c2"}


def test_a_pod_that_has_no_group_yet() -> None:
    seen = snapshot(pod(box("c1", {CPU: 500}, ref=Gap("none")), ref=Gap("none")))
    assert asked(decided(seen)) == {}


def test_the_limit_is_a_base_that_others_may_cap() -> None:
    act = decided(snapshot(pod(box("c1", {}, {CPU: 500}))))
    assert isinstance(act, Act)
    quotas = [intent for intent in act.intents if intent.knob == "quota"]
    assert [intent.verb for intent in quotas] == [Verb.BASE, Verb.BASE]
    assert quotas[0].because.signal == f"{CPU} limit"
    assert [intent.because.limit for intent in quotas] == [
        "what the pod's containers may use together",
        "the container's own limit",
    ]
    assert act.numbers == {"pods": 1}


@pytest.mark.parametrize(
    ("boxes", "said"),
    [
        ((box("c1", {CPU: 500}),), []),
        ((box("c1", {}, {CPU: BAD}),), [BAD.reason]),
        ((box("c1", {CPU: BAD}, {CPU: BAD}), box("c2", {CPU: BAD})), [BAD.reason]),
        (
            (box("c1", {}, {CPU: 5}), box("c2", {CPU: 5})),
            [LACKING.format(CPU)],
        ),
        (
            (box("c1", {}, {MEMORY: 5, CPU: BAD}), box("c2", {}, {CPU: 5, MEMORY: 0})),
            [f"{BAD.reason}; {LACKING.format(MEMORY)}"],
        ),
    ],
)
def test_what_cannot_be_used_is_one_sentence_and_the_others_go_on(
    boxes: Any, said: list[str]
) -> None:
    good = pod(box("c9", {CPU: 500}, number=2), number=2)
    act = decided(snapshot(pod(*boxes), good))
    assert remarks(act) == [("default/pod-1", each) for each in said]
    assert asked(act)["pod2", "weight"] == 50


def test_cranes_resources_in_cores() -> None:
    """One and three cores, as contract.pod_resources reads them, weigh 1 : 3."""
    one = pod(box("c1", {ELASTIC_CPU: 1000}, {ELASTIC_CPU: 1000, ELASTIC_MEMORY: GIB}))
    three = pod(box("c2", {ELASTIC_CPU: 3000}, {ELASTIC_CPU: 3000}, number=2), number=2)
    act = decided(snapshot(one, three, version=V1))
    found = asked(act)
    assert (found["pod1", "weight"], found["pod2", "weight"]) == (1024, 3072)
    assert (found["pod1", "quota"], found["pod2", "quota"]) == (1000, 3000)
    assert found["pod1", "memory-max"] == GIB
    assert act.intents[0].because.signal == "gocrane.io/cpu requested"


def test_both_names_in_one_container_add_up() -> None:
    both = box("c1", {CPU: 500, ELASTIC_CPU: 1000}, {CPU: 500, ELASTIC_CPU: 1000})
    act = decided(snapshot(pod(both), version=V1))
    assert asked(act)["c1", "weight"] == 1536
    assert asked(act)["c1", "quota"] == 1500
    signal = "kubernetes.io/batch-cpu and gocrane.io/cpu limit"
    assert signal in [each.because.signal for each in act.intents]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({CPU: 500}, {ELASTIC_CPU: 1000}),
        ({CPU: 500, ELASTIC_CPU: 1000}, {ELASTIC_CPU: 1000}),  # the pod's sum of one lacks 500
        ({CPU: 500, ELASTIC_CPU: 1000}, {CPU: 500, ELASTIC_CPU: 1000}),
    ],
)
def test_a_pod_whose_containers_mix_names_has_no_limit_as_a_whole(
    ours: dict[str, int], theirs: dict[str, int]
) -> None:
    act = decided(snapshot(pod(box("c1", {}, ours), box("c2", {}, theirs))))
    found = asked(act)
    assert ("pod1", "quota") not in found
    assert found["c1", "quota"] == sum(ours.values())
    assert found["c2", "quota"] == sum(theirs.values())
    said = f"limits of {CPU} and {ELASTIC_CPU} are mixed, so the pod as a whole has none"
    assert remarks(act) == [("default/pod-1", said)]


@pytest.mark.parametrize(
    ("part", "more", "high"),
    [
        (90, {}, 900),
        (50, {}, 500),
        (100, {}, None),
        (90, {"memory_ratios": MemoryRatios(high=80)}, None),
        (90, {"memory_ratios": Gap("bad")}, None),
    ],
)
def test_memory_is_reclaimed_before_the_limit(
    part: int, more: dict[str, Any], high: int | None
) -> None:
    settings = ElasticResourcesSettings(True, memory_high=Percent(part))
    seen = snapshot(pod(box("c1", {}, {ELASTIC_MEMORY: 1000}), **more))
    found = asked(decided(seen, settings))
    assert [found.get((name, "memory-high")) for name in ("pod1", "c1")] == [high, high]


def test_other_names_of_the_resources() -> None:
    names = ElasticResourcesSettings(
        True, "koordinator.sh/batch-cpu", "koordinator.sh/batch-memory"
    )
    theirs = box("c1", {names.cpu_resource: 1000}, {names.memory_resource: GIB, CPU: 7})
    assert asked(decided(snapshot(pod(theirs)), names)) == {
        ("pod1", "weight"): 100,
        ("pod1", "memory-max"): GIB,
        ("pod1", "memory-high"): GIB * 9 // 10,
        ("c1", "weight"): 100,
        ("c1", "memory-max"): GIB,
        ("c1", "memory-high"): GIB * 9 // 10,
    }


def test_what_it_has_to_see() -> None:
    needs = POLICY.needs(ON, frozenset())
    for level in (Level.POD, Level.CONTAINER):
        assert {
            ReadingField.WEIGHT,
            ReadingField.IDLE,
            ReadingField.QUOTA,
            ReadingField.MEMORY_MAX,
        } <= needs.at(level)
    assert needs.at(Level.TIER) == {ReadingField.QUOTA}


AMOUNTS = st.integers(0, 2**63 - 1)
BOXES = st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=1, max_size=9)


@given(BOXES, st.sampled_from(CgroupVersion), st.sampled_from(WeightRule))
def test_a_weight_is_always_one_that_the_kernel_takes(
    amounts: list[tuple[int, int]], version: CgroupVersion, rule: WeightRule
) -> None:
    """Volcano's sums leave the kernel's range, which answers ERANGE."""
    boxes = [box(f"c{n}", {CPU: asks}, {CPU: has}) for n, (asks, has) in enumerate(amounts, 1)]
    seen = snapshot(pod(*boxes), version=version)
    settings = ElasticResourcesSettings(True, weight_formula=rule)
    for (_, knob), value in asked(decided(seen, settings)).items():
        if knob == WEIGHT.name:
            assert encode(WEIGHT, version, value)  # raises out of range


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=9))
def test_a_pod_is_never_narrower_than_its_containers(amounts: list[tuple[int, int]]) -> None:
    boxes = [box(f"c{n}", {CPU: asks}, {CPU: has}) for n, (asks, has) in enumerate(amounts, 1)]
    found = written(snapshot(pod(*boxes), version=V1))
    whole = found.get(("pod1", QUOTA.name))
    inner = [value for (name, knob), value in found.items() if name != "pod1" and knob == "quota"]
    if whole is not None:
        assert whole == sum(inner)


def empty_of(workload: Workload) -> Workload:
    return pod(*(box(each.name) for each in workload.containers))


@given(st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 10**6)), min_size=1, max_size=5))
def test_what_a_pod_no_longer_asks_for_is_not_asked_for(amounts: list[tuple[int, int]]) -> None:
    boxes = [box(f"c{n}", {CPU: asks}, {CPU: has}) for n, (asks, has) in enumerate(amounts, 1)]
    workload = pod(*boxes)
    assert asked(decided(snapshot(workload)))
    assert asked(decided(snapshot(empty_of(workload)))) == {}


@pytest.mark.parametrize(
    ("native", "quota"),
    [
        ({}, 1000),
        ({"request": MilliCpu(2000), "limit": MilliCpu(4000)}, 5000),
        ({"limit": MilliCpu(4000)}, 5000),
        # It may use any CPU that it gets: an elastic limit takes nothing away.
        ({"request": MilliCpu(2000)}, None),
    ],
)
def test_an_elastic_limit_comes_on_top_of_an_ordinary_one(
    native: dict[str, MilliCpu], quota: int | None
) -> None:
    """Crane leaves a container with a quota alone. None is throttled for asking for elastic CPU
    as well."""
    act = decided(snapshot(pod(box("c1", {}, {ELASTIC_CPU: 1000}, **native))))
    assert [asked(act).get((name, "quota")) for name in ("c1", "pod1")] == [quota, quota]
    told = "c1 asks for cpu without a limit, so that of gocrane.io/cpu bounds nothing"
    assert [each.text for each in act.remarks] == ([] if quota else [told])


@pytest.mark.parametrize(
    ("native", "most"),
    [
        ({}, GIB),
        ({"memory_request": Bytes(GIB), "memory_limit": Bytes(2 * GIB)}, 3 * GIB),
        ({"memory_request": Bytes(GIB)}, None),
    ],
)
def test_so_does_memory(native: dict[str, Bytes], most: int | None) -> None:
    act = decided(snapshot(pod(box("c1", {}, {ELASTIC_MEMORY: GIB}, **native))))
    assert [asked(act).get((name, "memory-max")) for name in ("c1", "pod1")] == [most, most]
    high = None if most is None else most * 9 // 10
    assert asked(act).get(("c1", "memory-high")) == high


def test_the_pod_has_the_ordinary_limits_of_all() -> None:
    one = box("c1", {}, {ELASTIC_CPU: 1000}, request=MilliCpu(500), limit=MilliCpu(500))
    two = box("c2", {}, {ELASTIC_CPU: 2000})
    found = asked(decided(snapshot(pod(one, two))))
    assert [found[name, "quota"] for name in ("c1", "c2", "pod1")] == [1500, 2000, 3500]
    free = box("c3", {}, {ELASTIC_CPU: 2000}, request=MilliCpu(500))
    assert ("pod1", "quota") not in asked(decided(snapshot(pod(one, free))))


def test_a_pod_with_many_containers_is_told_in_a_short_sentence() -> None:
    boxes = [box(f"c{n}", {}, {ELASTIC_CPU: 1}, request=MilliCpu(1)) for n in range(1, 10)]
    [remark] = decided(snapshot(pod(*boxes))).remarks
    assert remark.text.endswith("; and 6 more")
