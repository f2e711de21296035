"""The what-if against a second one that shares no code with it: slow, plain, written from the seed.

It keeps a whole matrix of who carries whose load, and decides by the seed's own lines; guards are
those that can forbid something on such days: minimum, capacity and cool-down with its back-off.
"""

import random
from collections import Counter
from statistics import mean

import pytest

from tests.unit.rebalancer.whatif.days import day_with, generated_day, result

K, TOLERANCE, MINIMUM, LEAST, WINDOW = 2, 1.5, 10.0, 2, 300.0
TARGET = 0.7
THRESHOLD = TARGET * TOLERANCE


class Oracle:
    """Guards the matrix: row i, column j is how much of j's recorded load i carries."""

    def __init__(self, pods: list[str], stickiness: float) -> None:
        self.pods = pods
        self.stickiness = stickiness
        size = range(len(pods))
        self.matrix = [[1.0 if i == j else 0.0 for j in size] for i in size]
        self.last: float | None = None
        self.skew, self.hot, self.predicted = 0.0, 0, 0.0
        self.misses, self.judged = 0, True

    def usage(self, recorded: dict[str, float]) -> dict[str, float]:
        loads = [recorded[pod] for pod in self.pods]
        return {
            pod: sum(part * load for part, load in zip(row, loads, strict=True))
            for pod, row in zip(self.pods, self.matrix, strict=True)
        }

    def step(self, at: float, recorded: dict[str, float]) -> set[str]:
        """Who is rotated."""
        usage = self.usage(recorded)
        self.judge(at, usage)
        group, predicted = chosen(usage)
        if not group or self.cools(at) or not allowed(usage, group):
            return set()
        hot = [usage[pod] for pod in group if usage[pod] > THRESHOLD]
        self.last, self.judged, self.predicted = at, False, predicted
        self.skew, self.hot = mean(hot) / mean(usage.values()), len(hot)
        self.deal(group)
        return set(group)

    def deal(self, group: list[str]) -> None:
        places = [self.pods.index(pod) for pod in group]
        rows = [self.matrix[place] for place in places]
        even = [mean(column) for column in zip(*rows, strict=True)]
        for place, row in zip(places, rows, strict=True):
            self.matrix[place] = [
                self.stickiness * own + (1 - self.stickiness) * shared
                for own, shared in zip(row, even, strict=True)
            ]

    def judge(self, at: float, usage: dict[str, float]) -> None:
        if self.judged or self.last is None or at - self.last < WINDOW:
            return
        hottest = sorted(usage.values(), reverse=True)[: self.hot]
        realised = 100 * (1 - mean(hottest) / mean(usage.values()) / self.skew)
        self.misses = self.misses + 1 if realised < self.predicted / 2 else 0
        self.judged = True

    def cools(self, at: float) -> bool:
        pause = 2 * WINDOW * (2**self.misses if self.misses >= 2 else 1)
        return self.last is not None and at - self.last < min(pause, 86_400)


def chosen(usage: dict[str, float]) -> tuple[list[str], float]:
    """The seed's steps 2 to 5."""
    ranked = sorted(usage, key=lambda pod: (-usage[pod], pod))
    top = [pod for pod in ranked[:K] if usage[pod] > THRESHOLD + 1e-9]
    if not top:
        return [], 0.0
    rest = sorted(ranked[len(top) :], key=lambda pod: (usage[pod], pod))
    group = top + rest[:K]
    average = mean(usage[pod] for pod in top)
    improvement = (average - mean(usage[pod] for pod in group)) / average * 100
    return (group, improvement) if improvement > MINIMUM + 1e-9 else ([], 0.0)


def allowed(usage: dict[str, float], group: list[str]) -> bool:
    """Enough stay, and one that is away can be stood in for by the others."""
    carries = max(THRESHOLD, *usage.values())
    return len(usage) - len(group) >= LEAST and sum(usage.values()) / (len(usage) - 1) <= carries


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("skew", "stickiness"), [(0.6, 0.0), (1.0, 0.4), (1.2, 0.95)])
def test_generated_days(seed: int, skew: float, stickiness: float) -> None:
    day = generated_day(seed, skew=skew, pods=9, partitions=36, hours=14.0)
    oracle = Oracle(list(day.pods), stickiness)
    expected = []
    for moment in day.moments:
        recorded: dict[str, float] = {pod: load.cores for pod, load in moment.loads.items()}
        if rotated := oracle.step(moment.at, recorded):
            expected.append((moment.at, rotated))
    found = [(each.at, set(each.pods)) for each in result(day, stickiness).rotations]
    assert found == expected


def wild(seed: int) -> tuple[list[dict[str, float]], float]:
    """Loads that have nothing to do with those of the step before, and a stickiness."""
    chance = random.Random(seed)  # noqa: S311 - noise, not a secret
    pods = [f"p{n}" for n in range(chance.randint(1, 12))]
    told = [
        {pod: chance.choice((0.0, 0.2, 0.7, 1.05, 1.2, 3.0)) * chance.random() for pod in pods}
        for _ in range(60)
    ]
    return told, chance.choice((0.0, 0.5, 1.0))


@pytest.mark.parametrize("seed", range(30))
def test_wild_days(seed: int) -> None:
    told, stickiness = wild(seed)
    oracle, day = Oracle(list(told[0]), stickiness), day_with(told)
    hottest, expected = [], []
    for moment, recorded in zip(day.moments, told, strict=True):
        hottest.append(max(oracle.usage(recorded).values()))
        if rotated := oracle.step(moment.at, recorded):
            expected.append((moment.at, rotated))
    found = result(day, stickiness)
    assert [(each.at, set(each.pods)) for each in found.rotations] == expected
    assert [step.rotated.hottest for step in found.steps] == pytest.approx(hottest)


def test_wild_days_are_wild_enough() -> None:
    """Whatever can happen on them does."""
    reasons: Counter[str] = Counter()
    for seed in range(30):
        told, stickiness = wild(seed)
        reasons.update(step.reason.value for step in result(day_with(told), stickiness).steps)
    assert reasons["rotated"] > 100
    assert reasons["cooldown"] > 100
    assert reasons["no_pods_above_tolerance"] > 100
    assert reasons["min_pods"] > 10
