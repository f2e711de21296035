"""Quota bursts: by what a pod asks for, never by more than the quota, and why not."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.cgroup import CgroupReading, CgroupVersion, Level
from slackwater.model.decision import Because
from slackwater.model.gap import VANISHED, Gap
from slackwater.model.needs import ReadingField
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import UNLIMITED, Micros, MilliCpu, Percent, Unlimited
from slackwater.model.workload import BurstRequest
from slackwater.policies.policy import STATELESS
from slackwater.policies.quota_burst import POLICY, QuotaBurstSettings
from slackwater.resolution.resolver import resolve
from tests.unit.policies.pods import (
    CPU,
    V1,
    V2,
    asked,
    box,
    inner_ref,
    pod,
    pod_ref,
    quota,
    reading,
    remarks,
    snapshot,
)

ON = QuotaBurstSettings(enabled=True)
FREELY = BurstRequest()
NO_LIMIT = "without a CPU limit there is nothing to burst above: {}"
NO_BURST = Gap("cpu.max.burst does not exist here")


def decided(seen: NodeSnapshot, settings: QuotaBurstSettings = ON) -> Any:
    return POLICY.decide(seen, STATELESS, settings)


def node(
    wish: BurstRequest | Gap | None,
    *quotas: int | Unlimited,
    whole: int | Unlimited = UNLIMITED,
    version: CgroupVersion = V2,
) -> NodeSnapshot:
    """A pod of this quota, and of containers with these; each is the kubelet's."""
    boxes = [box(f"c{number}", limit=MilliCpu(1)) for number in range(1, len(quotas) + 1)]
    readings: dict[int, CgroupReading] = {10: reading(pod_ref(), quota=quota(whole))}
    for number, limit in enumerate(quotas, 1):
        ref = inner_ref(1, f"c{number}")
        readings[ref.id] = reading(ref, quota=quota(limit))
    return snapshot(pod(*boxes, burst=wish), version=version, readings=readings)


def granted(seen: NodeSnapshot) -> dict[str, int]:
    grants = resolve(seen, decided(seen).intents)
    return {grant.target.name(): int(grant.value) for grant in grants}  # type: ignore[arg-type]


@pytest.mark.parametrize("version", [V1, V2])
@pytest.mark.parametrize(
    ("wish", "quotas", "whole", "found"),
    [
        # Row 31.
        (
            BurstRequest(Micros(100_000)),
            (100_000, 200_000),
            300_000,
            {"c1": 100_000, "c2": 100_000, "pod1": 200_000},
        ),
        # Row 33: "false" is no wish.
        (None, (100_000,), 300_000, {}),
        # Row 35: absent, "0" and "x" are as much as the quota.
        (FREELY, (400_000,), 400_000, {"c1": 400_000, "pod1": 400_000}),
        (BurstRequest(None, "bad"), (400_000,), 400_000, {"c1": 400_000, "pod1": 400_000}),
        (BurstRequest(Micros(500_000)), (400_000,), 400_000, {"c1": 400_000, "pod1": 400_000}),
        # Without a quota a burst means nothing.
        (FREELY, (UNLIMITED, 50_000), UNLIMITED, {"c2": 50_000}),
        (FREELY, (UNLIMITED,), 70_000, {}),
        # The kernel refuses a burst above the quota, the pod's too.
        (FREELY, (50_000, 60_000), 70_000, {"c1": 50_000, "c2": 60_000, "pod1": 70_000}),
    ],
)
def test_rows(
    version: CgroupVersion,
    wish: BurstRequest | None,
    quotas: tuple[int, ...],
    whole: int,
    found: dict[str, int],
) -> None:
    assert granted(node(wish, *quotas, whole=whole, version=version)) == found


def test_a_burst_that_stands_is_kept_where_the_quota_is_not_set() -> None:
    """The resolver drops it unless a quota above stands in (test_resolver)."""
    seen = node(FREELY, UNLIMITED, version=V1)
    ref = inner_ref(1, "c1")
    stands = msgspec.structs.replace(seen.readings[ref.id], burst=Micros(7000))
    seen = msgspec.structs.replace(seen, readings={**seen.readings, ref.id: stands})
    assert asked(decided(seen)) == {("c1", "burst"): 7000, ("pod1", "burst"): 7000}
    assert granted(seen) == {}


@pytest.mark.parametrize(
    ("time", "most", "because"),
    [
        (None, 100, ("volcano.sh/enable-quota-burst", "true", "its quota is 100000 us")),
        (None, 40, ("volcano.sh/enable-quota-burst", "true", "40 % of its quota is 40000 us")),
        (7000, 100, ("volcano.sh/quota-burst-time", "7000 us", "within its quota, 100000 us")),
        (
            500_000,
            100,
            ("volcano.sh/quota-burst-time", "500000 us", "clipped to its quota, 100000 us"),
        ),
        (
            500_000,
            40,
            ("volcano.sh/quota-burst-time", "500000 us", "clipped to 40 % of its quota, 40000 us"),
        ),
    ],
)
def test_the_reason_names_the_annotation_that_decides(
    time: int | None, most: int, because: tuple[str, str, str]
) -> None:
    settings = QuotaBurstSettings(True, Percent(most))
    wish = BurstRequest(None if time is None else Micros(time))
    act = decided(node(wish, 100_000, whole=100_000), settings)
    inner, whole = act.intents
    assert inner.because == Because(*because)
    assert whole.because == Because(
        "its containers' bursts together", f"{inner.value} us", "of the pod"
    )


