"""How much of one resource is offered: from what a tick sees of it, and what came before.

    unreclaimable = max(used + exclusive idle - used by elastic pods, predicted)
    budget        = (allocatable x (1 - reserve) - unreclaimable) x worth, at least 0
    claim         = budget where that fell, a step towards it where it rose
    offered       = claim in whole units, at least what is allocated

Everything is exact, in milliCPU or bytes, until the offer. What is measured (usage, forecast,
allocatable) counts CPUs of this machine, and what is offered counts CPU as pods declare it: where
CPU is normalized, one is worth more than one of the other, and the budget is the one place to
convert.
"""

import msgspec

from slackwater.model.decision import OfferReport
from slackwater.model.gap import Gap
from slackwater.model.units import (
    Micros,
    Percent,
    Ratio,
    format_age,
    left_over,
    percent,
    promised,
)
from slackwater.signals import DecayingHistogram

#: Usage is kept as the average of each such span.
SPAN = Micros(60_000_000)
_HISTORY = "own history"
TIME_SERIES_PREDICTION = "TimeSeriesPrediction"


class OfferRules(msgspec.Struct, frozen=True):
    """The settings that one resource's offer goes by."""

    dead_band: Percent
    raise_step: Percent
    raise_interval: Micros
    stale_after: Micros
    percentile: Percent
    margin: Percent
    half_life: Micros
    warm_up: Micros


