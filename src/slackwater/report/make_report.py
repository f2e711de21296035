"""From what was read to the report. Pure: the same series give the same report."""

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np

from slackwater.model.gap import Gap
from slackwater.prediction.backtest import (
    PREDICTORS,
    BacktestTerms,
    SeriesBacktest,
    backtest_series,
    count_windows,
)
from slackwater.prediction.history import DAY, HOUR, History, Samples, build_history
from slackwater.report.cluster_report import (
    ClusterReport,
    EstimatorOffer,
    IdleOffer,
    NodeDay,
    NodeUse,
    PolicyDeeds,
    PossibleSavings,
    SlackwaterDeeds,
    WorkloadUse,
)
from slackwater.report.fetch_objects import ListedObjects
from slackwater.report.fetch_series import ClusterSeries, NodeSamples, OwnSamples, PodSamples
from slackwater.report.pod_owners import PodWithOwner, guess_workload, workloads_by_name

API_VERSION, KIND = "slackwater.io/v1", "ClusterReport"
#: Of a backtest: some 0.1 s of CPU each.
MOST_TRIED = 30
_MONTH_HOURS = 30 * 24


class ReportSource(msgspec.Struct, frozen=True):
    """Where the report is from, and when it is made. `price` of a core for an hour."""

    server: str
    prometheus: str
    made: float
    price: float | None = None


def make_report(
    series: ClusterSeries,
    objects: ListedObjects,
    source: ReportSource,
    tell: Callable[[int, int], object] = lambda _done, _of: None,
) -> ClusterReport:
    """`tell` hears how many nodes of how many have been tried."""
    notes = [*_unseen(objects), *series.notes]
    nodes = _node_uses(series, objects)
    offer = _offer(series, nodes, notes, tell)
    return ClusterReport(
        API_VERSION,
        KIND,
        source.server,
        source.prometheus,
        source.made,
        series.period,
        nodes,
        offer,
        _workloads(series.pods, objects.pods),
        _deeds(series.own) if series.own else None,
        _savings(offer, nodes, source.price) if offer else None,
        tuple(notes),
    )


def _unseen(objects: ListedObjects) -> list[str]:
    found = []
    if isinstance(objects.nodes, Gap):
        told = "nodes could not be listed, so each counts with all its CPUs"
        found.append(f"{told}: {objects.nodes.reason}")
    if isinstance(objects.pods, Gap):
        told = "pods could not be listed, so it is not known what workloads ask for"
        found.append(f"{told}: {objects.pods.reason}")
    return found


# --- nodes


def _node_uses(series: ClusterSeries, objects: ListedObjects) -> tuple[NodeUse, ...]:
    listed = () if isinstance(objects.nodes, Gap) else objects.nodes
    offered = {each.name: each.allocatable for each in listed if each.allocatable is not None}
    found = (_node_use(each, offered.get(each.node, each.cpus)) for each in series.nodes)
    return tuple(each for each in found if each is not None)


def _node_use(samples: NodeSamples, allocatable: float) -> NodeUse | None:
    """None for a node without a sample that is a number."""
    known = [
        (at, max(value, 0.0))
        for at, value in zip(samples.times, samples.values, strict=True)
        if math.isfinite(value)
    ]
    if not known:
        return None
    by_day: dict[str, list[float]] = {}
    for at, value in known:
        # A sample is the mean of the time before it.
        day = dt.datetime.fromtimestamp(at - 1, dt.UTC).date().isoformat()
        by_day.setdefault(day, []).append(value)
    days = tuple(_node_day(day, values, allocatable) for day, values in sorted(by_day.items()))
    values = [value for _, value in known]
    return NodeUse(samples.node, allocatable, _mean(values), max(values), days)


def _node_day(day: str, values: Sequence[float], allocatable: float) -> NodeDay:
    used = _mean(values)
    return NodeDay(day, used, max(values), max(allocatable - used, 0.0))


# --- what could be sold


def _offer(
    series: ClusterSeries,
    nodes: Sequence[NodeUse],
    notes: list[str],
    tell: Callable[[int, int], object],
) -> IdleOffer | None:
    """None where no node has enough of a past."""
    offered = {each.node: each.allocatable for each in nodes}
    terms = _terms(series.period.seconds)
    histories = [(each.node, _history(each, series.period.step)) for each in series.nodes]
    fit = [(node, past) for node, past in histories if past and count_windows(past, terms)]
    chosen = _spread(fit, MOST_TRIED)
    tests = []
    for number, (node, past) in enumerate(chosen, 1):
        own = msgspec.structs.replace(terms, capacity=offered[node])
        done = backtest_series(node, past, PREDICTORS, own)
        tell(number, len(chosen))
        if not isinstance(done, Gap):
            tests.append(done)
    if not tests:
        notes.append(
            f"no forecast could be tried: no node has samples of more than {terms.history / DAY:g} "
            "days; ask for a longer period with --days, or wait"
        )
        return None
    return _summed(tests, nodes)


