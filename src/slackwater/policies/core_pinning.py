"""CPUs of their own for containers that ask for them (Crane's CPU set manager).

A pod's annotation says which CPUs its containers run on: `exclusive`, their own alone; `share`,
their own, which others may use too; `none`, all that nobody holds alone. A container gets as many
as its CPU limit, if that is whole and equal to its request; what the other containers of its pod
ask for does not matter. This policy only says who claims how many. Which CPUs they are, and what
that means for everybody else, is resolution.placement's to say.

A word that cannot be read takes nothing away: the pod keeps its last good policy. After a restart
of the agent, what it holds for the pod's containers says which one that was.

Where the kubelet's own CPU manager gives out CPUs, nothing is claimed: two managers would undo each
other's work. Its pinned containers are freed of quotas like ours.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from slackwater.contract.crane.cpu_policy import CPU_MANAGER, CPU_POLICY, word_for
from slackwater.contract.kubernetes_pod import Pod
from slackwater.contract.schema import SettingsStruct
from slackwater.model.cgroup import CgroupRef, Level, Tier
from slackwater.model.cpus import CpuPolicy, CpuSet, KubeletCpus
from slackwater.model.decision import (
    Act,
    Because,
    CpuClaim,
    Decision,
    Hold,
    Intent,
    Remark,
    Verb,
    join_some,
)
from slackwater.model.gap import Gap
from slackwater.model.knob import CPUS, QUOTA, KnobKey
from slackwater.model.needs import Needs, ReadingField
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import UNLIMITED, Bandwidth, Unlimited
from slackwater.model.workload import Workload, WorkloadContainer
from slackwater.policies.policy import Policy


class CorePinningSettings(SettingsStruct, frozen=True):
    """Settings of CPUs of their own for containers."""

    enabled: Annotated[
        bool,
        Meta(
            description="Whether containers get CPUs of their own where their pod's annotation "
            "qos.gocrane.io/cpu-manager asks for them. Needs a kubelet whose own CPU manager has "
            "the policy none.",
        ),
    ] = False
    default_policy: Annotated[
        CpuPolicy,
        Meta(
            description="What pods without such an annotation ask for: nothing; CPUs of their own "
            "that others may use; or CPUs of their own alone.",
        ),
    ] = CpuPolicy.NONE
    defragment: Annotated[
        bool,
        Meta(
            description="Whether containers are moved to other CPUs where that puts them on whole "
            "cores, or closer together. They lose their caches once.",
        ),
    ] = False


class CorePinningMemory(msgspec.Struct, frozen=True, omit_defaults=True):
    """By pod uid, the policy in force of pods that ask for CPUs of their own."""

    policies: dict[str, CpuPolicy] = {}


NAME = "core_pinning"
_NO_MANAGER = "none"
_ONE_CPU = 1000
_QUOTA = frozenset({ReadingField.QUOTA})
_CPUS = frozenset({ReadingField.CPUS})
_ALL_CPUS = Needs(
    {
        Level.NODE: _CPUS,
        Level.TIER: _CPUS | _QUOTA,
        Level.POD: _CPUS | _QUOTA,
        Level.CONTAINER: _CPUS | _QUOTA,
    },
    topology=True,
)
_QUOTAS = Needs(dict.fromkeys((Level.TIER, Level.POD, Level.CONTAINER), _QUOTA), topology=True)
_WANTED = "a CPU limit that is whole, at least 1 and equal to the request"
_DEFAULT = "corePinning.defaultPolicy"
_LAST_GOOD = "the last good policy"
_PINNED = Because("CPUs that nobody else can use", "by the kubelet", "no quota on them")


def needs(_: CorePinningSettings, __: frozenset[KnobKey]) -> Needs:
    """Nothing but for pods that ask."""
    return Needs()


def needs_of_pods(settings: CorePinningSettings, pods: Sequence[Pod]) -> Needs:
    """Where somebody asks, the CPUs of the whole tree: everybody's set follows from those that are
    claimed. Where nobody does, the quotas of pods that the kubelet may have pinned."""
    if settings.default_policy is not CpuPolicy.NONE or any(map(_asks, pods)):
        return _ALL_CPUS
    return _QUOTAS if any(map(_may_be_the_kubelets, pods)) else Needs()


def _asks(pod: Pod) -> bool:
    return CPU_MANAGER in pod.annotations or CPU_POLICY in pod.annotations


def _may_be_the_kubelets(pod: Pod) -> bool:
    """guaranteedCPUs in pkg/kubelet/cm/cpumanager/policy_static.go of Kubernetes."""
    return pod.tier is Tier.GUARANTEED and any(
        each.requests.cpu >= _ONE_CPU and each.requests.cpu % _ONE_CPU == 0
        for each in pod.resources.containers
    )


def decide(
    snapshot: NodeSnapshot, memory: CorePinningMemory, settings: CorePinningSettings
) -> Decision:
    claims: list[CpuClaim] = []
    remarks: list[Remark] = []
    policies: dict[str, CpuPolicy] = {}
    for pod in snapshot.workloads:
        if isinstance(pod.cpu_policy, Gap):
            policy = memory.policies.get(pod.uid) or _find_held_policy(snapshot, pod)
            remarks.append(Remark(pod.title(), _unreadable(pod.cpu_policy, policy)))
        else:
            policy = pod.cpu_policy or settings.default_policy
        if policy is CpuPolicy.NONE:
            continue
        policies[pod.uid] = policy
        claims += _claims(pod, policy, settings)
        if pod.cpu_policy is not None and not any(map(_qualifies, pod.containers)):
            remarks.append(Remark(pod.title(), _unqualified(pod, policy)))
    return _decide(snapshot, claims, remarks, CorePinningMemory(policies))


def _unreadable(word: Gap, policy: CpuPolicy) -> str:
    if policy is CpuPolicy.NONE:
        return f"{word.reason}; it counts as none"
    return f"{word.reason}; {policy.value} stays in force, {_LAST_GOOD}"


def _find_held_policy(snapshot: NodeSnapshot, pod: Workload) -> CpuPolicy:
    """By what the agent has written for the pod's containers. Only a container that has CPUs alone
    has no quota; where the kubelet sets none, nobody is let onto CPUs that may be held alone."""
    found = CpuPolicy.NONE
    held = {(each.ref.id, each.knob): each.ours for each in snapshot.held}
    for each in pod.containers:
        if not isinstance(each.ref, CgroupRef) or not _qualifies(each):
            continue
        cpus = held.get((each.ref.id, CPUS.name))
        # A set with a reserved CPU in it is that of a group without a claim.
        if not isinstance(cpus, CpuSet) or not cpus or cpus & snapshot.reserved_cpus:
            continue
        reading = snapshot.readings.get(each.ref.id)
        quota = held.get((each.ref.id, QUOTA.name)) or (reading and reading.quota)
        if isinstance(quota, Bandwidth) and isinstance(quota.limit, Unlimited):
            return CpuPolicy.EXCLUSIVE
        found = CpuPolicy.SHARE
    return found


def _decide(
    snapshot: NodeSnapshot,
    claims: Sequence[CpuClaim],
    remarks: list[Remark],
    memory: CorePinningMemory,
) -> Decision:
    """Without the kubelet's word nothing is given or taken back."""
    kubelet = snapshot.kubelet_cpus
    if isinstance(kubelet, Gap) or isinstance(snapshot.topology, Gap):
        unknown = kubelet if isinstance(kubelet, Gap) else snapshot.topology
        reason = unknown.reason if isinstance(unknown, Gap) else ""
        return Hold(reason, memory) if claims else _act((), (), remarks, memory)
    intents = tuple(_unlimited(snapshot, kubelet))
    text = refuse_beside(kubelet.policy)
    if not text:
        return _act(intents, tuple(claims), remarks, memory)
    refused = dict.fromkeys(claim.pod for claim in claims)
    return _act(intents, (), [*remarks, *(Remark(pod, text) for pod in refused)], memory)


