"""The loop's rhythm: a burst of changes is one round, and a signal ends it at once."""

import datetime as dt
import itertools
import threading
import time
from typing import cast

import pytest

from slackwater.manager import wiring
from slackwater.manager.bell import Bell
from slackwater.manager.program import SETTLE, Loop
from slackwater.manager.wiring import go_round
from slackwater.model.units import Micros


class Rounds:
    """A loop that only counts."""

    def __init__(self, pause: float) -> None:
        self.at: list[float] = []
        self.began = threading.Event()
        self._pause = pause

    def once(self, _at: Micros, now: dt.datetime) -> None:
        assert now.tzinfo is dt.UTC
        self.at.append(time.monotonic())
        self.began.set()

    def pause(self, _at: Micros) -> float:
        return self._pause


class Running:
    """go_round in a thread, as a program runs it."""

    def __init__(self, pause: float = 3600.0) -> None:
        self.rounds, self.bell, self.stopped = Rounds(pause), Bell(), threading.Event()
        loop = cast("Loop", self.rounds)
        self.thread = threading.Thread(target=go_round, args=(loop, self.bell, self.stopped.is_set))
        self.thread.start()
        assert self.rounds.began.wait()

    def end(self) -> None:
        self.stopped.set()
        self.bell.ring()
        self.thread.join()
        self.bell.close()

    def until(self, rounds: int) -> None:
        while len(self.rounds.at) < rounds:
            time.sleep(0.001)


def test_a_burst_is_one_round() -> None:
    running = Running()
    for _ in range(50):
        running.bell.ring()
    running.until(2)
    running.end()
    at = running.rounds.at
    assert all(later - earlier >= SETTLE for earlier, later in itertools.pairwise(at))


def test_it_ends_at_once_while_it_waits() -> None:
    running = Running()
    running.end()
    assert len(running.rounds.at) == 1


def test_it_ends_at_once_while_a_burst_settles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wiring, "SETTLE", 3600.0)
    running = Running()
    running.bell.ring()
    running.end()
    assert len(running.rounds.at) == 1


def test_a_pause_that_is_over_is_a_round() -> None:
    running = Running(pause=0.0)
    running.until(2)
    running.end()


def test_what_was_asked_to_stop_before_it_began_does_nothing() -> None:
    rounds, bell = Rounds(0.0), Bell()
    go_round(cast("Loop", rounds), bell, lambda: True)
    bell.close()
    assert rounds.at == []
