"""A day of per-pod CPU usage in steps of equal length, from samples or generated.

A pod without a sample in a step is absent, unless it has samples in the steps before and after:
then a scrape was late.

A generated day is one of consumers of partitions, some of which are much busier than others: load
rises and falls with the hour, the weights of partitions follow Zipf's law, and partitions are
assigned to pods by number, as Kafka's assignors do. Each partition has a rhythm and a noise of its
own, so that the hottest pods change. Pure: the source of randomness is an argument.
"""

import itertools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence

import msgspec

from slackwater.rebalancer.observed import Cores, Seconds

#: Five minutes, as the default window and the schedule of the CronJob.
USUAL_STEP = Seconds(300.0)
#: A month in steps of five minutes has less than half of it.
MOST_STEPS = 20_000


class UsageSample(msgspec.Struct, frozen=True, gc=False):
    """One pod at one time, in seconds since 1970 or any other time."""

    at: float
    pod: str
    cores: Cores
    request: Cores


class PodLoad(msgspec.Struct, frozen=True, gc=False):
    """Usage and request of a pod in one step."""

    cores: Cores
    request: Cores


class Moment(msgspec.Struct, frozen=True):
    """One step, by pod; `at` is its beginning."""

    at: float
    loads: dict[str, PodLoad]

    @property
    def mean_request(self) -> Cores:
        return Cores(math.fsum(load.request for load in self.loads.values()) / len(self.loads))


class Day(msgspec.Struct, frozen=True):
    """`missing`: steps between the first and the last sample in which nothing was recorded."""

    step: Seconds
    moments: tuple[Moment, ...]
    missing: int = 0

    @property
    def pods(self) -> tuple[str, ...]:
        """All pods of the day, sorted."""
        return tuple(sorted({pod for moment in self.moments for pod in moment.loads}))


def sample_spacing(samples: Sequence[UsageSample]) -> Seconds:
    """The median time between two samples of a pod; zero if no pod has two."""
    by_pod: dict[str, list[float]] = {}
    for sample in samples:
        by_pod.setdefault(sample.pod, []).append(sample.at)
    apart = [
        later - earlier
        for times in map(sorted, by_pod.values())
        for earlier, later in itertools.pairwise(times)
    ]
    return Seconds(statistics.median(apart) if apart else 0.0)


def choose_step(samples: Sequence[UsageSample]) -> Seconds:
    """Five minutes, or the spacing of the samples if that is longer."""
    return Seconds(max(USUAL_STEP, math.ceil(sample_spacing(samples))))


def count_steps(samples: Sequence[UsageSample], step: Seconds) -> int:
    """From the first sample to the last."""
    times = [sample.at for sample in samples]
    return int((max(times) - min(times)) // step) + 1 if times else 0


def build_day(samples: Sequence[UsageSample], step: Seconds) -> Day:
    """The mean of each pod's samples in each step, and its last request."""
    if not samples:
        return Day(step, ())
    start = min(sample.at for sample in samples)
    places: list[dict[str, list[UsageSample]]] = [{} for _ in range(count_steps(samples, step))]
    for sample in sorted(samples, key=lambda each: (each.at, each.pod)):
        here = places[int((sample.at - start) // step)]
        here.setdefault(sample.pod, []).append(sample)
    binned = [{pod: _mean_load(found) for pod, found in sorted(place.items())} for place in places]
    filled = _fill_late_scrapes(binned)
    moments = [Moment(start + n * step, loads) for n, loads in enumerate(filled) if loads]
    return Day(step, tuple(moments), len(filled) - len(moments))


def _mean_load(samples: Sequence[UsageSample]) -> PodLoad:
    mean = math.fsum(sample.cores for sample in samples) / len(samples)
    return PodLoad(Cores(mean), samples[-1].request)


def _fill_late_scrapes(steps: Sequence[Mapping[str, PodLoad]]) -> list[dict[str, PodLoad]]:
    """A pod that is missing in a single step is taken to be as in the step before."""
    filled = [dict(loads) for loads in steps]
    for n in range(1, len(steps) - 1):
        late = steps[n - 1].keys() & steps[n + 1].keys() - steps[n].keys()
        filled[n] |= {pod: steps[n - 1][pod] for pod in late}
        filled[n] = dict(sorted(filled[n].items()))
    return filled


#: Uniformly distributed from 0 to 1.
Draw = Callable[[], float]

_HOUR = 3600.0
_DAY = 24 * _HOUR
#: The hour with the most load, and the load at night relative to it.
_BUSIEST, _NIGHT = 14.0, 0.45
#: How much a partition's own rhythm and its noise change its weight.
_RHYTHM, _NOISE = 0.5, 0.25
#: How much of a step's noise remains in the next one.
_MEMORY = 0.97


class DayShape(msgspec.Struct, frozen=True):
    """`skew`: exponent of Zipf's law; with 0 all partitions have the same weight. `busiest`: mean
    usage of a pod at the busiest hour."""

    pods: int = 12
    partitions: int = 60
    skew: float = 0.7
    hours: float = 24.0
    request: Cores = Cores(1.0)
    busiest: Cores = Cores(0.7)
    step: Seconds = USUAL_STEP


class _Partition(msgspec.Struct, frozen=True):
    """`late`: phase of its own rhythm, as a fraction of a day."""

    weight: float
    pod: str
    late: float


def generate_day(shape: DayShape, draw: Draw) -> Day:
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
        loads = {pod: PodLoad(Cores(used), shape.request) for pod, used in cores.items()}
        moments.append(Moment(at, loads))
    return Day(shape.step, tuple(moments))


def _partitions(shape: DayShape, draw: Draw) -> list[_Partition]:
    """Shuffled, then assigned to the pods in turn."""
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
    """Approximately normal with mean 0 and deviation 1: the sum of twelve uniform draws - 6."""
    return math.fsum(draw() for _ in range(12)) - 6
