"""QoS ensurance: while a metric is above a rule's watermark, what may yield on this node yields.

Crane's interference detection and active avoidance as one policy. The rules are those of the
NodeQOS and NodeQOSEnsurancePolicy objects for this node; an AvoidanceAction stops scheduling,
throttles or evicts. What was done is undone step by step when the rule is restored and its
cool-down is over, and at once when the rule, its action or its object goes. A rule whose metric is
missing holds by itself; the others go on.

How rules count is in counting, who may be touched in pod_selection, in which order in pod_order,
how much in relief and throttle, what is told in rule_reports.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from slackwater.contract.node_interference import CONDITION, TAINT
from slackwater.model.cgroup import CgroupRef, Level
from slackwater.model.decision import (
    Act,
    Because,
    Command,
    CommandKind,
    Decision,
    Intent,
    Remark,
    RuleReport,
    RuleState,
)
from slackwater.model.knob import QUOTA, KnobKey
from slackwater.model.metric import MetricKey, MetricRequest
from slackwater.model.needs import Needs, ReadingField
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Micros
from slackwater.model.workload import Workload
from slackwater.policies.ensurance.avoidance import (
    PodChoice,
    Throttled,
    ThrottlePass,
    choose_evictions,
    keep_supported,
)
from slackwater.policies.ensurance.bound_rules import (
    BoundRule,
    LookSettings,
    RuleLook,
    format_number,
    look_at_rules,
    size_metric,
    why_never_above,
)
from slackwater.policies.ensurance.counting import (
    RuleMemory,
    end_restoring,
    keep_rule,
    resume_rule,
)
from slackwater.policies.ensurance.eviction_budget import (
    EvictionBudget,
    EvictionMemory,
    admit_evictions,
    evictions_in_flight,
    judge_evictions,
    note_in_flight,
    relief_in_flight,
    why_no_eviction,
)
from slackwater.policies.ensurance.metric_attributes import (
    MetricAttributes,
    ReleaseCount,
    SortKey,
    attributes_of,
)
from slackwater.policies.ensurance.pod_order import (
    EVICT_RELEASE,
    MEMORY_USAGE,
    PLACE,
    THROTTLE_RELEASE,
)
from slackwater.policies.ensurance.pod_selection import explain_selection, remark_on_pod_qos
from slackwater.policies.ensurance.relief import TriggeredMetric, group_by_metric
from slackwater.policies.ensurance.rule_reports import (
    Relief,
    explain_numbers,
    list_figures,
    report_rule,
)
from slackwater.policies.ensurance.throttle import claim_intents, demotion_intents
from slackwater.policies.ensurance.watermark_settings import (
    WatermarkReliefSettings,
    WatermarkRules,
    bind,
)
from slackwater.policies.policy import Policy

NAME = "watermark_relief"
#: In ticks: until counters have a first difference; and at the most.
_FIRST_SAMPLES, _LONGEST_SETTLING = 2, 30
_IN_VAIN = (
    "evicting pods did not lower it; a rule whose action stops scheduling keeps their "
    "replacements away"
)
#: Of a rule's value: as far below it what pods use is read already.
_NEAR = 0.2
_TIMES = frozenset({ReadingField.TIMES})
_QUOTA = frozenset({ReadingField.QUOTA})
_WEIGHTS = frozenset({ReadingField.WEIGHT, ReadingField.IDLE})


def needs(settings: WatermarkRules, _: frozenset[KnobKey]) -> Needs:
    """Pods and containers only where a rule touches some."""
    metrics = {MetricRequest(each.key(), each.max_age) for each in settings.rules}
    metrics.update(
        MetricRequest(size) for each in settings.rules if (size := size_metric(each)) is not None
    )
    fields: dict[Level, frozenset[ReadingField]] = {}
    touching = _touching(settings)
    for each in touching:
        metrics.update(_needed_for(attributes_of(each.key(), settings.metrics)))
    if touching:
        fields[Level.POD] = frozenset()
    if any(each.ratios() for each in touching):
        # On cgroup v1 the quotas above bind what is below them.
        fields = {
            Level.TIER: _QUOTA,
            Level.POD: _QUOTA | (_WEIGHTS if settings.demote else frozenset()),
            Level.CONTAINER: _QUOTA,
        }
    return Needs(fields, frozenset(metrics))


def needs_for_now(settings: WatermarkRules, memory: "WatermarkMemory") -> Needs:
    """What pods and containers use, while a rule is about to need it: reading it all the time costs
    more than everything else that the agent does."""
    touching = _touching(settings)
    if not memory.watches or not touching:
        return Needs()
    levels = [Level.POD]
    if any(each.ratios() for each in touching):
        levels.append(Level.CONTAINER)
    attributes = [attributes_of(each.key(), settings.metrics) for each in touching]
    memory_counts = any(map(_counts_memory, attributes))
    metrics = frozenset({MetricRequest(MEMORY_USAGE)} if memory_counts else ())
    return Needs(dict.fromkeys(levels, _TIMES), metrics)


def _touching(settings: WatermarkRules) -> list[BoundRule]:
    """The rules that throttle or evict."""
    acting = (each for each in settings.rules if each.acts())
    return [each for each in acting if each.ratios() or each.evicts()]


def _needed_for(attributes: MetricAttributes) -> Iterator[MetricRequest]:
    if attributes.whole is not None:
        yield MetricRequest(MetricKey(attributes.whole.metric))
    if attributes.plugin:
        yield MetricRequest(MEMORY_USAGE)
        for each in (PLACE, THROTTLE_RELEASE, EVICT_RELEASE):
            yield MetricRequest(MetricKey(each, attributes.plugin))


def _counts_memory(attributes: MetricAttributes) -> bool:
    by = {rule.key for rule in attributes.sort}
    return attributes.release is ReleaseCount.MEMORY or SortKey.MEMORY_USAGE in by


class WatermarkMemory(msgspec.Struct, frozen=True, omit_defaults=True):
    """Rules by their titles, throttled pods by their uids, and the evictions."""

    rules: dict[str, RuleMemory] = {}
    throttled: Throttled = {}
    evictions: EvictionMemory = EvictionMemory()
    #: How many ticks the policy has been on for, up to what it needs to have looked at each rule.
    ticks: int = 0
    #: Whether what pods use is read in the next tick.
    watches: bool = True


def keep(memory: WatermarkMemory, _now: int) -> WatermarkMemory:
    """Rules that are in force or wait longer for having been, throttled pods, and evictions."""
    return WatermarkMemory(
        {
            title: keep_rule(each)
            for title, each in memory.rules.items()
            if each.state is not RuleState.QUIET or each.factor > 1
        },
        memory.throttled,
        memory.evictions,
    )


def _resume(memory: WatermarkMemory, at: Micros) -> WatermarkMemory:
    """What an earlier run left is undone by its own rules: cooled down, and step by step."""
    rules = {title: resume_rule(each, at) for title, each in memory.rules.items()}
    return msgspec.structs.replace(memory, rules=rules)


def decide(snapshot: NodeSnapshot, memory: WatermarkMemory, settings: WatermarkRules) -> Decision:
    if not memory.ticks:
        memory = _resume(memory, snapshot.at)
    looks = look_at_rules(
        snapshot,
        memory.rules,
        settings.rules,
        settings.metrics,
        LookSettings(settings.longest_factor, settings.hold_for),
    )
    relief = Relief(memory.throttled, memory.evictions)
    progress = bool(evictions_in_flight(snapshot) or memory.evictions.waits_for())
    if memory.throttled or progress or any(each.stays_triggered() for each in looks):
        relief = _relieve(snapshot, memory, settings, looks)
    looks = _finish_restoring(looks, relief.throttled, snapshot.at)
    # After a restart the rules count from nothing: before one could trigger again, what the run
    # before left is not undone.
    ticks = min(memory.ticks + 1, _ticks_to_settle(settings.rules))
    is_settling = ticks < _ticks_to_settle(settings.rules)
    watches = is_settling or bool(relief.throttled) or progress or any(map(_is_watched, looks))
    return Act(
        tuple(_intents(snapshot, relief.throttled, settings)),
        WatermarkMemory(
            {each.title(): each.memory for each in looks},
            relief.throttled,
            relief.evictions,
            ticks,
            watches,
        ),
        dict(list_figures(relief)),
        (),
        (*settings.remarks, *_remark_on_size(snapshot, settings.rules), *relief.remarks),
        (*_scheduling(looks, settings), *relief.commands),
        _report(looks, relief, snapshot, settings),
        is_settling=is_settling,
    )


def _report(
    looks: Iterable[RuleLook], relief: Relief, snapshot: NodeSnapshot, settings: WatermarkRules
) -> tuple[RuleReport, ...]:
    flaws = {each.about: each.text for each in settings.remarks}
    return tuple(report_rule(each, relief, snapshot, flaws.get(each.title(), "")) for each in looks)


def _is_watched(look: RuleLook) -> bool:
    """Whether it may throttle or evict soon: it counts, it is in force, or one measurement is
    enough and it is near its value."""
    if not look.bound.acts() or not (look.bound.ratios() or look.bound.evicts()):
        return False
    is_near = (
        look.counting.avoidance <= 1 and look.seen is not None and look.seen > _near(look.limit)
    )
    return is_near or look.memory.above > 0 or look.memory.state is not RuleState.QUIET


def _near(limit: float) -> float:
    return limit - _NEAR * abs(limit)


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
    choice = PodChoice(snapshot, settings.selection())
    triggered = [each for each in looks if each.is_triggered()]
    throttling = _group(snapshot, settings, (each for each in triggered if each.bound.ratios()))
    evicting = _group(snapshot, settings, (each for each in triggered if each.bound.evicts()))
    kept = keep_supported(memory.throttled, looks, choice)
    throttle = ThrottlePass(snapshot, kept, choice, demote=settings.demote)
    is_blind = not memory.watches and not _knows_usage(snapshot)
    throttle.lower([m for m in throttling if not is_blind or throttle.only_demotes(m)])
    restored = snapshot.early or throttle.restore(looks)
    evictions, commands, forbidden = _evict(
        snapshot, memory.evictions, settings, () if is_blind else evicting, choice
    )
    return Relief(
        throttle.throttled,
        evictions,
        commands,
        tuple(throttling or evicting),
        (
            *_remark_on_choice(snapshot, settings, looks),
            *_remark_on_vain_evictions(looks, evictions),
        ),
        forbidden,
        not restored,
        throttle.is_exhausted,
        is_blind,
    )


def _knows_usage(snapshot: NodeSnapshot) -> bool:
    """Whether anything was measured of what pods use."""
    refs = (pod.ref for pod in snapshot.workloads)
    return any(isinstance(ref, CgroupRef) and ref.id in snapshot.rates for ref in refs)


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
    budget = EvictionBudget(
        settings.evictions_per_tick,
        settings.evictions_per_minute,
        settings.settle,
        settings.longest_factor,
    )
    used = {each.key.title(): each.used for each in metrics}
    memory = note_in_flight(memory, progress, snapshot.at)
    memory = judge_evictions(memory, used, budget, snapshot.at)
    if not metrics:
        return memory, (), ""
    forbidden = why_no_eviction(snapshot, memory, progress, budget)
    if forbidden:
        return memory, (), forbidden
    going = frozenset(each.command.uid for each in progress)
    wanted = choose_evictions(snapshot, metrics, choice, going, budget.per_tick, NAME)
    commands, memory = admit_evictions(wanted, used, memory, budget, snapshot.at)
    closed = all(each.gap is not None and each.gap <= 0 for each in metrics)
    return memory, commands, "" if wanted or closed else "there is no pod whose eviction would help"


def _remark_on_size(snapshot: NodeSnapshot, rules: Iterable[BoundRule]) -> Iterator[Remark]:
    for each in rules:
        if why := why_never_above(snapshot, each):
            yield Remark(each.title(), why)


def _remark_on_choice(
    snapshot: NodeSnapshot, settings: WatermarkRules, looks: Iterable[RuleLook]
) -> Iterator[Remark]:
    """While a rule is triggered, in the ticks between two measurements of a slow source too."""
    actions = frozenset(
        each.bound.rule.action_name
        for each in looks
        if each.stays_triggered() and (each.bound.ratios() or each.bound.evicts())
    )
    if actions:
        yield from remark_on_pod_qos(snapshot.workloads, settings.pod_qos, actions)


def _remark_on_vain_evictions(
    looks: Iterable[RuleLook], memory: EvictionMemory
) -> Iterator[Remark]:
    for look in looks:
        if memory.factor > 1 and look.stays_triggered() and look.bound.evicts():
            yield Remark(look.title(), _IN_VAIN)


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
            f"limit {format_number(first.limit)}",
        )
        effect = settings.taint_effect.value
        yield Command(f"taint/{TAINT}", CommandKind.TAINT, TAINT, because, NAME, value=effect)
        yield Command(f"condition/{CONDITION}", CommandKind.CONDITION, CONDITION, because, NAME)


def explain_pod(settings: WatermarkRules, snapshot: NodeSnapshot, pod: Workload) -> tuple[str, ...]:
    actions = _touching_actions(settings)
    return explain_selection(snapshot.workloads, settings.selection(), actions, pod)


def explain_node(settings: WatermarkRules, snapshot: NodeSnapshot) -> tuple[Remark, ...]:
    actions = _touching_actions(settings)
    return tuple(remark_on_pod_qos(snapshot.workloads, settings.pod_qos, actions))


def _touching_actions(settings: WatermarkRules) -> frozenset[str]:
    """Those of rules that throttle or evict pods."""
    touching = (each for each in settings.rules if each.acts() and (each.ratios() or each.evicts()))
    return frozenset(each.rule.action_name for each in touching)


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
    explain_node=explain_node,
    explain_numbers=explain_numbers,
    needs_for_now=needs_for_now,
    keep=keep,
    keeps_what_stands=True,
)
