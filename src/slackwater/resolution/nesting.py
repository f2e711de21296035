"""Keeps quotas on cgroup v1 within those of the groups above them.

The v1 kernel refuses a quota above its parent's, but accepts none at all at any time
(tg_cfs_schedulable_down in kernel/sched/core.c); v2 applies the smaller of the two by itself. With
`most`, the smallest quota above a group:

    granted = what was asked for, if that is <= most
              unlimited, else: the quota above binds it, exactly

So a quota that moves rewrites only the groups whose own it passes. It passes many at once where
many ask for the same; then writing them costs CPU, which is part of what moves a best-effort quota.
Cuts are made at once all the same. A raise that would pass more than AT_ONCE of them stops below
them, and goes on in one of so many ticks that it is no more than AT_ONCE of them a tick.

Laws (property-tested): no quota exceeds one above it; together with those above it none is more
than was asked for, nor less than that and what binds it; a quota that is held back is raised within
the ticks that raises_now counts.
"""

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from heapq import heapify, heappop, heappush

import msgspec

from slackwater.model.cgroup import CgroupReading, CgroupVersion
from slackwater.model.decision import Because, Contribution, Grant, Verb
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import (
    UNLIMITED,
    Bandwidth,
    MilliCpu,
    Unlimited,
    left_over,
)
from slackwater.resolution.quota import micro_amount

#: So many groups are written at any tick: about 5 ms of CPU where a thousand pods are (measured).
AT_ONCE = 50
#: Of so many ticks at least, a raise that passes more of them is made in one.
RAISED_EVERY = 5

_NOT_SET = "cgroup v1 nests: none is set here"
_BELOW = "groups below it"


def raises_now(snapshot: NodeSnapshot) -> bool:
    """Whether quotas are raised past many groups in this tick."""
    return snapshot.tick % _raised_every(snapshot) == 0


