"""CPU weight, quota and memory limit of pods that use batch resources (Volcano's Resources).

The kubelet knows nothing of these resources: such a pod is best effort to it, without weight,
quota or memory limit. Each container gets what it asked for, and the pod what its containers need
together; a limit only where every container has one (zero is none). A weight counts ordinary CPU
requests as well: a batch sidecar never makes a pod lighter than the kubelet has it. Pods that are
latency-critical (level 2) are left alone: what they may use is the kubelet's business.
"""

import enum
from collections.abc import Iterator
from typing import Annotated

import msgspec
from msgspec import Meta

from slackwater.contract.schema import ResourceName, SettingsStruct
from slackwater.model.cgroup import CgroupRef, CgroupVersion, Level
from slackwater.model.decision import (
    Act,
    Because,
    Decision,
    Intent,
    Remark,
    Verb,
)
from slackwater.model.gap import Gap
from slackwater.model.knob import LARGEST_QUOTA, MEMORY_MAX, QUOTA, WEIGHT, KnobKey
from slackwater.model.needs import Needs, ReadingField
from slackwater.model.problem import Problem, ProblemCode, quoted
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import MilliCpu, left_over, smallest_milli
from slackwater.model.weight import WeightFormula, shares_of, weight_for
from slackwater.model.workload import Amounts, Workload
from slackwater.policies.policy import STATELESS, Policy


class WeightRule(enum.Enum):
    """How a request becomes a weight on cgroup v2."""

    KUBELET = "kubelet"
    VOLCANO = "volcano"


class BatchResourcesSettings(SettingsStruct, frozen=True):
    """Settings of batch resources."""

    enabled: Annotated[
        bool,
        Meta(
            description="Whether pods that ask for batch resources get a CPU weight, a quota and "
            "a memory limit from them. The kubelet ignores these resources and sets none of the "
            "three.",
        ),
    ] = False
    cpu_resource: Annotated[
        ResourceName,
        Meta(
            description="The extended resource that stands for CPU, in whole milliCPU: 500 is "
            "half a CPU.",
        ),
    ] = "kubernetes.io/batch-cpu"
    memory_resource: Annotated[
        ResourceName,
        Meta(description="The extended resource that stands for memory, in bytes."),
    ] = "kubernetes.io/batch-memory"
    weight_formula: Annotated[
        WeightRule,
        Meta(
            description="How a request becomes a weight on cgroup v2: as the kubelet and the "
            "runtime of this node do it, or as Volcano does, a tenth of the milliCPU, which "
            "lets batch pods outweigh others.",
        ),
    ] = WeightRule.KUBELET

    def conflicts(self) -> Iterator[Problem]:
        """One resource cannot count both milliCPU and bytes."""
        if self.cpu_resource == self.memory_resource:
            bound = f"another resource than cpuResource, which is {quoted(self.cpu_resource)}"
            value = quoted(self.memory_resource)
            yield Problem("memoryResource", value, bound, ProblemCode.CONFLICT)


NAME = "batch_resources"
#: Above it a pod is latency-critical.
_HIGHEST_LEVEL = 1
_FIELDS = frozenset(
    {ReadingField.WEIGHT, ReadingField.IDLE, ReadingField.QUOTA, ReadingField.MEMORY_MAX}
)
_QUOTA = frozenset({ReadingField.QUOTA})
_FLOOR = smallest_milli()
#: In milliCPU: the kernel's largest quota in its longest period, a second. No machine has as much.
MOST = left_over(LARGEST_QUOTA * 1000, 1_000_000)
_LEFT_ALONE = "batch resources of pods of level LC and HLS are left alone"


def needs(_: BatchResourcesSettings, __: frozenset[KnobKey]) -> Needs:
    """The tiers' quotas too: on cgroup v1 they bind what is below them."""
    return Needs({Level.TIER: _QUOTA, Level.POD: _FIELDS, Level.CONTAINER: _FIELDS})


def decide(snapshot: NodeSnapshot, _: object, settings: BatchResourcesSettings) -> Decision:
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
        for wanted in _groups(workload, settings.cpu_resource):
            intents += _intents(snapshot, wanted, settings)
    return Act(tuple(intents), STATELESS, {"pods": pods}, (), tuple(remarks))


class _Wanted(msgspec.Struct, frozen=True):
    """What one group asks for: extended amounts, and `native`, its ordinary CPU request."""

    ref: CgroupRef
    native: MilliCpu
    requests: Amounts
    limits: Amounts


def _is_critical(workload: Workload) -> bool:
    level = workload.qos_level
    return not isinstance(level, Gap) and level > _HIGHEST_LEVEL


def _asks(workload: Workload, settings: BatchResourcesSettings) -> bool:
    names = (settings.cpu_resource, settings.memory_resource)
    return any(
        name in amounts
        for each in workload.containers
        for amounts in (each.extended_requests, each.extended_limits)
        for name in names
    )


