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


class MetricSample(msgspec.Struct, frozen=True):
    """`labels` are values, in the order of the metric's labels."""

    metric: MetricDefinition
    value: float
    labels: tuple[str, ...] = ()


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
    "slackwater_paused", _GAUGE, (), "1 after a manual release, until `slackwater resume`."
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
LEDGER_PROBLEMS = MetricDefinition(
    "slackwater_ledger_problems",
    _GAUGE,
    (),
    "What is wrong with the ledger of changed values, such as lines of a newer version.",
)
THREADS = MetricDefinition(
    "slackwater_threads",
    _GAUGE,
    ("state",),
    "Threads that must live as long as the agent, by state: alive, or dead. With a dead one "
    "/healthz fails.",
)
ALLOCATABLE = MetricDefinition(
    "slackwater_node_cpu_allocatable_cores",
    _GAUGE,
    (),
    "CPU that the node offers to pods, in the machine's own CPUs: where it is amplified, the raw "
    "amount.",
)
AMPLIFIED_ALLOCATABLE = MetricDefinition(
    "slackwater_node_cpu_amplified_allocatable_cores",
    _GAUGE,
    (),
    "The same in normalized CPUs, as pods ask for them. Only where it is amplified.",
)
NORMALIZATION_RATIO = MetricDefinition(
    "slackwater_cpu_normalization_ratio",
    _GAUGE,
    (),
    "How many normalized CPUs one of this machine's is worth: pods' quotas are divided by it. 1 "
    "where normalization is off.",
)
NORMALIZATION_PROBLEM = MetricDefinition(
    "slackwater_cpu_normalization_problem",
    _GAUGE,
    (),
    "1 while the Node's ratio cannot be read and the last good one, if any, counts. Only where "
    "normalization is on.",
)
NORMALIZED_PODS = MetricDefinition(
    "slackwater_normalized_pods",
    _GAUGE,
    (),
    "Pods with a quota that is divided by the ratio. Only where normalization is on.",
)
NORMALIZED_QUOTA = MetricDefinition(
    "slackwater_pod_normalized_cpu_quota_cores",
    _GAUGE,
    ("namespace", "pod"),
    "A pod's quota after the division, in this machine's CPUs: its own, or its containers' "
    "together where that is less or only they are limited. Only where normalization is on, for at "
    "most 250 pods.",
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
CPUS_BY_USE = MetricDefinition(
    "slackwater_cpus",
    _GAUGE,
    ("use",),
    "The node's CPUs: exclusive (one container holds it alone), shared (of a container that shares "
    "it), reserved, default. Only where a policy looks at them, or somebody.",
)
PODS_WITHOUT_CPUS = MetricDefinition(
    "slackwater_pods_refused_cpus",
    _GAUGE,
    (),
    "Pods that ask for CPUs of their own and do not get them; explain says why.",
)

_RULE = ("object", "rule")
RULE_INFO = MetricDefinition(
    "slackwater_rule_info",
    _GAUGE,
    ("object", "rule", "metric", "action", "preview"),
    "Always 1, for each rule of the NodeQOS and NodeQOSEnsurancePolicy objects that this node "
    "follows, with its metric and action; preview is true for one that only tells. Of these and "
    "all others about rules at most 200 rules.",
)
RULE_STATE = MetricDefinition(
    "slackwater_rule_state",
    _GAUGE,
    (*_RULE, "state"),
    "1 for the state that the rule is in: quiet; triggered; cooling, below again before the "
    "action's cool-down is over; restoring, what was done is undone step by step. 0 for the "
    "others.",
)
RULE_SEEN = MetricDefinition(
    "slackwater_rule_seen",
    _GAUGE,
    _RULE,
    "What the rule saw in the last tick, in the unit of its metric: the largest of the series that "
    "count.",
)
RULE_LIMIT = MetricDefinition(
    "slackwater_rule_limit", _GAUGE, _RULE, "The rule's limit, in the unit of its metric."
)
RULE_TRIGGERS = MetricDefinition(
    "slackwater_rule_triggers_total",
    _COUNTER,
    _RULE,
    "How often the rule triggered, those in Preview too.",
)
RULE_RESTORES = MetricDefinition(
    "slackwater_rule_restores_total",
    _COUNTER,
    _RULE,
    "How often the rule was restored after it had triggered.",
)
RULE_GAPS = MetricDefinition(
    "slackwater_rule_gaps_total",
    _COUNTER,
    _RULE,
    "Ticks in which the rule's metric was missing, stale or unreadable.",
)
RULE_PODS = MetricDefinition(
    "slackwater_rule_throttled_pods",
    _GAUGE,
    (),
    "Pods that are throttled or demoted because of rules, at this tick.",
)
NODE_TAINTED = MetricDefinition(
    "slackwater_node_tainted",
    _GAUGE,
    (),
    "1 while rules stop scheduling to this node and the API server has taken the taint; 0 "
    "otherwise. Only where there are rules.",
)
COMMANDS = MetricDefinition(
    "slackwater_commands_total",
    _COUNTER,
    ("kind", "result"),
    "What was asked of the API server, by kind (evict, taint, condition, node resource) and how "
    "it went: done; refused, as by a PodDisruptionBudget, and tried again; impossible, nobody can "
    "carry it out here; undone, a taint, condition or resource was removed.",
)
COMMANDS_IN_FLIGHT = MetricDefinition(
    "slackwater_commands_in_flight",
    _GAUGE,
    ("kind", "state"),
    "Commands that are not finished: an eviction is until its pod is gone.",
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
TOPOLOGY_WRITES = MetricDefinition(
    "slackwater_topology_writes_total",
    _COUNTER,
    ("result",),
    "In a cluster: attempts to write the node's NodeResourceTopology, by how they ended: written; "
    "repaired, somebody had changed it; refused; unreachable.",
)
TOPOLOGY_UNREPORTED = MetricDefinition(
    "slackwater_topology_unreported",
    _GAUGE,
    (),
    "In a cluster: 1 while the node's NodeResourceTopology is not kept, as where another program "
    "manages it; /readyz says why.",
)
EVENTS_LOST = MetricDefinition(
    "slackwater_events_lost_total", _COUNTER, (), "In a cluster: events that could not be sent."
)

ANALYZER_STATUS = MetricDefinition(
    "crane_craneAgent_analyzer_status",
    _GAUGE,
    ("key", "type"),
    "By rule (key is object.rule): type avoidance is 1 while it is triggered, restore while what "
    "was done is undone, `analyzeError ` (Crane's, with a space at its end) while its metric is "
    "missing. With an empty key type enableScheduling is 0 while the node is tainted. As "
    "slackwater_rule_state, slackwater_rule_gaps_total and slackwater_node_tainted.",
)
ANALYZER_COUNT = MetricDefinition(
    "crane_craneAgent_analyzer_status_total",
    _COUNTER,
    ("key", "type"),
    "Triggers (type avoidance) and restores (type restore) of a rule; Crane's own stays at 0. As "
    "slackwater_rule_triggers_total and slackwater_rule_restores_total.",
)
EXECUTOR_STATUS = MetricDefinition(
    "crane_craneAgent_executor_status",
    _GAUGE,
    ("subcomponent", "step"),
    "1 while something is done, by subcomponent (schedule, throttle, evict) and step (avoid, "
    "restore). As slackwater_node_tainted, slackwater_rule_throttled_pods and "
    "slackwater_commands_in_flight.",
)
EXECUTOR_ERRORS = MetricDefinition(
    "crane_craneAgent_executor_error_total",
    _COUNTER,
    ("subcomponent", "step"),
    "Evictions, and changes of the taint, that were refused or that nobody can carry out. As "
    "slackwater_commands_total.",
)
EVICTIONS = MetricDefinition(
    "crane_craneAgent_executor_evict_total",
    _COUNTER,
    (),
    "Evictions that the API server took. As slackwater_commands_total.",
)
_RESOURCE = ("resource",)
OVERSOLD_SOLD = MetricDefinition(
    "slackwater_oversold_sold",
    _GAUGE,
    _RESOURCE,
    "Idle CPU (cores, normalized where CPU is) or memory (bytes) that the node offers as this "
    "extended resource.",
)
OVERSOLD_ALLOCATED = MetricDefinition(
    "slackwater_oversold_allocated",
    _GAUGE,
    _RESOURCE,
    "How much of it pods on the node ask for, in cores (normalized where CPU is) or bytes.",
)
OVERSOLD_USED = MetricDefinition(
    "slackwater_oversold_used",
    _GAUGE,
    _RESOURCE,
    "CPU or memory in use on the node by everything, in physical cores or bytes.",
)
OVERSOLD_PREDICTED = MetricDefinition(
    "slackwater_oversold_predicted",
    _GAUGE,
    _RESOURCE,
    "The most that is predicted to be used of what cannot be sold, in physical cores or bytes.",
)
OVERSOLD_EXCEEDED = MetricDefinition(
    "slackwater_oversold_exceeded_total",
    _COUNTER,
    _RESOURCE,
    "Ticks in which more could not be reclaimed than the tick before had predicted.",
)

#: Crane's names, for dashboards that were made for them; those that mean something here.
CRANE_METRICS: tuple[MetricDefinition, ...] = (
    ANALYZER_STATUS,
    ANALYZER_COUNT,
    EXECUTOR_STATUS,
    EXECUTOR_ERRORS,
    EVICTIONS,
)

STARTS_INTERCEPTED = MetricDefinition(
    "slackwater_container_starts_intercepted",
    _GAUGE,
    (),
    "1 while the container runtime asks before each start (NRI); 0 while new containers wait for "
    "the next tick.",
)
START_ANSWERS = MetricDefinition(
    "slackwater_container_start_answers_total",
    _COUNTER,
    ("call", "result"),
    "Questions of the container runtime, by call (create, update, or unknown where it could not be "
    "read) and result: adjusted, unchanged, or failed (the container started as asked for).",
)
START_DURATION = MetricDefinition(
    "slackwater_container_start_answer_seconds",
    MetricType.HISTOGRAM,
    (),
    "What an answer took; the container's start waits for it.",
)
RUNTIME_CONNECTIONS = MetricDefinition(
    "slackwater_runtime_connections_total",
    _COUNTER,
    (),
    "Registrations with the container runtime: more than one where it was lost and found again.",
)

METRICS: tuple[MetricDefinition, ...] = (
    BUILD, TICKS, TICK_DURATION, TICK_AGE, BLIND_ROUNDS, BLIND, PAUSED, PROBLEMS, PROBLEMS_SEEN,
    LEDGER_PROBLEMS, THREADS,
    ALLOCATABLE, AMPLIFIED_ALLOCATABLE, NODE_USAGE, NODE_PRESSURE, PODS_USAGE,
    TIER_USAGE, TIER_QUOTA, TIER_THROTTLED, TIER_PRESSURE, POD_USAGE,
    POLICY_ENABLED, POLICY_COURSE, POLICY_TICKS, POLICY_NUMBER, THROTTLE_EVENTS, THROTTLE_ASKED,
    KNOB_CHANGES, KNOB_REPAIRS, KNOB_YIELDS, KNOBS_HELD, KNOBS_YIELDED,
    CPUS_BY_USE, PODS_WITHOUT_CPUS,
    NORMALIZATION_RATIO, NORMALIZATION_PROBLEM, NORMALIZED_PODS, NORMALIZED_QUOTA,
    RULE_INFO, RULE_STATE, RULE_SEEN, RULE_LIMIT, RULE_TRIGGERS, RULE_RESTORES, RULE_GAPS,
    OVERSOLD_SOLD, OVERSOLD_ALLOCATED, OVERSOLD_USED, OVERSOLD_PREDICTED, OVERSOLD_EXCEEDED,
    RULE_PODS, NODE_TAINTED, COMMANDS, COMMANDS_IN_FLIGHT,
    STARTS_INTERCEPTED, START_ANSWERS, START_DURATION, RUNTIME_CONNECTIONS,
    SOURCE_AGE, SOURCE_SILENT, NODE_WRITES, EVENTS_LOST,
    TOPOLOGY_WRITES, TOPOLOGY_UNREPORTED,
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


_CRANE_HEAD = """
## Crane's names

With [`agent.craneMetrics`](settings.md) the agent serves these as well, for dashboards and alerts
that were made for crane-agent. Names, labels and their values are Crane's; each stands for metrics
of the table above, which say more. Crane's metrics of its own internals, such as
`step_duration_seconds`, have no counterpart.

| metric | type | labels | meaning |
|---|---|---|---|
"""


def page() -> str:
    """docs/reference/metrics.md."""
    return f"{_HEAD}{_rows(METRICS)}{_CRANE_HEAD}{_rows(CRANE_METRICS)}"


def _rows(metrics: tuple[MetricDefinition, ...]) -> str:
    return "".join(
        f"| `{each.name}` | {each.kind.value} | {', '.join(f'`{word}`' for word in each.labels)} "
        f"| {each.prose} |\n"
        for each in metrics
    )
