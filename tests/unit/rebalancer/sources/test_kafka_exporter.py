"""The exporter's series as one lag: -1 and silence are never a lag of 0."""

import math
from collections.abc import Mapping, Sequence
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.http.prometheus_client import (
    PrometheusClient,
    PrometheusError,
    Series,
)
from slackwater.model.gap import Gap
from slackwater.rebalancer.observed import Lag
from slackwater.rebalancer.sources.kafka_exporter import group_query, offset_query, read_lag
from slackwater.settings.rebalancer import KafkaSettings, LagSum

Values = Mapping[tuple[str, str], float]
LAG, NEWEST = "kafka_consumergroup_lag", "kafka_topic_partition_current_offset"
OLDEST, COMMITTED = "kafka_topic_partition_oldest_offset", "kafka_consumergroup_current_offset"


class Told:
    """Stands in for Prometheus: what it has of each metric; what it was asked is kept."""

    def __init__(self, **metrics: Values) -> None:
        self._metrics = metrics
        self.asked: list[str] = []

    def query(self, text: str) -> Sequence[Series]:
        self.asked.append(text)
        metric = next((name for name in self._metrics if f"({name}{{" in text), None)
        values = {} if metric is None else self._metrics[metric]
        return tuple(
            Series({"topic": topic, "partition": number}, value)
            for (topic, number), value in values.items()
        )


def t(*values: float, topic: str = "t", first: int = 0) -> Values:
    """A topic's partitions, in order."""
    return {(topic, str(number)): value for number, value in enumerate(values, first)}


def lag_of(told: Told, settings: KafkaSettings | None = None) -> Lag | Gap:
    return read_lag(cast("PrometheusClient", told), settings or KafkaSettings(enabled=True), "g")


def known(messages: int, partitions: str) -> Lag:
    return Lag(messages, f"kafka-exporter in Prometheus, {partitions}")


ENDS = t(25, 25, 25, 25)
BEGINS = t(0, 0, 0, 0)


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        pytest.param({LAG: t(5)}, known(5, "1 partition"), id="one"),
        pytest.param({LAG: t(5, 15, 25, 25)}, known(70, "4 partitions"), id="all committed"),
        pytest.param(
            {LAG: t(5, 15, 25, 25), NEWEST: ENDS}, known(70, "4 partitions"), id="with ends"
        ),
        pytest.param(
            {LAG: t(5, 15, -1, -1), NEWEST: ENDS, OLDEST: BEGINS},
            known(70, "4 partitions"),
            id="never committed, by -1",
        ),
        pytest.param(
            {LAG: t(5, 15), NEWEST: ENDS, OLDEST: BEGINS},
            known(70, "4 partitions"),
            id="never committed, not shown",
        ),
        pytest.param(
            {LAG: t(5, 15, -1, -1), NEWEST: ENDS, OLDEST: t(0, 0, 10, 25)},
            known(35, "4 partitions"),
            id="what retention took does not count",
        ),
        pytest.param(
            {LAG: t(-1, 3), COMMITTED: t(26, 22), NEWEST: t(25, 25), OLDEST: t(0, 0)},
            known(3, "2 partitions"),
            id="a quick consumer is ahead by one",
        ),
        pytest.param(
            {LAG: t(-7, 3), NEWEST: t(25, 25), OLDEST: t(0, 0)},
            known(3, "2 partitions"),
            id="a quick consumer is ahead by more",
        ),
        pytest.param(
            {LAG: t(-1, 3), COMMITTED: t(-1, 22), NEWEST: t(25, 25), OLDEST: t(0, 0)},
            known(28, "2 partitions"),
            id="never committed, by both",
        ),
        pytest.param(
            {LAG: t(math.nan, 3), NEWEST: t(25, 25), OLDEST: t(0, 0)},
            known(28, "2 partitions"),
            id="no number is like none",
        ),
        pytest.param(
            {
                LAG: {**t(5), **t(2, topic="u")},
                NEWEST: {**t(25), **t(9, 9, topic="u")},
                OLDEST: {**t(0), **t(0, 0, topic="u")},
            },
            known(16, "3 partitions"),
            id="two topics",
        ),
    ],
)
def test_lag_by_the_exporter(metrics: dict[str, Values], expected: Lag) -> None:
    assert lag_of(Told(**metrics)) == expected


