"""Made-up CPU series of the kinds that a node shows, to see whether a forecast is good beyond the
series that its constants were chosen on. The same seed gives the same series."""

import numpy as np

from slackwater.prediction.history import DAY, History, Samples

_MINUTE = 60.0
_DAYS = 14
_A_DAY = 1440
_SIZE = _DAYS * _A_DAY


def make_series(seed: int) -> dict[str, History]:
    """One of each kind, by the minute, two weeks."""
    random = np.random.default_rng(seed)
    times = _MINUTE * np.arange(_SIZE)
    day = 1 + 0.6 * np.sin(2 * np.pi * (times / DAY - random.random()))
    noise = np.exp(_wander(random, 0.95, 0.03) + random.normal(0, 0.05, _SIZE))
    weekend = np.where((times // DAY) % 7 >= 5, 0.4, 1.0)
    kinds = {
        "daily": 4 * day * noise,
        "trend": (3 * day + 5 * times / times[-1]) * noise,
        "weekday": (1 + 4 * day * weekend) * noise,
        "bursts": (1 + _bursts(random)) * noise,
        "levels": 3 * _levels(random) * np.sqrt(day) * noise,
        "on and off": (0.2 + 8 * _switched(random)) * noise,
        "every few hours": (1 + 0.5 * day + _repeated(random)) * noise,
        "random walk": 3 * np.exp(_wander(random, 0.9995, 0.012)) * noise,
        "missing": _with_gaps(random, 4 * day * noise),
    }
    return {name: History(0.0, _MINUTE, values) for name, values in kinds.items()}


def _wander(random: np.random.Generator, memory: float, spread: float) -> Samples:
    steps = random.normal(0, spread, _SIZE)
    values = np.empty(_SIZE)
    value = 0.0
    for place, step in enumerate(steps.tolist()):
        value = memory * value + step
        values[place] = value
    return values


def _bursts(random: np.random.Generator) -> Samples:
    values = np.zeros(_SIZE)
    hours = random.uniform(6, 30)
    for start in np.flatnonzero(random.random(_SIZE) < 1 / (60 * hours)).tolist():
        values[start : start + 2 + int(random.exponential(20))] += 2 + 2 * random.pareto(2.5)
    return values


def _levels(random: np.random.Generator) -> Samples:
    values = np.ones(_SIZE)
    start = 0
    while start < _SIZE:
        length = 1 + int(random.exponential(2.5 * _A_DAY))
        values[start : start + length] = np.exp(random.normal(0, 0.6))
        start += length
    return values


def _switched(random: np.random.Generator) -> Samples:
    values = np.zeros(_SIZE)
    start = 0
    while start < _SIZE:
        start += 10 + int(random.exponential(300))
        length = 5 + int(random.exponential(90))
        values[start : start + length] = random.uniform(0.7, 1)
        start += length
    return values


def _repeated(random: np.random.Generator) -> Samples:
    every, length = random.integers(180, 500), random.integers(5, 30)
    result: Samples = np.where(np.arange(_SIZE) % every < length, random.uniform(2, 6), 0.0)
    return result


def _with_gaps(random: np.random.Generator, values: Samples) -> Samples:
    """Four of half an hour to five hours."""
    for start in random.integers(1, _SIZE - 400, 4).tolist():
        values[start : start + int(random.integers(30, 300))] = np.nan
    return values
