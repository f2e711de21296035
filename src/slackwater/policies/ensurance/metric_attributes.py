"""What QoS ensurance knows of a metric: Crane's attributes, as data.

Whether pods can be throttled or evicted for a metric, whether what that releases can be counted,
in which order pods are taken, and which metric goes first when several are above their watermarks.
A metric of one's own is one more value of the same type.
"""

import enum
from collections.abc import Iterable, Iterator

import msgspec

from slackwater.contract.crane.metrics import is_known
from slackwater.contract.ensurance_metric import (
    Comparator,
    EnsuranceMetric,
    ReleaseUnit,
    SortDirection,
)
from slackwater.contract.ensurance_plugin import PluginState
from slackwater.model.metric import NODE, MetricKey


class SortKey(enum.Enum):
    """By what two pods are compared."""

    CLASS_AND_PRIORITY = "classAndPriority"  # the QoS class, then the priority
    CPU_USAGE = "cpuUsage"
    EXT_CPU_USAGE = "extCpuUsage"  # share of its gocrane.io/cpu that a pod uses
    MEMORY_USAGE = "memoryUsage"
    EXT_MEMORY_USAGE = "extMemoryUsage"
    RUNNING_TIME = "runningTime"
    VALUE = "value"  # the metric's own series of the pod
    PLACE = "place"  # the pod's place in a plug-in's own order


class SortRule(msgspec.Struct, frozen=True):
    """One comparison. Ascending: the smaller one is acted on first."""

    key: SortKey
    descending: bool = False


_CLASS = SortRule(SortKey.CLASS_AND_PRIORITY)
_TIME = SortRule(SortKey.RUNNING_TIME)
GENERAL_SORT = (_CLASS, _TIME)
CPU_SORT = (
    _CLASS,
    SortRule(SortKey.CPU_USAGE, descending=True),
    SortRule(SortKey.EXT_CPU_USAGE, descending=True),
    _TIME,
)
MEMORY_SORT = (
    _CLASS,
    SortRule(SortKey.MEMORY_USAGE, descending=True),
    SortRule(SortKey.EXT_MEMORY_USAGE, descending=True),
    _TIME,
)


class ReleaseCount(enum.Enum):
    """How what one pod releases is counted."""

    CPU = "cpu"  # milliCPU
    MEMORY = "memory"  # bytes
    SERIES = "series"  # the metric's own series of the pod, in the metric's unit
    PLUGIN = "plugin"  # as a plug-in says, in the metric's unit
    UNKNOWN = "unknown"


class Whole(msgspec.Struct, frozen=True):
    """What 100 percent of a metric are: `unit` of the release times this metric of the node."""

    metric: str
    unit: float


class MetricAttributes(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of one metric. `action_priority` is 0 to 10, 10 the highest. `whole` is there where the
    metric is in percent and the release is not."""

    name: str
    source: str = NODE
    action_priority: int = 0
    sort: tuple[SortRule, ...] = GENERAL_SORT
    throttleable: bool = False
    throttle_quantified: bool = False
    evictable: bool = False
    evict_quantified: bool = False
    release: ReleaseCount = ReleaseCount.UNKNOWN
    whole: Whole | None = None
    #: The title of the plug-in whose order and releases count.
    plugin: str = ""

    def key(self) -> MetricKey:
        return MetricKey(self.name, self.source)


def _cpu(name: str, whole: Whole | None) -> MetricAttributes:
    return MetricAttributes(
        name,
        action_priority=5,
        sort=CPU_SORT,
        throttleable=True,
        throttle_quantified=True,
        evictable=True,
        evict_quantified=True,
        release=ReleaseCount.CPU,
        whole=whole,
    )


def _memory(name: str, whole: Whole | None) -> MetricAttributes:
    return MetricAttributes(
        name,
        action_priority=5,
        sort=MEMORY_SORT,
        evictable=True,
        evict_quantified=True,
        release=ReleaseCount.MEMORY,
        whole=whole,
    )


def _waiting(name: str) -> MetricAttributes:
    """CPU that is waited for: less work helps, by how much nobody can say."""
    return MetricAttributes(
        name, action_priority=3, sort=CPU_SORT, throttleable=True, evictable=True
    )


#: Those of the node on which something can be done; for all others scheduling can be stopped.
NODE_METRICS: tuple[MetricAttributes, ...] = (
    _cpu("cpu_total_usage", None),
    _cpu("cpu_total_utilization", Whole("cpu_core_numbers", 1000)),
    _memory("memory_total_usage", None),
    _memory("memory_total_utilization", Whole("memory_total", 1)),
    _waiting("cpu_load_1_min"),
    _waiting("cpu_load_5_min"),
    _waiting("cpu_load_15_min"),
    _waiting("container_sched_run_queue_time"),
)


_SORT_KEYS = {
    Comparator.CLASS_AND_PRIORITY: SortKey.CLASS_AND_PRIORITY,
    Comparator.CPU_USAGE: SortKey.CPU_USAGE,
    Comparator.EXT_CPU_USAGE: SortKey.EXT_CPU_USAGE,
    Comparator.MEMORY_USAGE: SortKey.MEMORY_USAGE,
    Comparator.RUNNING_TIME: SortKey.RUNNING_TIME,
    Comparator.OWN_VALUE: SortKey.VALUE,
}
_RELEASES = {
    ReleaseUnit.CPU_USAGE: ReleaseCount.CPU,
    ReleaseUnit.MEMORY_USAGE: ReleaseCount.MEMORY,
    ReleaseUnit.OWN_VALUE: ReleaseCount.SERIES,
    ReleaseUnit.NONE: ReleaseCount.UNKNOWN,
}


def describe_metric(metric: EnsuranceMetric) -> MetricAttributes:
    """What an object says of a metric of one's own."""
    spec, key = metric.spec, metric.key()
    sort = tuple(
        SortRule(_SORT_KEYS[each.by], each.order is SortDirection.DESCENDING) for each in spec.sort
    )
    return MetricAttributes(
        key.name,
        key.source,
        spec.action_priority,
        sort or GENERAL_SORT,
        spec.throttleable,
        spec.throttle_quantified,
        spec.evictable,
        spec.evict_quantified,
        _RELEASES[spec.release],
    )


def describe_plugin(
    plugin: PluginState, keys: Iterable[MetricKey], known: Iterable[MetricAttributes]
) -> Iterator[MetricAttributes]:
    """What a plug-in says of its metric, wherever that comes from: `keys` are those of the rules
    that name it. Without an order of its own the one that is known stays."""
    attributes = plugin.attributes
    if attributes is None:
        return
    counts = attributes.throttle_quantified or attributes.evict_quantified
    for key in keys:
        sort = GENERAL_SORT if attributes.measures else attributes_of(key, known).sort
        yield MetricAttributes(
            key.name,
            key.source,
            attributes.action_priority,
            (SortRule(SortKey.PLACE), *sort) if attributes.sortable else sort,
            attributes.throttleable,
            attributes.throttle_quantified,
            attributes.evictable,
            attributes.evict_quantified,
            ReleaseCount.PLUGIN if counts else ReleaseCount.UNKNOWN,
            plugin=plugin.title(),
        )


def attributes_of(key: MetricKey, known: Iterable[MetricAttributes]) -> MetricAttributes:
    """A series of a probe that nobody describes, such as a service's latency, is one that less
    work helps and of which no release can be counted."""
    for each in known:
        if (each.name, each.source) == (key.name, key.source):
            return each
    if key.source == NODE and is_known(key.name):
        return MetricAttributes(key.name)
    return MetricAttributes(key.name, key.source, 2, CPU_SORT, throttleable=True, evictable=True)
