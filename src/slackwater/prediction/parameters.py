"""The parameters of a prediction's algorithm as numbers, with Crane's defaults.

Crane takes its defaults for everything as soon as one text is wrong. Here each parameter has its
own default, and a bad one is refused with its place and bound.
"""

import re

import msgspec

from slackwater.contract.crane.prediction import (
    Adaptive,
    Algorithm,
    AlgorithmType,
    Dsp,
    Estimators,
    FftEstimator,
    Histogram,
    MaxValueEstimator,
    Percentile,
)
from slackwater.model.problem import InvalidError, Problem, quoted
from slackwater.model.units import parse_duration
from slackwater.prediction.history import DAY, HOUR, WEEK

_DAYS = re.compile(r"([0-9]+)d", re.ASCII)
_LONGEST_INTERVAL = HOUR
_SHORTEST_HISTORY_OF_DSP = 2 * DAY
#: Of any history: four weeks by the minute are 40,320 samples for each node.
_LONGEST_HISTORY = 60 * DAY
#: So that nothing is forgotten.
_LONGEST_HALF_LIFE = 3650 * DAY
#: Of a histogram; Crane's default has 1,001.
_MOST_BUCKETS = 100_000


class FftParameters(msgspec.Struct, frozen=True):
    """Amplitudes are in the metric's unit, frequencies in Hz."""

    margin_fraction: float = 0.0
    low_amplitude_threshold: float = 1.0
    high_frequency_threshold: float = 1 / 3600
    min_spectrum_items: int = 3
    max_spectrum_items: int = 100


class MaxValueParameters(msgspec.Struct, frozen=True):
    margin_fraction: float = 0.0


#: What Crane tries where a prediction names no estimator.
DEFAULT_ESTIMATORS: tuple[FftParameters | MaxValueParameters, ...] = tuple(
    FftParameters(margin, amplitude, min_spectrum_items=items)
    for items, amplitude in ((3, 1.0), (50, 0.05))
    for margin in (0.01, 0.10, 0.15, 0.20)
)


class DspParameters(msgspec.Struct, frozen=True):
    """Times in seconds."""

    sample_interval: float = 60.0
    history_length: float = 15 * DAY
    estimators: tuple[FftParameters | MaxValueParameters, ...] = DEFAULT_ESTIMATORS


class HistogramParameters(msgspec.Struct, frozen=True):
    """`growth` is 0 for buckets that are all alike, else each is 1 + growth times the one before.
    `half_life` is in seconds."""

    max_value: float = 100.0
    first_bucket_size: float = 0.1
    growth: float = 0.0
    epsilon: float = 1e-10
    half_life: float = DAY


class PercentileParameters(msgspec.Struct, frozen=True):
    """Times in seconds. `aggregated`: one result for all series."""

    sample_interval: float = 60.0
    history_length: float = WEEK
    percentile: float = 0.99
    margin_fraction: float = 0.0
    target_utilization: float = 1.0
    min_sample_weight: float = 1e-5
    aggregated: bool = False
    histogram: HistogramParameters = HistogramParameters()


class AdaptiveParameters(msgspec.Struct, frozen=True):
    """Times in seconds."""

    sample_interval: float = 60.0
    history_length: float = 3 * DAY


AlgorithmParameters = DspParameters | PercentileParameters | AdaptiveParameters


def read_parameters(algorithm: Algorithm, path: str) -> AlgorithmParameters:
    """`path` is where it stands, for messages. Raises InvalidError with all that is wrong."""
    reader = _ParameterReader(path)
    found = reader.read(algorithm)
    if reader.problems:
        raise InvalidError(*reader.problems)
    return found