def test_the_largest_of_the_partitions() -> None:
    told = Told(**{LAG: t(5, -1), NEWEST: t(25, 25), OLDEST: t(0, 3)})
    assert lag_of(told, KafkaSettings(aggregate=LagSum.MAX)) == known(22, "2 partitions")


UNKNOWN = (
    "the kafka-exporter says {} for partition {} of topic t, which has no committed offset, and "
    f"Prometheus lacks its {NEWEST} or {OLDEST}"
)


@pytest.mark.parametrize(
    ("metrics", "reason"),
    [
        pytest.param(
            {},
            f'Prometheus has no series for max by (topic, partition) ({LAG}{{consumergroup="g"}})',
            id="no series",
        ),
        pytest.param({LAG: t(5, -1)}, UNKNOWN.format(-1, 1), id="-1 and no offsets"),
        pytest.param({LAG: t(-1)}, UNKNOWN.format(-1, 0), id="only -1"),
        pytest.param({LAG: t(-1, 5), NEWEST: t(9, 9)}, UNKNOWN.format(-1, 0), id="no oldest"),
        pytest.param({LAG: t(-1, 5), OLDEST: t(9, 9)}, UNKNOWN.format(-1, 0), id="no newest"),
        pytest.param(
            {LAG: t(5), NEWEST: t(9, 9)}, UNKNOWN.format("nothing", 1), id="not shown, no oldest"
        ),
        pytest.param({LAG: t(math.nan)}, UNKNOWN.format("nan", 0), id="NaN"),
        pytest.param({LAG: t(math.inf)}, UNKNOWN.format("inf", 0), id="infinite"),
        pytest.param({LAG: t(-math.inf)}, UNKNOWN.format("-inf", 0), id="minus infinite"),
        pytest.param(
            {LAG: t(-1), NEWEST: t(3), OLDEST: t(9)}, UNKNOWN.format(-1, 0), id="ends before begins"
        ),
        pytest.param(
            {LAG: {("t", ""): 5.0}},
            f"series of {LAG} have no label topic or partition; name a lag query",
            id="no label partition",
        ),
        pytest.param(
            {LAG: {("", "0"): 5.0}},
            f"series of {LAG} have no label topic or partition; name a lag query",
            id="no label topic",
        ),
    ],
)
def test_what_is_not_known_is_no_zero(metrics: dict[str, Values], reason: str) -> None:
    assert lag_of(Told(**metrics)) == Gap(reason)


def test_where_all_is_committed_two_questions_are_enough() -> None:
    told = Told(**{LAG: t(5, 15), NEWEST: t(25, 25)})
    lag_of(told, KafkaSettings(topic="t"))
    assert told.asked == [
        f'max by (topic, partition) ({LAG}{{consumergroup="g",topic="t"}})',
        f'max by (topic, partition) ({NEWEST}{{topic=~"t"}})',
    ]


@pytest.mark.parametrize(
    ("group", "topic", "matchers"),
    [
        ("g", "", '{consumergroup="g"}'),
        ("g", "t", '{consumergroup="g",topic="t"}'),
        ('a"b', "", '{consumergroup="a\\"b"}'),
        ("a\\b", "", '{consumergroup="a\\\\b"}'),
        ("a\nb", "", '{consumergroup="a\\nb"}'),
    ],
)
def test_names_cannot_leave_their_quotes(group: str, topic: str, matchers: str) -> None:
    assert group_query("m", group, topic) == f"max by (topic, partition) (m{matchers})"


