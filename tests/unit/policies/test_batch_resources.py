"""Batch resources: weights, quotas and memory limits of a pod and its containers."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.cgroup import CgroupVersion, Level
from slackwater.model.decision import Act, Verb
from slackwater.model.gap import Gap
from slackwater.model.knob import QUOTA, WEIGHT
from slackwater.model.knob_text import encode
from slackwater.model.needs import ReadingField
from slackwater.model.snapshot import NodeSnapshot, WritePrecision
from slackwater.model.units import Bandwidth, Micros, MilliCpu
from slackwater.model.weight import WeightFormula, shares_of, weight_for
from slackwater.model.workload import Workload
from slackwater.policies.batch_resources import MOST, POLICY, BatchResourcesSettings, WeightRule
from slackwater.policies.policy import STATELESS
from slackwater.resolution.planning import plan_changes
from slackwater.resolution.quota import quota_value
from slackwater.resolution.resolver import resolve
from slackwater.settings.agent_settings import AgentSettings
from tests.unit.policies.pods import CPU, MEMORY, V1, V2, asked, box, pod, remarks, snapshot

ON = BatchResourcesSettings(enabled=True)
VOLCANO = BatchResourcesSettings(enabled=True, weight_formula=WeightRule.VOLCANO)
GIB = 2**30
LACKING = "not every container has a limit of {}, so the pod as a whole has none"
ABSENT = "so it counts as absent"
BAD = Gap("batch-cpu is '200m', but must be a whole number of milliCPU, zero or more, such as 200")


def decided(seen: NodeSnapshot, settings: BatchResourcesSettings = ON) -> Any:
    return POLICY.decide(seen, STATELESS, settings)


def written(
    seen: NodeSnapshot, settings: BatchResourcesSettings = ON
) -> dict[tuple[str, str], Any]:
    """What the kernel would be told, by group and knob: a quota in microseconds."""
    readings = {
        key: msgspec.structs.replace(each, others={**each.others, "memory-max": 2**62})
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
        pod(box("c1", {CPU: milli})), pod_formula=formulas[0], container_formula=formulas[1]
    )
    name = "pod1" if level is Level.POD else "c1"
    assert asked(decided(seen))[name, "weight"] == weight


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
        ("pod1", "weight"): 150,
    }


def test_row_27_on_v2_for_latency_sensitive_pods() -> None:
    c1, c2 = box("c1", {CPU: 500}), box("c2", {CPU: 1000}, {MEMORY: 5 * GIB})
    found = asked(decided(snapshot(pod(c1, c2, qos_level=1)), VOLCANO))
    assert found == {
        ("c1", "weight"): 50,
        ("c2", "weight"): 100,
        ("c2", "memory-max"): 5368709120,
        ("pod1", "weight"): 150,
    }


@pytest.mark.parametrize(
    ("level", "concerned"), [(-1, True), (0, True), (1, True), (2, False), (Gap("GOLD"), True)]
)
def test_latency_critical_pods_are_the_kubelets(level: int | Gap, concerned: bool) -> None:
    seen = snapshot(pod(box("c1", {CPU: 500}), qos_level=level))
    assert bool(asked(decided(seen))) is concerned


def test_latency_critical_pods_are_told_so() -> None:
    said = "batch resources of pods of level LC and HLS are left alone"
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
    version: CgroupVersion, settings: BatchResourcesSettings, native: int, weights: dict[str, int]
) -> None:
    """Volcano gives the pod the batch request's weight alone, and its service starves."""
    web, side = box("c1", request=native), box("c2", {CPU: 100})
    found = asked(decided(snapshot(pod(web, side, request=native), version=version), settings))
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
        pod(box("c1", request=native), box("c2", {CPU: batch}), request=native),
        version=version,
        pod_formula=formula,
    )
    found = asked(decided(seen, BatchResourcesSettings(True, weight_formula=rule)))
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
    ],
)
@pytest.mark.parametrize("version", [V1, V2])
def test_each_amount_asks_for_its_own_knob(
    version: CgroupVersion, requests: Any, limits: Any, knobs: set[str]
) -> None:
    """Zero asks for nothing, on v1 as on v2, where Volcano writes "max"."""
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
    assert asked(act)["pod2", "weight"] == 20


def test_other_names_of_the_resources() -> None:
    names = BatchResourcesSettings(True, "koordinator.sh/batch-cpu", "koordinator.sh/batch-memory")
    theirs = box("c1", {names.cpu_resource: 1000}, {names.memory_resource: GIB, CPU: 7})
    assert asked(decided(snapshot(pod(theirs)), names)) == {
        ("pod1", "weight"): 39,
        ("pod1", "memory-max"): GIB,
        ("c1", "weight"): 39,
        ("c1", "memory-max"): GIB,
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
    settings = BatchResourcesSettings(True, weight_formula=rule)
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
