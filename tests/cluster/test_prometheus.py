"""Usage and requests from a real Prometheus, with series as cAdvisor and kube-state-metrics write
them. Nothing here needs a control plane."""

import math
import re
import time
from collections.abc import Iterator

import pytest

from slackwater.http.prometheus_client import PrometheusClient, PrometheusError
from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.rebalancer.observed import NamespaceUsage, Unavailable
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.sources.prometheus_usage import read_usage
from slackwater.rebalancer.sources.promql import label_value
from slackwater.settings.prometheus import MetricLabels, PrometheusSettings
from tests.cluster.prometheus_bed import (
    Backfill,
    PrometheusBed,
    counter,
    gauge,
    prometheus_with,
    request,
    usage,
)

SECOND = 1_000_000
WINDOW = Micros(300 * SECOND)
#: The seed's example.
F6 = {"a": 1.2, "b": 1.1, "c": 0.8, "d": 0.6, "e": 0.4, "f": 0.3}
#: What no namespace is called, and what must come through all the same.
ODD = 'sh"op\\ \n\tgröße}'


def series(now: float) -> Iterator[Backfill]:
    for pod, cores in F6.items():
        yield usage("shop", f"web-{pod}", cores, now=now)
        yield request("shop", f"web-{pod}", 1.0, now=now)
    yield usage("shop", "gone", 0.8, now=now, ended=120)
    yield usage("shop", "long-gone", 0.8, now=now, ended=600)
    yield usage("shop", "young", 1.0, now=now, age=60)
    yield usage("shop", "newborn", 1.0, now=now, age=10, ended=0)
    # The same container by both servers of a pair; their clocks are not in step.
    yield usage("shop", "twice", 0.5, now=now, more={"replica": "a"})
    yield usage("shop", "twice", 0.5, now=now - 7, more={"replica": "b"})
    yield request("shop", "twice", 0.7, now=now, more={"replica": "a"})
    yield request("shop", "twice", 0.7, now=now, more={"replica": "b"})
    # Restarted two minutes ago; each container has an id of its own.
    yield usage("shop", "restarted", 0.9, now=now, ended=120, more={"id": "/pod/1"})
    yield usage("shop", "restarted", 0.9, now=now, age=105, more={"id": "/pod/2"})
    # A cAdvisor that counts every CPU.
    yield usage("shop", "per-cpu", 0.3, now=now, more={"cpu": "cpu00"})
    yield usage("shop", "per-cpu", 0.2, now=now, more={"cpu": "cpu01"})
    # The kubelet's /metrics/resource beside cAdvisor: the same counter without two of its labels.
    yield usage("shop", "both", 0.6, now=now)
    plain = {"namespace": "shop", "pod": "both", "container": "app"}
    yield counter("container_cpu_usage_seconds_total", plain, 0.6, now=now)
    yield usage("shop", "sidecar", 0.4, now=now)
    yield usage("shop", "sidecar", 0.1, now=now, container="proxy")
    # The pod's own cgroup and its sandbox, which are no containers.
    yield usage("shop", "sidecar", 0.5, now=now, container="", more={"id": "/pod"})
    yield usage("shop", "sidecar", 0.01, now=now, container="POD", more={"id": "/pod/pause"})
    yield counter(
        "container_cpu_usage_seconds_total",
        {"namespace": "shop", "pod": "broken", "container": "app"},
        math.nan,
        now=now,
    )
    yield request("shop", "broken", math.nan, now=now)
    yield request("shop", "web-a", 4e9, now=now, more={"resource": "memory", "unit": "byte"})
    yield usage("other", "web-a", 7.0, now=now)
    yield request("other", "web-a", 9.0, now=now)
    yield usage(ODD, "odd", 0.25, now=now)
    renamed = {"namespace": "monitoring", "exported_namespace": "renamed", "exported_pod": "x-1"}
    yield usage("", "", 0.6, now=now, more={**renamed, "exported_container": "app"})
    # One Prometheus for two clusters, each with a StatefulSet db.
    for cluster, cores in (("prod-eu", 0.4), ("prod-us", 0.9)):
        for pod in ("db-0", "db-1"):
            more = {"cluster": cluster, "id": f"/{cluster}/{pod}"}
            yield usage("bank", pod, cores, now=now, more=more)
            yield request("bank", pod, 1.0 + cores, now=now, more={"cluster": cluster})
    yield gauge("one_number", {"pod": "a"}, 5.0, now=now)


