"""QoS ensurance: while a metric is above a rule's watermark, what may yield on this node yields.

Crane's interference detection and active avoidance as one policy. The rules are those of the
NodeQOS and NodeQOSEnsurancePolicy objects for this node; an AvoidanceAction stops scheduling,
throttles or evicts. What was done is undone step by step when the rule is restored and its
cool-down is over, and at once when the rule, its action or its object goes. A rule whose metric is
missing holds by itself; the others go on.

How rules count is in ensurance_counting, who may be touched in ensurance_selection, in which order
in ensurance_order, how much in ensurance_relief and ensurance_throttle, what is told in
ensurance_reports.
"""

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from slackwater.contract.crane.ensurance_set import EnsuranceObjects
from slackwater.contract.crane.pod_qos import PodQos
from slackwater.contract.ensurance_plugin import PluginName, PluginState
from slackwater.contract.node_interference import CONDITION, TAINT
from slackwater.contract.schema import BOUND, Count, Duration, Percentage, SettingsStruct
from slackwater.model.cgroup import Level
from slackwater.model.decision import (
    Act,
    Because,
    Command,
    CommandKind,
    Decision,
    Intent,
    Remark,
)
from slackwater.model.knob import QUOTA, KnobKey
from slackwater.model.metric import MetricKey, MetricRequest
from slackwater.model.needs import Needs, ReadingField
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Micros, Percent
from slackwater.model.workload import Workload
from slackwater.policies.ensurance_avoidance import (
    PodChoice,
    Throttled,
    ThrottlePass,
    choose_evictions,
    keep_supported,
)
from slackwater.policies.ensurance_counting import RuleMemory, end_restoring
from slackwater.policies.ensurance_metrics import (
    NODE_METRICS,
    MetricAttributes,
    ReleaseCount,
    SortKey,
    attributes_of,
    describe_metric,
    describe_plugin,
)
from slackwater.policies.ensurance_order import EVICT_RELEASE, MEMORY_USAGE, PLACE, THROTTLE_RELEASE
from slackwater.policies.ensurance_relief import TriggeredMetric, group_by_metric
from slackwater.policies.ensurance_reports import Relief, list_figures, report_rule
from slackwater.policies.ensurance_rules import (
    BoundRule,
    LookSettings,
    RuleLook,
    bind_rule,
    describe_flaw,
    format_number,
    look_at_rules,
)
from slackwater.policies.ensurance_selection import explain_selection, remark_on_pod_qos
from slackwater.policies.ensurance_throttle import claim_intents, demotion_intents
from slackwater.policies.eviction_budget import (
    EvictionBudget,
    EvictionMemory,
    admit_evictions,
    evictions_in_flight,
    note_in_flight,
    relief_in_flight,
    why_no_eviction,
)
from slackwater.policies.policy import Policy

_SECOND = 1_000_000


class TaintEffect(enum.Enum):
    """What the node's taint does to pods that do not tolerate it."""

    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_SCHEDULE = "NoSchedule"


