"""Longer each time, never exactly, never less than the server says."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.http.errors import Backoff
from tests.unit.kube.informer_world import chance


class Fixed(random.Random):
    def __init__(self, value: float) -> None:
        super().__init__()
        self._value = value

    def random(self) -> float:
        return self._value


@pytest.mark.parametrize(("luck", "part"), [(0.0, 0.5), (0.5, 0.75), (1.0, 1.0)])
def test_it_doubles_up_to_the_longest(luck: float, part: float) -> None:
    backoff = Backoff(0.5, 30.0, Fixed(luck))
    whole = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert [backoff.after_failure() for _ in whole] == [part * one for one in whole]


def test_success_begins_anew() -> None:
    backoff = Backoff(0.5, 30.0, Fixed(1.0))
    for _ in range(5):
        backoff.after_failure()
    backoff.reset()
    assert backoff.after_failure() == 0.5


@given(
    failures=st.integers(0, 3000),
    asked=st.none() | st.floats(0, 1000),
    first=st.floats(0.001, 1),
    longest=st.floats(1, 100),
)
def test_it_keeps_its_bounds(
    failures: int, asked: float | None, first: float, longest: float
) -> None:
    backoff = Backoff(first, longest, chance())
    for _ in range(failures % 50):
        backoff.after_failure()
    backoff._failures += failures
    pause = backoff.after_failure(asked)
    least = min(asked or 0.0, 300.0)
    assert least + min(first, longest) / 2 <= pause + 1e-9
    assert pause <= least + longest


def test_those_who_failed_together_come_back_apart() -> None:
    pauses = {Backoff(30.0, 30.0, random.Random(n)).after_failure() for n in range(100)}  # noqa: S311
    assert len(pauses) == 100
    assert max(pauses) - min(pauses) > 10
