"""Laws of the rebalancer, for any fleet: what may never happen, whatever the numbers are."""

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.rebalancer.assessment import Assessment, apply_caps, assess
from slackwater.rebalancer.guards import count_guards
from slackwater.rebalancer.last_rotation import judge_rotation, pause_after, record_rotation
from slackwater.rebalancer.observed import (
    HpaTarget,
    HpaTargetKind,
    NamespaceUsage,
    PodUsage,
    Scaling,
    WorkloadName,
    WorkloadUsage,
)
from slackwater.rebalancer.selection import (
    PodGroup,
    is_above,
    measure_capacity,
    propose,
    split_into_batches,
)
from slackwater.settings.rebalancer import (
    CapSettings,
    MoveSettings,
    RequestSource,
    WorkloadSettings,
)
from tests.unit.rebalancer.workloads import NAME, NOON, box, live, observed, pod_usage, rotated

NO_NUMBER = Gap("no number")
#: Few draws for each pod: most of the time is Hypothesis' own.
USAGES = st.sampled_from([0.0, 0.1, 0.1, 0.3, 0.5, 0.7, 0.9, 1.05, 1.05, 1.3, 1.3, 2.0, 4.0])
ANY_USAGES = st.one_of(USAGES, st.floats(0, 4), st.floats(0, 1e12), st.just(NO_NUMBER))
AMOUNTS = st.one_of(st.floats(0.01, 1e6), st.just(NO_NUMBER))
AIMS = st.one_of(
    st.just(HpaTarget(HpaTargetKind.UTILIZATION, 70, "web")),
    st.builds(HpaTarget, st.just(HpaTargetKind.UTILIZATION), st.floats(1, 200), st.just("web")),
    st.builds(HpaTarget, st.just(HpaTargetKind.AVERAGE_VALUE), st.floats(0.01, 4), st.just("web")),
    st.just(NO_NUMBER),
)
SETTINGS = st.builds(
    MoveSettings,
    top_k=st.integers(1, 8),
    tolerance=st.sampled_from([1.0, 1.5, 3.0]),
    minimum_improvement=st.sampled_from([0.0, 10.0, 33.0, 60.0]),
    minimum_pods=st.integers(1, 6),
    minimum_pod_age=st.sampled_from([None, Micros(0), Micros(10**9)]),
    batch=st.integers(0, 5),
)
ODDITIES: st.SearchStrategy[dict[str, object]] = st.sampled_from(
    [
        {"age": 0.0},
        {"age": 299.0},
        {"ready": False},
        {"ready": False, "running": False},
        {"terminating": True},
        {"held_back": "an annotation"},
        {"usage": NO_NUMBER},
        {"request": NO_NUMBER},
        {"request": 2.5},
        {"limit": 1.5},
    ]
)


@st.composite
def workloads_measured(draw: st.DrawFn, least: int = 0) -> WorkloadUsage:
    """Mostly ordinary, so that most have something to rotate; a few pods are odd."""
    usages = draw(
        st.lists(USAGES, min_size=least, max_size=14)
        | st.lists(ANY_USAGES, min_size=least, max_size=14)
    )
    odd = draw(st.dictionaries(st.integers(0, 13), ODDITIES, max_size=4))
    request, limit = draw(st.just(1.0) | AMOUNTS), draw(st.just(NO_NUMBER) | AMOUNTS)
    pods = []
    for number, usage in enumerate(usages):
        given_: dict[str, object] = {"usage": usage, "request": request, "limit": limit}
        given_ |= {"node": f"n{number % 4}", **odd.get(number, {})}
        pods.append(pod_usage(f"p{number}", **given_))  # type: ignore[arg-type]
    return WorkloadUsage(NAME, tuple(pods), draw(AIMS), NOON)


@given(workloads_measured(), SETTINGS)
def test_nobody_twice_and_nobody_from_outside(
    measured: WorkloadUsage, settings: MoveSettings
) -> None:
    found = propose(measured, settings)
    chosen = [each.name for each in found.rotate]
    assert len(chosen) == len(set(chosen))
    by_name = {each.name: each for each in measured.pods}
    for each in found.rotate:
        pod = by_name[each.name]
        assert (each.uid, each.node, each.usage) == (pod.uid, pod.node, pod.usage)
    assert set(found.groups) == set(by_name)


@given(workloads_measured(), SETTINGS)
def test_only_candidates_are_chosen(measured: WorkloadUsage, settings: MoveSettings) -> None:
    found = propose(measured, settings)
    by_name = {each.name: each for each in measured.pods}
    for each in found.rotate:
        pod = by_name[each.name]
        assert not isinstance(pod.usage, Gap)
        assert math.isfinite(pod.usage)
        assert pod.running
        assert not pod.terminating
        assert not pod.held_back
        assert measured.age(pod) * 1e6 >= settings.youngest
        assert found.groups[each.name] in (PodGroup.TOP, PodGroup.BOTTOM)
        assert pod.ready or found.groups[each.name] is PodGroup.TOP