class WatermarkReliefSettings(SettingsStruct, frozen=True):
    """Settings of QoS ensurance; its rules are objects."""

    enabled: Annotated[
        bool,
        Meta(
            description="Whether rules of NodeQOS and NodeQOSEnsurancePolicy objects are acted on. "
            "Without such objects there is nothing to do.",
        ),
    ] = True
    taint_effect: Annotated[
        TaintEffect,
        Meta(
            description="The effect of the taint interference.crane.io, which an action without "
            "throttle and eviction puts on the node.",
        ),
    ] = TaintEffect.PREFER_NO_SCHEDULE
    demote: Annotated[
        bool,
        Meta(
            description="Whether a throttled pod also has cpu.idle, or the lowest weight, until it "
            "is restored. A quota alone does not protect the latency of others.",
        ),
    ] = True
    excess: Annotated[
        Percentage,
        Meta(
            ge=0,
            le=100,
            description="How far below its watermark a metric is brought, as a fraction of the gap "
            "to it.",
        ),
    ] = Percent(10)
    evictions_per_tick: Annotated[
        Count,
        Meta(ge=0, le=100, description="How many pods are evicted in one tick at the most."),
    ] = 5
    evictions_per_minute: Annotated[
        Count,
        Meta(ge=0, le=1000, description="How many pods are evicted in one minute at the most."),
    ] = 10
    settle: Annotated[
        Duration,
        Meta(
            ge=0,
            le=600 * _SECOND,
            description="How long to wait after an eviction, and after an evicted pod is gone, "
            "before more pods are chosen: what it brought is not measured at once.",
        ),
    ] = Micros(10 * _SECOND)
    longest_factor: Annotated[
        Count,
        Meta(
            ge=1,
            le=1024,
            description="A rule that triggers again within its cool-down after it was restored "
            "waits twice as long the next time, up to this many times the action's "
            "coolDownSeconds. Each such time without a trigger halves it again. 1 never waits "
            "longer.",
        ),
    ] = 16
    plugins: Annotated[
        tuple[PluginName, ...],
        Meta(
            max_length=16,
            extra={BOUND: "at most 16 names of letters, digits, '-', '_' and '.'"},
            description="Plug-ins to load, by the names of their entry points: metrics and orders "
            "of pods of one's own, in Python. Each runs in a process of its own.",
        ),
    ] = ()
    hold_for: Annotated[
        Duration,
        Meta(
            ge=_SECOND,
            le=600 * _SECOND,
            description="How long a rule's throttles and its taint stay while its metric is "
            "missing. Then they are released.",
        ),
    ] = Micros(30 * _SECOND)


class WatermarkRules(WatermarkReliefSettings, frozen=True):
    """The settings, and what the cluster's objects add to them on this node. `metrics` are the
    attributes of metrics; `remarks` what is wrong with the rules."""

    rules: tuple[BoundRule, ...] = ()
    pod_qos: tuple[PodQos, ...] = ()
    metrics: tuple[MetricAttributes, ...] = NODE_METRICS
    remarks: tuple[Remark, ...] = ()


NAME = "watermark_relief"
#: In ticks: until counters have a first difference; and at the most.
_FIRST_SAMPLES, _LONGEST_SETTLING = 2, 30
_TIMES = frozenset({ReadingField.TIMES})
_QUOTA = frozenset({ReadingField.QUOTA})
_WEIGHTS = frozenset({ReadingField.WEIGHT, ReadingField.IDLE})


def bind(
    settings: WatermarkReliefSettings, ensurance: EnsuranceObjects, labels: Mapping[str, str]
) -> WatermarkRules | str:
    """With the rules for a node with these labels."""
    rules = tuple(
        bind_rule(policy, rule, ensurance) for policy, rule in ensurance.rules_for(labels)
    )
    if not rules:
        return "there is no NodeQOS for this node"
    metrics = (*NODE_METRICS, *map(describe_metric, ensurance.metrics))
    metrics = (*_describe_plugins(ensurance.plugins, rules, metrics), *metrics)
    return WatermarkRules(
        **msgspec.structs.asdict(settings),
        rules=rules,
        pod_qos=ensurance.pod_qos,
        remarks=tuple(
            Remark(each.title(), flaw) for each in rules if (flaw := describe_flaw(each, metrics))
        )
        + tuple(Remark(each.title(), each.problem) for each in ensurance.plugins if each.problem),
        metrics=metrics,
    )


def _describe_plugins(
    plugins: Iterable[PluginState],
    rules: Sequence[BoundRule],
    known: tuple[MetricAttributes, ...],
) -> Iterator[MetricAttributes]:
    for plugin in plugins:
        name = plugin.attributes.name if plugin.attributes else ""
        keys = {each.key(): None for each in rules if each.rule.metric_rule.name == name}
        yield from describe_plugin(plugin, keys, known)


def needs(settings: WatermarkRules, _: frozenset[KnobKey]) -> Needs:
    """Pods and containers only where a rule touches some."""
    metrics = {MetricRequest(each.key(), each.max_age) for each in settings.rules}
    fields: dict[Level, frozenset[ReadingField]] = {}
    acting = [each for each in settings.rules if each.acts()]
    touching = [each for each in acting if each.ratios() or each.evicts()]
    for each in touching:
        metrics.update(_needed_for(attributes_of(each.key(), settings.metrics)))
    if touching:
        fields[Level.POD] = _TIMES
    if any(each.ratios() for each in touching):
        # On cgroup v1 the quotas above bind what is below them.
        fields = {
            Level.TIER: _QUOTA,
            Level.POD: _TIMES | _QUOTA | (_WEIGHTS if settings.demote else frozenset()),
            Level.CONTAINER: _TIMES | _QUOTA,
        }
    return Needs(fields, frozenset(metrics))


