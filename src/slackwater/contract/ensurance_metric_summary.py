"""What an EnsuranceMetric does, and what is wrong with it or a rule that names one, in sentences.

Owns the sentences of its status. Pure: objects in, text out.
"""

from collections.abc import Collection, Iterator

from slackwater.contract.crane.ensurance import Policy
from slackwater.contract.ensurance_metric import (
    Comparator,
    EnsuranceMetric,
    EnsuranceMetricSpec,
    MetricSource,
    ReleaseUnit,
    SortDirection,
)
from slackwater.model.problem import quoted, shorten

#: Of a query in a summary.
_LONGEST_QUERY = 200
_RELEASED = {
    ReleaseUnit.CPU_USAGE: "its CPU usage",
    ReleaseUnit.MEMORY_USAGE: "its memory usage",
    ReleaseUnit.OWN_VALUE: "its own value",
}


def metric_summary(metric: EnsuranceMetric) -> str:
    """ "queue_length of PodQOS/workers; pods are throttled, each counts by its own value; sorted by
    classAndPriority, ownValue descending; priority 7"."""
    spec = metric.spec
    parts = [_source(spec.source), _actions(spec), _sort(spec), f"priority {spec.action_priority}"]
    return "; ".join(filter(None, parts))


def metric_problems(metric: EnsuranceMetric, probes: Collection[str]) -> tuple[str, ...]:
    """`probes` are the titles of the objects with an httpGet probe."""
    return tuple(_problems(metric.spec, probes))


def unknown_metrics(policy: Policy, metrics: Collection[str]) -> tuple[str, ...]:
    """Of rules that name an EnsuranceMetric which is not there. What plug-ins define, whose names
    have a '/', only the agents know."""
    named = ((rule.name, rule.metric_rule.name) for rule in policy.spec.rules)
    return tuple(
        f"rule {rule}: there is no EnsuranceMetric {quoted(name)}"
        for rule, name in named
        if "-" in name and "/" not in name and name not in metrics
    )


def _source(source: MetricSource) -> str:
    if source.probe is not None:
        return f"{source.series} of {source.probe.kind.value}/{source.probe.name}"
    if source.http_get is not None:
        where = f"{source.http_get.host or 'the node'}:{source.http_get.port}"
        return f"{source.series} of {where}{source.http_get.path}"
    if source.promql is not None:
        return f"{shorten(source.promql.query, _LONGEST_QUERY)} of {source.promql.url}"
    if source.file is not None:
        return f"{source.series} of the file {source.file.name}"
    return "CPU pressure of protected pods"


def _actions(spec: EnsuranceMetricSpec) -> str:
    verbs = [
        _verb(verb, quantified, spec.release)
        for verb, able, quantified in (
            ("throttled", spec.throttleable, spec.throttle_quantified),
            ("evicted", spec.evictable, spec.evict_quantified),
        )
        if able
    ]
    return f"pods are {' and '.join(verbs)}" if verbs else "pods are neither throttled nor evicted"


def _verb(verb: str, quantified: bool, release: ReleaseUnit) -> str:
    return f"{verb} (each releases {_RELEASED[release]})" if quantified else verb


def _sort(spec: EnsuranceMetricSpec) -> str:
    told = (
        f"{each.by.value}{' descending' if each.order is SortDirection.DESCENDING else ''}"
        for each in spec.sort
    )
    return f"sorted by {', '.join(told)}" if spec.sort else ""


def _problems(spec: EnsuranceMetricSpec, probes: Collection[str]) -> Iterator[str]:
    source = spec.source
    if source.probe is not None:
        title = f"{source.probe.kind.value}/{source.probe.name}"
        if title not in probes:
            yield f"spec.source.probe: there is no {title} with an httpGet probe"
    own = any(each.by is Comparator.OWN_VALUE for each in spec.sort)
    if source.pressure is not None and (own or spec.release is ReleaseUnit.OWN_VALUE):
        yield "spec.source.pressure has values of protected pods alone, so ownValue says nothing"
    if spec.sort and not (spec.throttleable or spec.evictable):
        yield "spec.sort has no effect: pods are neither throttled nor evicted for this metric"
