"""Counters to rates."""

from slackwater.model.cgroup import CgroupReading, CgroupRef, CpuTimes, Level
from slackwater.model.gap import VANISHED, Gap
from slackwater.model.machine import NodeUsage, NodeUsageSource
from slackwater.model.snapshot import Rate
from slackwater.model.units import Micros, MilliCpu
from slackwater.observation.rates import Rates

REF = CgroupRef("kubepods", 7, Level.NODE)
NONE = Gap("not asked for")


def read(at: int, usage: int | Gap, throttled: int = 0, ref: CgroupRef = REF) -> CgroupReading:
    times = (
        usage if isinstance(usage, Gap) else CpuTimes(Micros(usage), throttled=Micros(throttled))
    )
    return CgroupReading(ref, Micros(at), times, NONE, NONE, NONE, NONE, NONE, NONE)


def of_groups(rates: Rates, reading: CgroupReading) -> dict[int, Rate]:
    return rates.of_groups({reading.ref.id: reading}, reading.at)


def node(usage: int, source: NodeUsageSource = NodeUsageSource.ROOT_GROUP) -> NodeUsage:
    return NodeUsage(Micros(usage), source)


def test_the_first_reading_has_no_rate_and_the_second_has() -> None:
    rates = Rates()
    assert of_groups(rates, read(0, 1_000_000)) == {}
    found = of_groups(rates, read(2_000_000, 2_500_000, throttled=500_000))
    assert found == {7: Rate(MilliCpu(750), 250)}


def test_throttled_periods_are_a_part_of_all_and_never_more() -> None:
    """Two CPUs of a group that were held back all the time are 200 % of the time."""
    rates = Rates()
    held_back = (
        (1_000_000, 100, 0, 0),
        (2_000_000, 110, 5, 900_000),
        (3_000_000, 120, 15, 2_900_000),
        (4_000_000, 130, 26, 3_000_000),
        (5_000_000, 130, 26, 3_000_000),
    )
    found: list[Rate] = []
    for at, periods, throttled, time in held_back:
        times = CpuTimes(Micros(at), periods, throttled, Micros(time))
        found += of_groups(rates, CgroupReading(REF, Micros(at), times)).values()
    assert [(each.throttled_periods, each.throttled) for each in found] == [
        (500, 900), (1000, 2000), (1000, 100), (0, 0),
    ]  # fmt: skip


def test_a_counter_that_goes_backwards_is_a_gap_and_then_a_new_start() -> None:
    rates = Rates()
    of_groups(rates, read(0, 1_000_000))
    assert of_groups(rates, read(1_000_000, 10)) == {}
    assert of_groups(rates, read(2_000_000, 1_000_010)) == {7: Rate(MilliCpu(1000), 0)}


def test_an_unread_group_has_no_rate_and_no_memory() -> None:
    rates = Rates()
    of_groups(rates, read(0, 0))
    assert of_groups(rates, read(1_000_000, VANISHED)) == {}
    assert of_groups(rates, read(2_000_000, 5)) == {}


def test_another_group_at_the_same_path_is_another() -> None:
    rates = Rates()
    of_groups(rates, read(0, 0))
    again = CgroupRef("kubepods", 8, Level.NODE)
    assert of_groups(rates, read(1_000_000, 900, ref=again)) == {}


def test_no_time_between_two_readings_is_no_rate() -> None:
    rates = Rates()
    of_groups(rates, read(5, 0))
    assert of_groups(rates, read(5, 100)) == {}


def test_the_nodes_usage() -> None:
    rates = Rates()
    assert rates.of_node(node(0), Micros(0)) == Gap("the node was read only once so far")
    assert rates.of_node(node(1_500_000), Micros(1_000_000)) == 1500
    assert rates.of_node(Gap("unreadable"), Micros(2_000_000)) == Gap("unreadable")
    assert rates.of_node(node(3_500_000), Micros(3_000_000)) == 1000


def test_usages_of_two_sources_do_not_compare() -> None:
    rates = Rates()
    rates.of_node(node(0), Micros(0))
    assert isinstance(rates.of_node(node(9, NodeUsageSource.TICKS), Micros(1_000_000)), Gap)
    assert rates.of_node(node(1_000_009, NodeUsageSource.TICKS), Micros(2_000_000)) == 1000


def test_two_readings_in_a_moment_make_no_rate_and_lose_none() -> None:
    """A round that came late is followed by another soon: counters have hardly moved by then."""
    rates = Rates()
    of_groups(rates, read(0, 0))
    rates.of_node(node(0), Micros(0))
    assert of_groups(rates, read(600, 1_800)) == {}
    assert rates.of_node(node(1_800), Micros(600)) == Gap(
        "the node was read a moment ago, too soon for a rate"
    )
    assert of_groups(rates, read(1_000_000, 500_000)) == {7: Rate(MilliCpu(500), 0)}
    assert rates.of_node(node(500_000), Micros(1_000_000)) == 500


def test_counters_that_were_started_give_a_rate_at_the_next_reading() -> None:
    rates = Rates()
    of_groups(rates, read(0, NONE))
    rates.start({7: CpuTimes(Micros(1_000_000))}, Micros(200_000))
    assert of_groups(rates, read(1_000_000, 1_400_000)) == {7: Rate(MilliCpu(500), 0)}
    assert of_groups(rates, read(2_000_000, 1_500_000)) == {7: Rate(MilliCpu(100), 0)}


def test_started_counters_are_of_the_next_reading_only() -> None:
    rates = Rates()
    rates.start({7: CpuTimes(Micros(1_000_000))}, Micros(200_000))
    assert of_groups(rates, read(1_000_000, NONE)) == {}
    assert of_groups(rates, read(2_000_000, 1_500_000)) == {}
