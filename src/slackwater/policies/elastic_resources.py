"""CPU weight, quota and memory limit of pods that use elastic resources: CPU and memory that others
leave idle, asked for by names of their own.

One policy for Crane's names (gocrane.io/cpu in cores, gocrane.io/memory) and for those of Volcano
and Koordinator (kubernetes.io/batch-cpu in milliCPU, kubernetes.io/batch-memory): here all CPU is
in milliCPU already. The kubelet knows nothing of these resources: such a pod is best effort to it,
without weight, quota or memory limit. Each container gets what it asked for, and the pod what its
containers need together; a limit only where every container has one (zero is none). So pods of one
tier share CPU that is short as they asked for it (ADR 42), and the tier's own weight keeps all of
them below ordinary pods. What a container asks for in the ordinary way counts as well: it never
makes a group lighter than the kubelet has it, elastic limits come on top of ordinary ones, and who
asks for an ordinary amount without a limit has none by an elastic one either. Pods that are
latency-critical (level 2) are left alone: what they may use is the kubelet's business.
"""

import enum
from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec
from msgspec import Meta

from slackwater.contract.schema import Percentage, ResourceName, SettingsStruct
from slackwater.model.cgroup import CgroupRef, CgroupVersion, Level, Tier
from slackwater.model.decision import (
    Act,
    Because,
    Decision,
    Intent,
    Remark,
    Verb,
    join_some,
)
from slackwater.model.elastic import BATCH_CPU, BATCH_MEMORY, ELASTIC_CPU, ELASTIC_MEMORY
from slackwater.model.gap import Gap
from slackwater.model.knob import (
    LARGEST_QUOTA,
    MEMORY_HIGH,
    MEMORY_MAX,
    QUOTA,
    WEIGHT,
    KnobKey,
)
from slackwater.model.needs import Needs, ReadingField
from slackwater.model.problem import Problem, ProblemCode, quoted
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import (
    UNLIMITED,
    MilliCpu,
    Percent,
    Unlimited,
    left_over,
    percent,
    smallest_milli,
)
from slackwater.model.weight import WeightFormula, shares_of, weight_for
from slackwater.model.workload import Amounts, Workload, WorkloadContainer
from slackwater.policies.policy import STATELESS, Policy


class WeightRule(enum.Enum):
    """How a request becomes a weight on cgroup v2, outside of the best-effort tier."""

    KUBELET = "kubelet"
    VOLCANO = "volcano"


class ElasticResourcesSettings(SettingsStruct, frozen=True):
    """Settings of elastic resources."""

    enabled: Annotated[
        bool,
        Meta(
            description="Whether pods that ask for elastic resources get a CPU weight, a quota and "
            "a memory limit from them. The kubelet ignores these resources and sets none of the "
            "three. Crane's names, gocrane.io/cpu (in CPUs) and gocrane.io/memory, always count; "
            "the two below do beside them.",
        ),
    ] = False
    cpu_resource: Annotated[
        ResourceName,
        Meta(
            description="The extended resource that stands for CPU, in whole milliCPU: 500 is "
            "half a CPU.",
        ),
    ] = BATCH_CPU
    memory_resource: Annotated[
        ResourceName,
        Meta(description="The extended resource that stands for memory, in bytes."),
    ] = BATCH_MEMORY
    weight_formula: Annotated[
        WeightRule,
        Meta(
            description="How the request of a pod that asks for ordinary CPU too becomes a weight "
            "on cgroup v2: as the kubelet and the runtime of this node do it, or as Volcano does, "
            "a tenth of the milliCPU, which lets it outweigh others. Best-effort pods always have "
            "the latter, as they compete with each other only.",
        ),
    ] = WeightRule.KUBELET
    memory_high: Annotated[
        Percentage,
        Meta(
            ge=50,
            le=100,
            description="On cgroup v2: from which part of its elastic memory limit on a pod or "
            "container is slowed down and its memory reclaimed, before the limit ends it. 100 is "
            "never. The kubelet's memoryThrottlingFactor is 0.9. Pods with Volcano's memory ratios "
            "have their own.",
        ),
    ] = Percent(90)

    def conflicts(self) -> Iterator[Problem]:
        """One resource cannot count both CPU and bytes."""
        if self.cpu_resource == ELASTIC_MEMORY:
            bound = "another resource than the one that always counts bytes"
            yield Problem("cpuResource", quoted(ELASTIC_MEMORY), bound, ProblemCode.CONFLICT)
        value = quoted(self.memory_resource)
        if self.memory_resource == ELASTIC_CPU:
            bound = "another resource than the one that always counts CPUs"
            yield Problem("memoryResource", value, bound, ProblemCode.CONFLICT)
        elif self.memory_resource == self.cpu_resource:
            bound = f"another resource than cpuResource, which is {quoted(self.cpu_resource)}"
            yield Problem("memoryResource", value, bound, ProblemCode.CONFLICT)

    def cpu_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.cpu_resource, ELASTIC_CPU)))

    def memory_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.memory_resource, ELASTIC_MEMORY)))


