"""CPU weight, quota and memory limit of pods that use batch resources (Volcano's Resources).

The kubelet knows nothing of these resources: such a pod is best effort to it, without weight,
quota or memory limit. Each container gets what it asked for, and the pod what its containers need
together; a limit only where every container has one (zero is none). Latency-critical pods (level 2)
are left alone: what they may use is the kubelet's business.
"""

from collections.abc import Iterator

from slackwater.model.cgroup import CgroupRef, CgroupVersion, Level
from slackwater.model.decision import (
    Act,
    Because,
    Decision,
    Intent,
    QuotaIntent,
    Remark,
    SettingIntent,
    Verb,
)
from slackwater.model.gap import Gap
from slackwater.model.knob import MEMORY_MAX, WEIGHT
from slackwater.model.needs import Field, Needs
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import MilliCpu, smallest_milli
from slackwater.model.weight import WeightFormula, shares_of, weight_for
from slackwater.model.workload import Amounts, Workload
from slackwater.policies.policy import STATELESS, Policy
from slackwater.settings.batch_resources import BatchResourcesSettings, WeightRule

NAME = "batch_resources"
#: Above it a pod is latency-critical.
_HIGHEST_LEVEL = 1
_FIELDS = frozenset({Field.WEIGHT, Field.IDLE, Field.QUOTA, Field.MEMORY_MAX})
_QUOTA = frozenset({Field.QUOTA})
_FLOOR = smallest_milli()


def needs(_: BatchResourcesSettings, __: frozenset[str]) -> Needs:
    """The tiers' quotas too: on cgroup v1 they bind what is below them."""
    return Needs({Level.TIER: _QUOTA, Level.POD: _FIELDS, Level.CONTAINER: _FIELDS})


def decide(snapshot: NodeSnapshot, _: object, settings: BatchResourcesSettings) -> Decision:
    intents: list[Intent] = []
    remarks: list[Remark] = []
    pods = 0
    for workload in snapshot.workloads:
        if not _is_concerned(workload, settings):
            continue
        pods += 1
        remarks += _remarks(workload, settings)
        for ref, asked, allowed in _groups(workload, settings.cpu_resource):
            intents += _intents(snapshot, ref, asked, allowed, settings)
    return Act(tuple(intents), STATELESS, {"pods": pods}, (), tuple(remarks))


def _is_concerned(workload: Workload, settings: BatchResourcesSettings) -> bool:
    level = workload.qos_level
    if not isinstance(level, Gap) and level > _HIGHEST_LEVEL:
        return False
    names = (settings.cpu_resource, settings.memory_resource)
    return any(
        name in amounts
        for each in workload.containers
        for amounts in (each.extended_requests, each.extended_limits)
        for name in names
    )


def _groups(workload: Workload, cpu: str) -> Iterator[tuple[CgroupRef, Amounts, Amounts]]:
    """The pod and each of its containers that has a group."""
    if isinstance(workload.ref, CgroupRef):
        yield workload.ref, workload.extended_requests, _pod_limits(workload, cpu)
    for each in workload.containers:
        if isinstance(each.ref, CgroupRef):
            yield each.ref, each.extended_requests, each.extended_limits


def _pod_limits(workload: Workload, cpu: str) -> Amounts:
    """A container below the kernel's smallest quota gets that one, and the pod has room for it."""
    limits = workload.extended_limits
    if not _amount(limits, cpu):
        return limits
    stated = (_amount(each.extended_limits, cpu) for each in workload.containers)
    raised = sum(max(_FLOOR - limit, 0) for limit in stated if limit)
    return {**limits, cpu: _amount(limits, cpu) + raised}


def _intents(
    snapshot: NodeSnapshot,
    ref: CgroupRef,
    asked: Amounts,
    allowed: Amounts,
    settings: BatchResourcesSettings,
) -> Iterator[Intent]:
    """An amount of zero, as one that is unknown, asks for nothing."""
    request = _amount(asked, settings.cpu_resource)
    limit = _amount(allowed, settings.cpu_resource)
    memory = _amount(allowed, settings.memory_resource)
    if request:
        value = _weight(snapshot, ref, MilliCpu(request), settings.weight_formula)
        because = Because(f"{settings.cpu_resource} requested", f"{request}m", f"weight {value}")
        yield SettingIntent(ref, WEIGHT.name, value, because, NAME)
    if limit:
        because = Because(f"{settings.cpu_resource} limit", f"{limit}m", "the pod's own limit")
        yield QuotaIntent(ref, Verb.BASE, MilliCpu(limit), because, NAME)
    if memory:
        because = Because(f"{settings.memory_resource} limit", f"{memory}", "bytes")
        yield SettingIntent(ref, MEMORY_MAX.name, memory, because, NAME)


def _amount(amounts: Amounts, name: str) -> int:
    found = amounts.get(name, 0)
    return 0 if isinstance(found, Gap) else found


def _weight(snapshot: NodeSnapshot, ref: CgroupRef, milli: MilliCpu, rule: WeightRule) -> int:
    """As this cgroup version counts it, so that it competes fairly with the kubelet's weights."""
    if snapshot.version is CgroupVersion.V1:
        return shares_of(milli)
    if rule is WeightRule.VOLCANO:
        return weight_for(milli, WeightFormula.VOLCANO)
    if ref.level is Level.CONTAINER:
        return weight_for(milli, snapshot.container_formula)
    return weight_for(milli, snapshot.pod_formula)


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
    said |= {
        f"not every container has a limit of {name}, so the pod as a whole has none": None
        for name in names
        if name not in workload.extended_limits
        and any(_amount(each.extended_limits, name) for each in workload.containers)
    }
    if said:
        yield Remark(workload.title(), "; ".join(said))


POLICY = Policy(NAME, STATELESS, needs, decide)
