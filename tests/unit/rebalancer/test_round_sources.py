"""What one round asks of servers that do not answer: each is waited for once."""

import contextlib
from collections.abc import Iterator

import pytest

from slackwater.kube.client import Client
from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.rebalancer.assessment import Sources
from slackwater.rebalancer.observed import Lag, NamespaceUsage, Unavailable
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.round_sources import RoundSources
from slackwater.settings.prometheus import MetricLabels, PrometheusSettings
from slackwater.settings.rebalancer import KafkaSettings, RunSettings, WorkloadSettings
from tests.unit.http.prometheus_world import clear_proxies, status, well
from tests.unit.kube.accesses import plain_access
from tests.unit.kube.byte_server import Answer, ByteServer, Request, Wire, serving
from tests.unit.rebalancer.workloads import NOON

WINDOW = Micros(300_000_000)
LAGGING = WorkloadSettings("shop", "web", kafka=KafkaSettings(enabled=True))
NAMESPACES = [f"n{number}" for number in range(20)]


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    clear_proxies(monkeypatch)


@pytest.fixture
def client() -> Iterator[Client]:
    """To nobody: these sources do not ask the API server."""
    made = Client(plain_access(1), "a test")
    yield made
    made.close()


def sources(client: Client, server: ByteServer, *matchers: tuple[str, str]) -> Sources:
    prometheus = PrometheusSettings(
        f"http://127.0.0.1:{server.port}", retries=0, labels=MetricLabels(matchers=matchers)
    )
    return RoundSources(
        client, RunSettings(prometheus=prometheus), lambda: "", contextlib.nullcontext
    )


def gone(_request: Request, wire: Wire) -> None:
    wire.reset()


@pytest.mark.parametrize("answer", [gone, status(503)])
def test_a_prometheus_that_is_away_is_asked_once(client: Client, answer: Answer) -> None:
    with serving(answer) as server:
        of_round = sources(client, server)
        found = [of_round.usage(each, WINDOW, NOON) for each in NAMESPACES]
        lag = of_round.lag(LAGGING)
        assert len(server.requests) == 1
    [problem] = set(found)
    assert isinstance(problem, Unavailable)
    assert problem.reason is Reason.PROMETHEUS_ERROR
    assert isinstance(lag, Gap)
    way_out = "; without a Prometheus say --usage-source metrics-api, for metrics.k8s.io"
    assert problem.because == f"{lag.reason}{way_out}"


def test_a_query_that_is_refused_is_asked_for_each(client: Client) -> None:
    with serving(status(422)) as server:
        of_round = sources(client, server)
        for each in NAMESPACES:
            assert isinstance(of_round.usage(each, WINDOW, NOON), Unavailable)
        assert len(server.requests) == len(NAMESPACES)


def test_the_next_round_asks_again(client: Client) -> None:
    with serving(gone) as server:
        for _ in range(3):
            sources(client, server).usage("shop", WINDOW, NOON)
        assert len(server.requests) == 3


def test_a_round_with_a_good_one_asks_everything(client: Client) -> None:
    with serving(well) as server:
        of_round = sources(client, server, ("cluster", "prod-eu"))
        # At the time that `well` gives for the newest sample.
        assert isinstance(of_round.usage("shop", WINDOW, 1.5), NamespaceUsage)
        assert isinstance(of_round.lag(LAGGING), Lag | Gap)
        asked = [request.body.decode() for request in server.requests]
    assert len(asked) >= 4
    assert all("cluster%3D%22prod-eu%22" in each for each in asked), "lag too"