@given(workloads_measured(), SETTINGS)
def test_a_reason_or_a_rotation(measured: WorkloadUsage, settings: MoveSettings) -> None:
    found = propose(measured, settings)
    assert bool(found.rotate) is (found.reason is None)
    assert found.because
    hot, cold = list(found.hot), list(found.cold)
    assert all(found.groups[each.name] is PodGroup.BOTTOM for each in cold)
    assert len(hot) <= settings.top_k
    assert len(cold) <= settings.top_k
    if found.rotate:
        assert found.numbers is not None
        assert all(is_above(each.cores, found.numbers.threshold) for each in hot)
        assert hot
        assert cold
        # Hottest first, then coldest first.
        assert found.rotate == (*hot, *cold)
        assert hot == sorted(hot, key=lambda each: (-each.cores, each.name))
        assert cold == sorted(cold, key=lambda each: (each.cores, each.name))


@given(st.data(), workloads_measured(), SETTINGS)
def test_the_order_of_the_pods_does_not_matter(
    data: st.DataObject, measured: WorkloadUsage, settings: MoveSettings
) -> None:
    pods = tuple(data.draw(st.permutations(measured.pods)))
    shuffled = msgspec.structs.replace(measured, pods=pods)
    found = propose(measured, settings)
    assert propose(shuffled, settings) == found
    assert split_into_batches(found, shuffled, settings) == split_into_batches(
        found, measured, settings
    )
    assert count_guards(found, shuffled, settings) == count_guards(found, measured, settings)


@given(workloads_measured(), SETTINGS)
def test_skew_is_never_predicted_to_grow(measured: WorkloadUsage, settings: MoveSettings) -> None:
    """Evening the chosen ones out leaves no pod hotter, none colder, and none further apart."""
    found = propose(measured, settings)
    gain = found.numbers.gain if found.numbers else None
    if gain is None:
        return
    assert gain.predicted <= gain.average
    assert 0 <= gain.improvement <= 100
    if not found.rotate:
        return
    assert is_above(gain.improvement, settings.minimum_improvement)
    chosen = {each.name for each in found.rotate}
    before = {each.name: each.usage for each in measured.pods if not isinstance(each.usage, Gap)}
    after = [gain.predicted if name in chosen else u for name, u in before.items()]
    slack = 1e-9 * max(before.values())
    assert max(after) - min(after) <= max(before.values()) - min(before.values()) + slack
    mean = math.fsum(before.values()) / len(before)
    spread = math.fsum((u - mean) ** 2 for u in before.values())
    assert math.fsum((u - mean) ** 2 for u in after) <= spread * (1 + 1e-9)
    # Nobody's load is forgotten.
    assert math.fsum(after) == pytest.approx(math.fsum(before.values()))


@given(workloads_measured(), SETTINGS)
def test_batches_are_all_of_them_once(measured: WorkloadUsage, settings: MoveSettings) -> None:
    found = propose(measured, settings)
    batches = split_into_batches(found, measured, settings)
    flat = [each for batch in batches for each in batch]
    if flat:
        assert sorted(flat, key=lambda each: each.name) == sorted(
            found.rotate, key=lambda each: each.name
        )
    assert all(batches)
    if settings.batch:
        assert all(len(batch) <= settings.batch for batch in batches)
    passed = all(guard.passed for guard in count_guards(found, measured, settings))
    assert batches or not passed or not found.rotate


@given(workloads_measured(), SETTINGS)
def test_each_batch_leaves_enough_to_carry_the_load(
    measured: WorkloadUsage, settings: MoveSettings
) -> None:
    found = propose(measured, settings)
    room = measure_capacity(found, measured, settings)
    assert room.carriers in (0, serving(measured))
    for batch in split_into_batches(found, measured, settings):
        left = room.carriers - len(batch)
        assert left > 0
        assert room.load / left <= room.most * (1 + 1e-8) + 1e-8
        # More than two at once only where nobody gets above the threshold by it.
        if len(batch) > 2:
            assert room.load / left <= room.bound * (1 + 1e-8) + 1e-8


def live_pods(measured: WorkloadUsage) -> tuple[tuple[PodUsage, ...], NamespaceUsage]:
    """The same as the servers would tell it; some use is NaN instead of missing."""
    pods = tuple(
        live(
            each.name,
            box("web", each.request, each.limit),
            node=each.node,
            started=each.started,
            running=each.running,
            ready=each.ready,
            terminating=each.terminating,
            held_back=each.held_back,
        )
        for each in measured.pods
    )
    usages: dict[tuple[str, str], Any] = {
        (each.name, "web"): math.nan if isinstance(each.usage, Gap) else each.usage
        for each in measured.pods
    }
    usages[("stranger", "web")] = 99.0
    return pods, NamespaceUsage(usages, {})


