"""What QoS ensurance tells of a tick: each rule, what it did, what holds it back, and numbers."""

import math
from collections.abc import Iterator, Mapping

import msgspec

from slackwater.model.decision import Command, Remark, RuleReport, RuleState
from slackwater.model.metric import NODE
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Micros, format_age
from slackwater.policies.ensurance.avoidance import Throttled
from slackwater.policies.ensurance.bound_rules import RuleLook, why_never_above
from slackwater.policies.ensurance.eviction_budget import EvictionMemory, evictions_in_flight
from slackwater.policies.ensurance.relief import TriggeredMetric

_IN_THOUSANDTHS, _THOUSAND = " in thousandths", 1000


class Relief(msgspec.Struct, frozen=True):
    """What is done about the rules in one tick."""

    throttled: Throttled
    evictions: EvictionMemory
    commands: tuple[Command, ...] = ()
    metrics: tuple[TriggeredMetric, ...] = ()
    remarks: tuple[Remark, ...] = ()
    #: Why no pod is evicted, and why throttled pods stay as they are.
    no_eviction: str = ""
    no_room: bool = False
    at_minimum: bool = False
    #: What pods use was not measured so far: nobody is throttled or evicted before it is.
    is_blind: bool = False


def list_figures(relief: Relief) -> Iterator[tuple[str, int]]:
    """Every number that went into it, by name."""
    for metric in relief.metrics:
        name = metric.key.title()
        numbers = {"used": metric.used, "watermark": metric.watermark, "gap": metric.gap}
        known = {word: n for word, n in numbers.items() if n is not None and math.isfinite(n)}
        for word, number in known.items():
            # The numbers of a decision are whole, and a latency is a fraction of a second.
            if metric.key.source == NODE:
                yield f"{name} {word}", int(number)
            else:
                yield f"{name} {word}{_IN_THOUSANDTHS}", round(number * _THOUSAND)
    if relief.throttled:
        yield "throttled pods", len(relief.throttled)


def explain_numbers(numbers: Mapping[str, int]) -> str:
    """used 0.42; watermark 0.05."""
    return "; ".join(
        f"{name.removesuffix(_IN_THOUSANDTHS)} {number / _THOUSAND:g}"
        if name.endswith(_IN_THOUSANDTHS)
        else f"{name} {number}"
        for name, number in numbers.items()
    )


def report_rule(
    look: RuleLook, relief: Relief, snapshot: NodeSnapshot, flaw: str = ""
) -> RuleReport:
    """What a rule saw, what it does, and what keeps it from doing more; its flaw keeps it from
    doing anything."""
    bound, memory = look.bound, look.memory
    vain = flaw or why_never_above(snapshot, bound)
    return RuleReport(
        bound.policy,
        bound.rule.name,
        bound.key().title(),
        bound.rule.action_name,
        memory.state,
        look.limit,
        look.seen,
        memory.above,
        memory.below,
        look.counting.avoidance,
        look.counting.restores_after,
        not bound.acts() and bound.action is not None,
        memory.since,
        look.until,
        ", ".join(_done(look, relief, snapshot)),
        _held(look, relief, snapshot.at, vain) or vain,
        memory.missing,
        vain,
    )


def _done(look: RuleLook, relief: Relief, snapshot: NodeSnapshot) -> Iterator[str]:
    if not look.is_in_force():
        return
    if look.bound.stops_scheduling():
        yield "stops scheduling"
    ratios = look.bound.ratios()
    if ratios is not None and ratios.step:
        mine = [each for each in relief.throttled.values() if look.title() in each.rules]
        lowered = sum(bool(each.claims) for each in mine)
        if look.memory.state is RuleState.RESTORING:
            counts = {"restores": len(mine)}
        else:
            counts = {"throttles": lowered, "demotes": len(mine) - lowered}
        yield from (f"{verb} {_pods(count)}" for verb, count in counts.items() if count)
    if look.bound.evicts():
        going = len(relief.commands) + len(evictions_in_flight(snapshot))
        if going:
            yield f"evicts {_pods(going)}"


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"


def _held(look: RuleLook, relief: Relief, at: Micros, vain: str) -> str:
    memory, name = look.memory, look.bound.rule.action_name
    if look.missing:
        since = at if memory.missing_since is None else memory.missing_since
        gone = f"; missing for {format_age(Micros(at - since))}" if at > since else ""
        return f"{look.missing}{gone}"
    if look.bound.action is None:
        return f"there is no AvoidanceAction {name}"
    match memory.state:
        case RuleState.COOLING if memory.factor > 1:
            return f"waits {memory.factor} times its cool-down, as it triggered again soon"
        case RuleState.RESTORING if relief.no_room:
            return "there is no room below the watermark"
        case RuleState.TRIGGERED if look.bound.acts() and not vain:
            return _held_in_vain(look, relief)
        case _:
            return ""


def _held_in_vain(look: RuleLook, relief: Relief) -> str:
    """Why a triggered rule does nothing, or no more."""
    if relief.is_blind:
        return "what pods use is measured from now on"
    if look.bound.evicts() and relief.no_eviction:
        return relief.no_eviction
    throttles = look.bound.ratios() is not None and not look.bound.evicts()
    if throttles and not any(look.title() in each.rules for each in relief.throttled.values()):
        return f"there is no pod that {look.bound.rule.action_name} may throttle"
    return "its pods are at their minimum" if throttles and relief.at_minimum else ""
