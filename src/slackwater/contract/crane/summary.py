"""What Crane's ensurance objects do, and what is wrong with them, in sentences.

Owns the sentences of their status. Pure: objects in, text out.
"""

from collections.abc import Iterator, Mapping

from slackwater.contract.crane.ensurance import AvoidanceAction, Policy, Rule, Strategy
from slackwater.contract.crane.fields import Selector
from slackwater.contract.crane.metrics import is_known, is_of_users
from slackwater.contract.crane.pod_qos import PodQos, ScopeExpression, ScopeOperator
from slackwater.contract.label_selector import Operator
from slackwater.model.problem import quoted

Actions = Mapping[str, AvoidanceAction]
#: The schema's bound of status.summary.
_LONGEST = 4096
#: Metrics that are a part of a whole, in percent: no measurement is above all of it.
_PERCENT = ("cpu_total_utilization", "memory_total_utilization")
_WHOLE = 100


def is_for_node(policy: Policy, labels: Mapping[str, str]) -> bool:
    """Whether a node with these labels is meant."""
    selector = policy.spec.selector
    return selector is None or selector.selects(labels)


def summary(policy: Policy, actions: Actions) -> str:
    """What the policy does: "throttle when cpu_total_usage > 6000, twice in a row; back after 2
    below". Several rules are joined by " | "."""
    return _clipped(" | ".join(_rule(policy, rule, actions) for rule in policy.spec.rules))


def problems(policy: Policy, actions: Actions) -> tuple[str, ...]:
    """What keeps the policy from doing what it says; nothing where all is well."""
    return tuple(_problems(policy, actions))


def _rule(policy: Policy, rule: Rule, actions: Actions) -> str:
    metric = rule.metric_rule
    asked = policy.spec.node_quality_probe.http_get is not None
    limit = metric.value if asked or is_of_users(metric.name) else metric.limit
    action = actions.get(rule.action_name)
    verb = f"nothing (there is no {rule.action_name})" if action is None else _verbs(action)
    if rule.strategy is Strategy.PREVIEW:
        verb = f"only tell of: {verb}"
    count = _times(rule.avoidance_threshold)
    back = f"back after {rule.restores_after} below"
    return f"{verb} when {metric.name} > {limit}{count}; {back}"


def _times(count: int) -> str:
    match count:
        case 1:
            return ""
        case 2:
            return ", twice in a row"
        case _:
            return f", {count} times in a row"


def _verbs(action: AvoidanceAction) -> str:
    """What an action does; without any other it stops scheduling."""
    throttles = action.spec.throttle is not None and action.spec.throttle.cpu_throttle is not None
    found = [
        verb
        for verb, there in (("throttle", throttles), ("evict", action.spec.eviction is not None))
        if there
    ]
    if found:
        return " and ".join(found)
    return "stop scheduling" if action.spec.throttle is None else "nothing"


def _problems(policy: Policy, actions: Actions) -> Iterator[str]:
    if not policy.spec.rules:
        yield "there are no rules"
    probe = policy.spec.node_quality_probe
    for rule in policy.spec.rules:
        if rule.action_name not in actions:
            yield f"rule {rule.name}: there is no AvoidanceAction {quoted(rule.action_name)}"
        name = rule.metric_rule.name
        if probe.http_get is None and not is_known(name) and not is_of_users(name):
            yield f"rule {rule.name}: there is no metric {quoted(rule.metric_rule.name)}"
        metric = rule.metric_rule
        if probe.http_get is None and metric.name in _PERCENT and metric.limit >= _WHOLE:
            never = f"{metric.name} is in percent and never above {metric.limit}"
            yield f"rule {rule.name}: {never}; it must be below {_WHOLE} to trigger"


def action_summary(action: AvoidanceAction) -> str:
    """What the action does: "throttle by 10 % a step, not below 10 %; back after 300 s"."""
    parts = []
    throttle = action.spec.throttle
    if throttle is not None and throttle.cpu_throttle is not None:
        cpu = throttle.cpu_throttle
        floor = f", not below {cpu.min_ratio} % of the limit" if cpu.min_ratio else ""
        parts.append(f"throttle by {cpu.step_ratio} % a step{floor}")
    if action.spec.eviction is not None:
        grace = action.spec.eviction.termination_grace_period_seconds
        parts.append("evict" if grace is None else f"evict with {grace} s to end")
    told = " and ".join(parts) or _verbs(action)
    return f"{told}; back {action.spec.cool_down_seconds} s after the last trigger at the earliest"


def action_problems(action: AvoidanceAction) -> tuple[str, ...]:
    throttle = action.spec.throttle
    if throttle is None:
        return ()
    if throttle.cpu_throttle is None:
        return ("spec.throttle has no cpuThrottle and does nothing",)
    if throttle.cpu_throttle.step_ratio == 0:
        return ("spec.throttle.cpuThrottle.stepCPURatio is 0 and throttles nothing",)
    return ()


def pod_qos_summary(pod_qos: PodQos) -> str:
    """Whom it is for and what they allow: "pods with app=batch allow throttle, eviction"."""
    allowed = ", ".join(pod_qos.spec.allowed_actions) or "no action"
    chosen = [*_labels(pod_qos.spec.label_selector), *_scopes(pod_qos)]
    if pod_qos.spec.label_selector is None and not chosen:
        return "for no pod: it has no selector"
    who = f"pods with {' and '.join(chosen)}" if chosen else "all pods"
    return _clipped(f"{who} allow {allowed}")


def pod_qos_problems(pod_qos: PodQos, actions: Actions) -> tuple[str, ...]:
    found = []
    scopes = pod_qos.spec.scope_selector
    if pod_qos.spec.label_selector is None and (scopes is None or not scopes.match_expressions):
        found.append("it is for no pod: it has neither labelSelector nor scopeSelector")
    probe = pod_qos.spec.pod_quality_probe
    if probe is not None and probe.http_get is not None and probe.http_get.host:
        seen = quoted(probe.http_get.host)
        found.append(f"podQualityProbe.httpGet.host {seen} is ignored: pods have their own")
    unknown = [each for each in pod_qos.spec.allowed_actions if each not in actions]
    found += [f"allowedActions: there is no AvoidanceAction {quoted(each)}" for each in unknown]
    return tuple(found)


def _labels(selector: Selector | None) -> Iterator[str]:
    if selector is None:
        return
    for key, value in selector.match_labels.items():
        yield f"{key}={value}"
    for each in selector.match_expressions:
        match each.operator:
            case Operator.IN:
                yield f"{each.key} in ({', '.join(each.values)})"
            case Operator.NOT_IN:
                yield f"{each.key} not in ({', '.join(each.values)})"
            case Operator.EXISTS:
                yield each.key
            case Operator.DOES_NOT_EXIST:
                yield f"no {each.key}"


def _scopes(pod_qos: PodQos) -> Iterator[str]:
    scopes = pod_qos.spec.scope_selector
    yield from map(_scope, () if scopes is None else scopes.match_expressions)


def _scope(expression: ScopeExpression) -> str:
    word = "in" if expression.operator is ScopeOperator.IN else "not in"
    return f"{expression.scope_name.value} {word} ({', '.join(expression.values)})"


def _clipped(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
