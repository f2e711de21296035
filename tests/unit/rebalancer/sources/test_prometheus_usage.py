"""From series to usage: over real sockets, with answers as a Prometheus gives them."""

import email.utils
import math
from collections.abc import Iterator
from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.http.prometheus_api import QueryResult, Series
from slackwater.http.prometheus_client import PrometheusClient
from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.rebalancer.observed import Cores, NamespaceUsage, Unavailable
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.sources.prometheus_usage import read_usage
from slackwater.rebalancer.sources.promql import (
    newest_sample_query,
    presence_query,
    request_query,
    usage_query,
)
from slackwater.settings.prometheus import MetricLabels, PrometheusSettings
from tests.unit.kube.byte_server import ByteServer, Request, Wire

WINDOW = Micros(300 * 1_000_000)
LABELS = MetricLabels()
USAGE = usage_query("shop", WINDOW, LABELS)
NEWEST = newest_sample_query("shop", LABELS)
REQUESTS = request_query("shop", LABELS)
PRESENCE = presence_query("shop", LABELS)
NOW = 1_794_917_409.0


class World:
    """A Prometheus that knows the answers to a few queries; to all others it has no series. A usage
    is as fresh as it can be, unless `ages` (in seconds, by pod) says otherwise; None: no sample."""

    def __init__(self) -> None:
        self.answers: dict[str, list[tuple[dict[str, str], str]]] = {}
        self.ages: dict[str, float | None] = {}
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
        known = self._newest(query) if "timestamp(" in query else self.answers.get(query, ())
        result = [{"metric": labels, "value": [NOW, value]} for labels, value in known]
        told = {
            "status": "success",
            "data": {"resultType": "vector", "result": result},
            "warnings": self.warnings.get(query, []),
        }
        wire.json(told, 200, ("Date", email.utils.formatdate(self.clock, usegmt=True)))

    def _newest(self, query: str) -> Iterator[tuple[dict[str, str], str]]:
        same = query.replace("timestamp(", "increase(")[:-2]
        used = next((each for each in self.answers if each.startswith(same)), "")
        for labels, _ in self.answers.get(used, ()):
            place = "/".join(labels.get(name, "") for name in ("pod", "id")).rstrip("/")
            age = self.ages.get(place, 0.0)
            if age is not None:
                yield labels, str(NOW - age)

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
        {"query": NEWEST, "time": "1794917409.000"},
        {"query": REQUESTS, "time": "1794917409.000"},
    ]


def test_without_an_instant_both_have_the_same(world: World) -> None:
    world.answers[USAGE] = [(of("a"), "1.2")]
    read_usage(world.client, "shop", WINDOW, LABELS)
    assert len({each["time"] for each in world.asked()}) == 1


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
        if text == NEWEST:
            return QueryResult(tuple(Series(each.labels, NOW) for each in self._series))
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


TOTAL = {"id": "/pod/1", "cpu": "total"}


@pytest.mark.parametrize(
    ("counters", "cores"),
    [
        ([(TOTAL, "0.4")], 0.4),
        # The kubelet's /metrics/resource beside cAdvisor: the same CPU time again.
        ([(TOTAL, "0.4"), ({}, "0.41")], 0.4),
        # Where the scrape configuration drops one of cAdvisor's labels.
        ([({"cpu": "total"}, "0.4"), ({}, "0.41")], 0.4),
        ([({"id": "/pod/1"}, "0.4"), ({}, "0.41")], 0.4),
        # /metrics/resource alone.
        ([({}, "0.4")], 0.4),
        # Restarted within the window, and a cAdvisor that counts every CPU.
        ([(TOTAL, "0.25"), ({**TOTAL, "id": "/pod/2"}, "0.5"), ({}, "0.75")], 0.75),
        ([({**TOTAL, "cpu": "cpu00"}, "0.5"), ({**TOTAL, "cpu": "cpu01"}, "0.25")], 0.75),
    ],
)
def test_which_counters_of_a_container_add_up(
    world: World, counters: list[tuple[dict[str, str], str]], cores: float
) -> None:
    world.answers[USAGE] = [({**of("a"), **more}, value) for more, value in counters]
    found = world.read()
    assert isinstance(found, NamespaceUsage)
    assert found.usage == {("a", "app"): Cores(cores)}