def assessed(
    measured: WorkloadUsage, settings: MoveSettings, name: WorkloadName = NAME
) -> Assessment:
    pods, usage = live_pods(measured)
    hpa_target = (
        measured.hpa_target
        if isinstance(measured.hpa_target, HpaTarget)
        else HpaTarget(HpaTargetKind.UTILIZATION, 70, "web")
    )
    there = observed(*pods, hpa_target=hpa_target, workload=name, scaling=Scaling(1, 1))
    whole = WorkloadSettings(name.namespace, name.name, container="web", moves=settings)
    return assess(there, usage, whole, RequestSource.AUTO, NOON)


def serving(measured: WorkloadUsage) -> int:
    return sum(each.ready and each.running and not each.terminating for each in measured.pods)


@given(workloads_measured(1), SETTINGS)
def test_never_below_the_minimum(measured: WorkloadUsage, settings: MoveSettings) -> None:
    found = assessed(measured, settings)
    assert found.rotates is bool(found.batches)
    gone = {each.name for batch in found.batches for each in batch}
    if gone:
        left = [each for each in measured.pods if each.name not in gone]
        assert serving(msgspec.structs.replace(measured, pods=tuple(left))) >= settings.minimum_pods
        assert gone <= {each.name for each in measured.pods}
        assert "stranger" not in gone
        assert all(guard.passed for guard in found.guards)
    else:
        assert found.reason is not None


CAPS = st.builds(
    CapSettings, run=st.integers(0, 9), node=st.integers(0, 3), namespace=st.integers(0, 6)
)


@given(
    st.lists(st.tuples(workloads_measured(1), SETTINGS), max_size=4),
    CAPS,
)
def test_caps_hold_over_all_workloads(
    parts: list[tuple[WorkloadUsage, MoveSettings]], caps: CapSettings
) -> None:
    names = [WorkloadName(f"ns{i % 2}", "Deployment", f"w{i}") for i in range(len(parts))]
    settings = {name: moves for name, (_, moves) in zip(names, parts, strict=True)}
    before = [
        assessed(measured, moves, name)
        for name, (measured, moves) in zip(names, parts, strict=True)
    ]
    after = apply_caps(before, caps, settings.__getitem__)
    gone = [(each.workload, pod) for each in after for batch in each.batches for pod in batch]
    assert len(gone) <= (caps.run or math.inf)
    for node in {pod.node for _, pod in gone}:
        assert sum(pod.node == node for _, pod in gone) <= (caps.node or math.inf)
    for space in {name.namespace for name, _ in gone}:
        count = sum(name.namespace == space for name, _ in gone)
        assert count <= (caps.namespace or math.inf)
    for was, now in zip(before, after, strict=True):
        check_cut(was, now, settings[now.workload])


def check_cut(was: Assessment, now: Assessment, settings: MoveSettings) -> None:
    """A cap takes pods away and never adds one; what is left is still worth it."""
    assert now.workload == was.workload
    assert was.rotates or now == was
    if not now.rotates:
        assert now.batches == ()
        return
    assert was.proposal is not None
    assert now.proposal is not None
    assert now.proposal.numbers is not None
    assert set(now.proposal.rotate) <= set(was.proposal.rotate)
    assert sorted(pod.name for batch in now.batches for pod in batch) == sorted(
        pod.name for pod in now.proposal.rotate
    )
    assert now.proposal.numbers.gain is not None
    assert is_above(now.proposal.numbers.gain.improvement, settings.minimum_improvement)
    assert all(guard.passed for guard in now.guards)


@given(workloads_measured(), SETTINGS, st.integers(0, 10**6))
def test_a_rotation_is_judged_at_most_once(
    measured: WorkloadUsage, settings: MoveSettings, age: int
) -> None:
    found = judge_rotation(rotated(), measured, settings, NOON + age)
    if found is None:
        return
    assert judge_rotation(found, measured, settings, NOON + age + 10**6) is None
    assert found.realised is not None
    assert found.realised <= 100
    assert found.misses in (0, 1)
    assert settings.pause <= pause_after(found, settings)


@given(workloads_measured(), SETTINGS)
def test_what_did_not_change_anything_is_a_miss(
    measured: WorkloadUsage, settings: MoveSettings
) -> None:
    """The same pods with the same use again: a skew of the same size."""
    proposal = propose(measured, settings)
    note = record_rotation(proposal, measured, None, NOON - 3600)
    assert (note is None) is (not proposal.rotate)
    ordinary = [e for e in measured.pods if e.ready and e.running and not e.terminating]
    if note is None or len(ordinary) < len(measured.pods):
        return
    if any(each.held_back or isinstance(each.usage, Gap) for each in measured.pods):
        return
    found = judge_rotation(note, measured, settings, NOON)
    if found is not None:
        assert found.misses == 1
        assert found.realised == pytest.approx(0, abs=1e-6)
