"""Whether nodes follow a policy object, and where its rules are triggered, from agents' reports.

Enforced: of NodeQOS and NodeQOSEnsurancePolicy, whether an agent follows it; of actions, PodQOS
and EnsuranceMetrics, whether a rule that is followed names them. Triggered: whether a rule of it
is, and on which nodes. Pure: reports in, verdicts out. Sentences name a few nodes and count the
others.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from slackwater.contract.crane.ensurance import AvoidanceAction, NodeQos, NodeQosEnsurancePolicy
from slackwater.contract.crane.ensurance_set import policy_title
from slackwater.contract.crane.fields import ENFORCED, TRIGGERED, Truth
from slackwater.contract.crane.pod_qos import PodQos
from slackwater.contract.crane.summary import is_for_node
from slackwater.contract.ensurance_metric import EnsuranceMetric
from slackwater.contract.node_report import RELEASED, ActiveRule, FollowedObjects
from slackwater.manager.cluster_view import ClusterView
from slackwater.manager.policy_object import PolicyObject
from slackwater.model.gap import Gap
from slackwater.status.api_objects import ClusterNode
from slackwater.status.cluster_status import is_stale

#: Named in one sentence; the others are counted.
_MOST_NAMED = 3
#: Reasons.
FOLLOWED, NO_NODES, NO_AGENT, NOT_FOLLOWED = "Followed", "NoNodes", "NoAgent", "NotFollowed"
METRIC_MISSING, NEVER_ACTS = "MetricMissing", "NeverActs"
USED, NOT_USED, UNREADABLE = "Used", "NotUsed", "Unreadable"
IN_FORCE, RESTORING, QUIET = "Triggered", "Restoring", "Quiet"
#: States of a rule, as reports spell them, in which its action is in force.
_IN_FORCE = ("triggered", "cooling")
_QUIET = "quiet"


class EnforcementVerdict(msgspec.Struct, frozen=True):
    type: str
    status: Truth
    reason: str
    message: str


class NodeRules(msgspec.Struct, frozen=True):
    """What one node's agent says about rules: why it follows none, or those that it follows."""

    why_off: str = ""
    followed: FollowedObjects = {}


class EnforcementContext(msgspec.Struct, frozen=True):
    """`agents` is by node; one without an agent that reports is not there. `actions_named` are the
    actions that the rules of an object name, by the object's title; `followed` are the titles of
    objects that some node follows."""

    agents: Mapping[str, NodeRules] = {}
    actions_named: Mapping[str, frozenset[str]] = {}
    followed: frozenset[str] = frozenset()
    #: The metrics that the rules of an object name, by the object's title.
    metrics_named: Mapping[str, frozenset[str]] = {}


def enforcement_of(view: ClusterView, now: str) -> EnforcementContext:
    nodes = view.nodes.items.values()
    objects = (each for found in view.policies.values() for each in found.items.values())
    policies = [
        value
        for each in objects
        if isinstance(value := each.value, NodeQos | NodeQosEnsurancePolicy)
    ]
    agents = {node.name: rules for node in nodes if (rules := _node_rules(node, now)) is not None}
    return EnforcementContext(
        agents,
        {
            policy_title(each): frozenset(rule.action_name for rule in each.spec.rules)
            for each in policies
        },
        frozenset(title for agent in agents.values() for title in agent.followed),
        {
            policy_title(each): frozenset(rule.metric_rule.name for rule in each.spec.rules)
            for each in policies
        },
    )


def _node_rules(node: ClusterNode, now: str) -> NodeRules | None:
    """None of a node whose agent does not report, has not for long, or has put everything back."""
    if node.rules is None or node.reason == RELEASED or is_stale(node.heard, now):
        return None
    return NodeRules(node.rules.why_off(), node.rules.rules)


def judge_enforcement(
    policy: PolicyObject, nodes: Mapping[str, Mapping[str, str]], context: EnforcementContext
) -> tuple[EnforcementVerdict, ...]:
    """`nodes` has the labels of each node."""
    match policy.value:
        case Gap():
            return (_not_enforced(UNREADABLE, "no agent follows what cannot be read"),)
        case AvoidanceAction() as action:
            return (_judge_named(action.metadata.name, context.actions_named, context),)
        case PodQos() as pod_qos:
            return (_judge_pod_qos(pod_qos, context),)
        case EnsuranceMetric() as metric:
            return (_judge_named(metric.metadata.name, context.metrics_named, context),)
        case found:
            meant = [name for name, labels in nodes.items() if is_for_node(found, labels)]
            rules = len(found.spec.rules)
            return _judge_rules(policy_title(found), rules, sorted(meant), context)


def _judge_rules(
    title: str, count: int, meant: Sequence[str], context: EnforcementContext
) -> tuple[EnforcementVerdict, ...]:
    agents = context.agents
    following = [name for name in meant if name in agents and title in agents[name].followed]
    if following:
        message = f"{_nodes_follow(len(following), len(meant))} it"
        there = set(following)
        if others := [name for name in meant if name not in there]:
            message = f"{message}; not {name_some(others)}"
        enforced = EnforcementVerdict(ENFORCED, Truth.TRUE, FOLLOWED, message)
        rules = {name: agents[name].followed[title] for name in following}
        enforced = _judge_missing(_judge_vain(enforced, rules, count), rules)
        return enforced, _judge_triggered(title, following, agents)
    quiet = EnforcementVerdict(TRIGGERED, Truth.UNKNOWN, NOT_FOLLOWED, "no node follows it")
    return _judge_unfollowed(meant, agents), quiet


