"""How good a forecast would have been: made again and again from a series' past, compared with what
came. A forecast sees what lies before it and nothing else."""

from collections.abc import Callable, Iterator, Mapping

import msgspec
import numpy as np

from slackwater.model.gap import Gap
from slackwater.prediction.forecasting import Forecast, ForecastMemory, ForecastRequest, forecast
from slackwater.prediction.history import DAY, HOUR, History, Samples
from slackwater.prediction.parameters import AdaptiveParameters, AlgorithmParameters
from slackwater.prediction.peak_predictors import (
    predict_by_both,
    predict_by_last_day,
    predict_by_percentile,
    predict_by_sigma,
)

#: Without a capacity: times the largest value of the series.
CAPACITY = 1.25

#: From a history, the window in seconds and its own memory: the window's peak, or why there is
#: none, and the memory for the next time.
PeakPredictor = Callable[
    [History, float, ForecastMemory | None], tuple[float | Gap, ForecastMemory | None]
]


class BacktestTerms(msgspec.Struct, frozen=True):
    """Times in seconds. Without a capacity it is 1.25 times the largest value."""

    history: float = 3 * DAY
    window: float = HOUR
    capacity: float | None = None


class BacktestResult(msgspec.Struct, frozen=True, rename="camel"):
    """One estimator on one series.

    Of `windows`, the share `exceeded` had a real peak above the forecast, by `worst` at most, in
    the series' unit; usage was above the forecast for `seconds`. `sold_of_oracle` is what is left
    of the capacity above the forecasts as a share of what is left above the real peaks; None where
    that is nothing.
    """

    series: str
    estimator: str
    windows: int
    exceeded: float
    worst: float
    sold_of_oracle: float | None
    seconds: float


class SeriesBacktest(msgspec.Struct, frozen=True):
    """The windows of one series: when each begins, its real peak, and each estimator's forecast,
    NaN where it had none."""

    series: str
    starts: Samples
    real: Samples
    forecasts: dict[str, Samples]
    results: tuple[BacktestResult, ...]
    capacity: float


def predict_with(parameters: AlgorithmParameters) -> PeakPredictor:
    """The forecasts that the manager would make."""

    def predict(
        history: History, window: float, memory: ForecastMemory | None
    ) -> tuple[float | Gap, ForecastMemory | None]:
        match forecast(ForecastRequest(history, parameters, window, memory)):
            case Forecast() as found:
                return found.peak(window), found.memory
            case Gap() as gap:
                return gap, memory

    return predict


def _without_memory(predict: Callable[[History], float]) -> PeakPredictor:
    return lambda history, _window, memory: (predict(history), memory)


#: The names of the estimators are part of the command line's output.
PREDICTORS: Mapping[str, PeakPredictor] = {
    "adaptive": predict_with(AdaptiveParameters()),
    "last-day": lambda history, window, memory: (predict_by_last_day(history, window), memory),
    "percentile": _without_memory(predict_by_percentile),
    "n-sigma": _without_memory(predict_by_sigma),
    "max-of-both": _without_memory(predict_by_both),
}


def count_windows(history: History, terms: BacktestTerms) -> int:
    """How many windows follow the first history."""
    left = len(history.values) - history.count(terms.history)
    return max(left // history.count(terms.window), 0)


def backtest_series(
    series: str,
    history: History,
    predictors: Mapping[str, PeakPredictor],
    terms: BacktestTerms,
    tell: Callable[[], object] = lambda: None,
) -> SeriesBacktest | Gap:
    """`tell` is called after each window."""
    parts = list(_parts(history, terms, tell, predictors))
    if not parts:
        return Gap("there is no window with samples after a whole history")
    starts, windows, said = zip(*parts, strict=True)
    real = np.array([np.nanmax(each) for each in windows])
    capacity = terms.capacity or CAPACITY * float(np.nanmax(history.values))
    forecasts = {
        name: np.array([each[place] for each in said]) for place, name in enumerate(predictors)
    }
    results = tuple(
        _judge(series, name, windows, each, capacity, history.interval)
        for name, each in forecasts.items()
    )
    return SeriesBacktest(series, np.array(starts), real, forecasts, results, capacity)


def _parts(
    history: History,
    terms: BacktestTerms,
    tell: Callable[[], object],
    predictors: Mapping[str, PeakPredictor],
) -> Iterator[tuple[float, Samples, list[float]]]:
    """Start, samples and forecasts of each window that has samples, and history right before it."""
    before, size = history.count(terms.history), history.count(terms.window)
    memories: dict[str, ForecastMemory | None] = dict.fromkeys(predictors)
    for number in range(count_windows(history, terms)):
        first = before + number * size
        past = _without_edges(history, first - before, first)
        window = history.values[first : first + size]
        if past is not None and not np.isnan(window).all():
            said = []
            for name, predict in predictors.items():
                peak, memories[name] = predict(past, terms.window, memories[name])
                said.append(np.nan if isinstance(peak, Gap) else peak)
            yield history.start + first * history.interval, window, said
        tell()


def _without_edges(history: History, first: int, end: int) -> History | None:
    """A part that begins with a number; None where it does not end with one."""
    values = history.values[first:end]
    if np.isnan(values[-1]):
        return None
    skipped = int(np.argmax(~np.isnan(values)))
    start = history.start + (first + skipped) * history.interval
    return History(start, history.interval, values[skipped:])


def _judge(
    series: str,
    name: str,
    windows: tuple[Samples, ...],
    said: Samples,
    capacity: float,
    interval: float,
) -> BacktestResult:
    made = ~np.isnan(said)
    real = np.array([np.nanmax(each) for each in windows])
    over = np.where(made, real - said, 0.0)
    above = sum(
        int(np.sum(window > forecast))
        for window, forecast, known in zip(windows, said, made, strict=True)
        if known
    )
    oracle = float(np.maximum(capacity - real, 0.0)[made].sum())
    sold = float(np.maximum(capacity - said, 0.0)[made].sum())
    count = int(made.sum())
    return BacktestResult(
        series,
        name,
        count,
        float(np.sum(over > 0)) / count if count else 0.0,
        max(float(over.max()), 0.0),
        sold / oracle if oracle > 0 else None,
        above * interval,
    )