@pytest.fixture(scope="module")
def now() -> float:
    """Of this file's tests; others may have run since it was imported."""
    return time.time()


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory, now: float) -> Iterator[PrometheusBed]:
    with prometheus_with(tmp_path_factory.mktemp("shared"), series(now)) as made:
        yield made


@pytest.fixture(scope="module")
def client(bed: PrometheusBed) -> PrometheusClient:
    return PrometheusClient(PrometheusSettings(endpoint=bed.endpoint))


@pytest.fixture(scope="module")
def shop(client: PrometheusClient, now: float) -> NamespaceUsage:
    return found(read_usage(client, "shop", WINDOW, MetricLabels(), now))


def found(read: NamespaceUsage | Unavailable) -> NamespaceUsage:
    assert isinstance(read, NamespaceUsage), read
    return read


@pytest.mark.parametrize(("pod", "cores"), F6.items())
def test_the_seeds_example(shop: NamespaceUsage, pod: str, cores: float) -> None:
    assert shop.usage[f"web-{pod}", "app"] == pytest.approx(cores, rel=0.01)
    assert shop.requests[f"web-{pod}", "app"] == 1.0


@pytest.mark.parametrize(
    ("pod", "container", "cores"),
    [
        ("twice", "app", 0.5),
        ("restarted", "app", 0.9),
        ("per-cpu", "app", 0.5),
        ("both", "app", 0.6),
        ("sidecar", "app", 0.4),
        ("sidecar", "proxy", 0.1),
    ],
)
def test_what_counts_once_and_what_adds_up(
    shop: NamespaceUsage, pod: str, container: str, cores: float
) -> None:
    assert shop.usage[pod, container] == pytest.approx(cores, rel=0.06)


def test_what_is_there_and_what_is_not(shop: NamespaceUsage) -> None:
    """A pod that ended is still within the window: only the API server knows whether it is gone or
    not scraped any more. One sample is no rate."""
    pods = {pod for pod, _ in shop.usage}
    others = {"gone", "young", "twice", "restarted", "per-cpu", "both", "sidecar", "broken"}
    assert pods == {f"web-{pod}" for pod in F6} | others
    assert {container for pod, container in shop.usage if pod == "sidecar"} == {"app", "proxy"}


def test_the_young_look_cold(shop: NamespaceUsage) -> None:
    """The time without a container counts as idle, with VictoriaMetrics too. So pods younger than
    the window are no candidates."""
    assert shop.usage["young", "app"] == pytest.approx(0.2, abs=0.05)


def test_the_gone_would_look_cold_and_are_a_gap(shop: NamespaceUsage) -> None:
    gone = shop.usage["gone", "app"]
    assert isinstance(gone, Gap)
    assert re.fullmatch(
        r"its usage is stale: the newest sample is 1[1-4]\d s old, but must be at most 100 s",
        gone.reason,
    )


def test_numbers_that_mean_nothing(shop: NamespaceUsage) -> None:
    assert shop.usage["broken", "app"] == Gap("Prometheus' number is NaN")
    assert ("broken", "app") not in shop.requests
    assert len(shop.notes) == 1


def test_requests(shop: NamespaceUsage) -> None:
    assert shop.requests["twice", "app"] == 0.7
    assert len(shop.requests) == len(F6) + 1


def test_now_is_as_good(client: PrometheusClient) -> None:
    """Without an instant: as a run of the program asks."""
    used = found(read_usage(client, "shop", WINDOW, MetricLabels())).usage
    for pod, cores in F6.items():
        assert used[f"web-{pod}", "app"] == pytest.approx(cores, rel=0.01)


@pytest.mark.parametrize("window", [60, 90, 300, 900, 100.5])
def test_windows(client: PrometheusClient, window: float, now: float) -> None:
    asked = Micros(int(window * SECOND))
    used = found(read_usage(client, "shop", asked, MetricLabels(), now)).usage
    assert used["web-a", "app"] == pytest.approx(1.2, rel=0.01)


