"""The board: what the loop shows, what others ask of it, and neither waits for the other."""

import threading

import pytest

from slackwater.agent.board import WATCHED_FOR, Board, Condition, ReleaseDone
from slackwater.model.units import Micros
from slackwater.record.journal import Entry, Journal
from slackwater.record.metrics import Tally
from tests.unit.policies.nodes import node
from tests.unit.record.tick_records import outcome, record

DONE = ReleaseDone((Entry(3, Micros(7), "quota of kubepods/besteffort"),), 0)


def board(wake: threading.Event | None = None) -> Board:
    called = wake or threading.Event()
    return Board(Journal(3), Tally(), called.set)


def test_a_tick_is_kept_and_counted() -> None:
    shown = board()
    tick = record(outcomes=(outcome(),))
    shown.show(tick)
    assert shown.journal.latest is tick
    assert shown.tally.counts().ticks == 1


@pytest.mark.parametrize(
    ("rounds", "blind", "problems"),
    [
        ([Condition()], 0, 0),
        ([Condition(blind="gone"), Condition(blind="gone"), Condition()], 2, 0),
        ([Condition(problems=("a",)), Condition(problems=("a",))], 0, 1),  # it is still there
        ([Condition(problems=("a",)), Condition(problems=("a", "b"))], 0, 2),
        ([Condition(problems=("a",)), Condition(), Condition(problems=("a",))], 0, 2),  # again
    ],
)
def test_a_rounds_end(rounds: list[Condition], blind: int, problems: int) -> None:
    shown = board()
    for condition in rounds:
        shown.end_round(condition)
    assert shown.condition is rounds[-1]
    counts = shown.tally.counts()
    assert (counts.blind_rounds, counts.problems) == (blind, problems)


def test_somebody_looks_for_a_while() -> None:
    shown = board()
    assert not shown.is_watched(Micros(0))
    shown.watch(Micros(5))
    assert shown.is_watched(Micros(5 + WATCHED_FOR - 1))
    assert not shown.is_watched(Micros(5 + WATCHED_FOR))


def test_who_looks_waits_for_a_tick_that_began_after() -> None:
    shown = board()
    shown.show(record(node(tick=1)))  # at 1 s
    shown.watch(Micros(1_500_000))
    assert not shown.wait_for_pods(0)
    found: list[bool] = []
    looker = threading.Thread(target=lambda: found.append(shown.wait_for_pods(30)))
    looker.start()
    shown.show(record(node(tick=2)))
    looker.join(30)
    assert found == [True]
    shown.watch(Micros(2_500_000))  # still looking: pods are in every tick by now
    assert shown.wait_for_pods(0)


def test_a_release_is_asked_and_answered() -> None:
    wake = threading.Event()
    shown = board(wake)
    answers: list[ReleaseDone | None] = []
    asker = threading.Thread(target=lambda: answers.append(shown.ask_release(30)))
    assert not shown.release_is_asked()
    asker.start()
    assert wake.wait(30)  # the loop is woken, not left to its period
    assert shown.release_is_asked()
    shown.answer_release(DONE)
    asker.join(30)
    assert answers == [DONE]
    assert not shown.release_is_asked()


def test_nobody_answers_and_the_order_stands() -> None:
    shown = board()
    assert shown.ask_release(0) is None
    assert shown.release_is_asked()


def test_a_late_answer_is_not_the_next_askers() -> None:
    shown = board()
    assert shown.ask_release(0) is None
    shown.answer_release(DONE)
    assert shown.ask_release(0) is None  # this one was not answered
