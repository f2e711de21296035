"""The kafka-exporter's series in a real Prometheus: our queries mean there what we say."""

import time
from collections.abc import Iterator, Mapping

import pytest

from slackwater.http.prometheus_client import PrometheusClient
from slackwater.model.gap import Gap
from slackwater.rebalancer.guards import lag_guard
from slackwater.rebalancer.observed import Lag
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.sources.kafka_exporter import read_lag
from slackwater.settings.prometheus import PrometheusSettings
from slackwater.settings.rebalancer import KafkaSettings, LagSum
from tests.cluster.prometheus_bed import Backfill, gauge, prometheus_with

LAG, COMMITTED = "kafka_consumergroup_lag", "kafka_consumergroup_current_offset"
NEWEST, OLDEST = "kafka_topic_partition_current_offset", "kafka_topic_partition_oldest_offset"
#: The groups' topics have such names.
TOPIC = "shop.orders-v1"
#: Alike, but for what a dot means in a pattern.
ANOTHER = "shopxorders-v1"


def of_group(group: str, now: float, topic: str = TOPIC, **labels: str) -> "Told":
    return Told({"consumergroup": group, "topic": topic, **labels}, now)


class Told:
    """What an exporter tells of one group's topic."""

    def __init__(self, labels: Mapping[str, str], now: float) -> None:
        self._labels = labels
        self._now = now

    def series(self, metric: str, *values: float) -> list[Backfill]:
        return [
            gauge(metric, {**self._labels, "partition": str(number)}, value, now=self._now)
            for number, value in enumerate(values)
        ]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusClient]:
    now = time.time()
    offsets = Told({"topic": TOPIC}, now)
    another = Told({"topic": ANOTHER}, now)
    gone = {"consumergroup": "gone", "topic": TOPIC, "partition": "0"}
    series = [
        *offsets.series(NEWEST, 25, 25, 25, 25),
        *offsets.series(OLDEST, 0, 0, 0, 0),
        *another.series(NEWEST, 1000, 1000),
        *another.series(OLDEST, 0, 0),
        *of_group("shown", now).series(LAG, 5, 15, -1, -1),
        *of_group("shown", now).series(COMMITTED, 20, 10, -1, -1),
        *of_group("hidden", now).series(LAG, 5, 15),
        *of_group("twice", now, instance="a").series(LAG, 5, 15, 20, 20),
        *of_group("twice", now, instance="b").series(LAG, 5, 10, 25, 20),
        *of_group("quick", now).series(LAG, -1, -3, 0, 0),
        *of_group("quick", now).series(COMMITTED, 26, 28, 25, 25),
        *of_group("two", now).series(LAG, 1, 1, 1, 1),
        *of_group("two", now, ANOTHER).series(LAG, 7, 7),
        *of_group('a"quote\\', now).series(LAG, 2, 2, 2, 2),
        *of_group("without", now, "unknown").series(LAG, 5, -1),
        gauge(LAG, gone, 5, now=now, ended=900),
    ]
    with prometheus_with(tmp_path_factory.mktemp("exporter"), series) as bed:
        yield PrometheusClient(PrometheusSettings(endpoint=bed.endpoint))


@pytest.mark.parametrize(
    ("group", "settings", "messages"),
    [
        ("shown", KafkaSettings(), 70),
        ("shown", KafkaSettings(topic=TOPIC), 70),
        ("shown", KafkaSettings(aggregate=LagSum.MAX), 25),
        ("hidden", KafkaSettings(), 70),
        ("twice", KafkaSettings(), 65),
        ("quick", KafkaSettings(), 0),
        ("two", KafkaSettings(), 18),
        ("two", KafkaSettings(topic=ANOTHER), 14),
        ('a"quote\\', KafkaSettings(), 8),
        ("any", KafkaSettings(query=f'{LAG}{{consumergroup="hidden"}}'), 20),
        ("any", KafkaSettings(query=f'clamp_min({LAG}{{consumergroup="shown"}}, 0)'), 20),
    ],
)
def test_lag(
    prometheus: PrometheusClient, group: str, settings: KafkaSettings, messages: int
) -> None:
    lag = read_lag(prometheus, settings, group)
    assert isinstance(lag, Lag), lag
    assert lag.messages == messages


@pytest.mark.parametrize(
    ("group", "settings", "clue"),
    [
        ("nobody", KafkaSettings(), "no series for max by (topic, partition) (kafka_consumergroup"),
        ("gone", KafkaSettings(), "no series for max by"),
        ("shown", KafkaSettings(topic="elsewhere"), 'topic="elsewhere"'),
        ("without", KafkaSettings(), "says -1 for partition 1 of topic unknown"),
        ("any", KafkaSettings(query=f'{LAG}{{consumergroup="shown"}}'), "gives -1 for {"),
        ("any", KafkaSettings(query="absent_metric"), "absent_metric gives no series"),
        ("any", KafkaSettings(query="sum("), "parse error"),
    ],
)
def test_not_known(
    prometheus: PrometheusClient, group: str, settings: KafkaSettings, clue: str
) -> None:
    lag = read_lag(prometheus, settings, group)
    assert isinstance(lag, Gap)
    assert clue in lag.reason
    assert lag_guard(lag, settings, group).reason is Reason.KAFKA_LAG_UNKNOWN


def test_prometheus_that_is_away() -> None:
    settings = PrometheusSettings(endpoint="http://127.0.0.1:1", retries=0)
    lag = read_lag(PrometheusClient(settings), KafkaSettings(), "g")
    assert isinstance(lag, Gap)
    assert "127.0.0.1:1" in lag.reason
