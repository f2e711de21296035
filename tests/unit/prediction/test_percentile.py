"""A percentile of the past, and how the past fades."""

import numpy as np
import pytest

from slackwater.prediction.history import DAY
from slackwater.prediction.parameters import HistogramParameters, PercentileParameters
from slackwater.prediction.percentile import (
    HistogramCheckpoint,
    PercentileModel,
    SampleHistogram,
    bucket_starts,
)

MINUTE = 60.0


def model(values: list[float], parameters: PercentileParameters) -> PercentileModel:
    made = PercentileModel(parameters)
    made.add(MINUTE * np.arange(len(values), dtype=np.float64), np.array(values))
    return made


@pytest.mark.parametrize(("share", "estimate"), [(0.99, 50.1), (0.5, 1.1)])
def test_row_55_a_sample_weighs_as_much_as_its_value(share: float, estimate: float) -> None:
    parameters = PercentileParameters(percentile=share)
    assert model([1.0] * 99 + [50.0], parameters).estimate() == pytest.approx(estimate)


@pytest.mark.parametrize(
    ("parameters", "estimate"),
    [
        (PercentileParameters(), 1.1),
        (PercentileParameters(margin_fraction=0.5), 1.65),
        (PercentileParameters(target_utilization=0.5), 2.2),
        (PercentileParameters(percentile=0.0), 1.1),
        (PercentileParameters(percentile=1.0), 1.1),
        (PercentileParameters(histogram=HistogramParameters(10, 0.5)), 1.5),
        (PercentileParameters(histogram=HistogramParameters(0.5, 0.1)), 0.5),
    ],
)
def test_parameters(parameters: PercentileParameters, estimate: float) -> None:
    assert model([1.0] * 10, parameters).estimate() == pytest.approx(estimate)


def test_nothing_has_no_percentile() -> None:
    assert PercentileModel(PercentileParameters()).estimate() is None
    assert model([np.nan, np.inf], PercentileParameters()).estimate() is None


def test_zeros_weigh_a_little() -> None:
    assert model([0.0] * 10, PercentileParameters()).estimate() == pytest.approx(0.1)


def test_the_half_life_is_applied() -> None:
    """Ten days ago it was busier: after ten half-lives that is a thousandth."""
    times = np.concatenate([MINUTE * np.arange(100), 10 * DAY + MINUTE * np.arange(100)])
    values = np.concatenate([np.full(100, 5.0), np.full(100, 1.0)])

    def estimate(half_life: float) -> float | None:
        histogram = HistogramParameters(half_life=half_life)
        made = PercentileModel(PercentileParameters(percentile=0.98, histogram=histogram))
        made.add(times, values)
        return made.estimate()

    assert estimate(1000 * DAY) == pytest.approx(5.1)
    assert estimate(DAY) == pytest.approx(1.1)


def test_one_half_life_is_half_the_weight() -> None:
    histogram = SampleHistogram(HistogramParameters(10, 1, half_life=100))
    histogram.add(np.array([0.0]), np.array([5.0]), np.array([1.0]))
    histogram.add(np.array([100.0]), np.array([2.0]), np.array([1.0]))
    assert histogram.checkpoint() == HistogramCheckpoint(100.0, {2: 1.0, 5: 0.5})


def test_the_order_of_adding_does_not_matter() -> None:
    parameters = HistogramParameters(10, 1, half_life=100)
    together, apart = SampleHistogram(parameters), SampleHistogram(parameters)
    times, values = np.array([0.0, 50.0, 300.0]), np.array([5.0, 6.0, 7.0])
    together.add(times, values, np.ones(3))
    for place in (2, 0, 1):
        apart.add(times[[place]], values[[place]], np.ones(1))
    assert apart.checkpoint().weights == pytest.approx(together.checkpoint().weights)


def test_a_checkpoint_goes_on_where_it_ended() -> None:
    whole = model([1.0, 3.0, 2.0, 8.0], PercentileParameters(percentile=0.9))
    first = model([1.0, 3.0], PercentileParameters(percentile=0.9))
    second = PercentileModel(PercentileParameters(percentile=0.9), first.checkpoint())
    second.add(np.array([2 * MINUTE, 3 * MINUTE]), np.array([2.0, 8.0]))
    assert second.estimate() == whole.estimate()
    assert second.checkpoint().weights == pytest.approx(whole.checkpoint().weights)


def test_buckets_of_a_checkpoint_that_are_gone_are_dropped() -> None:
    kept = HistogramCheckpoint(0.0, {1: 1.0, 500: 9.0, -3: 9.0})
    parameters = PercentileParameters(histogram=HistogramParameters(1, 0.1))
    assert PercentileModel(parameters, kept).estimate() == pytest.approx(0.2)


def test_a_weight_below_epsilon_counts_as_none() -> None:
    histogram = SampleHistogram(HistogramParameters(10, 1, epsilon=0.1))
    histogram.add(np.zeros(2), np.array([1.0, 8.0]), np.array([1.0, 0.01]))
    assert histogram.percentile(1.0) == 2.0


def test_a_long_silence_forgets_and_does_not_overflow() -> None:
    histogram = SampleHistogram(HistogramParameters(10, 1, half_life=60))
    histogram.add(np.zeros(1), np.array([5.0]), np.ones(1))
    histogram.add(np.array([1e9]), np.array([1.0]), np.ones(1))
    assert histogram.percentile(1.0) == 2.0


def test_buckets() -> None:
    assert list(bucket_starts(HistogramParameters(3, 1))) == [0, 1, 2, 3]
    growing = bucket_starts(HistogramParameters(7, 1, 1.0))
    assert list(growing) == [0, 1, 3, 7]
    assert bucket_starts(HistogramParameters(100, 0.01, 0.05))[-1] >= 100


def test_growing_buckets() -> None:
    grown = PercentileParameters(histogram=HistogramParameters(100, 1, 1.0))
    assert model([5.0] * 10, grown).estimate() == 7.0
