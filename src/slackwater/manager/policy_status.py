"""What the manager says about each policy object: objects in, statuses out. Pure.

Owns the two conditions. Valid: whether the object can mean anything, by its own text and by the
objects that it names. Enforced: whether this version acts on it, which it says honestly. A
condition's time is that of its last change, so it is taken from the status that stands there.
"""

from collections.abc import Mapping

import msgspec

from slackwater.contract.crane_ensurance import AvoidanceAction, NodeQos, NodeQosEnsurancePolicy
from slackwater.contract.crane_pod_qos import PodQos
from slackwater.contract.crane_status import ENFORCED, VALID, Condition, EnsuranceStatus, Truth
from slackwater.contract.crane_summary import (
    action_problems,
    action_summary,
    is_for_node,
    pod_qos_problems,
    pod_qos_summary,
    problems,
    summary,
)
from slackwater.manager.policy_object import PolicyObject
from slackwater.model.gap import Gap

_OURS = (VALID, ENFORCED)
_NOT_YET = "this version of Slackwater shows what it would do and does not act on it yet"
#: The API server refuses a longer message in a condition (metav1.Condition: 32768).
_LONGEST_MESSAGE = 4000


class World(msgspec.Struct, frozen=True):
    """What a policy is judged against: the labels of each node, and the actions that can be named.
    `actions` is a Gap where the cluster does not know that kind."""

    nodes: Mapping[str, Mapping[str, str]]
    actions: Mapping[str, AvoidanceAction] | Gap
    #: Actions that are there and cannot be used: the sentence for each.
    broken_actions: Mapping[str, str] = {}


class _Verdict(msgspec.Struct, frozen=True):
    """`nodes` is None for objects that are not about nodes."""

    status: Truth
    reason: str
    message: str
    summary: str = ""
    nodes: int | None = None


def wanted_status(policy: PolicyObject, world: World, now: str) -> EnsuranceStatus:
    """The status that should stand there; equal to the one that does where nothing changed."""
    verdict = _judge(policy, world)
    valid = (VALID, verdict.status, verdict.reason, verdict.message[:_LONGEST_MESSAGE])
    enforced = (ENFORCED, Truth.FALSE, "NotYet", _NOT_YET)
    return EnsuranceStatus(
        observed_generation=policy.generation,
        summary=verdict.summary,
        nodes=verdict.nodes,
        conditions=tuple(_condition(policy, *said, now) for said in (valid, enforced)),
    )


def stands(policy: PolicyObject, wanted: EnsuranceStatus) -> bool:
    """Whether the object says so already; conditions of others are theirs."""
    there = policy.status
    if there is None:
        return False
    ours = sorted((each for each in there.conditions if each.type in _OURS), key=_by_type)
    return msgspec.structs.replace(there, conditions=tuple(ours)) == msgspec.structs.replace(
        wanted, conditions=tuple(sorted(wanted.conditions, key=_by_type))
    )


def validity(status: EnsuranceStatus | None) -> Condition | None:
    conditions = () if status is None else status.conditions
    return next((each for each in conditions if each.type == VALID), None)


def _by_type(condition: Condition) -> str:
    return condition.type


def _condition(
    policy: PolicyObject, kind: str, status: Truth, reason: str, message: str, now: str
) -> Condition:
    before = () if policy.status is None else policy.status.conditions
    same = next((each for each in before if each.type == kind and each.status == status), None)
    return Condition(
        type=kind,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=same.last_transition_time if same else now,
        observed_generation=policy.generation,
    )


def _judge(policy: PolicyObject, world: World) -> _Verdict:
    match policy.value:
        case Gap(reason):
            return _Verdict(Truth.FALSE, "Unreadable", reason)
        case AvoidanceAction() as action:
            return _verdict(action_problems(action), action_summary(action))
        case PodQos() as pod_qos:
            return _judge_pod_qos(pod_qos, world)
        case found:
            return _judge_policy(found, world)


def _judge_policy(policy: NodeQos | NodeQosEnsurancePolicy, world: World) -> _Verdict:
    nodes = sum(is_for_node(policy, labels) for labels in world.nodes.values())
    if isinstance(world.actions, Gap):
        return _untold(world.actions, summary(policy, {}), nodes)
    named = {rule.action_name for rule in policy.spec.rules}
    broken = (
        f"the AvoidanceAction {name} is there, but cannot be used: {why}"
        for name, why in sorted(world.broken_actions.items())
        if name in named
    )
    found = (*problems(policy, world.actions), *broken)
    return _verdict(found, summary(policy, world.actions), nodes)


def _judge_pod_qos(pod_qos: PodQos, world: World) -> _Verdict:
    told = pod_qos_summary(pod_qos)
    if isinstance(world.actions, Gap):
        return _untold(world.actions, told)
    return _verdict(pod_qos_problems(pod_qos, world.actions), told)


def _untold(why: Gap, told: str, nodes: int | None = None) -> _Verdict:
    return _Verdict(Truth.UNKNOWN, "ActionsUnknown", why.reason, told, nodes)


def _verdict(found: tuple[str, ...], told: str, nodes: int | None = None) -> _Verdict:
    if found:
        return _Verdict(Truth.FALSE, "Invalid", "; ".join(found), told, nodes)
    return _Verdict(Truth.TRUE, "AllGood", "", told, nodes)
