"""Crane's rules and actions: AvoidanceAction, NodeQOS and its older name NodeQOSEnsurancePolicy.

Owns their fields, defaults and bounds, and the words about them: the definitions that the API
server checks are made from these types. What no single field can say is in crane.objects.
"""

import enum
from typing import Annotated

import msgspec
from msgspec import Meta, field

from slackwater.contract.crane.fields import (
    Count,
    EnsuranceStatus,
    LongNumber,
    Name,
    NodeQualityProbe,
    Percent,
    PositiveQuantity,
    Seconds,
    Selector,
    Text,
)
from slackwater.contract.kubernetes import KubernetesObject
from slackwater.contract.schema import BOUND
from slackwater.model.units import parse_quantity

_IDLE = "Accepted, has no effect."


class ElasticNodeCpuLimit(msgspec.Struct, frozen=True):
    """Of all work with elastic CPU together. Accepted, has no effect."""

    percent: Annotated[LongNumber | None, Meta(description=_IDLE)] = None


class ElasticCoreCpuLimit(msgspec.Struct, frozen=True, rename="camel"):
    """Of work with elastic CPU on single CPUs. Accepted, has no effect."""

    core_num: Annotated[Text, Meta(description=_IDLE)] = ""
    percent: Annotated[LongNumber | None, Meta(description=_IDLE)] = None


class ElasticCoreCpuLimitPeriod(msgspec.Struct, frozen=True, rename="camel"):
    """The same at certain times of the day. Accepted, has no effect."""

    offline_cpu_limit: Annotated[
        Text, Meta(description="The time, under an odd name. Accepted, has no effect.")
    ] = ""
    core_num: Annotated[Text, Meta(description=_IDLE)] = ""
    percent: Annotated[LongNumber | None, Meta(description=_IDLE)] = None


class Switch(msgspec.Struct, frozen=True):
    """Accepted, has no effect."""

    enable: Annotated[bool | None, Meta(description=_IDLE)] = None


class ElasticCpuLimit(msgspec.Struct, frozen=True, rename="camel"):
    """Limits of work with elastic CPU. Accepted, has no effect."""

    elastic_node_cpu_limit: ElasticNodeCpuLimit | None = None
    elastic_core_cpu_limit: Annotated[
        tuple[ElasticCoreCpuLimit, ...], Meta(description=_IDLE, max_length=1024)
    ] = ()
    elastic_core_cpu_limit_period: Annotated[
        tuple[ElasticCoreCpuLimitPeriod, ...], Meta(description=_IDLE, max_length=1024)
    ] = ()
    elastic_cpu_avoidance: Switch | None = None


class MemLimit(msgspec.Struct, frozen=True, rename="camel"):
    """Limits of the page cache. Accepted, has no effect."""

    page_cache_limit_global: Annotated[bool | None, Meta(description=_IDLE)] = None
    page_cache_limit_retry_times: Annotated[LongNumber | None, Meta(description=_IDLE)] = None


class NetLimits(msgspec.Struct, frozen=True, rename="camel"):
    """Limits of the node's network. Accepted, has no effect."""

    rx_bps_min: Annotated[LongNumber, Meta(description=_IDLE)]
    rx_bps_max: Annotated[LongNumber, Meta(description=_IDLE)]
    tx_bps_min: Annotated[LongNumber, Meta(description=_IDLE)]
    tx_bps_max: Annotated[LongNumber, Meta(description=_IDLE)]


_METRIC_WANTED = "a metric's name such as cpu_total_usage"
#: More rules than metrics make no sense, and the API server bounds what checking them may cost.
_MOST_RULES = 24


class CpuThrottle(msgspec.Struct, frozen=True):
    """How containers are throttled."""

    step_ratio: Annotated[
        Percent,
        Meta(
            description="Percent of a container's CPU quota that one step takes away while the "
            "rule is triggered, and gives back afterwards."
        ),
    ] = field(default=0, name="stepCPURatio")
    min_ratio: Annotated[
        Percent,
        Meta(
            description="Percent of a container's CPU limit below which it is not throttled; "
            "without a limit: of its usage when it was first throttled."
        ),
    ] = field(default=0, name="minCPURatio")


class MemoryThrottle(msgspec.Struct, frozen=True):
    """Accepted, has no effect."""

    force_gc: Annotated[bool | None, Meta(description="Accepted, has no effect.")] = field(
        default=None, name="forceGC"
    )


class Throttle(msgspec.Struct, frozen=True, rename="camel"):
    """Lowers the CPU quota of pods with a low priority, step by step."""

    cpu_throttle: CpuThrottle | None = None
    memory_throttle: MemoryThrottle | None = None


class Eviction(msgspec.Struct, frozen=True, rename="camel"):
    """Evicts pods with a low priority until the metric is below the rule's value."""

    termination_grace_period_seconds: Annotated[
        Seconds | None,
        Meta(
            description="Seconds that a pod gets to end; 0 ends it at once. Without it, the pod's "
            "own terminationGracePeriodSeconds counts."
        ),
    ] = None


