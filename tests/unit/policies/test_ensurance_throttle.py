"""Steps of one pod's quotas. Numbers in the ids are rows of section 10 of the facts about Crane;
periods there are 100000, so that 400000 is 4000 m."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.cgroup import CgroupRef
from slackwater.model.decision import Because
from slackwater.model.gap import Gap
from slackwater.model.knob import KnobKey
from slackwater.model.snapshot import Held, NodeSnapshot, Rate
from slackwater.model.units import UNLIMITED, Bandwidth, Micros, MilliCpu
from slackwater.model.workload import Workload, WorkloadContainer
from slackwater.policies.ensurance.throttle import (
    ContainerClaim,
    ThrottleRatios,
    claim_intents,
    demotion_intents,
    lower_claims,
    raise_claims,
)
from tests.unit.policies.ensurance import V1, V2, batch, box, seen

WHY = Because("NodeQOS/q/r: cpu_total_usage", "6500", "6000")


def claim(milli: int, first: int) -> ContainerClaim:
    return ContainerClaim(MilliCpu(milli), MilliCpu(first))


def lowered(
    container: WorkloadContainer,
    before: ContainerClaim | None,
    step: int,
    least: int,
    used: int | None,
) -> tuple[int | None, int]:
    """The container's new claim, and what is released."""
    pod = batch(1, container)
    snapshot = seen(1, pod, usages={} if used is None else {1: used})
    done = lower_claims(
        snapshot, pod, {"c1": before} if before else {}, ThrottleRatios(step, least)
    )
    return done.claims["c1"].milli if done.claims else None, done.amount


@pytest.mark.parametrize(
    ("limit", "request_", "before", "step", "least", "used", "wanted", "released"),
    [
        pytest.param(4000, 0, None, 10, 0, 3900, 3600, 300, id="25"),
        pytest.param(4000, 0, claim(410, 4000), 10, 10, 500, 400, 100, id="27"),
        pytest.param(2000, 0, None, 50, 30, 1000, 1000, 0, id="29"),
        pytest.param(0, 0, None, 10, 10, 2000, 1800, 200, id="unlimited: from its usage"),
        pytest.param(0, 0, claim(210, 2000), 10, 10, 205, 200, 5, id="a part of the first usage"),
        pytest.param(4000, 3800, None, 10, 10, 3900, 3800, 100, id="never below its request"),
        pytest.param(0, 500, None, 10, 10, 100, 500, 0, id="a request above its usage"),
        pytest.param(0, 0, None, 100, 0, 900, 10, 890, id="the kernel's smallest quota"),
        pytest.param(0, 0, None, 10, 10, 0, 10, 0, id="an idle container"),
        pytest.param(2000, 0, None, 10, 10, None, 1800, 0, id="an unknown usage releases nothing"),
        pytest.param(4000, 0, claim(400, 4000), 10, 10, 410, 400, 0, id="at its least"),
        pytest.param(4000, 0, claim(300, 4000), 10, 10, 290, 300, 0, id="a minimum that rose"),
    ],
)
def test_a_step_down(
    limit: int,
    request_: int,
    before: ContainerClaim | None,
    step: int,
    least: int,
    used: int | None,
    wanted: int,
    released: int,
) -> None:
    container = box(1, "c1", request=request_, limit=limit)
    assert lowered(container, before, step, least, used) == (wanted, released)


def test_an_unlimited_container_of_unknown_usage_is_not_throttled() -> None:
    assert lowered(box(1, "c1"), None, 10, 10, None) == (None, 0)


def test_a_step_of_nothing_claims_nothing() -> None:
    assert lowered(box(1, "c1", limit=1000), None, 0, 10, 900) == (None, 0)


def test_containers_add_up_and_each_kind_counts() -> None:
    pod = batch(1, box(1, "c1", limit=1000), box(1, "c2", limit=2000), box(1, "c3"))
    usages = {101: 950, 102: 1990, 103: 100}
    snapshot = msgspec.structs.replace(
        seen(1, pod), rates={ref: Rate(MilliCpu(used), 0) for ref, used in usages.items()}
    )
    done = lower_claims(snapshot, pod, {}, ThrottleRatios(10, 0))
    assert {name: each.milli for name, each in done.claims.items()} == {
        "c1": 900,
        "c2": 1800,
        "c3": 90,
    }
    assert done.amount == 50 + 190 + 10


def test_a_container_without_a_group_is_passed_over() -> None:
    gone = msgspec.structs.replace(box(1, "c1", limit=1000), ref=Gap("it has ended"))
    pod = batch(1, gone)
    assert lower_claims(seen(1, pod), pod, {}, ThrottleRatios(10, 0)).claims == {}


def test_the_first_step_goes_down_from_what_is_in_force_and_back_up_to_the_baseline() -> None:
    """Another policy's cap, or what the run before a restart left: nothing jumps up."""
    pod = batch(1, box(1, "c1", limit=500))
    ref = pod.containers[0].ref
    assert isinstance(ref, CgroupRef)
    baseline = Bandwidth(Micros(200_000))
    held = (Held(ref, "quota", baseline, Bandwidth(Micros(50_000)), Micros(0)),)
    snapshot = msgspec.structs.replace(seen(1, pod, usages={1: 500}), held=held)
    assert lower_claims(snapshot, pod, {}, ThrottleRatios(10, 0)).claims == {"c1": claim(450, 2000)}
    free = (Held(ref, "quota", Bandwidth(UNLIMITED), Bandwidth(Micros(50_000)), Micros(0)),)
    snapshot = msgspec.structs.replace(snapshot, held=free)
    assert lower_claims(snapshot, pod, {}, ThrottleRatios(10, 0)).claims == {"c1": claim(450, 500)}


