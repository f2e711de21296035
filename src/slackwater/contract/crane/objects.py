"""Crane's objects out of plain documents.

Owns what no single field can say: names that must differ, one probe of two, a metric that nobody
measures. The API server says the same (contract.crd_rules) before an object is stored;
here it is said of files, and of objects that were stored before.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import msgspec

from slackwater.contract.crane.ensurance import (
    AvoidanceAction,
    NodeQos,
    NodeQosEnsurancePolicy,
    Policy,
    Rule,
)
from slackwater.contract.crane.fields import (
    NAME_WANTED,
    NUMBERED_PORT_WANTED,
    QUANTITY_WANTED,
    Selector,
)
from slackwater.contract.crane.metrics import is_known, is_of_users, known_names
from slackwater.contract.crane.pod_qos import PodQos, Scope, ScopeExpression
from slackwater.contract.crane.prediction import (
    PredictionMetric,
    PredictionTemplate,
    QueryType,
    TimeSeriesPrediction,
)
from slackwater.contract.decoding import read_struct
from slackwater.contract.document import Field
from slackwater.contract.kubernetes import read_head
from slackwater.model.problem import InvalidError, Problem, quoted

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
PRIORITY_RANGE = re.compile(r"(-?[0-9]{1,10})(?:-(-?[0-9]{1,10}))?", re.ASCII)
_QOS_CLASSES = ("Guaranteed", "Burstable", "BestEffort")

T = TypeVar("T", bound=msgspec.Struct)


def read_avoidance_action(document: object, source: str) -> AvoidanceAction:
    return _read(document, source, AvoidanceAction, _no_flaws)


def read_node_qos(document: object, source: str) -> NodeQos:
    return _read(document, source, NodeQos, lambda policy: _flaws(policy, "rules"))


def read_node_qos_ensurance_policy(document: object, source: str) -> NodeQosEnsurancePolicy:
    return _read(
        document,
        source,
        NodeQosEnsurancePolicy,
        lambda policy: _flaws(policy, "objectiveEnsurances"),
    )


def read_pod_qos(document: object, source: str) -> PodQos:
    return _read(document, source, PodQos, _flaws_of_pod_qos)


def read_time_series_prediction(document: object, source: str) -> TimeSeriesPrediction:
    _, field = read_head(document, source)
    prediction = read_struct(field, TimeSeriesPrediction)
    _raise(field, _flaws_of_metrics(prediction.spec.prediction_metrics, "spec."))
    return prediction


def read_prediction_template(document: object, source: str) -> PredictionTemplate:
    """What stands under `spec` in the ConfigMap noderesource-tsp-template."""
    field = Field(source, "", document)
    template = read_struct(field, PredictionTemplate)
    _raise(field, _flaws_of_metrics(template.prediction_metrics, ""))
    return template


def _read(
    document: object, source: str, kind: type[T], flaws: Callable[[T], Iterable[Problem]]
) -> T:
    """An ensurance object: typed, its name a DNS label, and without flaws."""
    head, field = read_head(document, source)
    value = read_struct(field, kind)
    named = () if _LABEL.fullmatch(head.name) else (_bad_name(head.name),)
    _raise(field, (*named, *flaws(value)))
    return value


def _no_flaws(_: AvoidanceAction) -> tuple[Problem, ...]:
    """An action's fields speak for themselves."""
    return ()


def _raise(field: Field, problems: Iterable[Problem]) -> None:
    """The problems know the path, the field knows the object."""
    found = [msgspec.structs.replace(each, document=field.document) for each in problems]
    if found:
        raise InvalidError(*found)


def _bad_name(name: str) -> Problem:
    return Problem("metadata.name", quoted(name), NAME_WANTED)


