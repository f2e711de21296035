"""From series to usage: over real sockets, with answers as a Prometheus gives them."""

import email.utils
import math
from collections.abc import Iterator
from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.http.prometheus_api import QueryResult, Series
from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.rebalancer.observed import Cores, NamespaceUsage, Unavailable
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.sources.prometheus_client import PrometheusClient
from slackwater.rebalancer.sources.prometheus_usage import read_usage
from slackwater.rebalancer.sources.promql import presence_query, request_query, usage_query
from slackwater.settings.rebalancer import MetricLabels, PrometheusSettings
from tests.unit.kube.byte_server import ByteServer, Request, Wire

WINDOW = Micros(300 * 1_000_000)
LABELS = MetricLabels()
USAGE = usage_query("shop", WINDOW, LABELS)
REQUESTS = request_query("shop", LABELS)
PRESENCE = presence_query("shop", LABELS)
NOW = 1_794_917_409.0


class World:
    """A Prometheus that knows the answers to a few queries; to all others it has no series."""

    def __init__(self) -> None:
        self.answers: dict[str, list[tuple[dict[str, str], str]]] = {}
        self.warnings: dict[str, list[str]] = {}
        self.clock = NOW
        self.broken: tuple[str, int] | None = None
        self.server = ByteServer(self._answer)
        settings = PrometheusSettings(endpoint=f"http://127.0.0.1:{self.server.port}")
        self.client = PrometheusClient(settings, sleep=lambda _seconds: None)

    def _answer(self, request: Request, wire: Wire) -> None:
        query = _asked(request)["query"]
        if self.broken and self.broken[0] == query:
            wire.answer(b"<html>", self.broken[1], "text/html")
            return
        result = [
            {"metric": labels, "value": [NOW, value]}
            for labels, value in self.answers.get(query, ())
        ]
        told = {
            "status": "success",
            "data": {"resultType": "vector", "result": result},
            "warnings": self.warnings.get(query, []),
        }
        wire.json(told, 200, ("Date", email.utils.formatdate(self.clock, usegmt=True)))

    def read(self, labels: MetricLabels = LABELS) -> NamespaceUsage | Unavailable:
        return read_usage(self.client, "shop", WINDOW, labels, NOW)

    def problem(self, labels: MetricLabels = LABELS) -> Unavailable:
        found = self.read(labels)
        assert isinstance(found, Unavailable)
        return found

    def asked(self) -> list[dict[str, str]]:
        return [_asked(each) for each in self.server.requests]


def _asked(request: Request) -> dict[str, str]:
    return {key: value[0] for key, value in parse_qs(request.body.decode()).items()}


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.server.close()


def of(pod: str, container: str = "app") -> dict[str, str]:
    return {"pod": pod, "container": container}


def test_usage_and_requests_of_one_instant(world: World) -> None:
    world.answers[USAGE] = [(of("a"), "1.2"), (of("a", "proxy"), "0.05"), (of("b"), "0")]
    world.answers[REQUESTS] = [(of("a"), "1"), (of("old"), "0.5")]
    assert world.read() == NamespaceUsage(
        {("a", "app"): Cores(1.2), ("a", "proxy"): Cores(0.05), ("b", "app"): Cores(0.0)},
        {("a", "app"): Cores(1.0), ("old", "app"): Cores(0.5)},
    )
    assert world.asked() == [
        {"query": USAGE, "time": "1794917409.000"},
        {"query": REQUESTS, "time": "1794917409.000"},
    ]


def test_without_an_instant_both_have_the_same(world: World) -> None:
    world.answers[USAGE] = [(of("a"), "1.2")]
    read_usage(world.client, "shop", WINDOW, LABELS)
    first, second = world.asked()
    assert first["time"] == second["time"]


def test_renamed_labels(world: World) -> None:
    renamed = MetricLabels("exported_pod", "exported_container", "exported_namespace")
    world.answers[usage_query("shop", WINDOW, renamed)] = [
        ({"exported_pod": "a", "exported_container": "app"}, "1.2")
    ]
    assert world.read(renamed) == NamespaceUsage({("a", "app"): Cores(1.2)}, {})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("NaN", "Prometheus' number is NaN"),
        ("+Inf", "Prometheus' number is infinite"),
        ("-Inf", "Prometheus' number is infinite"),
        ("-0.25", "Prometheus' number is -0.25, below zero"),
    ],
)
def test_numbers_that_mean_nothing(world: World, value: str, expected: str) -> None:
    """A usage is a gap, with its reason; a request is as if it were not there."""
    world.answers[USAGE] = [(of("a"), value), (of("b"), "0.5")]
    world.answers[REQUESTS] = [(of("a"), value), (of("b"), "1")]
    found = world.read()
    assert isinstance(found, NamespaceUsage)
    assert found.usage == {("a", "app"): Gap(expected), ("b", "app"): Cores(0.5)}
    assert found.requests == {("b", "app"): Cores(1.0)}
    assert found.notes == (
        (
            "1 series of kube_pod_container_resource_requests have no label pod or container, or "
            "no number that a request can be; they are left out"
        ),
    )


