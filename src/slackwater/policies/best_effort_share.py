"""The best-effort tier's quota: what everyone else leaves of the node, and no more.

    allowed = allocatable x threshold / 100
    used    = the node's usage less the best-effort tier's own, at least 0
    budget  = max(allowed - used, 0)

Owns the budget, its ramp and its dead band (seed 000 as decided in docs/differences.md). An
exhausted budget claims zero, which the quota law turns into the kernel's smallest quota: it
never un-throttles. Where the tier's own group cannot be written, its pods carry the quota.
"""

import enum
from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from slackwater.contract.schema import Percentage, SettingsStruct
from slackwater.model.cgroup import CgroupRef, Level, Tier
from slackwater.model.decision import (
    THROTTLE_EVENT,
    Act,
    Because,
    Decision,
    Event,
    Hold,
    Intent,
    Verb,
)
from slackwater.model.gap import Gap
from slackwater.model.knob import QUOTA, KnobKey
from slackwater.model.needs import PODS, TIERS, Needs
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import (
    DEFAULT_PERIOD,
    Bandwidth,
    MilliCpu,
    Percent,
    Unlimited,
    left_over,
    percent,
    smallest_milli,
)
from slackwater.model.workload import Workload
from slackwater.policies.policy import Policy, list_numbers
from slackwater.signals import is_beyond_deadband, ramp_towards


class Accounting(enum.Enum):
    """What counts as used by everything that is not best-effort."""

    USAGE = "usage"
    REQUEST = "request"


class BestEffortShareSettings(SettingsStruct, frozen=True):
    """Settings of the best-effort tier's share."""

    enabled: Annotated[
        bool,
        Meta(
            description="Whether the best-effort tier has a quota at all. Switching it off "
            "releases the tier, once.",
        ),
    ] = False
    threshold: Annotated[
        Percentage,
        Meta(
            ge=1,
            le=100,
            description="The share of the node's allocatable CPU that all its work together may "
            "use; what the other tiers leave of it is the best-effort tier's budget. The rest "
            "is kept free for their peaks.",
        ),
    ] = Percent(80)
    jitter: Annotated[
        Percentage,
        Meta(
            ge=0,
            description="A change of the quota by less than this fraction is not made, because "
            "writing a quota disturbs the tier. 0 makes every change.",
        ),
    ] = Percent(1)
    recover: Annotated[
        Percentage,
        Meta(
            ge=1,
            description="The most that the quota may grow in one tick, as a fraction of it. "
            "Decreases take effect at once, increases slowly, so that a short lull does not let "
            "best-effort work back in full.",
        ),
    ] = Percent(10)
    recover_from: Annotated[
        Percentage,
        Meta(
            ge=1,
            le=100,
            description="Where growth begins after a cut, as a fraction of the budget: from below "
            "it the first raise goes there, the later ones by `recover`. 100 goes to the whole "
            "budget at once.",
        ),
    ] = Percent(25)
    accounting: Annotated[
        Accounting,
        Meta(
            description="How the other tiers are counted: by the CPU they use, or by the larger "
            "of that and their pods' requests.",
        ),
    ] = Accounting.USAGE


NAME = "best_effort_share"
FLOOR = smallest_milli(DEFAULT_PERIOD)


class Memory(msgspec.Struct, frozen=True):
    """The policy's own last claim, None before the first, and the tier that it was for."""

    last: MilliCpu | None = None
    tier: int = 0


def needs(_: BestEffortShareSettings, off: frozenset[KnobKey]) -> Needs:
    """Tiers; pods too where something cannot be written, as they may have to carry the quota."""
    return PODS if off else TIERS


def decide(snapshot: NodeSnapshot, memory: Memory, settings: BestEffortShareSettings) -> Decision:
    tier = snapshot.tiers.get(Tier.BESTEFFORT)
    if tier is None:
        return Hold("there is no best-effort tier", memory)
    used, allocatable = _used(snapshot, tier, settings.accounting), snapshot.allocatable
    if isinstance(used, Gap):
        return Hold(used.reason, memory)
    if isinstance(allocatable, Gap):
        return Hold(allocatable.reason, memory)
    allowed = MilliCpu(percent(settings.threshold).left_of(allocatable))
    budget = MilliCpu(max(allowed - used, 0))
    last = _standing(snapshot, tier, memory)
    claim = _next_claim(last, budget, settings)
    if snapshot.early and last is not None:
        claim = min(last, claim)
    numbers = {
        "allocatable": allocatable,
        "threshold": settings.threshold,
        "allowed": allowed,
        "used": used,
        "budget": budget,
        "claim": claim,
        "recover_from": settings.recover_from,
    }
    because = Because("used by all but best effort", f"{used}m", f"{allowed}m allowed")
    events = (Event(THROTTLE_EVENT, "cpu", claim),) if claim != last else ()
    return Act(_intents(snapshot, tier, claim, because), Memory(claim, tier.id), numbers, events)


