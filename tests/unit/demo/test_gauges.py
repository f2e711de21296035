"""CPU use and noise between two looks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.demo.gauges import Counters, noise_between, use_between
from tests.unit.demo.examples import counters

SECONDS = st.floats(0, 100)


@pytest.mark.parametrize(
    ("after", "use"),
    [
        ({"node": 20.0}, (0, 0, 2, 0)),
        ({"node": 8.0, "tree": 6.0, "service": 4.0, "hog": 1.0}, (0.4, 0.1, 0.3, 1.2)),
        ({"node": 10.0, "steal": 4.0}, (0, 0, 1, 0.6)),
        ({}, (0, 0, 0, 2)),
        # Two counters are never read at the same moment: what is below zero is nothing.
        ({"node": 3.0, "service": 4.0}, (0.4, 0, 0, 1.6)),
    ],
)
def test_use(after: dict[str, float], use: tuple[float, float, float, float]) -> None:
    found = use_between(counters(0.0), counters(10.0, **after), 2)
    assert (found.service, found.hog, found.other, found.idle) == pytest.approx(use)


@pytest.mark.parametrize(
    ("after", "noise"),
    [
        ({"node": 10.0, "tree": 6.0, "own": 1.0}, (0, 0.3)),
        ({"node": 5.0, "tree": 6.0}, (0, 0)),
        ({"node": 6.0, "tree": 6.0, "steal": 5.0}, (0.5, 0)),
    ],
)
def test_noise(after: dict[str, float], noise: tuple[float, float]) -> None:
    found = noise_between(counters(0.0), counters(10.0, **after))
    assert (found.steal, found.foreign) == pytest.approx(noise)


@given(st.builds(Counters, st.just(10.0), *[SECONDS] * 6), st.integers(1, 64))
def test_nothing_is_ever_negative(after: Counters, cpus: int) -> None:
    use, noise = use_between(counters(0.0), after, cpus), noise_between(counters(0.0), after)
    assert min(use.service, use.hog, use.other, use.idle, noise.steal, noise.foreign) >= 0
