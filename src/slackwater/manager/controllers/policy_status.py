"""The controller of policy objects' status: whether each is valid, enforced and triggered.

Valid: nothing in the object, or in the objects that it names, is wrong or missing. What nodes do
about it is read from their agents' reports (policy_enforcement). The time of a condition is that of
its last change, so it is taken from the status that the object already has.
"""

from collections.abc import Iterator, Mapping

import msgspec

from slackwater.contract.crane.ensurance import AvoidanceAction, NodeQos, NodeQosEnsurancePolicy
from slackwater.contract.crane.ensurance_set import pod_qos_title, policy_title
from slackwater.contract.crane.fields import (
    ENFORCED,
    TRIGGERED,
    VALID,
    EnsuranceStatus,
    PolicyCondition,
    Truth,
)
from slackwater.contract.crane.pod_qos import PodQos
from slackwater.contract.crane.summary import (
    action_problems,
    action_summary,
    is_for_node,
    pod_qos_problems,
    pod_qos_summary,
    problems,
    summary,
)
from slackwater.contract.ensurance_metric import EnsuranceMetric
from slackwater.contract.ensurance_metric_summary import (
    metric_problems,
    metric_summary,
    unknown_metrics,
)
from slackwater.contract.resources import AVOIDANCE_ACTIONS, ENSURANCE_METRICS
from slackwater.kube.events import EventType, KubeEvent, ObjectReference
from slackwater.kube.informer import InformerView
from slackwater.manager.cluster_view import NODE_KIND, POLICY_KINDS, ClusterView
from slackwater.manager.controllers.controller import (
    Controller,
    DesiredWrite,
    Reconciled,
    WriteVerb,
)
from slackwater.manager.controllers.policy_enforcement import (
    EnforcementContext,
    enforcement_of,
    judge_enforcement,
)
from slackwater.manager.policy_object import PolicyObject
from slackwater.model.gap import Gap

_OURS = (VALID, ENFORCED, TRIGGERED)
#: Reasons of events.
INVALID, VALID_AGAIN = "PolicyInvalid", "PolicyValid"
#: The API server refuses a longer message in a condition (metav1.Condition: 32768).
_LONGEST_MESSAGE = 4000


class PolicyContext(msgspec.Struct, frozen=True):
    """What a policy is judged against: the labels of each node, and the actions that it can name.
    `actions` is a Gap where the cluster does not know that kind."""

    nodes: Mapping[str, Mapping[str, str]]
    actions: Mapping[str, AvoidanceAction] | Gap
    #: Actions that exist and cannot be used, each with the reason.
    broken_actions: Mapping[str, str] = {}
    enforcement: EnforcementContext = EnforcementContext()
    #: The names of all EnsuranceMetrics, None where the cluster does not know that kind.
    metrics: frozenset[str] | None = None
    #: The titles of objects with an httpGet probe.
    probes: frozenset[str] = frozenset()


class _PolicyJudgement(msgspec.Struct, frozen=True):
    """`nodes` is None for objects that are not about nodes."""

    status: Truth
    reason: str
    message: str
    summary: str = ""
    nodes: int | None = None


def judge_policy(policy: PolicyObject, context: PolicyContext, now: str) -> EnsuranceStatus:
    """The status that the object should have; equal to the one that it has if nothing changed."""
    judgement = _judge(policy, context)
    valid = (VALID, judgement.status, judgement.reason, judgement.message[:_LONGEST_MESSAGE])
    found = judge_enforcement(policy, context.nodes, context.enforcement)
    said = [(each.type, each.status, each.reason, each.message) for each in found]
    return EnsuranceStatus(
        observed_generation=policy.generation,
        summary=judgement.summary,
        nodes=judgement.nodes,
        conditions=tuple(_condition(policy, *each, now) for each in (valid, *said)),
    )


def is_current(policy: PolicyObject, wanted: EnsuranceStatus) -> bool:
    """Whether the object has this status; other writers' conditions do not count."""
    there = policy.status
    if there is None:
        return False
    ours = sorted((each for each in there.conditions if each.type in _OURS), key=_by_type)
    return msgspec.structs.replace(there, conditions=tuple(ours)) == msgspec.structs.replace(
        wanted, conditions=tuple(sorted(wanted.conditions, key=_by_type))
    )


def find_validity(status: EnsuranceStatus | None) -> PolicyCondition | None:
    conditions = () if status is None else status.conditions
    return next((each for each in conditions if each.type == VALID), None)


def is_invalid(status: EnsuranceStatus | None) -> bool:
    valid = find_validity(status)
    return valid is not None and valid.status is Truth.FALSE


def context_of(view: ClusterView, now: str) -> PolicyContext:
    actions = view.policies[AVOIDANCE_ACTIONS]
    found = {each.name: each.value for each in actions.items.values()}
    return PolicyContext(
        nodes={node.name: node.labels for node in view.nodes.items.values()},
        actions=Gap("the cluster does not know the kind AvoidanceAction")
        if actions.unknown_kind
        else {name: each for name, each in found.items() if isinstance(each, AvoidanceAction)},
        broken_actions={name: each.reason for name, each in found.items() if isinstance(each, Gap)},
        enforcement=enforcement_of(view, now),
        metrics=_names(view.policies[ENSURANCE_METRICS]),
        probes=frozenset(_probes(view)),
    )


