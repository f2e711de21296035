"""Nodes in a few words, for tests of policies and of the tick."""

from slackwater.model.cgroup import CgroupReading, CgroupRef, Level, Tier
from slackwater.model.gap import Gap
from slackwater.model.knob import KnobKey, KnobValue
from slackwater.model.snapshot import Held, NodeSnapshot, Rate
from slackwater.model.units import UNLIMITED, Bandwidth, Micros, MilliCpu
from slackwater.model.workload import Workload

KUBEPODS = CgroupRef("kubepods", 1, Level.NODE)
BESTEFFORT = CgroupRef("kubepods/besteffort", 2, Level.TIER, Tier.BESTEFFORT)
BURSTABLE = CgroupRef("kubepods/burstable", 3, Level.TIER, Tier.BURSTABLE)
UNREAD = Gap("not asked for")
SECOND = Micros(1_000_000)
FREE = Bandwidth(UNLIMITED)


def rate(usage: int) -> Rate:
    return Rate(MilliCpu(usage), 0)


def reading(ref: CgroupRef, quota: Bandwidth | Gap) -> CgroupReading:
    return CgroupReading(ref, Micros(0), UNREAD, quota, UNREAD, UNREAD, UNREAD, UNREAD, UNREAD)


def pod(number: int, tier: Tier, request: int = 0) -> Workload:
    ref = CgroupRef(f"kubepods/{tier.value}/pod{number}", 100 + number, Level.POD, tier)
    return Workload(str(number), f"pod-{number}", "default", tier, ref, MilliCpu(request))


def held(ref: CgroupRef, baseline: KnobValue, ours: KnobValue) -> Held:
    return Held(ref, "quota", baseline, ours, Micros(0))


def node(
    *,
    allocatable: int = 1000,
    usage: int | Gap = 0,
    best_effort: int | None = 0,
    quota: Bandwidth | Gap = FREE,
    tick: int = 1,
    workloads: tuple[Workload, ...] = (),
    usages: dict[int, int] | None = None,
    kept: tuple[Held, ...] = (),
    off: frozenset[KnobKey] = frozenset(),
) -> NodeSnapshot:
    """A node whose best-effort tier used `best_effort` m of `usage` m."""
    rates = {ref: rate(used) for ref, used in (usages or {}).items()}
    if best_effort is not None:
        rates[BESTEFFORT.id] = rate(best_effort)
    return NodeSnapshot(
        tick=tick,
        at=Micros(tick * SECOND),
        elapsed=SECOND,
        allocatable=MilliCpu(allocatable),
        usage=usage if isinstance(usage, Gap) else MilliCpu(usage),
        kubepods=KUBEPODS,
        tiers={Tier.BESTEFFORT: BESTEFFORT, Tier.BURSTABLE: BURSTABLE},
        workloads=workloads,
        readings={BESTEFFORT.id: reading(BESTEFFORT, quota)},
        rates=rates,
        held=kept,
        off=off,
    )
