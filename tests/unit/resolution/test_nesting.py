"""Quotas below quotas on cgroup v1: what does not fit is not set, and the quota above binds it."""

from collections.abc import Iterable, Sequence

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slackwater.model.cgroup import CgroupReading, CgroupRef, CgroupVersion, Level, Tier
from slackwater.model.decision import Because, Grant, Intent, Verb
from slackwater.model.snapshot import Held, NodeSnapshot
from slackwater.model.units import UNLIMITED, Bandwidth, Micros, MilliCpu, Unlimited
from slackwater.resolution import nesting
from slackwater.resolution.nesting import RAISED_EVERY, Nester
from slackwater.resolution.planning import plan_changes
from slackwater.resolution.resolver import resolve
from slackwater.settings.agent_settings import AgentSettings
from tests.unit.policies.nodes import BESTEFFORT, FREE, node

BECAUSE = Because("a signal", "seen", "limit")
LEAST = 10
V1 = CgroupVersion.V1
#: In place of nesting.AT_ONCE, so that a few groups are many.
AT_ONCE = 6
#: Of two containers each: more than that pass, pods or containers.
PODS = AT_ONCE + 1


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nesting, "AT_ONCE", AT_ONCE)


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
                stands = self.stands[ref.id].limit
                burst = self.bursts[ref.id] if isinstance(stands, Unlimited) else stands
                if burst:
                    found.append(Intent(ref, "burst", Verb.SET, burst, BECAUSE, "burst"))
        return found

    def tick(self, tier: int) -> dict[int, Grant]:
        """One round on a kernel that takes everything; the quotas granted, by id."""
        self.now += 1
        seen = self.snapshot()
        grants = resolve(seen, self.wishes(tier))
        for change in plan_changes(seen, grants, {}, AgentSettings()).changes:
            self.writes += 1
            if isinstance(change.new, Bandwidth):
                self.stands[change.ref.id] = self.ours[change.ref.id] = change.new
            elif isinstance(change.new, int):
                self.bursts[change.ref.id] = change.new
        return {grant.target.id: grant for grant in grants if grant.knob == "quota"}

    def rest(self, tier: int) -> dict[int, Grant]:
        """So long that raises are made and bursts have followed."""
        return [self.tick(tier) for _ in range(RAISED_EVERY + 2)][-1]

    def amount(self, ref: CgroupRef) -> int | None:
        milli = self.stands[ref.id].milli()
        return None if isinstance(milli, Unlimited) else milli

    def effective(self, *path: CgroupRef) -> int:
        """The smallest quota on the way down."""
        return min(milli for ref in path if (milli := self.amount(ref)) is not None)


LIMITS = st.lists(st.integers(1, 3000), min_size=1, max_size=2 * PODS)
TIERS = st.lists(st.integers(1, 4000), min_size=1, max_size=6)
PERIODS = st.sampled_from([1_000, 33_333, 100_000, 1_000_000])


@example([622], [1244, 1243, 1244], 1_000)
@given(LIMITS, TIERS, PERIODS)
def test_what_stands_always_nests(limits: list[int], tiers: list[int], period: int) -> None:
    """tg_cfs_schedulable_down and tg_set_cfs_bandwidth, with what the kernel is asked to hold."""
    here = Node(limits, period)
    for tier in tiers:
        here.tick(tier)
        for number in range(len(limits)):
            pod = here.stands[pod_ref(number).id]
            above = here.stands[BESTEFFORT.id]
            for below, bound in (
                (pod, above),
                *((here.stands[inner_ref(number, which).id], pod) for which in (0, 1)),
                *((here.stands[inner_ref(number, which).id], above) for which in (0, 1)),
            ):
                assert isinstance(below.limit, Unlimited) or not below.exceeds(bound)
        for ref in here.refs:
            limit = here.stands[ref.id].limit
            assert isinstance(limit, Unlimited) or here.bursts[ref.id] <= limit


@given(LIMITS, TIERS)
def test_each_gets_what_was_asked_for_and_no_more_than_what_is_above(
    limits: list[int], tiers: list[int]
) -> None:
    """At every tick no more; at rest no less either, but for the deadband of raises."""
    here = Node(limits)
    for tier in tiers:
        for _ in range(RAISED_EVERY + 2):
            here.tick(tier)
            tops = here.effective(BESTEFFORT)
            assert tops <= max(tier, LEAST)
            for number, limit in enumerate(limits):
                pod = here.effective(BESTEFFORT, pod_ref(number))
                assert pod <= max(2 * limit, LEAST)
                inner = here.effective(BESTEFFORT, pod_ref(number), inner_ref(number, 0))
                assert inner <= max(limit, LEAST)
        for number, limit in enumerate(limits):
            exact = min(max(limit, LEAST), max(tier, LEAST))
            inner = here.effective(BESTEFFORT, pod_ref(number), inner_ref(number, 0))
            assert exact * 999 // 1000 <= inner