def _judge_missing(
    enforced: EnforcementVerdict, rules: Mapping[str, Sequence[ActiveRule]]
) -> EnforcementVerdict:
    """Where a rule lacks its metric it protects nobody: False where that is so on every node that
    follows it."""
    lacking = {
        name: found
        for name, active in rules.items()
        if (found := [each for each in active if each.missing])
    }
    if not lacking:
        return enforced
    names = sorted(lacking)
    titles = sorted({each.rule for found in lacking.values() for each in found})
    why = lacking[names[0]][0].missing
    message = (
        f"{enforced.message}; the metric of {name_some(titles)} is missing on {name_some(names)}: "
        f"{why}"
    )
    status = Truth.FALSE if len(lacking) == len(rules) else Truth.TRUE
    return EnforcementVerdict(ENFORCED, status, METRIC_MISSING, message)


def _judge_vain(
    enforced: EnforcementVerdict, rules: Mapping[str, Sequence[ActiveRule]], count: int
) -> EnforcementVerdict:
    """Where a rule can never act, as its value is above a node's size; False where that is so of
    all rules on every node."""
    vain = {
        name: found
        for name, active in rules.items()
        if (found := [each for each in active if each.vain and not each.missing])
    }
    if not vain:
        return enforced
    names = sorted(vain)
    titles = sorted({each.rule for found in vain.values() for each in found})
    why = vain[names[0]][0].vain
    message = f"{enforced.message}; {name_some(titles)} can do nothing on {name_some(names)}: {why}"
    useless = len(vain) == len(rules) and all(len(found) == count for found in vain.values())
    return EnforcementVerdict(ENFORCED, Truth.FALSE if useless else Truth.TRUE, NEVER_ACTS, message)


def _judge_unfollowed(meant: Sequence[str], agents: Mapping[str, NodeRules]) -> EnforcementVerdict:
    if not meant:
        return _not_enforced(NO_NODES, "its selector matches no node")
    reporting = [name for name in meant if name in agents]
    if not reporting:
        return _not_enforced(NO_AGENT, f"no agent reports from {name_some(meant)}")
    first = reporting[0]
    why = agents[first].why_off or "its agent did not take it up yet, or refused it"
    rest = f", nor does {name_some(reporting[1:])}" if len(reporting) > 1 else ""
    return _not_enforced(NOT_FOLLOWED, f"{first} does not follow it: {why}{rest}")


def _judge_triggered(
    title: str, following: Sequence[str], agents: Mapping[str, NodeRules]
) -> EnforcementVerdict:
    active = {name: agents[name].followed[title] for name in following}
    in_force = {name: found for name, rules in active.items() if (found := _in_force(rules))}
    if in_force:
        rules = sorted({each.rule for found in in_force.values() for each in found})
        preview = all(each.preview for found in in_force.values() for each in found)
        told = f"{name_some(rules)} on {name_some(sorted(in_force))}"
        message = f"{told}; Preview: nothing is done" if preview else told
        return EnforcementVerdict(TRIGGERED, Truth.TRUE, IN_FORCE, message)
    restoring = sorted(
        name for name, rules in active.items() if any(each.state != _QUIET for each in rules)
    )
    if restoring:
        message = f"what was done is being undone on {name_some(restoring)}"
        return EnforcementVerdict(TRIGGERED, Truth.FALSE, RESTORING, message)
    return EnforcementVerdict(TRIGGERED, Truth.FALSE, QUIET, "")


def _in_force(rules: Iterable[ActiveRule]) -> list[ActiveRule]:
    return [each for each in rules if each.state in _IN_FORCE]


def _judge_named(
    name: str, named: Mapping[str, frozenset[str]], context: EnforcementContext
) -> EnforcementVerdict:
    """An action or a metric; `named` are those that rules name, by the title of their object."""
    naming = sorted(title for title, names in named.items() if name in names)
    if not naming:
        return _not_enforced(NOT_USED, "no rule names it")
    used = [title for title in naming if title in context.followed]
    if not used:
        return _not_enforced(NOT_FOLLOWED, f"no node follows {name_some(naming)}")
    return EnforcementVerdict(ENFORCED, Truth.TRUE, USED, f"by {name_some(used)}")


def _judge_pod_qos(pod_qos: PodQos, context: EnforcementContext) -> EnforcementVerdict:
    allowed = set(pod_qos.spec.allowed_actions)
    naming = sorted(title for title, names in context.actions_named.items() if names & allowed)
    used = [title for title in naming if title in context.followed]
    if not used:
        return _not_enforced(NOT_USED, "no rule that a node follows names an action that it allows")
    return EnforcementVerdict(ENFORCED, Truth.TRUE, USED, f"by {name_some(used)}")


def _not_enforced(reason: str, message: str) -> EnforcementVerdict:
    return EnforcementVerdict(ENFORCED, Truth.FALSE, reason, message)


def _nodes_follow(number: int, meant: int) -> str:
    if number == meant:
        return "1 node follows" if number == 1 else f"all {number} nodes follow"
    return f"{number} of {meant} nodes {'follows' if number == 1 else 'follow'}"


def name_some(names: Sequence[str]) -> str:
    """node-a, node-b, node-c and 3 more."""
    shown = ", ".join(names[:_MOST_NAMED])
    more = len(names) - _MOST_NAMED
    return f"{shown} and {more} more" if more > 0 else shown