def _names(metrics: InformerView[PolicyObject]) -> frozenset[str] | None:
    """Of those that cannot be read too: their own status says so."""
    return None if metrics.unknown_kind else frozenset(each.name for each in metrics.items.values())


def _probes(view: ClusterView) -> Iterator[str]:
    for found in view.policies.values():
        for each in found.items.values():
            match each.value:
                case NodeQos() | NodeQosEnsurancePolicy() as policy:
                    if policy.spec.node_quality_probe.http_get is not None:
                        yield policy_title(policy)
                case PodQos() as pod_qos:
                    probe = pod_qos.spec.pod_quality_probe
                    if probe is not None and probe.http_get is not None:
                        yield pod_qos_title(pod_qos)
                case _:
                    pass


def reconcile(view: ClusterView, now: str) -> Reconciled:
    context = context_of(view, now)
    return Reconciled(
        tuple(
            desire_status(policy, judge_policy(policy, context, now))
            for found in view.policies.values()
            for policy in found.items.values()
        )
    )


def desire_status(policy: PolicyObject, wanted: EnsuranceStatus) -> DesiredWrite:
    valid = find_validity(wanted)
    return DesiredWrite(
        verb=WriteVerb.STATUS,
        resource=policy.resource,
        name=policy.name,
        uid=policy.uid,
        body=wanted,
        meaning=_without_times(wanted),
        is_current=is_current(policy, wanted),
        outcome=f"Valid={valid.status.value}" if valid else "",
        because=(valid.message if valid else "") or wanted.summary,
        event=_event(policy, wanted),
    )


def _without_times(status: EnsuranceStatus) -> EnsuranceStatus:
    conditions = tuple(
        msgspec.structs.replace(each, last_transition_time="") for each in status.conditions
    )
    return msgspec.structs.replace(status, conditions=conditions)


def _event(policy: PolicyObject, wanted: EnsuranceStatus) -> KubeEvent | None:
    """When an object becomes invalid, and when it becomes valid again. By the status that it has,
    so that a manager that was restarted does not repeat it."""
    before, after = find_validity(policy.status), find_validity(wanted)
    was_invalid = is_invalid(policy.status)
    message = after.message if after else ""
    reference = ObjectReference(
        policy.resource.api_version, policy.resource.kind, policy.name, uid=policy.uid
    )
    if is_invalid(wanted):
        repeated = was_invalid and before is not None and message == before.message
        return None if repeated else KubeEvent(reference, INVALID, message, EventType.WARNING)
    if was_invalid:
        summary = wanted.summary or "mended"
        return KubeEvent(reference, VALID_AGAIN, summary, EventType.NORMAL)
    return None


def _by_type(condition: PolicyCondition) -> str:
    return condition.type


def _condition(
    policy: PolicyObject, kind: str, status: Truth, reason: str, message: str, now: str
) -> PolicyCondition:
    before = () if policy.status is None else policy.status.conditions
    same = next((each for each in before if each.type == kind and each.status == status), None)
    return PolicyCondition(
        type=kind,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=same.last_transition_time if same else now,
        observed_generation=policy.generation,
    )


def _judge(policy: PolicyObject, context: PolicyContext) -> _PolicyJudgement:
    match policy.value:
        case Gap(reason):
            return _PolicyJudgement(Truth.FALSE, "Unreadable", reason)
        case AvoidanceAction() as action:
            return _judged(action_problems(action), action_summary(action))
        case PodQos() as pod_qos:
            return _judge_pod_qos(pod_qos, context)
        case EnsuranceMetric() as metric:
            return _judged(metric_problems(metric, context.probes), metric_summary(metric))
        case found:
            return _judge_policy(found, context)


def _judge_policy(
    policy: NodeQos | NodeQosEnsurancePolicy, context: PolicyContext
) -> _PolicyJudgement:
    nodes = sum(is_for_node(policy, labels) for labels in context.nodes.values())
    if isinstance(context.actions, Gap):
        return _unknown(context.actions, summary(policy, {}), nodes)
    named = {rule.action_name for rule in policy.spec.rules}
    broken = (
        f"the AvoidanceAction {name} is there, but cannot be used: {why}"
        for name, why in sorted(context.broken_actions.items())
        if name in named
    )
    unknown = () if context.metrics is None else unknown_metrics(policy, context.metrics)
    found = (*problems(policy, context.actions), *broken, *unknown)
    return _judged(found, summary(policy, context.actions), nodes)


def _judge_pod_qos(pod_qos: PodQos, context: PolicyContext) -> _PolicyJudgement:
    meaning = pod_qos_summary(pod_qos)
    if isinstance(context.actions, Gap):
        return _unknown(context.actions, meaning)
    return _judged(pod_qos_problems(pod_qos, context.actions), meaning)


def _unknown(why: Gap, meaning: str, nodes: int | None = None) -> _PolicyJudgement:
    return _PolicyJudgement(Truth.UNKNOWN, "ActionsUnknown", why.reason, meaning, nodes)


def _judged(found: tuple[str, ...], meaning: str, nodes: int | None = None) -> _PolicyJudgement:
    if found:
        return _PolicyJudgement(Truth.FALSE, "Invalid", "; ".join(found), meaning, nodes)
    return _PolicyJudgement(Truth.TRUE, "Valid", "", meaning, nodes)


CONTROLLER = Controller("policy_status", (NODE_KIND, *POLICY_KINDS.values()), reconcile)