class UseHistory(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was unreclaimable: the averages of minutes that are over, and the minute that is not:
    when it began, the values of its ticks together, and how many."""

    minutes: DecayingHistogram
    since: Micros | None = None
    total: int = 0
    ticks: int = 0

    def add(self, value: int, at: Micros, half_life: Micros) -> "UseHistory":
        since = at if self.since is None else self.since
        total, ticks = self.total + value, self.ticks + 1
        if at - since < SPAN:
            return UseHistory(self.minutes, since, total, ticks)
        minutes = self.minutes.add(promised(total, ticks), Micros(at - since), half_life)
        return UseHistory(minutes, at)

    def covers(self) -> Micros:
        """How much time it still remembers, as what is forgotten does not count."""
        return Micros(round(self.minutes.weight()) * SPAN)

    def peak(self, share: Percent, margin: Percent) -> int | None:
        """A percentile of the minutes and what is added to it; before the first is over the one
        that runs. None of nothing."""
        found = self.minutes.percentile(share)
        if found is None and self.ticks:
            found = promised(self.total, self.ticks)
        return None if found is None else percent(100 + margin).of(found)


class OfferMemory(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of one resource. `claim` is exact; `offered` is what is asked for, in the resource's own
    units; both are None until something is known. `moved_at` is when the claim last changed,
    `known_at` when usage or a prediction was last known, `predicted` what the tick before
    predicted."""

    history: UseHistory
    claim: int | None = None
    offered: int | None = None
    moved_at: Micros | None = None
    known_at: Micros | None = None
    predicted: int | None = None
    exceeded: int = 0
    #: What was unreclaimable when usage was last known.
    unreclaimable: int | None = None


class ResourceLook(msgspec.Struct, frozen=True):
    """What one tick sees of one resource: amounts in milliCPU or bytes, but `allocated` and
    `shown`, which are as the Node has them. One of these is `scale` of the others.

    `shown` is None where the Node does not have the resource.
    """

    resource: str
    unit: str
    scale: int
    allocatable: int | Gap
    reserve: Ratio
    used: int | Gap
    exclusive_idle: int | Gap
    elastic_used: int | Gap
    forecast: int | Gap
    allocated: int = 0
    shown: int | None = None
    #: What one of the machine's own is worth as pods declare it.
    worth: Ratio = Ratio(1)
    #: What pods that have bought some, and ended since the tick before, used then.
    ended_used: int = 0

    def unreclaimable(self) -> int | Gap:
        """Now. What elastic pods use is sold already."""
        if isinstance(self.used, Gap):
            return self.used
        if isinstance(self.exclusive_idle, Gap):
            return self.exclusive_idle
        if isinstance(self.elastic_used, Gap):
            return self.elastic_used
        return max(self.used + self.exclusive_idle - self.elastic_used, 0)

    def with_ended(self, before: int | None) -> "ResourceLook":
        """With what the pods that ended since the tick before may have used of `used`, which nobody
        knows: as much of it as leaves what is unreclaimable as it was."""
        now = self.unreclaimable()
        if isinstance(now, Gap) or isinstance(self.elastic_used, Gap) or before is None:
            return self
        theirs = min(self.ended_used, max(now - before, 0))
        return msgspec.structs.replace(self, elastic_used=self.elastic_used + theirs)


class _Basis(msgspec.Struct, frozen=True):
    """What the budget is worked out from. `raises`: whether enough is known to offer more."""

    budget: int | None
    predicted: int | None
    source: str
    raises: bool
    missing: str


def next_offer(
    look: ResourceLook, before: OfferMemory, rules: OfferRules, at: Micros, *, early: bool = False
) -> tuple[OfferReport, OfferMemory]:
    """The offer of this tick and the memory after it. An early look offers no more than before."""
    look = look.with_ended(before.unreclaimable)
    now = look.unreclaimable()
    history = before.history
    if not isinstance(now, Gap) and not early:
        history = history.add(now, at, rules.half_life)
    basis = _basis(look, now, history, rules)
    known_at = at if basis.budget is not None or before.known_at is None else before.known_at
    last = _standing(look, before)
    claim, is_settled = last, before.claim is not None
    if basis.budget is not None:
        is_settled = True
        waited = before.moved_at is None or at - before.moved_at >= rules.raise_interval
        may_raise = basis.raises and waited and not early
        claim = _next_claim(look, last, basis.budget, rules, may_raise=may_raise)
    elif at - known_at >= rules.stale_after:
        claim, is_settled = 0, True
    offered = _whole_units(look, claim, before.offered, rules)
    is_above = not isinstance(now, Gap) and before.predicted is not None and now > before.predicted
    memory = OfferMemory(
        history,
        claim if is_settled else None,
        offered if is_settled else None,
        at if claim != last else before.moved_at,
        known_at,
        basis.predicted,
        before.exceeded + is_above,
        before.unreclaimable if isinstance(now, Gap) else now,
    )
    return _report(look, basis, memory), memory


def _basis(look: ResourceLook, now: int | Gap, history: UseHistory, rules: OfferRules) -> _Basis:
    predicted, source, missing = _predict(look.forecast, history, rules)
    has_forecast = not isinstance(look.forecast, Gap)
    if isinstance(look.allocatable, Gap):
        return _Basis(None, predicted, source, False, look.allocatable.reason)
    if isinstance(now, Gap) and not has_forecast:
        return _Basis(None, predicted, source, False, f"usage is not known: {now.reason}")
    known = [each for each in (now, predicted) if isinstance(each, int)]
    kept = Ratio(look.reserve.denominator - look.reserve.numerator, look.reserve.denominator)
    budget = look.worth.left_of(max(kept.left_of(look.allocatable) - max(known), 0))
    if isinstance(now, Gap):
        missing = f"usage is not known: {now.reason}"
    return _Basis(budget, predicted, source, not missing, missing)


def _predict(
    forecast: int | Gap, history: UseHistory, rules: OfferRules
) -> tuple[int | None, str, str]:
    """The prediction, where it is from, and why more may not be offered by it."""
    if not isinstance(forecast, Gap):
        return forecast, TIME_SERIES_PREDICTION, ""
    peak, covers = history.peak(rules.percentile, rules.margin), history.covers()
    source = f"{_HISTORY} of {format_age(covers)}"
    if covers < rules.warm_up:
        lacks = f"{_HISTORY} has {format_age(covers)} of {format_age(rules.warm_up)}"
        return peak, source, f"no prediction yet: {lacks}; {forecast.reason}"
    return peak, source, ""


def _standing(look: ResourceLook, before: OfferMemory) -> int:
    """The last claim; after a restart what the run before offered, so that neither the ramp is
    skipped nor the offer taken away."""
    if before.claim is not None:
        return before.claim
    return (look.shown or 0) * look.scale


def _next_claim(
    look: ResourceLook, last: int, budget: int, rules: OfferRules, *, may_raise: bool
) -> int:
    """A cut is made at once. One that is smaller than the dead band, and would be told, goes half
    of the band deeper: what wavers around a value is told once."""
    if budget >= last:
        if not may_raise or isinstance(look.allocatable, Gap):
            return last
        whole = look.worth.left_of(look.allocatable)
        return min(budget, last + max(percent(rules.raise_step).left_of(whole), 1))
    band = percent(rules.dead_band).left_of(last)
    is_told = budget // look.scale < last // look.scale
    return max(budget - band // 2, 0) if is_told and last - budget <= band else budget


def _whole_units(look: ResourceLook, claim: int, before: int | None, rules: OfferRules) -> int:
    """Rounded down, as what is left for others is. A raise within the dead band is not made. What
    pods have been given is offered whatever the claim: the kubelet checks it when it restarts."""
    whole = left_over(claim, look.scale)
    if before is not None and whole > before:
        stood = before * look.scale
        if claim - stood <= percent(rules.dead_band).left_of(stood):
            whole = before
    return max(whole, look.allocated)


def _report(look: ResourceLook, basis: _Basis, memory: OfferMemory) -> OfferReport:
    return OfferReport(
        resource=look.resource,
        unit=look.unit,
        scale=look.scale,
        offered=max(memory.offered or 0, look.allocated),
        allocated=look.allocated,
        allocatable=_known(look.allocatable),
        reserve=look.reserve.of(1000),
        worth=look.worth.of(100),
        used=_known(look.used),
        exclusive_idle=_known(look.exclusive_idle) or 0,
        elastic_used=_known(look.elastic_used) or 0,
        predicted=basis.predicted,
        forecast=basis.source,
        budget=basis.budget,
        claim=memory.claim or 0,
        shown=look.shown,
        exceeded=memory.exceeded,
        missing=basis.missing,
    )


def _known(amount: int | Gap) -> int | None:
    return None if isinstance(amount, Gap) else amount
