"""Keeps quotas on cgroup v1 within those of the groups above them.

The v1 kernel refuses a quota above its parent's (tg_cfs_schedulable_down in kernel/sched/core.c);
v2 applies the smaller of the two by itself. With `most`, the quota above, and `may`, the smaller of
that and what was asked for:

    up to 8 groups below it     granted = may
    more than 8, in steps       granted = what was asked for, if that is <= 7/8 most;
                                          what stands there, if 3/4 may <= that <= may;
                                          else 7/8 most

In steps a small move of the quota above does not rewrite hundreds of files at each tick. Cuts are
made at once; raises wait for every fifth tick, because where a quota swings widely each raise would
be followed by a cut.

Laws (property-tested): no quota exceeds one above it; none is more than was asked for; at rest none
is more than two steps below what it may have; the quotas that bind are as they were.
"""

from collections.abc import Mapping
from functools import lru_cache

import msgspec

from slackwater.model.cgroup import CgroupVersion
from slackwater.model.decision import Because, Contribution, Grant, Verb
from slackwater.model.knob import QUOTA
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import (
    Bandwidth,
    MilliCpu,
    Ratio,
    Unlimited,
    left_over,
    smallest_milli,
)
from slackwater.resolution.quota import quota_amount

#: Up to this many groups follow exactly: the cost of as many writes could not be measured.
FEW = 8
#: One step, and two steps, below what binds.
STEP, TWO_STEPS = Ratio(7, 8), Ratio(3, 4)

#: Groups that follow in steps are raised in every fifth tick.
RAISED_EVERY = 5

_Amount = MilliCpu | int | Unlimited
_How = tuple[str, str, _Amount, str]


class _Bound(msgspec.Struct, frozen=True):
    """A quota that binds what is below it: where, how much, and who asked for it. `top` is the
    uppermost one that it follows itself, or its own path."""

    path: str
    most: MilliCpu | int
    by: str
    top: str


class Nester:
    """Holds grants to those above them, tick after tick. A grant that is bound as before is the
    same object as before, so that whoever compares grants by identity has nothing to do. The result
    is that of a new Nester."""

    def __init__(self) -> None:
        self._targets: tuple[int, ...] = ()
        #: Parents before children, each with the groups above it, nearest first.
        self._order: tuple[tuple[int, tuple[str, ...]], ...] = ()
        #: By the path of a group, how many of the targets are below it.
        self._crowds: dict[str, int] = {}
        #: By target and the group that binds it: what was asked for, how it is bound, the grant.
        self._bound: dict[tuple[int, str], tuple[Grant, _How, Grant]] = {}

    def nest(self, snapshot: NodeSnapshot, grants: dict[int, Grant]) -> dict[int, Grant]:
        """The same grants, each within those above it; by the target's id."""
        if snapshot.version is not CgroupVersion.V1 or not grants:
            return grants
        self._arrange(grants)
        bounds = _standing(snapshot, grants)
        ours = _ours(snapshot)
        found: dict[int, Grant] = {}
        for target, above in self._order:
            grant = grants[target]
            for path in above:
                if path in bounds:
                    crowded = self._crowds[path] > FEW
                    stands = ours.get(target) if crowded else None
                    law = _in_steps if crowded else _exactly
                    value = law(quota_amount(grant), bounds[path].most, stands)
                    if stands is not None and snapshot.tick % RAISED_EVERY:
                        value = _exactly(value, stands, None)
                    if value != grant.value:
                        grant = self._bind(grant, bounds[path], value)
            found[target] = grant
            amount = quota_amount(grant)
            if not isinstance(amount, Unlimited):
                path, by = grant.target.path, grant.contributions[-1].by
                bounds[path] = _Bound(path, amount, by, grant.follows or path)
        return found

    def _arrange(self, grants: Mapping[int, Grant]) -> None:
        targets = tuple(grants)
        if targets == self._targets:
            return
        self._targets, self._crowds, self._bound = targets, {}, {}
        ordered = sorted(grants.values(), key=lambda each: each.target.depth())
        self._order = tuple((each.target.id, _above(each.target.path)) for each in ordered)
        for _, above in self._order:
            for path in above:
                self._crowds[path] = self._crowds.get(path, 0) + 1

    def _bind(self, grant: Grant, bound: _Bound, value: _Amount) -> Grant:
        """The same with what binds it from above as its last contribution: explain names who."""
        because = _because(bound, value)
        key, how = (grant.target.id, bound.path), (bound.by, bound.top, value, because.seen)
        known = self._bound.get(key)
        if known is not None and known[0] is grant and known[1] == how:
            return known[2]
        step = Contribution(bound.by, Verb.CAP, value, value, because)
        made = msgspec.structs.replace(
            grant,
            value=value,
            contributions=(*grant.contributions, step),
            clipped_by=bound.by,
            follows=bound.top,
        )
        self._bound[key] = (grant, how, made)
        return made


