"""A day lived through twice: the rebalancer's own decisions, in virtual time."""

import itertools
import math
from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.model.units import Micros
from slackwater.rebalancer.observed import HpaTarget, HpaTargetKind
from slackwater.rebalancer.reason import Reason
from slackwater.rebalancer.whatif.day import Day
from slackwater.rebalancer.whatif.simulate_day import (
    LoadSummary,
    SimulationResult,
    SimulationTerms,
    simulate_day,
)
from tests.unit.rebalancer.whatif.days import SIX, day_with, generated_day, result

MINUTE = 60_000_000
EVEN: Mapping[str, float] = dict.fromkeys("abcdef", 0.7)


def reasons(found: SimulationResult) -> list[str]:
    return [step.reason.value for step in found.steps]


def test_the_seeds_example_is_rotated_once() -> None:
    found = result(day_with([SIX] * 3))
    (rotation,) = found.rotations
    assert rotation.at == 0.0
    assert sorted(rotation.pods) == ["a", "b", "e", "f"]
    assert (rotation.average, rotation.predicted) == pytest.approx((1.15, 0.75))
    assert rotation.improvement == pytest.approx(34.78, abs=0.01)
    # 100 x (1 - (0.775 / 0.7333) / (1.15 / 0.7333)): c, at 0.8, is one of the two hottest now.
    assert rotation.realised == pytest.approx(32.61, abs=0.01)
    first, second, third = found.steps
    assert first.reason is Reason.ROTATED
    assert (first.target, first.threshold) == pytest.approx((0.7, 1.05))
    assert first.without == first.rotated == LoadSummary(1.2, pytest.approx(4.4 / 6), 2, 7)  # type: ignore[arg-type]
    assert second.without == first.without
    assert second.rotated == LoadSummary(0.8, pytest.approx(4.4 / 6), 0, 7)  # type: ignore[arg-type]
    assert third.reason is Reason.NO_PODS_ABOVE_TOLERANCE


def test_an_even_fleet_is_left_alone() -> None:
    found = result(day_with([EVEN] * 4))
    assert found.rotations == ()
    assert set(reasons(found)) == {"no_pods_above_tolerance"}
    assert all(step.without == step.rotated for step in found.steps)


def test_a_rotation_cools_down_in_virtual_time() -> None:
    """Others become hot at once; they have to wait for ten minutes."""
    others = {"a": 0.3, "b": 0.3, "c": 1.4, "d": 1.4, "e": 0.3, "f": 0.3}
    found = result(day_with([SIX, others, others, others]))
    assert reasons(found) == ["rotated", "cooldown", "rotated", "no_pods_above_tolerance"]
    at_once = result(day_with([SIX, others, others]), cooldown=Micros(0))
    assert reasons(at_once)[:2] == ["rotated", "rotated"]


def test_pods_that_just_came_are_too_young() -> None:
    """In the recording g comes in the second step, hot from the beginning."""
    with_g = {**EVEN, "g": 2.0}
    found = result(day_with([EVEN, with_g, with_g, with_g]))
    assert reasons(found)[:3] == ["no_pods_above_tolerance"] * 2 + ["rotated"]
    assert found.rotations[0].at == 600.0
    patient = result(day_with([EVEN, with_g, with_g, with_g]), minimum_pod_age=Micros(10 * MINUTE))
    assert patient.rotations[0].at == 900.0


def test_who_is_there_at_the_beginning_is_old_enough() -> None:
    found = result(day_with([SIX] * 2), minimum_pod_age=Micros(7 * 24 * 60 * MINUTE))
    assert reasons(found)[0] == "rotated"


def test_who_was_rotated_is_young_again() -> None:
    swap = {**SIX, "a": 0.2, "f": 2.0}
    found = result(
        day_with([SIX, swap, swap]), cooldown=Micros(0), minimum_pod_age=Micros(30 * MINUTE)
    )
    assert reasons(found) == ["rotated", *["no_pods_above_tolerance"] * 2]


@pytest.mark.parametrize(
    ("loads", "moves", "reason"),
    [
        ({"a": 1.5, "b": 1.2, "c": 0.2}, {}, "min_pods"),
        (SIX, {"minimum_pods": 3}, "min_pods"),
        (SIX, {"minimum_improvement": 40.0}, "insufficient_improvement"),
        (SIX, {"tolerance": 2.0}, "no_pods_above_tolerance"),
        (dict.fromkeys("abcdef", 1.3), {}, "insufficient_improvement"),
        ({**dict.fromkeys("abcdef", 1.2), "g": 1.21, "h": 0.1, "i": 0.1}, {"top_k": 1}, "rotated"),
    ],
)
def test_the_guards_have_their_say(
    loads: Mapping[str, float], moves: dict[str, object], reason: str
) -> None:
    assert reasons(result(day_with([loads]), **moves)) == [reason]  # type: ignore[arg-type]


