"""Samples of any spacing as steps."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.rebalancer.observed import Cores, Seconds
from slackwater.rebalancer.whatif.day import (
    Day,
    Moment,
    PodLoad,
    UsageSample,
    build_day,
    choose_step,
    count_steps,
    sample_spacing,
)

FIVE = Seconds(300.0)


def sample(at: float, pod: str, cores: float = 1.0, request: float = 1.0) -> UsageSample:
    return UsageSample(at, pod, Cores(cores), Cores(request))


def cores_in(day: Day) -> list[dict[str, float]]:
    return [{pod: load.cores for pod, load in moment.loads.items()} for moment in day.moments]


def test_one_sample_for_each_step() -> None:
    day = build_day([sample(1000, "a", 1.0), sample(1300, "a", 2.0), sample(1000, "b", 0.5)], FIVE)
    assert day == Day(
        FIVE,
        (
            Moment(
                1000.0, {"a": PodLoad(Cores(1.0), Cores(1.0)), "b": PodLoad(Cores(0.5), Cores(1.0))}
            ),
            Moment(1300.0, {"a": PodLoad(Cores(2.0), Cores(1.0))}),
        ),
    )
    assert day.pods == ("a", "b")


def test_finer_samples_are_averaged_and_the_last_request_counts() -> None:
    samples = [sample(n * 60, "a", n, request=1 + n) for n in range(5)]
    (moment,) = build_day(samples, FIVE).moments
    assert moment.loads["a"] == PodLoad(Cores(2.0), Cores(5.0))


def test_a_scrape_that_came_late_is_no_pod_that_left() -> None:
    samples = [sample(n * 300, "b") for n in range(4)]
    samples += [sample(0, "a", 0.4), sample(601, "a", 0.6)]
    assert [step.get("a") for step in cores_in(build_day(samples, FIVE))] == [0.4, 0.4, 0.6, None]


def test_a_pod_that_is_missing_twice_was_gone() -> None:
    samples = [sample(n * 300, "b") for n in range(4)] + [sample(0, "a"), sample(900, "a")]
    assert [step.get("a") for step in cores_in(build_day(samples, FIVE))] == [1.0, None, None, 1.0]


def test_steps_in_which_nothing_was_recorded_are_counted() -> None:
    day = build_day([sample(0, "a"), sample(1500, "a")], FIVE)
    assert [moment.at for moment in day.moments] == [0.0, 1500.0]
    assert day.missing == 4


def test_no_samples_are_an_empty_day() -> None:
    assert build_day([], FIVE) == Day(FIVE, ())
    assert count_steps([], FIVE) == 0


@pytest.mark.parametrize(
    ("times", "spacing", "step"),
    [
        ([0, 60, 120], 60, 300),
        ([0, 300, 600], 300, 300),
        ([0, 900, 1800], 900, 900),
        ([0, 899.5, 1799], 899.5, 900),
        ([0, 60, 120, 5000, 5060, 5120], 60, 300),
        ([0], 0, 300),
        ([], 0, 300),
    ],
)
def test_the_step_is_the_recordings_own_where_that_is_longer(
    times: list[float], spacing: float, step: float
) -> None:
    samples = [sample(at, "a") for at in times] + [sample(at + 7, "b") for at in times]
    assert sample_spacing(samples) == spacing
    assert choose_step(samples) == step


times = st.integers(0, 5000).map(float)


@given(
    st.dictionaries(
        st.tuples(times, st.sampled_from("abc")), st.floats(0, 10), min_size=1, max_size=40
    ),
    st.sampled_from([60.0, 300.0, 900.0]),
)
def test_any_samples_become_steps_in_order(
    found: dict[tuple[float, str], float], step: float
) -> None:
    samples = [sample(at, pod, cores) for (at, pod), cores in found.items()]
    day = build_day(samples, Seconds(step))
    starts = [moment.at for moment in day.moments]
    assert starts == sorted(set(starts))
    assert len(starts) + day.missing == count_steps(samples, Seconds(step))
    assert starts[0] == min(at for at, _ in found)
    assert set(day.pods) == {pod for _, pod in found}
    highest = max(found.values())
    for moment in day.moments:
        assert moment.loads, "an empty step is missing, not a moment"
        assert list(moment.loads) == sorted(moment.loads)
        for load in moment.loads.values():
            assert 0 <= load.cores <= highest * (1 + 1e-9)
            assert math.isfinite(load.cores)


@given(st.permutations([sample(n * 100.0, pod, n) for n in range(9) for pod in "ab"]))
def test_the_order_of_samples_does_not_matter(samples: list[UsageSample]) -> None:
    ordered = sorted(samples, key=lambda each: (each.at, each.pod))
    assert build_day(samples, FIVE) == build_day(ordered, FIVE)
