"""Builds what the agent writes to its Node, the report and the condition, from its state. Pure.

Owns the words. Says nothing that changes at every tick but usage and quota, which are compared
with a grain.
"""

from collections.abc import Iterator

import msgspec

from slackwater import __version__
from slackwater.contract.node_report import (
    BLIND,
    MOST_ACTIVE_RULES,
    MOST_OBJECTS,
    RELEASED,
    ActiveRule,
    AgentCondition,
    FollowedObjects,
    NodeReport,
    NodeStatusPatch,
)
from slackwater.model.cgroup import CgroupRef, Tier
from slackwater.model.decision import PolicyAction, RuleState
from slackwater.model.gap import Gap
from slackwater.model.knob import QUOTA
from slackwater.model.plan import Result
from slackwater.model.problem import shorten
from slackwater.model.units import (
    Bandwidth,
    Micros,
    MilliCpu,
    Ratio,
    Unlimited,
    format_duration,
    left_over,
)
from slackwater.record.agent_view import AgentView
from slackwater.record.cpu_map import find_refused_pods, find_remarks
from slackwater.record.journal import TickRecord
from slackwater.record.rules import describe_missing, latest_rules, rule_title

#: Usage is reported in steps of this part of the machine.
STEP = Ratio(1, 20)
_MOST_PROBLEMS, _LONGEST_PROBLEM = 10, 300
_LONGEST_MESSAGE, _LONGEST_REASON = 400, 200
#: Nobody who is on asks for them any more: they are on their way back.
_OLD = "values of before are held"
_TRY_AGAIN = (
    "`slackwater release` on the node tries again, from the ledger in the agent's state folder"
)
#: A policy that went on needs two looks: a hold this many periods long is told, a shorter is not.
_FIRST_LOOKS = 2
_PUT_BACK = (Result.APPLIED, Result.VANISHED, Result.UNCHANGED)


def node_status_patch(view: AgentView) -> NodeStatusPatch:
    report = node_report(view)
    return NodeStatusPatch(report, _agent_condition(view, report))


def is_settling(view: AgentView) -> bool:
    """Whether a policy has been holding only for a moment: its outcome is worth a report, this
    is not."""
    record = view.latest
    if view.blind or record is None:
        return False
    young = _FIRST_LOOKS * record.inputs.agent.period
    return any(
        each.course is PolicyAction.HELD
        and each.since is not None
        and record.snapshot.at - each.since < young
        for each in record.story.told
    )


def final_status_patch(view: AgentView, left: int) -> NodeStatusPatch:
    """After an agent released everything but `left` values and ended."""
    report = msgspec.structs.replace(
        node_report(view), since=None, quota=None, used=None, holding=left, rules={}
    )
    if not left:
        return NodeStatusPatch(
            report, _condition("False", RELEASED, "everything was restored on exit")
        )
    # Not its log: that goes with the pod.
    why = f"the agent ended, and {_describe_left(left)}; {_TRY_AGAIN}"
    return NodeStatusPatch(report, _condition("True", RELEASED, why))


def _describe_left(count: int) -> str:
    return f"{'1 value' if count == 1 else f'{count} values'} could not be restored"


def usage_step(view: AgentView) -> MilliCpu:
    """The smallest change of usage and quota that is reported on this node, at least 1 m."""
    allocatable = view.latest.snapshot.allocatable if view.latest else MilliCpu(0)
    return MilliCpu(1 if isinstance(allocatable, Gap) else max(STEP.left_of(allocatable), 1))


def node_report(view: AgentView) -> NodeReport:
    missing = (
        f"rule {rule_title(rule)}: {describe_missing(rule)}"
        for rule in latest_rules(view.ticks)
        if rule.missing
    )
    unreported = (view.link.unreported,) if view.link.unreported else ()
    record = view.latest
    unbound = () if record is None or view.blind else _without_cpus(record)
    troubles = (*view.open_problems(), *unreported, *missing, *unbound)[:_MOST_PROBLEMS]
    problems = tuple(shorten(each, _LONGEST_PROBLEM) for each in troubles)
    if record is None:
        return NodeReport(
            version=__version__,
            holding=view.kept,
            policies=dict(view.off),
            problems=problems,
            released=_released_for(view, view.kept or 0),
        )
    on = dict.fromkeys(record.inputs.policies, "")
    seen = None if view.blind else record
    quota = _best_effort_quota(seen) if seen else None
    holding = len(_held_after(record))
    return NodeReport(
        version=__version__,
        since=_last_change(view, record),
        period=format_duration(record.inputs.agent.period),
        quota=quota,
        used=_best_effort_usage(seen, usage_step(view), quota) if seen else None,
        holding=holding,
        policies=on | dict(view.off),
        problems=problems,
        rules=followed_objects(view),
        container_starts=shorten(view.container_starts(), _LONGEST_REASON) or None,
        released=_released_for(view, holding),
    )


def _released_for(view: AgentView, holding: int) -> str | None:
    """Who asked waits for this: only once nothing of ours is left, here and at the API server."""
    return None if holding or view.link.left_there else view.released_for or None


def _without_cpus(record: TickRecord) -> Iterator[str]:
    """One sentence for all pods that do not get the CPUs of their own that they ask for."""
    pods = sorted(find_refused_pods(record))
    if not pods:
        return
    first = f"{pods[0]}: {find_remarks(record)[pods[0]]}"
    more = f"{len(pods)} pods, such as " if len(pods) > 1 else ""
    yield f"no CPUs of their own for {more}{first}"


