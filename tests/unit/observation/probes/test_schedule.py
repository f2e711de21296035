"""Whose turn it is."""

from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.observation.probes.answers import Answer
from slackwater.observation.probes.schedule import (
    MOST_AT_A_TIME,
    MOST_FAILING,
    Target,
    Turn,
    begin,
    choose_next,
    end,
)

GOOD = Answer(Micros(0), {})
BAD = Gap("no")
PERIOD = Micros(10)


class _Nobody:
    def ask(self, names: frozenset[str]) -> Answer | Gap:
        raise NotImplementedError


def make_target(due: int = 0, failures: int = 0) -> Target:
    target = Target(_Nobody())
    target.due, target.failures = Micros(due), failures
    return target


def test_the_one_that_waited_longest() -> None:
    late, later, future = make_target(3), make_target(2), make_target(50)
    assert choose_next([late, later, future], Micros(9)) == Turn(later)
    assert choose_next([future], Micros(9)) == Turn(again=Micros(50))
    assert choose_next([], Micros(9)) == Turn()


def test_those_that_fail_come_last_and_are_few() -> None:
    failing = [make_target(0, failures=1) for _ in range(5)]
    good = make_target(8)
    assert choose_next([*failing, good], Micros(9)).target is good
    begin(good, Micros(9))
    for _ in range(MOST_FAILING):
        found = choose_next([*failing, good], Micros(9)).target
        assert found in failing
        assert found is not None
        begin(found, Micros(9))
    assert choose_next([*failing, good], Micros(9)) == Turn()
    end(good, GOOD, Micros(9), PERIOD)
    assert choose_next([*failing, good], Micros(9)) == Turn(again=Micros(16))


def test_the_second_turn_is_early_so_that_the_tick_sees_a_fresh_answer() -> None:
    target = make_target()
    for found, due in ((BAD, 10), (GOOD, 17), (GOOD, 27), (BAD, 37), (GOOD, 47)):
        begin(target, target.due)
        end(target, found, target.began, PERIOD)
        assert target.due == due


def test_who_cannot_be_asked_has_no_turn() -> None:
    assert choose_next([Target(Gap("no address"))], Micros(9)) == Turn()


@given(st.lists(st.tuples(st.integers(0, 8), st.booleans()), max_size=60), st.integers(1, 12))
def test_no_more_at_a_time_than_may_be(steps: list[tuple[int, bool]], count: int) -> None:
    targets = [make_target() for _ in range(count)]
    now = Micros(0)
    flying: list[Target] = []
    for passed, succeeds in steps:
        now = Micros(now + passed)
        found = choose_next(targets, now).target
        if found is not None:
            assert found not in flying
            begin(found, now)
            flying.append(found)
        elif flying:
            end(flying.pop(0), GOOD if succeeds else BAD, now, PERIOD)
        assert len(flying) <= MOST_AT_A_TIME
        assert sum(each.failures > 0 for each in flying) <= MOST_FAILING
        assert all(not each.in_flight or each in flying for each in targets)
