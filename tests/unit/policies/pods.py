"""Pods with containers in a few words, for tests of the policies that look into pods."""

from collections.abc import Mapping
from typing import Any

import msgspec

from slackwater.model.cgroup import CgroupReading, CgroupRef, CgroupVersion, Level, Tier
from slackwater.model.decision import Act, Decision
from slackwater.model.gap import Gap
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import UNLIMITED, Bandwidth, Micros, MilliCpu, Unlimited
from slackwater.model.workload import Amounts, Workload, WorkloadContainer
from tests.unit.policies.nodes import FREE, node

CPU, MEMORY = "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"
V1, V2 = CgroupVersion.V1, CgroupVersion.V2
NO_FILE = Gap("cpu.qos_level does not exist here")


def pod_ref(number: int = 1) -> CgroupRef:
    path = f"kubepods/besteffort/pod{number}"
    return CgroupRef(path, 10 * number, Level.POD, Tier.BESTEFFORT, str(number))


def inner_ref(number: int, name: str) -> CgroupRef:
    identity = 10 * number + int(name[1:])
    path = f"{pod_ref(number).path}/{name}"
    return CgroupRef(path, identity, Level.CONTAINER, Tier.BESTEFFORT, str(number))


def box(
    name: str,
    requests: Amounts | None = None,
    limits: Amounts | None = None,
    number: int = 1,
    **more: Any,
) -> WorkloadContainer:
    """c1, c2, ...: a container of pod `number`, with extended resources; more by name."""
    plain: dict[str, Any] = {
        "ref": inner_ref(number, name),
        "request": MilliCpu(0),
        "limit": UNLIMITED,
        "extended_requests": requests or {},
        "extended_limits": limits or {},
    }
    return WorkloadContainer(name, **plain | more)


def pod(*containers: WorkloadContainer, number: int = 1, **more: Any) -> Workload:
    """Its extended amounts are the plain sums of its containers', limits if all have one."""
    names = {name for each in containers for name in each.extended_requests}
    limited = {
        name
        for each in containers
        for name in each.extended_limits
        if all(each.extended_limits.get(name) for each in containers)
    }
    plain: dict[str, Any] = {
        "ref": pod_ref(number),
        "containers": containers,
        "extended_requests": {
            n: total([c.extended_requests for c in containers], n) for n in names
        },
        "extended_limits": {n: total([c.extended_limits for c in containers], n) for n in limited},
    }
    return Workload(str(number), f"pod-{number}", "default", Tier.BESTEFFORT, **plain | more)


def total(amounts: list[Amounts], name: str) -> int | Gap:
    found = [each.get(name, 0) for each in amounts]
    gap = next((each for each in found if isinstance(each, Gap)), None)
    return gap or sum(each for each in found if isinstance(each, int))


def reading(ref: CgroupRef, **values: Any) -> CgroupReading:
    """A mainline kernel's, with nothing set; vendors' knobs and memory by their names."""
    plain: dict[str, Any] = {
        "quota": FREE,
        "burst": Micros(0),
        "weight": 1,
        "idle": False,
        "others": {"cpu-qos-level": NO_FILE, "memory-qos-level": NO_FILE},
    }
    return CgroupReading(ref, Micros(0), **plain | values)


def snapshot(
    *workloads: Workload,
    version: CgroupVersion = V2,
    readings: Mapping[int, CgroupReading] | None = None,
    **more: Any,
) -> NodeSnapshot:
    refs = [w.ref for w in workloads] + [c.ref for w in workloads for c in w.containers]
    found = {ref.id: reading(ref) for ref in refs if isinstance(ref, CgroupRef)}
    return msgspec.structs.replace(
        node(workloads=workloads), version=version, readings=found | dict(readings or {}), **more
    )


def quota(limit: int | Unlimited) -> Bandwidth:
    return Bandwidth(limit if isinstance(limit, Unlimited) else Micros(limit))


def asked(decision: Decision) -> dict[tuple[str, str], Any]:
    """What is asked for, by the group's name and the knob; a quota in milliCPU."""
    assert isinstance(decision, Act)
    found: dict[tuple[str, str], Any] = {}
    for intent in decision.intents:
        assert (intent.target.name(), intent.knob) not in found
        found[intent.target.name(), intent.knob] = intent.value
    return found


def remarks(decision: Decision) -> list[tuple[str, str]]:
    assert isinstance(decision, Act)
    return [(each.about, each.text) for each in decision.remarks]
