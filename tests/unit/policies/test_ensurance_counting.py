"""Counting above and below, cool-downs, and the wait that grows. Numbers in the ids are rows of
section 10 of the facts about Crane, want column."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.decision import RuleState
from slackwater.model.gap import Gap
from slackwater.model.units import Micros
from slackwater.policies.ensurance.counting import (
    CountingRule,
    RuleMemory,
    Verdict,
    cools_until,
    count_measurement,
    end_cool_down,
    end_restoring,
    note_missing,
)

LETTERS = {Verdict.NONE: "-", Verdict.TRIGGERED: "T", Verdict.RESTORED: "R"}


def seconds(count: int) -> Micros:
    return Micros(count * 1_000_000)


def rule(avoidance: int = 1, restores_after: int = 1, cool_down: int = 300) -> CountingRule:
    return CountingRule(avoidance, restores_after, cool_down, longest_factor=16)


def verdicts(looks: str, counted: CountingRule) -> str:
    """`looks`: a for above, b for below, one each second."""
    memory, said = RuleMemory(), ""
    for second, look in enumerate(looks):
        memory, verdict = count_measurement(
            memory, counted, is_above=look == "a", at=seconds(second)
        )
        said += LETTERS[verdict]
    return said


@pytest.mark.parametrize(
    ("looks", "counts", "wanted"),
    [
        pytest.param("aabb", (2, 2), "-T-R", id="1"),
        pytest.param("aaaabbbb", (2, 2), "-TTT-RRR", id="3"),
        pytest.param("aababb", (2, 2), "-T---R", id="5"),
        pytest.param("abb", (1, 1), "TRR", id="7"),
        pytest.param("bbb", (1, 1), "---", id="nothing is restored that was never triggered"),
        pytest.param("abab", (2, 1), "----", id="in a row"),
        pytest.param("aaabab", (3, 2), "--T---", id="restoring in a row"),
    ],
)
def test_counts(looks: str, counts: tuple[int, int], wanted: str) -> None:
    assert verdicts(looks, rule(*counts)) == wanted


@given(st.text("ab", max_size=60), st.integers(1, 4), st.integers(1, 4))
def test_counts_are_those_of_the_longest_tail(looks: str, avoidance: int, restores: int) -> None:
    """The law, without any memory: what the last look means follows from the looks alone."""
    said = verdicts(looks, rule(avoidance, restores))
    for end in range(1, len(looks) + 1):
        tail = looks[:end]
        above = len(tail) - len(tail.rstrip("a"))
        below = len(tail) - len(tail.rstrip("b"))
        if above:
            wanted = "T" if above >= avoidance else "-"
        else:
            wanted = "R" if "T" in said[:end] and below >= restores else "-"
        assert said[end - 1] == wanted


def triggered(at: int, memory: RuleMemory | None = None) -> RuleMemory:
    found, verdict = count_measurement(
        memory or RuleMemory(), rule(), is_above=True, at=seconds(at)
    )
    assert verdict is Verdict.TRIGGERED
    return found


def restored(memory: RuleMemory, at: int) -> RuleMemory:
    """Below again at once, and undone as soon as the cool-down lets it."""
    memory, _ = count_measurement(memory, rule(), is_above=False, at=seconds(at))
    assert memory.triggered_at is not None
    return end_cool_down(memory, rule(), memory.triggered_at, seconds(at))


def test_13_a_cool_down_is_over_after_its_seconds_not_at_them() -> None:
    memory = triggered(0)
    assert restored(memory, 300).state is RuleState.COOLING
    assert restored(memory, 301).state is RuleState.RESTORING


def cycle(memory: RuleMemory, at: int) -> tuple[RuleMemory, int]:
    """Triggered at a time and restored as early as possible: what is remembered, and when."""
    memory = triggered(at, memory)
    counted = rule()
    until = cools_until(memory, counted, seconds(at)) // 1_000_000 + 1
    memory = restored(memory, until)
    assert memory.state is RuleState.RESTORING
    return end_restoring(memory, seconds(until)), until


def test_a_rule_that_triggers_again_soon_waits_twice_as_long_up_to_a_limit() -> None:
    memory, at, waits = RuleMemory(), 0, []
    for _ in range(7):
        memory, until = cycle(memory, at)
        waits.append(until - at - 1)
        at = until + 10
    assert waits == [300, 600, 1200, 2400, 4800, 4800, 4800]


def test_a_trigger_while_it_is_being_undone_is_soon() -> None:
    memory = restored(triggered(0), 301)
    assert triggered(302, memory).factor == 2


def test_a_trigger_during_the_cool_down_only_begins_it_again() -> None:
    memory, _ = count_measurement(triggered(0), rule(), is_above=False, at=seconds(10))
    assert memory.state is RuleState.COOLING
    again = triggered(20, memory)
    assert (again.factor, again.triggered_at) == (1, seconds(20))


@pytest.mark.parametrize(
    ("calm", "factor"),
    [(4 * 300, 8), (4 * 300 + 1, 2), (6 * 300 + 1, 1), (100_000, 1)],
)
def test_calm_halves_the_wait_again(calm: int, factor: int) -> None:
    memory = RuleMemory(factor=4, restored_at=seconds(0))
    assert triggered(calm, memory).factor == factor


def test_the_limit_counts_at_once_where_it_was_lowered() -> None:
    memory = RuleMemory(factor=16, restored_at=seconds(0))
    lowered = CountingRule(1, 1, 300, longest_factor=2)
    found, _ = count_measurement(memory, lowered, is_above=True, at=seconds(16 * 300 + 1))
    assert found.factor == 2


def test_a_missing_metric_holds_for_a_time_and_then_starts_anew() -> None:
    memory = RuleMemory("m", 2, 0, RuleState.TRIGGERED, seconds(1), seconds(1), None, 4)
    held = memory
    for second in range(10, 40):
        held = note_missing(held, seconds(second), seconds(30), Gap("why"))
        assert (held.above, held.state) == (2, RuleState.TRIGGERED)
    gone = note_missing(held, seconds(40), seconds(30), Gap("why"))
    assert (gone.above, gone.state, gone.factor) == (0, RuleState.QUIET, 4)
    assert note_missing(gone, seconds(41), seconds(30), Gap("why")) == gone
    back, _ = count_measurement(gone, rule(2), is_above=True, at=seconds(42))
    assert (back.above, back.missing_since) == (1, None)


def test_a_metric_that_comes_back_in_time_goes_on_counting() -> None:
    memory = note_missing(RuleMemory(above=1), seconds(1), seconds(30), Gap("why"))
    found, verdict = count_measurement(memory, rule(2), is_above=True, at=seconds(2))
    assert (verdict, found.missing_since) == (Verdict.TRIGGERED, None)


def test_a_rule_at_rest_stays_the_same_value() -> None:
    memory, _ = count_measurement(RuleMemory(), rule(2, 3), is_above=False, at=seconds(1))
    for second in range(2, 4):
        memory, _ = count_measurement(memory, rule(2, 3), is_above=False, at=seconds(second))
    again, _ = count_measurement(memory, rule(2, 3), is_above=False, at=seconds(4))
    assert again is memory
