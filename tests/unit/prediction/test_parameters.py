"""An algorithm's parameters: Crane's defaults, one by one, and what is refused."""

from typing import Any

import msgspec
import pytest

from slackwater.contract.crane.prediction import Algorithm
from slackwater.model.problem import InvalidError
from slackwater.prediction.history import DAY, WEEK
from slackwater.prediction.parameters import (
    DEFAULT_ESTIMATORS,
    AdaptiveParameters,
    AlgorithmParameters,
    DspParameters,
    FftParameters,
    HistogramParameters,
    MaxValueParameters,
    PercentileParameters,
    read_parameters,
    read_seconds,
)


def read(kind: str, **stated: Any) -> AlgorithmParameters:
    plain = {"algorithmType": kind, **({kind: stated} if stated else {})}
    return read_parameters(msgspec.convert(plain, Algorithm), "spec.algorithm")


FFT = {"marginFraction": "0.2", "lowAmplitudeThreshold": "1.0", "highFrequencyThreshold": "0.05"}
COUNTS = {"minNumOfSpectrumItems": 10, "maxNumOfSpectrumItems": 20}


@pytest.mark.parametrize(
    ("kind", "stated", "expected"),
    [
        ("dsp", {}, DspParameters(60.0, 15 * DAY, DEFAULT_ESTIMATORS)),
        ("dsp", {"estimators": {}}, DspParameters()),
        (
            "dsp",
            {"historyLength": "3d", "sampleInterval": "60s", "estimators": {"fft": [FFT | COUNTS]}},
            DspParameters(60.0, 3 * DAY, (FftParameters(0.2, 1.0, 0.05, 10, 20),)),
        ),
        (
            "dsp",
            {"estimators": {"maxValue": [{}, {"marginFraction": "0.1"}], "fft": [{}]}},
            DspParameters(
                estimators=(MaxValueParameters(), MaxValueParameters(0.1), FftParameters())
            ),
        ),
        (
            "dsp",
            {"estimators": {"fft": [{"minNumOfSpectrumItems": 200}]}},
            DspParameters(
                estimators=(FftParameters(min_spectrum_items=200, max_spectrum_items=200),)
            ),
        ),
        ("percentile", {}, PercentileParameters(60.0, WEEK, 0.99)),
        (
            "percentile",
            {
                "aggregated": True, "historyLength": "14d", "sampleInterval": "2m",
                "minSampleWeight": "0.1", "marginFraction": "0.15", "targetUtilization": "0.8",
                "percentile": "0.95",
                "histogram": {"maxValue": "64", "epsilon": "0.001", "halfLife": "12h",
                              "bucketSize": "0.25"},
            },
            PercentileParameters(
                120.0, 14 * DAY, 0.95, 0.15, 0.8, 0.1, True,
                HistogramParameters(64.0, 0.25, 0.0, 0.001, DAY / 2),
            ),
        ),
        (
            "percentile",
            {"histogram": {"firstBucketSize": "0.01", "bucketSizeGrowthRatio": "0.05"}},
            PercentileParameters(histogram=HistogramParameters(100.0, 0.01, 0.05)),
        ),
        ("adaptive", {}, AdaptiveParameters()),
        ("adaptive", {"historyLength": "7d"}, AdaptiveParameters(60.0, WEEK)),
    ],
)  # fmt: skip
def test_parameters(kind: str, stated: dict[str, Any], expected: AlgorithmParameters) -> None:
    assert read(kind, **stated) == expected


def histogram(**stated: str) -> dict[str, Any]:
    return {"histogram": stated}


@pytest.mark.parametrize(
    ("kind", "stated", "sentence"),
    [
        (
            "dsp", {"sampleInterval": "2h"},
            "spec.algorithm.dsp.sampleInterval is '2h', but must be a duration, 1s to 1h",
        ),
        ("dsp", {"historyLength": "47h"}, "a duration, 2d to 60d"),
        ("dsp", {"historyLength": "61d"}, "a duration, 2d to 60d"),
        (
            "dsp", {"estimators": {"fft": [{}, {"marginFraction": "-1"}]}},
            "fft[1].marginFraction is '-1', but must be a number, 0 to 10",
        ),
        ("dsp", {"estimators": {"fft": [{"minNumOfSpectrumItems": 0}]}}, "at least 1"),
        (
            "dsp", {"estimators": {"fft": [COUNTS | {"maxNumOfSpectrumItems": 5}]}},
            "fft[0].maxNumOfSpectrumItems is 5, but must be at least 10, the minimum",
        ),
        ("dsp", {"estimators": {"maxValue": [{"marginFraction": "11"}]}}, "maxValue[0]"),
        ("percentile", {"percentile": "99"}, "is '99', but must be a number, 0 to 1"),
        ("percentile", {"targetUtilization": "0"}, "0.01 to 1"),
        ("percentile", {"historyLength": "1m"}, "a duration, 1h to 60d"),
        ("percentile", histogram(maxValue="0"), "histogram.maxValue"),
        ("percentile", histogram(bucketSize="1000"), "histogram.bucketSize"),
        ("percentile", histogram(maxValue="1e9", bucketSize="0.1"), "at least maxValue / 100000"),
        ("percentile", histogram(halfLife="1s"), "a duration, 1m to 3650d"),
        ("percentile", histogram(bucketSizeGrowthRatio="-1"), "0 to 10"),
        ("adaptive", {"historyLength": "1h"}, "a duration, 1d to 60d"),
    ],
)  # fmt: skip
def test_what_is_refused(kind: str, stated: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidError) as refused:
        read(kind, **stated)
    assert sentence in str(refused.value)


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(InvalidError) as refused:
        read("percentile", percentile="2", marginFraction="-1", sampleInterval="9h")
    assert len(refused.value.problems) == 3


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("3d", 3 * DAY), ("60s", 60.0), ("1h30m", 5400.0), ("1d12h", 1.5 * DAY), ("0.5s", 0.5)],
)
def test_durations(text: str, seconds: float) -> None:
    assert read_seconds(text) == seconds
