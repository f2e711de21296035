"""Every metric of the agent as a row: what /metrics and docs/reference/metrics.md show.

The page in docs is a copy of `page()`; a test compares them.
"""

import enum

import msgspec


class MetricType(enum.Enum):
    """Prometheus's types."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class MetricDefinition(msgspec.Struct, frozen=True):
    name: str
    kind: MetricType
    labels: tuple[str, ...]
    prose: str


_GAUGE, _COUNTER = MetricType.GAUGE, MetricType.COUNTER

BUILD = MetricDefinition(
    "slackwater_build_info", _GAUGE, ("version",), "Always 1; the version that runs."
)
TICKS = MetricDefinition(
    "slackwater_ticks_total",
    _COUNTER,
    ("kind",),
    "Ticks, by kind: regular, or early (woken before the period ended).",
)
BLIND_ROUNDS = MetricDefinition(
    "slackwater_blind_rounds_total",
    _COUNTER,
    (),
    "Rounds without a tick, because the pod tree or, after a start, the objects could not be read.",
)
BLIND = MetricDefinition(
    "slackwater_blind",
    _GAUGE,
    (),
    "1 while the pod tree or, after a start, the objects cannot be read.",
)
PAUSED = MetricDefinition(
    "slackwater_paused", _GAUGE, (), "1 after a manual release, until the agent is restarted."
)
TICK_DURATION = MetricDefinition(
    "slackwater_tick_duration_seconds",
    MetricType.HISTOGRAM,
    (),
    "From reading the node to the last write.",
)
TICK_AGE = MetricDefinition(
    "slackwater_last_tick_age_seconds", _GAUGE, (), "Time since the last tick began."
)
PROBLEMS = MetricDefinition(
    "slackwater_configuration_problems",
    _GAUGE,
    (),
    "Configuration problems now; the last valid configuration stays in force.",
)
PROBLEMS_SEEN = MetricDefinition(
    "slackwater_configuration_problems_seen_total",
    _COUNTER,
    (),
    "Configuration problems since the start, each counted when it appears.",
)
ALLOCATABLE = MetricDefinition(
    "slackwater_node_cpu_allocatable_cores", _GAUGE, (), "CPU that the node offers to pods."
)
NODE_USAGE = MetricDefinition(
    "slackwater_node_cpu_usage_cores",
    _GAUGE,
    (),
    "CPU used by everything on the node, over the last tick.",
)
NODE_PRESSURE = MetricDefinition(
    "slackwater_node_cpu_pressure_seconds_total",
    _COUNTER,
    ("line",),
    "Time in which some tasks of the node waited for a CPU (PSI). Only with agent.reading: "
    "everything.",
)
PODS_USAGE = MetricDefinition(
    "slackwater_pods_cpu_usage_cores", _GAUGE, (), "CPU used by all pods, over the last tick."
)
TIER_USAGE = MetricDefinition(
    "slackwater_tier_cpu_usage_cores", _GAUGE, ("tier",), "CPU used by a tier, over the last tick."
)
TIER_QUOTA = MetricDefinition(
    "slackwater_tier_cpu_quota_cores",
    _GAUGE,
    ("tier",),
    "A tier's quota as read; +Inf is unlimited.",
)
TIER_THROTTLED = MetricDefinition(
    "slackwater_tier_cpu_throttled_ratio",
    _GAUGE,
    ("tier",),
    "Time that a tier's own quota held it back, over the last tick. All its CPUs together: on "
    "several of them it can be more than 1.",
)
TIER_PRESSURE = MetricDefinition(
    "slackwater_tier_cpu_pressure_seconds_total",
    _COUNTER,
    ("tier", "line"),
    "Time in which some tasks of a tier (line full: all) waited for a CPU (PSI). Only with "
    "agent.reading: everything, on cgroup v2.",
)
POD_USAGE = MetricDefinition(
    "slackwater_pod_cpu_usage_cores",
    _GAUGE,
    ("namespace", "pod"),
    "CPU used by a pod that exists now, over the last tick. Only with agent.reading: everything.",
)
POLICY_ENABLED = MetricDefinition(
    "slackwater_policy_enabled", _GAUGE, ("policy",), "1 if the policy is on, 0 if it is off."
)
POLICY_COURSE = MetricDefinition(
    "slackwater_policy_course",
    _GAUGE,
    ("policy", "course"),
    "1 for what the policy did in the last tick: acted; held, for lack of an input; released, "
    "after holding for too long. 0 for the others.",
)
POLICY_TICKS = MetricDefinition(
    "slackwater_policy_ticks_total",
    _COUNTER,
    ("policy", "course"),
    "Ticks by what the policy did in them.",
)
POLICY_NUMBER = MetricDefinition(
    "slackwater_policy_number",
    _GAUGE,
    ("policy", "number"),
    "Every number that the policy used in the last tick, as explain shows it: CPU in milliCPU, "
    "fractions in percent.",
)
THROTTLE_EVENTS = MetricDefinition(
    "slackwater_node_cpu_throttle_events_total",
    _COUNTER,
    ("resource",),
    "NodeCPUThrottleEvents: the best-effort tier was given another quota.",
)
THROTTLE_ASKED = MetricDefinition(
    "slackwater_node_cpu_throttle_asked_cores",
    _GAUGE,
    ("resource",),
    "The quota that the last NodeCPUThrottleEvent asked for, while its policy is on.",
)
KNOB_CHANGES = MetricDefinition(
    "slackwater_knob_changes_total",
    _COUNTER,
    ("knob", "level", "result"),
    "Attempts to change a knob, by how they ended.",
)
KNOB_REPAIRS = MetricDefinition(
    "slackwater_knob_repairs_total",
    _COUNTER,
    ("knob", "level"),
    "Values that another writer had changed and the agent wrote again.",
)
KNOB_YIELDS = MetricDefinition(
    "slackwater_knob_yields_total",
    _COUNTER,
    ("knob", "level"),
    "Values left to another writer that kept changing them.",
)
KNOBS_HELD = MetricDefinition(
    "slackwater_knobs_held", _GAUGE, (), "Knobs that the agent currently holds."
)
KNOBS_YIELDED = MetricDefinition(
    "slackwater_knobs_yielded", _GAUGE, (), "Knobs currently left to another writer."
)

SOURCE_AGE = MetricDefinition(
    "slackwater_source_age_seconds",
    _GAUGE,
    ("source",),
    "In a cluster: time since the last response or event from the API server for this kind of "
    "object. A working watch has one about once a minute.",
)
SOURCE_SILENT = MetricDefinition(
    "slackwater_source_silent",
    _GAUGE,
    ("source",),
    "In a cluster: 1 while this kind of object cannot be watched; the last known objects are used.",
)
NODE_WRITES = MetricDefinition(
    "slackwater_node_writes_total",
    _COUNTER,
    ("result",),
    "In a cluster: attempts to write the Node's report, by how they ended.",
)
EVENTS_LOST = MetricDefinition(
    "slackwater_events_lost_total", _COUNTER, (), "In a cluster: events that could not be sent."
)

METRICS: tuple[MetricDefinition, ...] = (
    BUILD, TICKS, TICK_DURATION, TICK_AGE, BLIND_ROUNDS, BLIND, PAUSED, PROBLEMS, PROBLEMS_SEEN,
    ALLOCATABLE, NODE_USAGE, NODE_PRESSURE, PODS_USAGE,
    TIER_USAGE, TIER_QUOTA, TIER_THROTTLED, TIER_PRESSURE, POD_USAGE,
    POLICY_ENABLED, POLICY_COURSE, POLICY_TICKS, POLICY_NUMBER, THROTTLE_EVENTS, THROTTLE_ASKED,
    KNOB_CHANGES, KNOB_REPAIRS, KNOB_YIELDS, KNOBS_HELD, KNOBS_YIELDED,
    SOURCE_AGE, SOURCE_SILENT, NODE_WRITES, EVENTS_LOST,
)  # fmt: skip

_HEAD = """\
# Metrics

What the agent serves at `/metrics`, in Prometheus's text format, or as OpenMetrics if the client
asks for it. CPU is in cores, time in seconds. A value that could not be read is absent, never zero;
while the agent is blind, every value that it would have read is absent. Counters start when the
agent does, except pressure, which the kernel counts from the cgroup's creation.

This page is generated from `slackwater.record.metric_table`; change the prose there.

| metric | type | labels | meaning |
|---|---|---|---|
"""


def page() -> str:
    """docs/reference/metrics.md."""
    return _HEAD + "".join(
        f"| `{each.name}` | {each.kind.value} | {', '.join(f'`{word}`' for word in each.labels)} "
        f"| {each.prose} |\n"
        for each in METRICS
    )
