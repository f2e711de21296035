"""The order in which QoS ensurance acts on pods: Crane's sorts.

The first pod is acted on first: the lower QoS class before the higher, then the lower priority, the
larger usage, the shorter running time. The order is total: where all else is equal the uid decides,
so it depends neither on the order of the input nor on chance.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from slackwater.model.cgroup import CgroupRef, Tier
from slackwater.model.elastic import ELASTIC_CPU, ELASTIC_MEMORY
from slackwater.model.gap import Gap
from slackwater.model.metric import MetricKey, Sample
from slackwater.model.snapshot import NodeSnapshot
from slackwater.model.workload import Amounts, Workload
from slackwater.policies.ensurance.metric_attributes import MetricAttributes, SortKey, SortRule

#: Working sets, by container.
MEMORY_USAGE = MetricKey("container_mem_total_usage")
#: Series of a plug-in, by pod.
PLACE, THROTTLE_RELEASE, EVICT_RELEASE = "place", "throttle_release", "evict_release"
NO_NAMES: Mapping[tuple[str, str], str] = {}
_CLASSES = (Tier.BESTEFFORT, Tier.BURSTABLE, Tier.GUARANTEED)


class PodFigures(msgspec.Struct, frozen=True):
    """A pod and what is known of it. Usages are None where they are not known: milliCPU, bytes,
    and the metric's own series in its unit."""

    pod: Workload
    cpu: int | None = None
    memory: float | None = None
    value: float | None = None
    #: What a plug-in says: the place in its order, and what is released by a throttle that leaves
    #: nothing, and by an eviction.
    place: float | None = None
    throttle_release: float | None = None
    evict_release: float | None = None


def measure_pods(
    snapshot: NodeSnapshot, pods: Iterable[Workload], metric: MetricAttributes | None = None
) -> list[PodFigures]:
    """`metric` is the one that is acted on."""
    pods = list(pods)
    memories = _by_pod(snapshot, MEMORY_USAGE, pods)
    values = _by_pod(snapshot, metric.key(), pods) if metric else {}
    plugin = metric.plugin if metric else ""
    places, throttled, evicted = (
        _by_pod(snapshot, MetricKey(each, plugin), pods) if plugin else {}
        for each in (PLACE, THROTTLE_RELEASE, EVICT_RELEASE)
    )
    return [
        PodFigures(
            pod,
            _cpu(snapshot, pod),
            memories.get(pod.uid),
            values.get(pod.uid),
            places.get(pod.uid),
            throttled.get(pod.uid),
            evicted.get(pod.uid),
        )
        for pod in pods
    ]


def _by_pod(snapshot: NodeSnapshot, key: MetricKey, pods: list[Workload]) -> dict[str, float]:
    samples = snapshot.metric(key)
    if isinstance(samples, Gap):
        return {}
    return sum_by_pod(samples, {(pod.namespace, pod.name): pod.uid for pod in pods})


def _uid(labels: Mapping[str, str], uids: Mapping[tuple[str, str], str]) -> str:
    """By Crane's labels, or by those of cAdvisor's series in Prometheus."""
    if "PodUid" in labels:
        return labels["PodUid"]
    namespace = labels.get("PodNamespace") or labels.get("namespace", "")
    return uids.get((namespace, labels.get("PodName") or labels.get("pod", "")), "")


def sum_by_pod(
    samples: Iterable[Sample], uids: Mapping[tuple[str, str], str] = NO_NAMES
) -> dict[str, float]:
    """The containers' series of each pod together; where it has one of its own, that one. `uids`
    are by namespace and name, for series that have no uid."""
    whole: dict[str, float] = {}
    parts: dict[str, float] = {}
    for each in samples:
        uid = _uid(each.labels, uids)
        if uid and each.labels.get("ContainerName"):
            parts[uid] = parts.get(uid, 0.0) + each.value
        elif uid:
            whole[uid] = whole.get(uid, 0.0) + each.value
    return parts | whole


def _cpu(snapshot: NodeSnapshot, pod: Workload) -> int | None:
    used = snapshot.usage_of(pod.ref) if isinstance(pod.ref, CgroupRef) else pod.ref
    return None if isinstance(used, Gap) else used


def sort_pods(
    pods: Iterable[PodFigures], rules: Sequence[SortRule], wall_time: int
) -> list[PodFigures]:
    """`wall_time` is in seconds since the epoch, as pods say when they started."""
    return sorted(pods, key=lambda each: (*_keys(each, rules, wall_time), each.pod.uid))


def _keys(pod: PodFigures, rules: Sequence[SortRule], wall_time: int) -> tuple[float, ...]:
    return tuple(
        -number if rule.descending else number
        for rule in rules
        for number in _numbers(pod, rule.key, wall_time)
    )


def _numbers(figures: PodFigures, key: SortKey, wall_time: int) -> tuple[float, ...]:
    """An unknown usage counts as none, an unknown start as now."""
    pod = figures.pod
    match key:
        case SortKey.CLASS_AND_PRIORITY:
            return _CLASSES.index(pod.tier), pod.priority
        case SortKey.CPU_USAGE:
            return (figures.cpu or 0,)
        case SortKey.EXT_CPU_USAGE:
            return (_share(figures.cpu, pod.extended_limits, ELASTIC_CPU),)
        case SortKey.MEMORY_USAGE:
            return (figures.memory or 0,)
        case SortKey.EXT_MEMORY_USAGE:
            return (_share(figures.memory, pod.extended_limits, ELASTIC_MEMORY),)
        case SortKey.RUNNING_TIME:
            return (0 if pod.started is None else wall_time - pod.started,)
        case SortKey.VALUE:
            return (figures.value or 0,)
        case SortKey.PLACE:
            # A pod that came since the plug-in was asked is the last.
            return (float("inf") if figures.place is None else figures.place,)


def _share(used: float | None, limits: Amounts, resource: str) -> float:
    """Of what the pod was lent; 0 where it was lent nothing."""
    limit = limits.get(resource, 0)
    return 0 if used is None or isinstance(limit, Gap) or not limit else used / limit
