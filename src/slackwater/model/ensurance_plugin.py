"""What a plug-in for QoS ensurance is: a metric of one's own in Python, for whoever writes one.

The attributes are those that Crane compiles into its agent. Functions are pure: they are given
plain values, and what they return is data; throttling, restoring and evicting is done by the agent.
They run in a process of their own, so they may use any library.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from slackwater.model.metric import Sample

#: Where plug-ins are found: an entry point of this group is an EnsurancePlugin, or a function
#: without arguments that makes one.
ENTRY_POINTS = "slackwater.ensurance_metrics"


class PluginPod(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pod of this node. None where it is not known: CPU in milliCPU, memory in bytes, the
    metric's own value of the pod. `qos_class` is Guaranteed, Burstable or BestEffort; `started` is
    in seconds since the epoch."""

    uid: str
    name: str
    namespace: str
    qos_class: str
    priority: int = 0
    labels: Mapping[str, str] = {}
    cpu_usage: int | None = None
    memory_usage: float | None = None
    value: float | None = None
    started: int | None = None


class PluginNode(msgspec.Struct, frozen=True, omit_defaults=True):
    """This node a moment ago: its CPU usage in milliCPU, the time in seconds since the epoch, its
    pods, and the metrics that rules asked for, by their titles."""

    wall_time: int
    pods: tuple[PluginPod, ...] = ()
    cpu_usage: int | None = None
    metrics: Mapping[str, tuple[Sample, ...]] = {}


class EnsurancePlugin(Protocol):
    """A metric and its attributes.

    `name` is the metric's: with a '/', such as example.com/queue-depth, it is one that the plug-in
    itself measures (MeasuringPlugin); otherwise one that is measured anyway, such as
    cpu_total_usage or the name of an EnsuranceMetric. `action_priority` is 0 to 10.
    """

    name: str
    action_priority: int
    sortable: bool
    throttleable: bool
    throttle_quantified: bool
    evictable: bool
    evict_quantified: bool

    def compare(self, first: PluginPod, second: PluginPod, /) -> float:
        """Less than 0 where the first is acted on before the second, more than 0 after it; 0 leaves
        it to the general order. Asked where `sortable` is true."""
        ...

    def throttle_release(self, pod: PluginPod, /) -> float:
        """How much of the metric goes if all of the pod's CPU is taken; a throttle that takes a
        part of it counts in proportion. Asked where `throttle_quantified` is true."""
        ...

    def evict_release(self, pod: PluginPod, /) -> float:
        """How much of the metric goes with the pod. Asked where `evict_quantified` is true."""
        ...


class MeasuringPlugin(EnsurancePlugin, Protocol):
    """One that measures its metric itself."""

    def samples(self, node: PluginNode, /) -> Iterable[Sample]:
        """The metric's series now. A pod's series has the label PodUid."""
        ...
