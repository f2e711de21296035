"""What the tick would grant to a container that does not run yet, asked from another thread. Pure.

The last tick's snapshot, settings and memory, with one pod in place of all, and its container as if
it stood there as asked for: then the same policies decide and the same resolver folds. Only those
policies are asked that have to do with quotas or CPUs and go by pods and knobs alone
(Policy.ignores_counters); what others do to a container follows from what it does, and it has done
nothing yet.

Only the quota is granted before the start. Weight, memory and CPUs follow with the tick: a runtime
keeps what it was told, and writes it again whenever it is told something else (docs/adr/0032).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from slackwater.agent.tick import PolicyState, TickMemory, decide
from slackwater.model.cgroup import CgroupReading, CgroupRef, CgroupVersion, Level
from slackwater.model.cpus import CpuSet, KubeletCpus
from slackwater.model.decision import Act, CpuClaim, Grant, Intent
from slackwater.model.gap import Gap
from slackwater.model.knob import CPUS, QUOTA
from slackwater.model.plan import StartNote
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Bandwidth, Micros, Unlimited, bandwidth
from slackwater.model.workload import Workload
from slackwater.policies.policy import Policy
from slackwater.resolution.quota import granted_quota
from slackwater.resolution.resolver import resolve

#: Of a cgroup that is not there yet: no directory has this inode number.
_NOT_YET = 0


class TickBasis(msgspec.Struct, frozen=True):
    """What the last tick decided from, and its memory after it."""

    snapshot: NodeSnapshot
    memory: TickMemory
    settings: Mapping[str, Any]


class StartingContainer(msgspec.Struct, frozen=True):
    """A container before its start, or before its resources are updated. `quota` and `cpus` are
    what the kubelet asks for; `directory` is its group's below the pod's. `pod` has its group,
    whose quota is `pod_quota` at this moment."""

    pod: Workload
    name: str
    directory: str
    quota: Bandwidth
    pod_quota: Bandwidth | Gap
    cpus: CpuSet = CpuSet()


class StartDecision(msgspec.Struct, frozen=True):
    """The quota to start with; None where that is the one that was asked for, and `because` says
    why, or who granted it."""

    quota: Bandwidth | None
    because: str


def decide_start(
    basis: TickBasis, policies: Sequence[Policy], container: StartingContainer
) -> StartDecision:
    """Never more than the pod's quota on cgroup v1, where the start would fail."""
    why_not = _why_not(basis.snapshot, container)
    if why_not:
        return StartDecision(None, why_not)
    snapshot, ref = _snapshot_with(basis.snapshot, container)
    intents, claims = _ask(basis, policies, snapshot)
    if any(claim.target.id == ref.id for claim in claims):
        return StartDecision(None, "it gets CPUs of its own")
    grants = resolve(snapshot, (each for each in intents if each.target.id == ref.id))
    granted = next((each for each in grants if each.knob == QUOTA.name), None)
    quota = container.quota if granted is None else granted_quota(granted, container.quota.period)
    because = _told_by(granted)
    if snapshot.version is CgroupVersion.V1 and _exceeds(quota, container.pod_quota):
        quota, because = _within(quota, container.pod_quota), "its pod's quota"
    if quota == container.quota:
        return StartDecision(None, because or "no policy changes its quota")
    return StartDecision(quota, because)


def _why_not(snapshot: NodeSnapshot, container: StartingContainer) -> str:
    """Why it is left to the next tick, which sees the container as it is."""
    if not isinstance(container.pod.ref, CgroupRef):
        return container.pod.ref.reason
    own = next((each for each in container.pod.containers if each.name == container.name), None)
    if own is None:
        return f"the pod has no container {container.name}"
    asked = container.quota
    if not isinstance(asked.limit, Unlimited):
        stated = container.pod.limit_at_start(own)
        if isinstance(stated, Unlimited) or bandwidth(stated, asked.period) != asked:
            return "its quota is not its limit's: another plug-in's, or a resize under way"
    if container.cpus and _may_be_its_own(snapshot, container.cpus):
        return "the kubelet gave it CPUs of its own"
    return ""


def _may_be_its_own(snapshot: NodeSnapshot, cpus: CpuSet) -> bool:
    """A shared pool has reserved CPUs in it; where those are not known, nor is what this is."""
    kubelet = snapshot.kubelet_cpus
    if isinstance(kubelet, KubeletCpus) and kubelet.policy == "none":
        return False
    return not cpus & snapshot.reserved_cpus


