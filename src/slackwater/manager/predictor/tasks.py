"""What has to be predicted and when: a task for each prediction object.

Each prediction has its own place in its window, by its uid, so that thousands of them are spread
over it; at that place it is predicted anew for two windows. So a reader always finds the whole next
window, and there is one write in each.
"""

import zlib
from collections.abc import Iterable

import msgspec

from slackwater.contract.crane.prediction import READY, TimeSeriesPredictionSpec
from slackwater.manager.prediction_object import PredictionObject
from slackwater.manager.predictor.promql import Matchers, MetricHistoryQuery, query_of
from slackwater.model.gap import Gap
from slackwater.model.problem import InvalidError
from slackwater.prediction.parameters import AlgorithmParameters, read_parameters
from slackwater.record.timestamps import parse_timestamp

#: So many places has a window: as many nodes are asked for at once as fall on one of them.
_PLACES = 60


class TaskMetric(msgspec.Struct, frozen=True):
    """One metric: the query of its history, and how it is predicted; a Gap where it cannot be."""

    resource_identifier: str
    query: MetricHistoryQuery | Gap
    parameters: AlgorithmParameters | Gap

    @property
    def problem(self) -> str:
        for each in (self.query, self.parameters):
            if isinstance(each, Gap):
                return each.reason
        return ""


class PredictionTask(msgspec.Struct, frozen=True):
    """`predicted` is when the oldest of the samples that stand in the object were predicted, in
    seconds since 1970; 0 where there are none, or they are about another generation of it."""

    uid: str
    key: str
    generation: int
    window: int
    metrics: tuple[TaskMetric, ...]
    predicted: float = 0.0

    def is_due(self, now: float) -> bool:
        """Whether its place in the window has passed since it was predicted. Also where the clock
        was set back."""
        early = self.predicted > now + self.window / _PLACES
        return early or self.predicted < self.last_place(now)

    def last_place(self, now: float) -> float:
        step = self.window / _PLACES
        offset = (zlib.crc32(self.uid.encode()) % _PLACES) * step
        return (now - offset) // self.window * self.window + offset


def tasks_of(
    predictions: Iterable[PredictionObject], matchers: Matchers
) -> tuple[PredictionTask, ...]:
    return tuple(
        _task(found, found.spec, matchers)
        for found in predictions
        if not isinstance(found.spec, Gap)
    )


def _task(
    found: PredictionObject, spec: TimeSeriesPredictionSpec, matchers: Matchers
) -> PredictionTask:
    metrics = tuple(
        TaskMetric(
            each.resource_identifier,
            query_of(each, spec.target_ref, matchers),
            _parameters(spec, place),
        )
        for place, each in enumerate(spec.prediction_metrics)
    )
    window = spec.prediction_window_seconds
    return PredictionTask(
        found.uid, found.key, found.generation, window, metrics, _predicted(found, spec)
    )


def _parameters(spec: TimeSeriesPredictionSpec, place: int) -> AlgorithmParameters | Gap:
    path = f"spec.predictionMetrics[{place}].algorithm"
    try:
        return read_parameters(spec.prediction_metrics[place].algorithm, path)
    except InvalidError as error:
        return Gap(str(error))


def _predicted(found: PredictionObject, spec: TimeSeriesPredictionSpec) -> float:
    observed = [e.observed_generation for e in found.status.conditions if e.type == READY]
    if observed != [found.generation]:
        return 0.0
    times = {each.resource_identifier: each.predicted_at for each in found.status.metrics}
    wanted = (times.get(each.resource_identifier, "") for each in spec.prediction_metrics)
    return min(map(_seconds, wanted), default=0.0)


def _seconds(time: str) -> float:
    found = parse_timestamp(time)
    return 0.0 if found is None else found.timestamp()
