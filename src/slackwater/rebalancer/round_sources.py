"""Where a round reads: the API server, Prometheus or metrics.k8s.io, and Kafka.

Owns which of them the settings mean, and that no question outlives the wish to end: a Prometheus
that hangs takes half a minute to fail, and the kubelet kills after as long.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

from slackwater.kube.client import Client
from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.rebalancer.assessment import Sources
from slackwater.rebalancer.cluster_reader import ClusterReader
from slackwater.rebalancer.observed import Lag, NamespaceUsage, ObservedWorkload, Unavailable
from slackwater.rebalancer.reason import Reason
from slackwater.runtime.wakeup import Interrupted, InterruptibleWakePipe
from slackwater.settings.rebalancer import RunSettings, UsageSource, WorkloadSettings

_MICROS = 1_000_000
ENDING = "the rebalancer was asked to end"
_ENDED = Unavailable(Reason.STOPPED, ENDING)
_Answer = TypeVar("_Answer")
_End = TypeVar("_End")


class Ask(Protocol):
    """How a question is asked. `ended` is the answer where the program is to end meanwhile."""

    def __call__(self, question: Callable[[], _Answer | _End], ended: _End) -> _Answer | _End: ...


def plainly(question: Callable[[], _Answer | _End], ended: _End) -> _Answer | _End:  # noqa: ARG001
    """A person's Ctrl-C ends it as any command."""
    return question()


def until_asked_to_end(pipe: InterruptibleWakePipe) -> Ask:
    def ask(question: Callable[[], _Answer | _End], ended: _End) -> _Answer | _End:
        try:
            with pipe.interrupting():
                return question()
        except Interrupted:
            return ended

    return ask


class _Reader:
    """A ClusterReader whose questions end with the program."""

    def __init__(self, client: Client, ask: Ask) -> None:
        self._reader = ClusterReader(client)
        self._ask = ask

    def read(self, settings: WorkloadSettings) -> ObservedWorkload | Unavailable:
        return self._ask(lambda: self._reader.read(settings), _ENDED)


def open_sources(
    client: Client, settings: RunSettings, halted: Callable[[], str], ask: Ask
) -> Sources:
    """For one round: what it learns of silent servers holds for that long."""
    from slackwater.rebalancer.sources import metrics_api, prometheus_usage
    from slackwater.rebalancer.sources.kafka_brokers import Brokers
    from slackwater.rebalancer.sources.prometheus_client import RoundPrometheusClient

    prometheus, brokers = RoundPrometheusClient(settings.prometheus), Brokers()
    labels = settings.prometheus.labels

    def usage(namespace: str, window: Micros, at: float) -> NamespaceUsage | Unavailable:
        if settings.usage_source is UsageSource.METRICS_API:
            return metrics_api.read_usage(client, namespace)
        return prometheus_usage.read_usage(prometheus, namespace, window, labels, at)

    def lag(workload: WorkloadSettings) -> Lag | Gap:
        kafka = workload.kafka
        group = kafka.group or workload.name
        if kafka.bootstrap_servers:
            return brokers.read_lag(kafka, group, settings.prometheus.timeout / _MICROS)
        from slackwater.rebalancer.sources import kafka_exporter

        return kafka_exporter.read_lag(prometheus, kafka, group, labels.matchers)

    return Sources(
        reader=lambda: _Reader(client, ask),
        usage=lambda *of: ask(lambda: usage(*of), _ENDED),
        lag=lambda workload: ask(lambda: lag(workload), Gap(ENDING)),
        halted=halted,
    )