def followed_objects(view: AgentView) -> FollowedObjects:
    """The objects whose rules are followed, and the rules that are not quiet, lack their metric or
    can never act; bounded."""
    found: dict[str, list[ActiveRule]] = {}
    active = 0
    for rule in latest_rules(view.ticks):
        if rule.policy not in found and len(found) >= MOST_OBJECTS:
            continue
        rules = found.setdefault(rule.policy, [])
        told = rule.state is not RuleState.QUIET or rule.missing or rule.vain
        if told and active < MOST_ACTIVE_RULES:
            active += 1
            since = "" if rule.since is None else f"{view.timestamp(rule.since)[:19]}Z"
            missing, vain = (shorten(each, _LONGEST_REASON) for each in (rule.missing, rule.vain))
            rules.append(
                ActiveRule(rule.rule, rule.state.value, since, rule.preview, missing, vain)
            )
    return {title: tuple(rules) for title, rules in found.items()}


def _agent_condition(view: AgentView, report: NodeReport) -> AgentCondition:
    """Unknown while the agent sees nothing: what it set is still in force."""
    record = view.latest
    if view.blind or record is None:
        why = view.blind or "the agent has not looked yet"
        return _condition("Unknown", BLIND, why)
    if view.paused:
        left = report.holding or 0
        why = f"{view.paused}; {_describe_left(left)}" if left else view.paused
        return _condition("True" if left else "False", RELEASED, why)
    status = "True" if report.holding else "False"
    if not record.inputs.policies:
        return _condition(status, "Off", _why_off(view))
    held = [each for each in record.story.told if each.course is not PolicyAction.ACTED]
    if held:
        # Without the numbers of this moment: a reason can have some.
        names = ", ".join(sorted(each.policy for each in held))
        return _condition(
            status, "Holding", f"{names} cannot see what it needs; see slackwater explain"
        )
    names = ", ".join(sorted(record.inputs.policies))
    if report.holding:
        holders = ", ".join(_holders(record))
        return _condition(status, "Acting", f"values are held by {holders}" if holders else _OLD)
    return _condition(status, "NothingToDo", f"{names} on, and nothing needs to be changed")


def _why_off(view: AgentView) -> str:
    reasons = "; ".join(f"{name}: {why}" for name, why in view.off.items())
    return f"no policy is on: {reasons}" if reasons else "no policy is on"


def _condition(status: str, reason: str, message: str) -> AgentCondition:
    return AgentCondition(status, reason, shorten(message, _LONGEST_MESSAGE))


def _held_after(record: TickRecord) -> dict[tuple[int, str], Micros]:
    """What is held after the tick, and since when."""
    held = {(each.ref.id, each.knob): each.since for each in record.snapshot.held}
    granted = {(grant.target.id, grant.knob) for grant in record.story.grants}
    for outcome in record.outcomes:
        key = (outcome.change.ref.id, outcome.change.knob.name)
        if key in granted and outcome.result is Result.APPLIED:
            held[key] = record.snapshot.at
        if key not in granted and outcome.result in _PUT_BACK:
            held.pop(key, None)
    return held


def _holders(record: TickRecord) -> list[str]:
    """The policies that contribute to a value that is held after the tick."""
    held = _held_after(record)
    return sorted(
        {
            step.by
            for grant in record.story.grants
            if (grant.target.id, grant.knob) in held
            for step in grant.contributions
        }
    )


def _last_change(view: AgentView, record: TickRecord) -> str | None:
    """When a held value last changed."""
    held = _held_after(record)
    if not held:
        return None
    refs = {(each.ref.id, each.knob): each.ref for each in record.snapshot.held}
    changed = [
        found
        for key, ref in refs.items()
        if key in held and (found := view.last_change(ref, key[1])) is not None
    ]
    return f"{view.timestamp(Micros(max((*changed, *held.values()))))[:19]}Z"


def _best_effort_quota(record: TickRecord) -> MilliCpu | Unlimited | None:
    """The quota of the best-effort tier: what this tick wrote, else what it read."""
    tier = record.snapshot.tiers.get(Tier.BESTEFFORT)
    if tier is None:
        return None
    for outcome in record.outcomes:
        change = outcome.change
        written = outcome.result is Result.APPLIED and isinstance(change.new, Bandwidth)
        if written and (change.ref.id, change.knob.name) == (tier.id, QUOTA.name):
            return _milli(change.new)
    reading = record.snapshot.readings.get(tier.id)
    return None if reading is None else _milli(reading.quota)


def _milli(value: object) -> MilliCpu | Unlimited | None:
    return value.milli() if isinstance(value, Bandwidth) else None


def _best_effort_usage(
    record: TickRecord, step: MilliCpu, quota: MilliCpu | Unlimited | None
) -> MilliCpu | None:
    """Rounded to whole steps, but not above a quota that it kept."""
    tier: CgroupRef | None = record.snapshot.tiers.get(Tier.BESTEFFORT)
    used = Gap("no tier") if tier is None else record.snapshot.usage_of(tier)
    if isinstance(used, Gap):
        return None
    rounded = MilliCpu(left_over(used + step // 2, step) * step)
    if quota is None or isinstance(quota, Unlimited) or used > quota:
        return rounded
    return min(rounded, quota)
