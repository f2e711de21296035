"""The quota law: how all intents about one quota become one value.

    granted = max(floor, min(caps, (base + largest raise) x scale), 1 ms)

Laws (property-tested): the order of intents does not matter; a cap never raises; a raise or a
floor never lowers; no intents means the baseline.
"""

from collections.abc import Sequence
from typing import Literal

from slackwater.model.cgroup import CgroupRef
from slackwater.model.cpus import CpuSet
from slackwater.model.decision import Contribution, Grant, Intent, IntentValue, Verb
from slackwater.model.knob import QUOTA
from slackwater.model.units import (
    SMALLEST_QUOTA,
    UNLIMITED,
    Bandwidth,
    Micros,
    MilliCpu,
    Ratio,
    Unlimited,
    bandwidth,
    promised,
    smallest_milli,
)

Amount = MilliCpu | Unlimited

#: Verbs in the order in which the law applies them; SET, which it refuses, is last.
_ORDER = (Verb.BASE, Verb.RAISE, Verb.SCALE, Verb.CAP, Verb.FLOOR, Verb.SET)


def grant_quota(target: CgroupRef, baseline: Amount, intents: Sequence[Intent]) -> Grant:
    """`baseline` is what the cgroup has without us; a BASE intent replaces it."""
    value: Amount = baseline
    exact: Ratio | None = None
    steps: list[Contribution] = []
    clipped_by: str | None = None
    contest: str | None = None
    for intent in sorted(_deciding(intents), key=_sort_key):
        before = value
        exact = _scale_exactly(intent, value, exact)
        value = _apply(intent, value) if exact is None else MilliCpu(exact.of(1))
        steps.append(Contribution(intent.by, intent.verb, intent.value, value, intent.because))
        if intent.verb is Verb.CAP and value != before:
            clipped_by = intent.by
        if intent.verb is Verb.FLOOR and value != before and clipped_by:
            contest = f"{intent.by}'s floor beats {clipped_by}'s cap"
    smallest = smallest_milli()
    if not isinstance(value, Unlimited) and value < smallest:
        value, exact, clipped_by = smallest, None, "the kernel's smallest quota"
    return Grant(target, QUOTA.name, value, tuple(steps), clipped_by, contest, exact=exact)


def _scale_exactly(intent: Intent, value: Amount, exact: Ratio | None) -> Ratio | None:
    """The exact value after a SCALE, as long as no cap or floor decides instead. None where the
    value itself is exact."""
    if isinstance(value, Unlimited):
        return None
    if intent.verb is Verb.SCALE and isinstance(intent.value, Ratio):
        base = exact or Ratio(value)
        ratio = intent.value
        return Ratio(base.numerator * ratio.numerator, base.denominator * ratio.denominator)
    if exact is None or not isinstance(intent.value, int):
        return exact if isinstance(intent.value, Unlimited) and intent.verb is Verb.CAP else None
    limit = intent.value * exact.denominator
    stays = exact.numerator <= limit if intent.verb is Verb.CAP else exact.numerator >= limit
    return exact if stays else None


def quota_amount(granted: Grant) -> Amount:
    """The value of a quota's grant."""
    match granted.value:
        case Unlimited() as unlimited:
            return unlimited
        case int() as milli:
            return MilliCpu(milli)
        case CpuSet():
            raise TypeError(f"{granted.knob} of {granted.target.path} is not a quota")


def quota_value(amount: Amount, period: Micros) -> Bandwidth:
    """An amount in a group's own period."""
    if isinstance(amount, Unlimited):
        return Bandwidth(amount, period)
    return bandwidth(amount, period)


def granted_quota(granted: Grant, period: Micros) -> Bandwidth:
    """A granted quota in a group's own period: where it was scaled, to the microsecond."""
    if granted.exact is None:
        return quota_value(quota_amount(granted), period)
    exact = granted.exact
    limit = promised(exact.numerator * period, exact.denominator * 1000)
    return Bandwidth(Micros(max(limit, SMALLEST_QUOTA)), period)


def micro_amount(granted: Grant) -> int | None:
    """In thousandths of a milliCPU, to be compared; None where it is unlimited."""
    amount = quota_amount(granted)
    if isinstance(amount, Unlimited):
        return None
    return amount * 1000 if granted.exact is None else granted.exact.of(1000)


def _deciding(intents: Sequence[Intent]) -> list[Intent]:
    """All intents but the raises that a larger one beats: raises do not add up."""
    raises = [intent for intent in intents if intent.verb is Verb.RAISE]
    largest = max(raises, key=lambda i: (_number(i.value), _tie(i)), default=None)
    return [i for i in intents if i.verb is not Verb.RAISE or i is largest]


def _sort_key(intent: Intent) -> tuple[int, float, tuple[str, ...]]:
    """Of two bases the larger one stays: a pod is never given less than one of them promised."""
    return _ORDER.index(intent.verb), _number(intent.value), _tie(intent)


def _tie(intent: Intent) -> tuple[str, ...]:
    because = intent.because
    return intent.by, because.signal, because.seen, because.limit, repr(intent.value)


def _number(value: IntentValue) -> float:
    match value:
        case Unlimited() | CpuSet():  # _apply refuses a set of CPUs
            return float("inf")
        case Ratio(numerator, denominator):
            return numerator / denominator
        case milli:
            return milli


def _apply(intent: Intent, value: Amount) -> Amount:
    match intent.verb, intent.value:
        case Verb.SCALE, Ratio() as ratio:
            return value if isinstance(value, Unlimited) else MilliCpu(ratio.of(value))
        case _, Ratio() | CpuSet():
            raise TypeError(f"{intent.by}: only SCALE takes a ratio, and no quota a set of CPUs")
        case Verb.SCALE, _:
            raise TypeError(f"{intent.by}: SCALE takes a ratio")
        case Verb.SET, _:
            raise TypeError(f"{intent.by}: SET is not a verb of a quota")
        case verb, asked:
            amount = asked if isinstance(asked, Unlimited) else MilliCpu(asked)
            return _apply_amount(verb, amount, value)


def _apply_amount(
    verb: Literal[Verb.BASE, Verb.RAISE, Verb.CAP, Verb.FLOOR], amount: Amount, value: Amount
) -> Amount:
    match verb:
        case Verb.BASE:
            return amount
        case Verb.RAISE:
            if isinstance(value, Unlimited) or isinstance(amount, Unlimited):
                return UNLIMITED
            return MilliCpu(value + max(amount, 0))
        case Verb.CAP:
            return min(value, amount, key=_number)
        case Verb.FLOOR:
            return max(value, amount, key=_number)
