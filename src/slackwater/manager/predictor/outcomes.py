"""What came out of a prediction, as the controller reads it: samples, or why there are none."""

import math
from collections.abc import Mapping

import msgspec
import numpy as np

from slackwater.contract.crane.prediction import (
    PredictedMetric,
    PredictedSample,
    PredictedSeries,
    SeriesLabel,
)
from slackwater.kube.api_time import format_time
from slackwater.manager.predictor.samples import SeriesKey
from slackwater.prediction.forecasting import Forecast

#: More would not fit into an object: then the largest of several is kept.
_MOST_SAMPLES = 1440


class PredictionOutcome(msgspec.Struct, frozen=True):
    """Of one object: the metrics that were predicted, and why the others could not be."""

    generation: int
    metrics: tuple[PredictedMetric, ...] = ()
    problems: Mapping[str, str] = {}


def tell_metric(
    identifier: str, forecasts: Mapping[SeriesKey, Forecast], now: float, window: int
) -> PredictedMetric:
    """Samples for [now, now + 2 windows] of each series."""
    first = next(iter(forecasts.values()))
    days = [each.last_day.error for each in forecasts.values() if each.last_day is not None]
    return PredictedMetric(
        ready=True,
        resource_identifier=identifier,
        prediction=tuple(
            PredictedSeries(
                tuple(SeriesLabel(name, value) for name, value in key),
                _samples(each, now, now + 2 * window),
            )
            for key, each in forecasts.items()
        ),
        estimator=first.estimator,
        last_day_error=f"{max(days):.5f}" if days and math.isfinite(max(days)) else "",
        predicted_at=format_time(now),
        message="" if first.asked else first.because,
    )


def _samples(forecast: Forecast, start: float, end: float) -> tuple[PredictedSample, ...]:
    """What the forecast does not reach, because the newest sample is some minutes old, is like its
    last value."""
    interval = forecast.interval
    first, last = math.floor(start / interval), math.floor(end / interval)
    places = np.arange(first, last + 1)
    begun = round(forecast.start / interval)
    values = forecast.values[np.clip(places - begun, 0, len(forecast.values) - 1)]
    step = max(math.ceil(len(places) / _MOST_SAMPLES), 1)
    edges = range(0, len(places), step)
    told = [
        PredictedSample(f"{values[edge : edge + step].max():.5f}", int(places[edge] * interval))
        for edge in edges
    ]
    # The last one stands at the end, however many each stands for.
    if (places[-1] * interval) > told[-1].timestamp:
        told.append(PredictedSample(told[-1].value, int(places[-1] * interval)))
    return tuple(told)
