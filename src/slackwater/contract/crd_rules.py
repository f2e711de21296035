"""Rules between the fields of our objects, in CEL, as the API server checks them.

Owns the CEL. contract.crane.objects says the same in Python of files and of older objects; the
tests hold both against one table. The API server refuses a definition whose rules could cost too
much, which is why lists and texts in rules have bounds.
"""

from collections.abc import Mapping

import msgspec

from slackwater.contract.crane.ensurance import (
    AvoidanceAction,
    MetricRule,
    NodeQos,
    NodeQosEnsurancePolicy,
    NodeQosEnsurancePolicySpec,
    NodeQosSpec,
    Rule,
)
from slackwater.contract.crane.fields import (
    NAME_WANTED,
    NUMBERED_PORT_WANTED,
    NodeQualityProbe,
    SelectorExpression,
)
from slackwater.contract.crane.metrics import METRICS, known_names
from slackwater.contract.crane.pod_qos import PodQos, ScopeExpression
from slackwater.contract.crane.prediction import PredictionMetric, TimeSeriesPredictionSpec
from slackwater.contract.ensurance_metric import (
    NAME_WITH_DASH,
    SERIES_SOURCES,
    SOURCES,
    EnsuranceMetric,
    EnsuranceMetricSpec,
    MetricSource,
)


class CelRule(msgspec.Struct, frozen=True):
    """`message` is for a person; `expression` makes one with the value in it, where the API server
    can tell how long that may get. `field_path` is the field that is to blame."""

    rule: str
    message: str
    expression: str = ""
    field_path: str = ""


def saying(value: str, rule: str, wanted: str, field_path: str = "") -> CelRule:
    """A rule about a text, whose message is the house's sentence; `value` is the text, in CEL."""
    sentence = f'"is \'" + {value} + "\', but must be {wanted}"'
    return CelRule(rule, f"must be {wanted}", sentence, field_path)


_SAME = "must be the same as restoreThreshold, of which it is another spelling"

#: Kubernetes itself lets no other character into a name than dots.
_NAME = saying(
    "self.metadata.name",
    "size(self.metadata.name) <= 63 && !self.metadata.name.contains('.')",
    NAME_WANTED,
    ".metadata.name",
)


def _unique(listed: str, key: str) -> CelRule:
    """CEL has no fold: a name that two elements share is one of which there is more than one."""
    return CelRule(
        f"self.{listed}.all(a, self.{listed}.exists_one(b, b.{key} == a.{key}))",
        f"each {key} must be there only once",
        field_path=f".{listed}",
    )


def _known_metrics(listed: str) -> CelRule:
    names = ", ".join(f"'{name}'" for name in METRICS)
    return CelRule(
        f"has(self.nodeQualityProbe.httpGet) || "
        f"self.{listed}.all(r, r.metricRule.name in [{names}] || "
        f"r.metricRule.name.contains('-') || r.metricRule.name.contains('/'))",
        f"each metricRule.name must be one of {known_names()}, or the name of an EnsuranceMetric",
        field_path=f".{listed}",
    )


_SCOPE_VALUES = (
    CelRule(
        "self.scopeName != 'QOSClass' || "
        "self.values.all(v, v in ['Guaranteed', 'Burstable', 'BestEffort'])",
        "values must be Guaranteed, Burstable or BestEffort with QOSClass",
        field_path=".values",
    ),
    CelRule(
        "self.scopeName != 'Priority' || "
        "self.values.all(v, v.matches(r'^-?[0-9]{1,10}(--?[0-9]{1,10})?$'))",
        "values must be priorities such as 1000, or ranges such as 1000-3000, with Priority",
        field_path=".values",
    ),
    CelRule(
        "self.scopeName != 'Priority' || "
        "!self.values.all(v, v.matches(r'^-?[0-9]{1,10}(--?[0-9]{1,10})?$')) || "
        "self.values.all(v, v.substring(1).indexOf('-') < 0 || "
        "int(v.substring(0, 1 + v.substring(1).indexOf('-'))) <= "
        "int(v.substring(2 + v.substring(1).indexOf('-'))))",
        "a range of priorities must begin with the lower one, such as -1000-0",
        field_path=".values",
    ),
    CelRule(
        "self.scopeName != 'Namespace' || "
        "self.values.all(v, v.matches(r'^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'))",
        "values must be names of namespaces with Namespace",
        field_path=".values",
    ),
)