def _groups(workload: Workload, cpu: str) -> Iterator[_Wanted]:
    """The pod and each of its containers that has a group."""
    if isinstance(workload.ref, CgroupRef):
        limits = _pod_limits(workload, cpu)
        yield _Wanted(workload.ref, workload.request, workload.extended_requests, limits)
    for each in workload.containers:
        if isinstance(each.ref, CgroupRef):
            yield _Wanted(each.ref, each.request, each.extended_requests, each.extended_limits)


def _pod_limits(workload: Workload, cpu: str) -> Amounts:
    """A container below the kernel's smallest quota gets that one, and the pod has room for it."""
    limits = workload.extended_limits
    if not _amount(limits, cpu):
        return limits
    stated = (_amount(each.extended_limits, cpu) for each in workload.containers)
    raised = sum(max(_FLOOR - limit, 0) for limit in stated if limit)
    return {**limits, cpu: _amount(limits, cpu) + raised}


def _intents(
    snapshot: NodeSnapshot, wanted: _Wanted, settings: BatchResourcesSettings
) -> Iterator[Intent]:
    """An amount of zero, as one that is unknown or too large, asks for nothing."""
    ref = wanted.ref
    request = _milli(wanted.requests, settings.cpu_resource)
    limit = _milli(wanted.limits, settings.cpu_resource)
    memory = _amount(wanted.limits, settings.memory_resource)
    if request:
        value = _weight(snapshot, wanted, request, settings.weight_formula)
        seen = f"{request}m, and {wanted.native}m of cpu" if wanted.native else f"{request}m"
        because = Because(f"{settings.cpu_resource} requested", seen, f"weight {value}")
        yield Intent(ref, WEIGHT.name, Verb.SET, value, because, NAME)
    if limit:
        because = Because(f"{settings.cpu_resource} limit", f"{limit}m", _whose(ref))
        yield Intent(ref, QUOTA.name, Verb.BASE, limit, because, NAME)
    if memory:
        because = Because(f"{settings.memory_resource} limit", f"{memory}", "bytes")
        yield Intent(ref, MEMORY_MAX.name, Verb.SET, memory, because, NAME)


def _whose(ref: CgroupRef) -> str:
    if ref.level is Level.CONTAINER:
        return "the container's own limit"
    return "what the pod's containers may use together"


def _amount(amounts: Amounts, name: str) -> int:
    found = amounts.get(name, 0)
    return 0 if isinstance(found, Gap) else found


def _milli(amounts: Amounts, name: str) -> MilliCpu:
    """Of CPU: none where it is more than a quota can hold, which would be no quota at all."""
    found = _amount(amounts, name)
    return MilliCpu(found if found <= MOST else 0)


def _weight(snapshot: NodeSnapshot, wanted: _Wanted, batch: MilliCpu, rule: WeightRule) -> int:
    """As this cgroup version counts it, so that it competes fairly with the kubelet's weights;
    never below what the kubelet gives for the ordinary request alone."""
    total = MilliCpu(wanted.native + batch)
    if snapshot.version is CgroupVersion.V1:
        return shares_of(total)
    inner = wanted.ref.level is Level.CONTAINER
    own = snapshot.container_formula if inner else snapshot.pod_formula
    if rule is WeightRule.VOLCANO:
        least = weight_for(wanted.native, own) if wanted.native else 0
        return max(weight_for(total, WeightFormula.VOLCANO), least)
    return weight_for(total, own)


def _remarks(workload: Workload, settings: BatchResourcesSettings) -> Iterator[Remark]:
    """What a container says that cannot be used, or does not say, each sentence once."""
    names = (settings.cpu_resource, settings.memory_resource)
    said = {
        amount.reason: None
        for each in workload.containers
        for amounts in (each.extended_limits, each.extended_requests)
        for name in names
        if isinstance(amount := amounts.get(name), Gap)
    }
    said |= dict.fromkeys(_too_large(workload, settings.cpu_resource))
    said |= {
        f"not every container has a limit of {name}, so the pod as a whole has none": None
        for name in names
        if name not in workload.extended_limits
        and any(_amount(each.extended_limits, name) for each in workload.containers)
    }
    if said:
        yield Remark(workload.title(), "; ".join(said))


def _too_large(workload: Workload, cpu: str) -> Iterator[str]:
    """Sentences about amounts that no quota can hold; of the pod's sum where no part is one."""
    counts = "so it counts as absent"
    for kind in ("requests", "limits"):
        inner = [
            each.name
            for each in workload.containers
            if _amount(getattr(each, f"extended_{kind}"), cpu) > MOST
        ]
        whole = getattr(workload, f"extended_{kind}")
        for name in inner:
            yield f"{cpu} in the {kind} of {name} is above {MOST} (milliCPU), {counts}"
        if not inner and _amount(whole, cpu) > MOST:
            yield f"the pod's {cpu} {kind} together are above {MOST} (milliCPU), {counts}"


def concerns(pod: Workload) -> bool:
    return any(each.extended_requests or each.extended_limits for each in pod.containers)


POLICY = Policy(
    NAME,
    STATELESS,
    needs,
    decide,
    settings=BatchResourcesSettings,
    description="weight, quota and memory of pods with batch resources",
    concerns=concerns,
    ignores_counters=True,
    knobs=((WEIGHT.name, QUOTA.name, MEMORY_MAX.name),),
)