class _ParameterReader:
    """Collects problems."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.problems: list[Problem] = []

    def read(self, algorithm: Algorithm) -> AlgorithmParameters:
        match algorithm.algorithm_type:
            case AlgorithmType.DSP:
                return self._dsp(algorithm.dsp or Dsp())
            case AlgorithmType.PERCENTILE:
                return self._percentile(algorithm.percentile or Percentile())
            case AlgorithmType.ADAPTIVE:
                return self._adaptive(algorithm.adaptive or Adaptive())

    def _dsp(self, stated: Dsp) -> DspParameters:
        default = DspParameters()
        listed = stated.estimators or Estimators()
        estimators: list[FftParameters | MaxValueParameters] = []
        for place, by_value in enumerate(listed.max_value):
            estimators.append(self._max_value(by_value, f"dsp.estimators.maxValue[{place}]"))
        for place, by_waves in enumerate(listed.fft):
            estimators.append(self._fft(by_waves, f"dsp.estimators.fft[{place}]"))
        return DspParameters(
            self._interval("dsp.sampleInterval", stated.sample_interval),
            self._seconds(
                "dsp.historyLength",
                stated.history_length,
                default.history_length,
                _SHORTEST_HISTORY_OF_DSP,
                _LONGEST_HISTORY,
            ),
            tuple(estimators) or default.estimators,
        )

    def _percentile(self, stated: Percentile) -> PercentileParameters:
        default = PercentileParameters()
        number = self._number
        return PercentileParameters(
            self._interval("percentile.sampleInterval", stated.sample_interval),
            self._seconds(
                "percentile.historyLength",
                stated.history_length,
                default.history_length,
                HOUR,
                _LONGEST_HISTORY,
            ),
            number("percentile.percentile", stated.percentile, default.percentile, 0.0, 1.0),
            self._margin("percentile", stated.margin_fraction),
            number(
                "percentile.targetUtilization",
                stated.target_utilization,
                default.target_utilization,
                0.01,
                1.0,
            ),
            number(
                "percentile.minSampleWeight",
                stated.min_sample_weight,
                default.min_sample_weight,
                0.0,
                1.0,
            ),
            bool(stated.aggregated),
            self._histogram(stated.histogram or Histogram()),
        )

    def _adaptive(self, stated: Adaptive) -> AdaptiveParameters:
        default = AdaptiveParameters()
        return AdaptiveParameters(
            self._interval("adaptive.sampleInterval", stated.sample_interval),
            self._seconds(
                "adaptive.historyLength",
                stated.history_length,
                default.history_length,
                DAY,
                _LONGEST_HISTORY,
            ),
        )

    def _histogram(self, stated: Histogram) -> HistogramParameters:
        default = HistogramParameters()
        path = "percentile.histogram"
        grows = stated.bucket_size_growth_ratio is not None
        size_key, size_text = (
            ("firstBucketSize", stated.first_bucket_size)
            if grows
            else ("bucketSize", stated.bucket_size)
        )
        most = self._number(f"{path}.maxValue", stated.max_value, default.max_value, 1e-9, 1e18)
        found = HistogramParameters(
            most,
            self._number(f"{path}.{size_key}", size_text, default.first_bucket_size, 1e-9, most),
            self._number(
                f"{path}.bucketSizeGrowthRatio", stated.bucket_size_growth_ratio, 0.0, 0.0, 10.0
            ),
            self._number(f"{path}.epsilon", stated.epsilon, default.epsilon, 0.0, 1.0),
            self._seconds(
                f"{path}.halfLife", stated.half_life, default.half_life, 60.0, 3650 * DAY
            ),
        )
        if not found.growth and found.max_value / found.first_bucket_size > _MOST_BUCKETS:
            self._refuse(f"{path}.{size_key}", size_text, f"at least maxValue / {_MOST_BUCKETS}")
        return found

    def _max_value(self, stated: MaxValueEstimator, path: str) -> MaxValueParameters:
        return MaxValueParameters(self._margin(path, stated.margin_fraction))

    def _fft(self, stated: FftEstimator, path: str) -> FftParameters:
        default = FftParameters()
        least = self._count(
            f"{path}.minNumOfSpectrumItems",
            stated.min_num_of_spectrum_items,
            default.min_spectrum_items,
        )
        most = self._count(
            f"{path}.maxNumOfSpectrumItems",
            stated.max_num_of_spectrum_items,
            max(default.max_spectrum_items, least),
        )
        if most < least:
            self._refuse(f"{path}.maxNumOfSpectrumItems", most, f"at least {least}, the minimum")
        return FftParameters(
            self._margin(path, stated.margin_fraction),
            self._number(
                f"{path}.lowAmplitudeThreshold",
                stated.low_amplitude_threshold,
                default.low_amplitude_threshold,
                0.0,
                1e18,
            ),
            self._number(
                f"{path}.highFrequencyThreshold",
                stated.high_frequency_threshold,
                default.high_frequency_threshold,
                0.0,
                1e6,
            ),
            least,
            most,
        )

    def _margin(self, path: str, text: str | None) -> float:
        return self._number(f"{path}.marginFraction", text, 0.0, 0.0, 10.0)

    def _count(self, path: str, stated: int | None, default: int) -> int:
        if stated is None:
            return default
        if stated < 1:
            self._refuse(path, stated, "a whole number, at least 1")
        return max(stated, 1)

    def _number(
        self, path: str, text: str | None, default: float, least: float, most: float
    ) -> float:
        if text is None:
            return default
        value = float(text)
        if not least <= value <= most:
            self._refuse(path, text, f"a number, {least:g} to {most:g}")
        return value

    def _interval(self, path: str, text: str | None) -> float:
        return self._seconds(path, text, 60.0, 1.0, _LONGEST_INTERVAL)

    def _seconds(
        self, path: str, text: str | None, default: float, least: float, most: float
    ) -> float:
        if text is None:
            return default
        value = read_seconds(text)
        if not least <= value <= most:
            self._refuse(path, text, f"a duration, {_spell(least)} to {_spell(most)}")
        return value

    def _refuse(self, path: str, value: object, bound: str) -> None:
        self.problems.append(Problem(f"{self._path}.{path}", quoted(value), bound))


def read_seconds(text: str) -> float:
    """A duration as Crane writes it: days, and what Go knows. The text is known to match."""
    days, rest = 0, text
    if found := _DAYS.match(text):
        days, rest = int(found[1]), text[found.end() :]
    return days * DAY + (parse_duration(rest, "") / 1e6 if rest else 0.0)


def _spell(seconds: float) -> str:
    for size, unit in ((DAY, "d"), (HOUR, "h"), (60.0, "m")):
        if seconds >= size:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"
