"""Which containers a static CPU manager pinned, by their cgroups: where its state is out of sight.

An agent in a pod learns the kubelet's policy from its configuration, but not what it gave to whom.
Under the policy static a container has CPUs alone if its pod is Guaranteed and its CPU limit is
whole (pkg/kubelet/cm/cpumanager/policy_static.go, guaranteedCPUs), and then its group has exactly
as many. One that runs since before the policy has another number, and is not taken for pinned.
"""

from collections.abc import Iterable, Mapping

from slackwater.model.cgroup import CgroupReading, CgroupRef, Tier
from slackwater.model.cpus import CpuSet
from slackwater.model.units import Unlimited
from slackwater.model.workload import Workload, WorkloadContainer

_ONE_CPU = 1000


def find_pinned(
    pods: Iterable[Workload], readings: Mapping[int, CgroupReading]
) -> dict[str, dict[str, CpuSet]]:
    """By pod uid and container name, as the kubelet's state has them."""
    found: dict[str, dict[str, CpuSet]] = {}
    for pod in pods:
        if pod.tier is not Tier.GUARANTEED:
            continue
        for each in pod.containers:
            cpus = _pinned(each, readings)
            if cpus.mask:
                found.setdefault(pod.uid, {})[each.name] = cpus
    return found


def _pinned(container: WorkloadContainer, readings: Mapping[int, CgroupReading]) -> CpuSet:
    limit, ref = container.limit, container.ref
    if isinstance(limit, Unlimited) or limit != container.request or limit % _ONE_CPU:
        return CpuSet()
    reading = readings.get(ref.id) if isinstance(ref, CgroupRef) else None
    cpus = reading.cpus if reading is not None else None
    if not isinstance(cpus, CpuSet) or len(cpus) != limit // _ONE_CPU:
        return CpuSet()
    return cpus
