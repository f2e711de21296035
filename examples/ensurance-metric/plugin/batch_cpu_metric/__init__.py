"""The CPU that pods with the label example.com/kind=batch use together, as a metric for rules.

Pods whose restart costs least go first: the label example.com/restart-cost, a number, says how much
that is; without it a pod is expensive.
"""

from collections.abc import Iterator

from slackwater.model.ensurance_plugin import PluginNode, PluginPod
from slackwater.model.metric import Sample

KIND, COST = "example.com/kind", "example.com/restart-cost"
_EXPENSIVE = 1_000_000


class BatchCpu:
    name = "example.com/batch-cpu"
    action_priority = 6
    sortable = True
    throttleable = True
    throttle_quantified = True
    evictable = True
    evict_quantified = True

    def samples(self, node: PluginNode) -> Iterator[Sample]:
        """One series, in milliCPU."""
        yield Sample(float(sum(pod.cpu_usage or 0 for pod in node.pods if _is_batch(pod))))

    def compare(self, first: PluginPod, second: PluginPod) -> float:
        """Those that are no batch have no part in the metric, and come last."""
        return _rank(first) - _rank(second)

    def throttle_release(self, pod: PluginPod) -> float:
        return self.evict_release(pod)

    def evict_release(self, pod: PluginPod) -> float:
        return float(pod.cpu_usage or 0) if _is_batch(pod) else 0.0


def _is_batch(pod: PluginPod) -> bool:
    return pod.labels.get(KIND) == "batch"


def _rank(pod: PluginPod) -> int:
    cost = pod.labels.get(COST, "")
    rank = int(cost) if cost.isascii() and cost.isdigit() else _EXPENSIVE
    return rank if _is_batch(pod) else 10 * _EXPENSIVE
