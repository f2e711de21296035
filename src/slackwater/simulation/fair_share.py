"""Divides CPU time in an interval among claims: hierarchical weighted max-min fairness.

It knows no cgroups, periods or clocks: a claim has a weight, a limit and claims below it, and
amounts are integers (nanoseconds of CPU time).

The kernel converges to this within milliseconds by picking the task that is furthest behind
(kernel/sched/fair.c); the fluid model is exact over a period. It ignores on which CPU a task
happens to run: the load balancer is assumed to be perfect.
"""

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter


class Claim:
    """A group or task that wants CPU time; `got` is the result."""

    __slots__ = ("asked", "claims", "got", "limit", "mask", "usable", "wanted", "weight")

    def __init__(self, weight: int, mask: int, claims: Sequence["Claim"] = ()) -> None:
        self.weight = weight
        #: The CPUs that it may run on, as bits.
        self.mask = mask
        self.claims = claims
        #: The most that it may get, whatever it wants.
        self.limit = 0
        #: What its tasks want: given for a task, summed up for a group.
        self.wanted = 0
        #: What the claims below could use under their own limits; and under this one's too.
        self.asked = 0
        self.usable = 0
        self.got = 0


class Pool:
    """A set of CPUs, and the tasks that can only run there: together they get no more."""

    __slots__ = ("cpus", "tasks")

    def __init__(self, mask: int, tasks: Sequence[Claim]) -> None:
        self.cpus = mask.bit_count()
        self.tasks = tasks


#: Cpusets that cross each other need a pool for each union; 1,024 of them cross in no real node.
_MOST_POOLS = 1024


def pools_of(tasks: Sequence[Claim], every: int) -> list[Pool]:
    """The pools that bind: Hall's condition, for each cpuset and each union of crossing ones.

    Unions of disjoint or nested sets follow from their parts. None where all may run everywhere.
    """
    masks = {task.mask for task in tasks}
    if masks <= {every}:
        return []
    found = list(masks)
    for mask in found:  # grows while it is walked
        for other in tuple(found):
            crossing = mask & other and mask & ~other and other & ~mask
            if crossing and mask | other not in masks and len(found) < _MOST_POOLS:
                masks.add(mask | other)
                found.append(mask | other)
    return [Pool(mask, [t for t in tasks if not t.mask & ~mask]) for mask in sorted(masks)]


def divide(top_down: Sequence[Claim], pools: Sequence[Pool], duration: int) -> None:
    """Sets `got` of every claim. `top_down` has the claims with claims below them, parents first;
    all limits and the demands of the tasks are set. `duration` is that of one CPU."""
    for claim in reversed(top_down):
        claim.wanted = sum([below.wanted for below in claim.claims])
        claim.asked = sum([below.usable for below in claim.claims])
        claim.usable = min(claim.asked, claim.limit)
    top_down[0].got = top_down[0].usable
    for claim in top_down:
        _divide_among_children(claim)
    if any(sum(t.got for t in pool.tasks) > pool.cpus * duration for pool in pools):
        _divide_by_pools(top_down, pools, duration)


def _divide_among_children(claim: Claim) -> None:
    claims = claim.claims
    if claim.got == claim.asked:
        for below in claims:
            below.got = below.usable
    elif len(claims) == 1:
        claims[0].got = claim.got
    else:
        fill(claim.got, claims)


def fill(amount: int, claims: Iterable[Claim]) -> None:
    """Divides an amount by weight; what one cannot use goes to the others, to the last unit."""
    weight = sum([claim.weight for claim in claims])
    for claim in sorted(claims, key=_satisfied_at):
        claim.got = min(claim.usable, amount * claim.weight // weight)
        amount -= claim.got
        weight -= claim.weight


def _satisfied_at(claim: Claim) -> float:
    return claim.usable / claim.weight


class _SharedLimit:
    """Tasks that share a limit, and what is left of it."""

    __slots__ = ("left", "tasks")

    def __init__(self, left: float, tasks: Sequence[Claim]) -> None:
        self.left = left
        self.tasks = tasks


def _divide_by_pools(top_down: Sequence[Claim], pools: Sequence[Pool], duration: int) -> None:
    """The same rule with binding cpusets: fills all tasks at their pace until a limit is reached,
    then the others. Rounds down, so that no limit is exceeded."""
    bounds = [_SharedLimit(claim.usable, list(_tasks(claim))) for claim in top_down]
    bounds += [_SharedLimit(pool.cpus * duration, pool.tasks) for pool in pools]
    bounds += [_SharedLimit(task.usable, [task]) for task in bounds[0].tasks]
    got = dict.fromkeys(bounds[0].tasks, 0.0)
    growing = set(got)
    while growing:
        pace = _paces(top_down, growing)
        flows = [(b, sum([pace[t] for t in b.tasks if t in growing])) for b in bounds]
        flowing = [(bound, flow) for bound, flow in flows if flow]
        time, full = min(((b.left / flow, b) for b, flow in flowing), key=itemgetter(0))
        for task in growing:
            got[task] += pace[task] * time
        for bound, flow in flowing:
            bound.left -= flow * time
        growing.difference_update(full.tasks)
    for task, amount in got.items():
        task.got = int(amount)
    for claim in reversed(top_down):
        claim.got = sum(below.got for below in claim.claims)


def _tasks(claim: Claim) -> Iterator[Claim]:
    for below in claim.claims:
        if below.claims:
            yield from _tasks(below)
        elif below.usable:
            yield below


def _paces(top_down: Sequence[Claim], growing: set[Claim]) -> dict[Claim, float]:
    """How fast each growing task fills: its weighted share of its group's pace."""
    alive = set(growing)
    for claim in reversed(top_down):
        if not alive.isdisjoint(claim.claims):
            alive.add(claim)
    pace = {top_down[0]: 1.0}
    for claim in top_down:
        below = [one for one in claim.claims if one in alive]
        weight = sum(one.weight for one in below)
        for one in below:
            pace[one] = pace[claim] * one.weight / weight
    return pace