class _Told(PrometheusClient):
    """Answers without a network."""

    def __init__(self, series: tuple[Series, ...]) -> None:
        super().__init__(PrometheusSettings())
        self._series = series

    def ask(self, text: str, at: float | None = None) -> QueryResult:  # noqa: ARG002
        return QueryResult(self._series if text == USAGE else ())


@given(st.dictionaries(st.text(min_size=1, max_size=5), st.floats(), min_size=1))
def test_every_pod_has_a_number_or_a_gap(values: dict[str, float]) -> None:
    series = tuple(Series(of(pod), value) for pod, value in values.items())
    found = read_usage(_Told(series), "shop", WINDOW, LABELS, NOW)
    assert isinstance(found, NamespaceUsage)
    assert {pod for pod, _ in found.usage} == set(values)
    for pod, value in values.items():
        cores = found.usage[pod, "app"]
        good = math.isfinite(value) and value >= 0
        assert cores == value if good else isinstance(cores, Gap)


def test_series_without_a_pod_are_left_out(world: World) -> None:
    world.answers[USAGE] = [(of("a"), "1.2"), ({"container": "app"}, "7")]
    world.answers[REQUESTS] = [({"pod": "a"}, "1"), ({}, "2")]
    found = world.read()
    assert isinstance(found, NamespaceUsage)
    assert (found.usage, found.requests) == ({("a", "app"): Cores(1.2)}, {})
    assert found.notes == (
        "1 series of container_cpu_usage_seconds_total have no label pod; they are left out",
        (
            "2 series of kube_pod_container_resource_requests have no label pod or container, or "
            "no number that a request can be; they are left out"
        ),
    )


def test_no_series_with_a_pod_at_all(world: World) -> None:
    """What `sum by` makes of a label that is not there: one series for everything."""
    world.answers[USAGE] = [({"container": "app"}, "7"), ({"container": "proxy"}, "1")]
    assert world.problem() == Unavailable(
        Reason.NO_USAGE_DATA,
        "the series of container_cpu_usage_seconds_total in the namespace 'shop' have no label "
        "pod, so that pods cannot be told apart; where the scrape configuration renames labels "
        "(exported_...), set prometheus.podLabel",
    )


def test_warnings_are_notes_once(world: World) -> None:
    world.answers[USAGE] = [(of("a"), "1.2")]
    world.warnings = {USAGE: ["a store is away"], REQUESTS: ["a store is away", "slow"]}
    found = world.read()
    assert isinstance(found, NamespaceUsage)
    assert found.notes == ("Prometheus warns: a store is away", "Prometheus warns: slow")


def test_a_namespace_that_prometheus_does_not_know(world: World) -> None:
    assert world.problem() == Unavailable(
        Reason.NO_USAGE_DATA,
        "Prometheus has no usage of any container in the namespace 'shop': it has no series of "
        "container_cpu_usage_seconds_total with namespace='shop'; check that the kubelets' "
        "/metrics/cadvisor is scraped (up), and that this is the right server and tenant; where "
        "the scrape configuration renames labels (exported_...), set prometheus.namespaceLabel",
    )
    assert [each["query"] for each in world.asked()] == [USAGE, PRESENCE]


def test_series_without_containers_or_without_samples(world: World) -> None:
    world.answers[PRESENCE] = [({}, "12")]
    assert world.problem() == Unavailable(
        Reason.NO_USAGE_DATA,
        "Prometheus has no usage of any container in the namespace 'shop': its 12 series of "
        "container_cpu_usage_seconds_total there have no label container, or fewer than two "
        "samples in 5m; the window must be at least twice the scrape interval; where the scrape "
        "configuration renames labels (exported_...), set prometheus.containerLabel",
    )


@pytest.mark.parametrize("apart", [-3600.0, 3600.0])
def test_clocks_that_disagree(world: World, apart: float) -> None:
    world.clock = NOW + apart
    assert world.problem().because.endswith("; its clock and ours are 3600 s apart")


@pytest.mark.parametrize("query", [USAGE, REQUESTS, PRESENCE])
@pytest.mark.parametrize("status", [200, 400, 500, 503])
def test_a_query_that_fails(world: World, query: str, status: int) -> None:
    """Whichever it is: half of the numbers are not taken for all of them."""
    if query != PRESENCE:
        world.answers[USAGE] = [(of("a"), "1.2")]
    world.broken = (query, status)
    found = world.problem()
    assert found.reason is Reason.PROMETHEUS_ERROR
    assert found.because.startswith(f"Prometheus at http://127.0.0.1:{world.server.port}: ")


def test_prometheus_is_down(world: World) -> None:
    world.server.close()
    found = world.problem()
    assert found == Unavailable(
        Reason.PROMETHEUS_ERROR,
        f"Prometheus at http://127.0.0.1:{world.server.port}: Connection refused (3 tries)",
    )
