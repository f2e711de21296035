"""The tick with claims on CPUs: what is told of pods that do not get them all."""

import msgspec

from slackwater.agent.tick import TickMemory, tick
from slackwater.model.cgroup import CgroupReading, CgroupRef, Level, Tier
from slackwater.model.cpus import CpuPolicy, CpuSet, KubeletCpus
from slackwater.model.decision import Remark, TickReport
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Micros, MilliCpu
from slackwater.model.workload import Workload, WorkloadContainer
from slackwater.policies import core_pinning
from slackwater.policies.core_pinning import CorePinningSettings
from slackwater.settings.agent_settings import AgentSettings
from tests.unit.policies.nodes import KUBEPODS, node
from tests.unit.resolution.machines import machine

ONE = MilliCpu(1000)
POD = CgroupRef("kubepods/podp", 50, Level.POD, Tier.GUARANTEED, "p")


def seen(containers: int, refused: bool = False) -> NodeSnapshot:
    """A pod whose containers ask for one exclusive CPU each, on a machine of four."""
    refs = [
        CgroupRef(f"{POD.path}/c{n}", 100 + n, Level.CONTAINER, Tier.GUARANTEED, "p")
        for n in range(containers)
    ]
    pod = Workload(
        "p", "many", "prod", Tier.GUARANTEED, POD,
        containers=tuple(WorkloadContainer(f"c{n}", ref, ONE, ONE) for n, ref in enumerate(refs)),
        cpu_policy=CpuPolicy.EXCLUSIVE,
    )  # fmt: skip
    groups = (KUBEPODS, POD, *refs)
    return msgspec.structs.replace(
        node(),
        workloads=(pod,),
        readings={ref.id: CgroupReading(ref, Micros(0), cpus=CpuSet()) for ref in groups},
        topology=machine(cores=4),
        reserved_cpus=CpuSet.of((0,)),
        kubelet_cpus=KubeletCpus("none"),
        refused_cpus={ref.id: "a group below has other CPUs" for ref in refs} if refused else {},
    )


def report(snapshot: NodeSnapshot) -> TickReport:
    settings = {core_pinning.NAME: CorePinningSettings(enabled=True)}
    policies = (core_pinning.POLICY,)
    return tick(snapshot, TickMemory(), policies, settings, AgentSettings()).story


def remarks(snapshot: NodeSnapshot) -> tuple[Remark, ...]:
    [line] = report(snapshot).told
    return line.remarks


def test_nothing_is_told_of_a_pod_that_gets_all() -> None:
    assert remarks(seen(3)) == ()


def test_one_sentence_about_a_pod_however_many_containers_lack_theirs() -> None:
    """An event has 1,024 characters."""
    [remark] = remarks(seen(300))
    assert remark.about == "prod/many"
    assert remark.text.count("is not free") == 3
    assert remark.text.endswith("; and 294 more")
    assert len(remark.text) < 1000


def test_a_refused_write_is_told_and_planned_again() -> None:
    [remark] = remarks(seen(1, refused=True))
    assert "(a group below has other CPUs)" in remark.text
    [grant] = [each for each in report(seen(1, refused=True)).grants if each.knob == "cpus"]
    assert grant.value == CpuSet.of((1,))
