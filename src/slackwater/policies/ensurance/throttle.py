"""Throttles and restores single pods: each container's quota in steps, and the pod's weight.

One step takes a part of the container's own last claim, never of what the file reads, which mixes
in everyone else. The first claim is the quota that the container has without us, or its usage where
that is unlimited. Steps go down to a part of that first claim and never below the container's CPU
request; up until the first claim is reached again, and then there is no claim at all, so that
unlimited becomes unlimited again.
"""

from collections.abc import Iterator, Mapping

import msgspec

from slackwater.model.cgroup import CgroupRef, CgroupVersion
from slackwater.model.decision import Because, Intent, Verb
from slackwater.model.gap import Gap
from slackwater.model.knob import IDLE, QUOTA, WEIGHT, KnobValue
from slackwater.model.snapshot import Held, NodeSnapshot
from slackwater.model.units import (
    Bandwidth,
    MilliCpu,
    Percent,
    Unlimited,
    left_over,
    percent,
    smallest_milli,
)
from slackwater.model.weight import SMALLEST_SHARES, SMALLEST_WEIGHT
from slackwater.model.workload import Workload, WorkloadContainer

_LEAST = smallest_milli()
#: A container that uses this part of its claim would use more if it could.
_BOUND_BY_CLAIM = percent(90)


class ContainerClaim(msgspec.Struct, frozen=True):
    """What is claimed for a container, and the first claim, to which it returns."""

    milli: MilliCpu
    first: MilliCpu


Claims = Mapping[str, ContainerClaim]


class ThrottleRatios(msgspec.Struct, frozen=True):
    """Percents: of the claim in one step, and of the first claim at the least."""

    step: int
    least: int


class Step(msgspec.Struct, frozen=True):
    """A pod's claims after one step, by container, and what that releases or takes, in milliCPU."""

    claims: dict[str, ContainerClaim]
    amount: MilliCpu


def lower_claims(
    snapshot: NodeSnapshot, pod: Workload, claims: Claims, ratios: ThrottleRatios
) -> Step:
    """One step down. Released is what the containers use above their new claims."""
    found = dict(claims)
    released = 0
    for container in pod.containers:
        if not isinstance(container.ref, CgroupRef) or not ratios.step:
            continue
        used = snapshot.usage_of(container.ref)
        claim = claims.get(container.name) or _first_claim(snapshot, container, container.ref)
        if claim is None:
            continue
        least = max(container.request, percent(Percent(ratios.least)).of(claim.first), _LEAST)
        wanted = left_over(claim.milli * (100 - ratios.step), 100)
        milli = MilliCpu(min(max(wanted, least), max(claim.milli, _LEAST)))
        found[container.name] = ContainerClaim(milli, claim.first)
        if milli < claim.milli and not isinstance(used, Gap):
            released += max(used - milli, 0)
    return Step(found, MilliCpu(released))


def _first_claim(
    snapshot: NodeSnapshot, container: WorkloadContainer, ref: CgroupRef
) -> ContainerClaim | None:
    """None where it is unlimited and its usage is not known."""
    held = _held_quota(snapshot, ref)
    first = _amount(held.baseline if held else _standing_quota(snapshot, ref))
    left = _amount(held.ours) if held else None
    if first is None and not isinstance(container.limit, Unlimited):
        # The runtime makes the group first and writes its quota then.
        first = container.limit
    if first is None:
        used = snapshot.usage_of(ref)
        if isinstance(used, Gap):
            return None
        first = MilliCpu(max(used, left or 0, container.request, _LEAST))
    # A restarted agent goes on from what the run before left, so that nothing jumps up.
    return ContainerClaim(first if left is None else min(first, left), first)


def _held_quota(snapshot: NodeSnapshot, ref: CgroupRef) -> Held | None:
    found = (held for held in snapshot.held if (held.ref.id, held.knob) == (ref.id, QUOTA.name))
    return next(found, None)


def _standing_quota(snapshot: NodeSnapshot, ref: CgroupRef) -> KnobValue | Gap | None:
    reading = snapshot.readings.get(ref.id)
    return None if reading is None else reading.quota


def _amount(quota: object) -> MilliCpu | None:
    """None where it is unlimited, or not known."""
    milli = quota.milli() if isinstance(quota, Bandwidth) else None
    return None if isinstance(milli, Unlimited) else milli


def raise_claims(
    snapshot: NodeSnapshot, pod: Workload, claims: Claims, ratios: ThrottleRatios
) -> Step:
    """One step up; a claim that is back at the first one goes. Taken is what containers that use
    all of their claim may use in addition."""
    found: dict[str, ContainerClaim] = {}
    taken = 0
    refs = {each.name: each.ref for each in pod.containers}
    for name, claim in claims.items():
        step = left_over(claim.milli * ratios.step, 100)
        milli = MilliCpu(claim.milli + max(step, 1)) if ratios.step else claim.first
        if milli < claim.first:
            found[name] = ContainerClaim(milli, claim.first)
        if _uses_all(snapshot, refs.get(name), claim):
            taken += max(min(milli, claim.first) - claim.milli, 0)
    return Step(found, MilliCpu(taken))


def _uses_all(snapshot: NodeSnapshot, ref: CgroupRef | Gap | None, claim: ContainerClaim) -> bool:
    if not isinstance(ref, CgroupRef):
        return False
    used = snapshot.usage_of(ref)
    return isinstance(used, Gap) or used >= _BOUND_BY_CLAIM.left_of(claim.milli)


def claim_intents(pod: Workload, claims: Claims, because: Because, by: str) -> Iterator[Intent]:
    for container in pod.containers:
        claim = claims.get(container.name)
        if claim is not None and isinstance(container.ref, CgroupRef):
            yield Intent(container.ref, QUOTA.name, Verb.CAP, claim.milli, because, by)


def demotion_intents(
    snapshot: NodeSnapshot, pod: Workload, because: Because, by: str
) -> Iterator[Intent]:
    """cpu.idle where it works, else the lowest weight; on the pod's own group, which competes with
    the other pods of its tier."""
    ref = pod.ref
    if not isinstance(ref, CgroupRef):
        return
    if _has(snapshot, ref, IDLE.name):
        yield Intent(ref, IDLE.name, Verb.SET, True, because, by)
    elif _has(snapshot, ref, WEIGHT.name):
        v1 = snapshot.version is CgroupVersion.V1
        lowest = SMALLEST_SHARES if v1 else SMALLEST_WEIGHT
        yield Intent(ref, WEIGHT.name, Verb.SET, lowest, because, by)


def _has(snapshot: NodeSnapshot, ref: CgroupRef, knob: str) -> bool:
    """Whether this group has the file, and it could be written so far."""
    reading = snapshot.readings.get(ref.id)
    there = reading is not None and not isinstance(reading.value(knob), Gap)
    return there and snapshot.can_write(ref, knob)