NAME = "elastic_resources"
#: Above it a pod is latency-critical.
_HIGHEST_LEVEL = 1
_FIELDS = frozenset(
    {
        ReadingField.WEIGHT,
        ReadingField.IDLE,
        ReadingField.QUOTA,
        ReadingField.MEMORY_MAX,
        ReadingField.MEMORY_HIGH,
    }
)
_QUOTA = frozenset({ReadingField.QUOTA})
_FLOOR = smallest_milli()
_WHOLE = Percent(100)
#: In milliCPU: the kernel's largest quota in its longest period, a second. No machine has as much.
MOST = left_over(LARGEST_QUOTA * 1000, 1_000_000)
_LEFT_ALONE = "elastic resources of pods of level LC and HLS are left alone"


def needs(_: ElasticResourcesSettings, __: frozenset[KnobKey]) -> Needs:
    """The tiers' quotas too: on cgroup v1 they bind what is below them."""
    return Needs({Level.TIER: _QUOTA, Level.POD: _FIELDS, Level.CONTAINER: _FIELDS})


def decide(snapshot: NodeSnapshot, _: object, settings: ElasticResourcesSettings) -> Decision:
    intents: list[Intent] = []
    remarks: list[Remark] = []
    pods = 0
    for workload in snapshot.workloads:
        if not _asks(workload, settings):
            continue
        if _is_critical(workload):
            remarks.append(Remark(workload.title(), _LEFT_ALONE))
            continue
        pods += 1
        remarks += _remarks(workload, settings)
        for wanted in _groups(workload, settings):
            intents += _intents(snapshot, wanted, settings)
    return Act(tuple(intents), STATELESS, {"pods": pods}, (), tuple(remarks))


class _Sum(msgspec.Struct, frozen=True):
    """What is stated under one name or several together, and under which."""

    amount: int = 0
    names: str = ""


class _Wanted(msgspec.Struct, frozen=True):
    """What one group asks for: elastic amounts; `native`, its ordinary CPU request; its ordinary
    limits, to which elastic ones are added. `high` is whether its memory may be reclaimed before
    its limit."""

    ref: CgroupRef
    native: MilliCpu
    request: _Sum
    limit: _Sum
    memory: _Sum
    high: bool
    native_limit: int | Unlimited
    native_memory: int | Unlimited


def _is_critical(workload: Workload) -> bool:
    level = workload.qos_level
    return not isinstance(level, Gap) and level > _HIGHEST_LEVEL


def _asks(workload: Workload, settings: ElasticResourcesSettings) -> bool:
    names = (*settings.cpu_names(), *settings.memory_names())
    return any(
        name in amounts
        for each in workload.containers
        for amounts in (each.extended_requests, each.extended_limits)
        for name in names
    )


def _groups(workload: Workload, settings: ElasticResourcesSettings) -> Iterator[_Wanted]:
    """The pod and each of its containers that has a group."""
    cpu, memory = settings.cpu_names(), settings.memory_names()
    high = workload.memory_ratios is None
    if isinstance(workload.ref, CgroupRef):
        yield _Wanted(
            workload.ref,
            workload.request,
            _milli(workload.extended_requests, cpu),
            _milli(_pod_cpu_limits(workload, cpu), cpu),
            _sum(_pod_limits(workload, memory), memory),
            high,
            _together(_ordinary_cpu(each) for each in workload.containers),
            _together(_ordinary_memory(each) for each in workload.containers),
        )
    for each in workload.containers:
        if isinstance(each.ref, CgroupRef):
            yield _Wanted(
                each.ref,
                each.request,
                _milli(each.extended_requests, cpu),
                _milli(each.extended_limits, cpu),
                _sum(each.extended_limits, memory),
                high,
                _ordinary_cpu(each),
                _ordinary_memory(each),
            )