def _terms(seconds: float) -> BacktestTerms:
    """Three days of history as by default, or half of a shorter period, and never less than one."""
    return BacktestTerms(history=max(min(3 * DAY, seconds / 2 // HOUR * HOUR), DAY), window=HOUR)


def _history(samples: NodeSamples, step: float) -> History | None:
    found = build_history(samples.times, samples.values, step)
    return None if isinstance(found, Gap) else found


def _spread(fit: Sequence[tuple[str, History]], most: int) -> list[tuple[str, History]]:
    """From the idlest to the busiest, evenly."""
    if len(fit) <= most:
        return list(fit)
    ranked = sorted(fit, key=lambda each: float(np.nanmean(each[1].values)))
    return [ranked[place * (len(ranked) - 1) // (most - 1)] for place in range(most)]


def _summed(tests: Sequence[SeriesBacktest], nodes: Sequence[NodeUse]) -> IdleOffer:
    """Mean cores of each node, added up; windows of all nodes count alike."""
    tried = {each.series for each in tests}
    return IdleOffer(
        nodes=len(tests),
        of=len(nodes),
        days=max(len(each.starts) for each in tests) * HOUR / DAY,
        idle=math.fsum(each.idle for each in nodes if each.node in tried),
        oracle=math.fsum(_above(each, each.real) for each in tests),
        allocatable=math.fsum(each.capacity for each in tests),
        estimators=tuple(_estimator(name, tests) for name in tests[0].forecasts),
    )


def _estimator(name: str, tests: Sequence[SeriesBacktest]) -> EstimatorOffer:
    own = [result for each in tests for result in each.results if result.estimator == name]
    windows = sum(each.windows for each in own)
    exceeded = math.fsum(each.exceeded * each.windows for each in own)
    above = math.fsum(each.seconds for each in own)
    return EstimatorOffer(
        name,
        windows,
        math.fsum(_above(each, each.forecasts[name]) for each in tests),
        exceeded / windows if windows else 0.0,
        max((each.exceeded for each in own), default=0.0),
        above / (windows * HOUR) if windows else 0.0,
    )


def _above(test: SeriesBacktest, peaks: Samples) -> float:
    """Cores between those peaks and the capacity, on average over the windows that have one."""
    known = peaks[~np.isnan(peaks)]
    return float(np.maximum(test.capacity - known, 0.0).mean()) if len(known) else 0.0


def _savings(offer: IdleOffer, nodes: Sequence[NodeUse], price: float | None) -> PossibleSavings:
    """Of all nodes, as far as those that were tried stand for them."""
    allocatable = math.fsum(each.allocatable for each in nodes)
    share = offer.ours.sold / offer.allocatable if offer.allocatable else 0.0
    cores = share * allocatable
    size = allocatable / len(nodes) if nodes else 0.0
    return PossibleSavings(
        cores,
        24 * cores,
        cores / size if size else 0.0,
        None if price is None else cores * _MONTH_HOURS * price,
    )


# --- workloads


def _workloads(
    samples: Sequence[PodSamples], pods: tuple[PodWithOwner, ...] | Gap
) -> tuple[WorkloadUse, ...]:
    listed = () if isinstance(pods, Gap) else pods
    owners = {(each.namespace, each.name): each for each in listed}
    names = workloads_by_name(listed)
    used: dict[tuple[str, str], dict[float, float]] = {}
    looks: set[float] = set()
    for each in samples:
        owner = owners.get((each.namespace, each.pod))
        guess = guess_workload(each.pod, names.get(each.namespace, {}))
        sums = used.setdefault((each.namespace, owner.workload if owner else guess), {})
        for at, value in zip(each.times, each.values, strict=True):
            looks.add(at)
            sums[at] = sums.get(at, 0.0) + (value if math.isfinite(value) else 0.0)
    asked = _requests(listed)
    found = (
        _workload(namespace, name, sums, len(looks), asked.get((namespace, name), (0, 0.0)))
        for (namespace, name), sums in used.items()
    )
    return tuple(sorted(found, key=lambda each: (-each.used, each.namespace, each.workload)))


def _workload(
    namespace: str, name: str, sums: Mapping[float, float], looks: int, asked: tuple[int, float]
) -> WorkloadUse:
    """When it was not there it used nothing."""
    pods, requested = asked
    used = math.fsum(sums.values()) / looks
    return WorkloadUse(namespace, name, pods, used, max(sums.values()), requested or None)


def _requests(pods: Sequence[PodWithOwner]) -> dict[tuple[str, str], tuple[int, float]]:
    found: dict[tuple[str, str], tuple[int, float]] = {}
    for each in pods:
        if not each.ended:
            count, cores = found.get((each.namespace, each.workload), (0, 0.0))
            found[each.namespace, each.workload] = (count + 1, cores + each.requested)
    return found


# --- what Slackwater did


def _deeds(own: OwnSamples) -> SlackwaterDeeds:
    policies = tuple(_policy(name, own) for name in sorted(own.policies))
    ticks, exceeded = own.totals.get("ticks", 0.0), own.totals.get("exceeded", 0.0)
    sells = "sold" in own.means
    return SlackwaterDeeds(
        nodes=int(own.agents),
        policies=policies,
        best_effort=own.means.get("best_effort"),
        sold=own.means.get("sold"),
        forecast_exceeded=exceeded / ticks if sells and ticks > 0 else None,
        changes=own.totals.get("changes", 0.0),
        evictions=own.totals.get("evictions", 0.0),
        rotations=own.totals.get("rotations", 0.0),
    )


def _policy(name: str, own: OwnSamples) -> PolicyDeeds:
    of_it = {course: count for (policy, course), count in own.ticks.items() if policy == name}
    whole = math.fsum(of_it.values())

    def share(course: str) -> float | None:
        return of_it.get(course, 0.0) / whole if whole > 0 else None

    return PolicyDeeds(name, int(own.policies[name]), share("acted"), share("held"))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