def _raised_every(snapshot: NodeSnapshot) -> int:
    return max(RAISED_EVERY, len(snapshot.readings) // AT_ONCE)


class _Bound(msgspec.Struct, frozen=True):
    """A quota that binds what is below it: where, how much (as all amounts here, in thousandths of
    a milliCPU: what was scaled is no whole one), and who asked for it. `top` is the uppermost one
    that it follows itself, or its own path."""

    path: str
    most: int
    by: str
    top: str


class Nester:
    """Holds grants to those above them, tick after tick. What did not move is not looked at again,
    and a grant that is bound as before is the same object as before, so that whoever compares
    grants by identity has nothing to do. The result is that of a new Nester."""

    def __init__(self) -> None:
        #: By the target's id, as all that follow: what was asked for, and the same within what is
        #: above it.
        self._asked: dict[int, Grant] = {}
        self._granted: dict[int, Grant] = {}
        #: What was asked for as an amount, where it is limited.
        self._amounts: dict[int, int] = {}
        #: Its place among parents before children, and the groups above it, nearest first.
        self._order: dict[int, tuple[int, tuple[str, ...]]] = {}
        #: By path, the targets below it.
        self._below: dict[str, list[int]] = {}
        #: Targets with more than AT_ONCE below them.
        self._crowded: tuple[int, ...] = ()
        #: By path: the quotas that bind; and where nobody asks to change them.
        self._bounds: dict[str, _Bound] = {}
        self._standing: frozenset[str] = frozenset()
        #: What was asked for and what binds it (by whom, where, top), of the grant that it became.
        self._bound: dict[int, tuple[Grant, tuple[str, str, str], Grant]] = {}

    def nest(self, snapshot: NodeSnapshot, asked: Mapping[int, Grant]) -> Mapping[int, Grant]:
        """The same grants, each within those above it; by the target's id."""
        if snapshot.version is not CgroupVersion.V1:
            return asked
        self._arrange(asked)
        self._asked = dict(asked)
        self._bounds = _standing(snapshot, asked)
        self._standing = frozenset(self._bounds)
        self._amounts = {
            target: amount
            for target, grant in asked.items()
            if (amount := micro_amount(grant)) is not None
        }
        for target in self._order:
            self._nest(snapshot, target)
        return self._granted

    def nest_moved(
        self, snapshot: NodeSnapshot, moved: Mapping[int, Grant | None]
    ) -> Mapping[int, Grant]:
        """After nest(): those that may be others because of these targets, of which something else
        is asked for or their knobs read otherwise; None of a group that nobody asks about."""
        if snapshot.version is not CgroupVersion.V1:
            return {target: grant for target, grant in moved.items() if grant is not None}
        if not self._is_as_arranged(snapshot, moved):
            return self.nest(snapshot, {**self._asked, **_without_none(moved)})
        for target, grant in _without_none(moved).items():
            self._asked[target] = grant
            self._amounts.pop(target, None)
            if (amount := micro_amount(grant)) is not None:
                self._amounts[target] = amount
        found: dict[int, Grant] = {}
        due = [(self._order[each][0], each) for each in {*_without_none(moved), *self._crowded}]
        heapify(due)
        while due:
            target = heappop(due)[1]
            if target not in found:
                for each in self._nest(snapshot, target):
                    heappush(due, (self._order[each][0], each))
                found[target] = self._granted[target]
        return found

    def _is_as_arranged(self, snapshot: NodeSnapshot, moved: Mapping[int, Grant | None]) -> bool:
        """Whether no quota that nobody asks to change is another."""
        for target, grant in moved.items():
            reading = snapshot.readings.get(target)
            path = reading.ref.path if reading is not None else ""
            if grant is None and (_limit(reading) is not None or path in self._standing):
                return False
            if grant is not None and target not in self._order:
                return False
        return True

    def _arrange(self, asked: Mapping[int, Grant]) -> None:
        if asked.keys() == self._asked.keys():
            return
        self._bound, self._granted, self._below = {}, {}, {}
        ordered = sorted(asked.values(), key=lambda each: each.target.depth())
        self._order = {
            each.target.id: (place, _above(each.target.path)) for place, each in enumerate(ordered)
        }
        for target, (_, above) in self._order.items():
            for path in above:
                self._below.setdefault(path, []).append(target)
        self._crowded = tuple(
            each.target.id
            for each in ordered
            if len(self._below.get(each.target.path, ())) > AT_ONCE
        )

    def _nest(self, snapshot: NodeSnapshot, target: int) -> Iterable[int]:
        """Grants one, and tells those below it for which the quota above moved past their own."""
        asked = self._asked[target]
        path, by = asked.target.path, asked.contributions[-1].by
        before = self._bounds.pop(path, None)
        bound = _tightest(self._bounds, self._order[target][1])
        amount, follows = self._amounts.get(target), ""
        if amount is not None and bound is not None and amount > bound.most:
            self._granted[target] = self._bind(asked, bound)
        else:
            grant = asked
            if target in self._crowded and not raises_now(snapshot):
                grant = self._hold_back(snapshot, grant)
            if bound is not None and amount is not None and _is_unset(snapshot, target):
                follows = bound.top
                grant = msgspec.structs.replace(grant, follows=follows)
            self._granted[target] = grant
            most = micro_amount(grant)
            if most is not None:
                self._bounds[path] = _Bound(path, most, by, follows or path)
        return self._passed(path, before, self._bounds.get(path))

    def _passed(self, path: str, before: _Bound | None, now: _Bound | None) -> Iterable[int]:
        below = self._below.get(path, ())
        if before == now or not below:
            return ()
        if before is None or now is None or (before.by, before.top) != (now.by, now.top):
            return below
        if any(each.startswith(f"{path}/") for each in self._standing):
            return below  # which of the two binds may be another
        low, high = sorted((before.most, now.most))
        amounts = self._amounts
        return [each for each in below if low < amounts.get(each, 0) <= high]

    def _hold_back(self, snapshot: NodeSnapshot, grant: Grant) -> Grant:
        """As far as a raise goes in a tick in which it does not pass more than AT_ONCE groups."""
        stands, amount = _limit(snapshot.readings.get(grant.target.id)), micro_amount(grant)
        if stands is None or (amount is not None and amount <= stands):
            return grant
        high = math.inf if amount is None else amount
        amounts = self._amounts
        below = self._below[grant.target.path]
        passed = [each for each in below if stands < amounts.get(each, 0) <= high]
        if len(passed) <= AT_ONCE:
            return grant
        most = max(sorted(amounts[each] for each in passed)[AT_ONCE] - 1, stands)
        return _held_back(grant, MilliCpu(left_over(most, 1000)), len(passed), snapshot)

    def _bind(self, grant: Grant, bound: _Bound) -> Grant:
        """Not set, with what binds it from above as its last contribution: explain names who.
        Without the quota above, which moves at each tick: thousands of grants would be others
        because of their reasons alone."""
        known = self._bound.get(grant.target.id)
        how = (bound.by, bound.path, bound.top)
        if known is not None and known[0] is grant and known[1] == how:
            return known[2]
        because = Because(f"the quota of {bound.path}", "is below this", _NOT_SET)
        step = Contribution(bound.by, Verb.CAP, UNLIMITED, UNLIMITED, because)
        made = msgspec.structs.replace(
            grant,
            value=UNLIMITED,
            contributions=(*grant.contributions, step),
            clipped_by=bound.by,
            follows=bound.top,
            exact=None,
        )
        self._bound[grant.target.id] = (grant, how, made)
        return made


def _without_none(moved: Mapping[int, Grant | None]) -> dict[int, Grant]:
    return {target: grant for target, grant in moved.items() if grant is not None}


def _is_unset(snapshot: NodeSnapshot, target: int) -> bool:
    """Whether it has no quota, most likely because one above bound it until now."""
    reading = snapshot.readings.get(target)
    quota = None if reading is None else reading.quota
    return isinstance(quota, Bandwidth) and isinstance(quota.limit, Unlimited)


def _held_back(grant: Grant, most: MilliCpu, passed: int, snapshot: NodeSnapshot) -> Grant:
    because = Because(
        "quotas below it that are asked for",
        f"{passed} would be written",
        f"cgroup v1 nests: in one of {_raised_every(snapshot)} ticks",
    )
    step = Contribution(_BELOW, Verb.CAP, most, most, because)
    return msgspec.structs.replace(
        grant, value=most, contributions=(*grant.contributions, step), clipped_by=_BELOW, exact=None
    )


def _tightest(bounds: Mapping[str, _Bound], above: tuple[str, ...]) -> _Bound | None:
    found: _Bound | None = None
    for path in above:
        bound = bounds.get(path)
        if bound is not None and (found is None or bound.most < found.most):
            found = bound
    return found


def _standing(snapshot: NodeSnapshot, grants: Mapping[int, Grant]) -> dict[str, _Bound]:
    """The quotas above which no intent changes, by path: another writer's, or what an earlier run
    left and is kept for now."""
    by = "what stands above it"
    return {
        (path := reading.ref.path): _Bound(path, limit, by, path)
        for reading in snapshot.readings.values()
        if reading.ref.id not in grants and (limit := _limit(reading)) is not None
    }


def _limit(reading: CgroupReading | None) -> int | None:
    """Rounded down: what was written for an amount is that amount again. None where there is none,
    or none was read."""
    quota = None if reading is None else reading.quota
    if not isinstance(quota, Bandwidth) or isinstance(quota.limit, Unlimited):
        return None
    return left_over(quota.limit * 1_000_000, quota.period)


@lru_cache(maxsize=4096)
def _above(path: str) -> tuple[str, ...]:
    """The paths of all groups above this one, nearest first. The same hundreds are asked for."""
    above = path.rpartition("/")[0]
    return (above, *_above(above)) if above else ()
