"""The agent's metrics: running counts, and samples made of them and of the last tick.

Converts to Prometheus's base units, cores and seconds. Names and help texts are in metric_table. A
value that could not be read is an absent sample, never a zero.
"""

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from slackwater import __version__
from slackwater.model.cgroup import CpuPressure
from slackwater.model.decision import THROTTLE_EVENT, NoteKind, PolicyAction
from slackwater.model.gap import Gap
from slackwater.model.plan import Outcome
from slackwater.model.problem import ConfigurationProblem
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Bandwidth, Micros, MilliCpu, Unlimited
from slackwater.record import metric_table as table
from slackwater.record.agent_view import NO_LINK, ClusterLink
from slackwater.record.cpu_map import count_cpus, find_refused_pods
from slackwater.record.interception import ANSWER_BUCKETS, InterceptionCounts
from slackwater.record.journal import TickRecord
from slackwater.record.metric_table import MetricDefinition, MetricSample
from slackwater.record.normalization_metrics import normalization_samples
from slackwater.record.offers import offer_samples
from slackwater.record.rule_metrics import RuleCounters, RuleCounts, rule_samples
from slackwater.settings.agent_settings import Reading

#: Upper ends of the buckets of a tick's duration: one that reads tiers takes 1 ms, one that reads
#: 500 containers 10 ms; beyond 100 ms the shortest period is missed.
BUCKETS = (Micros(1_000), Micros(5_000), Micros(20_000), Micros(100_000), Micros(1_000_000))
_UNLIMITED = float("inf")
_MICROS = 1_000_000


class TickCounts(msgspec.Struct, frozen=True):
    """All counts at one moment. `durations` has one count more than there are BUCKETS."""

    ticks: int
    early_ticks: int
    blind_rounds: int
    durations: tuple[int, ...]
    duration_sum: Micros
    #: By knob, level and result.
    changes: Mapping[tuple[str, str, str], int]
    #: By knob, level and kind.
    notes: Mapping[tuple[str, str, NoteKind], int]
    #: By policy and course.
    courses: Mapping[tuple[str, str], int]
    #: By the event's name and resource.
    events: Mapping[tuple[str, str], int]
    #: What each policy's last event asked for, by policy, event and resource.
    asked: Mapping[tuple[str, str, str], MilliCpu]
    problems: int
    rules: RuleCounts = RuleCounts()


class TickCounters:
    """Counts since the agent's start. One thread adds, any may read."""

    def __init__(self) -> None:
        self._alone = threading.Lock()
        self._ticks = self._early_ticks = self._blind_rounds = self._problems = 0
        self._durations = [0] * (len(BUCKETS) + 1)
        self._duration_sum = 0
        self._changes: Counter[tuple[str, str, str]] = Counter()
        self._notes: Counter[tuple[str, str, NoteKind]] = Counter()
        self._courses: Counter[tuple[str, str]] = Counter()
        self._events: Counter[tuple[str, str]] = Counter()
        self._asked: dict[tuple[str, str, str], MilliCpu] = {}
        self._rules = RuleCounters()

    def add(self, record: TickRecord) -> None:
        self.add_outcomes(record.outcomes)
        with self._alone:
            self._ticks += 1
            self._early_ticks += record.snapshot.early
            self._durations[bisect_left(BUCKETS, record.took)] += 1
            self._duration_sum += record.took
            self._rules.add(record)
            for note in record.story.notes:
                self._notes[note.knob, note.target.level.value, note.kind] += 1
            for told in record.story.told:
                self._courses[told.policy, told.course.value] += 1
                for event in told.events:
                    self._events[event.name, event.resource] += 1
                    self._asked[told.policy, event.name, event.resource] = event.milli

    def add_outcomes(self, outcomes: Iterable[Outcome]) -> None:
        """Outcomes outside a tick: those of a release."""
        with self._alone:
            for outcome in outcomes:
                change = outcome.change
                self._changes[change.knob.name, change.ref.level.value, outcome.result.value] += 1

    def add_blind_round(self) -> None:
        with self._alone:
            self._blind_rounds += 1

    def add_problems(self, news: Collection[ConfigurationProblem]) -> None:
        """Problems of the configuration that were not there the round before."""
        with self._alone:
            self._problems += len(news)

    def counts(self) -> TickCounts:
        with self._alone:
            return TickCounts(
                ticks=self._ticks,
                early_ticks=self._early_ticks,
                blind_rounds=self._blind_rounds,
                durations=tuple(self._durations),
                duration_sum=Micros(self._duration_sum),
                changes=dict(self._changes),
                notes=dict(self._notes),
                courses=dict(self._courses),
                events=dict(self._events),
                asked=dict(self._asked),
                problems=self._problems,
                rules=self._rules.counts(),
            )