def _because(bound: _Bound, value: _Amount) -> Because:
    """Without the quota above where that is only near: it moves at each tick, and hundreds of
    grants would be others because of their reasons alone. It is explained at its own group."""
    signal = f"the quota of {bound.path}"
    if value == bound.most:
        return Because(signal, f"{bound.most}m", "cgroup v1 nests")
    return Because(signal, "is above this", "cgroup v1 nests; many follow in steps")


def _standing(snapshot: NodeSnapshot, grants: Mapping[int, Grant]) -> dict[str, _Bound]:
    """The quotas above which no intent changes, by path: another writer's, or what an earlier run
    left and is kept for now."""
    by = "what stands above it"
    return {
        (path := reading.ref.path): _Bound(path, _milli(reading.quota), by, path)
        for reading in snapshot.readings.values()
        if reading.ref.id not in grants
        and isinstance(reading.quota, Bandwidth)
        and not isinstance(reading.quota.limit, Unlimited)
    }


def _ours(snapshot: NodeSnapshot) -> dict[int, MilliCpu]:
    """The quotas that stand as we wrote them, by id; not those of another writer."""
    found: dict[int, MilliCpu] = {}
    for held in snapshot.held:
        reading = snapshot.readings.get(held.ref.id) if held.knob == QUOTA.name else None
        quota = None if reading is None else reading.quota
        limited = isinstance(quota, Bandwidth) and not isinstance(quota.limit, Unlimited)
        if isinstance(quota, Bandwidth) and limited and quota == held.ours:
            found[held.ref.id] = _milli(quota)
    return found


def _milli(quota: Bandwidth) -> MilliCpu:
    """Rounded down: what was written for an amount is that amount again."""
    if isinstance(quota.limit, Unlimited):
        raise TypeError("an unlimited quota is not an amount")
    return MilliCpu(left_over(quota.limit * 1000, quota.period))


@lru_cache(maxsize=4096)
def _above(path: str) -> tuple[str, ...]:
    """The paths of all groups above this one, nearest first. The same hundreds are asked for."""
    above = path.rpartition("/")[0]
    return (above, *_above(above)) if above else ()


def _exactly(asked: _Amount, most: MilliCpu | int, _: MilliCpu | None) -> _Amount:
    return most if isinstance(asked, Unlimited) or asked > most else asked


def _in_steps(asked: _Amount, most: MilliCpu | int, stands: MilliCpu | None) -> _Amount:
    """What is asked for if there is a step of room above it; what stands there, if that is near
    enough; else a step below what binds."""
    below = max(STEP.left_of(most), min(smallest_milli(), most))
    if not isinstance(asked, Unlimited) and asked <= below:
        return asked
    may = _exactly(asked, most, None)
    if isinstance(may, Unlimited):
        return may
    if stands is not None and TWO_STEPS.of(may) <= stands <= may:
        return stands
    return may if may == asked else below
