"""What runs on the node: pods and their containers, as far as a policy has to know."""

from collections.abc import Mapping

import msgspec

from slackwater.model.cgroup import CgroupRef, Tier
from slackwater.model.cpus import CpuPolicy
from slackwater.model.gap import Gap
from slackwater.model.units import UNLIMITED, Bytes, Micros, MilliCpu, Unlimited

#: Amounts of extended resources by name, as far as they can be read: CPU in milliCPU, whatever its
#: resource counts (model.elastic), memory in bytes.
Amounts = Mapping[str, int | Gap]


class WorkloadContainer(msgspec.Struct, frozen=True, omit_defaults=True):
    """One container of any kind: init, sidecar, ephemeral or main. No request is zero."""

    name: str
    ref: CgroupRef | Gap
    request: MilliCpu
    limit: MilliCpu | Unlimited
    memory_request: Bytes = Bytes(0)
    memory_limit: Bytes | Unlimited = UNLIMITED
    extended_requests: Amounts = {}
    extended_limits: Amounts = {}


class BurstRequest(msgspec.Struct, frozen=True, tag="burst"):
    """The pod may burst: by `time` in each period, or by as much as its quota where that is None.
    `complaint` is a sentence about a time that cannot be used, which then is None."""

    time: Micros | None = None
    complaint: str = ""


class MemoryRatios(msgspec.Struct, frozen=True, tag="ratios"):
    """Percents: `high` of the memory limit, 100 being no throttling; `low` and `min` of the
    request. The defaults set nothing."""

    high: int = 100
    low: int = 0
    min: int = 0


class Workload(msgspec.Struct, frozen=True, omit_defaults=True):
    """One pod. `request` is what the scheduler counts: sidecars, init containers and overhead
    too; so do the extended amounts, where a limit is there only if every container has one.
    `qos_level` is 2 for latency-critical work down to -1 for best effort, whatever its tier is.
    A pod of the tree without an object is called by its uid and promises nothing."""

    uid: str
    name: str
    namespace: str
    tier: Tier
    ref: CgroupRef | Gap
    request: MilliCpu = MilliCpu(0)
    priority: int = 0
    containers: tuple[WorkloadContainer, ...] = ()
    #: The pod's own CPU limit (spec.resources), which Kubernetes has from 1.32 on.
    own_limit: MilliCpu | Unlimited = UNLIMITED
    qos_level: int | Gap = 0
    burst: BurstRequest | Gap | None = None
    memory_ratios: MemoryRatios | Gap | None = None
    extended_requests: Amounts = {}
    extended_limits: Amounts = {}
    labels: Mapping[str, str] = {}
    #: Seconds since the epoch when its containers began, from its status; None where it is not
    #: known.
    started: int | None = None
    terminating: bool = False
    #: Why nothing may be done to it for the sake of others, whatever its priority: "static" or
    #: "critical"; or "exempt", its own word, which a PodQOS overrules. Empty where nothing says so.
    protected: str = ""
    #: Where its containers can be reached, and their named ports.
    address: str = ""
    ports: Mapping[str, int] = {}
    #: What its annotation asks for; None where it has none.
    cpu_policy: CpuPolicy | Gap | None = None
    #: The name of that annotation.
    cpu_policy_key: str = ""
    #: Why another system gave it CPUs of its own; empty where none did.
    bound_cpus: str = ""

    def title(self) -> str:
        """For people."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def limit_at_start(self, container: WorkloadContainer) -> MilliCpu | Unlimited:
        """What the kubelet starts it with: its own limit, or else the pod's (getCPULimit in
        pkg/kubelet/kuberuntime/kuberuntime_container_linux.go)."""
        return self.own_limit if isinstance(container.limit, Unlimited) else container.limit