def test_a_quota_that_moves_below_and_above_what_is_asked_for_writes_nothing_below() -> None:
    here = Node([1000] * PODS)
    here.rest(606)
    before = {ref.id: here.stands[ref.id] for ref in here.refs[1:]}
    for tier in (640, 300, 10, 999, 500):
        here.tick(tier)
    assert {ref.id: here.stands[ref.id] for ref in here.refs[1:]} == before
    here.rest(3000)
    before = {ref.id: here.stands[ref.id] for ref in here.refs[1:]}
    for tier in (2000, 4000, 2500):
        here.tick(tier)
    assert {ref.id: here.stands[ref.id] for ref in here.refs[1:]} == before


def test_at_rest_nothing_is_written() -> None:
    here = Node([1000] * PODS)
    here.rest(1606)
    writes = here.writes
    here.rest(1606)
    assert here.writes == writes


def test_a_cut_past_many_is_made_at_once_and_a_raise_now_and_then() -> None:
    """As where half of the node's usage comes and goes: each raise would be followed by a cut."""
    here = Node([1000] * PODS)
    here.rest(1500)
    assert (here.amount(pod_ref(0)), here.amount(inner_ref(0, 0))) == (None, 1000)
    raises = 0
    for number in range(4 * RAISED_EVERY):
        tier = 500 if number % 2 else 1500
        bound = here.amount(inner_ref(0, 0)) is None
        here.tick(tier)
        if tier == 500:
            assert here.amount(BESTEFFORT) == 500
            assert here.amount(inner_ref(0, 0)) is None
        else:
            assert here.amount(BESTEFFORT) in (999, 1500)
            raises += bound and here.amount(inner_ref(0, 0)) is not None
    assert 0 < raises <= 4


