"""What the loop shares with other threads, and what they ask of it; neither waits for the other."""

import threading

import pytest

from slackwater.agent.shared_state import DETAIL_PERIOD, ReleaseDone, SharedState
from slackwater.model.problem import ConfigurationProblem
from slackwater.model.units import Micros
from slackwater.record.agent_view import RoundState
from slackwater.record.journal import Journal, JournalEntry
from slackwater.record.metrics import TickCounters
from tests.unit.policies.nodes import node
from tests.unit.record.tick_records import outcome, record

DONE = ReleaseDone((JournalEntry(3, Micros(7), "quota of kubepods/besteffort"),), 0)


def shared(wake: threading.Event | None = None) -> SharedState:
    called = wake or threading.Event()
    return SharedState(Journal(3), TickCounters(), called.set)


def test_a_tick_is_kept_and_counted() -> None:
    shown = shared()
    tick = record(outcomes=(outcome(),))
    shown.add_tick(tick)
    assert shown.journal.latest is tick
    assert shown.tally.counts().ticks == 1


A, B = ConfigurationProblem("a"), ConfigurationProblem("b")


@pytest.mark.parametrize(
    ("rounds", "blind", "problems"),
    [
        ([RoundState()], 0, 0),
        ([RoundState(blind="gone"), RoundState(blind="gone"), RoundState()], 2, 0),
        ([RoundState(problems=(A,)), RoundState(problems=(A,))], 0, 1),  # it is still there
        ([RoundState(problems=(A,)), RoundState(problems=(A, B))], 0, 2),
        ([RoundState(problems=(A,)), RoundState(), RoundState(problems=(A,))], 0, 2),  # again
    ],
)
def test_a_rounds_end(rounds: list[RoundState], blind: int, problems: int) -> None:
    shown = shared()
    for condition in rounds:
        shown.end_round(condition)
    assert shown.last_round is rounds[-1]
    counts = shown.tally.counts()
    assert (counts.blind_rounds, counts.problems) == (blind, problems)


def test_somebody_looks_for_a_while() -> None:
    shown = shared()
    assert not shown.is_detail_requested(Micros(0))
    shown.request_detail(Micros(5))
    assert shown.is_detail_requested(Micros(5 + DETAIL_PERIOD - 1))
    assert not shown.is_detail_requested(Micros(5 + DETAIL_PERIOD))


def test_who_looks_waits_for_a_tick_that_began_after() -> None:
    shown = shared()
    shown.add_tick(record(node(tick=1)))  # at 1 s
    shown.request_detail(Micros(1_500_000))
    assert not shown.wait_for_detail(0)
    found: list[bool] = []
    looker = threading.Thread(target=lambda: found.append(shown.wait_for_detail(30)))
    looker.start()
    shown.add_tick(record(node(tick=2)))
    looker.join()
    assert found == [True]
    shown.request_detail(Micros(2_500_000))  # still looking: pods are in every tick by now
    assert shown.wait_for_detail(0)


def test_a_release_is_asked_and_answered() -> None:
    wake = threading.Event()
    shown = shared(wake)
    answers: list[ReleaseDone | None] = []
    asker = threading.Thread(target=lambda: answers.append(shown.request_release(30)))
    assert not shown.is_release_requested()
    asker.start()
    assert wake.wait()  # the loop is woken, not left to its period
    assert shown.is_release_requested()
    shown.finish_release(DONE)
    asker.join()
    assert answers == [DONE]
    assert not shown.is_release_requested()


def test_nobody_answers_and_the_order_stands() -> None:
    shown = shared()
    assert shown.request_release(0) is None
    assert shown.is_release_requested()


def test_a_late_answer_is_not_the_next_askers() -> None:
    shown = shared()
    assert shown.request_release(0) is None
    shown.finish_release(DONE)
    assert shown.request_release(0) is None  # this one was not answered