def _needed_for(attributes: MetricAttributes) -> Iterator[MetricRequest]:
    if attributes.whole is not None:
        yield MetricRequest(MetricKey(attributes.whole.metric))
    if attributes.plugin:
        yield MetricRequest(MEMORY_USAGE)
        for each in (PLACE, THROTTLE_RELEASE, EVICT_RELEASE):
            yield MetricRequest(MetricKey(each, attributes.plugin))
    by = {rule.key for rule in attributes.sort}
    if attributes.release is ReleaseCount.MEMORY or SortKey.MEMORY_USAGE in by:
        yield MetricRequest(MEMORY_USAGE)


class WatermarkMemory(msgspec.Struct, frozen=True, omit_defaults=True):
    """Rules by their titles, throttled pods by their uids, and the evictions."""

    rules: dict[str, RuleMemory] = {}
    throttled: Throttled = {}
    evictions: EvictionMemory = EvictionMemory()
    #: How many ticks the policy has been on for, up to what it needs to have looked at each rule.
    ticks: int = 0


def decide(snapshot: NodeSnapshot, memory: WatermarkMemory, settings: WatermarkRules) -> Decision:
    looks = look_at_rules(
        snapshot,
        memory.rules,
        settings.rules,
        settings.metrics,
        LookSettings(settings.longest_factor, settings.hold_for),
    )
    relief = Relief(memory.throttled, memory.evictions)
    progress = bool(snapshot.in_flight or memory.evictions.in_flight or memory.evictions.asked)
    if memory.throttled or progress or any(each.is_triggered() for each in looks):
        relief = _relieve(snapshot, memory, settings, looks)
    looks = _finish_restoring(looks, relief.throttled, snapshot.at)
    # After a restart the rules count from nothing: before one could trigger again, what the run
    # before left is not undone.
    ticks = min(memory.ticks + 1, _ticks_to_settle(settings.rules))
    return Act(
        tuple(_intents(snapshot, relief.throttled, settings)),
        WatermarkMemory(
            {each.title(): each.memory for each in looks},
            relief.throttled,
            relief.evictions,
            ticks,
        ),
        dict(list_figures(relief)),
        (),
        settings.remarks + relief.remarks,
        (*_scheduling(looks, settings), *relief.commands),
        tuple(report_rule(each, relief, snapshot) for each in looks),
        ticks < _ticks_to_settle(settings.rules),
    )


def _ticks_to_settle(rules: Iterable[BoundRule]) -> int:
    """The first sample of a counter is missing, so more than any rule counts; bounded, as a rule
    may count to any number."""
    counts = (each.rule.avoidance_threshold for each in rules if each.acts())
    return min(max(counts, default=0) + _FIRST_SAMPLES, _LONGEST_SETTLING)


def _relieve(
    snapshot: NodeSnapshot,
    memory: WatermarkMemory,
    settings: WatermarkRules,
    looks: tuple[RuleLook, ...],
) -> Relief:
    choice = PodChoice(snapshot, settings.pod_qos)
    triggered = [each for each in looks if each.is_triggered()]
    throttling = _group(snapshot, settings, (each for each in triggered if each.bound.ratios()))
    kept = keep_supported(memory.throttled, looks, choice)
    throttle = ThrottlePass(snapshot, kept, choice, demote=settings.demote)
    throttle.lower(throttling)
    restored = snapshot.early or throttle.restore(looks)
    evicting = _group(snapshot, settings, (each for each in triggered if each.bound.evicts()))
    evictions, commands, forbidden = _evict(snapshot, memory.evictions, settings, evicting, choice)
    return Relief(
        throttle.throttled,
        evictions,
        commands,
        tuple(throttling or evicting),
        tuple(_remark_on_choice(snapshot, settings, triggered)),
        forbidden,
        not restored,
        throttle.is_exhausted,
    )


