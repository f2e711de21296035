"""The rules of QoS ensurance that are for this node, and one look at each of them in a tick."""

import math
from collections.abc import Iterable, Mapping

import msgspec

from slackwater.contract.crane.ensurance import (
    AvoidanceAction,
    MetricRule,
    Policy,
    Rule,
    Strategy,
)
from slackwater.contract.crane.ensurance_set import EnsuranceObjects, policy_title
from slackwater.contract.crane.metrics import is_known, is_of_users
from slackwater.contract.ensurance_plugin import PluginState
from slackwater.model.decision import Because, RuleState
from slackwater.model.gap import Gap
from slackwater.model.metric import NODE, MetricKey, Sample, Samples
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Micros
from slackwater.policies.ensurance.counting import (
    CountingRule,
    RuleMemory,
    Verdict,
    cools_until,
    count_measurement,
    end_cool_down,
    note_missing,
)
from slackwater.policies.ensurance.metric_attributes import MetricAttributes, attributes_of
from slackwater.policies.ensurance.throttle import ThrottleRatios

#: Titles of objects that are sources of metrics by themselves begin so: a rule names a metric of
#: one as PodQOS/web:latency_seconds.
_OTHER_SOURCES = ("PodQOS/", "EnsuranceMetric/")


_WHOLE_PERCENT = 100


class BoundRule(msgspec.Struct, frozen=True, omit_defaults=True):
    """A rule, the title of its object, where its metric comes from, and its action. A measurement
    may be `max_age` seconds old; 0 sets no bound."""

    policy: str
    rule: Rule
    source: str = NODE
    action: AvoidanceAction | None = None
    max_age: int = 0
    #: Of a metric of one's own, which the rule names otherwise.
    metric: MetricKey | None = None

    def title(self) -> str:
        return f"{self.policy}/{self.rule.name}"

    def key(self) -> MetricKey:
        if self.metric is not None:
            return self.metric
        name = self.rule.metric_rule.name
        return MetricKey(name.removeprefix(f"{self.source}:") if self.source else name, self.source)

    def limit(self) -> float:
        """Crane's own metrics compare with whole numbers, rounded up; all others exactly."""
        metric = self.rule.metric_rule
        return float(metric.limit) if self.key().source == NODE else metric.exact_limit

    def acts(self) -> bool:
        return self.action is not None and self.rule.strategy is not Strategy.PREVIEW

    def ratios(self) -> ThrottleRatios | None:
        """Where the action throttles."""
        throttle = self.action.spec.throttle if self.action else None
        cpu = throttle.cpu_throttle if throttle else None
        return ThrottleRatios(cpu.step_ratio, cpu.min_ratio) if cpu else None

    def evicts(self) -> bool:
        return self.action is not None and self.action.spec.eviction is not None

    def stops_scheduling(self) -> bool:
        spec = self.action.spec if self.action else None
        return spec is not None and spec.throttle is None and spec.eviction is None

    def cool_down(self) -> int:
        return self.action.spec.cool_down_seconds if self.action else 0


def bind_rule(policy: Policy, rule: Rule, ensurance: EnsuranceObjects) -> BoundRule:
    probe = policy.spec.node_quality_probe
    title = policy_title(policy)
    local = probe.node_local_get
    action = ensurance.action(rule.action_name)
    own = ensurance.metric(rule.metric_rule.name)
    if own is not None:
        age = own.spec.source.max_age_seconds
        return BoundRule(title, rule, own.key().source, action, age, own.key())
    plugin = ensurance.measuring_plugin(rule.metric_rule.name)
    if plugin is not None:
        key = MetricKey(rule.metric_rule.name, plugin.title())
        return BoundRule(title, rule, key.source, action, metric=key)
    named = _named_source(rule.metric_rule.name)
    source = named or (NODE if local is not None else title)
    return BoundRule(title, rule, source, action, local.cache_seconds if local else 0)


def _named_source(metric: str) -> str:
    title, colon, _ = metric.partition(":")
    return title if colon and title.startswith(_OTHER_SOURCES) else ""


