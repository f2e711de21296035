"""Quotas below quotas on cgroup v1: a few follow exactly, a crowd in steps, and none too far."""

import itertools
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.cgroup import CgroupReading, CgroupRef, CgroupVersion, Level, Tier
from slackwater.model.decision import Because, Grant, Intent, Verb
from slackwater.model.snapshot import Held, NodeSnapshot
from slackwater.model.units import UNLIMITED, Bandwidth, Micros, MilliCpu, Unlimited
from slackwater.resolution.nesting import FEW, RAISED_EVERY, STEP, TWO_STEPS
from slackwater.resolution.planning import plan_changes
from slackwater.resolution.quota import quota_value
from slackwater.resolution.resolver import resolve
from slackwater.settings.agent_settings import AgentSettings
from tests.unit.policies.nodes import BESTEFFORT, FREE, node

BECAUSE = Because("a signal", "seen", "limit")
CROWD = FEW + 1
LEAST = 10
V1 = CgroupVersion.V1


def pod_ref(number: int) -> CgroupRef:
    path = f"{BESTEFFORT.path}/pod{number}"
    return CgroupRef(path, 100 * number + 100, Level.POD, Tier.BESTEFFORT, str(number))


def inner_ref(number: int, which: int) -> CgroupRef:
    path = f"{pod_ref(number).path}/c{which}"
    return CgroupRef(path, 100 * number + 101 + which, Level.CONTAINER, Tier.BESTEFFORT)


class Node:
    """A tier with pods of two containers, each with a limit: what stands there after each tick."""

    def __init__(self, limits: Sequence[int], period: int = 100_000) -> None:
        self.limits = limits
        self.refs = [BESTEFFORT]
        for number in range(len(limits)):
            self.refs += [pod_ref(number), inner_ref(number, 0), inner_ref(number, 1)]
        self.stands = {ref.id: Bandwidth(UNLIMITED, Micros(period)) for ref in self.refs}
        self.bursts = {ref.id: 0 for ref in self.refs}
        self.ours: dict[int, Bandwidth] = {}
        self.writes = 0
        self.now = 0

    def snapshot(self) -> NodeSnapshot:
        readings = {
            ref.id: CgroupReading(
                ref, Micros(0), quota=self.stands[ref.id], burst=Micros(self.bursts[ref.id])
            )
            for ref in self.refs
        }
        held = tuple(
            Held(ref, "quota", FREE, self.ours[ref.id], Micros(0))
            for ref in self.refs
            if ref.id in self.ours
        )
        return msgspec.structs.replace(
            node(tick=self.now), version=V1, readings=readings, held=held
        )

    def wishes(self, tier: int) -> list[Intent]:
        found: list[Intent] = [
            Intent(BESTEFFORT, "quota", Verb.CAP, MilliCpu(tier), BECAUSE, "share")
        ]
        for number, limit in enumerate(self.limits):
            refs = (pod_ref(number), inner_ref(number, 0), inner_ref(number, 1))
            for ref, milli in zip(refs, (2 * limit, limit, limit), strict=True):
                found.append(Intent(ref, "quota", Verb.BASE, MilliCpu(milli), BECAUSE, "batch"))
                burst = self.stands[ref.id].limit
                if not isinstance(burst, Unlimited):
                    found.append(Intent(ref, "burst", Verb.SET, burst, BECAUSE, "burst"))
        return found

    def tick(self, tier: int) -> dict[int, Grant]:
        """One round on a kernel that takes everything; the quotas granted, by id."""
        self.now += 1
        seen = self.snapshot()
        grants = resolve(seen, self.wishes(tier))
        agent = AgentSettings()
        for change in plan_changes(seen, grants, {}, agent).changes:
            self.writes += 1
            if isinstance(change.new, Bandwidth):
                self.stands[change.ref.id] = self.ours[change.ref.id] = change.new
            elif isinstance(change.new, int):
                self.bursts[change.ref.id] = change.new
        return {grant.target.id: grant for grant in grants if grant.knob == "quota"}

    def rest(self, tier: int) -> dict[int, Grant]:
        """So long that also raises are made."""
        return [self.tick(tier) for _ in range(RAISED_EVERY)][-1]

    def amount(self, ref: CgroupRef) -> int:
        milli = self.stands[ref.id].milli()
        assert not isinstance(milli, Unlimited)
        return milli


LIMITS = st.lists(st.integers(1, 3000), min_size=1, max_size=2 * CROWD)
TIERS = st.lists(st.integers(1, 4000), min_size=1, max_size=6)
PERIODS = st.sampled_from([1_000, 33_333, 100_000, 1_000_000])


@given(LIMITS, TIERS, PERIODS)
def test_what_stands_always_nests(limits: list[int], tiers: list[int], period: int) -> None:
    """tg_cfs_schedulable_down and tg_set_cfs_bandwidth, with what the kernel is asked to hold."""
    here = Node(limits, period)
    for tier in tiers:
        here.tick(tier)
        for number in range(len(limits)):
            pod = here.stands[pod_ref(number).id]
            assert not pod.exceeds(here.stands[BESTEFFORT.id])
            for which in (0, 1):
                assert not here.stands[inner_ref(number, which).id].exceeds(pod)
        for ref in here.refs:
            limit = here.stands[ref.id].limit
            assert isinstance(limit, Unlimited) or here.bursts[ref.id] <= limit