class AvoidanceActionSpec(msgspec.Struct, frozen=True, rename="camel"):
    """What is done while a rule is triggered. Without throttle and eviction: no new pods are
    scheduled to the node."""

    cool_down_seconds: Annotated[
        Count,
        Meta(description="Seconds that must pass after the last trigger before it is undone."),
    ] = 300
    throttle: Throttle | None = None
    eviction: Eviction | None = None
    description: Annotated[str, Meta(max_length=1024, description="For people.")] = ""


class AvoidanceAction(KubernetesObject, frozen=True):
    """What a rule of a NodeQOS does when it is triggered: stop scheduling, throttle, evict."""

    spec: AvoidanceActionSpec
    status: EnsuranceStatus | None = None


class Strategy(enum.Enum):
    """Whether the action is taken; Crane's words."""

    ACT = "None"
    PREVIEW = "Preview"


class MetricRule(msgspec.Struct, frozen=True):
    """Which metric, and the value that it must not exceed."""

    name: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=128,
            pattern=r"^[A-Za-z_:][-A-Za-z0-9_:./]*\Z",
            extra={BOUND: _METRIC_WANTED},
            description="The metric, such as cpu_total_usage (milliCPU) or "
            "memory_total_utilization (percent). With httpGet: any series of the answer, and "
            "NAME:p50, NAME:p90, NAME:p95 or NAME:p99 for a quantile of the histogram NAME, "
            "NAME:rate for a counter's increase per second.",
        ),
    ]
    value: Annotated[
        PositiveQuantity,
        Meta(
            description="The rule is triggered while the metric is above it. A quantity above 0 in "
            "the metric's unit: 4000, 4k. For the node's own metrics it is rounded up to a whole "
            "number; for series of httpGet it is exact: 50m is 0.05."
        ),
    ]
    selector: Annotated[
        Selector | None,
        Meta(
            description="Which series of the metric count, by their labels; without it, all. One "
            "above the value is enough."
        ),
    ] = None

    @property
    def limit(self) -> int:
        """The value in whole units of the metric, rounded up as Go's Quantity.Value() does."""
        return self.value if isinstance(self.value, int) else parse_quantity(self.value).of(1)

    @property
    def exact_limit(self) -> float:
        """The value as it is, for series that are no metrics of Crane's: 50m is 0.05."""
        if isinstance(self.value, int):
            return float(self.value)
        exact = parse_quantity(self.value)
        return exact.numerator / exact.denominator


class Rule(msgspec.Struct, frozen=True, rename="camel"):
    """One metric, the value that it must not exceed, and the action when it does."""

    name: Annotated[Name, Meta(description="The rule's name, once in this object.")]
    metric_rule: MetricRule
    action_name: Annotated[Name, Meta(description="The AvoidanceAction that is taken.")]
    avoidance_threshold: Annotated[
        Count,
        Meta(description="How many measurements in a row must be above the value to trigger."),
    ] = 1
    restore_threshold: Annotated[
        Count | None,
        Meta(
            description="How many measurements in a row must not be above the value for the "
            "action to be undone. Without it: 1."
        ),
    ] = None
    restored_threshold: Annotated[
        Count | None, Meta(description="Another spelling of restoreThreshold.")
    ] = None
    strategy: Annotated[
        Strategy, Meta(description="None takes the action, Preview only tells of it.")
    ] = Strategy.ACT

    @property
    def restores_after(self) -> int:
        return self.restore_threshold or self.restored_threshold or 1


_RULES = Meta(
    description="The rules; each counts for itself.", min_length=1, max_length=_MOST_RULES
)
_NODES = Meta(description="Which nodes this is for, by their labels; without it, all.")


class NodeQosEnsurancePolicySpec(msgspec.Struct, frozen=True, rename="camel"):
    """Which nodes are watched, and the rules."""

    node_quality_probe: NodeQualityProbe
    rules: Annotated[tuple[Rule, ...], _RULES] = field(name="objectiveEnsurances")
    selector: Annotated[Selector | None, _NODES] = None


class NodeQosSpec(NodeQosEnsurancePolicySpec, frozen=True, rename="camel"):
    """Which nodes are watched, and the rules."""

    rules: Annotated[tuple[Rule, ...], _RULES]
    elastic_cpu_limit: ElasticCpuLimit | None = None
    mem_limit: MemLimit | None = None
    memory_compression: Switch | None = None
    net_limits: NetLimits | None = None


class NodeQos(KubernetesObject, frozen=True):
    """Rules for nodes: when a metric exceeds a value, an AvoidanceAction is taken."""

    spec: NodeQosSpec
    status: EnsuranceStatus | None = None


class NodeQosEnsurancePolicy(KubernetesObject, frozen=True):
    """Rules for nodes, by the name that NodeQOS had before Crane 0.8."""

    spec: NodeQosEnsurancePolicySpec
    status: EnsuranceStatus | None = None


Policy = NodeQos | NodeQosEnsurancePolicy