def _snapshot_with(
    before: NodeSnapshot, container: StartingContainer
) -> tuple[NodeSnapshot, CgroupRef]:
    """The node with this pod alone, and its container as if it stood there."""
    pod = container.pod
    above = pod.ref
    if not isinstance(above, CgroupRef):
        raise TypeError(f"{pod.title()} has no group")
    ref = CgroupRef(
        f"{above.path}/{container.directory}", _NOT_YET, Level.CONTAINER, above.tier, above.owner
    )
    containers = tuple(
        msgspec.structs.replace(each, ref=ref) if each.name == container.name else each
        for each in pod.containers
    )
    top = (before.kubepods, *before.tiers.values())
    readings = {each.id: before.readings[each.id] for each in top if each.id in before.readings}
    readings[above.id] = CgroupReading(above, before.at, quota=container.pod_quota)
    readings[ref.id] = CgroupReading(
        ref, before.at, quota=container.quota, burst=Micros(0), idle=False, cpus=container.cpus
    )
    snapshot = msgspec.structs.replace(
        before,
        workloads=(msgspec.structs.replace(pod, containers=containers),),
        readings=readings,
        rates={},
        held=(),
    )
    return snapshot, ref


def _ask(
    basis: TickBasis, policies: Sequence[Policy], snapshot: NodeSnapshot
) -> tuple[list[Intent], list[CpuClaim]]:
    intents: list[Intent] = []
    claims: list[CpuClaim] = []
    for act in _decisions(basis, policies, snapshot):
        intents += act.intents
        claims += act.claims
    return intents, claims


def has_quotas_at_start(policy: Policy) -> bool:
    """Whether a container that starts may be granted a quota by it, or is refused one."""
    knobs = {each for alternative in policy.knobs for each in alternative}
    return policy.ignores_counters and not knobs.isdisjoint((QUOTA.name, CPUS.name))


def _decisions(
    basis: TickBasis, policies: Sequence[Policy], snapshot: NodeSnapshot
) -> Iterator[Act]:
    """Of a policy that holds nothing stands yet for this container."""
    for policy in policies:
        settings = basis.settings.get(policy.name)
        if settings is None or not has_quotas_at_start(policy):
            continue
        state = basis.memory.policies.get(policy.name, PolicyState(policy.first_memory))
        decision = decide(policy, snapshot, state, settings)
        if isinstance(decision, Act):
            yield decision


def _told_by(granted: Grant | None) -> str:
    if granted is None:
        return ""
    return ", ".join(dict.fromkeys(each.by for each in granted.contributions))


def _exceeds(quota: Bandwidth, most: Bandwidth | Gap) -> bool:
    """One of none is no more than its parent's, to the kernel."""
    return (
        isinstance(most, Bandwidth)
        and not isinstance(quota.limit, Unlimited)
        and quota.exceeds(most)
    )


def _within(quota: Bandwidth, most: Bandwidth | Gap) -> Bandwidth:
    """The largest one in the same period that is not above."""
    if isinstance(most, Gap) or isinstance(most.limit, Unlimited):
        return quota
    return Bandwidth(Micros(most.limit * quota.period // most.period), quota.period)


#: How long a runtime may take between our answer and its write, and a container between its
#: creation and its start.
_WRITE_PATIENCE = Micros(10_000_000)
_START_PATIENCE = Micros(600_000_000)


class StartsFound(msgspec.Struct, frozen=True):
    """What became of quotas that runtimes were told of: those that stand there, with their groups;
    those that never came; and the groups in which one may still come."""

    adopted: tuple[tuple[StartNote, CgroupRef], ...] = ()
    forgotten: tuple[StartNote, ...] = ()
    awaited: frozenset[int] = frozenset()


def find_starts(snapshot: NodeSnapshot, notes: Sequence[StartNote]) -> StartsFound:
    """A quota that stands there is adopted once the pod's status says whose group it is: before
    that no policy asks for it, and what is ours and unasked for is released."""
    known = {
        each.ref.id
        for pod in snapshot.workloads
        for each in pod.containers
        if isinstance(each.ref, CgroupRef)
    }
    groups = {reading.ref.path: reading for reading in snapshot.readings.values()}
    adopted: list[tuple[StartNote, CgroupRef]] = []
    forgotten: list[StartNote] = []
    awaited: set[int] = set()
    for note in notes:
        reading, age = groups.get(note.path), snapshot.at - note.at
        stands = reading is not None and reading.quota == note.told
        if reading is not None and stands and (reading.ref.id in known or age > _START_PATIENCE):
            adopted.append((note, reading.ref))
        elif age > (_START_PATIENCE if reading is None or stands else _WRITE_PATIENCE):
            forgotten.append(note)
        elif reading is not None:
            awaited.add(reading.ref.id)
    return StartsFound(tuple(adopted), tuple(forgotten), frozenset(awaited))
