"""Who runs on which CPU, and why: for `slackwater cpus`, and for a simulation's placements.

A container's policy is the one in force: a claim that got no CPUs runs on those that nobody holds
alone, as a container that asks for none, and `because` says why.
"""

from collections.abc import Iterator, Mapping

import msgspec

from slackwater.model.cpus import Cpu, CpuPolicy, CpuSet, KubeletCpus, Topology
from slackwater.model.decision import CpuPlacement, PlacedClaim
from slackwater.model.gap import Gap
from slackwater.model.knob import CPUS
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.workload import Workload, WorkloadContainer
from slackwater.policies import core_pinning
from slackwater.record.agent_view import API_VERSION, AgentView
from slackwater.record.journal import TickRecord
from slackwater.resolution.defragmentation import plan_defragmentation

_NOBODY_ALONE = "every CPU that no container holds alone"
_KUBELETS = "pinned by the kubelet's CPU manager"
_NO_TICK = Gap("no tick yet")


class CpuRow(msgspec.Struct, frozen=True, rename="camel"):
    """One CPU: where it sits, and whose it is. `core` is unique in its socket; `l3` is the lowest
    CPU that shares its last-level cache. Containers are namespace/pod/container."""

    cpu: int
    core: int
    l3: int
    numa: int
    socket: int
    reserved: bool
    exclusive: str | None = None
    shared: tuple[str, ...] = ()


class ContainerCpus(msgspec.Struct, frozen=True, rename="camel"):
    """One container: its policy in force, and its CPUs in list format."""

    pod: str
    container: str
    policy: str
    cpus: str
    because: str

    def title(self) -> str:
        return f"{self.pod}/{self.container}"


class CpuCounts(msgspec.Struct, frozen=True, rename="camel"):
    """How many CPUs containers hold alone, how many are those of containers that share them, how
    many are reserved, and how many are left: each counts once, although those that are shared or
    reserved are everybody's too."""

    exclusive: int = 0
    shared: int = 0
    reserved: int = 0
    default: int = 0


def count_cpus(snapshot: NodeSnapshot, placement: CpuPlacement | None) -> CpuCounts | Gap:
    if isinstance(snapshot.topology, Gap):
        return snapshot.topology
    alone, shared = CpuSet(), CpuSet()
    if isinstance(snapshot.kubelet_cpus, KubeletCpus):
        alone |= snapshot.kubelet_cpus.all_assigned()
    for each in placement.claims if placement else ():
        if each.claim.policy is CpuPolicy.EXCLUSIVE:
            alone |= each.cpus
        else:
            shared |= each.cpus
    online = snapshot.topology.all()
    reserved = (snapshot.reserved_cpus & online) - alone - shared
    left = online - alone - shared - reserved
    return CpuCounts(len(alone & online), len((shared & online) - alone), len(reserved), len(left))


def find_remarks(record: TickRecord) -> dict[str, str]:
    """By pod, why it does not get the CPUs of its own that it asks for, or not all, or what is
    wrong with how it asks."""
    found: dict[str, list[str]] = {}
    for line in record.story.told:
        for remark in line.remarks if line.policy == core_pinning.NAME else ():
            found.setdefault(remark.about, []).append(remark.text)
    return {pod: "; ".join(texts) for pod, texts in found.items()}


def find_refused_pods(record: TickRecord) -> set[str]:
    """The pods that ask for CPUs of their own and do not get them, or not all."""
    claims = record.story.placement.claims if record.story.placement else ()
    lacking = {each.claim.pod for each in claims if not each.cpus}
    served = {each.claim.pod for each in claims} - lacking
    return set(find_remarks(record)) - served


class CpuMoveRow(msgspec.Struct, frozen=True, rename="camel"):
    """A container that would be on whole cores, or closer together, on other CPUs."""

    pod: str
    container: str
    before: str
    after: str


