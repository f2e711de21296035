"""The rhythm of a loop, with a clock that only its waits move."""

from collections.abc import Iterable

import pytest

from slackwater.runtime.loop import run_loop
from slackwater.runtime.wakeup import Woken


class Rhythm:
    """A loop whose waits are ended as scripted: after how many seconds, and by what. Waits beyond
    the script last as long as they may, until a last one stops the loop."""

    def __init__(self, script: Iterable[tuple[float, Woken]] = (), end: float = 1000.0) -> None:
        self.now = 0.0
        self.end = end
        self.rounds: list[tuple[float, Woken]] = []
        self.waits: list[float] = []
        self._script = iter(script)
        self.pause: float | None = 10.0

    def wait(self, seconds: float) -> Woken:
        if not self.rounds:
            return Woken.TIMEOUT
        self.waits.append(seconds)
        after, woken = next(self._script, (seconds, Woken.TIMEOUT))
        self.now += min(after, seconds)
        if self.now >= self.end:
            return Woken.STOP
        return woken if after <= seconds else Woken.TIMEOUT

    def run_round(self, woken: Woken) -> float | None:
        self.rounds.append((self.now, woken))
        return self.pause

    def run(self, settle: float = 0.0) -> list[float]:
        run_loop(self.run_round, self.wait, settle=settle, clock=lambda: self.now)
        return [at for at, _ in self.rounds]


def test_rounds_come_when_they_are_due() -> None:
    assert Rhythm(end=35.0).run() == [0.0, 10.0, 20.0, 30.0]


def test_a_round_knows_what_woke_it() -> None:
    rhythm = Rhythm([(3.0, Woken.CALL), (2.0, Woken.ALARM)], end=12.0)
    rhythm.run()
    assert rhythm.rounds == [(0.0, Woken.TIMEOUT), (3.0, Woken.CALL), (5.0, Woken.ALARM)]


def test_a_burst_is_one_round() -> None:
    burst = [(0.25, Woken.CALL)] * 4
    assert Rhythm(burst, end=5.0).run(settle=1.0) == [0.0, 1.0]


def test_a_call_long_after_the_round_is_answered_at_once() -> None:
    assert Rhythm([(5.0, Woken.CALL)], end=12.0).run(settle=1.0) == [0.0, 5.0]


def test_a_pause_that_is_over_settles_too() -> None:
    rhythm = Rhythm(end=2.5)
    rhythm.pause = 0.0
    assert rhythm.run(settle=1.0) == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("script", [[(0.1, Woken.STOP)], [(0.1, Woken.CALL), (0.1, Woken.STOP)]])
def test_it_ends_at_once_while_it_waits_or_settles(script: list[tuple[float, Woken]]) -> None:
    rhythm = Rhythm(script)
    assert rhythm.run(settle=1.0) == [0.0]
    assert rhythm.now < 1.0


def test_a_round_can_end_the_loop() -> None:
    rhythm = Rhythm()
    rhythm.pause = None
    assert rhythm.run() == [0.0]
    assert rhythm.waits == []


def test_after_a_request_to_stop_there_is_no_round() -> None:
    rhythm = Rhythm()
    run_loop(rhythm.run_round, lambda _: Woken.STOP)
    assert rhythm.rounds == []
