"""Predictions and the template of them as they came from the API server.

Of a status only what decides about the next one is decoded: there is a prediction for every node,
and each has a hundred samples and more. A spec that the contract refuses is kept with the reason.
"""

import zlib

import msgspec

from slackwater.contract.crane.fields import PolicyCondition
from slackwater.contract.crane.objects import read_time_series_prediction
from slackwater.contract.crane.prediction import (
    TEMPLATE_KEY,
    PredictedMetric,
    PredictionStatus,
    TimeSeriesPredictionSpec,
)
from slackwater.model.gap import Gap
from slackwater.model.problem import InvalidError

MANAGED_BY, MANAGER = "app.kubernetes.io/managed-by", "slackwater-manager"
_SOURCE = "the cluster"


class NodeOwner(msgspec.Struct, frozen=True, rename="camel"):
    """The owner that deletes an object when it goes itself."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class StoredMetric(msgspec.Struct, frozen=True):
    """What a status says about one metric. `last` is the time of the last sample, 0 without one;
    `digest` tells two lists of samples apart."""

    resource_identifier: str
    ready: bool
    estimator: str
    estimator_since: str
    last_day_error: str
    predicted_at: str
    message: str
    last: int
    digest: int


class StoredStatus(msgspec.Struct, frozen=True):
    """A status in short. `encoded` are its metrics as they came, for the time when they have to be
    written again."""

    conditions: tuple[PolicyCondition, ...] = ()
    metrics: tuple[StoredMetric, ...] = ()
    encoded: bytes = b"[]"

    def decode(self) -> tuple[PredictedMetric, ...]:
        return msgspec.json.decode(self.encoded, type=tuple[PredictedMetric, ...])


class PredictionObject(msgspec.Struct, frozen=True):
    """A TimeSeriesPrediction. `spec` is a Gap where it cannot be used. `managed`: we made it."""

    namespace: str
    name: str
    uid: str
    generation: int
    managed: bool
    owner: NodeOwner | None
    spec: TimeSeriesPredictionSpec | Gap
    status: StoredStatus = StoredStatus()

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    def __str__(self) -> str:
        return f"TimeSeriesPrediction {self.key}"


class TemplateObject(msgspec.Struct, frozen=True):
    """The ConfigMap with the template of nodes' predictions. `text` is None without its key."""

    namespace: str
    name: str
    uid: str
    text: str | None


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    owner_references: tuple[NodeOwner, ...] = ()


class _Header(msgspec.Struct, frozen=True):
    metadata: _Metadata
    status: msgspec.Raw = msgspec.Raw(b"null")


class _Metrics(msgspec.Struct, frozen=True, rename="camel"):
    prediction_metrics: msgspec.Raw = msgspec.Raw(b"[]")


class _ConfigMap(msgspec.Struct, frozen=True):
    metadata: _Metadata
    data: dict[str, str] | None = None


_HEADER = msgspec.json.Decoder(_Header)


def read_prediction_object(raw: msgspec.Raw) -> PredictionObject:
    header = _HEADER.decode(raw)
    meta = header.metadata
    return PredictionObject(
        meta.namespace,
        meta.name,
        meta.uid,
        meta.generation,
        meta.labels.get(MANAGED_BY) == MANAGER,
        next((each for each in meta.owner_references if each.controller), None),
        _read_spec(raw, meta.name),
        _read_status(header.status),
    )


def _read_spec(raw: msgspec.Raw, name: str) -> TimeSeriesPredictionSpec | Gap:
    """The status is judged apart: a wrong one must not make the spec unreadable. Nor is the object
    named in a sentence that stands in the object itself."""
    document = msgspec.json.decode(raw)
    document.pop("status", None)
    try:
        return read_time_series_prediction(document, _SOURCE).spec
    except InvalidError as error:
        prefix = f"{_SOURCE}: TimeSeriesPrediction {name}: "
        return Gap(str(error).replace(prefix, ""))


def _read_status(raw: msgspec.Raw) -> StoredStatus:
    """An empty one where it is not ours to understand: it is written anew."""
    try:
        status = msgspec.json.decode(raw, type=PredictionStatus | None)
        encoded = msgspec.json.decode(raw, type=_Metrics | None)
    except msgspec.DecodeError:
        return StoredStatus()
    if status is None or encoded is None:
        return StoredStatus()
    return StoredStatus(
        status.conditions, shorten_metrics(status), bytes(encoded.prediction_metrics)
    )


def shorten_metrics(status: PredictionStatus) -> tuple[StoredMetric, ...]:
    return tuple(_shorten(each) for each in status.prediction_metrics)


def _shorten(metric: PredictedMetric) -> StoredMetric:
    samples = [each.samples for each in metric.prediction]
    return StoredMetric(
        metric.resource_identifier,
        metric.ready,
        metric.estimator,
        metric.estimator_since,
        metric.last_day_error,
        metric.predicted_at,
        metric.message,
        min((each[-1].timestamp for each in samples if each), default=0),
        zlib.crc32(msgspec.json.encode(metric.prediction)),
    )


def read_template_object(raw: msgspec.Raw) -> TemplateObject:
    found = msgspec.json.decode(raw, type=_ConfigMap)
    meta = found.metadata
    return TemplateObject(meta.namespace, meta.name, meta.uid, (found.data or {}).get(TEMPLATE_KEY))