def _ordinary_cpu(container: WorkloadContainer) -> int | Unlimited:
    """What it may use without elastic resources; none where it asks for none."""
    asks = container.request or not isinstance(container.limit, Unlimited)
    return container.limit if asks else 0


def _ordinary_memory(container: WorkloadContainer) -> int | Unlimited:
    asks = container.memory_request or not isinstance(container.memory_limit, Unlimited)
    return container.memory_limit if asks else 0


def _together(limits: Iterable[int | Unlimited]) -> int | Unlimited:
    """Of a pod at the most: its containers have limits of their own."""
    total = 0
    for limit in limits:
        if isinstance(limit, Unlimited):
            return UNLIMITED
        total += limit
    return total


def _pod_limits(workload: Workload, names: tuple[str, ...]) -> Amounts:
    """Of the pod as a whole. Where its containers go by different names for one thing, no name has
    all of it."""
    return {} if len(_limited_by(workload, names)) > 1 else workload.extended_limits


def _limited_by(workload: Workload, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(
        name
        for name in names
        if any(_amount(each.extended_limits, name) for each in workload.containers)
    )


def _pod_cpu_limits(workload: Workload, names: tuple[str, ...]) -> Amounts:
    """A container below the kernel's smallest quota gets that one, and the pod has room for it."""
    limits = dict(_pod_limits(workload, names))
    for name in names:
        if total := _amount(limits, name):
            stated = (_amount(each.extended_limits, name) for each in workload.containers)
            limits[name] = total + sum(max(_FLOOR - limit, 0) for limit in stated if limit)
    return limits


def _intents(
    snapshot: NodeSnapshot, wanted: _Wanted, settings: ElasticResourcesSettings
) -> Iterator[Intent]:
    """An amount of zero, as one that is unknown or too large, asks for nothing."""
    ref, request, limit, memory = wanted.ref, wanted.request, wanted.limit, wanted.memory
    if request.amount:
        value = _weight(snapshot, wanted, settings.weight_formula)
        native = f", and {wanted.native}m of cpu" if wanted.native else ""
        seen = f"{request.amount}m{native}"
        because = Because(f"{request.names} requested", seen, f"weight {value}")
        yield Intent(ref, WEIGHT.name, Verb.SET, value, because, NAME)
    if limit.amount and not isinstance(wanted.native_limit, Unlimited):
        native = f", and {wanted.native_limit}m of cpu" if wanted.native_limit else ""
        because = Because(f"{limit.names} limit", f"{limit.amount}m{native}", _whose(ref))
        quota = MilliCpu(min(limit.amount + wanted.native_limit, MOST))
        yield Intent(ref, QUOTA.name, Verb.BASE, quota, because, NAME)
    if memory.amount and not isinstance(wanted.native_memory, Unlimited):
        total = memory.amount + wanted.native_memory
        native = f", and {wanted.native_memory} of memory" if wanted.native_memory else ""
        seen = f"{memory.amount}{native}"
        because = Because(f"{memory.names} limit", seen, "bytes")
        yield Intent(ref, MEMORY_MAX.name, Verb.SET, total, because, NAME)
        part = settings.memory_high
        if wanted.high and part < _WHOLE and snapshot.version is CgroupVersion.V2:
            because = Because(f"{memory.names} limit", seen, f"{part} % of the bytes")
            value = percent(part).left_of(total)
            yield Intent(ref, MEMORY_HIGH.name, Verb.SET, value, because, NAME)


def _whose(ref: CgroupRef) -> str:
    if ref.level is Level.CONTAINER:
        return "the container's own limit"
    return "what the pod's containers may use together"


def _amount(amounts: Amounts, name: str) -> int:
    found = amounts.get(name, 0)
    return 0 if isinstance(found, Gap) else found


def _sum(amounts: Amounts, names: tuple[str, ...]) -> _Sum:
    stated = {name: amount for name in names if (amount := _amount(amounts, name))}
    return _Sum(sum(stated.values()), " and ".join(stated))


def _milli(amounts: Amounts, names: tuple[str, ...]) -> _Sum:
    """Of CPU: none where it is more than a quota can hold, which would be no quota at all."""
    found = _sum(amounts, names)
    return found if found.amount <= MOST else _Sum()


def _weight(snapshot: NodeSnapshot, wanted: _Wanted, rule: WeightRule) -> int:
    """As this cgroup version counts it, so that it competes fairly with the kubelet's weights;
    never below what the kubelet gives for the ordinary request alone. Best-effort pods compete
    with nobody who has one of those, and share as they asked: the newer formula is not linear."""
    total = MilliCpu(wanted.native + wanted.request.amount)
    if snapshot.version is CgroupVersion.V1:
        return shares_of(total)
    if wanted.ref.tier is Tier.BESTEFFORT:
        return weight_for(total, WeightFormula.VOLCANO)
    inner = wanted.ref.level is Level.CONTAINER
    own = snapshot.container_formula if inner else snapshot.pod_formula
    if rule is WeightRule.VOLCANO:
        least = weight_for(wanted.native, own) if wanted.native else 0
        return max(weight_for(total, WeightFormula.VOLCANO), least)
    return weight_for(total, own)


def _remarks(workload: Workload, settings: ElasticResourcesSettings) -> Iterator[Remark]:
    """What a container says that cannot be used, or does not say, each sentence once."""
    cpu, memory = settings.cpu_names(), settings.memory_names()
    said = {
        amount.reason: None
        for each in workload.containers
        for amounts in (each.extended_limits, each.extended_requests)
        for name in (*cpu, *memory)
        if isinstance(amount := amounts.get(name), Gap)
    }
    said |= dict.fromkeys(_too_large(workload, cpu))
    said |= dict.fromkeys(_without_effect(workload, cpu, memory))
    for names in (cpu, memory):
        said |= dict.fromkeys(_without_pod_limit(workload, names))
    if said:
        yield Remark(workload.title(), join_some(list(said)))


def _without_pod_limit(workload: Workload, names: tuple[str, ...]) -> Iterator[str]:
    limited = _limited_by(workload, names)
    if len(limited) > 1:
        yield f"limits of {' and '.join(limited)} are mixed, so the pod as a whole has none"
        return
    for name in limited:
        if name not in workload.extended_limits:
            yield f"not every container has a limit of {name}, so the pod as a whole has none"


def _without_effect(
    workload: Workload, cpu: tuple[str, ...], memory: tuple[str, ...]
) -> Iterator[str]:
    """Sentences about elastic limits of containers that are unlimited in the ordinary way."""
    for each in workload.containers:
        pairs = (("cpu", cpu, _ordinary_cpu(each)), ("memory", memory, _ordinary_memory(each)))
        for ordinary, names, bound in pairs:
            found = _sum(each.extended_limits, names)
            if found.amount and isinstance(bound, Unlimited):
                yield (
                    f"{each.name} asks for {ordinary} without a limit, so that of {found.names} "
                    "bounds nothing"
                )


def _too_large(workload: Workload, names: tuple[str, ...]) -> Iterator[str]:
    """Sentences about amounts that no quota can hold; of the pod's sum where no part is one."""
    counts = f"above {MOST} (milliCPU), so it counts as absent"
    for kind in ("requests", "limits"):
        inner = [
            (each.name, found.names)
            for each in workload.containers
            if (found := _sum(getattr(each, f"extended_{kind}"), names)).amount > MOST
        ]
        for container, named in inner:
            yield f"{named} in the {kind} of {container} is {counts}"
        whole = _sum(getattr(workload, f"extended_{kind}"), names)
        if not inner and whole.amount > MOST:
            yield f"the pod's {whole.names} {kind} together are {counts}"


def concerns(pod: Workload) -> bool:
    return any(each.extended_requests or each.extended_limits for each in pod.containers)


POLICY = Policy(
    NAME,
    STATELESS,
    needs,
    decide,
    settings=ElasticResourcesSettings,
    description="weight, quota and memory of pods with elastic resources",
    concerns=concerns,
    ignores_counters=True,
    knobs=((WEIGHT.name, QUOTA.name, MEMORY_MAX.name),),
)
