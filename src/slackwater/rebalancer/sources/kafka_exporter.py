"""The lag of a consumer group by the kafka-exporter's series in Prometheus or VictoriaMetrics.

Owns the queries and what their numbers mean; sends nothing itself. The exporter says -1 for a
partition without a committed offset and, with --no-offset.show-all, nothing: neither is a lag of 0.
Such a partition counts from its oldest to its newest message where the exporter has both, else the
lag is not known. Two exporters of one cluster give one number: the larger. Of PromQL `max by` and
the matchers `=` and `=~` are used, nothing else.
"""

import math
import re
from collections.abc import Iterable, Mapping

from slackwater.http.prometheus_client import (
    PrometheusClient,
    PrometheusError,
    Series,
)
from slackwater.model.gap import Gap
from slackwater.rebalancer.observed import Lag, aggregate_lag
from slackwater.rebalancer.reason import counted
from slackwater.rebalancer.sources.promql import braces, label_value
from slackwater.settings.rebalancer import KafkaSettings

_LAG = "kafka_consumergroup_lag"
_COMMITTED = "kafka_consumergroup_current_offset"
_NEWEST = "kafka_topic_partition_current_offset"
_OLDEST = "kafka_topic_partition_oldest_offset"
#: A topic and the number of one of its partitions, as the labels have it.
_Partition = tuple[str, str]
#: Labels and their values.
Pairs = tuple[tuple[str, str], ...]


def read_lag(
    prometheus: PrometheusClient, settings: KafkaSettings, group: str, matchers: Pairs = ()
) -> Lag | Gap:
    """`matchers` are added to every selector. A query from the settings is sent as it is; each of
    its series counts as one partition."""
    try:
        if settings.query:
            return _by_own_query(prometheus, settings)
        return _by_exporter(prometheus, settings, group, matchers)
    except PrometheusError as error:
        return Gap(str(error))


def group_query(metric: str, group: str, topic: str, matchers: Pairs = ()) -> str:
    wanted = (("consumergroup", "=", group), *((("topic", "=", topic),) if topic else ()))
    return _each_partition(metric, wanted, matchers)


def offset_query(metric: str, topics: Iterable[str], matchers: Pairs = ()) -> str:
    pattern = "|".join(re.escape(topic) for topic in sorted(topics))
    return _each_partition(metric, (("topic", "=~", pattern),), matchers)


def _each_partition(metric: str, wanted: Iterable[tuple[str, str, str]], matchers: Pairs) -> str:
    of_ours = ((name, "=", value) for name, value in matchers)
    return f"max by (topic, partition) ({metric}{braces(*wanted, *of_ours)})"


def _by_own_query(prometheus: PrometheusClient, settings: KafkaSettings) -> Lag | Gap:
    found = prometheus.query(settings.query)
    if not found:
        return Gap(f"the lag query {settings.query} gives no series")
    for series in found:
        if not _is_amount(series.value):
            told = f"{series.value:g} for {_labels(series)}"
            return Gap(f"the lag query {settings.query} gives {told}, which is not a lag")
    lag = aggregate_lag((series.value for series in found), settings.aggregate)
    return Lag(lag, f"own query in Prometheus, {len(found)} series")


def _by_exporter(
    prometheus: PrometheusClient, settings: KafkaSettings, group: str, matchers: Pairs
) -> Lag | Gap:
    query = group_query(_LAG, group, settings.topic, matchers)
    told = _by_partition(prometheus.query(query))
    if not told:
        return Gap(f"Prometheus has no series for {query}")
    if not all(map(all, told)):
        return Gap(f"series of {_LAG} have no label topic or partition; name a lag query")
    topics = {topic for topic, _ in told}
    newest = _by_partition(prometheus.query(offset_query(_NEWEST, topics, matchers)))
    lags = {each: value for each, value in told.items() if _is_amount(value)}
    if told.keys() | newest.keys() != lags.keys():
        committed = prometheus.query(group_query(_COMMITTED, group, settings.topic, matchers))
        lags |= _caught_up(told, _by_partition(committed))
    if uncommitted := (told.keys() | newest.keys()) - lags.keys():
        oldest = _by_partition(prometheus.query(offset_query(_OLDEST, topics, matchers)))
        for each in sorted(uncommitted):
            whole = _whole_log(newest.get(each), oldest.get(each))
            if whole is None:
                return Gap(_unknown(each, told.get(each)))
            lags[each] = whole
    source = f"kafka-exporter in Prometheus, {counted(len(lags), 'partition')}"
    return Lag(aggregate_lag(lags.values(), settings.aggregate), source)


def _caught_up(
    told: Mapping[_Partition, float], committed: Mapping[_Partition, float]
) -> dict[_Partition, float]:
    """The exporter reads the ends before the commits, so a quick consumer may be ahead of them. -1
    may mean that as well, and less than -1 means nothing else."""
    return {
        each: 0.0
        for each, value in told.items()
        if -math.inf < value < -1 or (value == -1 and committed.get(each, -1) >= 0)
    }


def _by_partition(found: Iterable[Series]) -> Mapping[_Partition, float]:
    """`max by` leaves one series for each."""
    return {(s.labels.get("topic", ""), s.labels.get("partition", "")): s.value for s in found}


def _whole_log(newest: float | None, oldest: float | None) -> float | None:
    if newest is None or oldest is None:
        return None
    whole = newest - oldest
    return whole if _is_amount(whole) else None


def _is_amount(value: float) -> bool:
    return math.isfinite(value) and value >= 0


def _unknown(partition: _Partition, value: float | None) -> str:
    topic, number = partition
    told = "nothing" if value is None else f"{value:g}"
    return (
        f"the kafka-exporter says {told} for partition {number} of topic {topic}, which has no "
        f"committed offset, and Prometheus lacks its {_NEWEST} or {_OLDEST}"
    )


def _labels(series: Series) -> str:
    return "{" + ", ".join(f"{k}={label_value(v)}" for k, v in sorted(series.labels.items())) + "}"
