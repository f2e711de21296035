"""What `slackwater rebalance simulate` is told beside a workload's own settings.

Owns their bounds, defaults and prose.
"""

from slackwater.settings.bound import Bound, Unit
from slackwater.settings.real import Real
from slackwater.settings.setting import split_words

Told = Bound | Real

_SECOND = 1_000_000
_MINUTE = 60 * _SECOND
_MOST_SEED = 2**63 - 1

PODS = Bound("pods", 12, 2, 1000, Unit.COUNT, "How many pods a generated day has.")
PARTITIONS = Bound(
    "partitions", 60, 1, 10_000, Unit.COUNT,
    "What they consume: dealt to the pods by number, as Kafka's assignors do.",
)  # fmt: skip
SKEW = Real(
    "skew", 0.7, 0.0, 3.0,
    "How unequal partitions are: Zipf's exponent. 0: all weigh the same.",
)  # fmt: skip
HOURS = Real("hours", 24.0, 1.0, 168.0, "How long a generated day is.")
SEED = Bound("seed", 0, 0, _MOST_SEED, Unit.COUNT, "Of all chance: the same seed, the same day.")
#: Those that say nothing about a recording.
OF_A_GENERATED_DAY: tuple[Told, ...] = (PODS, PARTITIONS, SKEW, HOURS, SEED)

REQUEST = Real(
    "request", 1.0, 0.001, 10_000.0,
    "What a pod asks for, in cores: of a generated day's pods, and of those of which a recording "
    "does not say it.",
)  # fmt: skip
HPA_TARGET = Real(
    "hpaTarget", 70.0, 1.0, 1000.0, "The HPA's target, in percent of the request.", unit=" %"
)
HPA_AVERAGE_VALUE = Real(
    "hpaAverageValue", 0.7, 0.001, 10_000.0, "The HPA's target, in cores for each pod, instead."
)
STICKINESS = Real(
    "stickiness", 0.0, 0.0, 1.0,
    "The part of a rotated pod's load that goes to its own successor, as a hot key does. 0: all "
    "is dealt anew; 1: rotating changes nothing.",
)  # fmt: skip
STEP = Bound(
    "step", 5 * _MINUTE, 10 * _SECOND, 24 * 60 * _MINUTE, Unit.DURATION,
    "How often it looks, as the CronJob's schedule.",
)  # fmt: skip
ALL: tuple[Told, ...] = (
    *OF_A_GENERATED_DAY, REQUEST, HPA_TARGET, HPA_AVERAGE_VALUE, STICKINESS, STEP,
)  # fmt: skip


def flag_of(told: Told) -> str:
    return "--" + "-".join(split_words(told.name))


def variable_of(told: Told) -> str:
    return "SLACKWATER_REBALANCE_SIMULATE_" + "_".join(split_words(told.name)).upper()


def default_of(told: Told) -> str:
    """For people."""
    if told is HPA_AVERAGE_VALUE:
        return "none"
    match told:
        case Real(default=number):
            return told.shown(number)
        case Bound(default=count):
            return told.shown(count)
