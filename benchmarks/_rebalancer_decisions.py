"""One round of decisions in a process of its own: `python -m benchmarks._rebalancer_decisions N M`.

N workloads of M pods, as the readers would have brought them; prints one line of JSON: the seconds
from there to the capped decisions, the peak memory with all of it, and what was decided.
"""

import random
import sys
import time
from collections import Counter

import msgspec

from slackwater.model.gap import Gap
from slackwater.rebalancer.assessment import Assessment, apply_caps, assess
from slackwater.rebalancer.observed import (
    ContainerAmounts,
    Cores,
    HpaTarget,
    HpaTargetKind,
    NamespaceUsage,
    ObservedWorkload,
    PodUsage,
    Scaling,
    WorkloadName,
)
from slackwater.settings.rebalancer import (
    CapSettings,
    MoveSettings,
    RequestSource,
    WorkloadSettings,
)

NOW = 1_800_000_000.0
_NODES, _NAMESPACES = 300, 10
_NO_LIMIT = Gap("no limit")


class Decided(msgspec.Struct, frozen=True):
    """`seconds` of wall time, `cpu` seconds, `peak` in MiB; `reasons` by their words."""

    seconds: float
    cpu: float
    peak: float
    pods: int
    going: int
    reasons: dict[str, int]


def workload(
    number: int, pods: int, chance: random.Random
) -> tuple[ObservedWorkload, dict[str, float]]:
    """Loads of a service whose partitions differ: a few pods far above, a few far below. Each pod
    has a sidecar, as a mesh gives it."""
    namespace, name = f"team-{number % _NAMESPACES}", f"service-{number}"
    boxes = (
        ContainerAmounts(name, Cores(1.0), _NO_LIMIT),
        ContainerAmounts("istio-proxy", Cores(0.1), Cores(2.0)),
    )
    live, loads = [], {}
    for index in range(pods):
        pod = f"{name}-7d9f8c6b5-{index:05d}"
        node = f"node-{chance.randrange(_NODES)}"
        age = chance.choice((60.0, 7200.0, 90_000.0, 600_000.0))
        live.append(PodUsage(pod, f"{number}-{index}", node, NOW - age, boxes))
        loads[pod] = 0.6 * chance.lognormvariate(0, 0.4)
    return ObservedWorkload(
        workload=WorkloadName(namespace, "Deployment", name),
        api_version="apps/v1",
        uid=f"uid-{number}",
        resource_version=str(number),
        pods=tuple(live),
        hpa_target=HpaTarget(HpaTargetKind.UTILIZATION, 70, name),
        scaling=Scaling(pods, pods),
    ), loads


def cluster(workloads: int, pods: int) -> tuple[list[ObservedWorkload], dict[str, NamespaceUsage]]:
    """The same each time."""
    chance = random.Random(7)  # noqa: S311 - no secret
    observed, usages = [], {f"team-{each}": NamespaceUsage({}, {}) for each in range(_NAMESPACES)}
    for number in range(workloads):
        found, loads = workload(number, pods, chance)
        told = usages[found.workload.namespace]
        for pod, load in loads.items():
            told.usage[pod, found.workload.name] = Cores(load)
            told.usage[pod, "istio-proxy"] = Cores(load / 20)
            told.requests[pod, found.workload.name] = Cores(1.0)
            told.requests[pod, "istio-proxy"] = Cores(0.1)
        observed.append(found)
    return observed, usages


def decide(
    observed: list[ObservedWorkload], usages: dict[str, NamespaceUsage]
) -> tuple[Assessment, ...]:
    found = [
        assess(
            each,
            usages[each.workload.namespace],
            WorkloadSettings(each.workload.namespace, each.workload.name),
            RequestSource.AUTO,
            NOW,
        )
        for each in observed
    ]
    moves = MoveSettings()
    return apply_caps(found, CapSettings(run=300, node=2, namespace=60), lambda _: moves)


def peak() -> float:
    """MiB, the largest so far."""
    with open("/proc/self/status") as status:
        lines = dict(line.split(":", 1) for line in status)
    return int(lines["VmHWM"].split()[0]) / 1024


def measure(workloads: int, pods: int) -> Decided:
    observed, usages = cluster(workloads, pods)
    began, busy = time.perf_counter(), time.process_time()
    found = decide(observed, usages)
    took, cpu = time.perf_counter() - began, time.process_time() - busy
    reasons = Counter(each.reason.value if each.reason else "rotate" for each in found)
    going = sum(len(batch) for each in found for batch in each.batches)
    return Decided(took, cpu, peak(), workloads * pods, going, dict(reasons))


if __name__ == "__main__":
    print(msgspec.json.encode(measure(int(sys.argv[1]), int(sys.argv[2]))).decode())
