"""What a round reads from: the API server, Prometheus or metrics.k8s.io, and Kafka.

A request does not outlast the order to end: a Prometheus that hangs takes half a minute to time
out, and the kubelet kills the process after as long.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeVar

from slackwater.kube.client import Client
from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.rebalancer.observed import Lag, NamespaceUsage, ObservedWorkload, Unavailable
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.sources import kafka_exporter, metrics_api, prometheus_usage
from slackwater.rebalancer.sources.cluster_reader import ClusterReader
from slackwater.rebalancer.sources.kafka_brokers import Brokers
from slackwater.rebalancer.sources.round_prometheus import RoundPrometheusClient
from slackwater.runtime.wakeup import Interrupted
from slackwater.settings.rebalancer import RunSettings, UsageSource, WorkloadSettings

_MICROS = 1_000_000
ENDING = "the rebalancer was asked to end"
ENDING = "the rebalancer was asked to end"
_ENDED = Unavailable(Reason.STOPPED, ENDING)
_Answer = TypeVar("_Answer")
_End = TypeVar("_End")


class RoundSources:
    """The sources of one round, which also remember for that long which servers do not answer.

    Requests are made inside of `interrupting()`, which raises Interrupted when the program is to
    end. `halted` gives the reason to stop, empty while there is none.
    """

    def __init__(
        self,
        client: Client,
        settings: RunSettings,
        halted: Callable[[], str],
        interrupting: Callable[[], AbstractContextManager[object]],
    ) -> None:
        self.halted = halted
        self._client = client
        self._settings = settings
        self._interrupting = interrupting
        self._reader = ClusterReader(client)
        self._prometheus = RoundPrometheusClient(settings.prometheus)
        self._brokers = Brokers()

    def observe(self, settings: WorkloadSettings) -> ObservedWorkload | Unavailable:
        return self._ask(lambda: self._reader.read(settings), _ENDED)

    def observe_again(self, settings: WorkloadSettings) -> ObservedWorkload | Unavailable:
        return self._ask(lambda: ClusterReader(self._client).read(settings), _ENDED)

    def usage(self, namespace: str, window: Micros, at: float) -> NamespaceUsage | Unavailable:
        return self._ask(lambda: self._read_usage(namespace, window, at), _ENDED)

    def lag(self, settings: WorkloadSettings) -> Lag | Gap:
        return self._ask(lambda: self._read_lag(settings), Gap(ENDING))

    def _ask(self, request: Callable[[], _Answer | _End], ended: _End) -> _Answer | _End:
        try:
            with self._interrupting():
                return request()
        except Interrupted:
            return ended

    def _read_usage(
        self, namespace: str, window: Micros, at: float
    ) -> NamespaceUsage | Unavailable:
        if self._settings.usage_source is UsageSource.METRICS_API:
            return metrics_api.read_usage(self._client, namespace)
        labels = self._settings.prometheus.labels
        return prometheus_usage.read_usage(self._prometheus, namespace, window, labels, at)

    def _read_lag(self, settings: WorkloadSettings) -> Lag | Gap:
        kafka, prometheus = settings.kafka, self._settings.prometheus
        group = kafka.group or settings.name
        if kafka.bootstrap_servers:
            return self._brokers.read_lag(kafka, group, prometheus.timeout / _MICROS)
        return kafka_exporter.read_lag(self._prometheus, kafka, group, prometheus.labels.matchers)
