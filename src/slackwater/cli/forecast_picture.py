"""A backtest as one picture: for each series the real peaks, what was forecast of them, and the
windows in which that was exceeded."""

from collections.abc import Sequence

import numpy as np

from slackwater.drawing.legend import legend_row
from slackwater.drawing.page import LEFT, WIDTH, page, text
from slackwater.drawing.plot import Frame, area, cpu_ticks, grid, steps, time_axis
from slackwater.prediction.backtest import BacktestResult, BacktestTerms, SeriesBacktest
from slackwater.prediction.history import Samples

_TITLE = "Forecasts of the next window's peak, and what came"
_RIGHT = 300
_TOP, _HEIGHT, _GAP = 118, 180, 74
#: Of one page; more would be read by nobody.
MOST_SERIES = 6
_LINES = ("after", "before")


def draw_backtests(tests: Sequence[SeriesBacktest], terms: BacktestTerms) -> str:
    """The whole SVG document: the first estimator of each series, and the second to compare."""
    shown = tests[:MOST_SERIES]
    height = _TOP + len(shown) * (_HEIGHT + _GAP)
    parts = [
        text(LEFT, 44, _TITLE, "title"),
        text(LEFT, 70, _subtitle(tests, terms), "faint"),
        *_legend(shown[0]),
    ]
    for place, each in enumerate(shown):
        top = _TOP + place * (_HEIGHT + _GAP) + 16
        parts += _draw_one(each, terms, top)
    return page(_TITLE, height, parts)


def _subtitle(tests: Sequence[SeriesBacktest], terms: BacktestTerms) -> str:
    more = f"; {len(tests) - MOST_SERIES} more series are not drawn" * (len(tests) > MOST_SERIES)
    hours, minutes = terms.history / 3600, terms.window / 60
    return f"windows of {minutes:g} minutes, each from the {hours:g} hours before it{more}"


def _legend(test: SeriesBacktest) -> list[str]:
    first, second = list(test.forecasts)[:2]
    named = (
        ("mean", "real peak"),
        ("over", f"above the forecast of {first}"),
        ("after", first),
        ("before", second),
    )
    return legend_row(LEFT, 98, "", named)


def _draw_one(test: SeriesBacktest, terms: BacktestTerms, top: int) -> list[str]:
    first, second = list(test.forecasts)[:2]
    seconds = float(test.starts[-1] - test.starts[0]) + terms.window
    most = 1.05 * max(float(test.real.max()), _largest(test.forecasts[first], test.capacity))
    frame = Frame(LEFT, top, WIDTH - LEFT - _RIGHT, _HEIGHT, seconds, most or 1.0)
    begins = (test.starts - test.starts[0]).tolist()
    parts = [text(LEFT, top - 10, test.series, "sub"), *grid(frame, cpu_ticks(frame))]
    real = test.real.tolist()
    for place, begin in enumerate(begins):
        edges = [begin, begin + terms.window]
        parts.append(area(frame, edges, [0.0], [real[place]], "mean"))
    for place in np.flatnonzero(test.real > test.forecasts[first]).tolist():
        edges = [begins[place], begins[place] + terms.window]
        low = float(test.forecasts[first][place])
        parts.append(area(frame, edges, [low], [real[place]], "over"))
    for name, kind in ((second, "before"), (first, "after")):
        parts.append(_forecast_line(frame, begins, test.forecasts[name], terms.window, kind))
    return [*parts, *time_axis(frame), *_numbers(test, frame)]


def _largest(said: Samples, capacity: float) -> float:
    """What is worth drawing: a forecast above the capacity sells nothing, however high."""
    known = said[~np.isnan(said)]
    return min(float(known.max()), capacity) if len(known) else 0.0


def _forecast_line(
    frame: Frame, begins: list[float], said: Samples, window: float, kind: str
) -> str:
    """With a hole for each window that was left out."""
    edges: list[float] = []
    values: list[float | None] = []
    for begin, value in zip(begins, said.tolist(), strict=True):
        if edges and begin > edges[-1] + window / 2:
            values.append(None)
            edges.append(begin)
        elif not edges:
            edges.append(begin)
        values.append(None if np.isnan(value) else value)
        edges.append(begin + window)
    return steps(frame, edges, values, kind)


def _numbers(test: SeriesBacktest, frame: Frame) -> list[str]:
    x, y = frame.left + frame.width + 24, frame.top + 14
    parts = []
    for result in test.results[:2]:
        parts += [
            text(x, y, result.estimator, "sub"),
            text(x, y + 20, f"exceeded {100 * result.exceeded:.1f} % of {result.windows}", "faint"),
            text(x, y + 38, f"sold {describe_sold(result)} of the oracle", "faint"),
        ]
        y += 70
    return parts


def describe_sold(result: BacktestResult) -> str:
    return "-" if result.sold_of_oracle is None else f"{result.sold_of_oracle:.2f}"
