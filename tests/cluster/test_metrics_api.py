"""metrics.k8s.io behind the real API server: not there, there by its aggregation layer, and away.

There is no metrics-server here: a server of ours answers in its words, and the API server, its
checks and its own refusals are real.
"""

from collections.abc import Iterator

import pytest

from slackwater.http.errors import RequestError
from slackwater.kube.client import Client
from slackwater.rebalancer.observed import Cores, NamespaceUsage, Unavailable
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.sources.metrics_api import POD_METRICS, read_usage
from tests.cluster.kube_world import AGENT, access_of, serves
from tests.unit.kube.byte_server import ByteServer, Request, Wire
from tests.unit.kube.certificates import Papers
from tools.cluster.control_plane import ControlPlane
from tools.cluster.processes import wait_for

ROOT = "/apis/metrics.k8s.io/v1beta1"
KINDS = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": "metrics.k8s.io/v1beta1",
    "resources": [
        {
            "name": "pods",
            "singularName": "",
            "namespaced": True,
            "kind": "PodMetrics",
            "verbs": ["get", "list"],
        }
    ],
}


@pytest.fixture
def client(control_plane: ControlPlane) -> Iterator[Client]:
    made = Client(access_of(control_plane), AGENT)
    yield made
    made.close()


def problem(client: Client, namespace: str) -> Unavailable:
    found = read_usage(client, namespace)
    assert isinstance(found, Unavailable), found
    assert "\n" not in found.because
    return found


def test_not_installed(client: Client, namespace: str) -> None:
    found = problem(client, namespace)
    assert found.reason is Reason.NO_USAGE_DATA
    assert "metrics-server, or another source of it, is not installed" in found.because


class Aggregated:
    """A server behind the API server: an APIService whose Service is this machine by name."""

    def __init__(self, control_plane: ControlPlane, namespace: str) -> None:
        self._papers = Papers("localhost", f"metrics.{namespace}.svc")
        self._control_plane = control_plane
        self._namespace = namespace
        self.server = ByteServer(self._answer, self._papers.server_context())

    def register(self) -> None:
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "metrics", "namespace": self._namespace},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        }
        here = {"name": "metrics", "namespace": self._namespace, "port": self.server.port}
        registered = {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": "v1beta1.metrics.k8s.io"},
            "spec": {
                "group": "metrics.k8s.io",
                "version": "v1beta1",
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "service": here,
                "insecureSkipTLSVerify": True,
            },
        }
        self._control_plane.apply(service, registered)

    def close(self) -> None:
        """A group that does not answer would keep namespaces from ending."""
        self._control_plane.kubectl("delete", "apiservice", "v1beta1.metrics.k8s.io")
        self.server.close()

    def _answer(self, request: Request, wire: Wire) -> None:
        if request.path == ROOT:
            wire.json(KINDS)
            return
        if request.path != f"{ROOT}/namespaces/{self._namespace}/pods":
            wire.answer(b"404 page not found\n", 404, "text/plain")
            return
        usage = {"name": "app", "usage": {"cpu": "1200345678n", "memory": "52Mi"}}
        item = {
            "metadata": {"name": "web-a", "namespace": self._namespace},
            "timestamp": "2026-11-17T12:08:21Z",
            "window": "15.023s",
            "containers": [usage],
        }
        whole = {"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1"}
        wire.json({**whole, "metadata": {}, "items": [item]})


@pytest.fixture
def aggregated(control_plane: ControlPlane, namespace: str) -> Iterator[Aggregated]:
    made = Aggregated(control_plane, namespace)
    made.register()
    yield made
    made.close()


def serves_metrics(client: Client) -> bool:
    try:
        return serves(client, POD_METRICS)
    except RequestError:  # registered, but not looked at yet
        return False


def test_through_the_aggregation_layer(
    client: Client, control_plane: ControlPlane, namespace: str, aggregated: Aggregated
) -> None:
    wait_for("metrics.k8s.io", lambda: serves_metrics(client))
    assert read_usage(client, namespace) == NamespaceUsage(
        {("web-a", "app"): Cores(1.200345678)},
        {},
        ("metrics.k8s.io tells averages over 15.023s, not over our window",),
    )
    stranger = Client(access_of(control_plane, "nobody"), AGENT)
    found = problem(stranger, namespace)
    assert found.reason is Reason.KUBERNETES_ERROR
    assert "cannot list resource" in found.because
    assert found.because.endswith("has to be granted")
    stranger.close()
    aggregated.server.close()
    found = problem(client, namespace)
    assert found.reason is Reason.KUBERNETES_ERROR
    assert "metrics-server is installed, but does not answer the API server" in found.because
