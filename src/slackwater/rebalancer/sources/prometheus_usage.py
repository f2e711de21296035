"""What the containers of a namespace use and ask for, from Prometheus.

Owns the way from series to NamespaceUsage: one query for the usage of all workloads and one for
their requests, at the same instant. A number that means nothing is a Gap; a request that means
nothing is left out, since the pod's spec has it too. Refuses to guess: no series, or series
without the labels that tell pods apart, is a Unavailable.
"""

import math
import time
from collections.abc import Iterable

from slackwater.model.gap import Gap
from slackwater.model.problem import quoted
from slackwater.model.units import Micros
from slackwater.rebalancer.observed import Cores, NamespaceUsage, Unavailable
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.sources.prometheus_client import (
    PrometheusClient,
    PrometheusError,
    QueryResult,
    Series,
)
from slackwater.rebalancer.sources.promql import (
    REQUEST_METRIC,
    USAGE_METRIC,
    duration,
    presence_query,
    request_query,
    usage_query,
)
from slackwater.settings.rebalancer import MetricLabels

#: Clocks that are farther apart than this, in seconds, are worth a word where nothing was found.
_CLOCKS_APART = 60.0


def read_usage(
    prometheus: PrometheusClient,
    namespace: str,
    window: Micros,
    labels: MetricLabels,
    at: float | None = None,
) -> NamespaceUsage | Unavailable:
    """`at` is the instant of all queries, in seconds since 1970; None is now. A round uses one
    instant for all namespaces."""
    instant = time.time() if at is None else at
    try:
        used = prometheus.ask(usage_query(namespace, window, labels), instant)
        if not used.series:
            return _nothing(prometheus, namespace, window, labels, instant)
        asked = prometheus.ask(request_query(namespace, labels), instant)
    except PrometheusError as error:
        return Unavailable(Reason.PROMETHEUS_ERROR, str(error))
    named = [each for each in used.series if each.labels.get(labels.pod)]
    if not named:
        return Unavailable(Reason.NO_USAGE_DATA, _nameless(namespace, labels))
    usage = {_key(each, labels): _cores(each.value) for each in named}
    requests = _requests(asked.series, labels)
    lost = len(used.series) - len(named)
    return NamespaceUsage(usage, requests, _notes(used, asked, lost, len(requests), labels))


def _requests(series: Iterable[Series], labels: MetricLabels) -> dict[tuple[str, str], Cores]:
    found = {_key(each, labels): _cores(each.value) for each in series}
    return {key: cores for key, cores in found.items() if all(key) and not isinstance(cores, Gap)}


def _key(series: Series, labels: MetricLabels) -> tuple[str, str]:
    return series.labels.get(labels.pod, ""), series.labels.get(labels.container, "")


def _cores(value: float) -> Cores | Gap:
    if math.isnan(value):
        return Gap("Prometheus' number is NaN")
    if math.isinf(value):
        return Gap("Prometheus' number is infinite")
    if value < 0:
        return Gap(f"Prometheus' number is {value:g}, below zero")
    return Cores(value)


def _notes(
    used: QueryResult, asked: QueryResult, lost: int, requests: int, labels: MetricLabels
) -> tuple[str, ...]:
    """What people should know about an answer that is used all the same."""
    notes = [f"Prometheus warns: {each}" for each in (*used.warnings, *asked.warnings)]
    if lost:
        notes.append(
            f"{lost} series of {USAGE_METRIC} have no label {labels.pod}; they are left out"
        )
    if unused := len(asked.series) - requests:
        notes.append(
            f"{unused} series of {REQUEST_METRIC} have no label {labels.pod} or "
            f"{labels.container}, or no number that a request can be; they are left out"
        )
    return tuple(dict.fromkeys(notes))


def _nameless(namespace: str, labels: MetricLabels) -> str:
    return (
        f"the series of {USAGE_METRIC} in the namespace {quoted(namespace)} have no label "
        f"{labels.pod}, so that pods cannot be told apart; {_hint('podLabel')}"
    )


def _nothing(
    prometheus: PrometheusClient, namespace: str, window: Micros, labels: MetricLabels, at: float
) -> Unavailable:
    """Why there is no usage, as far as one more query tells. Raises PrometheusError."""
    found = prometheus.ask(presence_query(namespace, labels), at)
    told = f"Prometheus has no usage of any container in the namespace {quoted(namespace)}: "
    if count := next((each.value for each in found.series), 0.0):
        told += (
            f"its {count:g} series of {USAGE_METRIC} there have no label {labels.container}, or "
            f"fewer than two samples in {duration(window)}; the window must be at least twice the "
            f"scrape interval; {_hint('containerLabel')}"
        )
    else:
        told += (
            f"it has no series of {USAGE_METRIC} with {labels.namespace}={quoted(namespace)}"
            f"{_narrowed(labels)}; "
            "check that the kubelets' /metrics/cadvisor is scraped (up), and that this is the "
            f"right server and tenant; {_hint('namespaceLabel')}"
        )
    if found.clock is not None and abs(found.clock - at) > _CLOCKS_APART:
        told += f"; its clock and ours are {abs(found.clock - at):.0f} s apart"
    return Unavailable(Reason.NO_USAGE_DATA, told)


def _narrowed(labels: MetricLabels) -> str:
    if not labels.matchers:
        return ""
    pairs = ", ".join(f"{name}={quoted(value)}" for name, value in labels.matchers)
    return f" and what prometheus.matchers ask for ({pairs})"


def _hint(setting: str) -> str:
    return f"where the scrape configuration renames labels (exported_...), set prometheus.{setting}"
