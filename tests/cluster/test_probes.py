"""Sources of metrics and a real Prometheus: queries, and quantiles that are the same as its own."""

import math
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.contract.crane.fields import HttpGet
from slackwater.model.gap import Gap
from slackwater.model.metric import MetricKey
from slackwater.model.units import Micros
from slackwater.observation.probes.probe_set import ProbeContext, ProbeSet
from slackwater.observation.probes.prometheus_query import QueryTarget
from slackwater.observation.probes.quantiles import QUANTILES, interpolate
from slackwater.observation.probes.sources import NodeProbe, PrometheusQuery, SourceTimes
from tests.cluster.prometheus_bed import PROGRAM, Backfill, PrometheusBed, gauge, prometheus_with

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, math.inf)
KEY = MetricKey("queue-depth", "EnsuranceMetric/queue-depth")


def clock() -> Micros:
    return Micros(time.monotonic_ns() // 1000)


def make_histograms() -> dict[str, dict[float, float]]:
    """Twenty of them, some with empty buckets, some with everything beyond the bounds."""
    chance = random.Random(14)  # noqa: S311
    found = {}
    for case in range(20):
        total = 0
        buckets = {}
        for bound in BOUNDS:
            total += chance.choice((0, 0, 1, 7, 100))
            buckets[bound] = float(total)
        buckets[math.inf] += 1.0
        found[str(case)] = buckets
    found["beyond"] = {bound: 5.0 if bound == math.inf else 0.0 for bound in BOUNDS}
    return found


HISTOGRAMS = make_histograms()


def backfilled(now: float) -> Iterator[Backfill]:
    for case, buckets in HISTOGRAMS.items():
        for bound, count in buckets.items():
            text = "+Inf" if bound == math.inf else repr(bound)
            yield gauge("seen_bucket", {"case": case, "le": text}, count, now=now)
    yield gauge("depth", {"queue": "a"}, 3.0, now=now)
    yield gauge("depth", {"queue": "b"}, math.nan, now=now)


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusBed]:
    with prometheus_with(tmp_path_factory.mktemp("probes"), backfilled(time.time())) as bed:
        yield bed


@pytest.mark.parametrize("suffix", QUANTILES)
def test_quantiles_are_those_of_prometheus(prometheus: PrometheusBed, suffix: str) -> None:
    query = f"histogram_quantile({QUANTILES[suffix]}, seen_bucket)"
    source = PrometheusQuery(prometheus.endpoint, query, times=SourceTimes(60.0))
    answer = QueryTarget(source, clock).ask(frozenset({"theirs"}))
    assert not isinstance(answer, Gap), answer
    theirs = answer.metrics["theirs"]
    assert not isinstance(theirs, Gap), theirs
    assert {each.labels["case"]: each.value for each in theirs} == {
        case: pytest.approx(interpolate(QUANTILES[suffix], buckets), rel=1e-12)
        for case, buckets in HISTOGRAMS.items()
    }


def probes_of(bed: PrometheusBed, query: str, timeout: float = 60.0) -> ProbeSet:
    probes = ProbeSet(ProbeContext(Micros(1_000_000), clock))
    source = PrometheusQuery(bed.endpoint, query, times=SourceTimes(timeout, 1.0, 3600.0))
    probes.update({KEY.source: source}, ())
    return probes


def ask(probes: ProbeSet) -> object:
    probes.samples(KEY, clock())
    probes.ask_due()
    found = probes.samples(KEY, clock())
    return found if isinstance(found, Gap) else [(each.value, each.labels) for each in found]


def test_a_query_is_a_metric(prometheus: PrometheusBed) -> None:
    assert ask(probes_of(prometheus, "depth * 2")) == [(6.0, {"queue": "a"})]


@pytest.mark.parametrize(
    ("query", "clause"),
    [
        ("depth >", "it answered 400: bad_data: "),
        ("absent_metric", "the query gives no series"),
        ("depth[5m]", "the query gives a result of type 'matrix', but must give a vector"),
        ("1", "the query gives a result of type 'scalar', but must give a vector"),
        ('depth{queue="b"}', "the query gives only numbers that are not finite"),
    ],
)
def test_queries_that_give_nothing(prometheus: PrometheusBed, query: str, clause: str) -> None:
    found = ask(probes_of(prometheus, query))
    assert isinstance(found, Gap)
    assert clause in found.reason


def test_prometheus_own_metrics_by_a_probe(prometheus: PrometheusBed) -> None:
    """An answer of some hundred series, with histograms, summaries and NaNs."""
    port = int(prometheus.endpoint.rpartition(":")[2])
    probes = ProbeSet(ProbeContext(Micros(1_000_000), clock))
    title = "NodeQOS/prometheus"
    probe = NodeProbe(HttpGet(port, path="/metrics"), SourceTimes(60.0))
    probes.update({title: probe}, ())
    names = ("prometheus_http_requests_total", "go_gc_duration_seconds", "process_open_fds")
    for name in names:
        probes.samples(MetricKey(name, title), clock())
    probes.ask_due()
    for name in names:
        found = probes.samples(MetricKey(name, title), clock())
        assert not isinstance(found, Gap), found
        assert all(math.isfinite(each.value) for each in found)


def test_a_prometheus_that_stops_and_dies(tmp_path: Path) -> None:
    with prometheus_with(tmp_path, [gauge("depth", {}, 5.0, now=time.time())]) as bed:
        assert ask(probes_of(bed, "depth")) == [(5.0, {})]
        bed.processes.send(PROGRAM, signal.SIGSTOP)
        hangs = ask(probes_of(bed, "depth", timeout=0.3))
        assert isinstance(hangs, Gap)
        assert hangs.reason.endswith("no answer within 0.3 s")
        bed.processes.send(PROGRAM, signal.SIGCONT)
        bed.processes.kill(PROGRAM)
        gone = ask(probes_of(bed, "depth"))
        assert isinstance(gone, Gap)
        assert gone.reason.endswith("Connection refused")
