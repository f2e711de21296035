"""A day that nobody recorded: consumers of partitions, some of which are much busier than others.

Owns the shape. Load rises and falls with the day; partitions weigh as Zipf says and are dealt to
pods by number, as Kafka's assignors do; each has a rhythm and a noise of its own, so that who is
hot changes. Pure: chance is an argument, and the same chance is the same day.
"""

import math
from collections.abc import Callable

import msgspec

from slackwater.rebalancer.fleet import Cores, Seconds
from slackwater.rebalancer.whatif_day import USUAL_STEP, Day, Load, Moment

#: Uniform, from 0 to 1.
Draw = Callable[[], float]

_HOUR = 3600.0
_DAY = 24 * _HOUR
#: The hour of the day with the most load, and the load at night as a part of it.
_BUSIEST, _NIGHT = 14.0, 0.45
#: How far a partition's own rhythm moves its weight, and how far its noise does.
_RHYTHM, _NOISE = 0.5, 0.25
#: How much of a step's noise is left in the next one.
_MEMORY = 0.97


class Shape(msgspec.Struct, frozen=True):
    """`skew`: Zipf's exponent; 0: all partitions weigh the same. `busiest`: what a pod uses on
    average at the busiest hour."""

    pods: int = 12
    partitions: int = 60
    skew: float = 0.7
    hours: float = 24.0
    request: Cores = Cores(1.0)
    busiest: Cores = Cores(0.7)
    step: Seconds = USUAL_STEP


class _Partition(msgspec.Struct, frozen=True):
    """`late`: by how much of a day its own rhythm is behind."""

    weight: float
    pod: str
    late: float


def generated(shape: Shape, draw: Draw) -> Day:
    partitions = _partitions(shape, draw)
    noise = [0.0] * len(partitions)
    moments = []
    for n in range(round(shape.hours * _HOUR / shape.step)):
        at = n * shape.step
        noise = [_MEMORY * each + (1 - _MEMORY**2) ** 0.5 * _bell(draw) for each in noise]
        weights = [_weight(p, at, e) for p, e in zip(partitions, noise, strict=True)]
        total = shape.pods * shape.busiest * _curve(at / _HOUR)
        each = total / math.fsum(weights)
        cores: dict[str, float] = {_name(number): 0.0 for number in range(shape.pods)}
        for partition, weight in zip(partitions, weights, strict=True):
            cores[partition.pod] += weight * each
        loads = {pod: Load(Cores(used), shape.request) for pod, used in cores.items()}
        moments.append(Moment(at, loads))
    return Day(shape.step, tuple(moments))


def _partitions(shape: Shape, draw: Draw) -> list[_Partition]:
    """In the order of a shuffle, one pod after the other."""
    weights = [rank**-shape.skew for rank in range(1, shape.partitions + 1)]
    order = sorted(range(len(weights)), key=lambda _: draw())
    return [
        _Partition(weights[rank], _name(place % shape.pods), draw())
        for place, rank in enumerate(order)
    ]


def _name(number: int) -> str:
    return f"pod-{number:03d}"


def _curve(hour: float) -> float:
    """1 at the busiest hour, _NIGHT twelve hours later."""
    wave = (1 + math.cos((hour - _BUSIEST) / 24 * math.tau)) / 2
    return _NIGHT + (1 - _NIGHT) * wave


def _weight(partition: _Partition, at: float, noise: float) -> float:
    rhythm = 1 + _RHYTHM * math.cos((at / _DAY - partition.late) * math.tau)
    return partition.weight * rhythm * math.exp(_NOISE * noise)


def _bell(draw: Draw) -> float:
    """About normal, mean 0 and deviation 1: twelve uniform draws, less their mean."""
    return math.fsum(draw() for _ in range(12)) - 6