def test_our_matchers_are_in_every_question() -> None:
    """Of one that needs all four."""
    told = Told(**{LAG: t(5, -1), NEWEST: t(25, 25), OLDEST: t(0, 0)})
    settings, ours = KafkaSettings(topic="t"), (("cluster", "prod-eu"), ("a", 'b"c'))
    lag = read_lag(cast("PrometheusClient", told), settings, "g", ours)
    assert lag == known(30, "2 partitions")
    assert len(told.asked) == 4
    assert all(query.endswith(',cluster="prod-eu",a="b\\"c"})') for query in told.asked)


def test_topics_are_meant_literally_and_in_order() -> None:
    """A dot is in many topics' names."""
    assert offset_query("m", {"b.c", "a"}) == ('max by (topic, partition) (m{topic=~"a|b\\\\.c"})')


class Own:
    """Stands in for Prometheus with the answer to one query."""

    def __init__(self, *values: float | PrometheusError) -> None:
        self._values = values
        self.asked: list[str] = []

    def query(self, text: str) -> Sequence[Series]:
        self.asked.append(text)
        for value in self._values:
            if isinstance(value, PrometheusError):
                raise value
        return tuple(
            Series({"partition": str(number)}, cast("float", value))
            for number, value in enumerate(self._values)
        )


@pytest.mark.parametrize(
    ("values", "aggregate", "expected"),
    [
        ((5.0, 15.0), LagSum.SUM, Lag(20, "own query in Prometheus, 2 series")),
        ((5.0, 15.0), LagSum.MAX, Lag(15, "own query in Prometheus, 2 series")),
        ((0.0,), LagSum.SUM, Lag(0, "own query in Prometheus, 1 series")),
        ((12.5,), LagSum.SUM, Lag(13, "own query in Prometheus, 1 series")),
        ((), LagSum.SUM, Gap("the lag query q gives no series")),
        (
            (5.0, -1.0),
            LagSum.SUM,
            Gap('the lag query q gives -1 for {partition="1"}, which is not a lag'),
        ),
        (
            (math.nan,),
            LagSum.MAX,
            Gap('the lag query q gives nan for {partition="0"}, which is not a lag'),
        ),
    ],
)
def test_a_query_of_one_s_own(
    values: tuple[float, ...], aggregate: LagSum, expected: Lag | Gap
) -> None:
    """Our matchers are not put into it."""
    own = Own(*values)
    settings = KafkaSettings(query="q", aggregate=aggregate)
    assert read_lag(cast("PrometheusClient", own), settings, "g", (("cluster", "x"),)) == expected
    assert own.asked == ["q"]


@pytest.mark.parametrize("query", ["", "q"])
def test_prometheus_own_sentence_is_the_reason(query: str) -> None:
    own = Own(PrometheusError("no answer from http://p:9090 within 30 s"))
    assert read_lag(cast("PrometheusClient", own), KafkaSettings(query=query), "g") == Gap(
        "no answer from http://p:9090 within 30 s"
    )


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 50), st.integers(0, 50)), min_size=1))
def test_shown_as_minus_one_or_not_at_all_is_the_same(
    partitions: list[tuple[bool, int, int]],
) -> None:
    """As long as one is committed, so that the exporter knows the group."""
    partitions = [(True, 1, 0), *partitions]
    ends = t(*(float(begin + length) for _, length, begin in partitions))
    begins = t(*(float(begin) for _, _, begin in partitions))
    shown = t(*(float(length) if committed else -1.0 for committed, length, _ in partitions))
    hidden = {key: value for key, value in shown.items() if value >= 0}
    with_minus_one = lag_of(Told(**{LAG: shown, NEWEST: ends, OLDEST: begins}))
    assert with_minus_one == lag_of(Told(**{LAG: hidden, NEWEST: ends, OLDEST: begins}))
    assert isinstance(with_minus_one, Lag)
    assert with_minus_one.messages == sum(length for _, length, _ in partitions)