def test_two_clusters_add_up_where_nothing_tells_them_apart(
    client: PrometheusClient, now: float
) -> None:
    used = found(read_usage(client, "bank", WINDOW, MetricLabels(), now)).usage
    assert used["db-0", "app"] == pytest.approx(1.3, rel=0.01)


@pytest.mark.parametrize(("cluster", "cores"), [("prod-eu", 0.4), ("prod-us", 0.9)])
def test_one_cluster_of_two(
    client: PrometheusClient, now: float, cluster: str, cores: float
) -> None:
    labels = MetricLabels(matchers=(("cluster", cluster),))
    bank = found(read_usage(client, "bank", WINDOW, labels, now))
    pods = [("db-0", "app"), ("db-1", "app")]
    assert bank.usage == {pod: pytest.approx(cores, rel=0.01) for pod in pods}
    assert bank.requests == dict.fromkeys(pods, 1.0 + cores)


@pytest.mark.parametrize("value", ["nowhere", 'a"b\\c', "größe", ""])
def test_a_matcher_that_nothing_fits(client: PrometheusClient, now: float, value: str) -> None:
    labels = MetricLabels(matchers=(("cluster", value),))
    nothing = read_usage(client, "bank", WINDOW, labels, now)
    assert isinstance(nothing, Unavailable)
    assert nothing.reason is Reason.NO_USAGE_DATA
    assert f"with namespace='bank' and what prometheus.matchers ask for (cluster={value!r}); " in (
        nothing.because
    )


def test_without_a_label_is_an_empty_matcher(client: PrometheusClient, now: float) -> None:
    labels = MetricLabels(matchers=(("cluster", ""),))
    used = found(read_usage(client, "shop", WINDOW, labels, now)).usage
    assert used["web-a", "app"] == pytest.approx(1.2, rel=0.01)


def test_odd_names(client: PrometheusClient, now: float) -> None:
    used = found(read_usage(client, ODD, WINDOW, MetricLabels(), now)).usage
    assert used == {("odd", "app"): pytest.approx(0.25, rel=0.01)}


@pytest.mark.parametrize("code", [*range(0x20), 0x7F, 0xE9, 0x20AC, 0x1F600])
def test_every_sign_can_be_asked_for(client: PrometheusClient, code: int, now: float) -> None:
    """Nothing is found, but nothing is refused either."""
    assert client.query(f"one_number{{pod={label_value(chr(code))}}}", now) == ()


def test_renamed_labels(client: PrometheusClient, now: float) -> None:
    labels = MetricLabels("exported_pod", "exported_container", "exported_namespace")
    used = found(read_usage(client, "renamed", WINDOW, labels, now)).usage
    assert used == {("x-1", "app"): pytest.approx(0.6, rel=0.01)}


@pytest.mark.parametrize(
    ("namespace", "labels", "expected"),
    [
        ("nowhere", MetricLabels(), "it has no series of container_cpu_usage_seconds_total with"),
        ("shop", MetricLabels(namespace="exported_namespace"), "prometheus.namespaceLabel"),
        ("shop", MetricLabels(container="exported_container"), "prometheus.containerLabel"),
        ("shop", MetricLabels(pod="exported_pod"), "prometheus.podLabel"),
    ],
)
def test_nothing_found_says_why(
    client: PrometheusClient, namespace: str, labels: MetricLabels, expected: str, now: float
) -> None:
    read = read_usage(client, namespace, WINDOW, labels, now)
    assert isinstance(read, Unavailable)
    assert read.reason is Reason.NO_USAGE_DATA
    assert expected in read.because


def test_a_window_that_is_too_short(client: PrometheusClient, now: float) -> None:
    """For two samples, at one every 15 s."""
    read = read_usage(client, "shop", Micros(10 * SECOND), MetricLabels(), now)
    assert isinstance(read, Unavailable)
    assert "fewer than two samples in 10s; the window must be at least twice" in read.because


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("rate(", "it answered 400: bad_data: "),
        ("", "it answered 400: bad_data: "),
        ("one_number[5m]", "a result of type 'matrix', but must give a vector"),
        ("1", "a result of type 'scalar', but must give a vector"),
        ('"text"', "a result of type 'string', but must give a vector"),
    ],
)
def test_bad_queries(client: PrometheusClient, query: str, expected: str, now: float) -> None:
    with pytest.raises(PrometheusError) as caught:
        client.query(query, now)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)
