"""The values of the agent's metrics, out of the last tick's record and the counts.

Owns the arithmetic into Prometheus's base units: cores and seconds. Pure; the names are
record.metric_table's, the text is record.exposition's. A gap is an absent sample, never a zero.
"""

from collections import Counter
from collections.abc import Iterator

import msgspec

from slackwater import __version__
from slackwater.model.cgroup import CpuPressure
from slackwater.model.gap import Gap
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.story import Course, NoteKind
from slackwater.model.units import Bandwidth, Micros, MilliCpu, Unlimited
from slackwater.policies.best_effort_share import EVENT
from slackwater.record import metric_table as table
from slackwater.record.cluster_link import NO_LINK, ClusterLink
from slackwater.record.journal import TickRecord
from slackwater.record.metric_table import Metric
from slackwater.record.tally import BUCKETS, Counts
from slackwater.settings.agent import Reading

_UNLIMITED = float("inf")
_MICROS = 1_000_000


class Facts(msgspec.Struct, frozen=True):
    """What there is to tell at one moment. `policies` are the names of all, also of those that
    are off; `latest` is None before the first tick."""

    at: Micros
    counts: Counts
    policies: tuple[str, ...]
    latest: TickRecord | None = None
    problems: int = 0
    blind: bool = False
    paused: bool = False
    link: ClusterLink = NO_LINK


class Sample(msgspec.Struct, frozen=True):
    """`labels` are values, in the order of the metric's labels."""

    metric: Metric
    value: float
    labels: tuple[str, ...] = ()


def samples(facts: Facts) -> Iterator[Sample]:
    """All but the histogram."""
    yield Sample(table.BUILD, 1, (__version__,))
    yield from _of_the_agent(facts)
    yield from _of_policies(facts)
    yield from _of_knobs(facts)
    yield from _of_the_cluster(facts.link)
    if facts.latest is None:
        return
    yield Sample(table.TICK_AGE, (facts.at - facts.latest.snapshot.at) / _MICROS)
    if not facts.blind:
        yield from _of_the_node(facts.latest.snapshot)
        yield from _of_tiers(facts.latest.snapshot)
        yield from _of_pods(facts.latest)


def durations(counts: Counts) -> tuple[list[tuple[str, float]], float]:
    """The histogram of the ticks' durations: counts up to each bound, and the sum."""
    bounds = [str(bound / _MICROS) for bound in BUCKETS] + ["+Inf"]
    upto = [float(sum(counts.durations[: number + 1])) for number in range(len(bounds))]
    return list(zip(bounds, upto, strict=True)), counts.duration_sum / _MICROS


def _of_the_agent(facts: Facts) -> Iterator[Sample]:
    counts = facts.counts
    yield Sample(table.TICKS, counts.ticks - counts.early_ticks, ("regular",))
    yield Sample(table.TICKS, counts.early_ticks, ("early",))
    yield Sample(table.BLIND_ROUNDS, counts.blind_rounds)
    yield Sample(table.BLIND, facts.blind)
    yield Sample(table.PAUSED, facts.paused)
    yield Sample(table.PROBLEMS, facts.problems)
    yield Sample(table.PROBLEMS_SEEN, counts.problems)


def _of_policies(facts: Facts) -> Iterator[Sample]:
    on = facts.latest.inputs.policies if facts.latest else {}
    told = facts.latest.story.told if facts.latest and not facts.blind else ()
    if facts.latest:
        for policy in facts.policies:
            yield Sample(table.POLICY_ENABLED, policy in on, (policy,))
    for line in told:
        for course in Course:
            yield Sample(table.POLICY_COURSE, line.course is course, (line.policy, course.value))
        for name, number in line.numbers.items():
            yield Sample(table.POLICY_NUMBER, number, (line.policy, name))
    for key, count in facts.counts.courses.items():
        yield Sample(table.POLICY_TICKS, count, key)
    yield Sample(table.THROTTLE_EVENTS, facts.counts.events.get((EVENT, "cpu"), 0), ("cpu",))
    standing = {line.policy for line in told if line.course is not Course.RELEASED}
    for (policy, event, resource), milli in facts.counts.asked.items():
        if event == EVENT and policy in standing:
            yield Sample(table.THROTTLE_ASKED, _cores(milli), (resource,))


