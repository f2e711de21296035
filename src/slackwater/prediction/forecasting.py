"""One forecast: a history and an algorithm's parameters in, the coming values out, with the
estimator that they are from, why it is that one, and how far off it was on the last day."""

import math
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from slackwater.model.gap import Gap
from slackwater.prediction.adaptive import AdaptiveMemory, PeakForecast, forecast_peaks
from slackwater.prediction.dsp import choose_estimator, prepare
from slackwater.prediction.history import DAY, HOUR, History, Samples, window_peaks
from slackwater.prediction.last_day import LastDay, judge
from slackwater.prediction.parameters import (
    AdaptiveParameters,
    AlgorithmParameters,
    DspParameters,
    FftParameters,
    HistogramParameters,
    PercentileParameters,
)
from slackwater.prediction.percentile import HistogramCheckpoint, PercentileModel
from slackwater.prediction.period import Period, find_period

#: Names of estimators, as status and metrics have them.
FFT, MAX_VALUE, PERCENTILE, ADAPTIVE = "fft", "maxValue", "percentile", "adaptive"
#: Less says nothing about the next hours.
SHORTEST_HISTORY = HOUR
#: How many windows a forecast reaches: a reader always finds the whole next window in it.
WINDOWS_AHEAD = 2
#: What replaces DSP where there is no period has buckets by the series' own size.
_FALLBACK_GROWTH, _FALLBACK_FIRST = 0.02, 1e-4

ForecastMemory = AdaptiveMemory | HistogramCheckpoint


class Forecast(msgspec.Struct, frozen=True):
    """`values[k]` is for `start + k * interval`, in the unit of the history. `because` is a
    sentence; `asked` is whether `estimator` is of the algorithm that was asked for. `memory` is
    for the next forecast of the same series."""

    start: float
    interval: float
    values: Samples
    estimator: str
    because: str
    asked: bool = True
    last_day: LastDay | None = None
    memory: ForecastMemory | None = None

    def peak(self, seconds: float) -> float:
        """The largest value of the first seconds."""
        return float(self.values[: max(round(seconds / self.interval), 1)].max())


class ForecastRequest(msgspec.Struct, frozen=True):
    """`window` is in seconds. `beside` are further series that count in the same histogram, where
    a percentile is of all of them (`aggregated`)."""

    history: History
    parameters: AlgorithmParameters
    window: float
    memory: ForecastMemory | None = None
    beside: tuple[History, ...] = ()


def forecast(request: ForecastRequest) -> Forecast | Gap:
    """From the sample after the history's last, for two windows."""
    return forecast_all((request,))[0]


def forecast_all(requests: Sequence[ForecastRequest]) -> list[Forecast | Gap]:
    """In the order of the requests. Adaptive forecasts are computed together."""
    results: dict[int, Forecast | Gap] = {}
    together: list[int] = []
    for place, each in enumerate(requests):
        if too_short := _shortcoming(each.history):
            results[place] = too_short
        elif isinstance(each.parameters, AdaptiveParameters):
            together.append(place)
        else:
            results[place] = _forecast_one(each)
    adaptive = _forecast_adaptive([requests[place] for place in together])
    results.update(zip(together, adaptive, strict=True))
    return [results[place] for place in range(len(requests))]


def _shortcoming(history: History) -> Gap | None:
    if history.seconds >= SHORTEST_HISTORY:
        return None
    minutes = history.seconds / 60
    return Gap(f"there are {minutes:.0f} minutes of history, and a forecast needs 60")


def _forecast_one(request: ForecastRequest) -> Forecast:
    match request.parameters:
        case DspParameters() as parameters:
            return _forecast_dsp(request, parameters)
        case PercentileParameters() as parameters:
            return _forecast_percentile(request, parameters)
        case AdaptiveParameters():
            raise TypeError("adaptive forecasts are computed together")


def _forecast_dsp(request: ForecastRequest, parameters: DspParameters) -> Forecast:
    history = prepare(request.history.last(parameters.history_length))
    period = find_period(history)
    if period is None:
        return _fall_back(request, history)
    chosen = choose_estimator(history, period, parameters.estimators)
    name = FFT if isinstance(chosen.estimator, FftParameters) else MAX_VALUE
    return Forecast(
        history.end + history.interval,
        history.interval,
        np.resize(chosen.coming, _ahead(request)),
        name,
        f"the series repeats after {period.name} (autocorrelation {period.correlation:.2f}); of "
        f"{len(parameters.estimators)} estimators this was best at the last one",
        last_day=_judge_dsp(history, period, parameters, request.window),
    )


