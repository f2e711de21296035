"""Memory QoS: ratios, the kubelet's formula, the vendor's level, and what only v2 has."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.cgroup import CgroupVersion, Level
from slackwater.model.gap import Gap
from slackwater.model.needs import ReadingField
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import UNLIMITED, Bytes, Unlimited
from slackwater.model.workload import MemoryRatios
from slackwater.policies.memory_qos import POLICY, MemoryFormula, MemoryQosSettings
from slackwater.policies.policy import STATELESS
from tests.unit.policies.pods import (
    MEMORY,
    V1,
    V2,
    asked,
    box,
    inner_ref,
    pod,
    pod_ref,
    reading,
    remarks,
    snapshot,
)

RATIOS = MemoryQosSettings(enabled=True)
KUBELET = MemoryQosSettings(enabled=True, formula=MemoryFormula.KUBELET)
NEITHER = MemoryQosSettings(enabled=True, formula=MemoryFormula.NONE)
OF_V2 = {"memory-high", "memory-low", "memory-min"}
PROTECTING = {"memory-low", "memory-min"}
ABOVE = ("pod", "burstable", "besteffort", "kubepods")
V2_ONLY = "only cgroup v2 has memory.high, memory.low and memory.min"


def inside(decision: Any) -> dict[tuple[str, str], Any]:
    """What containers get; what the groups above them get is tested apart."""
    return {
        (name, knob): each
        for (name, knob), each in asked(decision).items()
        if not (name.startswith(ABOVE) and knob in PROTECTING)
    }


def decided(seen: NodeSnapshot, settings: MemoryQosSettings = RATIOS) -> Any:
    return POLICY.decide(seen, STATELESS, settings)


def knobs(high: Any, low: int, least: int, name: str = "c1") -> dict[tuple[str, str], Any]:
    return {(name, "memory-high"): high, (name, "memory-low"): low, (name, "memory-min"): least}


def plain(request: int, limit: int | Unlimited) -> Any:
    bound = limit if isinstance(limit, Unlimited) else Bytes(limit)
    return box("c1", memory_request=Bytes(request), memory_limit=bound)


@pytest.mark.parametrize(
    ("ratios", "request_", "limit", "found"),
    [
        (MemoryRatios(80, 50, 10), 1000, 2000, knobs(1600, 500, 100)),
        (MemoryRatios(33, 33, 33), 100, 101, knobs(33, 33, 33)),  # whole bytes, rounded down
        (MemoryRatios(100, 0, 0), 1000, 2000, knobs(UNLIMITED, 0, 0)),  # row 41: "{}" resets
        (MemoryRatios(0, 100, 100), 1000, 2000, knobs(0, 1000, 1000)),
        (MemoryRatios(80, 50, 10), 1000, UNLIMITED, knobs(UNLIMITED, 500, 100)),
        (MemoryRatios(80, 50, 10), 0, 2000, knobs(1600, 0, 0)),
        (None, 1000, 2000, {}),
    ],
)
def test_ratios(
    ratios: MemoryRatios | None, request_: int, limit: int | Unlimited, found: dict[Any, Any]
) -> None:
    assert inside(decided(snapshot(pod(plain(request_, limit), memory_ratios=ratios)))) == found


@pytest.mark.parametrize(
    ("level", "requests", "limits", "found"),
    [
        (-1, {MEMORY: 100}, {MEMORY: 200}, knobs(100, 50, 0)),
        (1, {MEMORY: 100}, {MEMORY: 200}, knobs(100, 50, 0)),
        (Gap("GOLD"), {MEMORY: 100}, {MEMORY: 200}, knobs(100, 50, 0)),
        (2, {MEMORY: 100}, {MEMORY: 200}, knobs(1000, 500, 0)),  # its own memory counts
        (0, {MEMORY: 100}, {}, knobs(UNLIMITED, 50, 0)),
        (0, {}, {MEMORY: 200}, knobs(100, 0, 0)),
        (0, {MEMORY: 100}, {MEMORY: 0}, knobs(UNLIMITED, 50, 0)),
        (0, {MEMORY: Gap("bad")}, {MEMORY: Gap("bad")}, knobs(1000, 500, 0)),
        (0, {}, {}, knobs(1000, 500, 0)),
    ],
)
def test_batch_memory_counts_where_a_pod_has_it(
    level: int | Gap, requests: Any, limits: Any, found: dict[Any, Any]
) -> None:
    each = box("c1", requests, limits, memory_request=Bytes(1000), memory_limit=Bytes(2000))
    seen = snapshot(pod(each, memory_ratios=MemoryRatios(50, 50, 0), qos_level=level))
    assert inside(decided(seen)) == found


@pytest.mark.parametrize(
    ("request_", "limit", "found"),
    [
        (1000, 2000, {("c1", "memory-min"): 1000, ("c1", "memory-high"): 1900}),
        (0, 2000, {("c1", "memory-high"): 1800}),
        (1000, UNLIMITED, {("c1", "memory-min"): 1000}),
        (1000, 1000, {("c1", "memory-min"): 1000}),
        (0, UNLIMITED, {}),
    ],
)
def test_the_kubelets_formula(request_: int, limit: int | Unlimited, found: dict[Any, Any]) -> None:
    assert inside(decided(snapshot(pod(plain(request_, limit))), KUBELET)) == found


def test_the_kubelets_factor_is_a_setting() -> None:
    half = MemoryQosSettings(True, MemoryFormula.KUBELET, throttling_factor=50)  # type: ignore[arg-type]
    assert inside(decided(snapshot(pod(plain(1000, 2000))), half))["c1", "memory-high"] == 1500


@pytest.mark.parametrize("settings", [RATIOS, KUBELET])
def test_containers_without_a_group_are_left_out(settings: MemoryQosSettings) -> None:
    gone = box("c1", ref=Gap("none"), memory_request=Bytes(1000))
    assert inside(decided(snapshot(pod(gone, memory_ratios=MemoryRatios(50))), settings)) == {}


@pytest.mark.parametrize(("level", "value"), [(-1, -1), (-2, -1), (0, 0), (1, 0), (2, 0)])
@pytest.mark.parametrize("version", [V1, V2])
def test_row_37_the_vendors_level(version: CgroupVersion, level: int, value: int) -> None:
    refs = (pod_ref(), inner_ref(1, "c1"))
    readings = {ref.id: reading(ref, others={"memory-qos-level": 0}) for ref in refs}
    gone = box("c2", ref=Gap("none"))
    seen = snapshot(pod(box("c1"), gone, qos_level=level), version=version, readings=readings)
    found = {("pod1", "memory-qos-level"): value, ("c1", "memory-qos-level"): value}
    assert inside(decided(seen)) == asked(decided(seen, NEITHER)) == found
    assert inside(decided(seen, MemoryQosSettings(True, levels=False))) == {}


@pytest.mark.parametrize("level", [Gap("GOLD"), -1])
def test_no_level_without_the_file_or_with_an_unknown_word(level: int | Gap) -> None:
    readings = {pod_ref().id: reading(pod_ref(), others={"memory-qos-level": 0})}
    known = readings if isinstance(level, Gap) else {}
    assert inside(decided(snapshot(pod(qos_level=level), readings=known))) == {}


@pytest.mark.parametrize(
    ("version", "settings", "ratios", "said"),
    [
        (V1, RATIOS, MemoryRatios(80), [("default/pod-1", V2_ONLY)]),
        (V1, RATIOS, None, []),
        (V1, RATIOS, Gap("bad JSON"), [("default/pod-1", "bad JSON")]),
        (V1, KUBELET, None, [("all pods", V2_ONLY)]),
        (V1, NEITHER, MemoryRatios(80), []),
        (V2, RATIOS, Gap("bad JSON"), [("default/pod-1", "bad JSON")]),
        (V2, KUBELET, Gap("bad JSON"), []),
        (V2, NEITHER, MemoryRatios(80), []),
        (V2, RATIOS, MemoryRatios(), []),
        (
            V2,
            RATIOS,
            MemoryRatios(80),
            [("default/pod-1", "without a memory limit there is no memory.high: c1")],
        ),
    ],
)
def test_sentences(
    version: CgroupVersion, settings: MemoryQosSettings, ratios: Any, said: list[Any]
) -> None:
    seen = snapshot(pod(plain(1000, UNLIMITED), memory_ratios=ratios), version=version)
    act = decided(seen, settings)
    assert remarks(act) == said
    if version is V1:
        assert inside(act) == {}


def test_a_bad_annotation_stops_no_other_pod() -> None:
    good = pod(box("c1", number=2), number=2, memory_ratios=MemoryRatios())
    act = decided(snapshot(pod(memory_ratios=Gap("bad JSON")), good))
    assert inside(act) == knobs(UNLIMITED, 0, 0)
    assert len(remarks(act)) == 1


@pytest.mark.parametrize(
    ("settings", "of_pods", "of_containers"),
    [
        (RATIOS, {"memory-qos-level", *PROTECTING}, {"memory-qos-level", *OF_V2}),
        (NEITHER, {"memory-qos-level"}, {"memory-qos-level"}),
        (MemoryQosSettings(True, levels=False), PROTECTING, OF_V2),
    ],
)
def test_what_it_has_to_see(
    settings: MemoryQosSettings, of_pods: set[str], of_containers: set[str]
) -> None:
    needs = POLICY.needs(settings, frozenset())
    assert needs.at(Level.POD) == {ReadingField(name) for name in of_pods}
    assert needs.at(Level.CONTAINER) == {ReadingField(name) for name in of_containers}


SIZES = st.integers(0, 2**62)
PERCENTS = st.integers(0, 100)


@given(SIZES, SIZES, PERCENTS, PERCENTS, PERCENTS)
def test_ratios_stay_within_request_and_limit(
    request_: int, more: int, high: int, low: int, least: int
) -> None:
    limit = request_ + more
    ratios = MemoryRatios(high, low, least)
    found = asked(decided(snapshot(pod(plain(request_, limit), memory_ratios=ratios))))
    throttled = found["c1", "memory-high"]
    assert throttled == UNLIMITED if high == 100 else throttled <= limit
    assert 0 <= found["c1", "memory-low"] <= request_
    assert 0 <= found["c1", "memory-min"] <= request_


@given(SIZES, SIZES, st.integers(1, 100))
def test_the_kubelet_throttles_between_request_and_limit(
    request_: int, more: int, factor: int
) -> None:
    settings = MemoryQosSettings(True, MemoryFormula.KUBELET, throttling_factor=factor)  # type: ignore[arg-type]
    found = asked(decided(snapshot(pod(plain(request_, request_ + more))), settings))
    high = found.get(("c1", "memory-high"))
    assert (high is None) == (more == 0)
    assert high is None or request_ <= high <= request_ + more


def test_what_is_protected_below_is_protected_above() -> None:
    """mm/page_counter.c: a child's protection counts only as far as its parent has some."""
    two = [box(name, memory_request=Bytes(1000)) for name in ("c1", "c2")]
    one = pod(*two, number=1, memory_ratios=MemoryRatios(100, 50, 10))
    third = box("c3", number=2, memory_request=Bytes(400))
    other = pod(third, number=2, memory_ratios=MemoryRatios(100, 50, 0))
    found = asked(decided(snapshot(one, other)))
    assert {key: each for key, each in found.items() if key[0].startswith(ABOVE)} == {
        ("pod1", "memory-low"): 1000,
        ("pod1", "memory-min"): 200,
        ("pod2", "memory-low"): 200,
        ("besteffort", "memory-low"): 1200,
        ("besteffort", "memory-min"): 200,
        ("kubepods", "memory-low"): 1200,
        ("kubepods", "memory-min"): 200,
    }


def test_nothing_protected_asks_for_nothing_above() -> None:
    found = asked(decided(snapshot(pod(plain(0, 2000), memory_ratios=MemoryRatios(80, 50, 10)))))
    assert not [key for key in found if key[0].startswith(ABOVE)]