class CpuMap(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """`common` are the CPUs of every container without its own. `off` is why nothing is bound here;
    `remarks` are about pods that ask for CPUs and do not get them, or ask in words that cannot be
    read; `moves` is what a defragmentation would do."""

    api_version: str = API_VERSION
    kind: str = "CpuMap"
    at: str | None = None
    off: str = ""
    kubelet: str | None = None
    common: str = ""
    counts: CpuCounts = CpuCounts()
    cpus: tuple[CpuRow, ...] = ()
    containers: tuple[ContainerCpus, ...] = ()
    remarks: tuple[str, ...] = ()
    moves: tuple[CpuMoveRow, ...] = ()


def make_cpu_map(view: AgentView) -> CpuMap | Gap:
    """Of the last tick. A Gap where there was none, or where it did not see the machine's CPUs."""
    record = view.latest
    if record is None:
        return _NO_TICK
    found = map_cpus(record)
    if isinstance(found, Gap):
        return found
    return msgspec.structs.replace(
        found,
        at=view.timestamp(record.snapshot.at),
        off=view.off.get(core_pinning.NAME, ""),
    )


def map_cpus(record: TickRecord) -> CpuMap | Gap:
    """Of one tick."""
    snapshot, placement = record.snapshot, record.story.placement
    topology = snapshot.topology
    if isinstance(topology, Gap):
        return topology
    counts = count_cpus(snapshot, placement)
    if isinstance(counts, Gap):
        return counts
    found = _Mapper(snapshot, topology, placement, find_remarks(record)).map()
    moves = tuple(_moves(topology, snapshot.reserved_cpus, placement)) if placement else ()
    return msgspec.structs.replace(found, counts=counts, moves=moves)


def _moves(topology: Topology, reserved: CpuSet, placement: CpuPlacement) -> Iterator[CpuMoveRow]:
    for each in plan_defragmentation(topology, reserved, placement):
        claim = each.claim
        yield CpuMoveRow(claim.pod, claim.container, each.before.format(), each.after.format())


class _Mapper:
    """Looks up what one tick says of each container, and turns it round to a row for each CPU."""

    def __init__(
        self,
        snapshot: NodeSnapshot,
        topology: Topology,
        placement: CpuPlacement | None,
        remarks: Mapping[str, str],
    ) -> None:
        self._snapshot = snapshot
        self._topology = topology
        self._remarks = remarks
        self._reserved = snapshot.reserved_cpus
        kubelet = snapshot.kubelet_cpus
        self._kubelet = kubelet if isinstance(kubelet, KubeletCpus) else KubeletCpus("")
        claims = placement.claims if placement else ()
        self._claims = {each.claim.target.id: each for each in claims}
        self._claiming = {each.claim.pod for each in claims}
        everything = topology.all() - self._kubelet.all_assigned()
        self._common = placement.common if placement else everything
        self._held = {
            held.ref.id: held.ours
            for held in snapshot.held
            if held.knob == CPUS.name and isinstance(held.ours, CpuSet)
        }

    def map(self) -> CpuMap:
        containers = tuple(
            self._container(pod, each)
            for pod in self._snapshot.workloads
            for each in pod.containers
            if not isinstance(each.ref, Gap)
        )
        rows = tuple(_rows(self._topology.cpus, self._reserved, containers))
        return CpuMap(
            kubelet=self._kubelet.policy or None,
            common=self._common.format(),
            cpus=rows,
            containers=containers,
            remarks=tuple(f"{pod}: {text}" for pod, text in self._remarks.items()),
        )

    def _container(self, pod: Workload, container: WorkloadContainer) -> ContainerCpus:
        placed = None if isinstance(container.ref, Gap) else self._claims.get(container.ref.id)
        assigned = self._kubelet.assigned.get(pod.uid, {}).get(container.name)
        if placed is not None and placed.cpus:
            policy, cpus = placed.claim.policy, placed.cpus
            because = _sentence(placed)
        elif assigned:
            policy, cpus, because = CpuPolicy.EXCLUSIVE, assigned, _KUBELETS
        else:
            policy, cpus = CpuPolicy.NONE, self._others_cpus(container)
            because = self._why_none(pod, container, placed)
        return ContainerCpus(pod.title(), container.name, policy.value, cpus.format(), because)

    def _others_cpus(self, container: WorkloadContainer) -> CpuSet:
        """What was written for it, or stands in its cgroup; an empty set there is its parent's."""
        if isinstance(container.ref, Gap):
            return self._common
        held = self._held.get(container.ref.id)
        reading = self._snapshot.readings.get(container.ref.id)
        own = reading.cpus if reading and isinstance(reading.cpus, CpuSet) else CpuSet()
        return held or own & self._common or self._common

    def _why_none(
        self, pod: Workload, container: WorkloadContainer, placed: PlacedClaim | None
    ) -> str:
        """What is told of the pod is about its containers with a claim, where it has such."""
        if placed is not None:
            return placed.refused
        if pod.cpu_policy in (None, CpuPolicy.NONE):
            return _NOBODY_ALONE
        told = "" if pod.title() in self._claiming else self._remarks.get(pod.title(), "")
        return told or core_pinning.why_unqualified(container) or _NOBODY_ALONE


def _sentence(placed: PlacedClaim) -> str:
    because = placed.claim.because
    text = f"{because.signal} {because.seen}, {because.limit}"
    return f"{text}; {placed.shared}" if placed.shared else text


def _rows(
    cpus: tuple[Cpu, ...], reserved: CpuSet, containers: tuple[ContainerCpus, ...]
) -> Iterator[CpuRow]:
    alone: dict[int, str] = {}
    shared: dict[int, list[str]] = {}
    for each in containers:
        if each.policy == CpuPolicy.EXCLUSIVE.value:
            alone |= dict.fromkeys(CpuSet.parse(each.cpus), each.title())
        elif each.policy == CpuPolicy.SHARE.value:
            for number in CpuSet.parse(each.cpus):
                shared.setdefault(number, []).append(each.title())
    for cpu in cpus:
        yield CpuRow(
            cpu=cpu.number,
            core=cpu.core,
            l3=cpu.cache,
            numa=cpu.node,
            socket=cpu.package,
            reserved=cpu.number in reserved,
            exclusive=alone.get(cpu.number),
            shared=tuple(shared.get(cpu.number, ())),
        )
