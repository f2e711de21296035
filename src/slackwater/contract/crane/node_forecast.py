"""A node's own TimeSeriesPrediction, as far as it says how much of the node will be used.

Samples of cpu are cores, as the queries of Crane's template give them, and samples of memory are
bytes: here they become milliCPU and bytes, once. Crane's agent takes the cores for millicores, and
samples of any time for samples of the coming hour.
"""

import re
from collections.abc import Iterable, Sequence

import msgspec

from slackwater.contract.crane.objects import read_time_series_prediction
from slackwater.contract.crane.prediction import (
    TEMPLATE_NAMESPACES,
    PredictedMetric,
    TimeSeriesPrediction,
    node_prediction_name,
)
from slackwater.contract.kubernetes import read_head
from slackwater.model.gap import Gap
from slackwater.model.node_resource import NodeForecast
from slackwater.model.problem import Problem, quoted
from slackwater.model.units import (
    Bytes,
    Micros,
    MilliCpu,
    QuantityError,
    format_age,
    parse_quantity,
)

_CPU, _MEMORY = "cpu", "memory"
_LARGEST = 2**63 - 1
_SECOND = 1_000_000
# "%.5f" in Crane; NaN and Inf are what Go prints for a number that is none.
_VALUE = re.compile(r"-?[0-9]{1,20}(?:\.[0-9]{1,20})?", re.ASCII)
_VALUE_WANTED = "a number from 0 on, such as '1.50000'"


class PredictedUse(msgspec.Struct, frozen=True):
    """Coming values of one resource, in milliCPU or bytes, by their time in seconds since 1970."""

    samples: tuple[tuple[int, int], ...]
    problem: str = ""

    def peak(self, now: int, window: int) -> int | Gap:
        """The largest of [now, now + window]."""
        if self.problem:
            return Gap(self.problem)
        coming = [value for at, value in self.samples if now <= at <= now + window]
        if coming:
            return max(coming)
        last = max((at for at, _ in self.samples), default=None)
        if last is None:
            return Gap("has no samples")
        if last > now:
            return Gap(f"begins only after its window of {window} s")
        return Gap(f"ended {format_age(Micros((now - last) * _SECOND))} ago")


class NodePrediction(msgspec.Struct, frozen=True):
    """What one TimeSeriesPrediction says about its Node. A resource that it does not have is
    None."""

    title: str
    node: str
    window: int
    cpu: PredictedUse | None = None
    memory: PredictedUse | None = None


def read_node_prediction(
    document: object, source: str, own_namespace: str = ""
) -> NodePrediction | None:
    """None for one that is not of a Node by Crane's names: its name, and a namespace in which no
    tenant writes, which is Crane's or our own, where those of the manager's own template are.
    Raises InvalidError."""
    prediction = read_time_series_prediction(document, source)
    head, _ = read_head(document, source)
    target = prediction.spec.target_ref
    if target.kind != "Node" or head.name != node_prediction_name(target.name):
        return None
    namespace = head.namespace or TEMPLATE_NAMESPACES[-1]
    if namespace not in (*TEMPLATE_NAMESPACES, own_namespace):
        return None
    return NodePrediction(
        f"TimeSeriesPrediction {namespace}/{head.name}",
        target.name,
        prediction.spec.prediction_window_seconds,
        _use_of(prediction, _CPU, 1000),
        _use_of(prediction, _MEMORY, 1),
    )


def _use_of(prediction: TimeSeriesPrediction, resource: str, scale: int) -> PredictedUse | None:
    if all(each.resource_identifier != resource for each in prediction.spec.prediction_metrics):
        return None
    status = prediction.status
    for metric in () if status is None else status.prediction_metrics:
        if metric.resource_identifier == resource:
            return read_predicted_use(metric, scale)
    return PredictedUse((), "is not predicted yet")


def read_predicted_use(metric: PredictedMetric, scale: int) -> PredictedUse:
    """Of several series the largest value of a time counts. One value that is none makes all of
    them unusable: nobody knows what else went wrong."""
    found: dict[int, int] = {}
    for series in metric.prediction:
        for sample in series.samples:
            value = _parse(sample.value, scale)
            if value is None:
                where = f"a sample of {metric.resource_identifier}"
                problem = Problem(where, quoted(sample.value), _VALUE_WANTED)
                return PredictedUse((), f"cannot be used: {problem.sentence()}")
            found[sample.timestamp] = max(found.get(sample.timestamp, 0), value)
    if not found and metric.message:
        return PredictedUse((), f"has no samples: {metric.message}")
    return PredictedUse(tuple(sorted(found.items())))


def _parse(text: str, scale: int) -> int | None:
    """Rounded up: it is what others will use. A little less than nothing, which a fitted curve can
    give, is nothing."""
    if not _VALUE.fullmatch(text):
        return None
    try:
        value = parse_quantity(text).of(scale)
    except QuantityError:
        return None
    return min(max(value, 0), _LARGEST)


_NO_PREDICTION = Gap("there is no TimeSeriesPrediction of this node")
_UNNAMED = Gap("no TimeSeriesPrediction of this node names it")


def forecast_at(predictions: Sequence[NodePrediction], now: int) -> NodeForecast:
    """The largest that any of them says of each resource; `now` is in seconds since 1970."""
    if not predictions:
        return NodeForecast(_NO_PREDICTION, _NO_PREDICTION)
    cpu = _largest(((each, each.cpu) for each in predictions), now)
    memory = _largest(((each, each.memory) for each in predictions), now)
    return NodeForecast(
        cpu if isinstance(cpu, Gap) else MilliCpu(cpu),
        memory if isinstance(memory, Gap) else Bytes(memory),
    )


def _largest(uses: Iterable[tuple[NodePrediction, PredictedUse | None]], now: int) -> int | Gap:
    peaks = [
        (prediction, use.peak(now, prediction.window))
        for prediction, use in uses
        if use is not None
    ]
    known = [peak for _, peak in peaks if not isinstance(peak, Gap)]
    if known:
        return max(known)
    for prediction, peak in peaks:
        if isinstance(peak, Gap):
            return Gap(f"{prediction.title} {peak.reason}")
    return _UNNAMED
