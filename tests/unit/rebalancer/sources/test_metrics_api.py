"""metrics.k8s.io through the real client, over TLS, against a server that answers as the API
server does with metrics-server behind it, byte for byte. There is no metrics-server in the bed."""

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.http.endpoint import Identity, Server, Trust
from slackwater.kube.access import Access, FixedCredentials
from slackwater.kube.client import Client
from slackwater.model.gap import Gap
from slackwater.rebalancer.observed import Cores, NamespaceUsage, Unavailable
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.sources.metrics_api import _ContainerMetrics, _cores, read_usage
from tests.unit.kube.byte_server import ByteServer, Request, Wire, serving
from tests.unit.kube.certificates import Papers

#: As `kubectl get --raw` shows it: a list without a version, no `kind` in its items.
LIST = (
    b'{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{},"items":['
    b'{"metadata":{"name":"web-7d4b9c-abcde","namespace":"shop",'
    b'"creationTimestamp":"2026-11-17T12:08:36Z","labels":{"app":"web"}},'
    b'"timestamp":"2026-11-17T12:08:21Z","window":"15.023s","containers":['
    b'{"name":"istio-proxy","usage":{"cpu":"2032573n","memory":"14008Ki"}},'
    b'{"name":"web","usage":{"cpu":"1200m","memory":"52Mi"}}]},'
    b'{"metadata":{"name":"web-7d4b9c-fghij","namespace":"shop","creationTimestamp":null},'
    b'"timestamp":"2026-11-17T12:08:20Z","window":"14.9s","containers":['
    b'{"name":"web","usage":{"cpu":"0","memory":"0"}},'
    b'{"name":"debug","usage":{"cpu":"250u","memory":"1Mi"}}]}]}\n'
)
EMPTY = (
    b'{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{},"items":[]}\n'
)
#: What the API server says where the group is not served: no Status, a line of text.
NOT_FOUND = b"404 page not found\n"
FORBIDDEN = (
    b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"pods.metrics'
    b'.k8s.io is forbidden: User \\"system:serviceaccount:slackwater:rebalancer\\" cannot list '
    b'resource \\"pods\\" in API group \\"metrics.k8s.io\\" in the namespace \\"shop\\"","reason":'
    b'"Forbidden","details":{"group":"metrics.k8s.io","kind":"pods"},"code":403}\n'
)
UNAVAILABLE = b"service unavailable\n"


class World:
    """A TLS server, and a client that believes it."""

    def __init__(self) -> None:
        papers = Papers("127.0.0.1")
        self.status, self.body, self.kind = 200, LIST, "application/json"
        self.server = ByteServer(self._answer, papers.server_context())
        access = Access(
            Server("127.0.0.1", self.server.port),
            Trust(authority_data=papers.authority_data),
            FixedCredentials(Identity("Bearer t0ken")),
        )
        self.client = Client(access, "slackwater-test/1", 5.0)

    def _answer(self, _request: Request, wire: Wire) -> None:
        wire.answer(self.body, self.status, self.kind)

    def read(self) -> NamespaceUsage | Unavailable:
        return read_usage(self.client, "shop")

    def problem(self) -> Unavailable:
        found = self.read()
        assert isinstance(found, Unavailable)
        assert "\n" not in found.because
        return found


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.client.close()
    made.server.close()


def test_usage(world: World) -> None:
    assert world.read() == NamespaceUsage(
        {
            ("web-7d4b9c-abcde", "istio-proxy"): Cores(0.002032573),
            ("web-7d4b9c-abcde", "web"): Cores(1.2),
            ("web-7d4b9c-fghij", "web"): Cores(0.0),
            ("web-7d4b9c-fghij", "debug"): Cores(0.00025),
        },
        {},
        ("metrics.k8s.io tells averages over 15.023s, not over our window",),
    )
    (request,) = world.server.requests
    assert request.path == "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods"
    assert request.header("Authorization") == "Bearer t0ken"


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (b'{"cpu":"2"}', Cores(2.0)),
        (b'{"cpu":"1500m"}', Cores(1.5)),
        (b'{"cpu":"1500000u"}', Cores(1.5)),
        (b'{"cpu":"1500000000n"}', Cores(1.5)),
        (b'{"cpu":"1.5"}', Cores(1.5)),
        (b'{"cpu":"15e-1"}', Cores(1.5)),
        (b'{"memory":"1Mi"}', Gap("metrics.k8s.io tells no cpu")),
        (b"{}", Gap("metrics.k8s.io tells no cpu")),
        (b"null", Gap("metrics.k8s.io tells no cpu")),
        (
            b'{"cpu":"NaN"}',
            Gap("metrics.k8s.io: 'NaN' is not a quantity such as 250m, 0.5 or 2Gi"),
        ),
        (b'{"cpu":""}', Gap("metrics.k8s.io: '' is not a quantity such as 250m, 0.5 or 2Gi")),
        (b'{"cpu":"-5m"}', Gap("metrics.k8s.io tells '-5m', below zero")),
    ],
)
def test_quantities(world: World, usage: bytes, expected: Cores | Gap) -> None:
    world.body = (
        b'{"metadata":{},"items":[{"metadata":{"name":"a"},"containers":'
        b'[{"name":"app","usage":' + usage + b"}]}]}"
    )
    assert world.read() == NamespaceUsage({("a", "app"): expected}, {})


