"""The process that forecasts for many nodes at once and says what that cost, as JSON.

`python -m benchmarks._forecast_speed NODES first|later|template`. The histories are three days by
the minute, and every second node's repeats itself.
"""

import resource
import sys
import time

import msgspec
import numpy as np

from slackwater.prediction.adaptive import AdaptiveMemory
from slackwater.prediction.forecasting import Forecast, ForecastRequest, forecast_all
from slackwater.prediction.history import DAY, HOUR, History
from slackwater.prediction.parameters import AdaptiveParameters, DspParameters, FftParameters

_MINUTE = 60.0
_NOW = 1.8e9
#: Kinds of forecasts, and what they are.
WORK = {
    "first": "adaptive, nothing learnt before",
    "later": "adaptive, two weeks learnt",
    "template": "Crane's template (dsp)",
}
_TEMPLATE = DspParameters(_MINUTE, 3 * DAY, (FftParameters(0.2, 1.0, 0.05, 10, 20),))


class Measured(msgspec.Struct, frozen=True):
    """`seconds` of CPU for all forecasts; `peak` memory of the process in MiB."""

    nodes: int
    seconds: float
    peak: float


def make_requests(nodes: int, kind: str) -> list[ForecastRequest]:
    random = np.random.default_rng(1)
    times = _MINUTE * np.arange(round(3 * DAY / _MINUTE))
    requests = []
    for node in range(nodes):
        day = 1 + 0.6 * np.sin(2 * np.pi * (times / DAY - random.random())) * (node % 2)
        values = 8 * day * np.exp(random.normal(0, 0.1, len(times)))
        memory = _make_memory(random) if kind == "later" else None
        history = History(_NOW - 3 * DAY, _MINUTE, values)
        parameters = _TEMPLATE if kind == "template" else AdaptiveParameters()
        requests.append(ForecastRequest(history, parameters, HOUR, memory))
    return requests


def _make_memory(random: np.random.Generator) -> AdaptiveMemory:
    peaks = random.gamma(9.0, 1.0, 14 * 24).astype(np.float32)
    said = np.full(25, 20.0, np.float32)
    return AdaptiveMemory(_NOW - HOUR, HOUR, peaks.tobytes(), said.tobytes())


def measure(nodes: int, kind: str) -> Measured:
    requests = make_requests(nodes, kind)
    before = time.process_time()
    found = forecast_all(requests)
    seconds = time.process_time() - before
    assert all(isinstance(each, Forecast) for each in found)
    return Measured(nodes, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(measure(int(sys.argv[1]), sys.argv[2])))