class MetricInputs(msgspec.Struct, frozen=True):
    """What the samples are made from. `policies` names all of them, also those that are off;
    `latest` is None before the first tick."""

    at: Micros
    counts: TickCounts
    policies: tuple[str, ...]
    latest: TickRecord | None = None
    problems: int = 0
    blind: bool = False
    paused: bool = False
    link: ClusterLink = NO_LINK
    ledger_problems: int = 0
    #: Alive and dead.
    threads: tuple[int, int] = (0, 0)
    starts: InterceptionCounts = InterceptionCounts()
    intercepted: bool = False


def make_samples(facts: MetricInputs) -> Iterator[MetricSample]:
    """All samples but the histograms'."""
    yield MetricSample(table.BUILD, 1, (__version__,))
    yield from _agent_samples(facts)
    yield from _policies_samples(facts)
    yield from _knobs_samples(facts)
    yield from rule_samples(facts.counts.rules, facts.latest if not facts.blind else None)
    yield from _start_samples(facts)
    yield from _cluster_samples(facts.link)
    if facts.latest is None:
        return
    yield MetricSample(table.TICK_AGE, (facts.at - facts.latest.snapshot.at) / _MICROS)
    if not facts.blind:
        yield from _node_samples(facts.latest.snapshot)
        yield from _tiers_samples(facts.latest.snapshot)
        yield from _pods_samples(facts.latest)
        yield from offer_samples(facts.latest)
        yield from _cpus_samples(facts.latest)
        yield from normalization_samples(facts.latest)


def duration_histogram(counts: TickCounts) -> tuple[list[tuple[str, float]], float]:
    """The histogram of the ticks' durations: counts up to each bound, and the sum."""
    return _histogram(BUCKETS, counts.durations, counts.duration_sum)


def answer_histogram(counts: InterceptionCounts) -> tuple[list[tuple[str, float]], float]:
    """The same of the answers to the container runtime."""
    return _histogram(ANSWER_BUCKETS, counts.durations, counts.duration_sum)


def _histogram(
    buckets: tuple[Micros, ...], durations: tuple[int, ...], total: Micros
) -> tuple[list[tuple[str, float]], float]:
    bounds = [str(bound / _MICROS) for bound in buckets] + ["+Inf"]
    upto = [float(sum(durations[: number + 1])) for number in range(len(bounds))]
    return list(zip(bounds, upto, strict=True)), total / _MICROS


def _agent_samples(facts: MetricInputs) -> Iterator[MetricSample]:
    counts = facts.counts
    yield MetricSample(table.TICKS, counts.ticks - counts.early_ticks, ("regular",))
    yield MetricSample(table.TICKS, counts.early_ticks, ("early",))
    yield MetricSample(table.BLIND_ROUNDS, counts.blind_rounds)
    yield MetricSample(table.BLIND, facts.blind)
    yield MetricSample(table.PAUSED, facts.paused)
    yield MetricSample(table.PROBLEMS, facts.problems)
    yield MetricSample(table.PROBLEMS_SEEN, counts.problems)
    yield MetricSample(table.LEDGER_PROBLEMS, facts.ledger_problems)
    for state, number in zip(("alive", "dead"), facts.threads, strict=True):
        yield MetricSample(table.THREADS, number, (state,))


def _policies_samples(facts: MetricInputs) -> Iterator[MetricSample]:
    on = facts.latest.inputs.policies if facts.latest else {}
    told = facts.latest.story.told if facts.latest and not facts.blind else ()
    if facts.latest:
        for policy in facts.policies:
            yield MetricSample(table.POLICY_ENABLED, policy in on, (policy,))
    for line in told:
        for course in PolicyAction:
            yield MetricSample(
                table.POLICY_COURSE, line.course is course, (line.policy, course.value)
            )
        for name, number in line.numbers.items():
            yield MetricSample(table.POLICY_NUMBER, number, (line.policy, name))
    for key, count in facts.counts.courses.items():
        yield MetricSample(table.POLICY_TICKS, count, key)
    yield MetricSample(
        table.THROTTLE_EVENTS, facts.counts.events.get((THROTTLE_EVENT, "cpu"), 0), ("cpu",)
    )
    standing = {line.policy for line in told if line.course is not PolicyAction.RELEASED}
    for (policy, event, resource), milli in facts.counts.asked.items():
        if event == THROTTLE_EVENT and policy in standing:
            yield MetricSample(table.THROTTLE_ASKED, _to_cores(milli), (resource,))


