"""What a simulated node measures: its CPU, container by container, and what the scenario states.

Series have Crane's names, units and labels. What a simulation has no model of, memory, disks and
networks, is a Gap, unless the scenario states a series of that name.
"""

from collections.abc import Iterable, Iterator

from slackwater.contract.crane.metrics import is_known
from slackwater.model.cgroup import CgroupReading, CgroupRef
from slackwater.model.gap import NOT_ASKED, Gap
from slackwater.model.metric import NODE, MetricKey, MetricRequest, Sample, Samples
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.units import Bandwidth, MilliCpu, Unlimited
from slackwater.model.workload import Workload, WorkloadContainer
from slackwater.simulation.scenario import ScenarioMetric

#: The names of Crane's extended resources begin so.
_EXTENDED = "gocrane.io/"
_EXTENDED_CPU = "gocrane.io/cpu"
_Containers = Iterator[tuple[Workload, WorkloadContainer, CgroupRef]]


def measure_metrics(
    requests: Iterable[MetricRequest],
    snapshot: NodeSnapshot,
    cpus: int,
    stated: Iterable[ScenarioMetric],
) -> dict[str, Samples | Gap]:
    """Exactly those that are asked for, by their titles."""
    stated = tuple(stated)
    keys = sorted({request.key for request in requests})
    return {key.title(): _measure(key, snapshot, cpus, stated) for key in keys}


def _measure(
    key: MetricKey, snapshot: NodeSnapshot, cpus: int, stated: tuple[ScenarioMetric, ...]
) -> Samples | Gap:
    series = [each for each in stated if each.name == key.name and each.source in ("", key.source)]
    if series:
        found = tuple(_stated_samples(series, snapshot))
        return found or Gap(f"the scenario states no value of {key.name} now")
    if key.source != NODE:
        return Gap(f"the scenario states no {key.name} under spec.metrics")
    return _own_samples(key.name, snapshot, cpus)


def _stated_samples(series: Iterable[ScenarioMetric], snapshot: NodeSnapshot) -> Iterator[Sample]:
    pods = {each.name: each for each in snapshot.workloads}
    for each in series:
        pod = pods.get(each.pod)
        if not each.starts <= snapshot.at < each.ends or (each.pod and pod is None):
            continue
        labels = {**each.labels, **(_pod_labels(pod) if pod else {})}
        yield Sample(each.series(snapshot.at) / 1000, labels)


def _own_samples(name: str, snapshot: NodeSnapshot, cpus: int) -> Samples | Gap:
    match name:
        case "cpu_core_numbers":
            return (Sample(cpus),)
        case "cpu_total_usage" | "cpu_total_utilization":
            if isinstance(snapshot.usage, Gap):
                return snapshot.usage
            part = 1 if name == "cpu_total_usage" else 10 * cpus
            return (Sample(snapshot.usage / part),)
        case "container_cpu_total_usage":
            return _or_not_yet(name, tuple(_usage_samples(snapshot)), snapshot)
        case "container_cpu_quota" | "container_cpu_period" | "container_cpu_limit":
            return _or_not_yet(name, tuple(_knob_samples(name, snapshot)), snapshot)
        case "ext_res_container_cpu_total_usage":
            used = [usage for _, each, usage in _usages(snapshot) if _has_extended(each)]
            return (Sample(sum(used) / 1000),)
        case _ if is_known(name):
            return Gap(f"a simulation has no {name}; a series under spec.metrics states it")
        case _:
            return Gap(f"there is no metric {name}")


def _or_not_yet(name: str, found: Samples, snapshot: NodeSnapshot) -> Samples | Gap:
    """Without containers there are no series; with some, nobody has read them yet."""
    return found if found or not snapshot.workloads else Gap(f"{name} is not known yet")


def _containers(snapshot: NodeSnapshot) -> _Containers:
    for pod in snapshot.workloads:
        for each in pod.containers:
            if isinstance(each.ref, CgroupRef):
                yield pod, each, each.ref


def _usages(snapshot: NodeSnapshot) -> Iterator[tuple[Workload, WorkloadContainer, MilliCpu]]:
    """Counters are read at the level that a policy asks for: a pod has one container, so that its
    usage is the container's."""
    for pod, each, ref in _containers(snapshot):
        usage = snapshot.usage_of(ref)
        if isinstance(usage, Gap) and isinstance(pod.ref, CgroupRef):
            usage = snapshot.usage_of(pod.ref)
        if not isinstance(usage, Gap):
            yield pod, each, usage


def _usage_samples(snapshot: NodeSnapshot) -> Iterator[Sample]:
    for pod, each, usage in _usages(snapshot):
        yield Sample(usage / 1000, _container_labels(pod, each))


def _knob_samples(name: str, snapshot: NodeSnapshot) -> Iterator[Sample]:
    for pod, each, ref in _containers(snapshot):
        reading = snapshot.readings.get(ref.id)
        value = NOT_ASKED if reading is None else _knob_value(name, reading)
        if not isinstance(value, Gap):
            yield Sample(value, _container_labels(pod, each))


def _knob_value(name: str, reading: CgroupReading) -> float | Gap:
    if name == "container_cpu_limit":
        return reading.weight
    if not isinstance(reading.quota, Bandwidth):
        return reading.quota
    if name == "container_cpu_period":
        return reading.quota.period
    return -1 if isinstance(reading.quota.limit, Unlimited) else reading.quota.limit


def _has_extended(container: WorkloadContainer) -> bool:
    return _EXTENDED_CPU in container.extended_limits


def _pod_labels(pod: Workload) -> dict[str, str]:
    return {"PodName": pod.name, "PodNamespace": pod.namespace, "PodUid": pod.uid}


def _container_labels(pod: Workload, container: WorkloadContainer) -> dict[str, str]:
    extended = any(name.startswith(_EXTENDED) for name in container.extended_limits)
    ref = container.ref
    return {
        **_pod_labels(pod),
        "ContainerName": container.name,
        "ContainerId": ref.name() if isinstance(ref, CgroupRef) else "",
        "HasExtRes": "true" if extended else "false",
    }