STALE = "its usage is stale: the newest sample is {} s old, but must be at most 100 s"


@pytest.mark.parametrize(
    ("age", "expected"),
    [
        (0.0, Cores(0.4)),
        (99.0, Cores(0.4)),
        (101.0, Gap(STALE.format(101))),
        (210.0, Gap(STALE.format(210))),
        (None, Gap("its usage is stale: Prometheus has no sample of it any more")),
    ],
)
def test_a_series_that_ended_is_a_gap(
    world: World, age: float | None, expected: Cores | Gap
) -> None:
    """It reads too low by the time it has not been sampled, and would be taken for a cold pod's."""
    world.answers[USAGE] = [(of("a"), "0.4"), (of("b"), "0.5")]
    world.ages = {"a": age}
    found = world.read()
    assert isinstance(found, NamespaceUsage)
    assert found.usage == {("a", "app"): expected, ("b", "app"): Cores(0.5)}


def test_a_restarted_container_is_as_fresh_as_its_newest_counter(world: World) -> None:
    again = {**of("a"), **TOTAL, "id": "/pod/2"}
    world.answers[USAGE] = [({**of("a"), **TOTAL}, "0.25"), (again, "0.5")]
    world.ages = {"a//pod/1": 210.0}
    found = world.read()
    assert isinstance(found, NamespaceUsage)
    assert found.usage == {("a", "app"): Cores(0.75)}


def test_where_cadvisors_counter_ended_the_kubelets_counts(world: World) -> None:
    world.answers[USAGE] = [({**of("a"), **TOTAL}, "0.1"), (of("a"), "0.4")]
    world.ages = {"a//pod/1": 210.0}
    found = world.read()
    assert isinstance(found, NamespaceUsage)
    assert found.usage == {("a", "app"): Cores(0.4)}


@pytest.mark.parametrize(
    ("age", "told"),
    [
        (
            150.0,
            "the newest sample is 150 s old, but must be at most 100 s (a third of the window)",
        ),
        (None, "no series has a sample now"),
    ],
)
def test_everything_stale_is_an_error(world: World, age: float | None, told: str) -> None:
    world.answers[USAGE] = [(of("a"), "0.4"), (of("b"), "0.5")]
    world.ages = {"a": age, "b": age}
    world.clock = NOW - 150.0
    assert world.problem() == Unavailable(
        Reason.NO_USAGE_DATA,
        f"all usage of the namespace 'shop' in Prometheus is stale: {told}; check that the "
        "kubelets' /metrics/cadvisor is still scraped (up); its clock and ours are 150 s apart",
    )


def test_a_scrape_a_minute_ago_is_fresh_in_any_window(world: World) -> None:
    short = Micros(120 * 1_000_000)
    world.answers[usage_query("shop", short, LABELS)] = [(of("a"), "0.4")]
    world.ages = {"a": 74.0}
    found = read_usage(world.client, "shop", short, LABELS, NOW)
    assert isinstance(found, NamespaceUsage)
    assert found.usage == {("a", "app"): Cores(0.4)}


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
    world.warnings = {NEWEST: ["a store is away"], REQUESTS: ["a store is away", "slow"]}
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


@pytest.mark.parametrize("query", [USAGE, NEWEST, REQUESTS, PRESENCE])
@pytest.mark.parametrize("status", [200, 400, 500, 503])
def test_a_query_that_fails(world: World, query: str, status: int) -> None:
    """Whichever it is: half of the numbers are not taken for all of them."""
    if query != PRESENCE:
        world.answers[USAGE] = [(of("a"), "1.2")]
    world.broken = (query, status)
    found = world.problem()
    assert found.reason is Reason.PROMETHEUS_ERROR
    assert found.because.startswith(f"Prometheus at http://127.0.0.1:{world.server.port}: ")
    assert ("metrics-api" in found.because) == (status == 503), "it is there, and wrong"


def test_prometheus_is_down(world: World) -> None:
    world.server.close()
    found = world.problem()
    assert found == Unavailable(
        Reason.PROMETHEUS_ERROR,
        f"Prometheus at http://127.0.0.1:{world.server.port}: Connection refused (3 tries); "
        "without a Prometheus say --usage-source metrics-api, for metrics.k8s.io",
    )
