"""A node in memory whose pods ask for CPUs: as kubelet and runtime make them, with sandboxes."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from slackwater.contract.crane.cpu_policy import CPU_MANAGER
from slackwater.contract.kubernetes_pod import Pod, read_pod
from slackwater.model.cgroup import CgroupRef, CgroupVersion, Level, Tier
from slackwater.model.cpus import CpuSet, Topology
from slackwater.model.decision import PlacedClaim
from slackwater.model.gap import Gap
from slackwater.model.knob import CPUS, QUOTA
from slackwater.model.plan import Result
from slackwater.model.units import Bandwidth, MilliCpu, bandwidth
from slackwater.policies.core_pinning import CorePinningSettings
from slackwater.record.journal import TickRecord
from slackwater.settings.agent_document import Settings
from slackwater.simulation.scenario_machine import build_topology, plain_machine
from tests.unit.simulation.mortal import Bed

V1, V2 = CgroupVersion.V1, CgroupVersion.V2
ON = Settings(policies={"core_pinning": CorePinningSettings(enabled=True)})
#: The kubelet's class by how a pod is asked for.
_PLACES = {
    Tier.GUARANTEED: "kubepods",
    Tier.BURSTABLE: "kubepods/burstable",
    Tier.BESTEFFORT: "kubepods/besteffort",
}


class PinnedNode:
    """Pods by name, each with a sandbox and the containers c0, c1, ... of whole CPUs or none."""

    def __init__(self, folder: Path | str, version: CgroupVersion, cpus: int = 8) -> None:
        self.bed = Bed(folder, version, cpus, ON)
        self.kernel = self.bed.kernel
        self._pods: dict[str, Pod] = {}
        self._sizes: dict[str, tuple[int, ...]] = {}
        self._groups: dict[str, list[CgroupRef]] = {}

    def add(self, name: str, *sizes: int, policy: str = "", tier: Tier = Tier.BURSTABLE) -> None:
        """A size of 0 is a container without a limit."""
        pod = self._make(f"{_PLACES[tier]}/pod{name}", Level.POD, tier, name)
        inner = [
            self._make(f"{pod.path}/{_id(name, place)}", Level.CONTAINER, tier, name)
            for place in range(-1, len(sizes))
        ]
        for ref, size in zip(inner[1:], sizes, strict=True):
            if size:
                self.bed.node.put(ref, QUOTA, bandwidth(MilliCpu(1000 * size)))
        if all(sizes):
            self.bed.node.put(pod, QUOTA, bandwidth(MilliCpu(1000 * sum(sizes))))
        self._groups[name], self._sizes[name] = [pod, *inner], sizes
        self.annotate(name, policy)

    def annotate(self, name: str, policy: str) -> None:
        """Live: the pod's groups stay."""
        self._pods[name] = _pod(name, self._sizes[name], policy, len(self._pods))
        self._show()

    def remove(self, name: str) -> None:
        for ref in reversed(self._groups.pop(name)):
            self.kernel.remove(ref)
        del self._pods[name], self._sizes[name]
        self._show()

    def restart_container(self, name: str, place: int) -> None:
        """A new group at another path, as a runtime makes it."""
        old = self._groups[name][2 + place]
        self.kernel.remove(old)
        self._groups[name][2 + place] = self._make(old.path, Level.CONTAINER, old.tier, name)

    def set_machine(self, topology: Topology, reserved: str) -> None:
        """From now on these CPUs are online, and these reserved."""
        reader = self.bed.alive().snapshot_reader
        reader._topology, reader._reserved = topology, CpuSet.parse(reserved)

    def take_offline(self, *gone: int) -> None:
        """Of the machine, as kernel and agent see it."""
        self.kernel.take_offline(CpuSet.of(gone))
        whole = build_topology(plain_machine(8))
        left = tuple(cpu for cpu in whole.cpus if cpu.number not in gone)
        self.set_machine(Topology(left), "0")

    def names(self) -> list[str]:
        return list(self._pods)

    def once(self) -> TickRecord:
        record = self.bed.once()
        assert isinstance(record, TickRecord)
        refused = [o for o in record.outcomes if o.result in (Result.REFUSED, Result.UNSUPPORTED)]
        assert not refused
        return record

    def effective(self, name: str, place: int) -> str:
        """Where a container really runs; -1 is the sandbox."""
        return self._effective(self._groups[name][2 + place]).format()

    def quota(self, name: str, place: int | None) -> object:
        """Of a container, or of the pod."""
        groups = self._groups[name]
        found = self.kernel.read(groups[0] if place is None else groups[2 + place], QUOTA)
        assert isinstance(found, Bandwidth)
        return found.limit

    def leaves(self) -> Iterator[tuple[CgroupRef, CpuSet]]:
        """Every group that can have tasks, and where they would run."""
        for groups in self._groups.values():
            for ref in groups[1:]:
                yield ref, self._effective(ref)

    def values(self) -> dict[str, object]:
        """What stands in every file that we may touch."""
        return {
            f"{knob.name} of {ref.path}": self.kernel.read(ref, knob)
            for ref in self.kernel.refs()
            for knob in (CPUS, QUOTA)
        }

    def _effective(self, ref: CgroupRef) -> CpuSet:
        found = self.kernel._find(ref)
        assert found is not None
        return found.effective_cpus()

    def _make(self, path: str, level: Level, tier: Tier, owner: str) -> CgroupRef:
        ref = self.kernel.make(path, level, tier, owner)
        if self.kernel.version(CPUS) is V1:  # a copy of the parent's
            above = {each.path: each for each in self.kernel.refs()}[path.rpartition("/")[0]]
            cpus = self.kernel.read(above, CPUS)
            assert not isinstance(cpus, Gap)
            self.bed.node.put(ref, CPUS, cpus)
        return ref

    def _show(self) -> None:
        objects = self.bed.source.objects
        pods = tuple(self._pods.values())
        self.bed.source.objects = msgspec.structs.replace(objects, pods=pods)


def placed(record: TickRecord) -> dict[str, PlacedClaim]:
    """By pod and container."""
    placement = record.story.placement
    claims = placement.claims if placement else ()
    return {f"{each.claim.pod}/{each.claim.container}": each for each in claims}


def remarks(record: TickRecord) -> dict[str, str]:
    return {each.about: each.text for line in record.story.told for each in line.remarks}


def _id(pod: str, place: int) -> str:
    return hashlib.sha256(f"{pod} {place}".encode()).hexdigest()


def _pod(name: str, sizes: tuple[int, ...], policy: str, age: int) -> Pod:
    containers: list[dict[str, Any]] = [
        {
            "name": f"c{place}",
            "resources": {"limits": {"cpu": str(size)}} if size else {},
        }
        for place, size in enumerate(sizes)
    ]
    ids = [
        {"name": f"c{place}", "containerID": f"containerd://{_id(name, place)}"}
        for place in range(len(sizes))
    ]
    document = {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "uid": name,
            "namespace": "shop",
            "annotations": {CPU_MANAGER: policy} if policy else {},
            "creationTimestamp": f"2026-01-01T00:00:{age % 60:02}Z",
        },
        "spec": {"containers": containers},
        "status": {"phase": "Running", "containerStatuses": ids},
    }
    return read_pod(document, "a test")
