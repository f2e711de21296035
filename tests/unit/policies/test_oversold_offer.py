"""The arithmetic of one resource's offer: the table of Crane's cases, and its laws."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.decision import OfferReport
from slackwater.model.gap import Gap
from slackwater.model.units import Micros, Percent, Ratio, percent
from slackwater.policies.oversold_offer import (
    SPAN,
    OfferMemory,
    OfferRules,
    ResourceLook,
    UseHistory,
    next_offer,
)
from slackwater.signals import DecayingHistogram

SECOND = 1_000_000
MINUTE = 60 * SECOND
GIB = 1 << 30
NO_FORECAST = Gap("there is no TimeSeriesPrediction of this node")
BLIND = Gap("needs a second sample")
RULES = OfferRules(
    dead_band=Percent(10),
    raise_step=Percent(100),
    raise_interval=Micros(MINUTE),
    stale_after=Micros(2 * MINUTE),
    percentile=Percent(98),
    margin=Percent(0),
    half_life=Micros(720 * MINUTE),
    warm_up=Micros(0),
)


def rules(**fields: Any) -> OfferRules:
    return msgspec.structs.replace(RULES, **fields)


def cpu(**fields: Any) -> ResourceLook:
    """16 CPUs of which 4 are used, in whole CPUs, with no reserve."""
    look = ResourceLook("gocrane.io/cpu", "m", 1000, 16_000, percent(0), 4_000, 0, 0, NO_FORECAST)
    return msgspec.structs.replace(look, **fields)


def ram(**fields: Any) -> ResourceLook:
    look = ResourceLook(
        "gocrane.io/memory", "B", 1, 64 * GIB, percent(0), 20 * GIB, 0, 2 * GIB, NO_FORECAST
    )
    return msgspec.structs.replace(look, **fields)


def fresh(first: int = 10, **fields: Any) -> OfferMemory:
    return OfferMemory(UseHistory(DecayingHistogram(first)), **fields)


def offered(look: ResourceLook, before: OfferMemory | None = None, **fields: Any) -> int:
    """In one tick that has waited long enough for a raise."""
    report, _ = next_offer(look, before or fresh(), rules(**fields), Micros(100 * MINUTE))
    return report.offered


def run(
    looks: Iterable[tuple[ResourceLook, int]], memory: OfferMemory, by: OfferRules = RULES
) -> list[OfferReport]:
    """Ticks at these times, in seconds."""
    found = []
    for look, second in looks:
        report, memory = next_offer(look, memory, by, Micros(second * SECOND))
        found.append(report)
    return found


def old(amount: int) -> OfferMemory:
    """An offer of so many CPUs stands since long ago."""
    return fresh(claim=amount * 1000, offered=amount, moved_at=Micros(0), known_at=Micros(0))


@pytest.mark.parametrize(
    ("look", "expected"),
    [
        # what is used, what is held exclusively and idle, less what was sold
        (cpu(used=5_000, exclusive_idle=2_000, elastic_used=3_000), 12),
        # 15.9 CPUs are not 16
        (cpu(allocatable=15_900, used=3_950), 11),
        # the prediction is in milliCPU here, and counts where it is larger
        (cpu(forecast=9_500), 6),
        (cpu(forecast=100), 12),
        # more is used than there is
        (cpu(used=20_000), 0),
        (cpu(elastic_used=9_000), 16),
        # reserves: of the whole, not of what is left
        (cpu(reserve=percent(40)), 5),
        (cpu(reserve=percent(100)), 0),
        (cpu(reserve=Ratio(125, 1000)), 10),
        # memory, exact to the byte
        (ram(), 49_392_123_904),
        (ram(reserve=percent(10)), 42_520_176_230),
    ],
)
def test_the_formula(look: ResourceLook, expected: int) -> None:
    assert offered(look) == expected


@pytest.mark.parametrize(
    ("before", "budget", "expected"),
    [
        (10, 10_900, 10),
        (10, 11_000, 10),
        (10, 11_500, 11),
        (10, 10_000, 10),
        # a cut is made, however small: what is sold and used stays within what there is
        (10, 9_990, 9),
        (10, 4_200, 4),
        # from nothing anything is beyond the dead band
        (0, 1_200, 1),
        (0, 999, 0),
    ],
)
def test_the_dead_band_holds_raises_only(before: int, budget: int, expected: int) -> None:
    assert offered(cpu(used=16_000 - budget, forecast=0), old(before)) == expected


def test_a_small_cut_leaves_room_for_the_next() -> None:
    """Of memory every byte would be told."""
    before = fresh(claim=40 * GIB, offered=40 * GIB, moved_at=Micros(0), known_at=Micros(0))
    look = ram(used=26 * GIB + 1, elastic_used=0, forecast=0, allocatable=66 * GIB)
    report, memory = next_offer(look, before, RULES, Micros(MINUTE))
    assert report.offered == 38 * GIB - 1
    again = msgspec.structs.replace(look, used=27 * GIB)
    assert next_offer(again, memory, RULES, Micros(MINUTE + SECOND))[0].offered == 38 * GIB - 1


def test_a_large_cut_is_exact() -> None:
    before = fresh(claim=40 * GIB, offered=40 * GIB, moved_at=Micros(0), known_at=Micros(0))
    look = ram(used=54 * GIB, elastic_used=0, forecast=0)
    assert next_offer(look, before, RULES, Micros(MINUTE))[0].offered == 10 * GIB


def test_what_pods_have_is_offered_whatever_is_left() -> None:
    assert offered(cpu(used=16_000, allocated=3), old(5)) == 3
    assert offered(cpu(used=16_000, allocated=7), old(5)) == 7


def test_raises_go_in_steps_and_wait_between() -> None:
    memory, seen = fresh(), []
    for second in range(0, 301, 20):
        at = Micros(second * SECOND)
        report, memory = next_offer(cpu(forecast=0), memory, rules(raise_step=Percent(25)), at)
        seen.append(report.offered)
    assert seen == [4, 4, 4, 8, 8, 8, *[12] * 10]


def test_a_lull_after_a_cut_is_not_sold_at_once() -> None:
    at = Micros(10 * MINUTE)
    report, memory = next_offer(cpu(used=14_000, forecast=0), old(10), RULES, at)
    assert report.offered == 2
    later = Micros(at + MINUTE - 1)
    assert next_offer(cpu(used=1_000, forecast=0), memory, RULES, later)[0].offered == 2
    later = Micros(at + MINUTE)
    assert next_offer(cpu(used=1_000, forecast=0), memory, RULES, later)[0].offered == 15


def test_an_early_look_cuts_and_never_raises() -> None:
    at = Micros(10 * MINUTE)
    raised, memory = next_offer(cpu(forecast=0), old(5), RULES, at, early=True)
    assert raised.offered == 5
    assert memory.history == old(5).history
    cut, _ = next_offer(cpu(used=14_000, forecast=0), old(5), RULES, at, early=True)
    assert cut.offered == 2


def test_nothing_is_offered_by_a_history_that_is_too_short() -> None:
    needed = rules(warm_up=Micros(3 * MINUTE))
    reports = run(((cpu(), minute * 60) for minute in range(6)), fresh(), needed)
    seen = [(each.offered, bool(each.missing)) for each in reports]
    assert seen == [(0, True), (0, True), (0, True), (11, False), (11, False), (11, False)]
    assert reports[-1].forecast == "own history of 5 min"


def test_a_short_history_still_cuts() -> None:
    needed = rules(warm_up=Micros(3 * MINUTE))
    assert next_offer(cpu(used=14_000), old(5), needed, Micros(MINUTE))[0].offered == 2


def test_a_prediction_needs_no_history() -> None:
    needed = rules(warm_up=Micros(3 * MINUTE))
    report, _ = next_offer(cpu(forecast=6_000), fresh(), needed, Micros(0))
    assert (report.offered, report.forecast) == (10, "TimeSeriesPrediction")


def test_a_prediction_that_ended_leaves_the_own_history() -> None:
    memory = fresh()
    for minute in range(10):
        look = cpu(used=7_000, forecast=1_000)
        _, memory = next_offer(look, memory, RULES, Micros(minute * MINUTE))
    report, _ = next_offer(cpu(used=1_000), memory, RULES, Micros(20 * MINUTE))
    assert report.predicted == pytest.approx(7_000, rel=0.05)
    assert report.offered == (16_000 - (report.predicted or 0)) // 1000


def test_unknown_usage_holds_then_falls_to_what_is_allocated() -> None:
    look = cpu(used=BLIND, allocated=2)
    reports = run(((look, minute * 60) for minute in (1, 2, 3, 4)), old(9))
    assert [each.offered for each in reports] == [9, 2, 2, 2]
    assert reports[-1].missing == "usage is not known: needs a second sample"
    assert reports[-1].budget is None


def test_a_prediction_alone_cuts_and_never_raises() -> None:
    at = Micros(60 * MINUTE)
    cut, _ = next_offer(cpu(used=BLIND, forecast=13_000), old(5), RULES, at)
    kept, _ = next_offer(cpu(used=BLIND, forecast=1_000), old(5), RULES, at)
    assert (cut.offered, kept.offered) == (3, 5)


def test_unknown_from_the_start_decides_nothing() -> None:
    report, memory = next_offer(cpu(used=BLIND, shown=6), fresh(), RULES, Micros(5))
    assert (memory.claim, memory.offered) == (None, None)
    assert report.offered == 0
    late = Micros(5 + RULES.stale_after)
    _, memory = next_offer(cpu(used=BLIND, shown=6), memory, RULES, late)
    assert (memory.claim, memory.offered) == (0, 0)


def test_a_restart_goes_on_with_what_the_node_shows() -> None:
    gentle = rules(raise_step=Percent(10))
    report, memory = next_offer(cpu(shown=6), fresh(), gentle, Micros(0))
    assert report.offered == 7
    assert memory.claim == 7_600


def test_missing_allocatable_holds() -> None:
    gap = Gap("the Node object states no allocatable cpu")
    report, _ = next_offer(cpu(allocatable=gap), old(4), RULES, Micros(SECOND))
    assert (report.offered, report.missing) == (4, gap.reason)


def test_exceeding_the_prediction_is_counted() -> None:
    looks = (cpu(used=used, forecast=3_000) for used in (1_000, 3_000, 3_001, 2_000))
    reports = run(((each, 0) for each in looks), fresh())
    assert [each.exceeded for each in reports] == [0, 0, 1, 1]


def test_the_history_keeps_averages_of_minutes() -> None:
    history = UseHistory(DecayingHistogram(10))
    for second in range(121):
        history = history.add(1_000 if second % 2 else 3_000, Micros(second * SECOND), SPAN)
    assert len(history.minutes.weights) == 1
    assert history.peak(Percent(100), Percent(50)) == pytest.approx(3_000, rel=0.06)


AMOUNTS = st.integers(0, 128_000)
KNOWN = st.one_of(AMOUNTS, st.just(BLIND))


@st.composite
def looks(draw: st.DrawFn) -> ResourceLook:
    scale = draw(st.sampled_from((1, 1000)))
    return ResourceLook(
        "gocrane.io/cpu",
        "m",
        scale,
        draw(KNOWN),
        percent(draw(st.integers(0, 100))),
        draw(KNOWN),
        draw(AMOUNTS),
        draw(KNOWN),
        draw(KNOWN),
        draw(st.integers(0, 4)),
        draw(st.one_of(st.none(), st.integers(0, 64))),
    )


@given(st.lists(st.tuples(looks(), st.integers(0, 5 * MINUTE), st.booleans()), max_size=12))
def test_laws_of_the_offer(steps: list[tuple[ResourceLook, int, bool]]) -> None:
    """Never negative, never below what is allocated; what is sold beyond that and used together
    stays within what may be used; an early look raises nothing."""
    memory, at = fresh(), 0
    for look, elapsed, early in steps:
        at += elapsed
        before = memory
        report, memory = next_offer(look, memory, RULES, Micros(at), early=early)
        assert report.offered >= look.allocated >= 0
        assert (memory.claim or 0) >= 0
        if report.budget is not None:
            assert memory.claim is not None
            assert memory.claim <= max(report.budget, 0)
            assert report.offered * look.scale <= max(report.budget, look.allocated * look.scale)
        if early and before.claim is not None:
            assert (memory.claim or 0) <= before.claim


@given(looks(), st.integers(1, 1000))
def test_units_are_never_mixed(look: ResourceLook, factor: int) -> None:
    """The same node, counted in units a whole factor smaller, offers the same."""
    looked = msgspec.structs.replace(look, scale=1, allocated=0, shown=None, forecast=0)
    larger = msgspec.structs.replace(
        looked,
        **{
            name: value if isinstance(value, Gap) else value * factor
            for name in ("allocatable", "used", "exclusive_idle", "elastic_used")
            for value in [getattr(looked, name)]
        },
    )
    one, _ = next_offer(looked, fresh(), RULES, Micros(0))
    other, _ = next_offer(larger, fresh(), RULES, Micros(0))
    assert one.offered * factor <= other.offered < (one.offered + 1) * factor or not one.offered


@pytest.mark.parametrize(
    ("look", "expected"),
    [
        # 16 CPUs less 4 used are 12 of this machine, worth 18 as pods declare them
        (cpu(worth=Ratio(150, 100)), 18),
        # row 57 of the facts about Koordinator: 25 CPUs at 1.20
        (cpu(worth=Ratio(120, 100), allocatable=25_000, used=0, scale=1), 30_000),
        # 12 * 1.13 = 13.56: exact until the offer
        (cpu(worth=Ratio(113, 100)), 13),
        (cpu(worth=Ratio(113, 100), scale=1), 13_560),
        # reserve and prediction count CPUs of this machine: (12.8 - 8) * 1.5
        (cpu(worth=Ratio(150, 100), reserve=percent(20), forecast=8_000), 7),
        # what pods have is in their unit already
        (cpu(worth=Ratio(150, 100), forecast=16_000, allocated=5), 5),
        (cpu(worth=Ratio(150, 100), forecast=17_000), 0),
    ],
)
def test_idle_cpu_is_offered_in_the_unit_that_pods_declare(
    look: ResourceLook, expected: int
) -> None:
    assert offered(look) == expected


def test_a_raise_is_a_share_of_what_pods_may_declare() -> None:
    look = cpu(worth=Ratio(150, 100))
    [report] = run([(look, 0)], fresh(), rules(raise_step=Percent(25)))
    assert (report.claim, report.offered, report.worth) == (6_000, 6, 150)
    assert (report.budget, report.allocatable, report.used) == (18_000, 16_000, 4_000)


@given(
    st.integers(1, 256_000), st.integers(0, 256_000), st.integers(0, 256_000),
    st.integers(0, 100), st.integers(100, 500),
)  # fmt: skip
def test_what_is_sold_and_used_fits_the_machine(
    allocatable: int, used: int, predicted: int, reserve: int, worth: int
) -> None:
    """In CPUs of the machine: what is offered, divided by the ratio as quotas are, and what is used
    are never above allocatable less the reserve, unless usage alone is."""
    look = cpu(
        allocatable=allocatable, used=used, forecast=predicted, reserve=percent(reserve),
        worth=Ratio(worth, 100),
    )  # fmt: skip
    report, _ = next_offer(look, fresh(), RULES, Micros(100 * MINUTE))
    sold = report.offered * look.scale * 100
    room = allocatable * (100 - reserve)
    assert sold * 100 // worth + max(used, predicted) * 100 <= max(room, max(used, predicted) * 100)
