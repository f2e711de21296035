"""What the containers of a namespace use and ask for, from Prometheus.

Owns the way from series to NamespaceUsage: one query for the usage of all workloads, one for how
old its samples are and one for their requests, at the same instant. A number that means nothing is
a Gap, and so is one that is stale: `increase` of a series that ended reads too low. A request that
means nothing is left out, since the pod's spec has it too. Refuses to guess: no series, stale
series only, or series without the labels that tell pods apart, is a Unavailable.
"""

import math
import time
from collections.abc import Iterable, Mapping

from slackwater.http.prometheus_api import PrometheusUnreachableError
from slackwater.http.prometheus_client import (
    PrometheusClient,
    PrometheusError,
    Series,
)
from slackwater.model.gap import Gap
from slackwater.model.problem import quoted
from slackwater.model.units import Micros
from slackwater.rebalancer.observed import Cores, NamespaceUsage, Unavailable
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.sources.promql import (
    REQUEST_METRIC,
    SERIES_LABELS,
    USAGE_METRIC,
    duration,
    newest_sample_query,
    presence_query,
    request_query,
    usage_query,
)
from slackwater.settings.prometheus import MetricLabels

#: Clocks that are farther apart than this, in seconds, are worth a word where nothing was found.
_CLOCKS_APART = 60.0
#: Samples older than this part of the window are stale: usage would read a third too low.
_STALE_SHARE = 3
#: But never younger ones, in seconds: a scrape interval of a minute and cAdvisor's own delay.
_ALWAYS_FRESH = 75.0
_MICROS = 1_000_000
#: Of one container: the labels of a counter, and its cores.
_Counters = dict[tuple[str, ...], float]


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
        newest = prometheus.ask(newest_sample_query(namespace, labels), instant)
        asked = prometheus.ask(request_query(namespace, labels), instant)
    except PrometheusError as error:
        return Unavailable(Reason.PROMETHEUS_ERROR, _with_way_out(error))
    named = [each for each in used.series if each.labels.get(labels.pod)]
    if not named:
        return Unavailable(Reason.NO_USAGE_DATA, _nameless(namespace, labels))
    ages = {_counter(each, labels): instant - each.value for each in newest.series}
    oldest = max(window / _MICROS / _STALE_SHARE, _ALWAYS_FRESH)
    if all(_is_stale(ages.get(_counter(each, labels)), oldest) for each in named):
        return Unavailable(
            Reason.NO_USAGE_DATA, _stale(namespace, ages, oldest, newest.clock, instant)
        )
    usage = _usage(named, ages, oldest, labels)
    requests = _requests(asked.series, labels)
    lost = len(used.series) - len(named)
    warnings = (*used.warnings, *newest.warnings, *asked.warnings)
    unused = len(asked.series) - len(requests)
    return NamespaceUsage(usage, requests, _notes(warnings, lost, unused, labels))


def _with_way_out(error: PrometheusError) -> str:
    """Where no Prometheus is there, none may be meant to be."""
    if not isinstance(error, PrometheusUnreachableError):
        return str(error)
    return f"{error}; without a Prometheus say --usage-source metrics-api, for metrics.k8s.io"


def _usage(
    named: Iterable[Series],
    ages: Mapping[tuple[str, ...], float],
    oldest: float,
    labels: MetricLabels,
) -> dict[tuple[str, str], Cores | Gap]:
    found: dict[tuple[str, str], _Counters] = {}
    for each in named:
        found.setdefault(_key(each, labels), {})[_counter(each, labels)] = each.value
    return {key: _container_usage(counters, ages, oldest) for key, counters in found.items()}


def _container_usage(
    counters: _Counters, ages: Mapping[tuple[str, ...], float], oldest: float
) -> Cores | Gap:
    """Of cAdvisor's counters, which add up; where it has none, or they ended, of the kubelet's
    /metrics/resource, which is the same CPU time again."""
    plain = {key: value for key, value in counters.items() if not any(key[2:])}
    detailed = {key: value for key, value in counters.items() if key not in plain}
    known: list[float] = []
    for kind in (detailed, plain):
        # A container that was restarted has a counter that ended and one that goes on.
        kind_ages = [ages[key] for key in kind if key in ages]
        if kind and not _is_stale(min(kind_ages, default=None), oldest):
            return _cores(sum(kind.values()))
        known += kind_ages
    if not known:
        return Gap("its usage is stale: Prometheus has no sample of it any more")
    return Gap(f"its usage is stale: the newest sample is {min(known):.0f} s old, {_most(oldest)}")


def _is_stale(age: float | None, oldest: float) -> bool:
    return age is None or not age <= oldest


def _most(oldest: float) -> str:
    return f"but must be at most {oldest:.0f} s"


def _stale(
    namespace: str,
    ages: Mapping[tuple[str, ...], float],
    oldest: float,
    clock: float | None,
    at: float,
) -> str:
    newest = min(ages.values(), default=None)
    told = f"all usage of the namespace {quoted(namespace)} in Prometheus is stale: "
    told += (
        "no series has a sample now"
        if newest is None
        else f"the newest sample is {newest:.0f} s old, {_most(oldest)} (a third of the window)"
    )
    told += "; check that the kubelets' /metrics/cadvisor is still scraped (up)"
    return told + _clocks(clock, at)


def _requests(series: Iterable[Series], labels: MetricLabels) -> dict[tuple[str, str], Cores]:
    found = {_key(each, labels): _cores(each.value) for each in series}
    return {key: cores for key, cores in found.items() if all(key) and not isinstance(cores, Gap)}


def _key(series: Series, labels: MetricLabels) -> tuple[str, str]:
    return series.labels.get(labels.pod, ""), series.labels.get(labels.container, "")


def _counter(series: Series, labels: MetricLabels) -> tuple[str, ...]:
    more = (series.labels.get(name, "") for name in SERIES_LABELS)
    return (*_key(series, labels), *more)


def _cores(value: float) -> Cores | Gap:
    if math.isnan(value):
        return Gap("Prometheus' number is NaN")
    if math.isinf(value):
        return Gap("Prometheus' number is infinite")
    if value < 0:
        return Gap(f"Prometheus' number is {value:g}, below zero")
    return Cores(value)


def _notes(
    warnings: Iterable[str], lost: int, unused: int, labels: MetricLabels
) -> tuple[str, ...]:
    """What people should know about an answer that is used all the same."""
    notes = [f"Prometheus warns: {each}" for each in warnings]
    if lost:
        notes.append(
            f"{lost} series of {USAGE_METRIC} have no label {labels.pod}; they are left out"
        )
    if unused:
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
    return Unavailable(Reason.NO_USAGE_DATA, told + _clocks(found.clock, at))


def _clocks(clock: float | None, at: float) -> str:
    if clock is None or abs(clock - at) <= _CLOCKS_APART:
        return ""
    return f"; its clock and ours are {abs(clock - at):.0f} s apart"


def _narrowed(labels: MetricLabels) -> str:
    if not labels.matchers:
        return ""
    pairs = ", ".join(f"{name}={quoted(value)}" for name, value in labels.matchers)
    return f" and what prometheus.matchers ask for ({pairs})"


def _hint(setting: str) -> str:
    return f"where the scrape configuration renames labels (exported_...), set prometheus.{setting}"
