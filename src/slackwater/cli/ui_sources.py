"""What the page of `slackwater ui` reads: an agent, over its unix socket or through the API server;
a cluster with the user's own kubeconfig.
"""

import datetime as dt
import os
import threading
import time
from collections.abc import Callable
from typing import TypeVar

import msgspec

from slackwater import __version__
from slackwater.cli.agent_client import AgentSource, ask, ask_explanation, ask_overview, fetch
from slackwater.cli.agent_source import RemoteAgent, import_remote
from slackwater.cli.forecast_show import fetch_usage_history
from slackwater.cli.manager import LEASE
from slackwater.cli.output import Failed
from slackwater.cli.rebalance_settings import resolve
from slackwater.http.errors import RequestError
from slackwater.kube.access import Access
from slackwater.kube.client import Client
from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.rebalancer.plan_view import view_of
from slackwater.rebalancer.program import plan as assess_workloads
from slackwater.record.cpu_map import CpuMap
from slackwater.record.explanation import Explanation
from slackwater.record.overview import Overview
from slackwater.record.recording import Recording, RecordingError, decode_recording
from slackwater.settings.rebalancer import UsageSource
from slackwater.status.cluster_watch import ClusterWatch, LeaseName
from slackwater.status.node_forecast import fetch_node_forecast
from slackwater.ui.cluster_memory import ClusterMemory
from slackwater.ui.sources import (
    AgentReader,
    ClusterSnapshot,
    ForecastAndHistory,
    NotAvailableError,
    RotationPlans,
    WorkloadQuery,
)

_Found = TypeVar("_Found")
#: Seconds. An agent answers from memory; one that waits for a tick takes its two seconds.
_PATIENCE = 5.0
_LONGER = 15.0
#: Seconds for the first list of the nodes, before the page says that it waits for it.
_FIRST_LIST = 1.0


def available(read: Callable[[], _Found]) -> _Found:
    """What commands tell on stderr is a sentence for the page."""
    try:
        return read()
    except Failed as error:
        raise NotAvailableError(error.message) from None
    except RequestError as error:
        raise NotAvailableError(str(error)) from None


class AskedAgent:
    """An AgentReader. Several threads serve the page, and a source takes one question at a time."""

    def __init__(self, source: AgentSource, name: str) -> None:
        self._source = source
        self._turn = threading.Lock()
        self.name = name

    def overview(self) -> Overview:
        with self._turn:
            return available(lambda: ask_overview(self._source, _PATIENCE))

    def explain(self, target: str) -> list[Explanation]:
        with self._turn:
            return available(lambda: ask_explanation(self._source, target))

    def cpus(self) -> CpuMap:
        with self._turn:
            return available(lambda: ask(self._source, "/v1/cpus", {}, CpuMap, _LONGER))

    def ticks(self) -> Recording:
        with self._turn:
            contents = available(lambda: fetch(self._source, "/v1/ticks", {}, _LONGER))
        return read_recording(contents, self.name)


def read_recording(contents: bytes, name: str) -> Recording:
    try:
        return decode_recording(contents)
    except RecordingError as error:
        raise NotAvailableError(f"{name}: {error}") from None


class ClusterChoices(msgspec.Struct, frozen=True):
    """What the command line says of the cluster."""

    namespace: str
    prometheus_endpoint: str = ""
    rebalance_file: str = ""


class KubeconfigCluster:
    """A cluster, read with the rights of a kubeconfig's user."""

    def __init__(self, access: Access, options: ClusterChoices) -> None:
        self._access = access
        self._options = options
        self._client = Client(access, f"slackwater-ui/{__version__}")
        self._watch = ClusterWatch(
            self._client,
            str(access.server),
            LeaseName(options.namespace, LEASE),
            lambda: Micros(time.monotonic_ns() // 1000),
        )
        #: Ends what runs in agents' pods.
        self._opened: list[Callable[[], None]] = []
        self._memory = ClusterMemory(self._watch.look, lambda: dt.datetime.now(dt.UTC))

    def start(self) -> None:
        self._watch.start()

    def stop(self) -> None:
        self._watch.stop()
        for close in self._opened:
            close()
        self._client.close()

    def look(self) -> ClusterSnapshot:
        self._watch.wait_listed(_FIRST_LIST)
        return self._memory.look()

    def forecast(self, node: str) -> ForecastAndHistory:
        options, now = self._options, time.time()
        view, spec = available(
            lambda: fetch_node_forecast(self._client, node, options.namespace, now)
        )
        history, problems = fetch_usage_history(spec, options.prometheus_endpoint, now)
        return ForecastAndHistory(view, history, problems)

    def plan(self, query: WorkloadQuery) -> RotationPlans:
        options = self._options
        names = (query.name,) if query.name else ()
        said: dict[str, str | bool | None] = {"namespace": query.namespace or None}
        if options.prometheus_endpoint:
            said["prometheus_endpoint"] = options.prometheus_endpoint
        elif query.name:
            said["usage_source"] = UsageSource.METRICS_API.value
        file = "" if query.name else options.rebalance_file
        found = available(lambda: resolve(names, file, said, os.environ))
        plans = available(lambda: assess_workloads(self._access, found.settings))
        remarks = tuple(f"{about}: {sentence}" for about, sentence in plans.remarks)
        views = tuple(view_of(each) for each in plans.assessments())
        return RotationPlans(views, (*found.warnings, *remarks))

    def agent_of(self, node: str) -> AgentReader | Gap:
        try:
            place_type, agent_type = import_remote()
        except Failed as error:
            return Gap(error.message)
        found = agent_type(self._client, place_type(node, self._options.namespace, False))
        self._opened.append(found.close)
        remote = RemoteAgent(node, found)
        return AskedAgent(remote, remote.name)