def _flaws(policy: Policy, listed: str) -> Iterator[Problem]:
    probe = policy.spec.node_quality_probe
    if (probe.http_get is None) == (probe.node_local_get is None):
        seen = "neither" if probe.http_get is None else "both"
        where = "the kind of spec.nodeQualityProbe"
        yield Problem(where, seen, "one of httpGet and nodeLocalGet")
    if probe.http_get is not None and isinstance(probe.http_get.port, str):
        port = quoted(probe.http_get.port)
        yield Problem("spec.nodeQualityProbe.httpGet.port", port, NUMBERED_PORT_WANTED)
    yield from _flaws_of_selector(policy.spec.selector, "spec.selector")
    yield from _repeated(f"spec.{listed}", "name", [rule.name for rule in policy.spec.rules])
    for place, rule in enumerate(policy.spec.rules):
        where = f"spec.{listed}[{place}]"
        yield from _flaws_of_rule(rule, where)
        metric = rule.metric_rule.name
        if probe.http_get is None and not is_known(metric) and not is_of_users(metric):
            wanted = f"one of {known_names()}, or the name of an EnsuranceMetric"
            yield Problem(f"{where}.metricRule.name", quoted(metric), wanted)


def _flaws_of_rule(rule: Rule, where: str) -> Iterator[Problem]:
    if rule.metric_rule.limit <= 0:
        seen = quoted(rule.metric_rule.value)
        yield Problem(f"{where}.metricRule.value", seen, QUANTITY_WANTED)
    yield from _flaws_of_selector(rule.metric_rule.selector, f"{where}.metricRule.selector")
    one, other = rule.restore_threshold, rule.restored_threshold
    if one is not None and other is not None and one != other:
        wanted = f"restoreThreshold's {one}, of which it is another spelling"
        yield Problem(f"{where}.restoredThreshold", quoted(other), wanted)


def _flaws_of_selector(selector: Selector | None, where: str) -> Iterator[Problem]:
    bad = None if selector is None else selector.flaw(where)
    if bad is not None:
        yield bad


def _repeated(where: str, key: str, names: list[str]) -> Iterator[Problem]:
    for place, name in enumerate(names):
        if name in names[:place]:
            first = f"{where}[{names.index(name)}] has it already"
            wanted = f"another name: {first}"
            yield Problem(f"{where}[{place}].{key}", quoted(name), wanted)


def _flaws_of_pod_qos(pod_qos: PodQos) -> Iterator[Problem]:
    yield from _flaws_of_selector(pod_qos.spec.label_selector, "spec.labelSelector")
    scopes = pod_qos.spec.scope_selector
    for place, each in enumerate(() if scopes is None else scopes.match_expressions):
        yield from _flaws_of_scope(each, f"spec.scopeSelector.matchExpressions[{place}]")


def _flaws_of_scope(expression: ScopeExpression, where: str) -> Iterator[Problem]:
    for place, value in enumerate(expression.values):
        wanted = _wanted_in(expression.scope_name, value)
        if wanted:
            yield Problem(f"{where}.values[{place}]", quoted(value), wanted)


def _wanted_in(scope: Scope, value: str) -> str:
    """What a scope's value must be; empty where it is that."""
    match scope:
        case Scope.QOS_CLASS:
            return "" if value in _QOS_CLASSES else f"one of {', '.join(_QOS_CLASSES)}"
        case Scope.PRIORITY:
            span = PRIORITY_RANGE.fullmatch(value)
            good = span and int(span[1]) <= int(span[2] or span[1])
            return "" if good else "a priority such as 1000, or a range such as 1000-3000"
        case Scope.NAMESPACE:
            return "" if _LABEL.fullmatch(value) else "a namespace's name"


_QUERIES = {
    QueryType.RESOURCE: "resourceQuery",
    QueryType.METRIC: "metricQuery",
    QueryType.EXPRESSION: "expressionQuery",
}


def _flaws_of_metrics(metrics: tuple[PredictionMetric, ...], prefix: str) -> Iterator[Problem]:
    where = f"{prefix}predictionMetrics"
    yield from _repeated(
        where, "resourceIdentifier", [each.resource_identifier for each in metrics]
    )
    for place, each in enumerate(metrics):
        query = {
            QueryType.RESOURCE: each.resource_query,
            QueryType.METRIC: each.metric_query,
            QueryType.EXPRESSION: each.expression_query,
        }[each.type]
        if query is None:
            path = f"{where}[{place}].{_QUERIES[each.type]}"
            yield Problem(path, "missing", f"there with the type {each.type.value}")