@given(st.integers(min_value=0, max_value=10**15))
def test_nano_cores_are_cores(nano: int) -> None:
    """Nothing is lost but what a float cannot hold."""
    found = _cores(_ContainerMetrics("app", {"cpu": f"{nano}n"}))
    assert found == nano / 10**9


def _lists_nobody(world: World) -> None:
    world.body = EMPTY


def _lists_null(world: World) -> None:
    world.body = b'{"metadata":{},"items":null}'


def _lists_a_pod_without_containers(world: World) -> None:
    world.body = b'{"metadata":{},"items":[{"metadata":{"name":"a"},"containers":null}]}'


@pytest.mark.parametrize("change", [_lists_nobody, _lists_null, _lists_a_pod_without_containers])
def test_nothing_is_no_usage(world: World, change: Callable[[World], None]) -> None:
    change(world)
    assert world.problem() == Unavailable(
        Reason.NO_USAGE_DATA,
        "metrics.k8s.io has no usage of any container in the namespace 'shop'; new pods take a "
        "minute, and the kubelets must be reachable by metrics-server",
    )


def test_no_metrics_server(world: World) -> None:
    world.status, world.body, world.kind = 404, NOT_FOUND, "text/plain; charset=utf-8"
    assert world.problem() == Unavailable(
        Reason.NO_USAGE_DATA,
        "metrics.k8s.io is not there: metrics-server, or another source of it, is not installed; "
        "install one, or take the usage from Prometheus",
    )


def test_not_allowed(world: World) -> None:
    world.status, world.body = 403, FORBIDDEN
    found = world.problem()
    assert found.reason is Reason.KUBERNETES_ERROR
    assert "cannot list resource" in found.because
    assert found.because.endswith("; list on pods of metrics.k8s.io in 'shop' has to be granted")


def test_a_metrics_server_that_is_away(world: World) -> None:
    world.status, world.body, world.kind = 503, UNAVAILABLE, "text/plain; charset=utf-8"
    found = world.problem()
    assert found.reason is Reason.KUBERNETES_ERROR
    assert "503 ServiceUnavailable" in found.because
    assert found.because.endswith(
        "; metrics-server is installed, but does not answer the API server"
    )


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"metadata":{},"items":[{"metadata":{}}]}', "missing required field `name`"),
        (b'{"metadata":{},"items":[{"metadata":{"name":5}}]}', "Expected `str`"),
        (
            (
                b'{"metadata":{},"items":[{"metadata":{"name":"a"},"containers":[{"name":"b","usage":'
                b'{"cpu":5}}]}]}'
            ),
            "Expected `str`, got `int`",
        ),
        (b'{"metadata":{},"items":[{"metadata":{"na', "the answer is not a list"),
        (b"[]", "the answer is not a list"),
    ],
)
def test_what_is_no_list_of_pod_metrics(world: World, body: bytes, expected: str) -> None:
    world.body = body
    found = world.problem()
    assert found.reason is Reason.KUBERNETES_ERROR
    assert expected in found.because


def test_the_api_server_is_down(world: World) -> None:
    world.server.close()
    found = world.problem()
    assert found.reason is Reason.KUBERNETES_ERROR
    assert "Connection refused" in found.because


def test_a_strangers_certificate() -> None:
    """The client checks whom it asks, here as elsewhere."""
    papers, other = Papers("127.0.0.1"), Papers("127.0.0.1")
    with serving(lambda _r, wire: wire.answer(LIST), papers.server_context()) as server:
        access = Access(
            Server("127.0.0.1", server.port),
            Trust(authority_data=other.authority_data),
            FixedCredentials(Identity()),
        )
        found = read_usage(Client(access, "slackwater-test/1", 5.0), "shop")
    assert isinstance(found, Unavailable)
    assert "its certificate is not believed" in found.because
