"""The meter: sums that agree with the kernel's counters, however the time is cut."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.model.cgroup import CgroupVersion, CpuTimes, Tier
from slackwater.model.decision import Grant, Note, NoteKind, PolicyAction, PolicyReport, TickReport
from slackwater.model.gap import Gap
from slackwater.model.knob import QUOTA
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Bandwidth, Micros, MilliCpu
from slackwater.record.journal import TickInputs, TickRecord
from slackwater.settings.agent_settings import AgentSettings
from slackwater.simulation.demand import SECOND, Steady, Steps
from slackwater.simulation.fake_kernel import FakeKernel
from slackwater.simulation.meter import INTERVALS, UsageMeter
from slackwater.simulation.scenario import ScenarioPod
from slackwater.simulation.scenario_report import _summarise_loss
from slackwater.simulation.simulated_node import SimulatedNode

END = Micros(100 * SECOND)
CPUS = 4


def node_with(*pods: tuple[Tier, int]) -> SimulatedNode:
    node = SimulatedNode(FakeKernel(CgroupVersion.V2, CPUS))
    for number, (tier, demand) in enumerate(pods):
        request = MilliCpu(0 if tier is Tier.BESTEFFORT else 500)
        node.add(ScenarioPod(f"p{number}", tier, Steady(MilliCpu(demand)), request))
    return node


def record(
    node: SimulatedNode, numbers: dict[str, int] | None, course: PolicyAction = PolicyAction.ACTED
) -> TickRecord:
    """What a tick tells; None: the policy is off."""
    snapshot = NodeSnapshot(
        1, node.kernel.now, Micros(0), MilliCpu(4000), MilliCpu(0), node.kubepods, {}
    )
    told = () if numbers is None else (PolicyReport("best_effort_share", course, "why", numbers),)
    tier = node.tiers[Tier.BESTEFFORT]
    notes = (Note(tier, QUOTA.name, NoteKind.REPAIR, "again"),)
    grants: tuple[Grant, ...] = ()
    inputs = TickInputs(None, {}, AgentSettings())
    return TickRecord(snapshot, inputs, TickReport(told, grants, notes), (), (), Micros(0))


PODS = st.lists(st.tuples(st.sampled_from(Tier), st.integers(0, 6000)), max_size=5)
CUTS = st.lists(st.integers(1, 20_000_000), min_size=1, max_size=12)


@settings(max_examples=40, deadline=None)
@given(PODS, CUTS)
def test_sums_are_the_kernels_however_time_is_cut(
    pods: list[tuple[Tier, int]], cuts: list[int]
) -> None:
    node = node_with(*pods)
    meter = UsageMeter(node, END)
    for cut in cuts:
        node.kernel.advance(Micros(cut))
        meter.measure(node.kernel.now)
    tree = node.kernel.times(node.kubepods)
    assert isinstance(tree, CpuTimes)
    assert sum(each.used for each in meter.tiers.values()) == tree.usage
    wanted = {tier: sum(level for t, level in pods if t is tier) for tier in Tier}
    for tier, each in meter.tiers.items():
        micros = wanted[tier] * sum(cuts) / 1000
        assert each.used + each.lost == pytest.approx(micros, abs=2 + len(cuts))
    assert sum(meter.lost.values()) == sum(cuts)
    assert meter.had <= meter.could
    assert meter.budget == 0


@settings(max_examples=30, deadline=None)
@given(PODS, CUTS)
def test_stretches_hold_the_same_sums(pods: list[tuple[Tier, int]], cuts: list[int]) -> None:
    node = node_with(*pods)
    meter = UsageMeter(node, END)
    for cut in cuts:
        node.kernel.advance(Micros(cut))
        meter.measure(node.kernel.now)
    assert len(meter.intervals) == INTERVALS
    assert sum(each.length for each in meter.intervals) == sum(cuts)
    for tier in Tier:
        drawn = sum(each.used.get(tier.value, 0) for each in meter.intervals)
        assert drawn == meter.tiers[tier].used
    online = meter.tiers[Tier.GUARANTEED].lost + meter.tiers[Tier.BURSTABLE].lost
    assert sum(each.lost for each in meter.intervals) == online


def test_a_look_without_time_counts_nothing() -> None:
    meter = UsageMeter(node_with((Tier.BURSTABLE, 1000)), END)
    meter.measure(Micros(0))
    assert sum(each.length for each in meter.intervals) == 0
    assert meter.lost.total() == 0


def test_what_ended_stays_counted() -> None:
    node = node_with((Tier.GUARANTEED, 1000), (Tier.BESTEFFORT, 500))
    meter = UsageMeter(node, END)
    node.kernel.advance(SECOND)
    node.remove("p0")
    node.remove("p1")
    node.kernel.advance(SECOND)
    meter.measure(node.kernel.now)
    assert meter.tiers[Tier.GUARANTEED].used == SECOND
    assert meter.tiers[Tier.BESTEFFORT].used == SECOND // 2


def test_system_work_is_no_tiers() -> None:
    node = SimulatedNode(FakeKernel(CgroupVersion.V2, CPUS), Steady(MilliCpu(700)))
    meter = UsageMeter(node, END)
    node.kernel.advance(SECOND)
    meter.measure(node.kernel.now)
    assert meter.system == 700_000
    assert meter.idle == CPUS * SECOND - 700_000
    assert all(each.used == 0 for each in meter.tiers.values())


@pytest.mark.parametrize(
    ("allowed", "online", "wanted", "budget", "could", "beyond"),
    [
        # Nothing said: what the machine has left counts.
        (None, 1000, 8000, 0, 3000, 0),
        # Three CPUs allowed, one used by others: two are the budget, a third was got beyond it.
        (3000, 1000, 8000, 2000, 2000, 1000),
        # It wants less than it may have.
        (3000, 1000, 500, 2000, 500, 0),
        # Others use more than is allowed: nothing is left.
        (2000, 3000, 8000, 0, 0, 1000),
    ],
)
def test_what_best_effort_could_have_had(
    allowed: int | None, online: int, wanted: int, budget: int, could: int, beyond: int
) -> None:
    node = node_with((Tier.BURSTABLE, online), (Tier.BESTEFFORT, wanted))
    meter = UsageMeter(node, END)
    if allowed is not None:
        meter.add_round(record(node, {"allowed": allowed}))
    node.kernel.advance(SECOND)
    meter.measure(node.kernel.now)
    milli = SECOND // 1000
    # Best effort's weight is the least, and not nothing.
    some = 60 * milli
    assert meter.budget == pytest.approx(budget * milli, abs=some)
    assert meter.could == pytest.approx(could * milli, abs=some)
    assert meter.had == pytest.approx(could * milli, abs=some)
    assert meter.beyond == pytest.approx(beyond * milli, abs=some)
    assert meter.was_on == (allowed is not None)


def test_what_is_allowed_is_what_was_said_last() -> None:
    node = node_with()
    meter = UsageMeter(node, END)
    said: list[TickRecord | Gap] = [
        record(node, {"allowed": 3000}),
        record(node, {}, PolicyAction.HELD),  # it could not see: what it said before stands
        Gap("the tree is gone"),
        record(node, None),  # it is off
    ]
    seen = []
    for each in said:
        meter.add_round(each)
        node.kernel.advance(Micros(END // INTERVALS))
        meter.measure(node.kernel.now)
    seen = [each.allowed for each in meter.intervals[:4]]
    assert seen == [3000, 3000, 3000, None]
    assert meter.rounds == {"regular": 3, "blind": 1}
    assert meter.courses == {"acted": 1, "held": 1}
    assert meter.notes == {"repair": 3}


def test_a_stretchs_quota_is_that_of_the_time_with_one() -> None:
    node = node_with((Tier.BESTEFFORT, 4000))
    meter = UsageMeter(node, Micros(INTERVALS * 10 * SECOND))
    tier = node.tiers[Tier.BESTEFFORT]
    for limit in (None, 100_000, 300_000):
        if limit is not None:
            node.put(tier, QUOTA, Bandwidth(Micros(limit)))
        node.kernel.advance(SECOND)
        meter.measure(node.kernel.now)
    first = meter.intervals[0]
    assert (first.length, first.limited) == (3 * SECOND, 2 * SECOND)
    assert first.quota / first.limited == 2000


def test_lost_time_is_counted_by_how_bad_it_was() -> None:
    node = SimulatedNode(FakeKernel(CgroupVersion.V2, 1))
    levels = tuple(MilliCpu(level) for level in (500, 1500, 1500, 3000))
    node.add(ScenarioPod("web", Tier.BURSTABLE, Steps(levels, SECOND), MilliCpu(500)))
    meter = UsageMeter(node, END)
    for _ in levels:
        node.kernel.advance(SECOND)
        meter.measure(node.kernel.now)
    assert meter.lost == {0: SECOND, 500: 2 * SECOND, 2000: SECOND}
    online = _summarise_loss(meter.lost)
    assert (online.mean_lost_milli, online.p99_lost_milli) == (750, 2000)


LOST = st.dictionaries(st.integers(0, 9000), st.integers(1, 10**7), min_size=1, max_size=40)


@given(LOST)
def test_the_worst_hundredth_is_at_least_the_99th_percentile(lost: dict[int, int]) -> None:
    from collections import Counter

    online = _summarise_loss(Counter(lost))
    total = sum(lost.values())
    below = sum(length for milli, length in lost.items() if milli <= online.p99_lost_milli)
    under = sum(length for milli, length in lost.items() if milli < online.p99_lost_milli)
    assert below * 100 >= total * 99
    assert under * 100 < total * 99
    assert min(lost) <= online.mean_lost_milli + 0.1
    assert online.mean_lost_milli <= max(lost) + 0.1


def test_no_time_at_all_lost_nothing() -> None:
    from collections import Counter

    online = _summarise_loss(Counter())
    assert (online.mean_lost_milli, online.p99_lost_milli) == (0, 0)