def _knobs_samples(facts: MetricInputs) -> Iterator[MetricSample]:
    for change, count in facts.counts.changes.items():
        yield MetricSample(table.KNOB_CHANGES, count, change)
    for (knob, level, kind), count in facts.counts.notes.items():
        metric = table.KNOB_REPAIRS if kind is NoteKind.REPAIR else table.KNOB_YIELDS
        yield MetricSample(metric, count, (knob, level))
    if facts.latest:
        yield MetricSample(table.KNOBS_HELD, len(facts.latest.snapshot.held))
        yield MetricSample(table.KNOBS_YIELDED, len(facts.latest.story.yielded))


def _start_samples(facts: MetricInputs) -> Iterator[MetricSample]:
    yield MetricSample(table.STARTS_INTERCEPTED, facts.intercepted)
    yield MetricSample(table.RUNTIME_CONNECTIONS, facts.starts.connections)
    for key, count in facts.starts.answers.items():
        yield MetricSample(table.START_ANSWERS, count, key)


def _cluster_samples(link: ClusterLink) -> Iterator[MetricSample]:
    for name, each in link.sources.items():
        yield MetricSample(table.SOURCE_AGE, each.age / _MICROS, (name,))
        yield MetricSample(table.SOURCE_SILENT, bool(each.problem), (name,))
    for result, count in link.writes.items():
        yield MetricSample(table.NODE_WRITES, count, (result,))
    for result, count in link.topology.items():
        yield MetricSample(table.TOPOLOGY_WRITES, count, (result,))
    if link.sources:
        yield MetricSample(table.TOPOLOGY_UNREPORTED, bool(link.unreported))
        yield MetricSample(table.EVENTS_LOST, link.lost)


def _node_samples(snapshot: NodeSnapshot) -> Iterator[MetricSample]:
    usages = (
        (table.ALLOCATABLE, snapshot.allocatable),
        (table.NODE_USAGE, snapshot.usage),
        (table.PODS_USAGE, snapshot.usage_of(snapshot.kubepods)),
    )
    for metric, milli in usages:
        if not isinstance(milli, Gap):
            yield MetricSample(metric, _to_cores(milli))
    yield from _pressure_samples(table.NODE_PRESSURE, snapshot.pressure)


def _tiers_samples(snapshot: NodeSnapshot) -> Iterator[MetricSample]:
    for tier, ref in snapshot.tiers.items():
        name = (tier.value,)
        if rate := snapshot.rates.get(ref.id):
            yield MetricSample(table.TIER_USAGE, _to_cores(rate.usage), name)
            yield MetricSample(table.TIER_THROTTLED, rate.throttled / 1000, name)
        if reading := snapshot.readings.get(ref.id):
            if not isinstance(reading.quota, Gap):
                yield MetricSample(table.TIER_QUOTA, _quota_cores(reading.quota), name)
            yield from _pressure_samples(table.TIER_PRESSURE, reading.pressure, name)


def _pods_samples(record: TickRecord) -> Iterator[MetricSample]:
    """By name: a pod and its successor of the same name are added up."""
    if record.inputs.agent.reading is not Reading.EVERYTHING:
        return
    usages: Counter[tuple[str, str]] = Counter()
    for pod in record.snapshot.workloads:
        rate = None if isinstance(pod.ref, Gap) else record.snapshot.rates.get(pod.ref.id)
        if rate is not None:
            usages[pod.namespace, pod.name] += rate.usage
    for labels, milli in usages.items():
        yield MetricSample(table.POD_USAGE, _to_cores(MilliCpu(milli)), labels)


def _cpus_samples(record: TickRecord) -> Iterator[MetricSample]:
    counts = count_cpus(record.snapshot, record.story.placement)
    if isinstance(counts, Gap):
        return
    for use, number in msgspec.structs.asdict(counts).items():
        yield MetricSample(table.CPUS_BY_USE, number, (use,))
    yield MetricSample(table.PODS_WITHOUT_CPUS, len(find_refused_pods(record)))


def _pressure_samples(
    metric: MetricDefinition, pressure: CpuPressure | Gap, of: tuple[str, ...] = ()
) -> Iterator[MetricSample]:
    if isinstance(pressure, Gap):
        return
    for name, line in (("some", pressure.some), ("full", pressure.full)):
        if line is not None:
            yield MetricSample(metric, line.total / _MICROS, (*of, name))


def _quota_cores(quota: Bandwidth) -> float:
    """Exactly the kernel's quota, not rounded to milliCPU."""
    return _UNLIMITED if isinstance(quota.limit, Unlimited) else quota.limit / quota.period


def _to_cores(milli: MilliCpu) -> float:
    return milli / 1000
