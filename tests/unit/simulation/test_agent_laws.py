"""Laws of the whole way, from snapshot to kernel, on random nodes: the real tick, executor and
ledger over the fake kernel.

    plan(apply(plan)) = nothing
    release(apply*)   = the baseline
    an early tick never raises a quota
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from slackwater.agent.tick import tick
from slackwater.model.cgroup import CgroupReading, CgroupVersion, Tier
from slackwater.model.cpus import CpuSet
from slackwater.model.decision import PolicyAction
from slackwater.model.gap import Gap
from slackwater.model.knob import BURST, CPUS, IDLE, QUOTA, WEIGHT, Knob, KnobValue
from slackwater.model.plan import Change, Result
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import (
    UNLIMITED,
    Bandwidth,
    Micros,
    MilliCpu,
    Percent,
    Permille,
    Unlimited,
)
from slackwater.policies.best_effort_share import Accounting, BestEffortShareSettings
from slackwater.policies.catalog import POLICIES
from slackwater.record.journal import TickRecord
from slackwater.settings.agent_document import Settings
from slackwater.settings.agent_settings import AgentSettings
from slackwater.simulation.demand import SECOND, Steps
from tests.unit.simulation.mortal import MEMORY, Bed

pytestmark = pytest.mark.long

FEW = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
MACHINE = 4

SHARES = st.builds(
    BestEffortShareSettings,
    enabled=st.just(True),
    threshold=st.integers(1, 100).map(Percent),
    jitter=st.integers(0, 50).map(Percent),
    recover=st.integers(1, 200).map(Percent),
    recover_from=st.integers(1, 100).map(Percent),
    accounting=st.sampled_from(Accounting),
)
AGENTS = st.builds(AgentSettings, raise_deadband=st.integers(0, 2).map(Permille))
SETTINGS = st.builds(Settings, AGENTS, st.fixed_dictionaries({"best_effort_share": SHARES}))
DEMANDS = st.builds(
    Steps,
    st.lists(st.integers(0, 6000).map(MilliCpu), min_size=1, max_size=9).map(tuple),
    st.sampled_from((Micros(300_000), SECOND, Micros(2_500_000))),
)
PODS = st.lists(
    st.tuples(st.sampled_from(Tier), DEMANDS, st.integers(0, 3000)), min_size=1, max_size=7
)
VERSIONS = st.sampled_from(CgroupVersion)


class Plot(msgspec.Struct, frozen=True):
    """What a random node is made of."""

    version: CgroupVersion
    settings: Settings
    pods: list[tuple[Tier, Steps, int]]


PLOTS = st.builds(Plot, VERSIONS, SETTINGS, PODS)


@contextmanager
def bed_of(plot: Plot) -> Iterator[Bed]:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        bed = Bed(folder, plot.version, MACHINE, plot.settings)
        for number, (tier, demand, request) in enumerate(plot.pods):
            bed.pod(f"pod-{number}", tier, demand, 0 if tier is Tier.BESTEFFORT else request)
        try:
            yield bed
        finally:
            bed.alive().end()


def looked_again(bed: Bed, snapshot: NodeSnapshot) -> NodeSnapshot:
    """The same moment after the plan was carried out: the same usage, the readings of now."""
    readings = {}
    for each in snapshot.readings.values():
        now = bed.kernel.reading(each.ref, snapshot.at)
        assert isinstance(now, CgroupReading)
        quota = now.quota if isinstance(each.quota, Bandwidth) else each.quota
        readings[each.ref.id] = msgspec.structs.replace(each, quota=quota)
    held = bed.alive().actuator.held()
    return msgspec.structs.replace(snapshot, readings=readings, held=held)


@FEW
@given(PLOTS, st.integers(2, 12))
def test_a_plan_that_was_carried_out_leaves_nothing_to_plan(plot: Plot, ticks: int) -> None:
    with bed_of(plot) as bed:
        for _ in range(ticks):
            record = bed.once()
            again = tick(
                looked_again(bed, record.snapshot),
                record.inputs.memory,
                POLICIES,
                record.inputs.policies,
                record.inputs.agent,
            )
            assert again.planned.changes == ()
            assert again.planned.notes == ()
            assert again.planned.releases == ()


@FEW
@given(PLOTS, st.lists(st.sampled_from(("tick", "early", "kill")), max_size=25))
def test_a_release_after_any_ticks_and_kills_is_the_baseline(plot: Plot, steps: list[str]) -> None:
    with bed_of(plot) as bed:
        baseline = bed.knobs()
        for step in steps:
            if step == "kill":
                bed.start()
            else:
                bed.once(early=step == "early")
        assert bed.release() == 0
        assert bed.knobs() == baseline
        assert bed.alive().ledger.entries == ()


def allows_more(new: MilliCpu | Unlimited, old: MilliCpu | Unlimited) -> bool:
    if isinstance(old, Unlimited):
        return False
    return isinstance(new, Unlimited) or new > old


@FEW
@given(PLOTS, st.lists(st.booleans(), min_size=4, max_size=40))
def test_an_early_tick_never_raises_a_quota(plot: Plot, earlies: list[bool]) -> None:
    with bed_of(plot) as bed:
        bed.once()
        bed.once()
        for early in earlies:
            before = bed.quota()
            bed.once(early=early, after=Micros(350_000) if early else SECOND)
            assert not (early and allows_more(bed.quota(), before))


@FEW
@given(PLOTS, st.integers(1, 4))
def test_not_even_the_first_tick_after_a_restart(plot: Plot, earlies: int) -> None:
    with bed_of(plot) as bed:
        bed.once()
        bed.once()
        bed.start()
        before = bed.quota()
        for _ in range(earlies):
            bed.once(early=True)
            assert not allows_more(bed.quota(), before)
            before = bed.quota()


@FEW
@given(PLOTS, st.booleans())
def test_nor_does_one_release_what_was_held_for_too_long(plot: Plot, regular: bool) -> None:
    """The release waits for the regular tick."""
    with bed_of(plot) as bed:
        bed.once()
        bed.once()
        before = bed.quota()
        bed.alive().snapshot_reader.blind_until = Micros(1000 * SECOND)
        bed.once()
        record = bed.once(early=not regular, after=Micros(40 * SECOND))
        (told,) = record.story.told
        assert told.course is PolicyAction.RELEASED
        assert bed.quota() == (UNLIMITED if regular else before)
        bed.once()
        assert bed.quota() is UNLIMITED


KNOB_VALUES: dict[Knob, st.SearchStrategy[KnobValue]] = {
    QUOTA: st.one_of(
        st.just(Bandwidth(UNLIMITED)),
        st.builds(Bandwidth, st.integers(1000, 400_000).map(Micros), st.just(Micros(100_000))),
    ),
    WEIGHT: st.integers(2, 10_000),
    IDLE: st.booleans(),
    BURST: st.integers(0, 50_000),
    CPUS: st.integers(1, 2**MACHINE - 1).map(CpuSet),
}
WISHES = st.lists(
    st.tuples(
        st.integers(0, 30),
        st.sampled_from(tuple(KNOB_VALUES)).flatmap(
            lambda knob: st.tuples(st.just(knob), KNOB_VALUES[knob])
        ),
    ),
    min_size=1,
    max_size=6,
)


@FEW
@given(PLOTS, st.lists(st.tuples(WISHES, st.booleans()), min_size=1, max_size=5))
def test_any_changes_of_any_knobs_are_released_exactly(
    plot: Plot, rounds: list[tuple[list[tuple[int, tuple[Knob, KnobValue]]], bool]]
) -> None:
    """Whatever policies come to want, also those that the kernel refuses, across restarts."""
    with bed_of(plot) as bed:
        baseline, applied = bed.knobs(), 0
        for wishes, killed in rounds:
            refs = bed.kernel.refs()
            changes: dict[tuple[int, str], Change] = {}
            for place, (knob, value) in wishes:
                ref = refs[place % len(refs)]
                old = bed.kernel.read(ref, knob)
                if not isinstance(old, Gap):
                    changes[ref.id, knob.name] = Change(ref, knob, old, value)
            outcomes = bed.alive().actuator.apply(changes.values())
            applied += sum(each.result is Result.APPLIED for each in outcomes)
            bed.kernel.advance(SECOND)
            if killed:
                bed.start()
        assume(applied)
        assert bed.release() == 0
        assert bed.knobs() == baseline


def test_the_law_sees_real_changes() -> None:
    """The random nodes above are no empty rooms."""
    pods = [(Tier.BESTEFFORT, Steps((MilliCpu(4000),)), 0)]
    share = BestEffortShareSettings(enabled=True)
    settings = Settings(policies={"best_effort_share": share})
    with bed_of(Plot(CgroupVersion.V2, settings, pods)) as bed:
        bed.once()
        record: TickRecord = bed.once()
        assert [each.result for each in record.outcomes] == [Result.APPLIED]
        assert bed.quota() == 3200
