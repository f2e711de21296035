"""How a value may move between ticks, and what it was: ramp, dead band, histogram. Pure.

A policy ramps from its own last claim, never from a reading, which mixes in everyone else.
"""

import math
from typing import Annotated

import msgspec
from msgspec import Meta

from slackwater.model.units import Micros, MilliCpu, Percent, percent


def ramp_towards(
    last: MilliCpu, goal: MilliCpu, recover: int, recover_from: int, floor: MilliCpu
) -> MilliCpu:
    """The next claim on the way to `goal`, in milliCPU.

    From below `recover_from` percent of the goal, or below `floor`, the least that the kernel
    grants, the first raise goes there: a part of next to nothing is next to nothing. From there
    on up by at most `recover` percent of the last claim, and at least by 1 m.
    """
    if goal <= last:
        return goal
    start = MilliCpu(max(floor, percent(recover_from).left_of(goal)))
    if last < start:
        return min(goal, start)
    return min(goal, MilliCpu(last + max(percent(recover).left_of(last), 1)))


def is_beyond_deadband(last: MilliCpu, now: MilliCpu, jitter: int) -> bool:
    """Whether the difference is at least `jitter` percent of the last value, and at least 1 m."""
    return abs(now - last) >= max(percent(jitter).left_of(last), 1)


#: Each bucket is this much wider than the one before: a percentile is exact to 5 %.
_GROWTH = 1.05
#: A bucket with less weight than this part of all is dropped, so that few are kept.
_LEAST_SHARE = 1e-6


class DecayingHistogram(msgspec.Struct, frozen=True, array_like=True):
    """How often a value was how large, where what is long ago counts less: half after each
    half-life. Buckets grow by 5 %, the first is `first` wide; those without weight are not kept.
    """

    first: Annotated[int, Meta(ge=1)]
    #: Bucket and weight, in the order of the buckets.
    weights: tuple[
        tuple[Annotated[int, Meta(ge=0, le=2_000)], Annotated[float, Meta(gt=0)]], ...
    ] = ()

    def add(self, value: int, elapsed: Micros, half_life: Micros) -> "DecayingHistogram":
        """With one more value of weight 1, `elapsed` after the last one."""
        weights = dict(self.age(elapsed, half_life).weights)
        bucket = self._bucket(value)
        weights[bucket] = weights.get(bucket, 0.0) + 1.0
        least = _LEAST_SHARE * sum(weights.values())
        return DecayingHistogram(
            self.first, tuple(sorted(each for each in weights.items() if each[1] >= least))
        )

    def age(self, elapsed: Micros, half_life: Micros) -> "DecayingHistogram":
        """As it is once nothing was added for that long."""
        kept = 0.5 ** (max(elapsed, 0) / half_life)
        return DecayingHistogram(
            self.first, tuple((bucket, weight * kept) for bucket, weight in self.weights)
        )

    def weight(self) -> float:
        """How many values still count."""
        return sum(weight for _, weight in self.weights)

    def percentile(self, share: Percent) -> int | None:
        """The end of the bucket below which that share of the weight is; None of nothing."""
        left = self.weight() * share / 100
        end: int | None = None
        for bucket, weight in self.weights:
            end, left = self._end(bucket), left - weight
            if left <= 0:
                break
        return end

    def _bucket(self, value: int) -> int:
        """The ends form a geometric series: first x (growth^(n + 1) - 1) / (growth - 1)."""
        scaled = 1 + max(value, 0) * (_GROWTH - 1) / self.first
        return int(math.log(scaled) / math.log(_GROWTH))

    def _end(self, bucket: int) -> int:
        return math.ceil(self.first * (_GROWTH ** (bucket + 1) - 1) / (_GROWTH - 1))