def raised(before: dict[str, ContainerClaim], step: int, used: int) -> tuple[dict[str, int], int]:
    pod = batch(1)
    done = raise_claims(seen(1, pod, usages={1: used}), pod, before, ThrottleRatios(step, 0))
    return {name: each.milli for name, each in done.claims.items()}, done.amount


@pytest.mark.parametrize(
    ("before", "step", "used", "wanted", "taken"),
    [
        pytest.param(
            {"c1": claim(1900, 2000)}, 10, 1900, {}, 100, id="31: the limit, and no claim"
        ),
        pytest.param({}, 10, 500, {}, 0, id="33: unlimited is untouched"),
        pytest.param({"c1": claim(1000, 2000)}, 10, 1000, {"c1": 1100}, 100, id="a step"),
        pytest.param({"c1": claim(1000, 2000)}, 10, 500, {"c1": 1100}, 0, id="it does not use it"),
        pytest.param({"c1": claim(10, 2000)}, 5, 10, {"c1": 11}, 1, id="at least 1 m"),
        pytest.param({"c1": claim(10, 2000)}, 0, 10, {}, 1990, id="a step of 0 is no step"),
        pytest.param({"gone": claim(10, 2000)}, 10, 10, {"gone": 11}, 0, id="it has ended"),
    ],
)
def test_a_step_up(
    before: dict[str, ContainerClaim], step: int, used: int, wanted: dict[str, int], taken: int
) -> None:
    assert raised(before, step, used) == (wanted, taken)


@given(
    st.integers(0, 64_000),
    st.integers(0, 64_000),
    st.integers(0, 64_000),
    st.integers(1, 100),
    st.integers(0, 100),
    st.integers(1, 60),
)
def test_down_and_up_again_ends_without_a_claim(
    limit: int, request_: int, used: int, step: int, least: int, ticks: int
) -> None:
    pod = batch(1, box(1, "c1", request=min(request_, limit or request_), limit=limit))
    snapshot, ratios = seen(1, pod, usages={1: used}), ThrottleRatios(step, least)
    claims: dict[str, ContainerClaim] = {}
    for _ in range(ticks):
        before = claims.get("c1")
        claims = lower_claims(snapshot, pod, claims, ratios).claims
        if before is not None:
            assert claims["c1"].milli <= before.milli
        assert claims["c1"].milli >= max(10, pod.containers[0].request)
        assert claims["c1"].milli * 100 >= claims["c1"].first * least
    for _ in range(70_000):
        if not claims:
            break
        before = claims["c1"]
        claims = raise_claims(snapshot, pod, claims, ratios).claims
        assert not claims or before.milli < claims["c1"].milli < before.first
    assert not claims


def demoted(snapshot: NodeSnapshot, pod: Workload) -> list[tuple[str, object]]:
    return [(i.knob, i.value) for i in demotion_intents(snapshot, pod, WHY, "w")]


def test_a_demoted_pod_is_idle_or_has_the_lowest_weight() -> None:
    pod, no_file = batch(1), Gap("cpu.idle does not exist here")
    assert demoted(seen(1, pod), pod) == [("idle", True)]
    assert demoted(seen(1, pod, idle=no_file, version=V1), pod) == [("weight", 2)]
    assert demoted(seen(1, pod, idle=no_file, version=V2), pod) == [("weight", 1)]
    off = frozenset({KnobKey(100, "idle")})
    assert demoted(seen(1, pod, off=off), pod) == [("weight", 1)]
    off |= {KnobKey(100, "weight")}
    assert demoted(seen(1, pod, off=off), pod) == []
    assert demoted(seen(1), batch(1, ref=Gap("no cgroup"))) == []


def test_claims_are_caps_that_name_the_rule() -> None:
    pod = batch(1)
    [intent] = claim_intents(pod, {"c1": claim(500, 900), "gone": claim(1, 2)}, WHY, "w")
    assert (intent.target.name(), intent.verb.value, intent.value) == ("c1", "cap", 500)
    assert intent.because is WHY


def test_a_container_whose_quota_is_not_written_yet_counts_with_its_limit() -> None:
    """The runtime makes the group first; seen in between, its usage is next to nothing."""
    pod = batch(1, box(1, "c1", request=50, limit=1000))
    ref = pod.containers[0].ref
    assert isinstance(ref, CgroupRef)
    snapshot = seen(1, pod, usages={1: 3})
    unlimited = msgspec.structs.replace(snapshot.readings[ref.id], quota=Bandwidth(UNLIMITED))
    snapshot = msgspec.structs.replace(snapshot, readings={ref.id: unlimited})
    step = lower_claims(snapshot, pod, {}, ThrottleRatios(10, 10))
    assert step.claims == {"c1": claim(900, 1000)}