_QUERIES = tuple(
    CelRule(
        f"self.type != '{kind}' || has(self.{field})",
        f"{field} must be there with the type {kind}",
        field_path=f".{field}",
    )
    for kind, field in (
        ("ResourceQuery", "resourceQuery"),
        ("MetricQuery", "metricQuery"),
        ("ExpressionQuery", "expressionQuery"),
    )
)

_ONE_SOURCE = CelRule(
    f"[{', '.join(f'has(self.{key})' for key in SOURCES)}].filter(there, there).size() == 1",
    f"source must have exactly one of {', '.join(SOURCES)}",
)
_SERIES = CelRule(
    f"({' || '.join(f'has(self.{key})' for key in SERIES_SOURCES)}) == has(self.series)",
    f"series must be there with {', '.join(SERIES_SOURCES)}, and absent otherwise",
    field_path=".series",
)
_NUMBERED_PORT = CelRule(
    "!has(self.httpGet) || type(self.httpGet.port) == int",
    f"httpGet.port must be {NUMBERED_PORT_WANTED}",
    field_path=".httpGet.port",
)


def _quantified(verb: str) -> CelRule:
    return CelRule(
        f"!has(self.{verb}Quantified) || !self.{verb}Quantified || "
        f"(has(self.{verb}able) && self.{verb}able && self.release != 'none')",
        f"{verb}Quantified must be false where {verb}able is, or where release is none",
        field_path=f".{verb}Quantified",
    )


RULES: Mapping[type, tuple[CelRule, ...]] = {
    EnsuranceMetric: (
        saying(
            "self.metadata.name",
            "self.metadata.name.matches(r'^[a-z][a-z0-9]*-[-a-z0-9]*$') && "
            "size(self.metadata.name) <= 63",
            NAME_WITH_DASH,
            ".metadata.name",
        ),
    ),
    EnsuranceMetricSpec: (
        CelRule(
            "!has(self.sort) || self.sort.all(a, self.sort.exists_one(b, b.by == a.by))",
            "each by must be there only once",
            field_path=".sort",
        ),
        _quantified("throttle"),
        _quantified("evict"),
        CelRule(
            "!has(self.throttleQuantified) || !self.throttleQuantified || "
            "self.release != 'memoryUsage'",
            "throttleQuantified must be false where release is memoryUsage: a throttle releases no "
            "memory",
            field_path=".throttleQuantified",
        ),
    ),
    MetricSource: (_ONE_SOURCE, _SERIES, _NUMBERED_PORT),
    AvoidanceAction: (_NAME,),
    NodeQos: (_NAME,),
    NodeQosEnsurancePolicy: (_NAME,),
    PodQos: (_NAME,),
    NodeQosSpec: (_unique("rules", "name"), _known_metrics("rules")),
    NodeQosEnsurancePolicySpec: (
        _unique("objectiveEnsurances", "name"),
        _known_metrics("objectiveEnsurances"),
    ),
    NodeQualityProbe: (
        CelRule(
            "has(self.httpGet) != has(self.nodeLocalGet)",
            "nodeQualityProbe must have exactly one of httpGet and nodeLocalGet",
        ),
        _NUMBERED_PORT,
    ),
    MetricRule: (
        CelRule(
            "type(self.value) == int ? self.value > 0 "
            ": quantity(self.value).isGreaterThan(quantity('0'))",
            "value must be a quantity above 0",
            field_path=".value",
        ),
    ),
    Rule: (
        CelRule(
            "!has(self.restoreThreshold) || !has(self.restoredThreshold) || "
            "self.restoreThreshold == self.restoredThreshold",
            _SAME,
            # Not string(): the API server takes its result for a text without end
            # (kubernetes/kubernetes#124234).
            f"'is %d, but {_SAME}: %d'.format([self.restoredThreshold, self.restoreThreshold])",
            ".restoredThreshold",
        ),
    ),
    SelectorExpression: (
        CelRule(
            "self.operator in ['In', 'NotIn'] == (has(self.values) && size(self.values) > 0)",
            "values must not be empty with In and NotIn, and must be empty otherwise",
            field_path=".values",
        ),
    ),
    ScopeExpression: _SCOPE_VALUES,
    TimeSeriesPredictionSpec: (_unique("predictionMetrics", "resourceIdentifier"),),
    PredictionMetric: _QUERIES,
}