def describe_flaw(
    bound: BoundRule, known: Iterable[MetricAttributes], plugins: Iterable[PluginState] = ()
) -> str:
    """What keeps a rule from doing anything when it is triggered; empty where nothing does."""
    name, key = bound.rule.action_name, bound.key()
    if bound.action is None:
        return f"there is no AvoidanceAction {name}, so nothing is done"
    if key.source == NODE and not is_known(key.name):
        if "/" in key.name:
            return _describe_unmeasured(key.name, plugins)
        kind = "EnsuranceMetric" if is_of_users(key.name) else "metric"
        return f"there is no {kind} {key.name}"
    attributes = attributes_of(key, known)
    ratios = bound.ratios()
    if ratios is not None and not attributes.throttleable and not bound.evicts():
        return f"no pod can be throttled because of {key.name}, so {name} does nothing"
    if bound.evicts() and not attributes.evictable and ratios is None:
        return f"no pod can be evicted because of {key.name}, so {name} does nothing"
    if ratios is not None and not ratios.step:
        return f"stepCPURatio of {name} is 0, which throttles nothing"
    return ""


def _describe_unmeasured(metric: str, plugins: Iterable[PluginState]) -> str:
    """One that was not loaded, or is off, did not say what it measures: it may be the one."""
    silent = [
        f"{each.name}: {each.problem or 'it is being loaded'}"
        for each in plugins
        if each.attributes is None
    ]
    return "; ".join((f"no plug-in that is switched on measures {metric}", *silent))


#: Metrics that cannot be above what another metric of the node says, times the number.
_LARGEST: Mapping[str, tuple[str, int]] = {
    "cpu_total_usage": ("cpu_core_numbers", 1000),
    "memory_total_usage": ("memory_total", 1),
}
_PERCENTS = frozenset(
    {"cpu_total_utilization", "memory_total_utilization", "disk_read_utilization"}
)


def size_metric(bound: BoundRule) -> MetricKey | None:
    """What says how large the rule's metric can be on this node."""
    key = bound.key()
    if key.source != NODE or key.name not in _LARGEST:
        return None
    return MetricKey(_LARGEST[key.name][0])


def why_never_above(snapshot: NodeSnapshot, bound: BoundRule) -> str:
    """Where the rule's value is more than the metric can be on this node; empty where it is not,
    or nobody knows."""
    key, limit = bound.key(), bound.limit()
    if key.source != NODE:
        return ""
    if key.name in _PERCENTS and limit >= _WHOLE_PERCENT:
        return f"it never triggers: {key.name} is {_WHOLE_PERCENT} at the most"
    size = size_metric(bound)
    samples = snapshot.metric(size) if size is not None else ()
    if isinstance(samples, Gap) or not samples:
        return ""
    most = samples[0].value * _LARGEST[key.name][1]
    if limit < most:
        return ""
    return f"it never triggers: {key.name} is {format_number(most)} at the most on this node"


class RuleLook(msgspec.Struct, frozen=True):
    """One rule in this tick, after counting. `seen` is the largest of the series that count;
    `missing` says why there is none."""

    bound: BoundRule
    attributes: MetricAttributes
    limit: float
    memory: RuleMemory
    counting: CountingRule
    verdict: Verdict = Verdict.NONE
    seen: float | None = None
    missing: str = ""
    until: Micros | None = None

    def title(self) -> str:
        return self.bound.title()

    def is_triggered(self) -> bool:
        """In this tick, by a rule that acts."""
        return self.verdict is Verdict.TRIGGERED and self.bound.acts()

    def stays_triggered(self) -> bool:
        """In this tick, or by the last measurement of a source that is slower than the ticks."""
        return self.memory.state is RuleState.TRIGGERED and self.bound.acts()

    def is_in_force(self) -> bool:
        """What it did stands."""
        return self.bound.acts() and self.memory.state is not RuleState.QUIET

    def because(self) -> Because:
        seen = "unknown" if self.seen is None else format_number(self.seen)
        signal = f"{self.title()}: {self.bound.key().name}"
        return Because(signal, seen, f"limit {format_number(self.limit)}")


def format_number(number: float) -> str:
    return f"{number:.0f}" if float(number).is_integer() else f"{number:.4g}"


