"""A cluster for reports: three nodes for a week, five workloads, Slackwater on all of them.

The same each time: what looks like chance is a sum of sines. docs/reference/report.md shows it.
"""

import functools
import math
from collections.abc import Sequence

from slackwater.report.cluster_report import ClusterReport, ReportPeriod
from slackwater.report.fetch_objects import ListedNode, ListedObjects
from slackwater.report.fetch_series import ClusterSeries, NodeSamples, OwnSamples, PodSamples
from slackwater.report.make_report import ReportSource, make_report
from slackwater.report.pod_owners import PodWithOwner

DAY, STEP = 86_400.0, 900.0
#: Midnight, UTC.
END = 1_795_046_400.0
LOOKS = 24
_MEANS = {"node-a": 2.4, "node-b": 4.8, "node-c": 9.0}
#: Namespace, owner, pods' names, cores asked for and used by each.
_WORKLOADS = (
    ("shop", "Deployment/web", ("web-5d8f7b9c6d-b4d2x", "web-5d8f7b9c6d-k7m9z"), 1.0, 1.3),
    ("shop", "Deployment/cart", ("cart-6c5d4b7f8-zz2x4",), 4.0, 0.4),
    ("data", "StatefulSet/database", ("database-0", "database-1"), 3.0, 1.9),
    ("batch", "CronJob/nightly", ("nightly-29101440-x2x4v",), 0.0, 0.7),
)


def at_work(mean: float, at: float) -> float:
    """A day that is busy once, a weekend, and some noise."""
    day = 1 - 0.5 * math.cos(2 * math.pi * at / DAY)
    weekend = 0.7 if int(at // DAY) % 7 in (2, 3) else 1.0
    noise = sum(math.sin(at / each) for each in (701, 1303, 3907, 9203)) / 4
    return max(mean * (day * weekend + 0.12 * noise), 0.1)


def node_samples(name: str, mean: float, days: float = 7, step: float = STEP) -> NodeSamples:
    count = int(days * DAY / step)
    times = [END - step * (count - 1 - place) for place in range(count)]
    return NodeSamples(name, 16.0, times, [at_work(mean, at) for at in times])


def nodes(days: float = 7) -> tuple[NodeSamples, ...]:
    return tuple(node_samples(name, mean, days) for name, mean in _MEANS.items())


def pods() -> tuple[PodSamples, ...]:
    times = [END - 7 * DAY / LOOKS * place for place in range(LOOKS)][::-1]
    return tuple(
        PodSamples(
            namespace, name, times, [used * (0.8 + 0.4 * (place % 2)) for place in range(24)]
        )
        for namespace, _, names, _, used in _WORKLOADS
        for name in names
    )


def owned_pods() -> tuple[PodWithOwner, ...]:
    return tuple(
        PodWithOwner(namespace, name, owner, asked, ended=False)
        for namespace, owner, names, asked, _ in _WORKLOADS
        for name in names
    )


def objects() -> ListedObjects:
    return ListedObjects(tuple(ListedNode(name, (), 15.5) for name in _MEANS), owned_pods())


def own() -> OwnSamples:
    ticks = {
        ("best_effort_share", "acted"): 590_000.0,
        ("best_effort_share", "held"): 10_000.0,
        ("oversold", "acted"): 600_000.0,
    }
    means = {"best_effort": 1.9, "sold": 18.4}
    totals = {"ticks": 600_000.0, "exceeded": 2_400.0, "changes": 812.0, "evictions": 3.0,
              "rotations": 1.0}  # fmt: skip
    return OwnSamples(3, {"best_effort_share": 3, "oversold": 2, "core_pinning": 0}, ticks, means,
                      totals)  # fmt: skip


def series(
    found: Sequence[NodeSamples] = (), own_samples: OwnSamples | None = None, days: float = 7
) -> ClusterSeries:
    period = ReportPeriod(END - days * DAY, END, STEP)
    return ClusterSeries(period, tuple(found) or nodes(days), pods(), own_samples, ())


SOURCE = ReportSource("https://cluster.example.com:6443", "http://localhost:9090", END + 600, 0.04)


@functools.cache
def sample_report() -> ClusterReport:
    return make_report(series(own_samples=own()), objects(), SOURCE)


@functools.cache
def bare_report() -> ClusterReport:
    """Of somebody who has installed nothing, with a day of history."""
    source = ReportSource("", "http://localhost:9090", END)
    return make_report(series(days=1), objects(), source)