def refuse_beside(manager_policy: str | None) -> str:
    """Why nothing is bound beside a kubelet whose CPU manager has this policy; empty where nothing
    is against it, or where the policy is not known."""
    if manager_policy in (None, _NO_MANAGER):
        return ""
    return (
        f"the kubelet's own CPU manager has the policy {manager_policy}: CPUs are the kubelet's to "
        "give; cpuManagerPolicy: none in its configuration leaves them to Slackwater"
    )


def _act(
    intents: tuple[Intent, ...],
    claims: tuple[CpuClaim, ...],
    remarks: Sequence[Remark],
    memory: CorePinningMemory,
) -> Act:
    numbers = {
        "exclusive containers": sum(each.policy is CpuPolicy.EXCLUSIVE for each in claims),
        "sharing containers": sum(each.policy is CpuPolicy.SHARE for each in claims),
        "claimed CPUs": sum(each.count for each in claims),
    }
    return Act(intents, memory, numbers, (), tuple(remarks), claims=claims)


def _qualifies(container: WorkloadContainer) -> bool:
    limit = container.limit
    if isinstance(limit, Unlimited) or limit != container.request:
        return False
    return limit >= _ONE_CPU and limit % _ONE_CPU == 0


def _claims(pod: Workload, policy: CpuPolicy, settings: CorePinningSettings) -> Iterator[CpuClaim]:
    key = pod.cpu_policy_key or CPU_MANAGER
    signal, word = (key, word_for(key, policy)) if pod.cpu_policy else (_DEFAULT, policy.value)
    if isinstance(pod.cpu_policy, Gap):
        signal, word = _LAST_GOOD, policy.value
    for each in pod.containers:
        if not isinstance(each.ref, CgroupRef) or not _qualifies(each):
            continue
        count = 0 if isinstance(each.limit, Unlimited) else each.limit // _ONE_CPU
        number = f"{count} CPU" if count == 1 else f"{count} CPUs"
        yield CpuClaim(
            each.ref,
            pod.title(),
            each.name,
            count,
            policy,
            Because(signal, word, f"{number} by its limit"),
            NAME,
            pod.started or 0,
            settings.defragment,
        )