@given(LIMITS, TIERS)
def test_nobody_gets_more_than_wished_nor_two_steps_less_than_may_be(
    limits: list[int], tiers: list[int]
) -> None:
    here = Node(limits)
    for tier in tiers:
        found = here.rest(tier)
        assert found[BESTEFFORT.id].value == max(tier, LEAST)
        for number, limit in enumerate(limits):
            pod, inner = found[pod_ref(number).id].value, found[inner_ref(number, 0).id].value
            assert isinstance(pod, int)
            assert isinstance(inner, int)
            may = min(max(2 * limit, LEAST), max(tier, LEAST))
            assert TWO_STEPS.left_of(may) <= pod <= may
            assert TWO_STEPS.left_of(min(max(limit, LEAST), pod)) <= inner
            assert inner <= max(limit, LEAST)


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=2), TIERS)
def test_a_few_follow_exactly(limits: list[int], tiers: list[int]) -> None:
    here = Node(limits)
    for tier in tiers:
        here.tick(tier)
        for number, limit in enumerate(limits):
            exact = min(max(2 * limit, LEAST), max(tier, LEAST))
            granted = here.amount(pod_ref(number))
            assert granted == exact or exact * 999 // 1000 <= granted <= exact  # the raise deadband


@given(st.integers(200, 3000), st.lists(st.integers(-45, 45), min_size=1, max_size=20))
def test_a_jitter_of_some_percent_writes_nothing_below(tier: int, jitters: list[int]) -> None:
    here = Node([2000] * CROWD)
    here.rest(tier)
    before = {ref.id: here.stands[ref.id] for ref in here.refs[1:]}
    for jitter in jitters:
        here.tick(tier * (1000 + jitter) // 1000)
    assert {ref.id: here.stands[ref.id] for ref in here.refs[1:]} == before


def test_at_rest_nothing_is_written() -> None:
    here = Node([1000] * CROWD)
    here.rest(606)
    writes = here.writes
    here.rest(606)
    assert here.writes == writes


def test_a_wide_swing_is_followed_down_at_once_and_up_now_and_then() -> None:
    """As where a quarter of the node's usage comes and goes with each tick."""
    here = Node([1000] * CROWD)
    here.rest(900)
    seen = []
    for number in range(4 * RAISED_EVERY):
        here.tick(450 if number % 2 else 900)
        seen.append(here.amount(pod_ref(0)))
    assert set(seen) == {787, 393}
    raises = sum(one < other for one, other in itertools.pairwise(seen))
    assert raises <= 4


@pytest.mark.parametrize(
    ("tiers", "pod"),
    [
        ([606], 530),  # a step below
        ([606, 640], 530),  # near enough
        ([606, 700], 530),
        ([606, 720], 630),  # two steps behind: up again
        ([606, 520], 455),  # it must come down, by a step more than that
        ([606, 2200], 2000),  # the wish, where it fits
        ([2100], 2000),  # less than a step of room, but nothing to follow
        ([2000, 1990], 1741),
        ([1990, 2100], 1741),  # near enough to its wish, and the quota above is near it too
        ([1990, 2290], 2000),  # a step of room above the wish
        ([10], 10),  # the kernel's smallest
    ],
)
def test_the_steps_of_a_crowd(tiers: list[int], pod: int) -> None:
    here = Node([1000] * CROWD)
    for tier in tiers:
        here.rest(tier)
    assert here.amount(pod_ref(0)) == pod


def test_what_another_wrote_is_no_reason_to_stay() -> None:
    here = Node([1000] * CROWD)
    here.tick(606)
    here.stands[pod_ref(0).id] = quota_value(MilliCpu(580), Micros(100_000))
    found = here.tick(606)
    assert found[pod_ref(0).id].value == STEP.left_of(606)


def test_the_grant_names_the_quota_that_binds_and_the_way_of_following() -> None:
    found = Node([1000] * CROWD).tick(606)
    pod, inner = found[pod_ref(0).id], found[inner_ref(0, 0).id]
    assert (pod.follows, inner.follows) == (BESTEFFORT.path, BESTEFFORT.path)
    assert (pod.clipped_by, inner.clipped_by) == ("share", "share")
    because = pod.contributions[-1].because
    assert because.signal == f"the quota of {BESTEFFORT.path}"
    assert (because.seen, because.limit) == (
        "is above this",
        "cgroup v1 nests; many follow in steps",
    )
    assert inner.contributions[-1].because.limit == "cgroup v1 nests"


def test_a_burst_follows_with_its_quota() -> None:
    here = Node([1000] * CROWD)
    here.tick(606)
    bursts = [g for g in resolve(here.snapshot(), here.wishes(606)) if g.knob == "burst"]
    assert len(bursts) == 3 * CROWD
    assert {grant.follows for grant in bursts} == {BESTEFFORT.path}


def test_a_quota_that_nobody_asks_to_change_binds_a_crowd_as_well() -> None:
    here = Node([1000] * CROWD)
    here.stands[BESTEFFORT.id] = Bandwidth(Micros(60_600))
    grants = resolve(here.snapshot(), here.wishes(606)[1:])
    pod = next(grant for grant in grants if grant.target == pod_ref(0) and grant.knob == "quota")
    assert (pod.value, pod.clipped_by) == (530, "what stands above it")


def test_on_v2_nothing_follows() -> None:
    here = Node([1000] * CROWD)
    seen = msgspec.structs.replace(here.snapshot(), version=CgroupVersion.V2)
    grants = resolve(seen, here.wishes(606))
    assert not any(grant.follows for grant in grants)
    assert {grant.value for grant in grants} == {606, 2000, 1000}
