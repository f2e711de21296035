"""Published ways to predict a node's peak, to compare with: one number for the next window.

What Crane's template amounts to in practice, a percentile, N sigma, and the larger of the last two
(N sigma and their maximum: Bashir et al., "Take it to the Limit", EuroSys 2021).
"""

import numpy as np

from slackwater.prediction.history import DAY, HOUR, History

#: Crane's template adds a fifth to the last day, and its agent takes the larger of that and now.
_TEMPLATE_MARGIN, _NOW = 1.2, 600.0
_PERCENTILE = 99.0
_SIGMAS, _SIGMA_SPAN = 5.0, 2 * HOUR


def predict_by_last_day(history: History, window: float) -> float:
    """The larger of the last day's same window with a fifth more and the last ten minutes."""
    day, size = history.count(DAY), history.count(window)
    yesterday = history.values[-day:][:size]
    now = float(np.nanmax(history.last(_NOW).values))
    if np.isnan(yesterday).all():
        return now
    return max(_TEMPLATE_MARGIN * float(np.nanmax(yesterday)), now)


def predict_by_percentile(history: History) -> float:
    """Of all samples, each counting alike."""
    return float(np.nanpercentile(history.values, _PERCENTILE))


def predict_by_sigma(history: History) -> float:
    """The mean of the last two hours and five standard deviations more."""
    recent = history.last(_SIGMA_SPAN).values
    return float(np.nanmean(recent) + _SIGMAS * np.nanstd(recent))


def predict_by_both(history: History) -> float:
    return max(predict_by_percentile(history), predict_by_sigma(history))