def _used(snapshot: NodeSnapshot, tier: CgroupRef, accounting: Accounting) -> MilliCpu | Gap:
    """What everything but the best-effort tier uses, or was promised."""
    node, best_effort = snapshot.usage, snapshot.usage_of(tier)
    if isinstance(node, Gap):
        return node
    if isinstance(best_effort, Gap):
        return best_effort
    used = MilliCpu(max(node - best_effort, 0))
    if accounting is Accounting.USAGE:
        return used
    kubepods = snapshot.usage_of(snapshot.kubepods)
    if isinstance(kubepods, Gap):
        return kubepods
    promised = sum(w.request for w in snapshot.workloads if w.tier is not Tier.BESTEFFORT)
    system = max(node - kubepods, 0)
    return MilliCpu(max(used, system + promised))


def _next_claim(
    last: MilliCpu | None, budget: MilliCpu, settings: BestEffortShareSettings
) -> MilliCpu:
    """The first claim ever is the budget itself; later ones ramp, and stay where little moved."""
    if last is None:
        return budget
    claim = ramp_towards(last, budget, settings.recover, settings.recover_from, FLOOR)
    return claim if is_beyond_deadband(last, claim, settings.jitter) else last


def _standing(snapshot: NodeSnapshot, tier: CgroupRef, memory: Memory) -> MilliCpu | None:
    """The last claim; after a restart what the run before it wrote, so that a restart does not
    skip the ramp. A tree that was created anew starts without one."""
    if memory.tier == tier.id and memory.last is not None:
        return memory.last
    for held in snapshot.held:
        if (held.ref.id, held.knob) == (tier.id, QUOTA.name) and isinstance(held.ours, Bandwidth):
            limit = held.ours.milli()
            return None if isinstance(limit, Unlimited) else limit
    return None


def _intents(
    snapshot: NodeSnapshot, tier: CgroupRef, claim: MilliCpu, because: Because
) -> tuple[Intent, ...]:
    if snapshot.can_write(tier, QUOTA.name):
        return (Intent(tier, QUOTA.name, Verb.CAP, claim, because, NAME),)
    pods = [
        (workload.ref, snapshot.usage_of(workload.ref))
        for workload in snapshot.workloads
        if workload.tier is Tier.BESTEFFORT and isinstance(workload.ref, CgroupRef)
    ]
    shares = _shares(claim, [0 if isinstance(used, Gap) else used for _, used in pods])
    return tuple(
        Intent(ref, QUOTA.name, Verb.CAP, share, because, NAME)
        for (ref, _), share in zip(pods, shares, strict=True)
    )


def _shares(claim: MilliCpu, usages: list[int]) -> list[MilliCpu]:
    """The claim divided among pods: half of it evenly, half by what each used.

    The even half lets a pod that was quiet start; the other half follows the work.
    """
    if not usages:
        return []
    even, total = left_over(claim, 2 * len(usages)), sum(usages)
    rest = claim - even * len(usages)
    by_use = [left_over(rest * used, total) if total else rest // len(usages) for used in usages]
    return [MilliCpu(even + part) for part in by_use]


def concerns(pod: Workload) -> bool:
    return pod.tier is Tier.BESTEFFORT


def explain_numbers(numbers: Mapping[str, int]) -> str:
    """As a sum."""
    names = ("allocatable", "threshold", "allowed", "used", "budget", "claim", "recover_from")
    if not numbers.keys() >= set(names):
        return list_numbers(numbers)
    allocatable, threshold, allowed, used, budget, claim, start = (numbers[name] for name in names)
    why = "" if claim == budget else f" (raises go in steps, from {start} % of the budget on)"
    why = " (so small a change is not made)" if claim > budget else why
    rest = "".join(f"; {name} {numbers[name]}" for name in numbers if name not in names)
    return (
        f"allocatable {allocatable}m × threshold {threshold} % = allowed {allowed}m; "
        f"used {used}m; budget {budget}m; claim {claim}m{why}{rest}"
    )


POLICY = Policy(
    NAME,
    Memory(),
    needs,
    decide,
    settings=BestEffortShareSettings,
    description="bounds the best-effort tier by what is left",
    concerns=concerns,
    knobs=((QUOTA.name,),),
    level=Level.TIER,
    explain_numbers=explain_numbers,
)
