"""Which pods an AvoidanceAction may touch.

With any PodQOS: pods that one matches whose allowedActions name the action. Without any:
best-effort pods, and pods whose priority is below the highest on the node. Static and critical pods
are never touched, nor do they count for that highest priority; nor is a pod whose object is not
known, as nobody can say whether it is one of them. A pod that exempts itself is not touched where
its namespace may do that, and where no PodQOS, an administrator's word, selects it.
"""

from collections.abc import Iterator, Sequence

import msgspec

from slackwater.contract.crane.ensurance_set import pod_qos_title
from slackwater.contract.crane.objects import PRIORITY_RANGE
from slackwater.contract.crane.pod_qos import PodQos, Scope, ScopeExpression, ScopeOperator
from slackwater.contract.pod_protection import EXEMPT_REASON
from slackwater.model.cgroup import Tier
from slackwater.model.decision import Remark
from slackwater.model.workload import Workload

_CLASS_NAMES = {
    Tier.GUARANTEED: "Guaranteed",
    Tier.BURSTABLE: "Burstable",
    Tier.BESTEFFORT: "BestEffort",
}

#: In the settings: a pod may exempt itself wherever it is.
EVERY_NAMESPACE = "*"
#: What a pod says of itself, or nothing; all else keeps it from being touched, whatever rules say.
_OWN_WORD = ("", EXEMPT_REASON)
_OVERRULED = (
    "it says that it is exempt, which a PodQOS overrules: its namespace is not in "
    "watermarkRelief.exemptNamespaces"
)

#: Of objects in one sentence.
_MOST_NAMED = 3


class SelectionRules(msgspec.Struct, frozen=True):
    """Who may be touched: the PodQOS objects, and the namespaces in which a pod may exempt itself
    from them; "*" is every one."""

    pod_qos: tuple[PodQos, ...] = ()
    exempt_namespaces: tuple[str, ...] = ()

    def spares(self, pod: Workload) -> bool:
        """Whether its own word keeps it from being touched."""
        return pod.protected == EXEMPT_REASON and not self.overrules(pod)

    def overrules(self, pod: Workload) -> bool:
        """Whether a pod's own word does not count."""
        believed = EVERY_NAMESPACE in self.exempt_namespaces
        return bool(self.pod_qos) and not believed and pod.namespace not in self.exempt_namespaces


def select_pods(
    workloads: Sequence[Workload], rules: SelectionRules, action: str
) -> tuple[Workload, ...]:
    """Those that the action of this name may touch, in the order of the input."""
    counted = [pod for pod in workloads if pod.namespace and pod.protected in _OWN_WORD]
    touchable = [pod for pod in counted if not rules.spares(pod)]
    if rules.pod_qos:
        allowing = [each for each in rules.pod_qos if action in each.spec.allowed_actions]
        return tuple(pod for pod in touchable if any(matches(each, pod) for each in allowing))
    highest = max((pod.priority for pod in counted), default=0)
    return tuple(pod for pod in touchable if pod.tier is Tier.BESTEFFORT or pod.priority < highest)


def explain_selection(
    workloads: Sequence[Workload],
    rules: SelectionRules,
    actions: frozenset[str],
    pod: Workload,
) -> tuple[str, ...]:
    """Which of these actions may touch the pod, and why the others may not."""
    if not actions:
        return ()
    if not pod.namespace:
        return ("no rule touches it, as its object is not known",)
    if pod.protected not in _OWN_WORD or rules.spares(pod):
        return (f"no rule touches it: it is {pod.protected}",)
    allowed = {
        action
        for action in actions
        if any(each.uid == pod.uid for each in select_pods(workloads, rules, action))
    }
    said = []
    if allowed:
        said.append(f"{', '.join(sorted(allowed))} may touch it when a rule is triggered")
        if pod.protected:
            said.append(_OVERRULED)
    if refused := ", ".join(sorted(actions - allowed)):
        why = f"its priority {pod.priority} is the highest here"
        if rules.pod_qos:
            matching = [pod_qos_title(each) for each in rules.pod_qos if matches(each, pod)]
            named = ", ".join(matching[:_MOST_NAMED])
            why = f"{named} does not allow it" if matching else "no PodQOS matches it"
        said.append(f"{refused} may not touch it: {why}")
    return tuple(said)


def matches(pod_qos: PodQos, pod: Workload) -> bool:
    """Without any selector it matches nothing."""
    labels, scopes = pod_qos.spec.label_selector, pod_qos.spec.scope_selector
    expressions = () if scopes is None else scopes.match_expressions
    if labels is None and not expressions:
        return False
    if labels is not None and not labels.selects(pod.labels):
        return False
    return all(_holds(each, pod) for each in expressions)


def _holds(expression: ScopeExpression, pod: Workload) -> bool:
    found = any(_is_in(expression.scope_name, value, pod) for value in expression.values)
    return found is (expression.operator is ScopeOperator.IN)


def _is_in(scope: Scope, value: str, pod: Workload) -> bool:
    match scope:
        case Scope.QOS_CLASS:
            return value == _CLASS_NAMES[pod.tier]
        case Scope.NAMESPACE:
            return value == pod.namespace
        case Scope.PRIORITY:
            span = PRIORITY_RANGE.fullmatch(value)
            return span is not None and int(span[1]) <= pod.priority <= int(span[2] or span[1])


def remark_on_pod_qos(
    workloads: Sequence[Workload], pod_qos: Sequence[PodQos], actions: frozenset[str]
) -> Iterator[Remark]:
    """About those that allow one of these actions and match no pod here."""
    for each in pod_qos:
        allowed = actions.intersection(each.spec.allowed_actions)
        if allowed and not any(matches(each, pod) for pod in workloads):
            text = f"matches no pod of this node, so {', '.join(sorted(allowed))} touches none"
            yield Remark(pod_qos_title(each), text)
