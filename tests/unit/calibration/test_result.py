"""From slices to speeds, spreads and a score."""

import pytest

from slackwater.calibration.result import Slice, Speed, geometric_mean, speed_of, summarize
from tests.unit.calibration.results import MACHINE, result, slices


def test_a_speed_is_the_median_of_quiet_slices_with_its_quartiles() -> None:
    quiet = [Slice("x", 0, pieces, 1.0, 1.0) for pieces in (10, 20, 30, 40, 50)]
    disturbed = Slice("x", 0, 1000, 2.0, 1.0)
    assert speed_of([*quiet, disturbed]) == Speed(30, 20, 40)
    assert speed_of([disturbed]) == Speed(1000, 1000, 1000)


def test_a_neighbour_on_the_cpu_takes_time_and_no_speed() -> None:
    assert Slice("x", 0, 100, 4.0, 1.0).speed() == Slice("x", 0, 100, 1.0, 1.0).speed()


def test_no_unit_matters_to_the_score() -> None:
    one, other = geometric_mean([2, 8]), geometric_mean([2000, 8])
    assert one == pytest.approx(4)
    assert other / one == pytest.approx(1000**0.5)
    assert result(100).score.all == pytest.approx(100)


def test_a_quiet_measurement_has_no_disturbances() -> None:
    assert result(100).disturbances == ()


@pytest.mark.parametrize(
    ("share", "stolen", "sentence"),
    [
        (0.5, 0.0, "in 48 of 48 slices another process used the CPU"),
        (1.0, 0.1, "the hypervisor gave 10% of the CPU time to others"),
    ],
)
def test_what_disturbs_is_told(share: float, stolen: float, sentence: str) -> None:
    measured = slices(100, share=share)
    (told,) = summarize("1.0", MACHINE, measured, measured, stolen).disturbances
    assert sentence in told


def test_speeds_that_vary_are_told_in_one_sentence() -> None:
    measured = (*slices(100), *slices(200))
    (told,) = summarize("1.0", MACHINE, measured, slices(100)).disturbances
    assert "integer on one CPU by 67%" in told
    assert "all CPUs" not in told