class LookSettings(msgspec.Struct, frozen=True):
    longest_factor: int
    hold_for: Micros


def look_at_rules(
    snapshot: NodeSnapshot,
    memories: Mapping[str, RuleMemory],
    rules: Iterable[BoundRule],
    known: tuple[MetricAttributes, ...],
    settings: LookSettings,
) -> tuple[RuleLook, ...]:
    """A look before its time counts nothing, and a measurement counts once: a source that is slower
    than the ticks says the same to several of them."""
    looks = tuple(_count(snapshot, memories, each, known, settings) for each in rules)
    last = _last_triggers(looks)
    return tuple(_cool_down(each, last, snapshot.at) for each in looks)


def _count(
    snapshot: NodeSnapshot,
    memories: Mapping[str, RuleMemory],
    bound: BoundRule,
    known: tuple[MetricAttributes, ...],
    settings: LookSettings,
) -> RuleLook:
    rule, key, limit = bound.rule, bound.key(), bound.limit()
    about = f"{key.title()} {rule.action_name} {rule.strategy.value}"
    memory = memories.get(bound.title(), RuleMemory(about))
    if memory.about != about:
        memory = RuleMemory(about)
    counting = CountingRule(
        rule.avoidance_threshold, rule.restores_after, bound.cool_down(), settings.longest_factor
    )
    look = RuleLook(bound, attributes_of(key, known), limit, memory, counting)
    largest = largest_series(snapshot.metric(key), rule.metric_rule)
    if isinstance(largest, Gap):
        memory = note_missing(memory, snapshot.at, settings.hold_for, largest)
        return msgspec.structs.replace(look, memory=memory, missing=largest.reason)
    seen = largest.value
    if snapshot.early or _was_counted(largest, key, memory):
        return msgspec.structs.replace(look, seen=seen)
    memory, verdict = count_measurement(memory, counting, is_above=seen > limit, at=snapshot.at)
    if memory.measured_at != largest.at:
        memory = msgspec.structs.replace(memory, measured_at=largest.at)
    return msgspec.structs.replace(look, memory=memory, verdict=verdict, seen=seen)


def _was_counted(sample: Sample, key: MetricKey, memory: RuleMemory) -> bool:
    """The node's own metrics are measured in each tick: one of an earlier tick was kept, as it
    could not be measured in this one."""
    return sample.at is not None and (key.source == NODE or sample.at == memory.measured_at)


def largest_series(samples: Samples | Gap, metric: MetricRule) -> Sample | Gap:
    """One series above the value is enough, so the largest decides; of equal ones the newest."""
    if isinstance(samples, Gap):
        return samples
    selector = metric.selector
    chosen = [each for each in samples if selector is None or selector.selects(each.labels)]
    numbers = [each for each in chosen if not math.isnan(each.value)]
    if numbers:
        return max(numbers, key=lambda each: (each.value, each.at or 0))
    return Gap(f"{metric.name} is not a number" if chosen else _none_selected(metric, samples))


def _none_selected(metric: MetricRule, samples: Samples) -> str:
    return f"no series of {metric.name} is selected" if samples else f"{metric.name} has no series"


def _last_triggers(looks: Iterable[RuleLook]) -> dict[str, Micros]:
    """Of each action, by rules that act."""
    found: dict[str, Micros] = {}
    for look in looks:
        at, name = look.memory.triggered_at, look.bound.rule.action_name
        if at is not None and look.bound.acts():
            found[name] = max(at, found.get(name, at))
    return found


def _cool_down(look: RuleLook, last: Mapping[str, Micros], at: Micros) -> RuleLook:
    memory = look.memory
    if memory.state is not RuleState.COOLING or memory.triggered_at is None:
        return look
    own = memory.triggered_at
    last_trigger = last.get(look.bound.rule.action_name, own) if look.bound.acts() else own
    until = cools_until(memory, look.counting, last_trigger)
    if look.verdict is Verdict.RESTORED:
        memory = end_cool_down(memory, look.counting, last_trigger, at)
    still = memory.state is RuleState.COOLING
    return msgspec.structs.replace(look, memory=memory, until=until if still else None)
