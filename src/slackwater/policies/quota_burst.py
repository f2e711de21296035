"""Lets containers spend in a busy period what they left of their quota (Volcano's CPU burst).

Each container with a quota may burst by what its pod asks for, and never by more than its quota;
the pod by what its containers may together, if it has a quota. The resolver holds both to the
quota that is granted in the same tick, so that the kernel takes them in any order of features.
"""

from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta

from slackwater.contract.schema import Percentage, SettingsStruct
from slackwater.model.cgroup import CgroupRef, Level
from slackwater.model.decision import Act, Because, Decision, Intent, Remark, Verb
from slackwater.model.gap import NOT_ASKED, VANISHED, Gap
from slackwater.model.knob import BURST, KnobKey
from slackwater.model.needs import Needs, ReadingField
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Bandwidth, Percent, Unlimited, percent
from slackwater.model.workload import BurstRequest, Workload
from slackwater.policies.policy import STATELESS, Policy


class QuotaBurstSettings(SettingsStruct, frozen=True):
    """Settings of quota bursts."""

    enabled: Annotated[
        bool,
        Meta(
            description="Whether pods whose volcano.sh/enable-quota-burst is true may use quota "
            "in a busy period that they left unused in quiet ones.",
        ),
    ] = False
    most: Annotated[
        Percentage,
        Meta(
            ge=1,
            le=100,
            description="The largest burst, as a fraction of the container's quota, whatever the "
            "pod asks for. The kernel refuses a burst above the quota.",
        ),
    ] = Percent(100)


NAME = "quota_burst"
_FIELDS = frozenset({ReadingField.QUOTA, ReadingField.BURST})
_ORDINARY = (NOT_ASKED, VANISHED)
_WHOLE = 100
_KEPT = Because("its quota", "is not set", "its burst is kept while a quota above it binds")


def needs(_: QuotaBurstSettings, __: frozenset[KnobKey]) -> Needs:
    return Needs({Level.POD: _FIELDS, Level.CONTAINER: _FIELDS})


def decide(snapshot: NodeSnapshot, _: object, settings: QuotaBurstSettings) -> Decision:
    intents: list[Intent] = []
    remarks: list[Remark] = []
    for workload in snapshot.workloads:
        match workload.burst:
            case Gap(reason):
                remarks.append(Remark(workload.title(), reason))
            case BurstRequest() as wish:
                intents += _intents(snapshot, workload, wish, settings)
                said = [*filter(None, [wish.complaint]), *_lacking(snapshot, workload)]
                if said:
                    remarks.append(Remark(workload.title(), "; ".join(said)))
    return Act(tuple(intents), STATELESS, {}, (), tuple(remarks))


def _intents(
    snapshot: NodeSnapshot, workload: Workload, wish: BurstRequest, settings: QuotaBurstSettings
) -> Iterator[Intent]:
    total = 0
    for each in workload.containers:
        if isinstance(each.ref, CgroupRef):
            burst, because = _burst(snapshot, each.ref, wish, settings)
            if burst:
                total += burst
                yield Intent(each.ref, BURST.name, Verb.SET, burst, because, NAME)
    if total and isinstance(workload.ref, CgroupRef):
        because = Because("its containers' bursts together", f"{total} us", "of the pod")
        yield Intent(workload.ref, BURST.name, Verb.SET, total, because, NAME)


def _burst(
    snapshot: NodeSnapshot, ref: CgroupRef, wish: BurstRequest, settings: QuotaBurstSettings
) -> tuple[int, Because]:
    """One container's, 0 where it gets none. A burst without a quota means nothing and stays: the
    resolver knows whether a quota above stands in for it, and drops it otherwise."""
    reading = snapshot.readings.get(ref.id)
    if reading is None or isinstance(reading.quota, Gap):
        return 0, _KEPT
    quota = reading.quota.limit
    if isinstance(quota, Unlimited):
        return 0 if isinstance(reading.burst, Gap) else reading.burst, _KEPT
    most = percent(settings.most).left_of(quota)
    return most if wish.time is None else min(wish.time, most), _because(wish, most, settings)


def _lacking(snapshot: NodeSnapshot, workload: Workload) -> Iterator[str]:
    """Why containers cannot burst. One whose limit is yet to be written is not among them."""
    free: list[str] = []
    unread: dict[str, None] = {}
    for each in workload.containers:
        reading = snapshot.readings.get(each.ref.id) if isinstance(each.ref, CgroupRef) else None
        if reading is None or reading.burst in _ORDINARY:
            continue
        if isinstance(reading.burst, Gap):
            unread[reading.burst.reason] = None
        unset = isinstance(each.limit, Unlimited) and not each.extended_limits
        quota = reading.quota
        if unset and isinstance(quota, Bandwidth) and isinstance(quota.limit, Unlimited):
            free.append(each.name)
    yield from unread
    if free:
        yield f"without a CPU limit there is nothing to burst above: {', '.join(free)}"


def _because(wish: BurstRequest, most: int, settings: QuotaBurstSettings) -> Because:
    """Names the annotation that decides, and what clips it."""
    part = "its quota" if settings.most == _WHOLE else f"{settings.most} % of its quota"
    if wish.time is None:
        return Because("volcano.sh/enable-quota-burst", "true", f"{part} is {most} us")
    limit = f"clipped to {part}, {most} us" if wish.time > most else f"within {part}, {most} us"
    return Because("volcano.sh/quota-burst-time", f"{wish.time} us", limit)


def concerns(pod: Workload) -> bool:
    return pod.burst is not None


POLICY = Policy(
    NAME,
    STATELESS,
    needs,
    decide,
    settings=QuotaBurstSettings,
    description="lets a container catch up after a quiet period",
    concerns=concerns,
    ignores_counters=True,
    knobs=((BURST.name,),),
)
