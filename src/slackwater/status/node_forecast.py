"""What is predicted of one node and what is offered of it, as its API server has it."""

import math

import msgspec

from slackwater.contract.crane.node_forecast import read_predicted_use
from slackwater.contract.crane.prediction import (
    READY,
    TEMPLATE_NAMESPACES,
    PredictedMetric,
    TimeSeriesPrediction,
    TimeSeriesPredictionSpec,
    node_prediction_name,
)
from slackwater.contract.koordinator.physical import physical_node
from slackwater.contract.kubernetes import Node
from slackwater.contract.node_report import ANNOTATION, read_report
from slackwater.contract.resources import NODES, PODS, TIME_SERIES_PREDICTIONS, ObjectSelector
from slackwater.http.errors import RequestError
from slackwater.kube.api_status import HttpStatusError
from slackwater.kube.client import Client
from slackwater.model.gap import Gap
from slackwater.model.units import MilliCpu, QuantityError, parse_quantity

#: What pods may ask for of the CPU and memory that others leave idle, by the resource predicted.
OFFERED = {
    "cpu": ("gocrane.io/cpu", "kubernetes.io/batch-cpu"),
    "memory": ("gocrane.io/memory", "kubernetes.io/batch-memory"),
}
OVERSOLD = "oversold"
_ENDED = ("Succeeded", "Failed")
_MILLI = 1000


class PredictionShown(msgspec.Struct, frozen=True, rename="camel"):
    """One metric of the node's prediction. Peaks are the largest samples of the next window and of
    the one after it; None where no sample is of that time."""

    resource: str
    ready: bool
    estimator: str
    estimator_since: str
    last_day_error: float | None
    predicted_at: str
    message: str
    next_peak: float | None
    following_peak: float | None
    samples: tuple[tuple[int, float], ...]


class OfferShown(msgspec.Struct, frozen=True):
    """An extended resource of the Node: how much of it pods may ask for, and have."""

    resource: str
    offered: float
    allocated: float


class NodeForecastView(msgspec.Struct, frozen=True, rename="camel"):
    """`prediction` names the object, empty where there is none; `ready` and `reason` are its
    condition's. `why_not_sold` is why the agent offers nothing, empty where it does."""

    node: str
    prediction: str
    reason: str
    ready: bool
    window: int
    allocatable: dict[str, float]
    metrics: tuple[PredictionShown, ...]
    offers: tuple[OfferShown, ...]
    why_not_sold: str


class _NodeStatus(msgspec.Struct, frozen=True):
    allocatable: dict[str, str | int | float] = {}


class _NodeMeta(msgspec.Struct, frozen=True):
    annotations: dict[str, str] = {}


class _Node(msgspec.Struct, frozen=True):
    metadata: _NodeMeta = _NodeMeta()
    status: _NodeStatus = _NodeStatus()


class _Resources(msgspec.Struct, frozen=True):
    requests: dict[str, str | int | float] = {}


class _Container(msgspec.Struct, frozen=True):
    resources: _Resources = _Resources()


class _PodSpec(msgspec.Struct, frozen=True):
    containers: tuple[_Container, ...] = ()


class _PodStatus(msgspec.Struct, frozen=True):
    phase: str = ""


class _Pod(msgspec.Struct, frozen=True):
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


def fetch_node_forecast(
    client: Client, node: str, own: str, now: float
) -> tuple[NodeForecastView, TimeSeriesPredictionSpec | None]:
    """Also what is asked for the history. `own` is our own namespace, where predictions of our own
    template are. Raises RequestError where there is no such node."""
    found = msgspec.json.decode(client.get(NODES, node), type=_Node)
    namespace, prediction = _prediction(client, node, own)
    amounts = {name: _amount(text) for name, text in found.status.allocatable.items()}
    spec = None if prediction is None else prediction.spec
    status = None if prediction is None else prediction.status
    conditions = () if status is None else status.conditions
    ready = next((each for each in conditions if each.type == READY), None)
    window = 0 if spec is None else spec.prediction_window_seconds
    metrics = () if status is None else status.prediction_metrics
    shown = NodeForecastView(
        node,
        f"{namespace}/{node_prediction_name(node)}" if prediction else "",
        "" if ready is None else ready.message,
        ready is not None and ready.status.value == "True",
        window,
        _allocatable(node, amounts, found.metadata.annotations),
        tuple(_shown(each, window, now) for each in metrics),
        tuple(_offers(amounts, _allocated(client, node))),
        _why_not_sold(found.metadata.annotations.get(ANNOTATION)),
    )
    return shown, spec


