"""How far a forecast was off on the last day."""

import msgspec
import numpy as np

from slackwater.prediction.history import Samples


class LastDay(msgspec.Struct, frozen=True):
    """What an estimator said, or would have said, about the last day from what came before it.

    Of `windows`, `exceeded` had a real peak above the forecast one. `error` is the mean distance
    between the two as a share of the mean real peak.
    """

    windows: int
    exceeded: int
    error: float


def judge(real: Samples, said: Samples) -> LastDay | None:
    """Peaks of windows, real and forecast; NaN where either is not known."""
    known = ~(np.isnan(real) | np.isnan(said))
    if not known.any():
        return None
    real, said = real[known], said[known]
    scale = float(real.mean())
    distance = float(np.abs(said - real).mean())
    return LastDay(len(real), int(np.sum(real > said)), distance / scale if scale > 0 else distance)