def _judge_dsp(
    history: History, period: Period, parameters: DspParameters, window: float
) -> LastDay | None:
    """None where the past before the last day has not two periods."""
    past = history.before(DAY)
    if len(past.values) < 2 * period.samples:
        return None
    coming = choose_estimator(past, period, parameters.estimators).coming
    return _compare(
        history, window, lambda day: msgspec.structs.replace(
            day, values=np.resize(coming, len(day.values))
        )
    )  # fmt: skip


def _fall_back(request: ForecastRequest, history: History) -> Forecast:
    """The 99th percentile, in buckets that fit the series."""
    values = request.history.values
    largest = max(float(np.nanmax(values)), 1e-9)
    parameters = PercentileParameters(
        sample_interval=request.history.interval,
        histogram=HistogramParameters(
            2 * largest, _FALLBACK_FIRST * largest, _FALLBACK_GROWTH, half_life=DAY
        ),
    )
    found = _forecast_percentile(
        msgspec.structs.replace(request, parameters=parameters, memory=None), parameters
    )
    unbroken = history.seconds / HOUR
    because = (
        f"{unbroken:.0f} h without a gap show no period; dsp needs one, so the percentile 0.99"
    )
    return msgspec.structs.replace(found, because=because, asked=False, memory=None)


def _forecast_percentile(request: ForecastRequest, parameters: PercentileParameters) -> Forecast:
    history = request.history.last(parameters.history_length)
    known = request.memory if isinstance(request.memory, HistogramCheckpoint) else None
    model = PercentileModel(parameters, known)
    for each in (history, *request.beside):
        fresh = each.times > (known.at if known else -math.inf)
        model.add(each.times[fresh], each.values[fresh])
    level = _level(model)
    ended = "from its checkpoint on" if known else f"of {history.seconds / HOUR:.0f} h"
    because = f"the percentile {parameters.percentile:g} {ended}"
    if np.nanmax(history.values) > parameters.histogram.max_value:
        because += f", whose histogram ends at maxValue {parameters.histogram.max_value:g}"
    return Forecast(
        history.end + history.interval,
        history.interval,
        np.full(_ahead(request), level),
        PERCENTILE,
        because,
        last_day=_judge_percentile(history, parameters, request.window),
        memory=model.checkpoint(),
    )


def _level(model: PercentileModel) -> float:
    found = model.estimate()
    if found is None:
        raise ValueError("a history has a number as its last sample")
    return found


def _judge_percentile(
    history: History, parameters: PercentileParameters, window: float
) -> LastDay | None:
    past = history.before(DAY)
    if past.seconds < SHORTEST_HISTORY or np.isnan(past.values).all():
        return None
    model = PercentileModel(parameters)
    model.add(past.times, past.values)
    level = _level(model)
    return _compare(
        history, window, lambda day: msgspec.structs.replace(
            day, values=np.full(len(day.values), level)
        )
    )  # fmt: skip


def _compare(
    history: History, window: float, predict: Callable[[History], History]
) -> LastDay | None:
    day = history.last(DAY)
    return judge(window_peaks(day, window), window_peaks(predict(day), window))


def _forecast_adaptive(requests: Sequence[ForecastRequest]) -> list[Forecast]:
    found = forecast_peaks(
        [each.history.last(_history_length(each)) for each in requests],
        [each.window for each in requests],
        [each.memory if isinstance(each.memory, AdaptiveMemory) else None for each in requests],
    )
    return [_tell_adaptive(*each) for each in zip(requests, found, strict=True)]


def _history_length(request: ForecastRequest) -> float:
    return request.parameters.history_length


def _tell_adaptive(request: ForecastRequest, found: PeakForecast) -> Forecast:
    history, size = request.history, request.history.count(request.window)
    because = f"margins learnt from {found.learnt_from} windows"
    if not found.is_learnt:
        because = "one and a half times the largest peak: there is too little past to learn from"
    return Forecast(
        history.end + history.interval,
        history.interval,
        np.repeat([found.next, found.following], size),
        ADAPTIVE,
        because,
        last_day=found.last_day,
        memory=found.memory,
    )


def _ahead(request: ForecastRequest) -> int:
    return WINDOWS_AHEAD * request.history.count(request.window)