def test_a_raise_past_a_few_does_not_wait() -> None:
    here = Node([1000] * (AT_ONCE // 2))
    here.now = RAISED_EVERY  # the next is no tick for raises past many
    here.tick(500)
    here.tick(1500)
    assert (here.amount(BESTEFFORT), here.amount(inner_ref(0, 0))) == (1500, 1000)


def test_a_raise_goes_as_far_as_a_few_are_passed() -> None:
    here = Node([100 * number for number in range(1, 16)])
    here.rest(10)
    while here.now % RAISED_EVERY != 1:
        here.tick(10)
    here.tick(4000)  # passes 100, 200 (pod 1), 100, 200 …
    first = here.amount(BESTEFFORT)
    assert first is not None
    assert 10 < first < 4000
    set_ = [ref for ref in here.refs[1:] if here.amount(ref) is not None]
    assert 0 < len(set_) <= AT_ONCE
    here.rest(4000)
    assert here.amount(BESTEFFORT) == 4000


def test_more_groups_wait_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nesting, "AT_ONCE", 1)
    here = Node([1000] * 10)  # 31 groups
    here.now = 1
    here.tick(500)
    raised = []
    for _ in range(31):
        here.tick(1500)
        if here.amount(BESTEFFORT) == 1500:
            raised.append(here.now)
    assert raised[0] == 31


@pytest.mark.parametrize(
    ("tiers", "pod", "inner"),
    [
        ([2606], 2000, 1000),  # both fit
        ([1606], None, 1000),
        ([606], None, None),
        ([2000], 2000, 1000),  # just fits
        ([1000], None, 1000),
        ([606, 1606, 2606], 2000, 1000),
        ([2606, 606], None, None),
        ([10], None, None),  # the kernel's smallest
    ],
)
def test_what_fits_is_set(tiers: list[int], pod: int | None, inner: int | None) -> None:
    here = Node([1000] * PODS)
    for tier in tiers:
        here.rest(tier)
    assert (here.amount(pod_ref(0)), here.amount(inner_ref(0, 0))) == (pod, inner)


def test_what_another_wrote_is_removed_again() -> None:
    here = Node([1000] * PODS)
    here.tick(606)
    here.stands[pod_ref(0).id] = Bandwidth(Micros(58_000))
    assert here.tick(606)[pod_ref(0).id].value is UNLIMITED
    assert here.amount(pod_ref(0)) is None


def test_the_grant_names_the_quota_that_binds() -> None:
    here = Node([1000] * PODS)
    found = here.tick(606)
    pod, inner = found[pod_ref(0).id], found[inner_ref(0, 0).id]
    assert (pod.follows, inner.follows) == (BESTEFFORT.path, BESTEFFORT.path)
    assert (pod.clipped_by, inner.clipped_by) == ("share", "share")
    assert pod.contributions[-1].because == Because(
        f"the quota of {BESTEFFORT.path}", "is below this", "cgroup v1 nests: none is set here"
    )


def test_the_grant_that_waits_says_for_what() -> None:
    here = Node([1000] * PODS)
    here.now = RAISED_EVERY
    here.tick(606)
    tier = here.tick(1606)[BESTEFFORT.id]
    assert (tier.value, tier.clipped_by) == (999, "groups below it")
    assert tier.contributions[-1].because == Because(
        "quotas below it that are asked for",
        f"{2 * PODS} would be written",
        f"cgroup v1 nests: in one of {RAISED_EVERY} ticks",
    )


def test_a_group_that_gets_its_quota_back_follows_still_in_that_tick() -> None:
    """The journal tells many that follow as one."""
    here = Node([1000] * PODS)
    here.rest(606)
    told = []
    for _ in range(RAISED_EVERY + 2):
        grant = here.tick(1606)[inner_ref(0, 0).id]
        told.append((grant.value, grant.follows))
    back = told.index((1000, BESTEFFORT.path))
    assert set(told[:back]) <= {(UNLIMITED, BESTEFFORT.path)}
    assert set(told[back + 1 :]) <= {(1000, "")}


def test_a_burst_stays_while_the_quota_above_binds() -> None:
    here = Node([1000] * PODS)
    here.rest(1606)
    assert here.bursts[inner_ref(0, 0).id] == 100_000
    writes = here.writes
    here.tick(606)
    here.tick(606)
    assert here.writes == writes + 1 + 2 * PODS  # the tier's and the containers' quotas
    assert here.bursts[inner_ref(0, 0).id] == 100_000
    bursts = [g for g in resolve(here.snapshot(), here.wishes(606)) if g.knob == "burst"]
    assert {grant.follows for grant in bursts} == {BESTEFFORT.path}


def test_a_quota_that_nobody_asks_to_change_binds_as_well() -> None:
    here = Node([1000] * PODS)
    here.stands[BESTEFFORT.id] = Bandwidth(Micros(60_600))
    grants = resolve(here.snapshot(), here.wishes(606)[1:])
    pod = next(grant for grant in grants if grant.target == pod_ref(0) and grant.knob == "quota")
    assert (pod.value, pod.clipped_by) == (UNLIMITED, "what stands above it")


def test_on_v2_nothing_follows() -> None:
    here = Node([1000] * PODS)
    seen = msgspec.structs.replace(here.snapshot(), version=CgroupVersion.V2)
    grants = resolve(seen, here.wishes(606))
    assert not any(grant.follows for grant in grants)
    assert {grant.value for grant in grants} == {606, 2000, 1000}


class Asked:
    """What is asked of quotas in three levels, and what stands there, changed piece by piece."""

    def __init__(self) -> None:
        self.here = Node([500] * PODS)
        self.amounts: dict[int, int | None] = {ref.id: 600 for ref in self.here.refs}

    def grants(self) -> dict[int, Grant]:
        refs = {ref.id: ref for ref in self.here.refs}
        return {
            target: resolve(_v2(self.here), [_base(refs[target], milli)])[0]
            for target, milli in self.amounts.items()
            if milli is not None
        }


def _v2(here: Node) -> NodeSnapshot:
    return msgspec.structs.replace(here.snapshot(), version=CgroupVersion.V2)


def _base(ref: CgroupRef, milli: int) -> Intent:
    return Intent(ref, "quota", Verb.BASE, MilliCpu(milli), BECAUSE, "batch")


PLACES = st.integers(0, 3 * PODS)
AMOUNTS = st.sampled_from((10, 300, 500, 600, 601, 900))
MOVE = st.one_of(
    st.tuples(st.just("ask"), PLACES, AMOUNTS),
    st.tuples(st.just("stand"), PLACES, st.one_of(AMOUNTS, st.none())),
    st.tuples(st.just("pass"), st.just(0), st.integers(1, 4)),
)


@given(st.lists(st.lists(MOVE, max_size=3), max_size=8), st.sets(PLACES, max_size=3))
def test_what_moved_is_enough_to_look_at(
    rounds: Iterable[list[tuple[str, int, int | None]]], unasked: set[int]
) -> None:
    asked, kept = Asked(), Nester()
    refs = asked.here.refs
    for place in unasked:
        asked.amounts[refs[place].id] = None
    found = dict(kept.nest(asked.here.snapshot(), asked.grants()))
    for moves in rounds:
        moved: set[int] = set()
        for what, place, value in moves:
            target = refs[place].id
            if what == "pass":
                asked.here.now += value or 0
            elif what == "stand":
                limit = UNLIMITED if value is None else Micros(value * 100)
                asked.here.stands[target] = Bandwidth(limit)
                moved.add(target)
            elif asked.amounts[target] is not None:
                asked.amounts[target] = value
                moved.add(target)
        grants, seen = asked.grants(), asked.here.snapshot()
        found.update(kept.nest_moved(seen, {each: grants.get(each) for each in moved}))
        assert found == Nester().nest(seen, grants)
