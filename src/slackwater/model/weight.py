"""CPU shares (cgroup v1) and CPU weight (cgroup v2): the formulas between them.

Three formulas are in use. A weight only means something beside its neighbours' weights, so
ours must come from the formula that the kubelet and the runtime of this node apply: `evidence`
says which one explains what they wrote.
"""

import enum
import math
from collections.abc import Iterable
from typing import NewType

from slackwater.model.gap import Gap
from slackwater.model.units import MilliCpu, left_over, promised

Shares = NewType("Shares", int)
Weight = NewType("Weight", int)

SMALLEST_SHARES, LARGEST_SHARES = Shares(2), Shares(262_144)
SMALLEST_WEIGHT, LARGEST_WEIGHT = Weight(1), Weight(10_000)


class WeightFormula(enum.Enum):
    """How shares become a weight."""

    LINEAR = "linear"  # the kubelet, runc before 1.3.2, crun before 1.23
    QUADRATIC = "quadratic"  # runc and crun since then: 1024 shares become weight 100
    VOLCANO = "volcano"  # Volcano's agent: a tenth of the milliCPU


def shares_of(milli: MilliCpu) -> Shares:
    """The kubelet's MilliCPUToShares: milli x 1024 / 1000, between 2 and 262144."""
    return Shares(min(max(left_over(milli * 1024, 1000), SMALLEST_SHARES), LARGEST_SHARES))


def milli_of(shares: Shares) -> MilliCpu:
    """The smallest milliCPU whose shares reach these."""
    return MilliCpu(promised(shares * 1000, 1024))


def weight_of(shares: Shares, formula: WeightFormula) -> Weight:
    """cpu.weight of these cpu.shares, between 1 and 10000."""
    shares = Shares(min(max(shares, SMALLEST_SHARES), LARGEST_SHARES))
    match formula:
        case WeightFormula.LINEAR:
            return Weight(1 + (shares - 2) * 9999 // 262_142)
        case WeightFormula.QUADRATIC:
            return _quadratic(shares)
        case WeightFormula.VOLCANO:
            return _tenth(milli_of(shares))


def _quadratic(shares: Shares) -> Weight:
    """10^((l² + 125 l) / 612 - 7/34) with l = log2(shares), rounded up (opencontainers/cgroups)."""
    if shares == SMALLEST_SHARES:
        return SMALLEST_WEIGHT
    if shares == LARGEST_SHARES:
        return LARGEST_WEIGHT
    log = math.log2(shares)
    return Weight(math.ceil(10 ** ((log * log + 125 * log) / 612 - 7 / 34)))


def _tenth(milli: MilliCpu) -> Weight:
    return Weight(min(max(left_over(milli, 10), SMALLEST_WEIGHT), LARGEST_WEIGHT))


def weight_for(milli: MilliCpu, formula: WeightFormula) -> Weight:
    """cpu.weight of an amount of CPU."""
    if formula is WeightFormula.VOLCANO:
        return _tenth(milli)  # not through shares, which are coarser than a milliCPU
    return weight_of(shares_of(milli), formula)


def shares_from(weight: Weight, formula: WeightFormula) -> Shares:
    """The smallest cpu.shares that has this weight, or the next larger one, by this formula."""
    low, high = int(SMALLEST_SHARES), int(LARGEST_SHARES)
    while low < high:
        middle = (low + high) // 2
        if weight_of(Shares(middle), formula) < weight:
            low = middle + 1
        else:
            high = middle
    return Shares(low)


def evidence(samples: Iterable[tuple[Shares, Weight]]) -> WeightFormula | Gap:
    """The formula that explains best what the node's own writers made of known shares.

    Shares may be estimates: the formulas lie a factor of two apart at ordinary sizes, so the
    smallest sum of logarithmic errors decides. Weights of 1 speak for neither.
    """
    seen = [(shares, weight) for shares, weight in samples if weight > 1]
    if not seen:
        return Gap("no group with a CPU request was seen")

    def error(formula: WeightFormula) -> float:
        return sum(abs(math.log(weight / weight_of(shares, formula))) for shares, weight in seen)

    return min((WeightFormula.LINEAR, WeightFormula.QUADRATIC), key=error)