def _unqualified(pod: Workload, policy: CpuPolicy) -> str:
    """About a pod that asks and none of whose containers can have any."""
    said = join_some([f"{each.name} {_stated(each)}" for each in pod.containers])
    return f"{policy.value} CPUs need {_WANTED}, which no container has: {said}"


def why_unqualified(container: WorkloadContainer) -> str:
    """Empty where it may have CPUs of its own."""
    if _qualifies(container):
        return ""
    return f"CPUs of its own need {_WANTED}; it {_stated(container)}"


def _stated(container: WorkloadContainer) -> str:
    request = f"request {container.request}m" if container.request else "no request"
    if isinstance(container.limit, Unlimited):
        return f"has {request} and no limit"
    return f"has {request} and limit {container.limit}m"


def _unlimited(snapshot: NodeSnapshot, kubelet: KubeletCpus) -> Iterator[Intent]:
    """No quota for what the kubelet pinned, nor for its pod."""
    for pod in snapshot.workloads:
        assigned = kubelet.assigned.get(pod.uid)
        if not assigned:
            continue
        refs = [each.ref for each in pod.containers if assigned.get(each.name)]
        for ref in (pod.ref, *refs) if refs else ():
            if isinstance(ref, CgroupRef):
                yield Intent(ref, QUOTA.name, Verb.FLOOR, UNLIMITED, _PINNED, NAME)


def concerns(pod: Workload) -> bool:
    return pod.cpu_policy is not None


POLICY = Policy(
    NAME,
    CorePinningMemory(),
    needs,
    decide,
    settings=CorePinningSettings,
    description="binds containers to CPUs, shared or exclusive",
    concerns=concerns,
    ignores_counters=True,
    knobs=((CPUS.name,),),
    needs_of_pods=needs_of_pods,
)