@pytest.mark.parametrize(("most", "found"), [(100, 100_000), (40, 40_000), (1, 1000)])
@pytest.mark.parametrize("time", [None, 100_000])
def test_the_operators_bound(most: int, found: int, time: int | None) -> None:
    settings = QuotaBurstSettings(True, Percent(most))
    wish = BurstRequest(None if time is None else Micros(time))
    assert asked(decided(node(wish, 100_000), settings))["c1", "burst"] == found


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        (FREELY, []),
        (None, []),
        (Gap("'perhaps' is no bool"), ["'perhaps' is no bool"]),
        (BurstRequest(None, "'abc' is no time"), ["'abc' is no time"]),
    ],
)
def test_bad_words_are_one_sentence_and_the_others_go_on(wish: Any, said: list[str]) -> None:
    ref = inner_ref(2, "c1")
    good = pod(box("c1", number=2, limit=MilliCpu(1)), number=2, burst=FREELY)
    bad = pod(box("c1", limit=MilliCpu(1)), burst=wish)
    seen = snapshot(bad, good, readings={ref.id: reading(ref, quota=quota(50_000))})
    act = decided(seen)
    assert remarks(act) == [("default/pod-1", each) for each in said]
    assert asked(act)["pod2", "burst"] == 50_000


def test_containers_without_a_limit_are_named() -> None:
    boxes = (box("c1"), box("c2", limit=MilliCpu(500)), box("c3"))
    ref = inner_ref(1, "c2")
    seen = snapshot(
        pod(*boxes, burst=BurstRequest(None, "'abc' is no time")),
        readings={ref.id: reading(ref, quota=quota(50_000))},
    )
    act = decided(seen)
    said = f"'abc' is no time; {NO_LIMIT.format('c1, c3')}"
    assert remarks(act) == [("default/pod-1", said)]
    assert asked(act)["c2", "burst"] == 50_000


@pytest.mark.parametrize(
    "each",
    [
        box("c1", limits={CPU: 500}),  # another policy writes it in this very tick
        box("c1", limit=MilliCpu(500)),
        box("c1", ref=Gap("its cgroup is not there")),
    ],
)
def test_a_limit_that_is_yet_to_be_written_is_not_missed(each: Any) -> None:
    assert remarks(decided(snapshot(pod(each, burst=FREELY)))) == []


@pytest.mark.parametrize(
    ("burst", "said"), [(NO_BURST, [("default/pod-1", NO_BURST.reason)]), (VANISHED, [])]
)
def test_a_kernel_without_bursts_is_told_once_for_a_pod(burst: Gap, said: list[Any]) -> None:
    boxes = [box(name, limit=MilliCpu(500)) for name in ("c1", "c2")]
    refs = [inner_ref(1, name) for name in ("c1", "c2")]
    readings = {ref.id: reading(ref, quota=quota(50_000), burst=burst) for ref in refs}
    assert remarks(decided(snapshot(pod(*boxes, burst=FREELY), readings=readings))) == said


def test_what_was_not_read_asks_for_nothing() -> None:
    refs = (pod_ref(), inner_ref(1, "c1"))
    readings = {ref.id: reading(ref, quota=Gap("gone"), burst=VANISHED) for ref in refs}
    seen = snapshot(pod(box("c1"), burst=FREELY), readings=readings)
    assert asked(decided(seen)) == {}


def test_a_pod_without_a_group() -> None:
    ref = inner_ref(1, "c1")
    seen = snapshot(
        pod(box("c1", limit=MilliCpu(500)), ref=Gap("none"), burst=FREELY),
        readings={ref.id: reading(ref, quota=quota(50_000))},
    )
    assert asked(decided(seen)) == {("c1", "burst"): 50_000}


def test_what_it_has_to_see() -> None:
    needs = POLICY.needs(ON, frozenset())
    assert (
        needs.at(Level.POD) == needs.at(Level.CONTAINER) == {ReadingField.QUOTA, ReadingField.BURST}
    )


LIMITS = st.one_of(st.just(UNLIMITED), st.integers(1000, 10**9))
TIMES = st.one_of(st.none(), st.integers(1, 10**9).map(Micros))


@given(st.lists(LIMITS, min_size=1, max_size=6), LIMITS, TIMES)
def test_no_burst_is_above_its_quota(
    quotas: list[int | Unlimited], whole: int | Unlimited, time: Micros | None
) -> None:
    seen = node(BurstRequest(time), *quotas, whole=whole)
    found = granted(seen)
    limits = {f"c{number}": limit for number, limit in enumerate(quotas, 1)} | {"pod1": whole}
    for name, burst in found.items():
        limit = limits[name]
        assert not isinstance(limit, Unlimited)
        assert burst <= limit
    inner = sum(burst for name, burst in found.items() if name != "pod1")
    assert found.get("pod1", 0) <= inner