def _prediction(client: Client, node: str, own: str) -> tuple[str, TimeSeriesPrediction | None]:
    for namespace in (*TEMPLATE_NAMESPACES, own):
        try:
            raw = client.get(TIME_SERIES_PREDICTIONS, node_prediction_name(node), namespace)
        except HttpStatusError as error:
            if error.reason != "NotFound":
                raise
            continue
        try:
            return namespace, msgspec.json.decode(raw, type=TimeSeriesPrediction)
        except msgspec.DecodeError as error:
            name = f"{namespace}/{node_prediction_name(node)}"
            raise RequestError(f"TimeSeriesPrediction {name} cannot be read: {error}") from None
    return "", None


def _allocatable(
    node: str, amounts: dict[str, float], annotations: dict[str, str]
) -> dict[str, float]:
    """As the machine counts it, like what is predicted: an amplified Node shows more CPU."""
    found = {name: amount for name, amount in amounts.items() if name in OFFERED}
    if (cpu := found.pop("cpu", None)) is not None:
        stated = Node(node, allocatable_cpu=MilliCpu(round(cpu * _MILLI)), annotations=annotations)
        physical = physical_node(stated).allocatable_cpu
        if not isinstance(physical, Gap):
            return {"cpu": physical / _MILLI, **found}
    return found


def _shown(metric: PredictedMetric, window: int, now: float) -> PredictionShown:
    """The samples as agents read them."""
    scale = 1 if metric.resource_identifier == "memory" else _MILLI
    use = read_predicted_use(metric, scale)
    samples = {at: value / scale for at, value in use.samples}
    return PredictionShown(
        metric.resource_identifier,
        metric.ready,
        metric.estimator,
        metric.estimator_since,
        _ratio(metric.last_day_error),
        metric.predicted_at,
        use.problem or metric.message,
        _peak(samples, now, now + window),
        _peak(samples, now + window, now + 2 * window),
        tuple(sorted(samples.items())),
    )


def _ratio(text: str) -> float | None:
    """None also of what somebody else wrote there."""
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def _peak(samples: dict[int, float], start: float, end: float) -> float | None:
    return max((value for at, value in samples.items() if start <= at < end), default=None)


def _allocated(client: Client, node: str) -> dict[str, float]:
    """What pods of the node have been given. Nothing where pods may not be listed."""
    selector = ObjectSelector(fields=f"spec.nodeName={node}")
    try:
        pods = client.list(
            PODS, lambda raw: msgspec.json.decode(raw, type=_Pod), selector=selector
        ).items
    except RequestError:
        return {}
    found: dict[str, float] = {}
    for pod in pods:
        for container in pod.spec.containers if pod.status.phase not in _ENDED else ():
            for name, text in container.resources.requests.items():
                found[name] = found.get(name, 0.0) + _amount(text)
    return found


def _offers(amounts: dict[str, float], allocated: dict[str, float]) -> list[OfferShown]:
    names = (name for group in OFFERED.values() for name in group)
    return [OfferShown(n, amounts[n], allocated.get(n, 0.0)) for n in names if n in amounts]


def _amount(text: str | float) -> float:
    try:
        return parse_quantity(str(text)).of(1000) / 1000
    except QuantityError:
        return 0.0


def _why_not_sold(report: str | None) -> str:
    if report is None:
        return "no agent reports from this node"
    match read_report(report):
        case Gap(reason):
            return reason
        case found:
            return found.policies.get(OVERSOLD, "its agent does not know how to sell")