def _group(
    snapshot: NodeSnapshot, settings: WatermarkRules, looks: Iterable[RuleLook]
) -> list[TriggeredMetric]:
    progress = evictions_in_flight(snapshot)
    return group_by_metric(
        snapshot, looks, settings.excess, lambda key: relief_in_flight(progress, key)
    )


def _evict(
    snapshot: NodeSnapshot,
    memory: EvictionMemory,
    settings: WatermarkRules,
    metrics: Sequence[TriggeredMetric],
    choice: PodChoice,
) -> tuple[EvictionMemory, tuple[Command, ...], str]:
    """What is remembered of evictions, those that are asked for, and why there is none."""
    progress = evictions_in_flight(snapshot)
    memory = note_in_flight(memory, progress, snapshot.at)
    if not metrics:
        return memory, (), ""
    budget = EvictionBudget(
        settings.evictions_per_tick, settings.evictions_per_minute, settings.settle
    )
    forbidden = why_no_eviction(snapshot, memory, progress, budget)
    if forbidden:
        return memory, (), forbidden
    going = frozenset(each.command.uid for each in progress)
    wanted = choose_evictions(snapshot, metrics, choice, going, budget.per_tick, NAME)
    commands, memory = admit_evictions(wanted, memory, budget, snapshot.at)
    closed = all(each.gap is not None and each.gap <= 0 for each in metrics)
    return memory, commands, "" if wanted or closed else "there is no pod whose eviction would help"


def _remark_on_choice(
    snapshot: NodeSnapshot, settings: WatermarkRules, triggered: Iterable[RuleLook]
) -> Iterator[Remark]:
    actions = frozenset(
        each.bound.rule.action_name
        for each in triggered
        if each.bound.ratios() or each.bound.evicts()
    )
    if actions:
        yield from remark_on_pod_qos(snapshot.workloads, settings.pod_qos, actions)


def _finish_restoring(
    looks: tuple[RuleLook, ...], throttled: Throttled, at: Micros
) -> tuple[RuleLook, ...]:
    """A rule is restored when no pod is throttled because of it any more."""
    busy = {title for each in throttled.values() for title in each.rules}
    return tuple(
        look
        if look.title() in busy
        else msgspec.structs.replace(look, memory=end_restoring(look.memory, at))
        for look in looks
    )


def _intents(
    snapshot: NodeSnapshot, throttled: Throttled, settings: WatermarkRules
) -> Iterator[Intent]:
    if not throttled:
        return
    for pod in snapshot.workloads:
        each = throttled.get(pod.uid)
        if each is not None:
            yield from claim_intents(pod, each.claims, each.because, NAME)
            if settings.demote:
                yield from demotion_intents(snapshot, pod, each.because, NAME)


def _scheduling(looks: Iterable[RuleLook], settings: WatermarkRules) -> Iterator[Command]:
    """The taint and the condition, while any rule asks for them."""
    asking = [look for look in looks if look.is_in_force() and look.bound.stops_scheduling()]
    if asking:
        first = asking[0]
        because = Because(
            f"{first.title()}: {first.bound.key().name}",
            first.memory.state.value,
            format_number(first.limit),
        )
        effect = settings.taint_effect.value
        yield Command(f"taint/{TAINT}", CommandKind.TAINT, TAINT, because, NAME, value=effect)
        yield Command(f"condition/{CONDITION}", CommandKind.CONDITION, CONDITION, because, NAME)


def explain_pod(settings: WatermarkRules, snapshot: NodeSnapshot, pod: Workload) -> tuple[str, ...]:
    touching = (each for each in settings.rules if each.acts() and (each.ratios() or each.evicts()))
    actions = frozenset(each.rule.action_name for each in touching)
    return explain_selection(snapshot.workloads, settings.pod_qos, actions, pod)


POLICY = Policy(
    NAME,
    WatermarkMemory(),
    needs,
    decide,
    settings=WatermarkReliefSettings,
    description="stops scheduling, throttles and evicts above a watermark",
    knobs=((QUOTA.name,),),
    level=Level.CONTAINER,
    bind=bind,
    bound_settings=WatermarkRules,
    explain_pod=explain_pod,
)
