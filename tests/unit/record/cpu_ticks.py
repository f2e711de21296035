"""Ticks of a node whose containers hold CPUs, in a few words."""

from collections.abc import Iterable
from typing import Any

import msgspec

from slackwater.model.cgroup import CgroupRef, Level, Tier
from slackwater.model.cpus import CpuPolicy, CpuSet, KubeletCpus
from slackwater.model.decision import (
    Because,
    CpuClaim,
    CpuPlacement,
    PlacedClaim,
    PolicyAction,
    PolicyReport,
    Remark,
)
from slackwater.model.snapshot import Held
from slackwater.model.units import Micros, MilliCpu
from slackwater.model.workload import Workload, WorkloadContainer
from slackwater.policies import core_pinning
from slackwater.record.journal import TickRecord
from slackwater.simulation.scenario_machine import ScenarioMachine, build_topology
from tests.unit.policies.nodes import node
from tests.unit.record.tick_records import record

#: Two sockets of two cores with two threads: 0,4 and 1,5 are the first.
MACHINE = ScenarioMachine(cores=2, sockets=2, threads=2)
EXCLUSIVE, SHARE, NONE = CpuPolicy.EXCLUSIVE, CpuPolicy.SHARE, CpuPolicy.NONE


def cpus(text: str) -> CpuSet:
    return CpuSet.parse(text)


def container_ref(number: int) -> CgroupRef:
    path = f"kubepods/pod{number}/main"
    return CgroupRef(path, 1000 + number, Level.CONTAINER, Tier.GUARANTEED, str(number))


def pod_with_cpus(number: int, name: str, policy: CpuPolicy | None = None) -> Workload:
    """A pod with one container, main."""
    ref = CgroupRef(f"kubepods/pod{number}", 100 + number, Level.POD, Tier.GUARANTEED, str(number))
    main = WorkloadContainer("main", container_ref(number), MilliCpu(1000), MilliCpu(1000))
    return Workload(
        str(number), name, "prod", Tier.GUARANTEED, ref, containers=(main,), cpu_policy=policy
    )


def placed(
    pod: Workload, policy: CpuPolicy, text: str, count: int = 2, refused: str = ""
) -> PlacedClaim:
    ref = pod.containers[0].ref
    assert isinstance(ref, CgroupRef)
    because = Because("qos.gocrane.io/cpu-manager", policy.value, f"{count} CPUs by its limit")
    claim = CpuClaim(ref, pod.title(), "main", count, policy, because, core_pinning.NAME)
    return PlacedClaim(claim, cpus(text), refused)


def held_cpus(number: int, text: str) -> Held:
    return Held(container_ref(number), "cpus", CpuSet(), cpus(text), Micros(0))


def pinned_tick(
    pods: Iterable[Workload],
    claims: Iterable[PlacedClaim],
    common: str,
    remarks: Iterable[Remark] = (),
    **seen: Any,
) -> TickRecord:
    plain: dict[str, Any] = {
        "topology": build_topology(MACHINE),
        "reserved_cpus": cpus("0"),
        "kubelet_cpus": KubeletCpus("none"),
        "workloads": tuple(pods),
    }
    snapshot = msgspec.structs.replace(node(), **plain | seen)
    line = PolicyReport(core_pinning.NAME, PolicyAction.ACTED, "", {}, remarks=tuple(remarks))
    made = record(snapshot, lines=(line,))
    placement = CpuPlacement(cpus(common), tuple(claims))
    story = msgspec.structs.replace(made.story, placement=placement)
    return msgspec.structs.replace(made, story=story)