def test_a_hot_key_that_stays_hot_is_rotated_less_and_less_often() -> None:
    loads = {**EVEN, "a": 3.0}
    found = result(day_with([loads] * 100), stickiness=0.98)
    times = [rotation.at for rotation in found.rotations]
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert pauses[:4] == [600.0, 2400.0, 4800.0, 9600.0]
    missed = [rotation.realised for rotation in found.rotations[:-1]]
    assert all(realised is not None and realised < 5 for realised in missed)


def test_without_stickiness_one_rotation_is_enough() -> None:
    """a goes with two cold ones: three pods with a core each."""
    found = result(day_with([{**EVEN, "a": 1.6}] * 100))
    assert len(found.rotations) == 1
    assert [step.rotated.hottest for step in found.steps[1:]] == pytest.approx([1.0] * 99)


def test_where_all_is_sticky_both_runs_are_the_same() -> None:
    found = result(generated_day(skew=1.0, hours=6.0), stickiness=1.0)
    assert found.rotations
    for step in found.steps:
        assert step.rotated.hottest == pytest.approx(step.without.hottest)
        assert step.rotated.replicas == step.without.replicas


def test_recorded_pods_may_come_and_go() -> None:
    fewer = {pod: cores for pod, cores in SIX.items() if pod != "f"}
    found = result(day_with([SIX, SIX, fewer, fewer, {**fewer, "g": 0.3}, SIX]))
    assert [step.pods for step in found.steps] == [6, 6, 5, 5, 6, 6]
    for step in found.steps:
        assert step.rotated.mean == pytest.approx(step.without.mean)
    # f took nothing with it: the other three still share what they carried.
    assert found.steps[2].rotated.hottest == pytest.approx(2.7 / 3)


def test_steps_that_were_not_recorded_are_not_lived_through() -> None:
    found = result(day_with([SIX, {}, {}, SIX]))
    assert [step.at for step in found.steps] == [0.0, 900.0]


def test_a_pod_that_asks_for_more_has_a_higher_threshold() -> None:
    found = result(day_with([SIX], request=2.0))
    assert found.steps[0].threshold == pytest.approx(2.1)
    assert reasons(found) == ["no_pods_above_tolerance"]


def test_an_average_value_is_the_target_itself() -> None:
    terms = SimulationTerms(HpaTarget(HpaTargetKind.AVERAGE_VALUE, 0.5, ""))
    found = simulate_day(day_with([SIX], request=4.0), terms)
    step = found.steps[0]
    assert (step.target, step.threshold) == (0.5, 0.75)
    assert day_with([SIX], request=4.0).moments[0].mean_request == 4.0


def test_idle_pods_are_no_division_by_zero() -> None:
    found = result(day_with([dict.fromkeys("abc", 0.0)] * 2))
    assert found.steps[0].without == LoadSummary(0.0, 0.0, 0, 1)  # type: ignore[arg-type]


def test_an_empty_day_is_nothing() -> None:
    assert result(day_with([])) == SimulationResult((), ())


def test_whoever_waits_is_told_after_each_step() -> None:
    steps: list[int] = []
    day = day_with([SIX] * 5)
    terms = SimulationTerms(HpaTarget(HpaTargetKind.UTILIZATION, 70.0, ""))
    simulate_day(day, terms, lambda: steps.append(1))
    assert len(steps) == 5


def test_the_clock_of_a_recording_does_not_matter() -> None:
    early, late = result(day_with([SIX] * 9)), result(day_with([SIX] * 9, start=1.7e9))
    assert reasons(early) == reasons(late)
    assert [step.rotated for step in early.steps] == [step.rotated for step in late.steps]


@pytest.mark.parametrize("seed", range(3))
def test_the_same_day_is_the_same_answer(seed: int) -> None:
    day = generated_day(seed, skew=1.0)
    assert result(day, 0.3) == result(day, 0.3)


loads = st.floats(0, 5, allow_subnormal=False)
steps = st.lists(
    st.dictionaries(st.sampled_from("abcdefgh"), loads, min_size=1), min_size=1, max_size=12
)


@settings(max_examples=60, deadline=None)
@given(steps, st.floats(0, 1), st.integers(1, 3))
def test_laws_of_any_day(told: list[dict[str, float]], stickiness: float, top_k: int) -> None:
    day: Day = day_with(told)
    found = result(day, stickiness, top_k=top_k)
    assert len(found.steps) == len(day.moments)
    for step, moment in zip(found.steps, day.moments, strict=True):
        assert step.rotated.mean == pytest.approx(step.without.mean, abs=1e-9)
        assert step.rotated.hottest <= step.without.hottest + 1e-9
        assert step.rotated.replicas <= step.without.replicas
        assert math.isfinite(step.threshold)
        assert step.pods == len(moment.loads)
    rotated = [step.at for step in found.steps if step.reason is Reason.ROTATED]
    assert rotated == [rotation.at for rotation in found.rotations]
    for rotation in found.rotations:
        there = next(moment for moment in day.moments if moment.at == rotation.at)
        assert max(Counter(rotation.pods).values()) == 1
        assert set(rotation.pods) <= there.loads.keys()
        assert len(there.loads) - len(rotation.pods) >= 2
        assert rotation.predicted <= rotation.average