def _of_knobs(facts: Facts) -> Iterator[Sample]:
    for change, count in facts.counts.changes.items():
        yield Sample(table.KNOB_CHANGES, count, change)
    for (knob, level, kind), count in facts.counts.notes.items():
        metric = table.KNOB_REPAIRS if kind is NoteKind.REPAIR else table.KNOB_YIELDS
        yield Sample(metric, count, (knob, level))
    if facts.latest:
        yield Sample(table.KNOBS_HELD, len(facts.latest.snapshot.held))
        yield Sample(table.KNOBS_YIELDED, len(facts.latest.story.yielded))


def _of_the_cluster(link: ClusterLink) -> Iterator[Sample]:
    for name, each in link.sources.items():
        yield Sample(table.SOURCE_AGE, each.age / _MICROS, (name,))
        yield Sample(table.SOURCE_SILENT, bool(each.problem), (name,))
    for result, count in link.writes.items():
        yield Sample(table.NODE_WRITES, count, (result,))
    if link.sources:
        yield Sample(table.EVENTS_LOST, link.lost)


def _of_the_node(snapshot: NodeSnapshot) -> Iterator[Sample]:
    usages = (
        (table.ALLOCATABLE, snapshot.allocatable),
        (table.NODE_USAGE, snapshot.usage),
        (table.PODS_USAGE, snapshot.usage_of(snapshot.kubepods)),
    )
    for metric, milli in usages:
        if not isinstance(milli, Gap):
            yield Sample(metric, _cores(milli))
    yield from _pressures(table.NODE_PRESSURE, snapshot.pressure)


def _of_tiers(snapshot: NodeSnapshot) -> Iterator[Sample]:
    for tier, ref in snapshot.tiers.items():
        name = (tier.value,)
        if rate := snapshot.rates.get(ref.id):
            yield Sample(table.TIER_USAGE, _cores(rate.usage), name)
            yield Sample(table.TIER_THROTTLED, rate.throttled / 1000, name)
        if reading := snapshot.readings.get(ref.id):
            if not isinstance(reading.quota, Gap):
                yield Sample(table.TIER_QUOTA, _quota(reading.quota), name)
            yield from _pressures(table.TIER_PRESSURE, reading.pressure, name)


def _of_pods(record: TickRecord) -> Iterator[Sample]:
    """By name: two pods of one name, an old one and its successor, are told as one."""
    if record.inputs.agent.reading is not Reading.EVERYTHING:
        return
    usages: Counter[tuple[str, str]] = Counter()
    for pod in record.snapshot.workloads:
        rate = None if isinstance(pod.ref, Gap) else record.snapshot.rates.get(pod.ref.id)
        if rate is not None:
            usages[pod.namespace, pod.name] += rate.usage
    for labels, milli in usages.items():
        yield Sample(table.POD_USAGE, _cores(MilliCpu(milli)), labels)


def _pressures(
    metric: Metric, pressure: CpuPressure | Gap, of: tuple[str, ...] = ()
) -> Iterator[Sample]:
    if isinstance(pressure, Gap):
        return
    for name, line in (("some", pressure.some), ("full", pressure.full)):
        if line is not None:
            yield Sample(metric, line.total / _MICROS, (*of, name))


def _quota(quota: Bandwidth) -> float:
    """Exact to what the kernel was told, not to the milli."""
    return _UNLIMITED if isinstance(quota.limit, Unlimited) else quota.limit / quota.period


def _cores(milli: MilliCpu) -> float:
    return milli / 1000
