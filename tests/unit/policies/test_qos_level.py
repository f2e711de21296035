"""The QoS level: the vendor's file, or what stands in for it, or a sentence."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.cgroup import CgroupVersion, Level
from slackwater.model.gap import Gap
from slackwater.model.knob import KnobKey
from slackwater.model.needs import ReadingField
from slackwater.model.snapshot import NodeSnapshot
from slackwater.policies.policy import STATELESS
from slackwater.policies.qos_level import POLICY, QosLevelSettings, StandIn
from tests.unit.policies.pods import (
    NO_FILE,
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

ON = QosLevelSettings(enabled=True)
NOTHING_WORKS = "neither cpu.qos_level nor cpu.idle nor its weight can be set here"
VENDOR = {"others": {"cpu-qos-level": 0}}


def decided(seen: NodeSnapshot, stand_in: StandIn = StandIn.IDLE) -> Any:
    return POLICY.decide(seen, STATELESS, QosLevelSettings(True, stand_in))


def node(level: int | Gap, version: CgroupVersion = V2, **values: Any) -> NodeSnapshot:
    """A pod of this level, whose groups read so."""
    refs = (pod_ref(), inner_ref(1, "c1"))
    readings = {ref.id: reading(ref, **values) for ref in refs}
    return snapshot(pod(box("c1"), qos_level=level), version=version, readings=readings)


@pytest.mark.parametrize("version", [V1, V2])
@pytest.mark.parametrize("level", [2, 1, -1])
def test_a_vendors_kernel_gets_the_level_on_the_pod_and_in_it(
    version: CgroupVersion, level: int
) -> None:
    found = asked(decided(node(level, version, **VENDOR)))
    assert found == {("pod1", "cpu-qos-level"): level, ("c1", "cpu-qos-level"): level}


def test_a_container_without_the_file_or_without_a_group_is_left_out() -> None:
    seen = snapshot(
        pod(box("c1"), box("c2", ref=Gap("none")), qos_level=1),
        readings={pod_ref().id: reading(pod_ref(), **VENDOR)},
    )
    assert asked(decided(seen)) == {("pod1", "cpu-qos-level"): 1}


@pytest.mark.parametrize(
    ("level", "stand_in", "version", "found"),
    [
        (-1, StandIn.IDLE, V1, {("pod1", "idle"): True}),
        (-1, StandIn.IDLE, V2, {("pod1", "idle"): True}),
        (-1, StandIn.WEIGHT, V1, {("pod1", "weight"): 2}),
        (-1, StandIn.WEIGHT, V2, {("pod1", "weight"): 1}),
        (-1, StandIn.NONE, V2, {}),
        (0, StandIn.IDLE, V2, {}),
        (1, StandIn.IDLE, V2, {}),
        (2, StandIn.WEIGHT, V1, {}),
    ],
)
def test_on_other_kernels_something_stands_in_for_best_effort(
    level: int, stand_in: StandIn, version: CgroupVersion, found: dict[Any, Any]
) -> None:
    act = decided(node(level, version), stand_in)
    assert asked(act) == found
    assert remarks(act) == []


@pytest.mark.parametrize(
    ("values", "off", "found"),
    [
        ({"idle": NO_FILE}, frozenset(), {("pod1", "weight"): 1}),  # before Linux 5.15
        ({}, frozenset({KnobKey(10, "idle")}), {("pod1", "weight"): 1}),  # a read-only file
        ({"idle": NO_FILE, "weight": NO_FILE}, frozenset(), {}),
        ({}, frozenset({KnobKey(10, "idle"), KnobKey(10, "weight")}), {}),
        ({**VENDOR}, frozenset({KnobKey(10, "cpu-qos-level")}), {("pod1", "idle"): True}),
    ],
)
def test_what_cannot_be_written_gives_way_to_the_next_and_then_to_a_sentence(
    values: dict[str, Any], off: frozenset[KnobKey], found: dict[Any, Any]
) -> None:
    refs = (pod_ref(), inner_ref(1, "c1"))
    seen = snapshot(
        pod(box("c1"), qos_level=-1),
        readings={ref.id: reading(ref, **values) for ref in refs},
        off=off,
    )
    act = decided(seen)
    assert asked(act) == found
    assert remarks(act) == ([] if found else [("default/pod-1", NOTHING_WORKS)])


@pytest.mark.parametrize("level", [0, 1, 2])
def test_only_best_effort_pods_miss_something(level: int) -> None:
    assert remarks(decided(node(level, idle=NO_FILE, weight=NO_FILE))) == []


def test_an_unknown_class_is_one_sentence_and_the_others_go_on() -> None:
    bad = Gap("the annotation volcano.sh/qos-level is 'GOLD', but must be one of LC, HLS, LS, BE")
    seen = snapshot(pod(qos_level=bad), pod(number=2, qos_level=-1))
    act = decided(seen)
    assert remarks(act) == [("default/pod-1", bad.reason)]
    assert asked(act) == {("pod2", "idle"): True}


def test_a_pod_without_a_group_and_one_that_was_not_read() -> None:
    assert asked(decided(snapshot(pod(qos_level=-1, ref=Gap("none"))))) == {}
    blind = msgspec.structs.replace(snapshot(pod(qos_level=-1)), readings={})
    assert remarks(decided(blind)) == [("default/pod-1", NOTHING_WORKS)]


def test_what_it_has_to_see() -> None:
    needs = POLICY.needs(ON, frozenset())
    wanted = {ReadingField.CPU_QOS_LEVEL, ReadingField.IDLE, ReadingField.WEIGHT}
    assert needs.at(Level.POD) == needs.at(Level.CONTAINER) == wanted


@given(
    st.lists(st.sampled_from((2, 1, 0, -1)), max_size=6),
    st.sampled_from(StandIn),
    st.booleans(),
    st.sampled_from(CgroupVersion),
)
def test_pods_that_promised_something_never_lose(
    levels: list[int], stand_in: StandIn, vendor: bool, version: CgroupVersion
) -> None:
    """Only level BE is ever made idle, or light, or below zero."""
    pods = [pod(number=number, qos_level=level) for number, level in enumerate(levels, 1)]
    values = VENDOR if vendor else {}
    readings = {pod_ref(n).id: reading(pod_ref(n), **values) for n in range(1, len(pods) + 1)}
    found = asked(decided(snapshot(*pods, version=version, readings=readings), stand_in))
    for (name, knob), value in found.items():
        level = levels[int(name[3:]) - 1]
        assert value == level if knob == "cpu-qos-level" else level == -1
